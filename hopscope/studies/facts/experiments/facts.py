"""Factual recall: three phases of learning, and what attention and MLP hold (Bietti's talk, card 2).

After Nichani, Lee & Bietti (2024, arXiv:2412.06538; code eshnich/factual-recall-iclr). Section 6: linear attention on
one-hot tokens knows nothing at first, then answers from p(a | r) as if the subject did not matter, the hallucination
phase, then knows all. Section 5: one layer of softmax attention, with or without MLP, holds facts in proportion to its
parameters, wherever they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from pandas import DataFrame

from hopscope.core.storage import read_json
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.capacity import ENOUGH, capacity, tries_of
from hopscope.experiments.judging import Claim, Limit, around, between, bound, factor, judge, power_law
from hopscope.experiments.work import Finished, Work
from hopscope.studies.facts.work import CURVES, FactCapacity, Linear, TradeOff, phases

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 480, "paper": 200_000}
CLAIMS = (
    "starts_at_chance",
    "three_phases",
    "hallucination_at_ln_d",
    "subject_is_ignored",
    "answers_from_relation",
    "when_phases_change",
    "ends_solved",
    "random_facts_too",
    "control_has_no_phase",
    "facts_per_parameter",
    "attention_alone_suffices",
    "mlp_replaces_heads",
)

TALK, PAPER = "card 2 (Bietti)", "card 2; Nichani et al., "
PER_PARAMETER = 0.15  # facts, the published line
PHASE_TINTS = {"nothing known": GREY, "hallucination": "#D55E00", "all known": "#009E73"}

#: Runs of the linear model: seeds with even facts; its settings. Shapes of the capacity sweep, the trade-off's grid.
SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "linear": (1, {"steps": 128, "batch": 32, "log_every": 32}),
        "capacity": ((8,), ((1.0, 0.0),), 1),
        "search": {"low": 2, "high": 5, "length": 6, "steps": 64, "batch": 64, "n_heads": 4},
        "grid": ((1,), (0, 8)),
        "trade": {"size": 3, "d": 8, "d_head": 2, "length": 6, "steps": 32, "batch": 64},
    },
    "cpu": {
        "linear": (2, {}),
        "capacity": ((8, 16, 24), ((1.0, 0.0), (2.0, 0.0), (1.0, 1.0), (0.5, 2.0)), 1),
        "search": {"precision": 1.08, "length": 8, "steps": 3072, "batch": 512, "n_heads": 4},
        "grid": ((1, 2, 4, 8), (0, 16, 32, 64)),
        "trade": {"size": 12, "d": 16, "d_head": 4, "length": 8, "steps": 3072, "batch": 512},
    },
    "paper": {
        "linear": (5, {}),
        "capacity": (
            tuple(int(2**i) for i in numpy.arange(3, 8, 0.5)),
            tuple((alpha, beta) for alpha in (0.25, 0.5, 1.0, 2.0, 4.0) for beta in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)),
            1,
        ),
        "search": {"low": 8, "high": 512},
        "grid": (
            (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32),
            (0, 1, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128),
        ),
        "trade": {},
    },
}


def runs(scale: str) -> Iterator[Work]:
    """The linear model on even facts, over seeds, on random ones and on the control; the sweep; the grid."""
    sizes = SIZES[scale]
    seeds, how = sizes["linear"]
    for seed in range(seeds):
        yield Linear(seed=seed, **how)
    for facts in ("random", "anywhere"):
        yield Linear(facts=facts, **how)
    widths, shapes, n_seeds = sizes["capacity"]
    for alpha, beta in shapes:
        for d in widths:
            about = dict(sizes["search"])
            if scale == "cpu":  # a bracket around the published line: failures are what costs
                expected = (PER_PARAMETER * (4 * alpha + 2 * beta) * d * d) ** 0.5
                about |= {"low": max(2, int(0.5 * expected)), "high": int(1.4 * expected) + 2}
            for seed in range(n_seeds):
                yield FactCapacity(d=d, alpha=alpha, beta=beta, seed=seed, **about)
    for n_heads in sizes["grid"][0]:
        for d_mlp in sizes["grid"][1]:
            yield TradeOff(n_heads, d_mlp, **sizes["trade"])


def table(finished: list[Finished], scale: str) -> DataFrame:
    """A row per point of a curve, per size tried in a search, per cell of the grid; `kind` says which."""
    rows: list[dict[str, Any]] = []
    for one in finished:
        work = one.work
        about = {"run": one.work.identity, "version": one.version, "seed": work.as_dict()["seed"]}
        if isinstance(work, Linear):
            about |= {"kind": "curve", "facts": work.facts}
            about |= {"relations": work.n_relations, "answers": work.n_answers}
            curves = read_json(one.path / "curves.json")
            rows += [{**about, **dict(zip(CURVES, point, strict=True))} for point in zip(*curves.values(), strict=True)]
        elif isinstance(work, FactCapacity):
            tries = tries_of(one.path)
            about |= {"kind": "capacity", "d": work.d, "alpha": work.alpha, "beta": work.beta}
            about |= {"parameters": work.n_parameters, "held": capacity(tries) ** 2}
            rows += [{**about, "size": size, "recall": recall} for size, recall in sorted(tries.items())]
        elif isinstance(work, TradeOff):
            attention, mlp = 4 * work.n_heads * work.d_head * work.d, 2 * work.d_mlp * work.d
            about |= {"kind": "trade_off", "heads": work.n_heads, "d_mlp": work.d_mlp, "size": work.size}
            recall = read_json(one.path / "recall.json")["recall"]
            rows.append({**about, "attention": attention, "mlp": mlp, "recall": recall})
    return DataFrame(rows)


def phases_of(table: DataFrame, facts: str = "even") -> DataFrame:
    """Per run of the linear model and phase its first and last step, and means of the curves within it."""
    rows = []
    for run, curve in table[(table.kind == "curve") & (table.facts == facts)].groupby("run"):
        curve = curve.sort_values("step")
        chance = math.log(curve.relations.iloc[0]), math.log(curve.answers.iloc[0])
        steps = curve.step.tolist()
        found = phases(steps, curve.relation_only.to_numpy(), curve.subject_only.to_numpy(), chance)
        for phase, (first, last) in found.items():
            inside = curve[curve.step.between(first, last)]
            means = {name: inside[name].mean() for name in CURVES[1:]}
            rows.append({"run": run, "seed": curve.seed.iloc[0], "phase": phase, "first": first, "last": last, **means})
    return DataFrame(rows)


@styled
def figure(table: DataFrame) -> Figure:
    """Curves with their phases, the control's, facts over parameters, and the grid of heads and MLP."""
    shown = picture(10.0, 7.4)
    even, control, facts, grid = shown.subplots(2, 2).flatten()
    curves(even, table, "even", "Facts of subject and relation, and the phases found")
    curves(control, table, "anywhere", "Control: relations have no answers of their own")
    held(facts, table)
    cells = table[table.kind == "trade_off"]
    dots = grid.scatter(cells.attention, cells.mlp, c=cells.recall, cmap="viridis", vmin=0, vmax=1, s=60)
    enough = cells[cells.recall >= ENOUGH]
    grid.scatter(enough.attention, enough.mlp, s=150, facecolors="none", edgecolors="black")
    shown.colorbar(dots, ax=grid, label="recall (ring: 0.99)")
    grid.set(xlabel="attention's parameters", ylabel="MLP's parameters", title="The same facts in either")
    return shown


def curves(ax: Axes, table: DataFrame, facts: str, title: str) -> None:
    """Losses of the first seed; behind them its phases."""
    rows = table[(table.kind == "curve") & (table.facts == facts)]
    rows = rows[rows.seed == rows.seed.min()].sort_values("step")
    for index, (name, words) in enumerate(
        (("loss", "whole answer"), ("relation_only", "relation only"), ("subject_only", "subject only"))
    ):
        ax.plot(rows.step, rows[name], lw=1.4, color=colour(index), label=words)
    ax.plot(rows.step, rows.other_subject, lw=1.0, ls=":", color=GREY, label="asked with another subject")
    found = phases_of(table, facts)
    for phase in found[found.run == rows.run.iloc[0]].itertuples():
        if phase.first == phase.first:
            tint = PHASE_TINTS[str(phase.phase)]
            ax.axvspan(phase.first, phase.last, color=tint, alpha=0.12, lw=0, label=f"{phase.phase}")  # type: ignore[arg-type]
    answers, relations = rows.answers.iloc[0], rows.relations.iloc[0]
    for level in (math.log(answers * relations), math.log(answers)):
        ax.axhline(level, color=GREY, lw=0.8, ls="--", zorder=0)
    ax.set(
        xlabel="steps of gradient descent", ylabel="nats", ylim=(0, 1.6 * math.log(answers * relations)), title=title
    )
    ax.legend(fontsize=7, ncols=2, loc="upper right")


def held(ax: Axes, table: DataFrame) -> None:
    """Facts held over parameters, a colour for attention only and one with MLP."""
    found = swept(table).dropna(subset="held")
    for index, (with_mlp, words) in enumerate(((False, "attention only"), (True, "attention and MLP"))):
        part = found[(found.beta > 0) == with_mlp]
        if len(part):
            ax.plot(part.parameters, part.held, "o", ms=4, color=colour(index), label=words)
    if len(found):
        ends = numpy.array([found.parameters.min(), found.parameters.max()])
        ax.plot(ends, PER_PARAMETER * ends, "--", lw=1.0, color=GREY, label="0.15 per parameter (paper)")
        ax.legend(fontsize=7)
    ax.set(xscale="log", yscale="log", xlabel="parameters", ylabel="facts recalled", title="What one layer holds")
    ax.xaxis.set_minor_formatter(NullFormatter())  # its labels would overlap


def swept(table: DataFrame) -> DataFrame:
    """A row per search, that of the smallest size it tried."""
    return table[table.kind == "capacity"].sort_values("size").drop_duplicates("run").sort_index()


def claims(table: DataFrame) -> Iterator[Claim]:
    """The phases, their control, the sweep, the grid."""
    even = phases_of(table)
    yield from phase_claims(table, even)
    yield from content_claims(table, even[even["phase"] == "hallucination"])
    yield from other_facts(table)
    yield per_parameter(swept(table))
    yield from trade_offs(table[table.kind == "trade_off"])


def phase_claims(table: DataFrame, found: DataFrame) -> Iterator[Claim]:
    """Where training starts, goes through, and ends."""
    curve = table[(table.kind == "curve") & (table.facts == "even")]
    start, end = (curve[curve.step == step] for step in (0, curve.step.max()))
    chance = math.log(curve.relations.iloc[0] * curve.answers.iloc[0])
    yield judge(
        "starts_at_chance",
        f"Training starts at ln(R D) = {chance:.3f}: all answers alike.",
        start.loss,
        "loss at step 0",
        section=PAPER + "6",
        rows=start,
        within=around(chance, 1e-3),
        source="ln(R D), exact but for the start's 1e-5",
    )
    yield from order_of_phases(found)
    yield judge(
        "ends_solved",
        f"By step {end.step.max():.0f} the loss is below 0.01 and every answer right: gradient descent converges.",
        end.loss,
        "loss",
        section=PAPER + "6",
        rows=end,
        number="mean",
        below=0.01,
        also=[bound("accuracy", end.accuracy, equals=1)],
    )


def order_of_phases(found: DataFrame) -> Iterator[Claim]:
    """That there are three phases, and when one gives way to the next."""
    firsts, lasts = (found.pivot(index="run", columns="phase", values=end) for end in ("first", "last"))
    ordered = (firsts["nothing known"] < firsts["hallucination"]) & (firsts["hallucination"] < firsts["all known"])
    halves = found[found["phase"] == "hallucination"]
    lasting = halves["last"] - halves["first"]
    yield judge(
        "three_phases",
        "Three phases follow each other, found from the two partial losses: nothing known; the relation known and the "
        "subject ignored; all known (number: steps that the second lasts).",
        lasting,
        section=TALK,
        rows=halves,
        number=lasting.mean() if ordered.any() else 0.0,
        also=[bound("runs with all three, in this order,", ordered, of="share of", equals=1)],
        source="ours: known below 0.1, unknown above 0.9 of ln R, ln D",
    )
    plateau, middle = lasts["nothing known"], lasts["hallucination"]
    listed = f"{plateau.mean():.0f} and {middle.mean():.0f}" if middle.notna().any() else "no such steps"
    yield judge(
        "when_phases_change",
        f"The first plateau lasts until about step 1,700, the hallucination phase until about 3,900 (ours: {listed}; "
        "number: the ratio of the two).",
        middle / plateau,
        section=TALK,
        rows=halves,
        also=[
            bound(f"ratio of the last step {of} to {step:,}", steps / step, within=around(1, 0.15))
            for of, steps, step in (("of the plateau", plateau, 1700), ("of the phase", middle, 3900))
        ],
        source="reference run",
    )


def content_claims(table: DataFrame, middle: DataFrame) -> Iterator[Claim]:
    """What the model says in the hallucination phase."""
    level = math.log(table.answers.max())
    yield judge(
        "hallucination_at_ln_d",
        f"In the middle phase the loss stands at ln D = {level:.3f}.",
        middle["loss"],
        "mean loss of the phase",
        section=TALK,
        rows=middle,
        within=around(level, 0.1),
        source="ln D",
    )
    curve = table[(table.kind == "curve") & (table.facts == "even")]
    end = curve[curve.step == curve.step.max()]
    later = end.other_subject - end.loss
    yield judge(
        "subject_is_ignored",
        "There the model ignores the subject: with another one in the sentence the loss is the same; at the end that "
        f"costs {later.mean():.1f} nats.",
        middle["other_subject"] - middle["loss"],
        "mean cost in the phase (nats)",
        section=TALK,
        rows=middle,
        within=around(0, 0.1),
        also=[bound("cost at the end", later, above=level)],
        source="ours; ln D",
    )
    yield judge(
        "answers_from_relation",
        "What it says there is p(a | r): even over the relation's answers.",
        middle["from_relation"],
        "mean KL(p(a | r) ‖ model) in the phase (nats)",
        section=TALK,
        rows=middle,
        number="mean",
        below=0.1,
        source="ours",
    )


def other_facts(table: DataFrame) -> Iterator[Claim]:
    """The same training where facts are random, and where the relation decides nothing."""
    kinds: tuple[tuple[str, str, str, Limit], ...] = (
        (
            "random_facts_too",
            "random",
            "Facts drawn at random within each relation's answers go through the same phase.",
            {"above": 0},
        ),
        (
            "control_has_no_phase",
            "anywhere",
            "Facts drawn from all answers, so that p(a | r) tells little: no such phase is found.",
            {"at_most": 0},
        ),
    )
    for name, facts, sentence, limit in kinds:
        found = phases_of(table, facts)
        middle = found[found["phase"] == "hallucination"]
        yield judge(
            name,
            f"{sentence} (Number: its steps.)",
            (middle["last"] - middle["first"]).fillna(0.0),
            "number of steps of a hallucination phase",
            section=PAPER + "6, ours",
            rows=middle,
            number="mean",
            source="ours",
            **limit,
        )


def per_parameter(found: DataFrame) -> Claim:
    """Facts against parameters, over widths and shapes.

    A search in which no size passed counts as if its smallest had: to leave it out would flatter the mean.
    """
    at_most = found["size"] ** 2
    counted = found.held.fillna(at_most)
    _, exponent = power_law(found.parameters, counted)
    shares = counted / found.parameters
    by_kind = shares.groupby(found.beta > 0).mean()
    words = ", ".join(f"{'with' if mlp else 'without'} MLP {share:.3f}" for mlp, share in by_kind.items())
    words += f"; in {found.held.isna().sum()} of {len(found)} searches no size passed, and the smallest is counted"
    return judge(
        "facts_per_parameter",
        f"The facts that one layer holds grow as its parameters, about 0.15 for each (fitted exponent {exponent:.2f}; "
        f"{words}).",
        shares,
        "number of facts per parameter",
        section=PAPER + "5",
        rows=found,
        of="mean",
        within=factor(PER_PARAMETER, 2),
        also=[bound("the exponent", exponent, within=between(0.8, 1.2))],
        source="paper's line; bounds ours",
    )


def trade_offs(cells: DataFrame) -> Iterator[Claim]:
    """Which cells of the grid recall the same facts."""
    alone = cells[cells.d_mlp == 0]
    yield judge(
        "attention_alone_suffices",
        f"Attention alone, with enough heads, recalls all of {int(cells['size'].max() ** 2)} facts.",
        alone.recall,
        "recall without MLP",
        section=PAPER + "5",
        rows=alone,
        of="highest",
        at_least=ENOUGH,
    )
    most = cells.attention.max() * 2
    needed = pandas.Series(
        {
            width: part[part.recall >= ENOUGH].attention.min()
            for width, part in cells.sort_values("d_mlp").groupby("d_mlp")
        }
    ).fillna(most)
    listed = ", ".join(f"m = {m:.0f}: {'none' if x == most else f'{x:.0f}'}" for m, x in needed.items())
    yield judge(
        "mlp_replaces_heads",
        "Parameters of the MLP replace those of attention: the wider the MLP, the fewer attention needs for the same "
        f"facts (attention's parameters by MLP width: {listed}).",
        needed.iloc[-1] / needed.iloc[0],
        "ratio of attention's parameters with the widest MLP to those without",
        section=PAPER + "5",
        rows=cells,
        below=1,
        also=[bound("change from one width to the next wider", needed.diff().dropna(), at_most=0)],
    )

"""The claims of `facts`: phases, their control, capacity searches and the grid of sizes; from the table alone."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
from pandas import DataFrame, Series

from hopscope.core.intervals import interval_of_mean
from hopscope.experiments.capacity import ENOUGH
from hopscope.experiments.judging import Bound, Claim, Evidence, Limit, around, between, bound, factor
from hopscope.experiments.values import power_law
from hopscope_studies.facts.phases import phases

#: What is claimed, by id: the sentence, what each value is, where the source says it, and whose threshold it is.
CLAIMS = tomllib.loads((Path(__file__).parent / "data" / "claims.toml").read_text())
PER_PARAMETER = 0.15  # facts, the published line
GAIN = 0.1  # recall that counts as added (ours)
SEEDS = 5  # of facts and weights, without which the grid decides nothing (ours)
MEANS = ["loss", "other_subject", "from_relation"]  # of which claims need the mean over a phase


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the phases, their control, the capacity searches and the grid of sizes."""
    even = phases_of(table)
    yield from phase_claims(table, even)
    yield from content_claims(table, even[even["phase"] == "hallucination"])
    yield from other_facts(table)
    yield from capacities(swept(table))
    yield from trade_offs(table[table.kind == "trade_off"])


def told(rows: DataFrame, id: str, values: Any, *fills: Any, **how: Any) -> Claim:
    """A claim of `data/claims.toml` about some rows; `fills` are the numbers that its sentence leaves open."""
    about = CLAIMS[id]
    evidence = Evidence(rows, about["section"], about.get("source", "ours"))
    return evidence.claim(id, about["sentence"].format(*fills), values, about.get("what", ""), **how)


def phases_of(table: DataFrame, facts: str = "even") -> DataFrame:
    """A row per run of the linear model and phase: first and last step, and the means of curves within it."""
    rows = []
    for run, curve in table[(table.kind == "curve") & (table.facts == facts)].groupby("run"):
        curve = curve.sort_values("step")
        chance = math.log(curve.relations.iloc[0]), left_to_the_subject(curve.iloc[0])
        steps = curve.step.tolist()
        found = phases(steps, curve.relation_only.to_numpy(), curve.subject_only.to_numpy(), chance)
        for phase, (first, last) in found.items():
            means = curve[curve.step.between(first, last)][MEANS].mean().to_dict()
            rows.append({"run": run, "seed": curve.seed.iloc[0], "phase": phase, "first": first, "last": last, **means})
    return DataFrame(rows)


def left_to_the_subject(start: Series) -> float:
    """The loss of ignoring the subject, in nats: H(a | r), which is ln D if all answers are equally frequent.

    The first loss is this entropy plus the divergence from p(a | r). For randomly drawn facts the entropy is below ln
    D.
    """
    return min(math.log(start.answers), float(start.loss - start.from_relation))


def swept(table: DataFrame) -> DataFrame:
    """A row per search: that of the smallest size that it tried."""
    return table[table.kind == "capacity"].sort_values("size").drop_duplicates("run").sort_index()


def phase_claims(table: DataFrame, found: DataFrame) -> Iterator[Claim]:
    """Claims about where training starts, which phases it goes through, and where it ends."""
    curve = table[(table.kind == "curve") & (table.facts == "even")]
    start, end = (curve[curve.step == step] for step in (0, curve.step.max()))
    chance = math.log(curve.relations.iloc[0] * curve.answers.iloc[0])
    yield told(start, "starts_at_chance", start.loss, chance, within=around(chance, 1e-3))
    yield from order_of_phases(found)
    yield told(
        end,
        "ends_solved",
        end.loss,
        end.step.max(),
        number="mean",
        below=0.01,
        also=[bound("accuracy", end.accuracy, equals=1)],
    )


def order_of_phases(found: DataFrame) -> Iterator[Claim]:
    """Claims that there are three phases, and when one is followed by the next."""
    firsts, lasts = (found.pivot(index="run", columns="phase", values=end) for end in ("first", "last"))
    ordered = (firsts["nothing known"] < firsts["hallucination"]) & (firsts["hallucination"] < firsts["all known"])
    halves = found[found["phase"] == "hallucination"]
    lasting = halves["last"] - halves["first"]
    yield told(
        halves,
        "three_phases",
        lasting,
        number=lasting.mean() if ordered.any() else 0.0,
        also=[bound("runs with all three, in this order,", ordered, of="share of", equals=1)],
    )
    plateau, middle = lasts["nothing known"], lasts["hallucination"]
    yield told(
        halves,
        "when_phases_change",
        middle / plateau,
        also=[
            bound(f"ratio of the last step {of} to {step:,}", steps / step, within=around(1, 0.15))
            for of, steps, step in (("of the plateau", plateau, 1700), ("of the phase", middle, 3900))
        ],
    )


def content_claims(table: DataFrame, middle: DataFrame) -> Iterator[Claim]:
    """Claims about the model's answers in the hallucination phase."""
    level = math.log(table.answers.max())
    yield told(middle, "hallucination_at_ln_d", middle["loss"], level, within=around(level, 0.1))
    curve = table[(table.kind == "curve") & (table.facts == "even")]
    end = curve[curve.step == curve.step.max()]
    later = end.other_subject - end.loss
    yield told(
        middle,
        "subject_is_ignored",
        middle["other_subject"] - middle["loss"],
        within=around(0, 0.1),
        also=[bound("cost at the end", later, above=level)],
    )
    yield told(middle, "answers_from_relation", middle["from_relation"], number="mean", below=0.1)


def other_facts(table: DataFrame) -> Iterator[Claim]:
    """Claims about training on random facts, and on relations that do not restrict the answer."""
    kinds: tuple[tuple[str, str, Limit], ...] = (
        ("random_facts_too", "random", {"above": 0}),
        ("control_has_no_phase", "anywhere", {"at_most": 0}),
    )
    for id, facts, limit in kinds:
        found = phases_of(table, facts)
        middle = found[found["phase"] == "hallucination"]
        yield told(middle, id, (middle["last"] - middle["first"]).fillna(0.0), number="mean", **limit)


def capacities(found: DataFrame) -> Iterator[Claim]:
    """Claims about facts per parameter, for each shape's longest training, and about the effect of longer training."""
    shape = ["d", "alpha", "beta", "seed"]
    yield per_parameter(found[found.steps == found.groupby(shape).steps.transform("max")])
    short, longer = (found[found.steps == end] for end in (found.steps.min(), found.steps.max()))
    if found.steps.nunique() < 2:
        return
    both = longer.merge(short, on=shape, suffixes=("", "_short"))
    held, before = (both["held" + end].fillna(both["size" + end] ** 2) for end in ("", "_short"))
    gaps = numpy.log(PER_PARAMETER * both.parameters / before)
    yield told(
        longer,
        "short_training_is_why",
        numpy.log(held / before) / gaps,
        found.steps.max() / found.steps.min(),
        of="mean",
        at_least=0.5,
    )


def per_parameter(found: DataFrame) -> Claim:
    """The claim about the number of facts against the number of parameters, over widths and shapes.

    A search in which no size passed counts as if its smallest size had passed: without it the mean would be too high.
    """
    at_most = found["size"] ** 2
    counted = found.held.fillna(at_most)
    _, exponent = power_law(found.parameters, counted)
    shares = counted / found.parameters
    return told(
        found,
        "facts_per_parameter",
        shares,
        found.held.isna().sum(),
        len(found),
        of="mean",
        within=factor(PER_PARAMETER, 2),
        also=[bound("the exponent", exponent, within=between(0.8, 1.2))],
    )


def trade_offs(cells: DataFrame) -> Iterator[Claim]:
    """Claims about which cells of the grid recall their facts; each seed draws its own facts and weights."""
    alone, seeds = cells[cells.d_mlp == 0], cells.seed.nunique()
    enough = bound("the number of seeds", float(seeds), at_least=SEEDS)
    yield told(
        alone,
        "attention_alone_suffices",
        alone.groupby("seed").recall.max(),
        int(cells["size"].max() ** 2),
        n=seeds,
        at_least=ENOUGH,
        provided=enough,
    )
    most = 2 * cells.attention.max()
    needs = {seed: needed(part, most) for seed, part in cells.groupby("seed")}
    changes = [change for need in needs.values() for change in need.diff().dropna()]
    yield told(
        cells,
        "mlp_replaces_heads",
        Series({seed: need.iloc[-1] / need.iloc[0] for seed, need in needs.items()}, dtype=float).rename_axis("seed"),
        n=seeds,
        below=1,
        also=[bound("change from one width to the next wider", changes, at_most=0)],
        provided=enough,
    )
    yield gain_of_mlp(cells, enough)


def needed(cells: DataFrame, most: float) -> Series:
    """The fewest attention parameters that recall all facts, by width of the MLP; `most` if no cell does."""
    passed = cells.attention.where(cells.recall >= ENOUGH)
    return passed.groupby(cells.d_mlp).min().fillna(most)


def gain_of_mlp(cells: DataFrame, enough: Bound) -> Claim:
    """The claim about the recall that the widest MLP adds if attention is too small, with an interval over seeds."""
    recall = cells.pivot(index=["attention", "seed"], columns="d_mlp", values="recall")
    gains = (recall.iloc[:, -1] - recall.iloc[:, 0]).unstack("seed").dropna()  # attention that every seed has
    each = gains[gains.index < cells.attention.max()].mean()
    ends = interval_of_mean(each.tolist())
    return told(
        cells,
        "mlp_adds_recall",
        each,
        *ends,
        n=len(each),
        number="mean",
        also=[bound("the interval's lower end", ends[0], above=GAIN)],
        provided=enough,
    )

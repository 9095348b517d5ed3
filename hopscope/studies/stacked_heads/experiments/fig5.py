"""The circuits of deep transformers with one head per layer (Musat, ICLR 2025, figure 5, section 8).

The paper reads the circuits of Transformers A, B and C (12 layers, D = 3, three seeds) off their attention maps. Here
`hopscope.circuits` finds and validates them. At the size that two cores train in minutes: 12 layers of half the demo's
width, D = 2, six seeds. The yardstick is the fewest heads that any circuit can do with (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluator import Evaluator, Hard
from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.circuit_diagram import circuit_diagram
from hopscope.drawing.style import picture, styled
from hopscope.experiments.base import Claim, verdict
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.depth import chain_of
from hopscope.theory.flow import simulate
from hopscope.theory.schedules import redundancy

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 640, "paper": 40_000}
CLAIMS = (
    "solved",
    "circuits_by_joint_replacement",
    "few_heads_in_use",
    "more_heads_than_needed",
    "two_heads_combine",
    "first_head_joins_pairs",
    "circuits_differ",
    "every_path_is_needed",
    "first_layer_costs_little",
)


Head = tuple[int, int]
NONE = "none"  # in place of a path, where a run has no circuit
FRESH = 1  # seed of the sequences of appendix E's last step


def runs(scale: str) -> Iterator[Config]:
    """Deep models of one head per layer, over seeds."""
    if scale == "paper":
        yield from (recipe("transformer_abc").config(seed=seed) for seed in range(3))
        return
    demo = recipe("demo")
    if scale == "quick":
        small = demo.config(steps=20, batch=16, log_every=10, val_size=32, checkpoints="20", decay_steps=10)
        yield Config(small.task, small.model.but(n_layers=3, d_model=16), small.training)
        return
    for seed in range(6):
        config = demo.config(seed=seed, steps=1200, decay_steps=500, checkpoints="100")
        yield Config(config.task, config.model.but(n_layers=12, d_model=64), config.training)


def table(runs: list[Run]) -> DataFrame:
    """A row per path of every run's circuit; a run without a circuit has one row, whose path is `none`.

    Columns of the run: run, version, seed, D, order, layers, heads_in_model, mse (on fresh sequences), verdict;
    by_hand, live, null (losses of the circuit); heads, fewest (of the circuit, and how many would do), n (sequences).
    Columns of the path: path, strength, removal_loss (of the circuit live), removal_by_hand (with patterns by hand).
    """
    rows = [row for run in runs for row in rows_of(run)]
    return DataFrame(rows)


def rows_of(run: Run) -> Iterator[dict[str, Any]]:
    """One run's rows."""
    task = run.task
    assert isinstance(task, Retrieval) and run.report is not None
    circuit = circuit_of(run)
    about = {
        "run": run.config.identity,
        "version": run.sessions[-1]["environment"]["code"],
        "seed": run.config.training.seed,
        "D": task.n_hops,
        "order": task.order,
        "layers": run.config.model.n_layers,
        "heads_in_model": run.config.model.n_layers * run.config.model.n_heads,
        "mse": run.report["loss"],
        "threshold": circuit.threshold,
        "n": circuit.protocol["report"],
        **measured(circuit, task),
    }
    if not circuit.accepted:
        nothing = float("nan")
        yield about | {"path": NONE, "strength": nothing, "removal_loss": nothing, "removal_by_hand": nothing}
        return
    for found, by_hand in zip(circuit.paths, without_each(run, circuit), strict=True):
        numbers = {"strength": found.strength, "removal_loss": found.removal_loss, "removal_by_hand": by_hand}
        yield about | {"path": str(found.path), **numbers}


def without_each(run: Run, circuit: Circuit) -> list[float]:
    """The loss with all patterns by hand but one path's, which is uniform (appendix E, step 6); on fresh sequences."""
    fresh = Evaluator(run.model, run.task.sample(circuit.protocol["report"], FRESH))
    strengths = {found.path: found.strength for found in circuit.paths}
    rest = [{path: weight for path, weight in strengths.items() if path != one} for one in strengths]
    return [loss.mean for loss in fresh.losses(Hard(paths) for paths in rest)]


def measured(circuit: Circuit, task: Retrieval) -> dict[str, Any]:
    """The circuit's losses, and its heads against the fewest that would do."""
    paths = [found.path for found in circuit.paths]
    yardstick = redundancy(paths, task.n_hops, "causal", task.order) if circuit.accepted else None
    return {
        "verdict": circuit.verdict,
        "by_hand": circuit.losses["circuit"].mean,
        "live": circuit.losses["live"].mean,
        "null": circuit.losses["null"].mean,
        "heads": yardstick.heads if yardstick else float("nan"),
        "fewest": yardstick.fewest_heads if yardstick else float("nan"),
    }


@styled
def figure(table: DataFrame) -> Figure:
    """Every run's circuit on one chain, layers upward, as in the paper's figure 5."""
    found = [(seed, rows) for seed, rows in table.groupby("seed") if (rows.path != NONE).all()]
    columns = min(2, max(1, len(found)))
    bands = -(-len(found) // columns)
    shown = picture(8.6 * columns, 6.4 * max(1, bands))
    if not found:
        shown.text(0.5, 0.5, "no run has a circuit", ha="center")
        return shown
    axes = shown.subplots(bands, columns, squeeze=False).flatten()
    for ax in axes[len(found) :]:
        ax.set_visible(False)
    for ax, (seed, rows) in zip(axes, found, strict=False):
        task = Retrieval(n_hops=int(rows.D.iloc[0]), order=str(rows.order.iloc[0]))
        strengths = {Path.parse(text): value for text, value in zip(rows.path, rows.strength, strict=True)}
        removal = {Path.parse(text): value for text, value in zip(rows.path, rows.removal_loss, strict=True)}
        title = f"seed {seed}, loss by hand {rows.by_hand.iloc[0]:.3f}"
        roles = task.sample(1, 0).roles
        circuit_diagram(list(strengths), roles, strengths=strengths, removal=removal, title=title, ax=ax)
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Section 8.2, and appendix E's validation."""
    each = table.groupby("run").first()
    with_circuit = table[table.verdict == "circuit"]
    circuits = with_circuit.groupby("run").path.agg(together)
    seeds = tuple(sorted(each.seed.tolist()))
    yield Claim(
        "solved",
        "8.2",
        "Every model reaches a mean squared error below 0.01 on fresh sequences.",
        number=each.mse.max(),
        spread=(each.mse.min(), each.mse.max()),
        n=len(each),
        seeds=seeds,
        threshold="greatest loss < 0.01 (paper)",
        verdict=verdict(bool((each.mse < 0.01).all())),
    )
    solved = each[each.mse < each.threshold]
    yield Claim(
        "circuits_by_joint_replacement",
        "8.2, E",
        "Of every model that solves the task a circuit is found that keeps the loss below 0.05 when all attention "
        f"patterns are replaced at once ({len(each) - len(solved)} of {len(each)} models are left out: unsolved).",
        number=solved.by_hand.max(),
        spread=(solved.by_hand.min(), solved.by_hand.max()),
        n=max(1, len(solved)),
        seeds=tuple(sorted(solved.seed.tolist())) or seeds,
        threshold="greatest loss by hand < 0.05 (paper)",
        verdict=verdict(bool((solved.verdict == "circuit").all())) if len(solved) else "undecided",
    )
    yield from about_heads(with_circuit.groupby("run").first(), circuits, seeds)
    yield from about_removal(with_circuit, seeds)


def about_removal(rows: DataFrame, seeds: tuple[int, ...]) -> Iterator[Claim]:
    """Appendix E, step 6: what single paths cost, apart in the first layer in use and after it."""
    layers = rows.path.map(lambda text: Path.parse(text).layer)
    first = layers == layers.groupby(rows.run).transform("min")
    for name, part, sentence, threshold, holds in (
        (
            "every_path_is_needed",
            rows[~first],
            "With all patterns by hand but those of one path after the first layer in use the loss is 0.17 or more "
            "(paper, D = 3: 0.17 to 0.89)",
            "least loss ≥ 0.17 (paper)",
            lambda losses: losses.min() >= 0.17,
        ),
        (
            "first_layer_costs_little",
            rows[first],
            "Without a path of the first layer in use it stays between 0.05 and 0.1, for such a path feeds others and "
            "no answer",
            "greatest loss ≤ 0.1 (paper)",
            lambda losses: losses.max() <= 0.1,
        ),
    ):
        losses = part.removal_by_hand
        yield Claim(
            name,
            "E, step 6",
            f"{sentence} ({len(part)} paths of {part.run.nunique()} circuits).",
            number=losses.min() if name == "every_path_is_needed" else losses.max(),
            spread=(losses.min(), losses.max()),
            n=max(1, len(part)),
            seeds=tuple(sorted(part.seed.unique().tolist())) or seeds,
            threshold=threshold,
            verdict=verdict(bool(holds(losses))) if len(part) else "undecided",
        )


def about_heads(each: DataFrame, circuits: Any, seeds: tuple[int, ...]) -> Iterator[Claim]:
    """How many heads circuits use, where they begin, and whether they are alike."""
    seeds = tuple(sorted(each.seed.tolist())) or seeds
    known, n = len(each) > 0, max(1, len(each))
    share = each.heads / each.heads_in_model
    yield Claim(
        "few_heads_in_use",
        "8.2",
        "Most heads do nothing useful: the circuit uses less than half of them.",
        number=share.max(),
        spread=(share.min(), share.max()),
        n=n,
        seeds=seeds,
        threshold="greatest share of heads in use < 0.5 (ours)",
        verdict=verdict(bool((share < 0.5).all())) if known else "undecided",
    )
    excess = each.heads - each.fewest
    yield Claim(
        "more_heads_than_needed",
        "8.2 (ii)",
        "No circuit uses as few heads as would do (paper, D = 3: 4 in all of A, B and C, where 3 would do).",
        number=excess.min(),
        spread=(excess.min(), excess.max()),
        n=n,
        seeds=seeds,
        threshold="fewest heads beyond the exact optimum ≥ 1",
        verdict=verdict(bool((excess >= 1).all())) if known else "undecided",
    )
    yield can_combine(each, circuits, seeds)
    pairs_first = [first_joins_pairs(circuit) for circuit in circuits]
    yield Claim(
        "first_head_joins_pairs",
        "8.2 (i)",
        "The first head in use attends from the second token of a fact to its first.",
        number=sum(pairs_first) / n,
        spread=(float(min(pairs_first, default=0)), float(max(pairs_first, default=0))),
        n=n,
        seeds=seeds,
        threshold="share of circuits = 1 (paper)",
        verdict=verdict(all(pairs_first)) if known else "undecided",
    )
    different = len(set(circuits))
    yield Claim(
        "circuits_differ",
        "8.2 (ii)",
        "Models that differ by their seed alone have different circuits.",
        number=different,
        spread=(different, different),
        n=n,
        seeds=seeds,
        threshold="different sets of paths = number of circuits",
        verdict=verdict(different == len(circuits)) if len(circuits) > 1 else "undecided",
    )


def can_combine(each: DataFrame, circuits: Any, seeds: tuple[int, ...]) -> Claim:
    """Whether a head of a circuit could do another's work beside its own."""
    mergers = [len(merged_heads(circuit, int(D), str(order))) for circuit, D, order in circuits_of(each, circuits)]
    return Claim(
        "two_heads_combine",
        "8.2 (ii)",
        "In some circuit two heads can be combined into one without loss of information (paper: layers 7 and 11 of A); "
        "the number counts, over all circuits, the heads that could move into another.",
        number=sum(mergers),
        spread=(min(mergers, default=0), max(mergers, default=0)),
        n=max(1, len(each)),
        seeds=seeds,
        threshold="pairs of heads that, made one, still bring the query all answers ≥ 1; the spread is over circuits",
        verdict=verdict(sum(mergers) >= 1) if len(each) else "undecided",
    )


def circuits_of(each: DataFrame, circuits: Any) -> Iterator[tuple[str, int, str]]:
    """Each circuit as text, with D and the order of its task."""
    return ((circuits[run], row.D, row.order) for run, row in each.iterrows())


def merged_heads(circuit: str, hops: int, order: str) -> list[tuple[Head, Head]]:
    """Heads that could be one: with the paths of the first moved into the second the task is still solved.

    One head attends from a position to one place, so both must serve different roles. Judged by the flow of information
    alone (docs/theory.md), which models built by hand realise exactly.
    """
    paths, chain = [Path.parse(text) for text in circuit.split("; ")], chain_of(hops, "causal", order)
    by_head: dict[Head, list[Path]] = {}
    for path in paths:
        by_head.setdefault((path.layer, path.head), []).append(path)
    found = []
    for one, other in permutations(by_head, 2):
        apart = not {path.query for path in by_head[one]} & {path.query for path in by_head[other]}
        moved = [replace(path, layer=other[0], head=other[1]) for path in by_head[one]]
        rest = [path for path in paths if path not in by_head[one]]
        if apart and simulate(chain, [*rest, *moved]).solves:
            found.append((one, other))
    return found


def together(paths: Iterable[str]) -> str:
    """A circuit's paths as one text, to compare by."""
    return "; ".join(sorted(paths))


def first_joins_pairs(circuit: str) -> bool:
    """Whether a path of the lowest layer in use goes from value[k] to key[k] of the same chain."""
    parsed = [Path.parse(text) for text in circuit.split("; ")]
    lowest = min(path.layer for path in parsed)
    joins = [p for p in parsed if p.query.replace("value", "key") == p.key and p.query != p.key and p.chain == "same"]
    return any(path.layer == lowest for path in joins)

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
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.experiments.judging import Claim, Limit, bound, judge
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


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per path of every run's circuit; a run without a circuit has one row, whose path is `none`.

    Columns of the run: run, version, seed, D, order, layers, heads_in_model, mse (on fresh sequences), verdict;
    by_hand, live, null (losses of the circuit); heads, fewest (of the circuit, and how many would do), n (sequences).
    Columns of the path: path, strength, removal_loss (of the circuit live), removal_by_hand (with patterns by hand).
    """
    rows = [row for run in runs for row in rows_of(run, scale)]
    return DataFrame(rows)


def rows_of(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One run's rows."""
    task = run.task
    assert isinstance(task, Retrieval) and run.report is not None
    circuit = circuit_of(run, scale)
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
    each = table.drop_duplicates("run").set_index("run", drop=False)
    with_circuit = table[table.verdict == "circuit"]
    circuits = with_circuit.groupby("run").path.agg(together)
    yield judge(
        "solved",
        "Every model reaches a mean squared error below 0.01 on fresh sequences.",
        each.mse,
        "loss",
        section="8.2",
        rows=each,
        below=0.01,
        source="paper",
    )
    solved = each[each.mse < each.threshold]
    yield judge(
        "circuits_by_joint_replacement",
        "Of every model that solves the task a circuit is found that keeps the loss below 0.05 when all attention "
        f"patterns are replaced at once ({len(each) - len(solved)} of {len(each)} models are left out: unsolved).",
        solved.by_hand,
        "loss by hand",
        section="8.2, E",
        rows=solved,
        among=table,
        number="highest",
        also=[
            bound(
                "models with a circuit that keeps the loss below 0.05",
                solved.verdict == "circuit",
                of="share of",
                equals=1,
            )
        ],
        source="paper",
    )
    yield from about_heads(each[each.verdict == "circuit"], circuits, table)
    yield from about_removal(with_circuit, table)


def about_removal(rows: DataFrame, table: DataFrame) -> Iterator[Claim]:
    """Appendix E, step 6: what single paths cost, apart in the first layer in use and after it."""
    layers = rows.path.map(lambda text: Path.parse(text).layer)
    first = layers == layers.groupby(rows.run).transform("min")
    parts: tuple[tuple[str, DataFrame, str, Limit], ...] = (
        (
            "every_path_is_needed",
            rows[~first],
            "With all patterns by hand but those of one path after the first layer in use the loss is 0.17 or more "
            "(paper, D = 3: 0.17 to 0.89)",
            {"at_least": 0.17},
        ),
        (
            "first_layer_costs_little",
            rows[first],
            "Without a path of the first layer in use it stays between 0.05 and 0.1, for such a path feeds others and "
            "no answer",
            {"at_most": 0.1},
        ),
    )
    for name, part, sentence, limit in parts:
        yield judge(
            name,
            f"{sentence} ({len(part)} paths of {part.run.nunique()} circuits).",
            part.removal_by_hand,
            "loss",
            section="E, step 6",
            rows=part,
            among=table,
            n=len(part),
            source="paper",
            **limit,
        )


def about_heads(each: DataFrame, circuits: Any, table: DataFrame) -> Iterator[Claim]:
    """How many heads circuits use, where they begin, and whether they are alike."""
    yield judge(
        "few_heads_in_use",
        "Most heads do nothing useful: the circuit uses less than half of them.",
        each.heads / each.heads_in_model,
        "share of heads in use",
        section="8.2",
        rows=each,
        among=table,
        below=0.5,
        source="ours",
    )
    yield judge(
        "more_heads_than_needed",
        "No circuit uses as few heads as would do (paper, D = 3: 4 in all of A, B and C, where 3 would do).",
        each.heads - each.fewest,
        "number of heads beyond the exact optimum",
        section="8.2 (ii)",
        rows=each,
        among=table,
        at_least=1,
    )
    yield can_combine(each, circuits, table)
    yield judge(
        "first_head_joins_pairs",
        "The first head in use attends from the second token of a fact to its first.",
        [first_joins_pairs(circuit) for circuit in circuits],
        "circuits in which it does",
        section="8.2 (i)",
        rows=each,
        among=table,
        of="share of",
        equals=1,
        source="paper",
    )
    yield judge(
        "circuits_differ",
        "Models that differ by their seed alone have different circuits.",
        len(set(circuits)),
        "number of different sets of paths",
        section="8.2 (ii)",
        rows=each,
        among=table,
        equals=len(circuits),
        provided=bound("the number of circuits", len(circuits), above=1),
    )


def can_combine(each: DataFrame, circuits: Any, table: DataFrame) -> Claim:
    """Whether a head of a circuit could do another's work beside its own."""
    return judge(
        "two_heads_combine",
        "In some circuit two heads can be combined into one without loss of information (paper: layers 7 and 11 of A); "
        "the number counts, over all circuits, the heads that could move into another.",
        [len(merged_heads(circuit, int(D), str(order))) for circuit, D, order in circuits_of(each, circuits)],
        "number of pairs of heads that, made one, still bring the query all answers",
        section="8.2 (ii)",
        rows=each,
        among=table,
        of="total",
        at_least=1,
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

"""The circuits of deep transformers with one head per layer (Musat, ICLR 2025, figure 5, section 8).

The paper reads the circuits of Transformers A, B and C (12 layers, D = 3, three seeds) from their attention maps. Here
`hopscope.circuits` finds and validates them. At the scales for two cores models have the paper's size and order of
facts with a prior for the previous token in layer 0 (`transformer_abc_prior`), with five seeds, and ten at scale
`long`. At scale `paper` there is no prior. Circuits are compared with the fewest heads that any circuit needs
(docs/theory.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluator import Evaluator, Hard
from hopscope.configuration.config import Config
from hopscope.drawing.circuit_diagram import circuit_diagram
from hopscope.drawing.style import picture, styled
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.experiments.judging import Claim, Evidence, bound, without_prior
from hopscope.experiments.tables import rows_of
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.schedules import redundancy
from hopscope_studies.stacked_heads.circuit_shapes import first_joins_pairs, hop_by_hop, spare_heads, together
from hopscope_studies.stacked_heads.experiments.fig7 import models_of
from hopscope_studies.stacked_heads.named_circuits import all_have_one

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 720, "long": 1400, "paper": 40_000}
CELL_SECONDS = 420

SEEDS = {"cpu": 5, "long": 10}  # with the prior; the paper has three
DRAWN = 4  # circuits in the figure
NONE = "none"  # instead of a path, if a run has no circuit
FRESH = 1  # seed of the sequences of appendix E's last step


def runs(scale: str) -> Iterator[Config]:
    """Deep models with one head per layer, over seeds."""
    return models_of("transformer_abc", scale, SEEDS.get(scale, 1))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per path of every run's circuit; a run without a circuit has one row, whose path is `none`.

    Columns of the run: run, version, seed, prior, D, order, layers, heads_in_model, mse (on fresh sequences), worst
    (the highest partial loss), verdict; by_hand, live, null (losses of the circuit), first_uniform (by hand with a
    uniform first layer); heads, fewest (heads of the circuit, and the fewest that would suffice), n (sequences).
    Columns of the path: path, strength, removal_loss (of the circuit live), removal_by_hand (with patterns by hand).
    """
    return rows_of(runs, lambda run: paths_of(run, scale))


def paths_of(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One run's rows."""
    task = run.task
    assert isinstance(task, Retrieval) and run.report is not None
    circuit = circuit_of(run, scale)
    first, by_hand = without_paths(run, circuit)
    about = {
        "D": task.n_hops,
        "order": task.order,
        "layers": run.config.model.n_layers,
        "heads_in_model": run.config.model.n_layers * run.config.model.n_heads,
        "mse": run.report["loss"],
        "worst": max(circuit.hop_losses["model"].values()),
        "threshold": circuit.threshold,
        "n": circuit.protocol["report"],
        "first_uniform": first,
        **measured(circuit, task),
    }
    if not circuit.accepted:
        nothing = float("nan")
        yield about | {"path": NONE, "strength": nothing, "removal_loss": nothing, "removal_by_hand": nothing}
        return
    for found, loss in zip(circuit.paths, by_hand, strict=True):
        numbers = {"strength": found.strength, "removal_loss": found.removal_loss, "removal_by_hand": loss}
        yield about | {"path": str(found.path), **numbers}


def without_paths(run: Run, circuit: Circuit) -> tuple[float, list[float]]:
    """Losses with all patterns by hand except some uniform ones (appendix E, step 6), on fresh sequences.

    First without all paths of the first layer in use, then without each single path. NaN if there is no path.
    """
    if not circuit.paths:
        return math.nan, []
    fresh = Evaluator(run.model, run.task.sample(circuit.protocol["report"], FRESH))
    strengths = {found.path: found.strength for found in circuit.paths}
    first = min(path.layer for path in strengths)
    kept = [{path for path in strengths if path.layer > first}, *(strengths.keys() - {one} for one in strengths)]
    whole, *each = fresh.losses(Hard({path: strengths[path] for path in strengths if path in some}) for some in kept)
    return whole.mean, [loss.mean for loss in each]


def measured(circuit: Circuit, task: Retrieval) -> dict[str, Any]:
    """The circuit's losses, and its heads against the fewest that would suffice."""
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
    """The circuits of the first runs that have one, on one chain, layers upward, as in the paper's figure 5."""
    found = [(seed, rows) for seed, rows in table.groupby("seed") if (rows.path != NONE).all()][:DRAWN]
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
    """Claims on section 8.2, and on appendix E's validation."""
    each = table.drop_duplicates("run").set_index("run", drop=False)
    with_circuit = table[table.verdict == "circuit"]
    circuits = with_circuit.groupby("run").path.agg(together)
    yield Evidence(each, "8.2", source="paper").claim(
        "solved",
        "Every 12-layer model trained on three hops reaches a mean squared error below 0.01 on fresh sequences.",
        each.mse,
        "loss",
        below=0.01,
    )
    yield Evidence(each, "8.2, E", source="appendix E's bound").claim(
        "every_hop_solved",
        "Every 12-layer model trained on three hops ends with the loss of every hop below 0.05.",
        each.worst,
        "loss of the worst hop",
        below=0.05,
    )
    solved = each[each.mse < each.threshold]
    yield Evidence(solved, "8.2, E", source="paper", among=table).claim(
        "circuits_by_joint_replacement",
        "In every 12-layer model that solves three hops, a circuit is found that keeps the loss below 0.05 when all "
        "attention patterns are set by hand at once.",
        solved.by_hand,
        "loss by hand",
        number="highest",
        also=[all_have_one(solved.verdict == "circuit")],
    )
    yield from about_heads(each[each.verdict == "circuit"], circuits, table)
    yield from about_removal(with_circuit, table)


def about_removal(rows: DataFrame, table: DataFrame) -> Iterator[Claim]:
    """Claims on the cost of removing single paths after the first layer in use, and that layer (appendix E, step 6)."""
    layers = rows.path.map(lambda text: Path.parse(text).layer)
    later = rows[layers > layers.groupby(rows.run).transform("min")]
    yield Evidence(later, "E, step 6", source="paper", among=table).claim(
        "every_path_is_needed",
        "Every path above the lowest layer of a 12-layer model's circuit is needed: if it is left out and all other "
        "patterns are set by hand, the loss is at least 0.17 (the paper reports this).",
        later.removal_by_hand,
        "loss",
        n=len(later),
        at_least=0.17,
    )
    first = rows.drop_duplicates("run")
    yield Evidence(first, "E, step 6", source="paper", among=table).claim(
        "first_layer_costs_little",
        "The lowest layer of a 12-layer model's circuit matters little: if it attends evenly and all later patterns "
        "are set by hand, the loss is at most 0.1 (the paper reports this).",
        first.first_uniform,
        "loss",
        at_most=0.1,
    )


def about_heads(each: DataFrame, circuits: Any, table: DataFrame) -> Iterator[Claim]:
    """Claims on the number of heads in circuits."""
    yield Evidence(each, "8.2", among=table).claim(
        "few_heads_in_use",
        "Most heads of a 12-layer model do nothing useful: its three-hop circuit uses less than half of them.",
        each.heads / each.heads_in_model,
        "share of heads in use",
        below=0.5,
    )
    yield Evidence(each, "8.2 (ii)", source="paper", among=table).claim(
        "four_heads",
        "The three-hop circuit of every 12-layer model uses four heads.",
        each.heads,
        "number of heads",
        equals=4,
    )
    yield Evidence(each, "8.2 (ii)", source="", among=table).claim(
        "more_heads_than_needed",
        "Every three-hop circuit of a 12-layer model uses more heads than the fewest that would suffice (paper: four "
        "where three would do).",
        each.heads - each.fewest,
        "number of heads beyond the exact optimum",
        at_least=1,
    )
    yield can_combine(each, circuits, table)
    yield from about_shapes(each, circuits, table)


def about_shapes(each: DataFrame, circuits: Any, table: DataFrame) -> Iterator[Claim]:
    """Claims on how circuits start, whether they are the same, and whether they go hop by hop."""
    yield Evidence(each, "8.2 (i)", source="paper", among=table).claim(
        "first_head_joins_pairs",
        "In every 12-layer model's circuit the first head in use attends from a fact's second token to its first.",
        [first_joins_pairs(circuit) for circuit in circuits],
        "circuits whose first head does",
        of="share of",
        equals=1,
        provided=without_prior(each),
    )
    yield Evidence(each, "8.2 (ii)", source="", among=table).claim(
        "circuits_differ",
        "12-layer models that differ in their seed alone have different three-hop circuits.",
        len(set(circuits)),
        "number of different sets of paths",
        equals=max(2, len(circuits)),
        provided=bound("the number of circuits", len(circuits), above=1),
    )
    yield Evidence(each, "beyond (8.2, 9.2)", among=table).claim(
        "one_hop_after_the_other",
        "In the three-hop circuit of every 12-layer model the query looks up every symbol itself, each in a later "
        "layer than the one before, and no fact is joined to the next.",
        [hop_by_hop(circuit, int(D)) for circuit, D, _ in circuits_of(each, circuits)],
        "circuits in which the query does all",
        of="share of",
        equals=1,
    )


def can_combine(each: DataFrame, circuits: Any, table: DataFrame) -> Claim:
    """Judge whether a head of a circuit could do another's work in addition to its own."""
    return Evidence(each, "8.2 (ii)", source="", among=table).claim(
        "two_heads_combine",
        "In the circuit of some 12-layer model, one head could do the work of another in addition to its own (paper: "
        "in Transformer A).",
        [spare_heads(circuit, int(D), str(order)) for circuit, D, order in circuits_of(each, circuits)],
        "number of a circuit's heads whose work another of them could do beside its own",
        of="highest",
        at_least=1,
    )


def circuits_of(each: DataFrame, circuits: Any) -> Iterator[tuple[str, int, str]]:
    """Each circuit as text, with D and the order of its task."""
    return ((circuits[run], row.D, row.order) for run, row in each.iterrows())

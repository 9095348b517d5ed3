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
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 720, "long": 1400, "paper": 40_000}
CELL_SECONDS = 420

SEEDS = {"cpu": 5, "long": 10}  # with the prior; the paper has three
DRAWN = 4  # circuits in the figure
NONE = "none"  # instead of a path, if a run has no circuit
FRESH = 1  # seed of the sequences of appendix E's last step
told = telling("fig5")


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
    yield told(Evidence(each, "8.2", source="paper"), "solved", each.mse, "loss", below=0.01)
    evidence = Evidence(each, "8.2, E", source="appendix E's bound")
    yield told(evidence, "every_hop_solved", each.worst, "loss of the worst hop", below=0.05)
    solved = each[each.mse < each.threshold]
    evidence = Evidence(solved, "8.2, E", source="paper", among=table)
    also = [all_have_one(solved.verdict == "circuit")]
    yield told(evidence, "circuits_by_joint_replacement", solved.by_hand, "loss by hand", number="highest", also=also)
    yield from about_heads(each[each.verdict == "circuit"], circuits, table)
    yield from about_removal(with_circuit, table)


def about_removal(rows: DataFrame, table: DataFrame) -> Iterator[Claim]:
    """Claims on the cost of removing single paths after the first layer in use, and that layer (appendix E, step 6)."""
    layers = rows.path.map(lambda text: Path.parse(text).layer)
    later = rows[layers > layers.groupby(rows.run).transform("min")]
    evidence = Evidence(later, "E, step 6", source="paper", among=table)
    yield told(evidence, "every_path_is_needed", later.removal_by_hand, "loss", n=len(later), at_least=0.17)
    first = rows.drop_duplicates("run")
    evidence = Evidence(first, "E, step 6", source="paper", among=table)
    yield told(evidence, "first_layer_costs_little", first.first_uniform, "loss", at_most=0.1)


def about_heads(each: DataFrame, circuits: Any, table: DataFrame) -> Iterator[Claim]:
    """Claims on the number of heads in circuits."""
    evidence = Evidence(each, "8.2", among=table)
    yield told(evidence, "few_heads_in_use", each.heads / each.heads_in_model, "share of heads in use", below=0.5)
    evidence = Evidence(each, "8.2 (ii)", source="paper", among=table)
    yield told(evidence, "four_heads", each.heads, "number of heads", equals=4)
    evidence, what = Evidence(each, "8.2 (ii)", source="", among=table), "number of heads beyond the exact optimum"
    yield told(evidence, "more_heads_than_needed", each.heads - each.fewest, what, at_least=1)
    yield can_combine(each, circuits, table)
    yield from about_shapes(each, circuits, table)


def about_shapes(each: DataFrame, circuits: Any, table: DataFrame) -> Iterator[Claim]:
    """Claims on how circuits start, whether they are the same, and whether they go hop by hop."""
    evidence, what = Evidence(each, "8.2 (i)", source="paper", among=table), "circuits whose first head does"
    found = [first_joins_pairs(circuit) for circuit in circuits]
    yield told(evidence, "first_head_joins_pairs", found, what, of="share of", equals=1, provided=without_prior(each))
    evidence, what = Evidence(each, "8.2 (ii)", source="", among=table), "number of different sets of paths"
    provided = bound("the number of circuits", len(circuits), above=1)
    yield told(evidence, "circuits_differ", len(set(circuits)), what, equals=max(2, len(circuits)), provided=provided)
    evidence, what = Evidence(each, "beyond (8.2, 9.2)", among=table), "circuits in which the query does all"
    found = [hop_by_hop(circuit, int(D)) for circuit, D, _ in circuits_of(each, circuits)]
    yield told(evidence, "one_hop_after_the_other", found, what, of="share of", equals=1)


def can_combine(each: DataFrame, circuits: Any, table: DataFrame) -> Claim:
    """Judge whether a head of a circuit could do another's work in addition to its own."""
    evidence = Evidence(each, "8.2 (ii)", source="", among=table)
    what = "number of a circuit's heads whose work another of them could do beside its own"
    found = [spare_heads(circuit, int(D), str(order)) for circuit, D, order in circuits_of(each, circuits)]
    return told(evidence, "two_heads_combine", found, what, of="highest", at_least=1)


def circuits_of(each: DataFrame, circuits: Any) -> Iterator[tuple[str, int, str]]:
    """Each circuit as text, with D and the order of its task."""
    return ((circuits[run], row.D, row.order) for run, row in each.iterrows())

"""All attention maps, and what they show about the circuits (Musat, ICLR 2025, appendix C, section 8.2).

The paper prints a map of every head of Transformers A and D, on one prompt, and says that heads in use are easily
interpretable. This experiment shows every head of the models of `fig5` on one fresh sequence, with the paths of the
circuits that `hopscope.circuits` validated, and tests whether the attention in maps is the attention in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.circuits.evaluator import Evaluator
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.circuit_tables import SEQUENCES, circuit_of
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.experiments.fig5 import runs as runs
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores; the runs are those of `fig5`.
SECONDS = {"quick": 8, "cpu": 720, "paper": 40_000}

FAINT = 0.02  # attention below which a map's entry is not kept
SEEN = 0.5  # mean attention that is visible in a map (the paper's threshold of emergence, section 9.1)
told = telling("appendix_c")


def table(runs: list[Run], scale: str) -> DataFrame:
    """Entries of the maps on one sequence, and mean strengths of paths over many.

    Columns: run, version, seed, prior, layers, kind; layer, head; of a `map` entry query and key (positions) and
    attention; of a `path` (those above 0.02) its name, attention (the mean), verdict of its run's circuit and whether
    it is in it.
    """
    return rows_of(runs, lambda run: (*entries(run), *paths(run, scale)))


def about(run: Run) -> dict[str, Any]:
    """The columns of a run."""
    return {"layers": run.config.model.n_layers, "heads": run.config.model.n_heads}


def entries(run: Run) -> Iterator[dict[str, Any]]:
    """The attention of every head on one sequence."""
    one = Evaluator(run.model, run.task.sample(1, 0))
    for layer, pattern in enumerate(one.patterns):
        for (head, query, key), attention in numpy.ndenumerate(pattern[0].numpy(force=True)):
            if attention >= FAINT:
                where = {"layer": layer, "head": head, "query": query, "key": key}
                yield about(run) | {"kind": "map", **where, "attention": float(attention)}


def paths(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """The mean attention on each path, and whether the circuit has it."""
    many = Evaluator(run.model, run.task.sample(SEQUENCES.get(scale, SEQUENCES["full"]), 0))
    circuit = circuit_of(run, scale)
    used = {found.path for found in circuit.paths}
    for path, strength in sorted(many.strengths.items()):
        if strength >= FAINT or path in used:
            what = {"layer": path.layer, "head": path.head, "path": str(path), "attention": strength}
            yield about(run) | {"kind": "path", **what, "verdict": circuit.verdict, "in_circuit": path in used}


@styled
def figure(table: DataFrame) -> Figure:
    """A row of maps per model, one per head; heads of the circuit are framed."""
    maps, named = table[table.kind == "map"], table[table.kind == "path"]
    models = list(maps.groupby("seed"))
    n_heads = int(table.layers.max() * table.heads.max())
    shown = picture(1.05 * n_heads + 0.8, 1.25 * len(models) + 0.5)
    axes = shown.subplots(len(models), n_heads, squeeze=False)
    size = int(maps[["query", "key"]].to_numpy().max()) + 1
    for row, (seed, entries) in zip(axes, models, strict=True):
        used = named[(named.seed == seed) & named.in_circuit.astype(bool) & (named.verdict == "circuit")]
        units = set(zip(used.layer, used["head"], strict=True))
        for index, ax in enumerate(row):
            layer, head = divmod(index, int(table.heads.max()))
            part = entries[(entries.layer == layer) & (entries["head"] == head)]
            image = numpy.zeros((size, size))
            image[part["query"].astype(int), part["key"].astype(int)] = part.attention
            ax.imshow(image, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"L{layer}H{head}", fontsize=7)
            for spine in ax.spines.values():
                spine.set(visible=True, color=colour(1) if (layer, head) in units else "#cccccc", linewidth=1.4)
        row[0].set_ylabel(f"seed {seed}")
    shown.suptitle(
        "Attention of every head on one sequence (framed: in the circuit); rows attend to columns", fontsize=9
    )
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Judge whether maps show the circuits completely, and nothing else."""
    rows = table[(table.kind == "path") & (table.verdict == "circuit")]
    used, idle = rows[rows.in_circuit.astype(bool)], rows[~rows.in_circuit.astype(bool)]
    evidence = Evidence(rows, "8.2, C", source="", among=table)
    yield told(evidence, "circuits_are_seen", used.attention, "mean attention on a path of a circuit", above=SEEN)
    loud = idle[idle.attention > SEEN].groupby("run").size().reindex(rows.run.unique(), fill_value=0)
    evidence, what = Evidence(rows, "beyond (E)", source="", among=table), "number of strong paths outside a circuit"
    yield told(evidence, "what_is_seen_is_used", loud, what, of="highest", equals=0)

"""Two parents to convergence, and larger vocabularies: when is attention in the first layer the latent graph?

Nichani, Damian & Lee (2024, arXiv:2402.14735, section 6) state that with several parents each head attends to one. Here
models of two heads are trained on graphs of two parents, beside models of one head as rivals, and models of one head on
random trees of more states. All stop by the same rule. Roots are uniform, so that counting is Bayes' rule.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.core.intervals import interval_of_mean
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.judging import Claim, bound
from hopscope.experiments.quantities import Quantities
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope_studies.causal_structure.experiments.causal_structure import course, named
from hopscope_studies.causal_structure.halves import halves
from hopscope_studies.causal_structure.models.disentangled_transformer import DisentangledArchitecture
from hopscope_studies.causal_structure.readings import at_the_end
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 9, "cpu": 700, "paper": 40_000}

#: By scale, how many graphs there are of each kind; the first has seed FIRST, since others were tried before.
SEEDS, FIRST = {"quick": 1, "cpu": 5, "paper": 20}, 10
#: By kind: number of states, graph, and what sets its training apart; scale `cpu` has the first four.
KINDS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "two heads, V = 3": (3, "drawn_and_before", {}),
    "sgd, V = 5": (5, "tree", {"optimizer": "sgd", "lr": 1.0}),
    "adamw, V = 5": (5, "tree", {}),
    "adamw, V = 3": (3, "tree", {}),
    "two heads, V = 5": (5, "drawn_and_before", {}),
    "sgd, V = 10": (10, "tree", {"optimizer": "sgd", "lr": 1.0}),
    "adamw, V = 10": (10, "tree", {}),
}
#: By scale and graph: positions, batch, and the steps after which a run is censored; then what all trainings share.
LIMITS = {
    "quick": {"drawn_and_before": (6, 8, 4), "tree": (6, 8, 4)},
    "cpu": {"drawn_and_before": (16, 256, 3500), "tree": (12, 128, 3000)},
    "paper": {"drawn_and_before": (32, 1024, 2**16), "tree": (20, 1024, 2**17)},
}
COMMON: dict[str, dict[str, Any]] = {
    "quick": {"val_size": 32, "log_every": 2, "checkpoints": "4"},
    "cpu": {"val_size": 2048, "log_every": 250, "checkpoints": "500"},
    "paper": {"val_size": 4096, "log_every": 512, "checkpoints": "4096"},
}
#: Of every training. `stop_flat`: a run ends once its validation loss (nats) falls by less in a fifth of its steps.
ALL: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.0, "stop_flat": 5e-4, "measures": "parent_attention"}
SENTENCES = tomllib.loads((Path(__file__).parents[1] / "data" / "sentences.toml").read_text())["two_parents"]


def runs(scale: str) -> Iterator[Config]:
    """The scale's kinds with every seed, which is that of the graph, too."""
    kinds = list(KINDS)[: 4 if scale == "cpu" else None]
    yield from (training(scale, kind, FIRST + seed) for kind in kinds for seed in range(SEEDS[scale]))


def training(scale: str, kind: str, seed: int) -> Config:
    """The run of a kind, which is a key of `KINDS`."""
    V, graph, apart = KINDS[kind]
    length, batch, steps = LIMITS[scale][graph]
    task = CausalSequences(d_vocab=V, length=length, graph=graph, graph_seed=seed, roots="uniform")
    two = graph != "tree"
    model = DisentangledArchitecture(n_heads=1 + two, noise=0.1 * two)  # two heads must differ at the start
    return Config(task, model, Training(batch=batch, steps=steps, seed=seed, **ALL | COMMON[scale] | apart))


def kind_of(config: Config) -> str:
    """The key of `KINDS`."""
    how = "two heads" if config.model.n_heads > 1 else config.training.optimizer.partition("(")[0]
    return f"{how}, V = {config.task.as_dict()['d_vocab']}"


# Table -----------------------------------------------------------------------------------------------------------


def table(runs: list[Run], scale: str) -> DataFrame:
    """One row per number.

    Columns: kind (a key of `KINDS`), seed, step, quantity, value. Quantities over training: `course loss`, `course
    attention`, and for two heads those of `halves` with `course` before them; at the end those of
    `readings.at_the_end`, `way` (how far from a guess, 0, to Bayes' rule, 1), `flat` (1 if the rule ended the run), and
    for two heads those of `halves`.
    """
    sequences = {"quick": 64}.get(scale, 4096)
    return rows_of(runs, lambda run: ({"kind": kind_of(run.config), **row} for row in measured(run, sequences)))


def measured(run: Run, sequences: int) -> Iterator[dict[str, Any]]:
    """The rows of one run."""
    task, seed = run.task, run.config.training.seed
    assert isinstance(task, CausalSequences)
    end = at_the_end(run.model, task, seed, sequences)
    end["way"] = (task.chance - end["loss"]) / (task.chance - end["bayes"])
    yield from named(end | {"flat": run.step < run.config.training.steps}, step=run.step)
    yield from course(run)
    if run.config.model.n_heads > 1:
        for step in run.steps:
            shared = halves(run.at(step), task, seed, sequences)
            yield from named({f"course {name}": number for name, number in shared.items()}, step=step)
        yield from named(shared, step=run.step)


# Claims ----------------------------------------------------------------------------------------------------------


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims. Thresholds are ours and were committed before the runs; README.md states what we expected."""
    told, there = (
        Quantities(table, "Nichani et al. (2024), section 6"),
        tuple(kind for kind in KINDS if kind in set(table.kind)),
    )
    two = tuple(kind for kind in there if kind.startswith("two"))
    for kind in two:
        yield from about_heads(told, kind)
    others = [x for kind in two for word in ("another", "permuted") for x in told.of(kind, f"divided {word}")]
    yield said(told, "another_graph", others, "share of children", two, below=0.35)
    start = told.table[told.table.step == 0]
    alike = bound("distance between the heads", start[start.quantity == "course apart"].value, below=0.25)
    shares = start[start.quantity == "course divided"].value
    yield said(told, "at_the_start", shares, "share of children", two, below=0.35, also=[alike])
    yield from about_trees(told, tuple(kind for kind in there if KINDS[kind][1] == "tree"))
    gaps = [gap for kind in there for gap in told.of(kind, "loss") - told.of(kind, "bayes")]
    yield said(told, "never_below_bayes", gaps, "loss less that of Bayes", there, above=0)


def said(told: Quantities, id: str, values: Any, what: str, kinds: tuple[str, ...], **how: Any) -> Claim:
    """One of `SENTENCES` as a claim; of an id that ends in a number of states, this number is left to the sentence."""
    name, _, V = id.partition(" V = ")
    return told.claim(f"{name}_{V}" if V else name, SENTENCES[name].format(V=V), values, what, kinds, **how)


def about_heads(told: Quantities, kind: str) -> Iterator[Claim]:
    """Claims about the models of two heads of a kind; the interval of the cost is Student's, over graphs."""
    halved, way, apart, alike = (told.of(kind, name) for name in ("divided", "way", "apart", "alike"))
    V, cost = kind.removeprefix("two heads,"), alike - told.of(kind, "loss")
    low, high = interval_of_mean(cost.tolist())
    also = [bound(f"lower end of the 95 % interval ({low:.3f} to {high:.3f})", low, above=0)]
    yield said(told, f"heads_divide{V}", halved, "share of children", (kind,), of="mean", above=0.75)
    yield said(told, f"division_matters{V}", cost, "cost (nats)", (kind,), of="mean", at_least=0.02, also=also)
    yield said(told, f"most_can_be_known{V}", way, "part of the way", (kind,), of="mean", at_least=0.9)
    yield said(told, f"apart_at_the_end{V}", apart, "distance", (kind,), above=0.5)


def about_trees(told: Quantities, trees: tuple[str, ...]) -> Iterator[Claim]:
    """Claims about attention on parents in models of one head that learn trees, by optimizer and number of states."""
    what = "mean attention on parents"
    for kind in trees:
        how, V = kind.split(",")
        limit: dict[str, Any] = {"above": 0.5} if how == "sgd" else {"below": 0.2}
        yield said(
            told, f"{how}_in_larger_vocabularies{V}", told.of(kind, "layer 0"), what, (kind,), of="mean", **limit
        )
    other = [x for kind in trees for x in told.of(kind, "layer 0 shuffled")]
    yield said(told, "other_trees", other, what, trees, below=0.25)


# Figure ----------------------------------------------------------------------------------------------------------


@styled
def figure(table: DataFrame) -> Figure:
    """How two heads divide their parents over training, the losses' distance to Bayes' rule, attention on parents."""
    shown = picture(12.5, 3.8)
    shares, losses, parents = shown.subplots(1, 3)
    trees = [kind for kind, (_, graph, _) in KINDS.items() if graph == "tree" and kind in set(table.kind)]
    for index, kind in enumerate(trees):
        attention = table[(table.kind == kind) & (table.quantity == "layer 0")].value
        parents.plot([index] * len(attention), attention, "o", mfc="none", color=colour(kind.startswith("adamw")))
    for index, kind in enumerate(kind for kind in KINDS if kind not in trees):
        rows = table[table.kind == kind]
        floor, course = (rows[rows.quantity == name] for name in ("bayes", "course loss"))
        above = course.assign(value=course.value - course.run.map(floor.set_index("run").value))
        for ax, drawn in ((losses, above), (shares, rows[rows.quantity == "course divided"])):
            run_lines(ax, drawn, color=colour(index), label=kind, lw=1.2, alpha=0.7)
    shares.set(title="Children whose parents are divided", xlabel="step", ylabel="share of children", ylim=(-0.02, 1))
    losses.set(title="Loss above that of Bayes' rule", xlabel="step", ylabel="nats", ylim=(0, None))
    losses.legend(fontsize=7)
    parents.set(title="Trees: attention on parents, layer 0", ylabel="mean attention", ylim=(-0.02, 1.02))
    parents.set_xticks(range(len(trees)), [kind.replace(", ", "\n") for kind in trees], fontsize=7)
    return shown

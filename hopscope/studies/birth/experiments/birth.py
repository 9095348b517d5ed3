"""Birth of an induction head: memories of triggers and outputs, in the order in which they form (card 3, Bietti).

Bietti et al. (2023, arXiv:2306.00802) let a few triggers of a bigram language be followed by outputs of the sequence's
own. Here: the basic model of frozen random embeddings with its three matrices probed (`work.py`), trained at once or
one after the other; one gradient step on each; and transformers of one and two layers, with their circuits. Tables are
long: what was measured, at which step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config, Training
from hopscope.core.storage import read_json
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Claim, bound, judge
from hopscope.experiments.work import Finished
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.studies.birth.models.basic_transformer import TRAINED
from hopscope.studies.birth.tasks.trigger_bigrams import TriggerBigrams
from hopscope.studies.birth.work import Basic, ThreeSteps

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 480, "paper": 60_000}
CLAIMS = (
    "one_layer_fails",
    "two_layers_succeed",
    "basic_model_succeeds",
    "memories_in_order",
    "memories_in_order_drawn",
    "joint_learning_is_faster",
    "first_memory_is_faster_jointly",
    "three_steps_suffice",
    "three_whole_steps",
    "circuit_is_an_induction_head",
)

SEEDS = {"quick": 1, "cpu": 2, "paper": 5}
MEASURES = "retrieval_accuracy,previous_token_score,induction_score"
HALF, SOLVED = 0.5, 0.9  # recall at which a memory counts as there; accuracy at which a model has learnt (ours)


def runs(scale: str) -> Iterator[Config | Basic | ThreeSteps]:
    """The basic model at once, with drawn triggers, in stages; three steps, in blocks and whole; full models."""
    basic = {
        "quick": Basic(d_model=16, length=16, batch=4, steps=4, every=2, val_size=16),
        "cpu": Basic(),
        "paper": Basic(d_model=256, length=256, batch=512, steps=1000, lr=0.03),
    }[scale]
    later = {"quick": 1, "cpu": 150, "paper": 300}[scale]
    steps = {"quick": ThreeSteps(length=4, d_vocab=6, sample=64), "cpu": ThreeSteps()}.get(
        scale, ThreeSteps(sample=2**17)
    )
    for seed in range(SEEDS[scale]):
        yield basic.but(seed=seed)
        yield basic.but(seed=seed, triggers="drawn")
        yield basic.but(seed=seed, later=later, steps=basic.steps + later)
        yield steps.but(seed=seed)
        yield steps.but(seed=seed, blocks=False)
        for layers in (1, 2):
            yield full_model(scale, layers, seed)


def full_model(scale: str, layers: int, seed: int) -> Config:
    """The project's transformer, by AdamW as the paper has it."""
    task = TriggerBigrams(length={"quick": 16, "cpu": 64, "paper": 256}[scale])
    shape = {"quick": (2, 16), "cpu": (4, 64), "paper": (4, 128)}[scale]
    how: dict[str, Any] = {
        "quick": {"steps": 4, "batch": 4, "log_every": 2, "val_size": 16, "checkpoints": "2"},
        "cpu": {"steps": 550, "schedule": "linear", "decay_steps": 180, "val_size": 128, "checkpoints": "25"},
        "paper": {"steps": 2000, "checkpoints": "50"},
    }[scale]
    training = {"batch": 64, "lr": 0.01, "weight_decay": 0.01, "beta2": 0.99, "measures": MEASURES, **how}
    return Config(
        task.but(asked="all") if scale == "paper" else task,
        Architecture(n_layers=layers, n_heads=shape[0], d_model=shape[1]),
        Training(**training, seed=seed),
    )


# Table -----------------------------------------------------------------------------------------------------------


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """A row per run, step and quantity.

    Columns: run, version, seed, model (basic, basic drawn, basic staged, three steps, three whole steps, 1 layer, 2
    layers), step, quantity (accuracy and loss in context; the recalls W_O2, W_K2, W_K1, W_K1 first; previous_token and
    induction, attention of the best head; stage, the steps between the beginnings of stages; of full models report,
    their accuracy on fresh sequences; of two layers circuit …), value.
    """
    rows = []
    for run in runs:
        if isinstance(run, Finished):
            about = {"run": run.work.identity, "version": run.version, "seed": run.work.as_dict()["seed"]}
            about["model"] = name_of(run.work)
            rows += [about | row for row in long(read_json(run.path / "rows.json"))]
            if about["model"] == "basic staged":
                rows.append(about | {"step": 0, "quantity": "stage", "value": float(run.work.as_dict()["later"])})
        else:
            version, layers = run.sessions[-1]["environment"]["code"], run.config.model.n_layers
            about = {"run": run.config.identity, "version": version, "seed": run.config.training.seed}
            about["model"] = "1 layer" if layers == 1 else f"{layers} layers"
            rows += [about | row for row in long(rows_of(run, scale))]
    return DataFrame(rows)


def name_of(work: Any) -> str:
    """What a piece of work is called in the table."""
    if isinstance(work, ThreeSteps):
        return "three steps" if work.blocks else "three whole steps"
    return "basic staged" if work.later else "basic drawn" if work.triggers == "drawn" else "basic"


def long(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per number."""
    for row in rows:
        yield from ({"step": row["step"], "quantity": k, "value": v} for k, v in row.items() if k != "step")


def rows_of(run: Run, scale: str) -> list[dict[str, Any]]:
    """A transformer over training, and at its end."""
    assert run.report is not None
    rows = []
    for row in run.rows:
        measures, losses = row["measures"], row["hop_losses"]
        rows.append({"step": row["step"], "accuracy": next(iter(measures["retrieval_accuracy"].values()))})
        rows[-1] |= {"loss" if hop == "in_context" else f"loss {hop}": loss for hop, loss in losses.items()}
        rows[-1] |= {"previous_token": max(measures["previous_token_score"].values())}
        rows[-1] |= {"induction": max(measures["induction_score"].values())}
    end: dict[str, Any] = {"step": run.report["step"], "report": run.report["accuracy"][0]}
    return [*rows, end | (circuit_numbers(run, scale) if run.config.model.n_layers > 1 else {})]


def circuit_numbers(run: Run, scale: str) -> dict[str, float]:
    """The circuit of a model in numbers: whether there is one, its losses, and the paths an induction head needs."""
    circuit = circuit_of(run, scale)
    paths = [found.path for found in circuit.paths]
    return {
        "circuit accepted": float(circuit.accepted),
        "circuit paths": float(len(paths)),
        "circuit previous-token paths": sum(p.query == "value[1]" and p.key == "key[1]" for p in paths),
        "circuit induction paths": sum(p.query == "query" and p.key == "value[1]" for p in paths),
        **{f"circuit loss {name}": loss.mean for name, loss in circuit.losses.items()},
    }


# Figure ----------------------------------------------------------------------------------------------------------


@styled
def figure(table: DataFrame) -> Figure:
    """Left: recalls of the basic model. Middle: accuracy in context. Right: recalls after each of three steps."""
    shown = picture(11.5, 3.8)
    left, middle, right = shown.subplots(1, 3)
    for index, name in enumerate(("W_O2", "W_K2", "W_K1 first")):
        draw(left, table, "basic", name, index, name.replace(" first", ", first 64 positions"))
        draw(left, table, "basic drawn", name, index, None, ls=":")
        draw(right, table, "three steps", name, index, name, marker="o")
        draw(right, table, "three whole steps", name, index, None, ls=":", marker="o")
    for index, model in enumerate(("basic", "basic staged", "1 layer", "2 layers")):
        draw(middle, table, model, "accuracy", index, model)
    left.set(title="Memory recall (dotted: drawn triggers)", ylabel="recall")
    middle.set(title="Accuracy on predictable outputs", ylabel="accuracy")
    right.set(title="One step each (dotted: whole gradients)", xlabel="gradient steps", ylabel="recall")
    right.set_xticks(range(4), ["0", *(f"{number} {name}" for number, name in enumerate(TRAINED, 1))])
    for ax in (left, middle, right):
        ax.set_ylim(-0.02, 1.05)
        ax.axhline(HALF, color=GREY, lw=0.6, ls="--", zorder=0)
        ax.legend(fontsize=7)
    left.set_xlabel("steps of SGD")
    middle.set_xlabel("optimizer steps")
    return shown


def draw(ax: Axes, table: DataFrame, model: str, quantity: str, index: int, label: str | None, **style: Any) -> None:
    """The mean over seeds, and each seed thin."""
    rows = table[(table.model == model) & (table.quantity == quantity)]
    for _, run in rows.groupby("run"):
        ax.plot(run.step, run.value, color=colour(index), lw=0.6, alpha=0.4, **style)
    mean = rows.groupby("step").value.mean()
    ax.plot(mean.index, mean, color=colour(index), lw=1.8, label=label or "_", **style)


# Claims ----------------------------------------------------------------------------------------------------------


def last(table: DataFrame, model: str, quantity: str) -> Series:
    """A quantity at the end of each run of a model, by seed."""
    rows = table[(table.model == model) & (table.quantity == quantity)].sort_values("step")
    return rows.groupby("seed").value.last()


def reached(table: DataFrame, model: str, quantity: str, level: float) -> Series:
    """The step at which a quantity first reaches a level, on straight lines between rows, by seed; inf if never."""
    rows = table[(table.model == model) & (table.quantity == quantity)].sort_values("step")
    found = {seed: crossing(run.step.tolist(), (-run.value).tolist(), -level) for seed, run in rows.groupby("seed")}
    return Series(found, dtype=float).fillna(float("inf"))


def about(
    name: str, sentence: str, values: Series, what: str, table: DataFrame, model: str, section: str = "", **more: Any
) -> Claim:
    """A claim about the runs of a model; its number is their mean."""
    told: dict[str, Any] = {"number": more.get("of", "mean"), "source": "ours", **more}
    rows, section = table[table.model == model], f"card 3 (Bietti){section}"
    return judge(name, sentence, values, what, section=section, rows=rows, among=table, n=len(values), **told)


def claims(table: DataFrame) -> Iterator[Claim]:
    """The talk's sentences, and the paper's."""
    yield from about_depth(table)
    yield from about_order(table)
    yield from about_joint(table)
    yield from about_steps(table)
    yield about_circuit(table)


def about_depth(table: DataFrame) -> Iterator[Claim]:
    """One layer fails, two succeed."""
    yield about(
        "one_layer_fails",
        "A transformer of one layer predicts about 55 % of the outputs in context.",
        last(table, "1 layer", "report"),
        "accuracy",
        table,
        "1 layer",
        below=0.75,
        source="ours; paper: about 0.55",
    )
    yield about(
        "two_layers_succeed",
        "A transformer of two layers predicts about 99 % of them.",
        last(table, "2 layers", "report"),
        "accuracy",
        table,
        "2 layers",
        above=0.97,
        source="ours; paper: about 0.99",
    )
    yield about(
        "basic_model_succeeds",
        "So does the basic model, of which three matrices are trained among frozen random embeddings.",
        last(table, "basic", "accuracy"),
        "accuracy",
        table,
        "basic",
        above=SOLVED,
    )


def about_order(table: DataFrame) -> Iterator[Claim]:
    """Which memory forms first, of fixed triggers and of drawn ones."""
    for model, name in (("basic", "memories_in_order"), ("basic drawn", "memories_in_order_drawn")):
        o2, k2, k1 = (reached(table, model, memory, HALF) for memory in ("W_O2", "W_K2", "W_K1 first"))
        words = f"medians {o2.median():.0f}, {k2.median():.0f}, {k1.median():.0f}"
        triggers = "the most frequent characters" if model == "basic" else "drawn anew for each sequence"
        yield about(
            name,
            f"Trained at once, memories form in the order W_O², W_K², W_K¹ (triggers: {triggers}; {words}).",
            (o2 < k2) & (k2 < k1),
            f"runs in which recalls reach {HALF} in this order",
            table,
            model,
            of="share of",
            equals=1,
        )


def about_joint(table: DataFrame) -> Iterator[Claim]:
    """At once against one after the other, whose stages are not charged for being longer than they must."""
    first, second, learnt = (
        reached(table, "basic staged", quantity, level)
        for quantity, level in (("W_O2", HALF), ("W_K2", HALF), ("accuracy", SOLVED))
    )
    stage = last(table, "basic staged", "stage")
    tight = first + (second - stage).clip(lower=0) + (learnt - 2 * stage).clip(lower=0)
    for name, quantity, level, staged, sentence in (
        (
            "joint_learning_is_faster",
            "accuracy",
            SOLVED,
            tight,
            "Trained at once the basic model learns sooner than trained in stages, from the top down, "
            f"though each stage count only until its memory's recall is {HALF}",
        ),
        (
            "first_memory_is_faster_jointly",
            "W_O2",
            HALF,
            first,
            "Even W_O² is learnt sooner beside the others than in its stage, alone",
        ),
    ):
        joint = reached(table, "basic", quantity, level)
        yield about(
            name,
            f"{sentence} (medians {joint.median():.0f} and {staged.median():.0f} steps).",
            (staged / joint).dropna(),
            f"ratio of steps until {quantity} is {level}, staged to joint",
            table,
            "basic",
            above=1,
        )


def about_steps(table: DataFrame) -> Iterator[Claim]:
    """One gradient step each: in the simplified setup, and with the whole gradients."""
    for model, name, words in (
        ("three steps", "three_steps_suffice", "each matrix moved in its memory's block"),
        ("three whole steps", "three_whole_steps", "whole gradients"),
    ):
        recalled, accuracy = [last(table, model, memory) for memory in TRAINED], last(table, model, "accuracy")
        words += f"; recalls {', '.join(f'{r.mean():.2f}' for r in recalled)}, accuracy {accuracy.mean():.2f}"
        yield about(
            name,
            f"One gradient step on the population loss for each of W_O², W_K², W_K¹ in turn suffices ({words}).",
            DataFrame(recalled).min(),
            "recall of the three memories",
            table,
            model,
            ", theorem (informal)",
            above=SOLVED,
            also=[bound("accuracy", accuracy, above=SOLVED)],
        )


def about_circuit(table: DataFrame) -> Claim:
    """What circuit discovery finds in the transformers of two layers."""
    accepted = last(table, "2 layers", "circuit accepted")
    before, copy = (last(table, "2 layers", f"circuit {kind} paths") for kind in ("previous-token", "induction"))
    return about(
        "circuit_is_an_induction_head",
        "In two layers discovery finds a circuit with a path from an output to its trigger before it, and one from a "
        "later trigger to that output.",
        (accepted > 0) & (before > 0) & (copy > 0),
        "runs with such a circuit",
        table,
        "2 layers",
        of="share of",
        equals=1,
    )

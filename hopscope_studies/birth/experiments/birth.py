"""Birth of an induction head: memories of triggers and outputs, in the order in which they form.

In the data of Bietti et al. (2023, arXiv:2306.00802, section 4) a few triggers of a bigram language are followed by
outputs that each sequence draws for itself. Three kinds of models are measured: the basic model with frozen random
embeddings, whose three matrices are trained at once or one after the other; the same after one gradient step on each
matrix (`three_steps.py`); and transformers of one and two layers, with their circuits. The table has one row per
number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.configuration.freezing import parse_frozen
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope_studies.birth.claims import claims as claims
from hopscope_studies.birth.figure import figure as figure
from hopscope_studies.birth.models.basic_transformer import TRAINED, BasicArchitecture
from hopscope_studies.birth.tasks.trigger_bigrams import TriggerBigrams
from hopscope_studies.birth.three_steps import ThreeSteps, long

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 650, "paper": 60_000}

SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
MEASURES = "retrieval_accuracy,previous_token_score,induction_score"
#: How the authors train the basic model.
SGD: dict[str, Any] = {"weight_decay": 1e-4, "optimizer": "sgd(momentum=0.9)", "measures": f"memory_recall,{MEASURES}"}
#: By scale: of the basic model, width, length and training (the authors' README run; cpu: smaller, at the code's rate),
#: and how long a stage lasts.
BASIC: dict[str, tuple[int, int, dict[str, Any], int]] = {
    "quick": (16, 16, {"steps": 4, "batch": 4, "lr": 0.2, "log_every": 2, "val_size": 16}, 1),
    "cpu": (128, 64, {"steps": 400, "batch": 64, "lr": 0.2, "log_every": 10, "val_size": 128}, 150),
    "paper": (256, 256, {"steps": 1000, "batch": 512, "lr": 0.03, "log_every": 10, "val_size": 128}, 300),
}
#: The published proportions but for the batch (512; cpu: 32) and the length (256).
PUBLISHED: dict[str, tuple[int, int, dict[str, Any]]] = {
    "quick": (16, 20, {"steps": 4, "batch": 4, "lr": 0.03, "log_every": 2, "val_size": 16}),
    "cpu": (256, 128, {"steps": 1000, "batch": 32, "lr": 0.03, "log_every": 10, "val_size": 128, "stop_below": 0.2}),
    "paper": (256, 128, {"steps": 1000, "batch": 512, "lr": 0.03, "log_every": 10, "val_size": 128}),
}
STEPS = {"quick": ThreeSteps(length=4, d_vocab=6, sample=64), "cpu": ThreeSteps(), "paper": ThreeSteps(sample=2**17)}


def runs(scale: str) -> Iterator[Config | ThreeSteps]:
    """The basic model trained at once, with drawn triggers, and in stages; three gradient steps; full transformers."""
    for seed in range(SEEDS[scale]):
        yield basic(scale, seed)
        yield basic(scale, seed, triggers="drawn")
        yield basic(scale, seed, staged=True)
        yield STEPS[scale].but(seed=seed)
        yield STEPS[scale].but(seed=seed, blocks=False)
        yield from (full_model(scale, layers, seed) for layers in (1, 2))
        yield published(scale, seed)
        yield everywhere(scale, seed)


def basic(scale: str, seed: int, triggers: str = "frequent", staged: bool = False) -> Config:
    """A run of the basic model by SGD with momentum; if `staged`, each matrix is frozen until its stage begins."""
    d_model, length, how, stage = BASIC[scale]
    if staged:
        waiting = [f"{name}@0-{number * stage}" for number, name in enumerate(TRAINED) if number]
        how = how | {"frozen": ", ".join(waiting), "steps": how["steps"] + stage}
    task = TriggerBigrams(length=length, trigger_choice=triggers)
    return Config(task, BasicArchitecture(d_model=d_model), Training(**SGD, **how, seed=seed))


def published(scale: str, seed: int) -> Config:
    """A run of the basic model at the published proportions."""
    d_model, length, how = PUBLISHED[scale]
    return Config(TriggerBigrams(length=length), BasicArchitecture(d_model), Training(**SGD, **how, seed=seed))


def everywhere(scale: str, seed: int) -> Config:
    """A run of the basic model with a linear layer that predicts all next characters."""
    d_model, length, how, _ = BASIC[scale]
    task, model = TriggerBigrams(length=length, asked="all"), BasicArchitecture(d_model, feed_forward=True)
    return Config(task, model, Training(**SGD, **how, seed=seed))


def full_model(scale: str, layers: int, seed: int) -> Config:
    """A run of the project's transformer, trained by AdamW as in the paper."""
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
        Architecture(n_layers=layers, n_heads=shape[0], d_model=shape[1], init="early_layers", mlp=True),
        Training(**training, seed=seed),
    )


# Table -----------------------------------------------------------------------------------------------------------


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """One row per number: seed, model, step, quantity, value.

    Models are basic, basic drawn, basic staged, basic all, published, three steps, three whole steps, 1 layer, 2
    layers. Quantities are accuracy and loss in context; loss bigram and loss first, if all is asked; the recalls W_O2,
    W_K2, W_K1, W_K1 first; previous_token and induction, the attention of the best head; stage, the steps between the
    beginnings of stages; report, the accuracy on fresh sequences; and for two layers those that begin with circuit.
    """
    return rows_of(runs, lambda run: measured(run, scale))


def name_of(config: Config) -> str:
    """The name of a run's model in the table."""
    if not isinstance(config.model, BasicArchitecture):
        return "1 layer" if config.model.n_layers == 1 else f"{config.model.n_layers} layers"
    assert isinstance(config.task, TriggerBigrams)
    if config.task.asked == "all":
        return "basic all"
    if config.task.length in {length for _, length, _ in PUBLISHED.values()}:
        return "published"
    drawn = config.task.trigger_choice == "drawn"
    return "basic staged" if config.training.frozen else "basic drawn" if drawn else "basic"


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on a model over training and at its end."""
    assert run.report is not None
    model = name_of(run.config)
    rows = []
    for row in run.rows:
        measures, losses = row["measures"], row["hop_losses"]
        rows.append({"step": row["step"], "accuracy": next(iter(measures["retrieval_accuracy"].values()))})
        rows[-1] |= {"loss" if hop == "in_context" else f"loss {hop}": loss for hop, loss in losses.items()}
        rows[-1] |= {"previous_token": max(measures["previous_token_score"].values())}
        rows[-1] |= {"induction": max(measures["induction_score"].values())} | measures.get("memory_recall", {})
    end: dict[str, Any] = {"step": run.report["step"], "report": run.report["accuracy"][0]}
    stage = {"stage": float(stage_of(run.config))} if model == "basic staged" else {}
    rows.append(end | stage | (circuit_numbers(run, scale) if model == "2 layers" else {}))
    yield from ({"model": model, **row} for row in long(rows))


def stage_of(config: Config) -> int:
    """The step from which the second matrix is trained."""
    return min(frozen.until or 0 for frozen in parse_frozen(config.training.frozen))


def circuit_numbers(run: Run, scale: str) -> dict[str, float]:
    """Whether a model's circuit is accepted, its losses, and its numbers of previous-token and induction paths."""
    circuit = circuit_of(run, scale)
    paths = [found.path for found in circuit.paths]
    return {
        "circuit accepted": float(circuit.accepted),
        "circuit paths": float(len(paths)),
        "circuit previous-token paths": sum(p.query == "value[1]" and p.key == "key[1]" for p in paths),
        "circuit induction paths": sum(p.query == "query" and p.key == "value[1]" for p in paths),
        **{f"circuit loss {name}": loss.mean for name, loss in circuit.losses.items()},
    }

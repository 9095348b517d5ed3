"""Global association against in-context recall: the noisy bigram (Chen, Bruna and Bietti, arXiv:2406.03068; a talk).

A trigger is followed by noise with probability α, the same in all sequences, and otherwise by the sequence's own token.
Feed-forward weights are said to learn the noise first and to store it, so that without them a model should answer from
the context. The experiment measures how many samples a layer's gradient needs (the simplified model), how training
proceeds and what removing or truncating feed-forward weights does (two-layer transformers), and what truncation does to
SmolLM2 after "Madrid is located in".

There are two settings. The paper's own, after its code, is `noisy_characters`: noise is a rare character, the loss
begins at the second trigger, both MLPs are trained between frozen embeddings, tests have no noise, and one matrix at a
time is truncated. The talk's sentences are judged there. The other setting is ours and predates our reading of the
code. In it noise is a symbol of its own among equally likely tokens (`noisy_bigram`). Three sets of weights are
trained: attention with the last feed-forward part, attention with both, or, with LayerNorm, every weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished
from hopscope.interventions.truncation import Laser
from hopscope.measures import observe
from hopscope.models import Architecture, Transformer
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope_studies.noisy_bigram.claims import claims as claims
from hopscope_studies.noisy_bigram.drawing.noisy_bigram import figure as figure
from hopscope_studies.noisy_bigram.models.frozen_embeddings import FrozenEmbeddings
from hopscope_studies.noisy_bigram.official import answers, rows_of_official
from hopscope_studies.noisy_bigram.tasks.noisy_bigram import NoisyBigram
from hopscope_studies.noisy_bigram.tasks.noisy_characters import NoisyCharacters
from hopscope_studies.noisy_bigram.work import Sampled, Truncated

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 700, "long": 900, "paper": 40_000}
#: Seconds of the longest run of `long` on one core.
CELL_SECONDS = 150

ATTENTION_AND = "W_E, W_pos, W_U, b_U, *.b_O, *.b_QKV"  # frozen in the model of arXiv:2306.00802
FROZEN = {"last": f"{ATTENTION_AND}, blocks.0.mlp.*", "both": ATTENTION_AND, "all": ""}
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)  # of the rank, kept
SEQUENCES = {"quick": 64, "official": 512, "full": 1024}  # sequences for each number of the truncation curves
TRAINED = {"last": (0.25, 0.5, 0.75), "both": (0.5,), "all": (0.5,)}  # values of α, by which parts are trained
STREAMED = "in_context_recall,global_association"

SIZES: dict[str, dict[str, Any]] = {
    "quick": {"task": {"n_tokens": 8, "length": 12}, "d_model": 16, "seeds": 1, "steps": 6, "batch": 8},
    "cpu": {"task": {"n_tokens": 16, "length": 32}, "d_model": 64, "seeds": 2, "steps": 1000, "batch": 64},
    "paper": {"task": {"n_tokens": 64, "length": 256}, "d_model": 256, "seeds": 5, "steps": 5000, "batch": 256},
}
SIZES["long"] = {**SIZES["cpu"], "seeds": 5}
SAMPLED = {"quick": 1, "cpu": 3, "long": 5, "paper": 5}  # seeds of the simplified model
#: The paper's setting: length, width, seeds, and SGD (its own: 256, 256, a rate of .03, 5,000 steps of 512).
OFFICIAL: dict[str, tuple[int, int, int, dict[str, Any]]] = {
    "quick": (24, 16, 1, {"steps": 6, "batch": 8, "lr": 0.1, "log_every": 6, "val_size": 32, "checkpoints": "6"}),
    "cpu": (64, 64, 5, {"steps": 2000, "batch": 32, "lr": 0.03, "log_every": 25, "val_size": 128, "checkpoints": "50"}),
    "paper": (256, 256, 5, {"steps": 5000, "batch": 512, "lr": 0.03, "log_every": 25, "checkpoints": "50:1000,250"}),
}


def runs(scale: str) -> Iterator[Config | Sampled | Truncated]:
    """The simplified model by vocabulary; the paper's setting; ours by α and trained parts; a language model.

    Scale `long` has the runs of `cpu` and more seeds.
    """
    cpu = (16, 32, 64, 128, 256, 512)
    sizes = {"quick": (8, 16), "paper": (*cpu, 1024)}.get(scale, cpu)
    for n_tokens in sizes:
        for seed in range(SAMPLED[scale]):
            most, trials = (64, 2) if scale == "quick" else (32 * n_tokens, 16)
            yield Sampled(n_tokens=n_tokens, most=most, trials=trials, seed=seed)
    yield from official(scale)
    yield from transformers(scale)
    if scale != "quick":
        yield Truncated()


def official(scale: str) -> Iterator[Config]:
    """Runs in the paper's setting: both MLPs between frozen embeddings, trained by SGD with momentum."""
    length, d_model, seeds, how = OFFICIAL["cpu" if scale == "long" else scale]
    recipe: dict[str, Any] = {"weight_decay": 1e-4, "optimizer": "sgd(momentum=0.9)", "measures": STREAMED, **how}
    for seed in range(seeds):
        yield Config(NoisyCharacters(length=length), FrozenEmbeddings(d_model), Training(**recipe, seed=seed))


def transformers(scale: str) -> Iterator[Config]:
    """Runs in our setting: two layers of one head."""
    size = SIZES[scale]
    quick = scale == "quick"
    every = size["steps"] if quick else 25
    for trained, alphas in TRAINED.items():
        for alpha in alphas[:1] if quick else alphas:
            for seed in range(size["seeds"]):
                yield Config(
                    NoisyBigram(alpha=alpha, **size["task"]),
                    Architecture(
                        n_layers=2, d_model=size["d_model"], layer_norm=trained == "all", init="fan_in", mlp=True
                    ),
                    Training(
                        steps=size["steps"],
                        batch=size["batch"],
                        lr=1e-3 if trained == "all" else 3e-3,
                        weight_decay=0.01,
                        log_every=every,
                        val_size=32 if quick else 256,
                        measures=STREAMED,
                        checkpoints=str(size["steps"] if quick else 200),
                        frozen=FROZEN[trained],
                        seed=seed,
                    ),
                )


# Table -----------------------------------------------------------------------------------------------------------


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """Six kinds of rows.

    `official curve`: of the paper's setting both probabilities without noise, margins of noise in each MLP's output
    for the trigger alone, and layer 2's attention to answers and to noise, by step. `official truncation`: both
    probabilities by truncated matrix and kept share. Of ours `curve`: both by step of training. `truncation`: both, the
    margin and the share of sequences whose likeliest answer is the correct one, by layer and kept share, of the trained
    and the untrained model. `samples`: the simplified model's errors and recall by number of sequences. `language`:
    SmolLM2's answers.
    """
    return rows_of(runs, lambda run: measured(run, scale))


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """The training curves of one transformer, and its truncations."""
    task, training = run.task, run.config.training
    about = {"alpha": task.as_dict()["alpha"]}
    if isinstance(task, NoisyCharacters):
        yield from rows_of_official(run, about, SEQUENCES["quick" if scale == "quick" else "official"])
        return
    about |= {
        "trains": next(name for name, frozen in FROZEN.items() if frozen == training.frozen),
        "n_tokens": task.as_dict()["n_tokens"],
    }
    for row in run.rows:
        numbers = row["measures"]["in_context_recall"] | row["measures"]["global_association"]
        yield {"kind": "curve", **about, "step": row["step"], **numbers}
    n = SEQUENCES["quick" if scale == "quick" else "full"]
    batch = task.sample(n, generator(training.seed_eval, "truncation"))
    for state, step, shares in (("trained", run.step, SHARES), ("untrained", 0, SHARES[:1])):
        model = run.at(step)
        assert isinstance(model, Transformer)
        for row in truncations(model, batch, shares):
            yield {"kind": "truncation", **about, "state": state, "step": step, "samples": n, **row}


def truncations(model: Transformer, batch: Batch, shares: Iterable[float]) -> Iterator[dict[str, Any]]:
    """Rows on the model as trained, then with one layer's feed-forward weights truncated."""
    laser = Laser(model)
    yield {"layers": "none", "share": 1.0, **answers(observe(model, batch))}
    for layer, name in ((laser.layers[-1], "late"), (laser.layers[0], "early")):
        for share in shares:
            with laser([layer], share):
                yield {"layers": name, "share": share, **answers(observe(model, batch))}

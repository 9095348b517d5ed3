"""Do an MLP and a layer of linear attention take a step on learnt features? (von Oswald et al., 2023, section 4)

Sine waves in context, arXiv:2212.07677. A transformer embeds tokens by an MLP, then has one layer of linear attention.
It is compared with an MLP trained through a step of gradient descent, with a step on its own features, and with the
best step on sin x and cos x. Its start and its kernel are read off its weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from pandas import DataFrame
from torch import Tensor

from hopscope.configuration.config import Config, Training
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim, around, bound
from hopscope.experiments.quantities import Quantities
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope_studies.gradient_descent.claims import SENTENCES
from hopscope_studies.gradient_descent.comparison import answer_rows, answers, loss, sequences, shuffled_row
from hopscope_studies.gradient_descent.models.linear_self_attention import LinearSelfAttention, LinearSelfAttentionShape
from hopscope_studies.gradient_descent.tasks.sine_regression import REACH, SineRegression

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 600, "paper": 30_000}

COMPARES_RUNS = True  # a transformer with the next seed's MLP + step
TASK = SineRegression()
MLP = LinearSelfAttentionShape(d_embed=40, init_variance=0.002)
STEP = LinearSelfAttentionShape(d_embed=40, descends=True)
#: By kind of run: its shape; an untrained MLP besides.
SHAPES = {
    "transformer": MLP,
    "MLP + step": STEP,
    "softmax": MLP.but(softmax_first=True, init_variance=0.02),
    "no MLP": LinearSelfAttentionShape(init_variance=0.02),
}
FAST = Training(lr=3e-3, batch=256, warmup=50, schedule="cosine", weight_decay=0.0, clip=1.0, log_every=100)
TRAININGS = {
    "quick": FAST.but(steps=100, batch=16, val_size=64),
    "cpu": FAST.but(steps=3000, val_size=1024),
    "paper": Training(lr=1e-3, batch=2048, steps=20_000, weight_decay=0.0, clip=100.0, log_every=500),
}
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
SIZE = {"quick": 500, "cpu": 10_000, "paper": 10_000}  # fresh sequences of every comparison
GRID = torch.linspace(-REACH, REACH, 101)
MARKED = (50, 66)  # places of 0 and 1.6 on the grid, whose kernels are drawn


def runs(scale: str) -> Iterator[Config]:
    """Every kind and an untrained MLP, seed by seed. Of `MLP + step` the MLP and the rate are trained."""
    for seed in range(SEEDS[scale]):
        for kind, shape in SHAPES.items():
            frozen = "W_K, W_Q, W_V" if kind == "MLP + step" else ""
            yield Config(TASK, shape, TRAININGS[scale].but(seed=seed, frozen=frozen))
        yield Config(TASK, STEP, FAST.but(steps=0, warmup=0, seed=seed))


def kind_of(config: Config) -> str:
    """What a run is called in tables."""
    if not config.training.steps:
        return "untrained"
    return next(kind for kind, shape in SHAPES.items() if shape == config.model)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, quantity and step: columns kind, quantity, step (or x), value."""
    steps = [run.model for run in runs if kind_of(run.config) == "MLP + step"]
    return rows_of(runs, partial(numbers, steps=steps, batch=sequences(TASK, SIZE[scale])))


def numbers(run: Run, steps: Sequence[Any], batch: Batch) -> Iterator[dict[str, Any]]:
    """Losses of a run and of what it is compared with; of the transformer, its distances and its kernel.

    It is compared with the next seed's MLP and step, which shares neither its initial weights nor its training data.
    """
    kind, model, target = kind_of(run.config), run.model, batch.targets[:, 0, 0]
    assert isinstance(model, LinearSelfAttention)
    found = [("validation loss", row["step"], row["val_loss"]) for row in run.rows]
    ends = {"loss": loss(model, batch), "predicting 0": error(torch.zeros_like(target), batch)}
    ends["untrained step"] = error(own_step(model, batch, start=0.0), batch) if kind == "untrained" else float("nan")
    if kind == "transformer":
        step = steps[(run.config.training.seed + 1) % len(steps)]
        ends |= {row["what"]: row["model"] / row["descent"] for row in answer_rows(model, step, batch)}
        ends |= of_kernel(model) | {"waves' step": error(waves_step(batch), batch)}
        ends["mean wave"] = error(mean_wave(batch.inputs[:, -1, 0]), batch)
        ends["shuffled"] = shuffled_row(model, step, batch)["model"]
        own, mine = own_step(model, batch), answers(model, batch.inputs).detach()
        ends["own step"] = float((mine - own).abs().mean() / own.abs().mean())
        found += [("example", *pair) for pair in batch.inputs[0, :-1].tolist()]
        for place in MARKED:
            curve = kernel(model, GRID, GRID[place : place + 1])[:, 0]
            found += curve_of(f"kernel at {abs(GRID[place]):.1f}", curve / curve[place])
    if kind in ("transformer", "MLP + step"):
        found += curve_of("answer", wave(model, batch))
    found += [(quantity, run.step, value) for quantity, value in ends.items()]
    return ({"kind": kind, "quantity": quantity, "step": step, "value": value} for quantity, step, value in found)


def curve_of(quantity: str, values: Float[Tensor, "x"]) -> list[tuple[str, Any, float]]:
    """Values on the grid of x, which stands for steps."""
    return [(quantity, *pair) for pair in zip(GRID.tolist(), values.tolist(), strict=True)]


def error(found: Float[Tensor, "batch"], batch: Batch) -> float:
    """Half the mean squared error of answers."""
    return float((found - batch.targets[:, 0, 0]).square().mean() / 2)


# What the weights compute ----------------------------------------------------------------------------------------


def embedded(model: LinearSelfAttention, x: Float[Tensor, "..."]) -> Float[Tensor, "... d_token"]:
    """Tokens of x without a y."""
    return model.embed(torch.stack([x, torch.zeros_like(x)], -1))


@torch.no_grad()
def kernel(
    model: LinearSelfAttention, x: Float[Tensor, "... n"], asked: Float[Tensor, "... m"]
) -> Float[Tensor, "... n m"]:
    """How much each x that is asked about attends to each x of an example, whose y is left out."""
    keys, queries = embedded(model, x) @ model.W_K[0].T, embedded(model, asked) @ model.W_Q[0].T
    return keys @ queries.mT


@torch.no_grad()
def own_step(model: LinearSelfAttention, batch: Batch, start: float = 1.0) -> Float[Tensor, "batch"]:
    """Answers of one step on the model's features, from `start` times its answers without examples, at the best rate.

    Features enter by their kernel: the step adds η Σ_i (y_i − f(x_i)) k(x_i, x) to f(x), the answer without examples.
    """
    x, y = batch.inputs[..., 0], batch.inputs[:, :-1, 1]
    begun = -start * embedded(model, x)[..., -1]
    added = ((y - begun[:, :-1]) * kernel(model, x[:, :-1], x[:, -1:])[..., 0]).sum(-1)
    rest = batch.targets[:, 0, 0] - begun[:, -1]
    return begun[:, -1] + added * (added @ rest) / added.square().sum()


def of_kernel(model: LinearSelfAttention) -> dict[str, float]:
    """On a grid of x: the odd part's size over the even part's; the share of negative eigenvalues; likeness to waves'.

    A kernel and the values that it weighs are determined up to a common sign, which is chosen for a positive trace.
    """
    found = kernel(model, GRID, GRID)
    found = found * found.trace().sign()
    values = torch.linalg.eigvalsh(found + found.T)
    waves = (GRID[:, None] - GRID).cos()  # sin x sin x' + cos x cos x'
    return {
        "asymmetry": float((found - found.T).norm() / (found + found.T).norm()),
        "negative": float(-values.clamp(max=0).sum() / values.abs().sum()),
        "correlation with waves": float(torch.corrcoef(torch.stack([found.flatten(), waves.flatten()]))[0, 1]),
    }


def mean_wave(x: Tensor) -> Tensor:
    """E[a sin(x + φ)], the best answer without examples."""
    return 0.3 * 2 / torch.pi * x.cos()


def waves_step(batch: Batch) -> Float[Tensor, "batch"]:
    """Answers of the best step on sin x and cos x from the mean wave: its two rates are fitted by least squares."""
    x, y = batch.inputs[..., 0], batch.inputs[:, :-1, 1]
    features = torch.stack([x.sin(), x.cos()], -1)
    added = torch.einsum("bn,bnf->bf", y - mean_wave(x[:, :-1]), features[:, :-1]) * features[:, -1]
    begun = mean_wave(x[:, -1])
    rates = torch.linalg.lstsq(added, (batch.targets[:, 0, 0] - begun)[:, None]).solution
    return begun + (added @ rates)[:, 0]


def wave(model: LinearSelfAttention, batch: Batch) -> Float[Tensor, "x"]:
    """Answers over a grid of x to the first sequence's examples."""
    shown = batch.inputs[:1].repeat(len(GRID), 1, 1)
    shown[:, -1, 0] = GRID
    return answers(model, shown).detach()


# Claims and figure -----------------------------------------------------------------------------------------------


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours, and were committed before the runs; README.md says what we expected."""
    told = Quantities(table, "4")
    of = partial(told.of, "transformer")

    def claim(id: str, values: Any, what: str, *kinds: str, **how: Any) -> Claim:
        return told.claim(id, SENTENCES["nonlinear"][id], values, what, ("transformer", *kinds), **how)

    final = of("loss")
    ratio, share = final / told.of("MLP + step", "loss"), "distance over mean size"
    yield claim("reaches_mlp_and_step", ratio, "ratio of losses", "MLP + step", within=around(1.0, 0.25))
    also = [bound("correlation of answers", of("correlation of answers"), at_least=0.99)]
    yield claim("answers_agree", of("distance of answers"), share, "MLP + step", at_most=0.1, also=also)
    also = [bound("mean cosine", of("cosine of sensitivities"), at_least=0.9)]
    yield claim("sensitivities_agree", of("distance of sensitivities"), share, "MLP + step", at_most=0.15, also=also)
    yield claim("steps_on_its_own_features", of("own step"), share, at_most=0.1)
    also = [bound("share of negative eigenvalues", of("negative"), at_most=0.05)]
    yield claim("has_a_kernel", of("asymmetry"), "size of the odd part over the even part's", at_most=0.15, also=also)
    yield claim("kernel_is_of_waves", of("correlation with waves"), "correlation on a grid", at_least=0.95)
    yield claim("reaches_the_waves_step", final / of("waves' step"), "ratio of losses", at_most=1.5)
    ratio = told.of("softmax", "loss") / final
    yield claim("softmax_falls_short", ratio, "loss over that with linear attention", "softmax", at_least=2)
    of_zero = "loss over that of predicting 0"
    ratio = told.of("no MLP", "loss") / told.of("no MLP", "predicting 0")
    yield claim("pairs_alone_fail", ratio, of_zero, "no MLP", at_least=0.9)
    ratio = told.of("untrained", "untrained step") / told.of("untrained", "predicting 0")
    yield claim("drawn_features_fail", ratio, of_zero, "untrained", at_least=0.8)
    ratio = of("shuffled") / of("mean wave")
    yield claim("shuffled_labels_teach_nothing", ratio, "loss over that of the mean wave", at_least=1)


@styled
def figure(table: DataFrame) -> Figure:
    """Losses over training; one wave as both answer it; what is attended from two x."""
    shown = picture(11.0, 3.6)
    losses, curves, kernels = shown.subplots(1, 3)
    for index, (kind, rows) in enumerate(table[table.step > 0].groupby("kind", sort=False)):
        run_lines(losses, rows[rows.quantity == "validation loss"], color=colour(index), label=str(kind), lw=0.9)
        run_lines(curves, table[(table.kind == kind) & (table.quantity == "answer") & (table.seed == 0)],
                  color=colour(index), label=str(kind), lw=1.2)  # fmt: skip
    examples = table[(table.quantity == "example") & (table.seed == 0)]
    curves.plot(examples.step, examples.value, "o", ms=4, color=GREY, label="examples")
    for index, place in enumerate(MARKED):
        at = abs(float(GRID[place]))
        kernels.plot(GRID, (GRID - at).cos(), "--", color=GREY, lw=1.5, label="_" if index else "of sin x and cos x")
        rows = table[table.quantity == f"kernel at {at:.1f}"]
        run_lines(kernels, rows, color=colour(index), label=f"with x' = {at:.1f}", lw=0.9)
    losses.set(xlabel="optimizer steps", ylabel="half squared error", title="Training", yscale="log")
    curves.set(xlabel="x", ylabel="answer", title="One wave, seed 0")
    kernels.set(xlabel="x", ylabel="kernel over its value at x'", title="Kernel of the transformer")
    for ax in (losses, curves, kernels):
        ax.legend(fontsize=7)
    return shown

"""Does a first layer learn to pair tokens for a step of descent in the second? (von Oswald et al., 2023, section 5)

Linear regression in context, arXiv:2212.07677, with x and y of an example in two tokens. The first layer's attention is
a softmax, as in the paper, or linear. The loss of both is compared with one and two steps of gradient descent on pairs,
in closed form. What the first layer reads is measured over training, by attention and by partial derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from pandas import DataFrame, Series
from torch import Tensor

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence, around, bound, telling
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope_studies.gradient_descent.claims import SENTENCES
from hopscope_studies.gradient_descent.comparison import answers, course_rows, descent, loss, sequences
from hopscope_studies.gradient_descent.models.linear_self_attention import LinearSelfAttention, LinearSelfAttentionShape
from hopscope_studies.gradient_descent.tasks.linear_regression import D_CODE, LinearRegression

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 450, "paper": 40_000}

TASK = LinearRegression(separate=True)
#: Initial variance: larger than the authors' 0.02 / inputs, from which nothing is learnt in the steps of scale `cpu`.
VARIANCE = {"quick": 0.1, "cpu": 0.1, "paper": 0.02 / TASK.d_input}
FAST = Training(lr=1e-2, batch=256, warmup=50, schedule="cosine", weight_decay=0.0, clip=1.0, log_every=50)
TRAININGS = {
    "quick": FAST.but(steps=100, batch=16, val_size=64, checkpoints="50"),
    "cpu": FAST.but(steps=4000, val_size=1024, checkpoints="50"),
    "paper": Training(lr=1e-3, batch=2048, steps=50_000, weight_decay=0.0, clip=10.0, log_every=500, checkpoints="500"),
}
SECTION = "5"
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
SIZE = {"quick": 500, "cpu": 10_000, "paper": 10_000}  # fresh sequences of the losses at the end
FEW = 16  # sequences on which readings are taken
PREFERENCE = 3  # a derivative over that of others from which on the first layer reads partners
PARTNERS = ["y reads its x", "x reads its y"]
told = telling(SENTENCES["copying_layer"])


def runs(scale: str) -> Iterator[Config]:
    """Both kinds of first layer, seed by seed."""
    for seed in range(SEEDS[scale]):
        for softmax in (True, False):
            shape = LinearSelfAttentionShape(n_layers=2, softmax_first=softmax, init_variance=VARIANCE[scale])
            yield Config(TASK, shape, TRAININGS[scale].but(seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, step, quantity and what it is of: columns first (layer), step, quantity, of, value."""
    return rows_of(runs, lambda run: numbers(run, SIZE[scale]))


def numbers(run: Run, size: int) -> Iterator[dict[str, Any]]:
    """Validation losses, beside a step's on the same sequences, and readings over training; losses at the end."""
    few = run.task.sample(FEW, generator(0, "readings"))
    found = [("loss", row["at"], {"trained": row["model"], "one step": row["descent"]}) for row in course_rows(run)]
    for step in run.steps:
        found += [(quantity, step, read(run.at(step), few)) for quantity, read in READINGS.items()]
    first = "softmax" if run.config.model.as_dict()["softmax_first"] else "linear"
    for quantity, step, values in [*found, ("end", run.step, ends(run, size))]:
        for of, value in values.items():
            yield {"first": first, "step": step, "quantity": quantity, "of": of, "value": value}


def attention(model: LinearSelfAttention, batch: Batch) -> dict[str, float]:
    """The first layer's attention, meaned over sequences, by kind of reader and token read."""
    with torch.no_grad():
        _, cache = model(batch.inputs, cache=["blocks.0.attn.hook_pattern"])
    return by_partner(cache["pattern", 0].mean((0, 1)), batch)


def derivatives(model: LinearSelfAttention, batch: Batch) -> dict[str, float]:
    """The norm of the derivative of each token after the first layer by x and y of each token before, as attention."""
    jacobian = torch.func.vmap(torch.func.jacrev(lambda tokens: model.layer(tokens[None], 0, None)[0]))(batch.inputs)
    return by_partner(jacobian[..., D_CODE:].square().sum((2, 4)).sqrt().mean(0).detach(), batch)


READINGS: dict[str, Callable[[Any, Batch], dict[str, float]]] = {"attention": attention, "derivative": derivatives}


def by_partner(matrix: Float[Tensor, "reader read"], batch: Batch) -> dict[str, float]:
    """Means over tokens of examples: of y reading its x, of x reading its y, and of any reading another example's."""
    pairs = [batch.roles.pairs(*roles, "same")[0] for roles in (("value[1]", "key[1]"), ("key[1]", "value[1]"))]
    others = ~(pairs[0] | pairs[1] | torch.eye(len(matrix), dtype=torch.bool))
    others[-1] = others[:, -1] = False
    return {of: float(matrix[which].mean()) for of, which in zip([*PARTNERS, "others"], [*pairs, others], strict=True)}


@torch.no_grad()
def ends(run: Run, size: int) -> dict[str, float]:
    """Half the squared errors on fresh sequences, and the distance of answers from descent's over their mean size."""
    task, model = TASK.but(separate=False), run.model
    assert isinstance(model, LinearSelfAttention)
    batch, pairs = sequences(TASK, size), sequences(task, size)
    one, two = (descent(task, steps, looped=False, turning=False) for steps in (1, 2))
    alone = model(batch.inputs, replace={"blocks.0.hook_attn_out": torch.zeros(1)}, at=slice(-1, None))
    theirs = answers(one, pairs.inputs)
    return {
        "trained": loss(model, batch),
        "second layer alone": float(TASK.loss(alone, batch.targets)),
        "one step": loss(one, pairs),
        "two steps": loss(two, pairs),
        "zero": float(TASK.loss(torch.zeros_like(batch.targets), batch.targets)),
        "distance": float((answers(model, batch.inputs) - theirs).abs().mean() / theirs.abs().mean()),
    }


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours, and were committed before the runs; README.md says what we expected."""
    end = table[table.quantity == "end"].pivot(index=["first", "seed"], columns="of", values="value")
    yield from of_losses(table, end)
    softmax = table[table["first"] == "softmax"]
    read = softmax[softmax.step == softmax.groupby("run").step.transform("max")]
    yield from of_readings(softmax, partners(read), partners(softmax[softmax.step == 0]))
    late = lateness(softmax, DataFrame(end.loc["softmax"]))
    what = "steps from reading partners to half of the loss's fall"
    yield told(Evidence(softmax, SECTION), "reading_comes_first", late, what, above=0)


def of_losses(table: DataFrame, end: DataFrame) -> Iterator[Claim]:
    """Trained models against descent on pairs, and without what the first layer writes."""
    softmax, linear = (Evidence(table[table["first"] == first], SECTION) for first in ("softmax", "linear"))
    ends, ratio = end.loc["softmax"], end.trained / end["one step"]
    two = bound("loss over that of two steps", ends.trained / ends["two steps"], at_least=1.2)
    what = "loss over that of one step"
    yield told(softmax, "reaches_one_step", ratio["softmax"], what, within=around(1.0, 0.05), also=[two])
    distance = "mean distance of answers over their mean size"
    yield told(softmax, "answers_are_a_steps", ends.distance, distance, at_most=0.1)
    yield told(linear, "linear_falls_short", ratio["linear"], what, at_least=1.2)
    alone, what = ends["second layer alone"] / ends.zero, "loss over that of predicting 0"
    yield told(softmax, "no_copying_no_descent", alone, what, at_least=0.95)


def of_readings(softmax: DataFrame, last: DataFrame, drawn: DataFrame) -> Iterator[Claim]:
    """What the first layer reads when trained, in the direction that it reads more, and as drawn."""
    by = Evidence(softmax, SECTION)
    yield told(by, "attends_to_partner", last.attention, "attention to the partner", at_least=0.3)
    what = "derivative by the partner over that by another example's token"
    yield told(by, "depends_on_partner", last.derivative, what, at_least=10)
    of_derivative = bound(what, drawn.derivative, at_most=2)
    yield told(by, "drawn_reads_all", drawn.attention, "attention", at_most=0.1, also=[of_derivative])


def partners(rows: DataFrame) -> DataFrame:
    """By seed and step, in the direction that is read more: attention, and the derivative over that of others."""
    read = rows[rows.quantity.isin(READINGS)]
    read = read.pivot(index=["quantity", "seed", "step"], columns="of", values="value")
    most = read[PARTNERS].max(axis=1)
    return DataFrame({"attention": most["attention"], "derivative": (most / read.others)["derivative"]})


def lateness(rows: DataFrame, end: DataFrame) -> Series:
    """By seed, by how many steps half of the loss's fall to one step's comes after the derivative's preference."""
    half = (end.zero + end["one step"]) / 2
    losses = rows[(rows.quantity == "loss") & (rows.of == "trained") & (rows.value < rows.seed.map(half))]
    derivative = partners(rows).derivative.reset_index()
    first = derivative[derivative.derivative > PREFERENCE].groupby("seed").step.min()
    return (losses.groupby("seed").step.min() - first).reindex(end.index)


@styled
def figure(table: DataFrame) -> Figure:
    """Over training, with a softmax first: validation losses, attention and derivatives, a line per run."""
    shown = picture(11.0, 3.6)
    softmax = table[(table["first"] == "softmax") & (table.step > 0)]  # drawn weights have losses of up to 150
    for ax, quantity in zip(shown.subplots(1, 3), ["loss", *READINGS], strict=True):
        for index, (of, rows) in enumerate(softmax[softmax.quantity == quantity].groupby("of")):
            run_lines(ax, rows, color=colour(index), label=str(of), lw=0.9, alpha=0.8)
        ax.set(xlabel="optimizer steps", title=quantity, yscale="log" if quantity == "derivative" else "linear")
        ax.legend(fontsize=7)
    return shown

"""A trained model compared with gradient descent: losses, answers, sensitivities, other inputs, repetition.

All runs are measured on the same fresh sequences, in float32. The columns `model` and `descent` of a row hold the same
quantity of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch, Task
from hopscope_studies.gradient_descent.construction import constructed, halfway, repeated
from hopscope_studies.gradient_descent.models.linear_self_attention import LinearSelfAttention
from hopscope_studies.gradient_descent.tasks.linear_regression import LinearRegression
from hopscope_studies.gradient_descent.theory.one_step import best_rate
from hopscope_studies.gradient_descent.theory.several_steps import best_rates

RANGES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)  # of inputs; trained at 1
WEIGHTS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)  # standard deviation of the weights; trained at 1
TIMES, DAMPING = 10, 0.75  # a one-layer model applied to its own tokens; damping is the paper's λ

Row = dict[str, Any]


def descent(task: LinearRegression, layers: int, *, looped: bool, turning: bool) -> LinearSelfAttention:
    """Gradient descent, or GD++, at its best rates, as a model; one step at the rate of the closed form."""
    if layers == 1:
        return constructed(task, [best_rate(task.d_x, task.n_points, task.input_range)])
    how = {"turning": turning, "looped": looped, "input_range": task.input_range}
    rates = best_rates(task.d_x, task.n_points, layers, **how)
    return constructed(task, rates.etas, rates.gammas)


def answers(model: LinearSelfAttention, inputs: Float[Tensor, "batch position d_token"]) -> Float[Tensor, "batch"]:
    """What a model answers to each sequence."""
    found: Tensor = model(inputs, at=slice(-1, None))[:, 0, 0]
    return found


def loss(model: LinearSelfAttention, batch: Batch) -> float:
    """Half the mean squared error."""
    with torch.no_grad():
        return float((answers(model, batch.inputs) - batch.targets[:, 0, 0]).square().mean() / 2)


def repeated_losses(model: LinearSelfAttention, batch: Batch, y_alone: bool) -> list[float]:
    """Half the mean squared error after every application of a one-layer model to its own tokens."""
    found = repeated(model, batch.inputs, TIMES, DAMPING, y_alone=y_alone)
    losses: list[float] = ((found - batch.targets[:, 0, 0]).square().mean(-1) / 2).tolist()
    return losses


def sensitivity(
    model: LinearSelfAttention, inputs: Float[Tensor, "batch position d_token"]
) -> Float[Tensor, "batch d_x"]:
    """By how much each answer rises with each component of the x that is asked about."""
    inputs = inputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(answers(model, inputs).sum(), inputs)
    return gradient[:, -1, :-1]


def sequences(task: Task, size: int) -> Batch:
    """Fresh sequences, the same for every run."""
    return task.sample(size, generator(0, "comparison"))


def one_layer_rows(run: Run, size: int) -> Iterator[Row]:
    """A one-layer model against one step of gradient descent."""
    task, model = run.task, run.model
    assert isinstance(task, LinearRegression) and isinstance(model, LinearSelfAttention)
    step = descent(task, 1, looped=False, turning=False)
    batch = sequences(task, size)
    yield row("constructed", *by_hand(step, batch))
    yield row("loss", loss(model, batch), loss(step, batch))
    yield from answer_rows(model, step, batch)
    yield row("loss of interpolated weights", loss(halfway(task, model, step), batch), loss(step, batch))
    yield shuffled_row(model, step, batch)
    yield from elsewhere_rows(task, model, step, size)
    for what, y_alone in (("loss repeated", False), ("loss repeated on y alone", True)):
        mine, theirs = (repeated_losses(one, batch, y_alone) for one in (model, step))
        for time, (a, b) in enumerate(zip(mine, theirs, strict=True), 1):
            yield row(what, a, b, at=time)


def by_hand(step: LinearSelfAttention, batch: Batch) -> tuple[float, float]:
    """Greatest difference of an answer of the constructed layer from descent without attention; answers' mean size."""
    task: LinearRegression = batch.task  # type: ignore[assignment]
    x, y, asked = batch.inputs[:, :-1, :-1].double(), batch.inputs[:, :-1, -1].double(), batch.draw["x"][:, -1].double()
    rate = best_rate(task.d_x, task.n_points, task.input_range)
    weights = rate * torch.einsum("bn,bnx->bx", y, x) / task.n_points
    theirs = (weights * asked).sum(-1)
    with torch.no_grad():
        return float((answers(step, batch.inputs) - theirs).abs().max()), float(theirs.abs().mean())


def row(what: str, model: float, descent: float, at: float = 1.0) -> Row:
    return {"what": what, "at": at, "model": model, "descent": descent}


def answer_rows(model: LinearSelfAttention, step: LinearSelfAttention, batch: Batch) -> Iterator[Row]:
    """Distances of answers and of sensitivities; for a distance, `descent` holds the size of descent's own."""
    with torch.no_grad():
        mine, theirs = answers(model, batch.inputs), answers(step, batch.inputs)
    yield row("correlation of answers", float(torch.corrcoef(torch.stack([mine, theirs]))[0, 1]), 1.0)
    yield row("distance of answers", float((mine - theirs).abs().mean()), float(theirs.abs().mean()))
    a, b = sensitivity(model, batch.inputs), sensitivity(step, batch.inputs)
    yield row("cosine of sensitivities", float(torch.cosine_similarity(a, b).mean()), 1.0)
    yield row("distance of sensitivities", float((a - b).norm(dim=-1).mean()), float(b.norm(dim=-1).mean()))


def elsewhere_rows(
    task: LinearRegression, model: LinearSelfAttention, step: LinearSelfAttention, size: int
) -> Iterator[Row]:
    """Losses on inputs, and on weights, of other sizes than were trained on."""
    for name, sizes in (("input_range", RANGES), ("weight_scale", WEIGHTS)):
        for at in sizes:
            batch = sequences(task.but(**{name: at}), size)
            yield row(f"loss by {name.replace('_', ' ')}", loss(model, batch), loss(step, batch), at=at)


def shuffled_row(model: LinearSelfAttention, step: LinearSelfAttention, batch: Batch) -> Row:
    """Losses if every example has the label of the example before, so that the answer cannot be known."""
    inputs = batch.inputs.clone()
    inputs[:, :-1, -1] = inputs[:, :-1, -1].roll(1, 1)
    target = batch.targets[:, 0, 0]
    with torch.no_grad():
        found = [float((answers(one, inputs) - target).square().mean() / 2) for one in (model, step)]
    return {**row("loss with shuffled labels", *found), "zero": float(target.square().mean() / 2)}


def several_layers_rows(run: Run, size: int) -> Iterator[Row]:
    """A model of several layers against as many steps of gradient descent, and of GD++, at their best rates."""
    task, model = run.task, run.model
    assert isinstance(task, LinearRegression) and isinstance(model, LinearSelfAttention)
    shape, batch = model.architecture, sequences(task, size)
    for name, turning in (("gradient descent", False), ("GD++", True)):
        steps = descent(task, shape.n_layers, looped=shape.looped, turning=turning)
        yield row(f"loss against {name}", loss(model, batch), loss(steps, batch), at=shape.n_layers)


def course_rows(run: Run) -> Iterator[Row]:
    """Validation losses over training, beside that of one step of gradient descent on the same sequences in pairs."""
    task, training = run.task.but(separate=False), run.config.training
    assert isinstance(task, LinearRegression)
    batch = task.sample(training.val_size, generator(training.seed_eval, "validation", 0))
    step = loss(descent(task, 1, looped=False, turning=False), batch)
    for logged in run.rows:
        yield row("validation loss", logged["val_loss"], step, at=logged["step"])

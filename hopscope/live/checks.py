"""Checks of the arguments of `find_circuit`, before anything is searched, and defaults for those that were not given.

The search needs a loss for every sequence, so the caller's loss is called on one row at a time, by vmap if possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope.circuits.discovery import Discovery
from hopscope.core.settings import BadInput
from hopscope.core.wording import count, kind, one_line
from hopscope.live.borrowed import Borrowed, check_tensor
from hopscope.live.given import LEAST, Measure, shaped, slice_of
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles
from hopscope.tasks.base import NOT_ASKED

SOME = 8  # rows on which the model and the caller's functions are tried
CHUNK = 256  # rows in a pass that looks at all of them
CLOSE = 1e-3  # relative tolerance between the loss of several rows and the mean of their losses

Places = int | Sequence[int | Sequence[int] | None]
Naming = Callable[[list[Any]], Mapping[str, Places]]


def check_tensors(inputs: Any, targets: Any, at: int | slice) -> None:
    """Raise BadInput unless inputs and targets have valid types, shapes, values and numbers of rows."""
    check_tensor(inputs, "inputs")
    check_tensor(targets, "targets")
    floating = inputs.is_floating_point()
    if inputs.ndim != 2 + floating or inputs.shape[1] < 2:
        wanted = "features of shape (row, position, feature)" if floating else "tokens of shape (row, position)"
        raise BadInput(f"inputs must be {wanted}, with two positions or more; got {tuple(inputs.shape)}")
    if len(inputs) != len(targets):
        raise BadInput(f"inputs and targets must have as many rows; got {len(inputs)} and {len(targets)}")
    if len(inputs) < LEAST:
        raise BadInput(f"a search divides the rows and needs at least {LEAST} of them; got {len(inputs)}")
    if not floating and int(inputs.min()) < 0:
        raise BadInput(f"tokens must be numbered from 0; got {int(inputs.min())}")
    if bool((targets == targets[:1]).all()):
        raise BadInput("all targets are the same, so there is nothing to find; give answers that differ")
    check_at(at, inputs.shape[1])


def check_at(at: Any, n: int) -> None:
    """Raise BadInput unless `at` is one of n positions, or a slice that holds some."""
    if isinstance(at, bool) or not isinstance(at, int | slice):
        raise BadInput(f"at must be a position or a slice of positions; got {at!r}")
    if isinstance(at, int) and not -n <= at < n:
        raise BadInput(f"at must be one of the {n} positions; got {at}")
    try:
        held = range(n)[at] if isinstance(at, slice) else range(1)
    except (TypeError, ValueError) as error:  # bounds that are no integers, or a step of 0
        raise BadInput(f"at must be a slice of whole numbers with a step other than 0; got {at}") from error
    if not held or held.step < 0:
        raise BadInput(f"at must hold some of the {n} positions, in their order; got {at}")


def check_floor(floor: Any, best_accuracy: Any) -> None:
    """Raise BadInput unless the floor is a finite number, and the best accuracy is in (0, 1]."""
    if isinstance(floor, bool) or not isinstance(floor, int | float) or not math.isfinite(floor):
        raise BadInput(f"floor must be a finite number; got {floor!r}")
    if isinstance(best_accuracy, bool) or not isinstance(best_accuracy, int | float) or not 0 < best_accuracy <= 1:
        raise BadInput(f"best_accuracy must be above 0 and at most 1; got {best_accuracy!r}")


def check_classes(outputs: Tensor, targets: Tensor, *, strict: bool) -> None:
    """Raise BadInput for class targets if a row has none, or, under `strict`, if one is out of range.

    Args:
        outputs: for some rows, in the shape that the caller's loss takes.
        targets: of all rows.
        strict: whether targets must be numbers of outputs, because the default loss is used.
    """
    if targets.is_floating_point() or targets.shape[1:] != outputs.shape[1:-1]:
        return
    silent = int((targets == NOT_ASKED).reshape(len(targets), -1).all(1).sum())
    if silent:
        raise BadInput(f"leave out {count(silent, 'row')} without a target, where all targets are {NOT_ASKED}")
    outside = targets[(targets != NOT_ASKED) & ((targets < 0) | (targets >= outputs.shape[-1]))]
    if strict and len(outside):
        raise BadInput(
            f"targets must be numbers of the {outputs.shape[-1]} outputs, or {NOT_ASKED} where there is no target; "
            f"got {int(outside[0])}"
        )


def sizes(settings: Discovery | None, n: int) -> Discovery:
    """Settings of a search on n rows: given ones must fit, and defaults are reduced to fit. Raises BadInput."""
    if settings is not None and not isinstance(settings, Discovery):
        raise BadInput(f"settings must be a hopscope.circuits.discovery.Discovery; got {settings!r}")
    if settings is None:
        settings = Discovery()
        parts = {"discovery": n // 8, "selection": n // 4, "report": n // 4}
        return settings.but(**{name: min(getattr(settings, name), most) for name, most in parts.items()})
    needed = max(2 * (settings.discovery + settings.selection), 4 * settings.report)
    if needed > n:
        raise BadInput(f"a search of these sizes needs {needed} rows; got {n}: give more rows, or omit settings")
    return settings


def first_outputs(model: Borrowed, inputs: Tensor, at: slice) -> Tensor:
    """The model's outputs for the first `SOME` rows, (row, position, output). Raises BadInput where it fails."""
    extreme = [] if inputs.is_floating_point() else [int(inputs.amax(1).argmax()), int(inputs.amin(1).argmin())]
    some = torch.tensor([*range(SOME), *extreme], device=inputs.device)  # also the rows most likely out of vocabulary
    try:
        with torch.no_grad():
            outputs: Tensor = model(inputs[some], at=at)
    except Exception as error:  # the caller's module may raise anything
        raise failing(f"the model cannot read inputs of shape {tuple(inputs.shape)}", error) from None
    if not isinstance(outputs, Tensor) or outputs.ndim != 3:
        wanted = "a tensor (row, position, output) and nothing else"
        raise BadInput(f"the model must return {wanted}; got {kind(outputs)}")
    return outputs[:SOME]


@torch.no_grad()
def check_patterns(model: Borrowed, inputs: Tensor, at: slice, answers: Tensor) -> None:
    """Raise BadInput if outputs are bit-identical with every pattern at 0: every set of paths would then pass."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.architecture.n_layers)]
    without = model(inputs, replace=dict.fromkeys(names, torch.zeros_like), at=at)
    if torch.equal(without, answers):
        raise BadInput(
            "setting every attention pattern to 0 changes no answer: either this model's heads do nothing, or it does "
            "not read what replaces its patterns"
        )


# Loss and correctness --------------------------------------------------------------------------------------------


def loss_of(given: Measure | None, outputs: Tensor, targets: Tensor) -> Measure:
    """A loss that vmap can call on single rows. Raises BadInput unless the given loss is a finite mean over rows.

    Args:
        given: the caller's; by default cross-entropy for whole numbers, and mean squared error for others.
        outputs: for some rows, in the shape that the caller's loss takes.
        targets: of the same rows.
    """
    loss = given or usual(outputs, targets)
    scale = 1e-30
    for answers in (outputs.roll(1, 0), outputs):  # rolled, because a good model's own loss may be 0
        value, single = evaluated(loss, answers, targets), one_by_one(loss, answers, targets)
        scale = max(scale, float(single.abs().max()))
        if not math.isclose(float(value), float(single.mean()), rel_tol=CLOSE, abs_tol=1e-6 * scale):
            raise BadInput(
                f"the loss must be a mean over rows; of {len(outputs)} rows it is {float(value):.4g}, "
                f"but the mean of their losses one by one {float(single.mean()):.4g}"
            )
    try:
        batched = torch.vmap(lambda output, target: loss(output[None], target[None]))(outputs, targets)
        fits = torch.allclose(batched, single, rtol=CLOSE, atol=1e-6 * scale)
    except (RuntimeError, ValueError, TypeError):
        fits = False
    return loss if fits else lambda outputs, targets: RowByRow.apply(outputs, targets, loss)  # type: ignore[no-any-return]


@torch.no_grad()
def check_losses(model: Borrowed, inputs: Tensor, targets: Tensor, at: int | slice, loss: Measure) -> None:
    """Raise BadInput unless the loss is finite on every row; a mean that holds another number says nothing."""
    for rows in torch.arange(len(inputs)).split(CHUNK):
        found = float(loss(shaped(model(inputs[rows], at=slice_of(at)), at), targets[rows]))
        if not math.isfinite(found):
            raise BadInput(f"the loss must be finite on every row; on rows {rows[0]} to {rows[-1]} it is {found}")


def one_by_one(loss: Measure, outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of each row. Raises BadInput."""
    return torch.stack([evaluated(loss, outputs[i : i + 1], targets[i : i + 1]) for i in range(len(outputs))])


def evaluated(loss: Measure, outputs: Tensor, targets: Tensor) -> Tensor:
    """The value of a loss. Raises BadInput unless it is a finite number in a tensor without dimensions."""
    shapes = f"outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(targets.shape)}"
    try:
        value = loss(outputs, targets)
    except Exception as error:  # the caller's function may raise anything
        raise failing(f"the loss fails on {shapes}", error) from None
    if not isinstance(value, Tensor) or value.ndim or not value.is_floating_point():
        raise BadInput(f"the loss must be one number, a tensor without dimensions, of {shapes}; got {kind(value)}")
    if not math.isfinite(float(value)):
        raise BadInput(f"the loss must be finite; of the first rows it is {float(value)}")
    return value.detach()


def usual(outputs: Tensor, targets: Tensor) -> Measure:
    """The default loss: cross-entropy or mean squared error. Raises BadInput if the shapes of targets fit neither."""
    like = outputs if targets.is_floating_point() else outputs[..., 0]
    if targets.shape != like.shape:
        shapes = f"targets of shape {tuple(targets.shape)} do not match outputs of shape {tuple(outputs.shape)} at `at`"
        raise BadInput(f"{shapes}; give {targets.dtype} of shape {tuple(like.shape)}, another `at`, or a loss")
    return F.mse_loss if targets.is_floating_point() else cross_entropy


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over rows of each row's mean over its targets other than `NOT_ASKED`, in nats."""
    each = F.cross_entropy(outputs.movedim(-1, 1), targets.long(), ignore_index=NOT_ASKED, reduction="none")
    counted = (targets != NOT_ASKED).to(each.dtype)
    return (each.flatten(1).sum(1) / counted.flatten(1).sum(1)).mean() if each.ndim > 1 else each.mean()


class RowByRow(torch.autograd.Function):
    """Lets vmap call a loss that it cannot batch, one row after the other; gradients work outside vmap."""

    @staticmethod
    def forward(outputs: Tensor, targets: Tensor, loss: Measure) -> Tensor:
        return loss(outputs, targets)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        outputs, targets, ctx.loss = inputs
        ctx.save_for_backward(outputs, targets)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:  # type: ignore[override]
        outputs, targets = ctx.saved_tensors
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            [gradient] = torch.autograd.grad(ctx.loss(leaf, targets), [leaf])
        return slope * gradient, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], outputs: Tensor, targets: Tensor, loss: Measure
    ) -> tuple[Tensor, int]:
        rows = zip(outputs.movedim(in_dims[0], 0), targets.movedim(in_dims[1], 0), strict=True)
        return torch.stack([loss(output, target) for output, target in rows]), 0


def failing(what: str, error: Exception) -> BadInput:
    """The complaint about a function of the caller's that raises."""
    return BadInput(f"{what}: {type(error).__name__}: {one_line(error)}")


def correct_of(given: Measure | None, outputs: Tensor, targets: Tensor, every: Tensor) -> Measure:
    """The rule for right answers. Raises BadInput if the caller's fails, or there is no default for these targets.

    Args:
        given: the caller's rule; None for the default.
        outputs: for some rows, in the shape that the caller's loss takes.
        targets: of the same rows.
        every: all targets, for their variance.
    """
    rule = given or likeliest_or_near(outputs, targets, every)
    again = torch.arange(len(every), device=outputs.device) % len(outputs)
    for some, answers in ((outputs, targets), (outputs[again], every)):
        try:
            found = rule(some, answers)
        except Exception as error:  # the caller's function may raise anything
            raise failing(f"correct fails on outputs of shape {tuple(some.shape)}", error) from None
        if not isinstance(found, Tensor) or found.dtype != torch.bool or found.numel() < len(some):
            words = "correct must return a tensor of bools, one for each answer"
            raise BadInput(f"{words}; got {kind(found)} for {len(some)} rows")
    return rule


def likeliest_or_near(outputs: Tensor, targets: Tensor, every: Tensor) -> Measure:
    """The default rule: the likeliest output for whole numbers; else a squared error below half the variance."""
    if not targets.is_floating_point() and targets.shape == outputs.shape[:-1]:
        return lambda outputs, targets: (outputs.argmax(-1) == targets)[targets != NOT_ASKED]
    if targets.is_floating_point() and targets.shape == outputs.shape:
        half = 0.5 * float((every - every.mean(0)).square().mean())
        return lambda outputs, targets: (outputs - targets).square().mean(-1) < half
    raise BadInput(
        f"targets of shape {tuple(targets.shape)} do not determine which outputs of shape {tuple(outputs.shape)} are "
        "right; give a rule by correct="
    )


# Roles -----------------------------------------------------------------------------------------------------------


def roles_of(naming: Naming | Roles | None, inputs: Tensor, queries: slice) -> Roles | None:
    """The roles of all rows by the caller's function. Positions of answers without a role get the role `query`.

    Raises:
        BadInput: the function fails, or gives a position that the row does not have.
    """
    n = inputs.shape[1]
    if isinstance(naming, Roles):
        if naming.chain.shape != (len(inputs), len(naming.names), n):
            wanted = (len(inputs), len(naming.names), n)
            raise BadInput(f"roles must be of shape (row, role, position), {wanted}; got {tuple(naming.chain.shape)}")
        return naming
    if naming is None:
        return None
    rows = [placed(naming, row, n) for row in inputs.tolist()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    chain = torch.full((len(rows), len(names), n), ABSENT)
    for i, row in enumerate(rows):
        for name, held in row.items():
            for position, number in held.items():
                chain[i, names.index(name), position] = number
    return with_query(Roles(tuple(names), chain.to(inputs.device)), queries)


def placed(naming: Naming, row: list[Any], n: int) -> dict[str, dict[int, int]]:
    """The roles of one row: by name, the chain of each position that holds it. Raises BadInput."""
    try:
        given = {name: listed(places) for name, places in naming(row).items()}
    except Exception as error:  # the caller's function may raise anything
        wanted = "roles must return positions, as whole numbers, by role"
        raise failing(f"{wanted}; roles fails on the row {str(row)[:60]}", error) from None
    for name, chains in given.items():
        if not isinstance(name, str) or not name or any(c.isspace() for c in name):
            raise BadInput(f"a role must be named by a word without spaces; got {name!r}")
        for place in (place for places in chains for place in places):
            if not isinstance(place, int) or not -n <= place < n:
                raise BadInput(f"role {name} must be held by some of the {n} positions; got {place!r}")
    for name, chains in given.items():
        held = [place for places in chains for place in {place % n for place in places}]
        if twice := {place for place in held if held.count(place) > 1}:
            raise BadInput(f"role {name} is held by position {min(twice)} in two chains; a position has one chain")
    return {
        name: {place % n: chain for chain, places in enumerate(chains) for place in places}
        for name, chains in given.items()
    }


def listed(places: Places) -> list[Sequence[int]]:
    """The positions that hold a role, by chain."""
    chains = [places] if isinstance(places, int) else list(places)
    return [[] if held is None else [held] if isinstance(held, int) else list(held) for held in chains]


def with_query(roles: Roles, queries: slice) -> Roles:
    """Roles with a further one, `query`, at positions of answers that hold none."""
    asking = torch.zeros(roles.chain.shape[-1], dtype=torch.bool, device=roles.chain.device)
    asking[queries] = True
    unnamed = asking & ~roles.held().any(1)
    if "query" in roles.names or not bool(unnamed.any()):
        return roles
    number = 0 if int(asking.sum()) == 1 else NO_CHAIN
    extra = torch.where(unnamed, number, ABSENT)[:, None]
    return Roles(("query", *roles.names), torch.cat([extra, roles.chain], 1))

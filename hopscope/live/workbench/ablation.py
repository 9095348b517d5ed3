"""Ablation of what one names: heads, layers, MLPs and paths, each alone and all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hopscope.circuits.changes import Silenced
from hopscope.circuits.units import Ground
from hopscope.core.settings import BadInput
from hopscope.interventions.parts import Part
from hopscope.live.borrowed import borrowed
from hopscope.live.checks import Naming, roles_of
from hopscope.live.given import slice_of
from hopscope.live.workbench.attention import suggested
from hopscope.live.workbench.base import Asked, Metric, Pair, Shown, largest, mean_of
from hopscope.live.workbench.patching import batch_of
from hopscope.models.base import at_rest
from hopscope.problem.paths import Path
from hopscope.problem.roles import Roles

#: What stands for an activation: of the same shape, from what it was.
NULLS: dict[str, Callable[[Tensor], Tensor]] = {
    "zero": torch.zeros_like,
    "mean": lambda actual: actual.mean(0, keepdim=True).expand_as(actual),
    "resample": lambda actual: actual.roll(1, 0),
}
EVERY = slice(None)
Change = tuple[str, Callable[[Tensor], Tensor]]  # an activation's name, and what becomes of it


def ablation(
    model: Any,
    inputs: Tensor,
    what: Sequence[str | Path],
    metric: Metric | Pair,
    *,
    at: int = -1,
    null: str = "zero",
    roles: Naming | Roles | None = None,
) -> Shown:
    """What removing parts of a model costs.

    Args:
        model: as `hopscope.wrap` takes it.
        inputs: some rows.
        what: heads (`L1H0`), all heads of a layer (`L1`), MLPs (`m1`), or paths (`L1H0 query->key[1]`).
        metric: as `hopscope.live.workbench.nodes` takes it.
        at: the position that answers.
        null: what a part says instead: `zero`, its `mean` over rows, or what it says on another row (`resample`). A
            path's attention goes evenly to the rest of what its head sees.
        roles: of positions, for paths; by default relations or, where a path names a number, those that tokens suggest.

    Returns:
        A row for each part, and for all of them together: ablated, mean (the metric), low, high, and change.

    Raises:
        BadInput: something does not fit, or there is no such part.
    """
    if null not in NULLS:
        raise BadInput(f"null must be one of {', '.join(NULLS)}; got {null!r}")
    if isinstance(what, str) or not what:
        raise BadInput("name what to ablate in a list, such as ['L1H0', 'm0', 'L1H0 query->same-token']")
    if roles is None and any("[" in str(one) for one in what):
        roles = suggested(inputs, at=at)
    lent = borrowed(model, inputs)
    with at_rest(lent):
        asked = Asked(lent, inputs, at, metric)
        ground = Ground(batch_of(asked, roles_of(roles, asked.inputs, slice_of(asked.at))), lent.architecture)
        changes = {str(one): change_of(asked, one, NULLS[null], ground) for one in what}
        begin = asked.values()
        rows = [{"ablated": "nothing", **mean_of(begin), "change": 0.0}]
        for name, some in {**{name: [one] for name, one in changes.items()}, "all": list(changes.values())}.items():
            values = asked.values(joined(some))
            rows.append({"ablated": name, **mean_of(values), "change": float((values - begin).mean())})
    return shown(rows, null)


def change_of(asked: Asked, one: str | Path, null: Callable[[Tensor], Tensor], ground: Ground) -> Change:
    """What an ablation changes. Raises BadInput where there is no such part."""
    text = str(one).strip()
    if text[:1] == "m" and text[1:].isdigit():
        asked.needs("hook_mlp_out")
        return f"blocks.{inside(int(text[1:]), asked.n_layers, 'layer')}.hook_mlp_out", null
    if part := Part.parse(text):
        inside(part.layer, asked.n_layers, "layer")
        inside(max(part.head, 0), asked.n_heads, "head")
        if null is torch.zeros_like:  # a pattern can always be had
            return f"blocks.{part.layer}.attn.hook_pattern", of_heads(part, null, EVERY)
        asked.needs("attn.hook_z")
        return f"blocks.{part.layer}.attn.hook_z", of_heads(part, null, EVERY, EVERY)
    path = one if isinstance(one, Path) else Path.parse(text)
    inside(path.layer, asked.n_layers, "layer")
    inside(path.head, asked.n_heads, "head")
    if not bool(ground.entries(path).any()):
        raise BadInput(f"no position of the inputs attends along {path}")
    silent = Silenced(frozenset({path}))
    return f"blocks.{path.layer}.attn.hook_pattern", lambda actual: silent.pattern(path.layer, actual, ground)


def of_heads(part: Part, null: Callable[[Tensor], Tensor], *before: slice) -> Callable[[Tensor], Tensor]:
    """An activation of which some heads are replaced, those on the axis behind some others."""
    where = (*before, part.heads)

    def without(actual: Tensor) -> Tensor:
        found = actual.clone()
        found[where] = null(actual[where])
        return found

    return without


def inside(number: int, most: int, what: str) -> int:
    """A layer's or head's number. Raises BadInput where there are not so many."""
    if number >= most:
        raise BadInput(f"this model has {most} {what}s, numbered from 0; got {number}")
    return number


def joined(changes: Sequence[Change]) -> Mapping[str, Callable[[Tensor], Tensor]]:
    """Changes together, one after the other where they are of one activation."""
    found: dict[str, Callable[[Tensor], Tensor]] = {}
    for name, change in changes:
        found[name] = after(found[name], change) if name in found else change
    return found


def after(one: Callable[[Tensor], Tensor], two: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """One change, and another of what it leaves."""
    return lambda actual: two(one(actual))


def shown(rows: list[dict[str, Any]], null: str) -> Shown:
    from pandas import DataFrame

    table = DataFrame(rows)

    def draw() -> Any:
        from hopscope.drawing.grid import grids

        values = table[["mean", "change"]].to_numpy(float)
        return grids({"": values}, list(table["ablated"]), ["metric", "change"], "metric", title=f"ablation ({null})")

    words = f"The metric is {rows[0]['mean']:.3g}. Changes without: {largest(table[1:], 'change', 'ablated', 6)}."
    return Shown("ablation", words, table, draw)

"""Ablation of heads, layers, MLPs and paths, each alone and all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from pandas import DataFrame
from torch import Tensor

from hopscope.circuits.changes import Silenced
from hopscope.circuits.units import Ground
from hopscope.core.settings import BadInput, check_choice
from hopscope.interventions.parts import ALL, Part
from hopscope.live.checks import Naming, roles_of
from hopscope.live.given import slice_of
from hopscope.live.workbench.attention import suggested
from hopscope.live.workbench.base import Metric, Pair, Shown, Subject, largest, mean_of, studied
from hopscope.live.workbench.patching import batch_of
from hopscope.problem.paths import Path
from hopscope.problem.roles import Roles

#: The replacement of an activation (row first), of the same shape.
NULLS: dict[str, Callable[[Tensor], Tensor]] = {
    "zero": torch.zeros_like,
    "mean": lambda actual: actual.mean(0, keepdim=True).expand_as(actual),
    "resample": lambda actual: actual.roll(1, 0),
}
EVERY = slice(None)
Change = tuple[str, Callable[[Tensor], Tensor]]  # an activation's name, and its replacement


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
    """The change of a metric when parts of a model are ablated.

    Args:
        model: as for `hopscope.wrap`.
        inputs: some rows.
        what: heads (`L1H0`), all heads of a layer (`L1`), MLPs (`m1`), or paths (`L1H0 query->key[1]`).
        metric: as for `hopscope.live.workbench.nodes`.
        at: the position of the answer.
        null: what replaces the output of a part: `zero`, its `mean` over rows, or its output on another row
            (`resample`). The attention of a path is spread evenly over the other positions that its head sees.
        roles: of positions, for paths. By default relations or, for paths with a number, the roles that tokens suggest.

    Returns:
        A row for each part, and for all of them together: ablated, mean (the metric), low, high (95 %), and change.

    Raises:
        BadInput: an argument does not fit, or there is no such part.
    """
    check_choice("null", null, NULLS)
    if isinstance(what, str) or not what:
        raise BadInput("name what to ablate in a list, such as ['L1H0', 'm0', 'L1H0 query->same-token']")
    if roles is None and any("[" in str(one) for one in what):
        roles = suggested(inputs, at=at)
    with studied(model, inputs, at, metric) as subject:
        found = roles_of(roles, subject.inputs, slice_of(subject.at))
        ground = Ground(batch_of(subject, found), subject.model.architecture)
        changes = {str(one): change_of(subject, one, NULLS[null], ground) for one in what}
        begin = subject.values()
        rows = [{"ablated": "nothing", **mean_of(begin), "change": 0.0}]
        for name, some in {**{name: [one] for name, one in changes.items()}, "all": list(changes.values())}.items():
            values = subject.values(joined(some))
            rows.append({"ablated": name, **mean_of(values), "change": float((values - begin).mean())})
    return shown(rows, null)


def change_of(subject: Subject, one: str | Path, null: Callable[[Tensor], Tensor], ground: Ground) -> Change:
    """The change that ablates a part. Raises BadInput if there is no such part."""
    text = str(one).strip()
    check = partial(subject.model.architecture.check_head, of=f"ablation {text!r}")
    if text[:1] == "m" and text[1:].isdigit():
        subject.needs("hook_mlp_out")
        check(layer := int(text[1:]), ALL)
        return f"blocks.{layer}.hook_mlp_out", null
    if part := Part.parse(text):
        check(part.layer, part.head)
        if null is torch.zeros_like:  # patterns of 0 do the same, and are always accessible
            return f"blocks.{part.layer}.attn.hook_pattern", of_heads(part, null, EVERY)
        subject.needs("attn.hook_z")
        return f"blocks.{part.layer}.attn.hook_z", of_heads(part, null, EVERY, EVERY)
    path = one if isinstance(one, Path) else Path.parse(text)
    check(path.layer, path.head)
    if not bool(ground.entries(path).any()):
        raise BadInput(f"no position of the inputs attends along {path}")
    silent = Silenced(frozenset({path}))
    return f"blocks.{path.layer}.attn.hook_pattern", lambda actual: silent.pattern(path.layer, actual, ground)


def of_heads(part: Part, null: Callable[[Tensor], Tensor], *before: slice) -> Callable[[Tensor], Tensor]:
    """A replacement of some heads of an activation; `before` are the axes before that of heads."""
    where = (*before, part.heads)

    def without(actual: Tensor) -> Tensor:
        ablated = actual.clone()
        ablated[where] = null(actual[where])
        return ablated

    return without


def joined(changes: Sequence[Change]) -> Mapping[str, Callable[[Tensor], Tensor]]:
    """All changes by activation; several changes of one activation are composed."""
    together: dict[str, Callable[[Tensor], Tensor]] = {}
    for name, change in changes:
        together[name] = after(together[name], change) if name in together else change
    return together


def after(one: Callable[[Tensor], Tensor], two: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The composition of two changes: first `one`, then `two`."""
    return lambda actual: two(one(actual))


def shown(rows: list[dict[str, Any]], null: str) -> Shown:
    """The result from the rows of its table."""
    table = DataFrame(rows)

    def draw() -> Any:
        from hopscope.drawing.grid import grids

        values = table[["mean", "change"]].to_numpy(float)
        return grids({"": values}, list(table["ablated"]), ["metric", "change"], "metric", title=f"ablation ({null})")

    words = f"The metric is {rows[0]['mean']:.3g}. Changes without: {largest(table[1:], 'change', 'ablated', 6)}."
    return Shown("ablation", words, table, draw)

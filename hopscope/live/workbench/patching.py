"""Clean and corrupt inputs: which nodes, and which edges between them, carry the difference between the two.

Activation patching (Meng et al., 2022; Wang et al., 2023) and path patching (Goldowsky-Dill et al., 2023), exact: there
is a run for each node and each edge. Edges are those of `hopscope.circuits.components`, here for any model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy
import torch
from pandas import DataFrame
from torch import Tensor

from hopscope.circuits.components.graph import ends
from hopscope.circuits.components.patching import NEEDS, Enough, Patching
from hopscope.circuits.exam import Discovery
from hopscope.core.settings import BadInput
from hopscope.live.borrowed import Borrowed
from hopscope.live.given import Data, Given
from hopscope.live.workbench.base import Metric, Pair, Shown, Subject, component_picture, largest, mean_of, studied
from hopscope.models.base import Cache, Model
from hopscope.problem.roles import Roles
from hopscope.tasks.base import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TILE = 512  # sequences in a pass


def nodes(
    model: Any, clean: Tensor, corrupt: Tensor, metric: Metric | Pair, *, at: int = -1, restore: bool = True
) -> Shown:
    """Activation patching: each head and each MLP alone takes its activation on the other inputs, at all positions.

    Args:
        model: as for `hopscope.wrap`.
        clean: some rows.
        corrupt: other rows, each paired with a clean one.
        metric: gives a number for each row of outputs, (row, output); or a pair of answers (right, wrong), whose logits
            are subtracted.
        at: the position of the answer.
        restore: whether clean activations are put into the corrupt run; otherwise corrupt ones into the clean run.

    Returns:
        A row for each node: node, layer, part, mean (the metric), low, high (95 %), and share: the change of the mean
        as a share of the difference between both runs (0: none of it, 1: all).

    Raises:
        BadInput: an argument does not fit, or the metric is the same on clean and corrupt inputs.
    """
    with studied(model, clean, at, metric) as right:
        wrong = right.same(corrupt)
        into, of = (wrong, right) if restore else (right, wrong)
        given = of.activations(*(name for layer in range(right.n_layers) for name in names_of(right, layer)))
        begin, end = into.values(), of.values()
        gap = float((end - begin).mean())
        if abs(gap) < 1e-9:
            raise BadInput("the metric is the same on clean and corrupt inputs, so there is nothing to trace")
        rows = []
        for layer in range(right.n_layers):
            for node, part, replace in nodes_of(right, layer, given):
                values = into.values(replace)
                share = float((values - begin).mean()) / gap
                rows.append({"node": node, "layer": layer, "part": part, **mean_of(values), "share": share})
    return shown_nodes(rows, (float(begin.mean()), float(end.mean())), restore)


def names_of(subject: Subject, layer: int) -> list[str]:
    """The activations to patch in a layer: the z of heads or else the attention output, and the MLP output."""
    if not subject.has("attn.hook_z"):
        subject.needs("hook_attn_out")
    attention = "attn.hook_z" if subject.has("attn.hook_z") else "hook_attn_out"
    return [f"blocks.{layer}.{name}" for name in (attention, "hook_mlp_out") if subject.has(name)]


def nodes_of(subject: Subject, layer: int, given: Mapping[str, Tensor]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A layer's nodes: their names, parts, and the replacements that patch them."""
    attention, *mlp = names_of(subject, layer)
    if attention.endswith("hook_z"):
        for head in range(subject.n_heads):
            yield f"a{layer}.h{head}", f"h{head}", {attention: one_head(head, given[attention])}
    else:
        yield f"a{layer}", "whole attention", {attention: given[attention]}
    for name in mlp:
        yield f"m{layer}", "MLP", {name: given[name]}


def one_head(head: int, given: Tensor) -> Callable[[Tensor], Tensor]:
    """A replacement of the z of one head."""

    def replaced(actual: Tensor) -> Tensor:
        actual = actual.clone()
        actual[:, :, head] = given[:, :, head]
        return actual

    return replaced


def shown_nodes(rows: list[dict[str, Any]], ends: tuple[float, float], restore: bool) -> Shown:
    table = DataFrame(rows)
    what = "Corrupt runs, one node clean" if restore else "Clean runs, one node corrupt"
    words = f"{what}: the metric goes from {ends[0]:.3g} towards {ends[1]:.3g}. Shares: {largest(table, 'share')}."
    draw = lambda: component_picture(table, "share", "share of the way", what)  # noqa: E731
    return Shown("nodes", words, table, draw)


# Edges -----------------------------------------------------------------------------------------------------------


def edges(model: Any, clean: Tensor, corrupt: Tensor, metric: Metric | Pair, *, at: int = -1) -> Shown:
    """Path patching: each edge between two nodes alone carries its source's output on the corrupt inputs.

    Args:
        model: as for `hopscope.wrap`.
        clean: some rows.
        corrupt: other rows, each paired with a clean one.
        metric: as for `nodes`.
        at: the position of the answer.

    Returns:
        A row for each edge: edge, source, target, part (`q`, `k`, `v` of heads), mean (the metric), low, high (95 %),
        and effect: the change of the mean.

    Raises:
        BadInput: an argument does not fit; or queries, keys and values of heads, or streams, are not accessible.
    """
    with studied(model, clean, at, metric) as subject:
        lent, other = subject.model, subject.same(corrupt)
        reads_mid = ["hook_resid_mid", "hook_mlp_out"] if lent.architecture.mlp else []
        subject.needs(*NEEDS, "hook_resid_post", *reads_mid)
        early = lent if lent.starts_at_layers else Layered(lent, subject.inputs)
        patching = Patching(early, batch_of(subject), other.inputs, TILE)
        every = patching.wiring.edges
        whole = frozenset(every)
        begin = subject.values()
        values = [subject.measured(one[:, 0]) for one in patching.outputs([whole - {edge} for edge in every])]
    rows = []
    for edge, found in zip(every, values, strict=True):
        source, target, part = ends(edge)
        effect = float((found - begin).mean())
        about = {"edge": edge, "source": source, "target": target, "part": part}
        rows.append({**about, **mean_of(found), "effect": effect})
    return shown_edges(rows, float(begin.mean()))


def shown_edges(rows: list[dict[str, Any]], begin: float) -> Shown:
    table = DataFrame(rows)

    def draw() -> Figure:
        from hopscope.drawing.grid import grids

        targets = [f"{row.target} {row.part}".strip() for row in table.itertuples()]
        down, across = list(dict.fromkeys(table["source"])), list(dict.fromkeys(targets))
        cells = numpy.full((len(down), len(across)), numpy.nan)
        for source, target, effect in zip(table["source"], targets, table["effect"], strict=True):
            cells[down.index(source), across.index(target)] = effect
        said = {"title": "each edge alone corrupt", "caption": "Rows are sources, columns what they feed."}
        return grids({"": cells}, down, across, "effect on the metric", **said)

    words = f"Clean runs, one edge corrupt: the metric is {begin:.3g}. Effects: {largest(table, 'effect', 'edge')}."
    return Shown("edges", words, table, draw)


def batch_of(subject: Subject, roles: Roles | None = None) -> Batch:
    """Rows as a batch of a task without targets."""
    n = len(subject.inputs)
    unknown = torch.zeros(n, dtype=torch.long, device=subject.inputs.device)
    nothing = lambda outputs, targets: outputs.sum() * 0  # noqa: E731
    data = Data(subject.inputs, unknown, subject.at, nothing, nothing, roles, 0.0)
    task = Given(data, subject.outputs()[:2, None], Discovery())
    return Batch(task, {"row": torch.arange(n, device=subject.inputs.device)})


class Layered(Model):
    """A model that can start and stop at any layer; earlier layers are run, and their result is discarded.

    Args:
        model: with a stream.
        inputs: some rows of inputs.
    """

    starts_at_layers = True

    def __init__(self, model: Borrowed, inputs: Tensor):
        super().__init__()
        self.inner, self.some, self.architecture = model, inputs[:1], model.architecture

    @property
    def activation_names(self) -> list[str]:
        return self.inner.activation_names

    def forward(
        self,
        inputs: Tensor,
        *,
        replace: Mapping[str, Any] | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
        start_at_layer: int = 0,
        stop_at_layer: int | None = None,
    ) -> Any:
        assert not isinstance(cache, bool) or not cache
        replace, kept = dict(replace or {}), Cache()
        if start_at_layer:
            stream, inputs = inputs, self.some.expand(len(inputs), *self.some.shape[1:])
            replace = {f"blocks.{start_at_layer}.hook_resid_pre": stream, **replace}
        for name in cache or ():
            replace[name] = keeping(kept, name, replace.get(name))
        if stop_at_layer is None:
            outputs = self.inner(inputs, replace=replace, at=at)
        else:
            last = f"blocks.{stop_at_layer - 1}.hook_resid_post"
            replace[last] = keeping(kept, last, replace.get(last), leave=True)
            with suppress(Enough):
                self.inner(inputs, replace=replace)
            outputs = kept.get(last)
        return outputs if cache is False else (outputs, kept)


def keeping(kept: Cache, name: str, given: Any, leave: bool = False) -> Callable[[Tensor], Tensor]:
    """A replacement that stores its result in a cache, and under `leave` ends the pass by raising Enough."""

    def replaced(actual: Tensor) -> Tensor:
        found = actual if given is None else given(actual) if callable(given) else given.expand_as(actual)
        kept[name] = found
        if leave:
            raise Enough
        return found

    return replaced

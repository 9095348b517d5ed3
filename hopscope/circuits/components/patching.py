"""Path patching of any set of edges between components, by its definition and without gradients.

A component reads the sum of the outputs of all earlier components. An edge in the circuit contributes its source's
output in the patched pass. An edge outside it contributes the source's null output (ACDC, Conmy et al., 2023;
Goldowsky-Dill et al., 2023): zero, the source's mean over sequences at that position, or its output on another sequence
of the batch. Biases of attention are always added. Only the common contract of models is used (names of activations,
and layers that can be run separately), so a HookedTransformer can be patched too. A head's output must be a fixed
linear map of its z. If it depends on more, such as gates that read the stream, the components' outputs do not add up to
the model's own stream, and the model is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.components.graph import Edge, Wiring
from hopscope.circuits.lab import Lab
from hopscope.core.settings import BadInput
from hopscope.interventions.engine import tile_for
from hopscope.models.base import Model, Replacement
from hopscope.tasks.base import Batch

Stream = Float[Tensor, "... batch position d_model"]
#: For each change, what is kept: (target, source), True where the edge is in.
Mask = Bool[Tensor, "change target source"]

#: The outputs that cut edges carry, computed from those of the unchanged model, (source, batch, position, d_model).
ACTIVATION_NULLS: dict[str, Callable[[Tensor], Tensor]] = {
    "zero": torch.zeros_like,
    "mean": lambda clean: clean.mean(1, keepdim=True).expand_as(clean),
    "resample": lambda clean: clean.roll(1, 1),
}
Reader = Callable[..., tuple[Tensor, Tensor]]
EXACT = 64  # rounding errors (eps) by which the sum of all outputs may miss the stream, relative to their size (ours)
NEEDS = ("hook_resid_pre", "attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z", "hook_attn_out")


class Enough(Exception):
    """Ends a forward pass once the activations that it is run for are known."""


class Written:
    """The outputs of every source under every change, up to the point that a pass has reached.

    Attributes:
        each: the output of each source, (change, batch, position, d_model).
        bias: the sum of the layers' biases so far.
        whole: the sum of all outputs and biases: the stream that is read if no edge is cut.
    """

    def __init__(self, each: Sequence[Stream], bias: Tensor, whole: Stream):
        self.each, self.bias, self.whole = list(each), bias, whole

    def add(self, outputs: Iterable[Stream], bias: Tensor | None = None) -> None:
        """Append the outputs of the next sources, and add the bias of their layer."""
        for one in outputs:
            self.each.append(one)
            self.whole = self.whole + one
        if bias is not None and bias.any():
            self.bias, self.whole = self.bias + bias, self.whole + bias


class Patching(Lab[Collection[Edge]]):
    """A model on a batch of sequences, in which any set of edges can be cut.

    Args:
        model: a model that can be started and stopped at any layer.
        batch: at least two sequences.
        null: the kind of null outputs, one of `ACTIVATION_NULLS`; or other inputs, on which the null outputs are
            computed.
        tile: sequences in one pass, summed over changes; by default as many as fit into the processor's cache.

    Raises:
        BadInput: the model lacks heads or needed activations, its heads' outputs are no linear map of their z, or there
            is no such null.
    """

    def __init__(self, model: Model, batch: Batch, null: str | Tensor = "resample", tile: int | None = None):
        if isinstance(null, str) and null not in ACTIVATION_NULLS:
            raise BadInput(f"null must be one of {', '.join(ACTIVATION_NULLS)} for components; got {null!r}")
        self.model, self.batch = model, batch
        self.kind = null if isinstance(null, str) else "other inputs"
        self.tile = tile_for(model, batch) if tile is None else tile
        self.wiring = Wiring.of(model.architecture)
        check(model, self.wiring)
        self.forwards = 0.0  # in passes over the whole batch
        self.out = self.output_weights()
        with torch.no_grad():
            self.clean = self.outputs_on(batch.inputs)
            self.null = ACTIVATION_NULLS[null](self.clean) if isinstance(null, str) else self.outputs_on(null)

    @property
    def about(self) -> dict[str, Any]:
        """The settings that tests of edges depend on, for a report."""
        how = "each edge of the graph cut alone; in the graph where the loss rises for certain (95 %)"
        return {"edges": how, "null": self.kind, "sequences": len(self.batch)}

    # The parts of the model ----------------------------------------------------------------------------------

    def name(self, layer: int, short: str) -> str:
        return f"blocks.{layer}.{short}"

    def entry(self, layer: int, stream: Stream, replace: Mapping[str, Replacement]) -> dict[str, Any]:
        """Arguments that start the model from a given stream; before layer 0 it replaces the embedding."""
        if layer:
            return {"inputs": stream, "replace": replace, "start_at_layer": layer}
        some = self.batch.inputs[:1].expand(len(stream), *self.batch.inputs.shape[1:])
        return {"inputs": some, "replace": {"blocks.0.hook_resid_pre": stream, **replace}}

    @torch.no_grad()
    def output_weights(self) -> list[tuple[Float[Tensor, "head d_head d_model"], Float[Tensor, "d_model"]]]:
        """Each head's matrix from z to its output, and each layer's bias, found with unit vectors (z acts linearly)."""
        found, layers = [], range(self.wiring.n_layers)
        names = [self.name(layer, short) for layer in layers for short in ("hook_resid_pre", "attn.hook_z")]
        _, cache = self.model(self.batch.inputs[:1], cache=names)
        for layer in layers:
            stream, z = (cache[self.name(layer, short)] for short in ("hook_resid_pre", "attn.hook_z"))
            heads, width = z.shape[-2:]
            units = torch.cat([torch.zeros(1, heads * width), torch.eye(heads * width)]).to(z)
            units = units.unflatten(-1, (heads, width))[:, None].expand(-1, stream.shape[1], -1, -1)
            name, wide = self.name(layer, "hook_attn_out"), stream.expand(len(units), -1, -1)
            given = self.entry(layer, wide, {self.name(layer, "attn.hook_z"): units})
            written = self.model(**given, cache=[name], stop_at_layer=layer + 1)[1][name]
            bias = written[0, 0]
            found.append(((written[1:, 0] - bias).unflatten(0, (heads, width)), bias))
        return found

    def outputs_on(self, inputs: Tensor) -> Float[Tensor, "source batch position d_model"]:
        """The outputs of every source in the unchanged model."""
        layers = range(self.wiring.n_layers)
        names = [self.name(layer, "attn.hook_z") for layer in layers]
        mlps = [self.name(layer, "hook_mlp_out") for layer in layers] if self.wiring.mlp else []
        first, last = "blocks.0.hook_resid_pre", self.name(self.wiring.n_layers - 1, "hook_resid_post")
        self.forwards += 1
        _, cache = self.model(inputs, cache=[first, *names, *mlps, last])
        outputs = [cache[first]]
        for layer in layers:
            outputs += self.heads_out(layer, cache[names[layer]])
            outputs += [cache[mlps[layer]]] if mlps else []
        found = torch.stack(outputs)
        missed = (found.sum(0) + sum(bias for _, bias in self.out) - cache[last]).abs().max()
        if missed > EXACT * torch.finfo(found.dtype).eps * found.abs().amax((1, 2, 3)).sum():
            name = self.model.architecture.name()
            raise BadInput(
                f"what the heads of this {name} write depends on more than what they read (gates, or a norm behind "
                "them, say), so that edges would describe another model; search for its paths (--unit paths)"
            )
        return found

    def heads_out(self, layer: int, z: Float[Tensor, "... position head d_head"]) -> list[Stream]:
        """What each head adds to the stream."""
        return [z[..., head, :] @ weight for head, weight in enumerate(self.out[layer][0])]

    # Passes --------------------------------------------------------------------------------------------------

    def mask(self, kept: Iterable[Collection[Edge]]) -> Bool[Tensor, "change target source"]:
        """Sets of edges as masks. Raises BadInput for an edge that the model does not have."""
        wiring = self.wiring
        where = dict(zip(wiring.edges, wiring.places, strict=True))
        sets = [list(one) for one in kept]
        for edge in {edge for one in sets for edge in one} - where.keys():
            raise BadInput(f"this model has no edge {edge!r}; they are such as {wiring.edges[0]}")
        mask = torch.zeros(len(sets), len(wiring.targets), len(wiring.sources), dtype=torch.bool)
        for i, one in enumerate(sets):
            for edge in one:
                mask[(i, *where[edge])] = True
        return mask.to(self.clean.device)

    @torch.no_grad()
    def outputs(self, kept: Sequence[Collection[Edge]]) -> Float[Tensor, "change batch query output"]:
        """The model's outputs for every given set of edges, with all other edges cut."""
        tiles = self.mask(kept).split(max(1, self.tile // len(self.batch)))
        return torch.cat([self.run(tile, min(map(self.first_layer, tile))) for tile in tiles])

    def first_layer(self, mask: Tensor) -> int:
        """The first layer at which the mask cuts an edge; earlier layers are as in the unchanged model."""
        cut = [target for target, source in self.wiring.places if not mask[target, source]]
        return self.wiring.layer_of(min(cut)) if cut else self.wiring.n_layers

    def run(self, mask: Mask, start: int = 0, inputs: Stream | None = None, extra: Tensor | None = None) -> Tensor:
        """One forward pass from a layer on, with a mask for each change.

        Args:
            mask: for every change, which edges are kept.
            start: the first layer that is run; earlier layers are as in the unchanged model.
            inputs: the output of the source `input`; by default that of the unchanged model.
            extra: (target, source), a multiple of (clean − null) that is added on each edge, to take derivatives by it.
        """
        wiring, n = self.wiring, len(mask)
        self.forwards += n * (1 - start / (wiring.n_layers + 1))
        known = self.clean[: wiring.before(start)]
        if inputs is not None:
            known = torch.cat([inputs[None], known[1:]])
        bias = sum((bias for _, bias in self.out[:start]), torch.zeros_like(self.out[0][1]))
        whole = known.sum(0) + bias
        now = Written([one.expand(n, *one.shape) for one in known], bias, whole.expand(n, *whole.shape))
        for layer in range(start, wiring.n_layers):
            read = lambda target, count=1: self.read(mask, now, target, count, extra)  # noqa: E731
            self.add_layer(layer, now, read)
        streams, which = self.read(mask, now, len(wiring.targets) - 1, 1, extra)
        return self.read_off(streams.flatten(0, 1)).unflatten(0, (-1, len(self.batch)))[which[:, 0]]

    def read_off(self, stream: Stream) -> Tensor:
        """The model's outputs at the queries, from the stream after the last layer."""
        if type(self.model).read_off is not Model.read_off:
            return self.model.read_off(stream, self.batch.task.query_positions)
        last = self.wiring.n_layers - 1
        given = self.entry(last, stream, {self.name(last, "hook_resid_post"): stream})
        return self.model(**given, at=self.batch.task.query_positions)

    def read(
        self, mask: Mask, now: Written, target: int, count: int, extra: Tensor | None
    ) -> tuple[Float[Tensor, "stream batch position d_model"], Tensor]:
        """The distinct streams that consecutive targets read, and for each (change, target) the index of its stream.

        Targets that read the same stream share one entry; in most layers all targets of a change do.
        """
        n, sources = len(mask), len(now.each)
        wanted = mask[:, target : target + count, :sources].flatten(0, 1)
        change = torch.arange(n, device=wanted.device).repeat_interleave(count)
        which = torch.arange(n * count, device=wanted.device)
        if extra is None and count > 1:
            keys = torch.cat([change[:, None], wanted.long()], 1)
            unique, which = torch.unique(keys, dim=0, return_inverse=True)
            change, wanted = unique[:, 0], unique[:, 1:].bool()
        streams = self.carried(now, change, wanted)
        if extra is not None:
            given = self.clean[:sources] - self.null[:sources]
            more = torch.einsum("ts,sbpd->tbpd", extra[target : target + count, :sources], given)
            streams = streams + more.repeat(n, 1, 1, 1)
        return streams, which.unflatten(0, (n, count))

    def carried(
        self, now: Written, change: Tensor, wanted: Bool[Tensor, "stream source"]
    ) -> Float[Tensor, "stream batch position d_model"]:
        """For each stream, the sum of the current outputs of the wanted sources and the null outputs of the others.

        The sum starts from all current outputs or from all nulls, whichever needs fewer corrections: most streams lack
        few edges.
        """
        sources = len(now.each)
        from_null = wanted.sum(1) * 2 < sources
        streams = now.whole[change]
        if from_null.any():
            streams[from_null] = self.null[:sources].sum(0) + now.bias
        for source, differs in enumerate((wanted == from_null[:, None]).unbind(1)):
            if differs.any():
                more = now.each[source][change[differs]] - self.null[source]
                streams[differs] += torch.where(from_null[differs], 1, -1).to(more)[:, None, None, None] * more
        return streams

    def add_layer(self, layer: int, now: Written, read: Reader) -> None:
        """Run a layer, and append the outputs of its heads and its MLP to those of earlier sources."""
        n, size = len(now.whole), len(self.batch)
        streams, which = read(self.wiring.heads_at(layer), 3 * self.wiring.n_heads)
        alike = len(streams) == n  # every head of a change reads the same stream, which the layer can be given as it is
        given: dict[str, Replacement] = {} if alike else dict(self.projections(layer, streams, which))
        # Otherwise the stream is not read: queries, keys and values are given, and what the MLP reads.
        stream = streams.flatten(0, 1) if alike else self.clean[0].repeat(n, 1, 1)

        def heads(z: Tensor) -> Tensor:
            outputs, bias = self.heads_out(layer, z), self.out[layer][1]
            now.add((one.unflatten(0, (n, size)) for one in outputs), bias)
            if not self.wiring.mlp:
                raise Enough
            return z

        def mlp(_: Tensor) -> Tensor:
            return read(self.wiring.heads_at(layer) + 3 * self.wiring.n_heads)[0].flatten(0, 1)

        given[self.name(layer, "attn.hook_z")] = heads
        if not self.wiring.mlp:
            self.until_enough(layer, stream, given)
            return
        name = self.name(layer, "hook_mlp_out")
        given[self.name(layer, "hook_resid_mid")] = mlp
        _, cache = self.model(**self.entry(layer, stream, given), cache=[name], stop_at_layer=layer + 1)
        now.add([cache[name].unflatten(0, (n, size))])

    def projections(self, layer: int, streams: Tensor, which: Tensor) -> dict[str, Tensor]:
        """Queries, keys and values of a layer, where each head may read each of them from a stream of its own."""
        names = [self.name(layer, f"attn.hook_{part}") for part in "qkv"]
        caught: dict[str, Tensor] = {}

        def catch(name: str, actual: Tensor) -> Tensor:
            caught[name] = actual.unflatten(0, (-1, len(self.batch)))  # stream batch position head d_head
            if len(caught) == len(names):
                raise Enough
            return actual

        self.until_enough(layer, streams.flatten(0, 1), {name: partial(catch, name) for name in names})
        heads = range(self.wiring.n_heads)
        own = {name: [caught[name][which[:, 3 * h + i], ..., h, :] for h in heads] for i, name in enumerate(names)}
        return {name: torch.stack(parts, -2).flatten(0, 1) for name, parts in own.items()}

    def until_enough(self, layer: int, stream: Stream, replace: Mapping[str, Replacement]) -> None:
        """Run one layer until a hook raises `Enough`."""
        with suppress(Enough):
            self.model(**self.entry(layer, stream, replace), stop_at_layer=layer + 1)


def check(model: Model, wiring: Wiring) -> None:
    """Raise BadInput unless the edges of a model can be patched."""
    name = model.architecture.name()
    if not wiring.n_layers * wiring.n_heads:
        raise BadInput(f"{name} has no layers of heads, so there are no edges between components")
    needs = [*NEEDS, "hook_resid_post", *(["hook_resid_mid", "hook_mlp_out"] if wiring.mlp else [])]
    lacking = {f"blocks.0.{short}" for short in needs} - set(model.activation_names)
    if lacking or not model.starts_at_layers:
        what = sorted(lacking)[0] if lacking else "layers that run alone"
        raise BadInput(f"edges between components need {what}, which a {name} does not offer")

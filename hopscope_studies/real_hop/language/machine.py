"""A language model as a sum of nodes, run from the query on: the output of each node, and the answer without some.

A node is a head or an MLP (`a15.h7`, `m20`, as EAP-IG names them); at one token it is a place (`a15.h7@answer`). A node
outside a circuit writes what it wrote on the paired prompt, which asks about another chain. A node of the circuit
computes from its current input (ACDC, Conmy et al., 2023). The query's embedding is always that of the prompt. Keys and
values of the facts are the same in both prompts, and are cached. Models may be built like Llama (Llama, Qwen, SmolLM)
or like Gemma 3, which normalises the outputs of attention and MLPs and in which most layers see only a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.language.lens.attention import CLOSE, Lens
from hopscope_studies.real_hop.language.asks import Asks

Keep = Tensor  # layer position node, the nodes of a layer being its heads and then its MLP; True: kept


@dataclass(frozen=True)
class Written:
    """The outputs of nodes on every row; lists are by layer.

    Attributes:
        streams: the residual stream before each layer, and after the last; shape (row, position, d_model).
        z: each head's input to the output projection; shape (row, position, head, d_head).
        attention: the output of attention; shape (row, position, d_model).
        mlp: the output of the MLP; shape (row, position, d_model).
        logits: the choices' logits at the last position; shape (row, choice).
    """

    streams: list[Tensor]
    z: list[Tensor]
    attention: list[Tensor]
    mlp: list[Tensor]
    logits: Tensor

    def at(self, rows: Tensor) -> Written:
        """The same for other rows."""
        streams, z, attention, mlp = (
            [one[rows] for one in part] for part in (self.streams, self.z, self.attention, self.mlp)
        )
        return Written(streams, z, attention, mlp, self.logits[rows])


class Change:
    """A change to the heads of a model while it runs; this one does nothing."""

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        """Attention weights over facts and suffix; shape (row, head, query, key)."""
        return pattern

    def output(self, layer: int, z: Tensor) -> Tensor:
        """What each head hands to the output projection; shape (row, position, head, d_head)."""
        return z


class Machine:
    """A model on asks, node by node. Raises BadInput for models of another architecture.

    Args:
        lens: the model.
        asks: the questions.
    """

    def __init__(self, lens: Lens, asks: Asks):
        self.lens, self.asks = lens, asks
        self.n_layers, self.n_heads = lens.n_layers, lens.n_heads
        self.size = asks.suffix.shape[1]
        with torch.no_grad():
            self.keep_facts()
            self.clean = self.write(self.embedded)
            self.check()
        self.corrupt = self.clean.at(asks.other)

    def keep_facts(self) -> None:
        """Cache keys and values of the tokens that all asks share, and position codes of the others."""
        asks, model = self.asks, self.lens.model
        cache = model(asks.prefix, use_cache=True, logits_to_keep=1).past_key_values
        self.facts = [
            tuple(self.padded(part).repeat_interleave(asks.per_draw, 0) for part in (layer.keys, layer.values))
            for layer in cache.layers
        ]
        self.embedded = self.lens.embed(asks.suffix)
        places = torch.arange(asks.prefix.shape[1], asks.prefix.shape[1] + self.size)[None]
        self.codes = [self.lens.position_codes(layer, self.embedded, places) for layer in range(self.n_layers)]

    def padded(self, kept: Tensor) -> Tensor:
        """Keys or values of all facts; a layer with a window has only the last ones, because it hides the others."""
        missing = self.asks.prefix.shape[1] - kept.shape[2]
        return torch.cat([kept.new_zeros(*kept.shape[:2], missing, kept.shape[3]), kept], 2)

    def check(self) -> None:
        """Check that the sum of the nodes is the model."""
        some = self.asks.per_draw
        whole = self.lens.run(self.lens.embed(self.asks.ids[:some])).gather(1, self.asks.choices[:some])
        if float((whole - self.clean.logits[:some]).abs().max()) > CLOSE:
            raise BadInput(f"{self.lens.name} computes in a way of its own; choose a model built like Llama")

    # Parts -----------------------------------------------------------------------------------------------------

    def project(self, layer: int, stream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys of the suffix, and its values, to which no position code is applied.

        Each has the shape (row, head, position, d_head).
        """
        every = torch.arange(self.size)
        return (
            self.part(layer, "q", stream, every),
            self.part(layer, "k", stream, every),
            self.part(layer, "v", stream, every),
        )

    def part(self, layer: int, part: str, stream: Tensor, positions: Tensor) -> Tensor:
        """Queries, keys or values (q, k, v) of the stream at some positions; shape (row, head, position, d_head)."""
        block = self.lens.layers[layer]
        attention = block.self_attn
        made: Tensor = getattr(attention, f"{part}_proj")(block.input_layernorm(stream))
        made = made.unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
        if part == "v":
            return made
        if hasattr(attention, f"{part}_norm"):
            made = getattr(attention, f"{part}_norm")(made)
        a, b = made.chunk(2, -1)  # rotary position codes (Su et al., 2021), halves paired as in Llama
        cos, sin = self.codes[layer]
        return made * cos[:, None, positions] + torch.cat([-b, a], -1) * sin[:, None, positions]

    def pattern(self, layer: int, q: Tensor, k: Tensor) -> Tensor:
        """Attention of all query heads over facts and suffix; shape (row, head, query, key)."""
        k = torch.cat([self.facts[layer][0], k], 2).repeat_interleave(self.n_heads // k.shape[1], 1)
        scores = q @ k.transpose(2, 3) * self.lens.layers[layer].self_attn.scaling
        return (scores + self.masks[layer]).softmax(-1)

    @cached_property
    def masks(self) -> list[Tensor]:
        """By layer: 0 if a position of the suffix sees another position, else −∞; shape (query, key)."""
        end = self.asks.prefix.shape[1] + self.size
        distance = torch.arange(end - self.size, end)[:, None] - torch.arange(end)
        windows = [self.lens.window(layer) or end for layer in range(self.n_layers)]
        hidden = [(distance < 0) | (distance >= window) for window in windows]
        return [torch.zeros(one.shape).masked_fill(one, -torch.inf) for one in hidden]

    def mixed(self, layer: int, pattern: Tensor, v: Tensor) -> Tensor:
        """Values mixed by attention; shape (row, position, head, d_head)."""
        v = torch.cat([self.facts[layer][1], v], 2).repeat_interleave(self.n_heads // v.shape[1], 1)
        return (pattern @ v).transpose(1, 2)

    def heads(self, layer: int, stream: Tensor) -> Tensor:
        """Each head's input to the output projection; shape (row, position, head, d_head)."""
        q, k, v = self.project(layer, stream)
        return self.mixed(layer, self.pattern(layer, q, k), v)

    def added(self, layer: int, z: Tensor) -> Tensor:
        """The output of attention, which is added to the stream."""
        return self.lens.written(layer, z)

    def share(self, layer: int, head: int, before: Tensor, z: Tensor) -> Tensor:
        """A layer's change of attention output at a position if a head's input to the projection is z (row, d_head).

        Without norms after attention it is linear in `z`, independent of the other heads (`before`: row head d_head).
        """
        if not self.lens.norms_behind:
            columns = slice(head * z.shape[1], (head + 1) * z.shape[1])
            linear: Tensor = (z - before[:, head]) @ self.lens.layers[layer].self_attn.o_proj.weight[:, columns].T
            return linear
        both = torch.stack([before, torch.cat([before[:, :head], z[:, None], before[:, head + 1 :]], 1)], 1)
        then, now = self.added(layer, both).unbind(1)
        return now - then

    def mlp(self, layer: int, stream: Tensor) -> Tensor:
        """The output of the MLP, which is added to the stream."""
        return self.lens.mlp(layer, stream)

    def read_off(self, stream: Tensor) -> Tensor:
        """The choices' logits, from the last position of the final stream; shape (row, choice)."""
        last = self.lens.model.model.norm(stream[:, -1])
        return torch.einsum("rd,rcd->rc", last, self.lens.model.lm_head.weight[self.asks.choices])

    # Runs ------------------------------------------------------------------------------------------------------

    def write(self, embedded: Tensor, trace: bool = False, change: Change | None = None) -> Written:
        """The outputs of the model, changed or not, on an embedding of the suffix; with `trace`, with gradients."""
        change = change or Change()
        streams, zs, attentions, mlps = [embedded], [], [], []
        for layer in range(self.n_layers):
            q, k, v = self.project(layer, streams[-1])
            pattern = change.pattern(layer, self.pattern(layer, q, k))
            z = change.output(layer, self.mixed(layer, pattern, v))
            attentions.append(self.added(layer, z))
            middle = streams[-1] + attentions[-1]
            mlps.append(self.mlp(layer, middle))
            zs.append(z)
            if trace:
                z.retain_grad()
                mlps[-1].retain_grad()
            streams.append(middle + mlps[-1])
        return Written(streams, zs, attentions, mlps, self.read_off(streams[-1]))

    @torch.no_grad()
    def onward(self, stream: Tensor, layer: int) -> Tensor:
        """The choices' logits from a stream before some layer on; shape (row, choice)."""
        for number in range(layer, self.n_layers):
            stream = stream + self.added(number, self.heads(number, stream))
            stream = stream + self.mlp(number, stream)
        return self.read_off(stream)

    @torch.no_grad()
    def logits(self, keep: Keep) -> Tensor:
        """The choices' logits if only some nodes compute, and all others write what they wrote on the paired prompt."""
        keep = keep.expand(self.n_layers, self.size, self.n_heads + 1)
        start = next((layer for layer in range(self.n_layers) if not keep[layer].all()), self.n_layers)
        stream = self.clean.streams[start]
        for layer in range(start, self.n_layers):
            stream = stream + self.attention_with(layer, stream, keep[layer, :, :-1])
            stream = stream + self.mlp_with(layer, stream, keep[layer, :, -1])
        return self.read_off(stream)

    def attention_with(self, layer: int, stream: Tensor, keep: Tensor) -> Tensor:
        """The output of a layer's attention in which only some heads compute."""
        if not keep.any():
            return self.corrupt.attention[layer]
        z = torch.where(keep[..., None], self.heads(layer, stream), self.corrupt.z[layer])
        return self.added(layer, z)

    def mlp_with(self, layer: int, stream: Tensor, keep: Tensor) -> Tensor:
        """The output of an MLP that computes only at some positions."""
        if not keep.any():
            return self.corrupt.mlp[layer]
        out = self.corrupt.mlp[layer].clone()
        out[:, keep] = self.mlp(layer, stream[:, keep])
        return out

    def nothing(self) -> Keep:
        """A mask that keeps no node."""
        return torch.zeros(self.n_layers, self.size, self.n_heads + 1, dtype=torch.bool)

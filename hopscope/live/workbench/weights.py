"""What heads read and write by their weights alone: QK and OV circuits, and who composes with whom.

After Elhage et al. (2021). No weight is looked up by name: queries, keys, values and outputs are maps of the stream,
and what they make of vectors along each axis is their weight with the norm before it folded in. Rotary positions turn
queries and keys of one position alike, so that their products there are those without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.live.borrowed import borrowed
from hopscope.live.workbench.attribution import written
from hopscope.live.workbench.base import Asked, Folded, Shown, component_picture
from hopscope.models.base import at_rest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TOKENS = 4096  # of a vocabulary, whose eigenvalues are still counted
DRAWN = 32  # pairs of random heads for chance
MAPS = {"q": "queries", "k": "keys", "v": "values"}


@dataclass(frozen=True)
class Weights:
    """Of every head W_Q, W_K, W_V (layer head d_model d_head) and W_O (layer head d_head d_model), norms folded in."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor

    @classmethod
    def of(cls, asked: Asked) -> Weights:
        """Those of a model. Raises BadInput where it has no stream, or a map is none of the normed stream."""
        asked.needs("hook_resid_pre", "attn.hook_q", "attn.hook_v", "attn.hook_z", "hook_attn_out")
        layers = [{**reads(asked, layer), "o": writes(asked, layer)} for layer in range(asked.n_layers)]
        return cls(**{part: torch.stack([one[part] for one in layers]) for part in "qkvo"})

    @property
    def caveat(self) -> str:
        """What cannot be told, as a sentence; or nothing."""
        unknown = bool(self.q.isnan().any() or self.k.isnan().any())
        return " Where queries or keys are no linear map of the stream (they are normed, say) there is NaN." * unknown

    @cached_property
    def heads(self) -> list[tuple[int, int]]:
        return [(layer, head) for layer in range(len(self.q)) for head in range(self.q.shape[1])]

    def composed(self, earlier: tuple[int, int], later: tuple[int, int], part: str) -> float:
        """By how much a head reads of what another writes: the norm of the product, over the product of the norms."""
        v, o, q, k = self.v[earlier], self.o[earlier], self.q[later], self.k[later]
        into = {"q": (q, k.T), "k": (k, q.T), "v": (self.v[later], self.o[later])}[part]
        return norm(v, into[1], o @ into[0]) / (norm(v, o) * norm(*into))


def norm(left: Tensor, right: Tensor, middle: Tensor | None = None) -> float:
    """The Frobenius norm of left · middle · right, of few columns and rows, so that the whole is never made."""
    middle = torch.eye(len(right)).to(right) if middle is None else middle
    return float(((left.T @ left @ middle) * (middle @ right @ right.T)).sum().clamp(min=0).sqrt())


def reads(asked: Asked, layer: int) -> dict[str, Tensor]:
    """W_Q, W_K and W_V of a layer's heads, (head, d_model, d_head); NaN where queries or keys are no linear map."""
    before = f"blocks.{layer}.hook_resid_pre"
    names = [f"blocks.{layer}.attn.hook_{part}" for part in MAPS]
    cache = asked.activations(before, *names)
    stream, found = cache[before][:, asked.at], {}
    for part, name in zip(MAPS, names, strict=True):
        tried = lambda x, name=name: asked.tried(x, before, name)[0]  # noqa: E731
        folded = Folded(tried, stream.shape[-1], stream)
        linear = folded.scale(stream, cache[name][:, asked.at]) is not None
        if part == "v" and not linear:
            raise BadInput(f"values of layer {layer} are no linear map of the normed stream")
        found[part] = folded.weight.transpose(0, 1) * (1.0 if linear else torch.nan)
    return found


def writes(asked: Asked, layer: int) -> Tensor:
    """W_O of a layer's heads, (head, d_head, d_model)."""
    name, out = f"blocks.{layer}.attn.hook_z", f"blocks.{layer}.hook_attn_out"
    cache = asked.activations(name, out)
    z = cache[name][:, asked.at]
    folded = written(asked, layer, z)
    if folded.scale(z.flatten(1), cache[out][:, asked.at]) is None:
        raise BadInput(f"what the heads of layer {layer} write is no linear map of their z (it is normed, say)")
    return folded.weight.unflatten(0, z.shape[1:])


# What is shown ---------------------------------------------------------------------------------------------------


def composition(model: Any, inputs: Tensor, *, at: int = -1) -> Shown:
    """Composition scores: how much each head's queries, keys and values read of what each earlier head writes.

    Args:
        model: as `hopscope.wrap` takes it.
        inputs: two rows or more, on which what is found is checked.
        at: the position at which maps are tried.

    Returns:
        A row for each pair of heads and part: earlier, later, part (`q`, `k`, `v`), score (0–1), and above, the score
        less that of random heads of that size.

    Raises:
        BadInput: the model has no stream, or values or what heads write are no linear map.
    """
    lent = borrowed(model, inputs)
    with at_rest(lent):
        weights = Weights.of(Asked(lent, inputs, at))
    chance = by_chance(weights)
    pairs = [(one, two, part) for two in weights.heads for one in weights.heads if one[0] < two[0] for part in MAPS]
    rows = [(called(one), called(two), part, weights.composed(one, two, part)) for one, two, part in pairs]
    if not rows:
        raise BadInput("heads compose with those of earlier layers; this model has one layer")
    return shown_composition([(*row, row[3] - chance) for row in rows], chance, weights.caveat)


def by_chance(weights: Weights) -> float:
    """The mean score of random heads."""
    random = torch.Generator().manual_seed(0)
    draw = lambda like: torch.randn(DRAWN, 2, *like.shape[2:], generator=random)  # noqa: E731
    drawn = Weights(*(draw(one) for one in (weights.q, weights.k, weights.v, weights.o)))
    return sum(drawn.composed((i, 0), (i, 1), part) for i in range(DRAWN) for part in MAPS) / DRAWN / len(MAPS)


def called(head: tuple[int, int]) -> str:
    return f"L{head[0]}H{head[1]}"


def shown_composition(rows: list[tuple[Any, ...]], chance: float, caveat: str) -> Shown:
    from pandas import DataFrame

    table = DataFrame(rows, columns=["earlier", "later", "part", "score", "above"])

    def draw() -> Figure:
        from hopscope.drawing.grid import grids

        down, across = list(dict.fromkeys(table["earlier"])), list(dict.fromkeys(table["later"]))
        panels = {}
        for part, name in MAPS.items():
            some = table[table["part"] == part].pivot_table(index="earlier", columns="later", values="above")
            panels[name] = some.reindex(index=down, columns=across).to_numpy(float)
        caption = f"Rows are earlier heads, columns later ones. Random heads: {chance:.3g}."
        return grids(panels, down, across, "score above random heads", title="who reads whom", caption=caption)

    best = table.sort_values("above", ascending=False, kind="stable").head(3)
    most = ", ".join(
        f"{row.earlier} into {row.later}'s {MAPS[str(row.part)]} {row.score:.3g}" for row in best.itertuples()
    )
    return Shown("composition", f"Composition scores (random heads: {chance:.3g}). Most: {most}.{caveat}", table, draw)


def qk_ov(model: Any, inputs: Tensor, *, n_tokens: int | None = None, at: int = -1) -> Shown:
    """QK and OV circuits: which tokens each head's weights match, and whether it copies what it attends to.

    Args:
        model: as `hopscope.wrap` takes it; of tokens.
        inputs: two rows or more, on which what is found is checked.
        n_tokens: size of the vocabulary; by default one more than the largest of the inputs.
        at: the position at which maps are tried.

    Returns:
        A row for each head: node, layer, part, matching (how much higher the QK circuit has a token with itself than
        with others, in standard deviations of these) and copying (the sum of the OV circuit's eigenvalues from tokens
        to logits, over the sum of their sizes: 1 copies, −1 suppresses). Both see the embedding directly.

    Raises:
        BadInput: as `composition`; or inputs are no tokens.
    """
    lent = borrowed(model, inputs)
    with at_rest(lent):
        asked = Asked(lent, inputs, at)
        if inputs.is_floating_point():
            raise BadInput("QK and OV circuits are between tokens; these inputs are features")
        n = int(inputs.max()) + 1 if n_tokens is None else n_tokens
        if not 2 <= n <= MOST_TOKENS:
            raise BadInput(f"n_tokens must be 2 to {MOST_TOKENS}; got {n}")
        weights, embedded, unembedded = Weights.of(asked), embedding(asked, n), unembedding(asked)
    return shown_heads(list(told(weights, embedded, unembedded)), weights.caveat)


def embedding(asked: Asked, n: int) -> Tensor:
    """What each token adds to the stream, less their mean, (token, d_model)."""
    tokens = asked.inputs[:1].repeat(n, 1)
    tokens[:, asked.at] = torch.arange(n, device=tokens.device)
    name = "blocks.0.hook_resid_pre"
    found = Asked(asked.model, tokens, asked.at).activations(name)[name][:, asked.at].float()
    return found - found.mean(0)


def unembedding(asked: Asked) -> Tensor:
    """What the stream says of each output, (d_model, output)."""
    last = f"blocks.{asked.n_layers - 1}.hook_resid_post"
    stream = asked.activations(last)[last][:, asked.at]
    return Folded(lambda x: asked.tried(x, last)[0], stream.shape[-1], stream).weight


def told(weights: Weights, embedded: Tensor, unembedded: Tensor) -> Iterator[dict[str, Any]]:
    """What each head's circuits tell."""
    n = min(len(embedded), unembedded.shape[1])
    for layer, head in weights.heads:
        at = layer, head
        scores = (embedded @ weights.q[at]) @ (embedded @ weights.k[at]).T
        own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        matching = (scores[own].mean() - scores[~own].mean()) / scores[~own].std().clamp(min=1e-12)
        copies = (embedded[:n] @ weights.v[at]) @ (weights.o[at] @ unembedded[:, :n])
        values = torch.linalg.eigvals(copies)
        copying = values.real.sum() / values.abs().sum().clamp(min=1e-12)
        node = {"node": f"a{layer}.h{head}", "layer": layer, "part": f"h{head}"}
        yield {**node, "matching": float(matching), "copying": float(copying)}


def shown_heads(rows: list[dict[str, Any]], caveat: str) -> Shown:
    from pandas import DataFrame

    table = DataFrame(rows)

    def draw() -> Figure:
        return component_picture(table, "copying", "copying score", "OV circuits: which heads copy")

    told = [f"{row.node} copies {row.copying:.2f}, matches {row.matching:.2g}" for row in table.itertuples()]
    return Shown("qk_ov", "; ".join(told[:6]) + ("" if len(told) < 7 else "; …") + "." + caveat, table, draw)

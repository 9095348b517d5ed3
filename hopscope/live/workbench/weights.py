"""QK and OV circuits, and composition scores, from weights alone (Elhage et al., 2021).

Weights are not looked up by name. Queries, keys, values and outputs are maps of the stream, and their values on vectors
along each axis are their weights with the preceding norm folded in. Rotary positions rotate the queries and keys of one
position alike, so their products at that position are those without rotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from pandas import DataFrame
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.live.workbench.attribution import written
from hopscope.live.workbench.base import Folded, Shown, Subject, component_picture, studied

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TOKENS = 4096  # largest vocabulary for which eigenvalues are computed
DRAWN = 32  # pairs of random heads for the chance level
MAPS = {"q": "queries", "k": "keys", "v": "values"}


@dataclass(frozen=True)
class Weights:
    """All heads' W_Q, W_K, W_V (layer, head, d_model, d_head) and W_O (…, d_head, d_model), norms folded in."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor

    @classmethod
    def of(cls, subject: Subject) -> Weights:
        """The weights of a model. Raises BadInput if it has no stream, or values or outputs are not linear maps."""
        subject.needs("hook_resid_pre", "attn.hook_q", "attn.hook_v", "attn.hook_z", "hook_attn_out")
        layers = [{**reads(subject, layer), "o": writes(subject, layer)} for layer in range(subject.n_layers)]
        return cls(**{part: torch.stack([one[part] for one in layers]) for part in "qkvo"})

    @property
    def caveat(self) -> str:
        """A sentence on weights that could not be measured; empty if there are none."""
        unknown = bool(self.q.isnan().any() or self.k.isnan().any())
        return " NaN: queries or keys are not a linear map of the stream (normed ones are an example)." * unknown

    @cached_property
    def heads(self) -> list[tuple[int, int]]:
        return [(layer, head) for layer in range(len(self.q)) for head in range(self.q.shape[1])]

    def composed(self, earlier: tuple[int, int], later: tuple[int, int], part: str) -> float:
        """The composition score of two heads: the norm of the product over the product of the norms, 0–1."""
        v, o, q, k = self.v[earlier], self.o[earlier], self.q[later], self.k[later]
        into = {"q": (q, k.T), "k": (k, q.T), "v": (self.v[later], self.o[later])}[part]
        return norm(v, into[1], o @ into[0]) / (norm(v, o) * norm(*into))


def norm(left: Tensor, right: Tensor, middle: Tensor | None = None) -> float:
    """The Frobenius norm of left · middle · right, computed from small products, without the full matrix."""
    middle = torch.eye(len(right)).to(right) if middle is None else middle
    return float(((left.T @ left @ middle) * (middle @ right @ right.T)).sum().clamp(min=0).sqrt())


def reads(subject: Subject, layer: int) -> dict[str, Tensor]:
    """W_Q, W_K and W_V of a layer's heads, (head, d_model, d_head); NaN if queries or keys are not a linear map."""
    before = f"blocks.{layer}.hook_resid_pre"
    names = [f"blocks.{layer}.attn.hook_{part}" for part in MAPS]
    cache = subject.activations(before, *names)
    stream, found = cache[before][:, subject.at], {}
    for part, name in zip(MAPS, names, strict=True):
        ask = lambda x, name=name: subject.under(x, before, name)[0]  # noqa: E731
        folded = Folded(ask, stream.shape[-1], stream)
        linear = folded.scale(stream, cache[name][:, subject.at]) is not None
        if part == "v" and not linear:
            raise BadInput(f"values of layer {layer} are not a linear map of the normed stream")
        found[part] = folded.weight.transpose(0, 1) * (1.0 if linear else torch.nan)
    return found


def writes(subject: Subject, layer: int) -> Tensor:
    """W_O of a layer's heads, (head, d_head, d_model)."""
    name, out = f"blocks.{layer}.attn.hook_z", f"blocks.{layer}.hook_attn_out"
    cache = subject.activations(name, out)
    z = cache[name][:, subject.at]
    folded = written(subject, layer, z)
    if folded.scale(z.flatten(1), cache[out][:, subject.at]) is None:
        raise BadInput(f"the attention output of layer {layer} is not linear in the z of its heads (a norm, perhaps)")
    return folded.weight.unflatten(0, z.shape[1:])


# Results ---------------------------------------------------------------------------------------------------------


def composition(model: Any, inputs: Tensor, *, at: int = -1) -> Shown:
    """Composition scores: how much each head's queries, keys and values read from what each earlier head writes.

    Args:
        model: as for `hopscope.wrap`.
        inputs: two rows or more, on which the measured maps are checked.
        at: the position at which maps are measured.

    Returns:
        A row for each pair of heads and part: earlier, later, part (`q`, `k`, `v`), score (0–1), and above: the score
        minus the mean score of random heads of the same size.

    Raises:
        BadInput: the model has no stream or only one layer, or values or attention outputs are not linear maps.
    """
    with studied(model, inputs, at) as subject:
        weights = Weights.of(subject)
    chance = by_chance(weights)
    pairs = [(one, two, part) for two in weights.heads for one in weights.heads if one[0] < two[0] for part in MAPS]
    rows = [(head_name(one), head_name(two), part, weights.composed(one, two, part)) for one, two, part in pairs]
    if not rows:
        raise BadInput("heads compose with those of earlier layers; this model has one layer")
    return shown_composition([(*row, row[3] - chance) for row in rows], chance, weights.caveat)


def by_chance(weights: Weights) -> float:
    """The mean score of random heads."""
    random = torch.Generator().manual_seed(0)
    draw = lambda like: torch.randn(DRAWN, 2, *like.shape[2:], generator=random)  # noqa: E731
    drawn = Weights(*(draw(one) for one in (weights.q, weights.k, weights.v, weights.o)))
    return sum(drawn.composed((i, 0), (i, 1), part) for i in range(DRAWN) for part in MAPS) / DRAWN / len(MAPS)


def head_name(head: tuple[int, int]) -> str:
    """`L1H0`."""
    return f"L{head[0]}H{head[1]}"


def shown_composition(rows: list[tuple[Any, ...]], chance: float, caveat: str) -> Shown:
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
    return Shown(
        "composition", f"Composition scores (random heads: {chance:.3g}). Largest: {most}.{caveat}", table, draw
    )


def qk_ov(model: Any, inputs: Tensor, *, n_tokens: int | None = None, at: int = -1) -> Shown:
    """QK and OV circuits: whether each head's weights match equal tokens, and whether it copies what it attends to.

    Args:
        model: as for `hopscope.wrap`; of tokens.
        inputs: two rows or more, on which the measured maps are checked.
        n_tokens: size of the vocabulary, 2 to 4096; by default one more than the largest token of the inputs.
        at: the position at which maps are measured.

    Returns:
        A row for each head: node, layer, part, matching and copying. Matching is the mean QK score of a token with
        itself minus that with others, in standard deviations of the latter. Copying is the sum of the eigenvalues of
        the OV circuit from tokens to logits, over the sum of their absolute values (1: copies, −1: suppresses). Both
        use the embedding directly.

    Raises:
        BadInput: as `composition`; or inputs are not tokens.
    """
    with studied(model, inputs, at) as subject:
        if inputs.is_floating_point():
            raise BadInput("QK and OV circuits are between tokens; these inputs are features")
        n = int(inputs.max()) + 1 if n_tokens is None else n_tokens
        if not 2 <= n <= MOST_TOKENS:
            raise BadInput(f"n_tokens must be 2 to {MOST_TOKENS}; got {n}")
        weights, embedded, unembedded = Weights.of(subject), embedding(subject, n), unembedding(subject)
    return shown_heads(list(scores_by_head(weights, embedded, unembedded)), weights.caveat)


def embedding(subject: Subject, n: int) -> Tensor:
    """The embedding of each token minus the mean embedding, (token, d_model)."""
    tokens = subject.inputs[:1].repeat(n, 1)
    tokens[:, subject.at] = torch.arange(n, device=tokens.device)
    name = "blocks.0.hook_resid_pre"
    found = Subject(subject.model, tokens, subject.at).activations(name)[name][:, subject.at].float()
    return found - found.mean(0)


def unembedding(subject: Subject) -> Tensor:
    """The unembedding with the final norm folded in, (d_model, output)."""
    last = f"blocks.{subject.n_layers - 1}.hook_resid_post"
    stream = subject.activations(last)[last][:, subject.at]
    return Folded(lambda x: subject.under(x, last)[0], stream.shape[-1], stream).weight


def scores_by_head(weights: Weights, embedded: Tensor, unembedded: Tensor) -> Iterator[dict[str, Any]]:
    """The matching and copying scores of each head."""
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
    table = DataFrame(rows)

    def draw() -> Figure:
        return component_picture(table, "copying", "copying score", "OV circuits: which heads copy")

    heads = [f"{row.node} copies {row.copying:.2f}, matches {row.matching:.2g}" for row in table.itertuples()]
    return Shown("qk_ov", "; ".join(heads[:6]) + ("" if len(heads) < 7 else "; …") + "." + caveat, table, draw)

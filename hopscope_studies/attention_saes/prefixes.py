"""Induction heads by the length of the prefix that they need (Kissane et al., 2024, arXiv:2406.17759, section 4.3).

A sequence consists of random tokens, all different. Then its last p tokens are replaced by a copy of p earlier ones,
which end at a place e. An induction head now looks from the last token to the place e + 1. A *short-prefix* head does
so after one copied token, a *long-prefix* head only after several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.language.lens.ablation import Ablate, Head
from hopscope.language.lens.attention import Lens, Seen

LENGTH = 64
PREFIXES = (0, 1, 2, 3, 4, 6, 9)  # tokens copied; 0 is a control
LONGEST = PREFIXES[-1]
SCRAMBLED = "scrambled"
LONG = (6, 9)  # prefixes after which a head's score is at its highest
CONDITIONS = (*PREFIXES, SCRAMBLED)
BATCH = 32


@dataclass(frozen=True)
class Sequences:
    """Sequences in several conditions, which differ in the number of copied tokens.

    Attributes:
        ids: tokens; condition sequence position. In the last condition, the longest prefix is reordered except for its
            last token.
        place: the position e + 1 that an induction head should find; shape (sequence).
    """

    ids: Int[Tensor, "condition sequence position"]
    place: Int[Tensor, "sequence"]

    @property
    def right(self) -> Int[Tensor, "sequence"]:
        """The right next token; the same under all conditions."""
        return self.ids[0].gather(1, self.place[:, None])[:, 0]

    def rows(self, rows: slice) -> Sequences:
        """Some of the sequences."""
        return Sequences(self.ids[:, rows], self.place[rows])


def sequences(
    vocabulary: Int[Tensor, "token"], n: int, random: torch.Generator, start: int | None = None, length: int = LENGTH
) -> Sequences:
    """Draw n sequences in all conditions.

    Args:
        vocabulary: tokens to draw from; at least `length`.
        n: number of sequences.
        random: the random generator.
        start: the start token; None for none.
        length: number of positions.
    """
    first = int(start is not None)
    base = torch.stack([vocabulary[torch.randperm(len(vocabulary), generator=random)[:length]] for _ in range(n)])
    if start is not None:
        base[:, 0] = start
    place = torch.randint(first + LONGEST, length - LONGEST - 1, (n,), generator=random)
    order = torch.stack([deranged(LONGEST - 1, random) for _ in range(n)])
    ids = [copied(base, place, p) for p in PREFIXES]
    whole = ids[-1].clone()
    tail = whole[:, -LONGEST:-1]
    whole[:, -LONGEST:-1] = tail.gather(1, order)
    return Sequences(torch.stack([*ids, whole]), place)


def deranged(n: int, random: torch.Generator) -> Int[Tensor, "place"]:
    """A permutation in which no two neighbours still follow each other, and the last element is not last."""
    while True:
        order = torch.randperm(n, generator=random)
        if bool((order.diff() != 1).all()) and int(order[-1]) != n - 1:
            return order


def copied(base: Tensor, place: Tensor, p: int) -> Tensor:
    """Sequences whose last p tokens are a copy of the p tokens that end at a place."""
    ids = base.clone()
    for back in range(1, p + 1):
        ids[:, -back] = base.gather(1, (place - back)[:, None])[:, 0]
    return ids


@dataclass(frozen=True)
class Looks:
    """Measurements of all heads in all conditions.

    Attributes:
        scores: attention (0–1) to the token that followed the first copy; shape (sequence, condition, layer, head).
        direct: each head's contribution to the right token's logit minus the mean logit, in nats, with the scales of
            the final norm and of any norm after attention held fixed; sequence condition layer head.
        log_p: log-probability of the right token; shape (sequence, condition).
    """

    scores: Float[Tensor, "sequence condition layer head"]
    direct: Float[Tensor, "sequence condition layer head"]
    log_p: Float[Tensor, "sequence condition"]


@torch.no_grad()
def looks(lens: Lens, drawn: Sequences) -> Looks:
    """Measure all heads in all conditions."""
    parts = []
    for start in range(0, len(drawn.place), BATCH):
        some = drawn.rows(slice(start, start + BATCH))
        found = [looks_at(lens, ids, some) for ids in some.ids]
        parts.append([torch.stack(one, 1) for one in zip(*found, strict=True)])
    return Looks(*(torch.cat(one) for one in zip(*parts, strict=True)))


def looks_at(lens: Lens, ids: Tensor, drawn: Sequences) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and direct effects (sequence, layer, head) and log-probabilities (sequence) in one condition."""
    seen, last = Seen(), []
    hook = lens.model.model.norm.register_forward_pre_hook(lambda _, args: last.append(args[0][:, -1]))
    try:
        logits = lens.run(lens.embed(ids), seen)
    finally:
        hook.remove()
    unembed = lens.model.lm_head.weight
    reads = (unembed[drawn.right] - unembed.mean(0)) * lens.factors(lens.model.model.norm, last[0])  # sequence d_model
    direct = []
    scores = [pattern[torch.arange(len(ids)), :, -1, drawn.place] for pattern in seen.patterns]
    for layer, z in enumerate(seen.outputs):
        block = lens.layers[layer]
        write = block.self_attn.o_proj.weight.T.unflatten(0, (lens.n_heads, -1))
        parts = torch.einsum("shd,hdm->shm", z[:, -1], write)
        if lens.norms_behind:
            parts = parts * lens.factors(block.post_attention_layernorm, parts.sum(1))[:, None]
        direct.append(torch.einsum("shm,sm->sh", parts, reads))
    log_p = logits.log_softmax(-1).gather(1, drawn.right[:, None])[:, 0]
    return torch.stack(scores, 1), torch.stack(direct, 1), log_p


@torch.no_grad()
def without(
    lens: Lens, drawn: Sequences, sets: Sequence[Sequence[Head]], conditions: Sequence[int]
) -> Float[Tensor, "set sequence condition"]:
    """Log-probability of the right token with the outputs of each set of heads at zero."""
    first = min(layer for heads in sets for layer, _ in heads)
    columns = []
    for condition in conditions:
        parts = []
        for start in range(0, len(drawn.place), BATCH):
            rows = slice(start, start + BATCH)
            stream = lens.streams(drawn.ids[condition, rows])[0][first]
            right = drawn.right[rows, None]
            logits = [lens.run(stream, Ablate(heads), first) for heads in sets]
            parts.append(torch.stack([one.log_softmax(-1).gather(1, right)[:, 0] for one in logits]))
        columns.append(torch.cat(parts, 1))
    return torch.stack(columns, 2)

"""A block without what nothing reads: what a pass may leave out that is asked for its answers, and for little else.

- Queries and keys, where a pattern is replaced whatever it was (`Blind`).
- Attention, where what it adds to the stream is given.
- All positions of the last layer that are not read off.
- What copies of the sequences share up to a pattern by which they part (`Parting`).

Fewer numbers are added up in another order: last digits may differ from those of `Block`, which computes everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from hopscope.models.attention.base import Heads, Pattern, Stream
from hopscope.models.base import Tap
from hopscope.models.base_layers import AttentionLayer, Block

PATTERN, QUERY_AND_KEY, WRITTEN = "attn.hook_pattern", ("attn.hook_q", "attn.hook_k"), "hook_attn_out"
AFTER_PATTERN = ("attn.hook_z", WRITTEN, "hook_resid_mid", "hook_mlp_out", "hook_resid_post")


@dataclass(frozen=True)
class Blind:
    """A replacement that does not look at what it replaces, but for shape and number format.

    Attributes:
        make: the replacement, given a tensor of that shape, whatever it holds.
    """

    make: Callable[[Tensor], Tensor]

    def __call__(self, actual: Tensor) -> Tensor:
        return self.make(actual)


@dataclass(frozen=True)
class Parting:
    """A replacement of a pattern by which copies of sequences part: all before it is computed once for each sequence.

    Attributes:
        make: the replacement, given the pattern of every copy; it may be `Blind`.
        of: of which sequence each copy is, by number.
    """

    make: Callable[[Tensor], Tensor]
    of: Tensor

    def __call__(self, actual: Tensor) -> Tensor:
        return self.make(actual[self.of])


def spared(block: Block, resid: Stream, mask: Tensor, tap: Tap, tokens: Tensor | None, at: slice | None) -> Stream:
    """The stream behind a block, at the positions `at`; the other arguments are those of `Block`."""
    if at is not None and asked(tap, *AFTER_PATTERN):
        return spared(block, resid, mask, tap, tokens, None)[:, at]
    resid = tap("hook_resid_pre", resid)
    if isinstance(tap.replace.get(WRITTEN), Tensor) and not any(name.startswith("attn.") for name in tap.names):
        return block.transformed(resid + tap(WRITTEN, resid), tap)
    attn, onto = block.attn, resid if at is None else resid[:, at]
    rows = at if attn.rule.writes_locally else None
    results, weight = mixed(attn, block.ln1(resid), mask, tap, tokens, rows)
    new = tap.replace.get(PATTERN)
    onto = onto[new.of] if isinstance(new, Parting) else onto
    if rows == at and not asked(tap, WRITTEN) and onto.dtype == results.dtype == attn.b_O.dtype:
        added = (onto + attn.b_O).flatten(0, 1).addmm_(results.flatten(0, 1), weight)  # spares a pass over memory
        return block.transformed(added.view(onto.shape), tap)
    written = tap(WRITTEN, F.linear(results, weight.T, attn.b_O))
    return block.transformed(onto + (written if rows == at else written[:, at]), tap)


def mixed(
    attn: AttentionLayer, x: Stream, mask: Tensor, tap: Tap, tokens: Tensor | None, at: slice | None
) -> tuple[Float[Tensor, "batch query result"], Float[Tensor, "result d_model"]]:
    """What heads mix of their values at some positions, and the matrix by which it is written to the stream."""
    here = slice(None) if at is None else at
    rows = slice(None) if asked(tap, PATTERN) else here
    new = tap.replace.get(PATTERN)
    is_blind = isinstance(new.make if isinstance(new, Parting) else new, Blind)
    if attn.rule.keeps_values and is_blind and not asked(tap, *QUERY_AND_KEY):
        pattern, v = unread(attn, x, tap)
    else:
        q, k, v = attn.projected(x, tap)
        pattern, v = attn.rule.attend(q[:, :, rows], k, v, attn.allowed(mask, tokens)[..., rows, :], attn.own)
    pattern = tap(PATTERN, pattern)
    x = x[:, here]
    v, x = (v[new.of], x[new.of]) if isinstance(new, Parting) else (v, x)
    return attn.read_out(pattern if rows == here else pattern[:, :, here], v, x, tap)


def unread(attn: AttentionLayer, x: Stream, tap: Tap) -> tuple[Pattern, Heads]:
    """A pattern of the right shape that says nothing, and the values: no query meets a key."""
    n, length, n_heads = *x.shape[:2], len(attn.W_V)
    v = F.linear(x, attn.W_V.transpose(1, 2).flatten(0, 1), attn.b_QKV[2].flatten())
    v = attn.rule.values(v.unflatten(-1, (n_heads, -1)).transpose(1, 2), x, attn.b_QKV[2], attn.own)
    v = tap("attn.hook_v", v.transpose(1, 2)).transpose(1, 2)
    return v.new_zeros(1).expand(n, n_heads, length, length), v


def asked(tap: Tap, *names: str) -> bool:
    """Whether one of these activations is read or replaced."""
    return not tap.names.isdisjoint(names)

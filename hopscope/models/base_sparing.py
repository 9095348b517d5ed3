"""A block without computations whose results are not used, for passes that only need the outputs.

It skips
- queries and keys, if a replacement does not depend on the pattern (`Blind`);
- attention, if its output is replaced by a tensor;
- positions of the last layer that are not read off;
- repeated computations before the pattern at which copies of a sequence start to differ (`Parting`).

Sums over fewer numbers are taken in another order, so the last digits may differ from those of `Block`.
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
    """A replacement that depends only on shape and dtype of the activation, not on its values.

    Attributes:
        make: makes the replacement from a tensor of that shape and dtype with arbitrary values.
    """

    make: Callable[[Tensor], Tensor]

    def __call__(self, actual: Tensor) -> Tensor:
        return self.make(actual)


@dataclass(frozen=True)
class Parting:
    """The first replacement that differs between copies of a sequence; all before it is computed once per sequence.

    Attributes:
        make: makes the replacement from the patterns of all copies; it may be `Blind`.
        of: for each copy, the index of its sequence.
    """

    make: Callable[[Tensor], Tensor]
    of: Tensor

    def __call__(self, actual: Tensor) -> Tensor:
        return self.make(actual[self.of])


def spared(block: Block, resid: Stream, mask: Tensor, tap: Tap, tokens: Tensor | None, at: slice | None) -> Stream:
    """The residual stream after a block, at the positions `at`; other arguments are those of `Block`."""
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
        added = (onto + attn.b_O).flatten(0, 1).addmm_(results.flatten(0, 1), weight)  # saves a pass over memory
        return block.transformed(added.view(onto.shape), tap)
    written = tap(WRITTEN, F.linear(results, weight.T, attn.b_O))
    return block.transformed(onto + (written if rows == at else written[:, at]), tap)


def mixed(
    attn: AttentionLayer, x: Stream, mask: Tensor, tap: Tap, tokens: Tensor | None, at: slice | None
) -> tuple[Float[Tensor, "batch query result"], Float[Tensor, "result d_model"]]:
    """`AttentionLayer.read_out` at the positions `at` (None: all); unused queries and keys are not computed."""
    here = slice(None) if at is None else at
    rows = slice(None) if asked(tap, PATTERN) else here
    new = tap.replace.get(PATTERN)
    is_blind = isinstance(new.make if isinstance(new, Parting) else new, Blind)
    if attn.rule.keeps_values and is_blind and not asked(tap, *QUERY_AND_KEY):
        pattern, v = unread(attn, x, tap)
    else:
        q, k, v = attn.projected(x, tap)
        pattern, v = attn.rule.attend(q[:, :, rows], k, v, attn.allowed(mask, x, tokens)[..., rows, :], attn.own)
    pattern = tap(PATTERN, pattern)
    x = x[:, here]
    v, x = (v[new.of], x[new.of]) if isinstance(new, Parting) else (v, x)
    return attn.read_out(pattern if rows == here else pattern[:, :, here], v, x, tap)


def unread(attn: AttentionLayer, x: Stream, tap: Tap) -> tuple[Pattern, Heads]:
    """A pattern of zeros in the right shape, and the values, without computing queries and keys."""
    n, length, n_heads = *x.shape[:2], len(attn.W_V)
    v = F.linear(x, attn.W_V.transpose(1, 2).flatten(0, 1), attn.b_QKV[2].flatten())
    v = attn.rule.values(v.unflatten(-1, (n_heads, -1)).transpose(1, 2), x, attn.b_QKV[2], attn.own)
    v = tap("attn.hook_v", v.transpose(1, 2)).transpose(1, 2)
    return v.new_zeros(1).expand(n, n_heads, length, length), v


def asked(tap: Tap, *names: str) -> bool:
    """Whether a tap reads or replaces one of these activations."""
    return not tap.names.isdisjoint(names)

"""N-gram heads: attention to what followed earlier occurrences of the last n tokens (Akyürek et al., 2024).

They are induction heads that need no learning: the tokens determine where a head attends. arXiv:2401.12973.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Shaped
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.models.attention.base import Attention, Heads, Mask, Own, Pattern
from hopscope.models.attention.softmax import Softmax


@dataclass(frozen=True)
class NGram(Attention):
    """The first heads of a layer attend uniformly to all earlier positions that also follow the last n tokens.

    There is one such head for each order n; the others are softmax heads. If there is no such position, the row of the
    pattern is 0. Values and outputs are learned. Queries and keys of these heads exist but have no effect. (In the
    authors' code this is a separate layer between two others, y = W₀ Σ h + W₁ h; here the residual stream takes the
    place of the second term.)
    """

    normalised: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = True

    orders: str = setting("1", "n of each n-gram head, separated by commas, such as 1,2,3")

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = [part.strip() for part in self.orders.split(",")]
        if not all(part.isdecimal() and int(part) for part in parts):
            raise BadInput(f"n_gram's orders must be whole numbers from 1 on, such as '1,2,3'; got {self.orders!r}")
        object.__setattr__(self, "orders", ",".join(str(int(part)) for part in parts))

    @property
    def lengths(self) -> list[int]:
        """n of each n-gram head."""
        return [int(part) for part in self.orders.split(",")]

    def own(self, n_heads: int, d_head: int) -> dict[str, Tensor]:
        if len(self.lengths) > n_heads:
            raise BadInput(f"n_gram(orders={self.orders!r}) needs {len(self.lengths)} heads or more; got {n_heads}")
        return {}

    def masked(self, mask: Mask, tokens: Shaped[Tensor, "batch position ..."], n_heads: int) -> Mask:
        """The mask with only positions after a match left for n-gram heads: (batch, head, query, key)."""
        n = tokens.shape[1]
        matches = torch.stack([followers(tokens, order) for order in self.lengths], 1)
        others = matches.new_ones(len(tokens), n_heads - len(self.lengths), n, n)
        return mask.masked_fill(~torch.cat([matches, others], 1), -torch.inf)

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        n = len(self.lengths)
        left = (~torch.isneginf(mask[:, :n])).to(v.dtype)
        even = left / left.sum(-1, keepdim=True).clamp(min=1)
        pattern, _ = Softmax().attend(q[:, n:], k[:, n:], v, mask[:, n:], own)
        return torch.cat([even.to(pattern.dtype), pattern], 1), v


def followers(tokens: Shaped[Tensor, "batch position ..."], n: int) -> Bool[Tensor, "batch query key"]:
    """Whether the n tokens that end at the query also end just before the key, which must be an earlier position."""
    flat = tokens.flatten(2) if tokens.ndim > 2 else tokens[..., None]
    length = flat.shape[1]
    same = (flat[:, :, None] == flat[:, None]).all(-1)
    matched = same
    for _ in range(n - 1):  # the tokens one earlier, two earlier …
        same = F.pad(same, (1, -1, 1, -1))
        matched = matched & same
    earlier = torch.ones(length, length, dtype=torch.bool, device=flat.device).tril(-1)
    return F.pad(matched, (1, -1)) & earlier

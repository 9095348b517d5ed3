"""The layers of a transformer: LayerNorm, attention, MLP, and the block that combines them (Radford et al., 2019).

Attention is not fused, because its pattern is what is studied. Compiled, it is faster than fused kernels on a CPU
(docs/performance.md).
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from hopscope.models.attention.base import Attention, Heads, Mask, Own, Pattern, Stream
from hopscope.models.base import Ruled, Tap, passes
from hopscope.models.base_kernels import apart, gelu
from hopscope.models.positions.base import Positions


class Sizes(Protocol):
    """The settings of a transformer that a layer needs."""

    @property
    def n_heads(self) -> int:
        """Heads per layer."""

    @property
    def d_model(self) -> int:
        """Width of the residual stream."""

    @property
    def layer_norm(self) -> bool:
        """Whether sublayers normalise their inputs."""

    @property
    def mlp(self) -> bool:
        """Whether layers have an MLP."""

    @property
    def head_width(self) -> int:
        """Width of a head."""

    @property
    def mlp_width(self) -> int:
        """Hidden width of the MLP."""

    @property
    def rule(self) -> Attention:
        """The attention variant."""


class LayerNorm(nn.Module):
    """Layer normalisation with scale `w` and shift `b` (Ba et al., 2016)."""

    def __init__(self, d_model: int):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d_model))
        self.b = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"], tap: Tap | None = None) -> Float[Tensor, "*batch d_model"]:
        """Normalise the last dimension. Only the final norm gets a tap, for x before scale and shift."""
        name = "ln_final.hook_normalized"
        normalized = None if tap is None else tap(name, F.layer_norm(x, self.w.shape, eps=1e-5))
        if normalized is not None and tap is not None and name in tap.replace:
            return normalized * self.w + self.b
        return F.layer_norm(x, self.w.shape, self.w, self.b, eps=1e-5)  # the same bits, whether it is read or not


class AttentionLayer(Ruled):
    """All heads of a layer: input projections, a rule of attention, and the output projection.

    The input projections of all heads are one parameter, `W_QKV`, and one matrix product. `W_Q`, `W_K` and `W_V` are
    its parts, `(n_heads, d_model, d_head)`; `W_O` is `(n_heads, d_head, d_model)`.
    """

    def __init__(self, architecture: Sizes, layer: int, code: Positions, n_positions: int):
        super().__init__(architecture.rule)
        n_heads, d_model, d_head = architecture.n_heads, architecture.d_model, architecture.head_width
        self.code = code
        self.variant = nn.ParameterDict(self.rule.own_of(n_heads, d_model, d_head))
        self.positions = nn.ParameterDict(code.own(layer, n_heads, d_head, n_positions))
        self.W_QKV = nn.Parameter(torch.empty(3, n_heads, d_model, d_head))
        self.b_QKV = nn.Parameter(torch.zeros(3, n_heads, d_head))
        self.W_O = nn.Parameter(torch.empty(n_heads, d_head, d_model))
        self.b_O = nn.Parameter(torch.zeros(d_model))

    W_Q = property(lambda self: self.W_QKV[0], doc="Query weights, (n_heads, d_model, d_head).")
    W_K = property(lambda self: self.W_QKV[1], doc="Key weights, (n_heads, d_model, d_head).")
    W_V = property(lambda self: self.W_QKV[2], doc="Value weights, (n_heads, d_model, d_head).")

    @property
    def own(self) -> Own:
        """The variant's own parameters, and its random tensors for the current update."""
        return {**self.variant, **self.drawn} if self.drawn else self.variant

    def forward(
        self,
        x: Float[Tensor, "batch position d_model"],
        mask: Float[Tensor, "query key"],
        tap: Tap | None,
        tokens: Shaped[Tensor, "batch position ..."] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """What the layer adds to the residual stream; `tokens` are the model's inputs, for rules that read them."""
        q, k, v = self.projected(x, tap)
        pattern, v = self.rule.attend(q, k, v, self.allowed(mask, x, tokens), self.own)
        results, weight = self.read_out(passes(tap, "attn.hook_pattern", pattern), v, x, tap)
        return F.linear(results, weight.T, self.b_O)

    def projected(self, x: Float[Tensor, "batch position d_model"], tap: Tap | None = None) -> tuple[Heads, ...]:
        """Queries, keys and values of every head, with position codes applied."""
        weight = self.W_QKV.permute(2, 0, 1, 3).flatten(1)  # d_model 3·head·d_head: the cheapest order to copy
        heads = F.linear(x, weight.T, self.b_QKV.flatten()).unflatten(-1, self.b_QKV.shape)
        q, k, v = (apart(each.transpose(1, 2)) for each in heads.unbind(2))  # each: batch head position d_head
        q, k = self.rule.queries_and_keys(q, k, x, self.own)
        v = self.rule.values(v, x, self.b_QKV[2], self.own)
        if tap is not None:  # in TransformerLens q, k, v, z are batch position head d_head
            q, k, v = (
                tap(f"attn.hook_{n}", a.transpose(1, 2)).transpose(1, 2) for n, a in (("q", q), ("k", k), ("v", v))
            )
        if self.code.turns():
            places = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
            q, k = self.code.turn(q, places), self.code.turn(k, places)
        return q, k, v

    def allowed(self, mask: Mask, x: Stream, tokens: Shaped[Tensor, "batch position ..."] | None) -> Mask:
        """What is added to attention scores: the mask, changed by position codes and by rules that read x or tokens."""
        allowed: Tensor = self.rule.bias(self.code.bias(self.positions, mask), x, self.own)
        return allowed if tokens is None else self.rule.masked(allowed, tokens, len(self.W_Q))

    def read_out(
        self, pattern: Pattern, v: Heads, x: Float[Tensor, "batch query d_model"], tap: Tap | None = None
    ) -> tuple[Float[Tensor, "batch query result"], Float[Tensor, "result d_model"]]:
        """The concatenated results of heads, pattern times values, and the matrix that writes them to the stream."""
        z = passes(tap, "attn.hook_z", (pattern.to(v.dtype) @ v).transpose(1, 2))  # batch position head d_head
        results, weight = self.rule.read_out(z, x, self.W_O, self.own)
        return results.flatten(2), weight.flatten(0, -2)


class MLP(nn.Module):
    """Two linear layers with GPT-2's tanh form of GELU between; weights are `(d_in, d_out)` as in TransformerLens."""

    def __init__(self, d_model: int, d_mlp: int):
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(d_model, d_mlp))
        self.b_in = nn.Parameter(torch.zeros(d_mlp))
        self.W_out = nn.Parameter(torch.empty(d_mlp, d_model))
        self.b_out = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        hidden = gelu(F.linear(x, self.W_in.T, self.b_in))
        return F.linear(hidden, self.W_out.T, self.b_out)


class Block(nn.Module):
    """One layer: attention, then an optional MLP; each adds to the residual stream."""

    def __init__(self, architecture: Sizes, layer: int, code: Positions, n_positions: int):
        super().__init__()
        norm = LayerNorm if architecture.layer_norm else lambda _: nn.Identity()
        self.ln1 = norm(architecture.d_model)
        self.attn = AttentionLayer(architecture, layer, code, n_positions)
        self.ln2 = norm(architecture.d_model) if architecture.mlp else None
        self.mlp = MLP(architecture.d_model, architecture.mlp_width) if architecture.mlp else None

    def forward(
        self,
        resid: Float[Tensor, "batch position d_model"],
        mask: Float[Tensor, "query key"],
        tap: Tap | None = None,
        tokens: Shaped[Tensor, "batch position ..."] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """The residual stream after the layer."""
        resid = passes(tap, "hook_resid_pre", resid)
        resid = resid + passes(tap, "hook_attn_out", self.attn(self.ln1(resid), mask, tap, tokens))
        return self.transformed(resid, tap)

    def transformed(
        self, resid: Float[Tensor, "batch position d_model"], tap: Tap | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """The residual stream after the MLP, if there is one."""
        if self.mlp is not None and self.ln2 is not None:
            resid = passes(tap, "hook_resid_mid", resid)
            resid = resid + passes(tap, "hook_mlp_out", self.mlp(self.ln2(resid)))
        return passes(tap, "hook_resid_post", resid)


def mask_of(n_positions: int, causal: bool) -> Float[Tensor, "query key"]:
    """What is added to attention scores: 0 where a query may attend to a key, −∞ elsewhere."""
    mask = torch.zeros(n_positions, n_positions)
    if mask.is_meta or not causal:  # masking a meta tensor would load PyTorch's compiler, only to count parameters
        return mask
    return mask.masked_fill(torch.ones(mask.shape, dtype=torch.bool).triu(1), -torch.inf)

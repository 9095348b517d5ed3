"""A pre-LayerNorm transformer after the GPT-2 recipe (Radford et al., 2019; Musat, ICLR 2025, section 7.1).

- Vectors or tokens in; answers read off at chosen positions.
- Activations have TransformerLens' names. They are read (`cache=`) and replaced (`replace=`) by arguments of the
  forward pass, not by hooks: so a forward with replacements compiles, vmaps, differentiates, and a batch may hold a
  thousand replacements at once.
- Attention is written out, for the pattern is the thing studied; compiled it outruns the fused kernels on CPU
  (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, overload

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from hopscope.core import catalogue
from hopscope.core.settings import BadInput, Settings, setting
from hopscope.models.attention.base import Attention
from hopscope.tasks.base import Task

#: What an activation is replaced by: a tensor that broadcasts to it, or a function of the actual one.
Replacement = Tensor | Callable[[Tensor], Tensor]
Replacements = Mapping[str, Replacement]

INIT_STD = 0.02  # GPT-2


@dataclass(frozen=True)
class Architecture(Settings):
    """The shape of a transformer, but for the widths that the task dictates. Defaults: docs/contracts.md."""

    n_layers: int = setting(4, "number of layers", low=1, high=1024)
    n_heads: int = setting(1, "attention heads per layer", low=1, high=1024)
    d_model: int = setting(128, "width of the residual stream", low=1, high=65536)
    d_head: int | None = setting(None, "width of a head; default d_model / n_heads", low=1, high=65536)
    d_mlp: int | None = setting(None, "hidden width of the MLP; default 4 d_model", low=1, high=1 << 20)
    attention: str = setting("softmax", "attention variant, a file of models/attention")
    causal: bool = setting(True, "whether a position sees only itself and earlier ones")
    layer_norm: bool = setting(True, "whether each sublayer, and the output, normalises what it reads")
    mlp: bool = setting(True, "whether each layer has an MLP; without: attention only")
    init: str = setting(
        "early_layers",
        "initial weights: early_layers, as fan_in, but layer l writes 1/(l+1) as much (ours); "
        "fan_in, even in ±1/√inputs, as PyTorch's layers; gpt2, N(0, 0.02²), less where layers add up",
        choices=("early_layers", "fan_in", "gpt2"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        catalogue.find("models.attention", self.attention)
        if self.d_head is None and self.d_model % self.n_heads:
            raise BadInput(
                f"d-model must be a multiple of heads when d-head is not given; got {self.d_model} and {self.n_heads}"
            )

    @property
    def head_width(self) -> int:
        """d_head, resolved."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def mlp_width(self) -> int:
        """d_mlp, resolved."""
        return self.d_mlp or 4 * self.d_model


class Cache(dict[str, Tensor]):
    """Activations of one forward by name; `cache["pattern", 1]` is short for `cache["blocks.1.attn.hook_pattern"]`."""

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        if isinstance(key, tuple):
            short, layer = key
            key = f"blocks.{layer}.{'attn.' if short in ATTENTION_NAMES else ''}hook_{short}"
        return super().__getitem__(key)


ATTENTION_NAMES = ("q", "k", "v", "pattern", "z")
BLOCK_NAMES = (
    "hook_resid_pre",
    *(f"attn.hook_{name}" for name in ATTENTION_NAMES),
    "hook_attn_out",
    "hook_resid_mid",
    "hook_mlp_out",
    "hook_resid_post",
)


class Tap:
    """Reads and replaces the activations of one forward, by name. `Tap()` does neither."""

    def __init__(self, replace: Replacements | None = None, keep: Iterable[str] = (), prefix: str = ""):
        self.replace = replace or {}
        self.keep = frozenset(keep)
        self.prefix = prefix
        self.kept: dict[str, Tensor] = {}

    def within(self, block: int) -> Tap | None:
        """The part that concerns one block, under names local to it; None if there is nothing to do there."""
        prefix = f"blocks.{block}."
        replace = {n.removeprefix(prefix): r for n, r in self.replace.items() if n.startswith(prefix)}
        keep = [n.removeprefix(prefix) for n in self.keep if n.startswith(prefix)]
        return Tap(replace, keep, prefix) if replace or keep else None

    def __call__(self, name: str, actual: Tensor) -> Tensor:
        if name in self.replace:
            new = self.replace[name]
            actual = new(actual) if callable(new) else new.to(actual.dtype).expand_as(actual)
        if name in self.keep:
            self.kept[self.prefix + name] = actual
        return actual


def passes(tap: Tap | None, name: str, actual: Tensor) -> Tensor:
    """The activation, as the tap leaves it."""
    return actual if tap is None else tap(name, actual)


class LayerNorm(nn.Module):
    """Layer normalisation with scale `w` and shift `b` (Ba et al., 2016)."""

    def __init__(self, d_model: int):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d_model))
        self.b = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"], tap: Tap | None = None) -> Float[Tensor, "*batch d_model"]:
        """With a tap, which only the final norm gets, `hook_normalized` is what stands before scale and shift."""
        name = "ln_final.hook_normalized"
        normalized = None if tap is None else tap(name, F.layer_norm(x, self.w.shape, eps=1e-5))
        if normalized is not None and tap is not None and name in tap.replace:
            return normalized * self.w + self.b
        return F.layer_norm(x, self.w.shape, self.w, self.b, eps=1e-5)  # so that reading does not change a bit


class AttentionLayer(nn.Module):
    """All heads of a layer: projections in and out around a variant of attention.

    The projections of all heads are one parameter, `W_QKV`, so that they are one matrix product; `W_Q`, `W_K`,
    `W_V` are its parts, `(n_heads, d_model, d_head)`, and `W_O` is `(n_heads, d_head, d_model)`.
    """

    def __init__(self, architecture: Architecture):
        super().__init__()
        n_heads, d_model, d_head = architecture.n_heads, architecture.d_model, architecture.head_width
        variant: type[Attention] = catalogue.find("models.attention", architecture.attention)
        self.variant = variant(n_heads, d_head)
        self.W_QKV = nn.Parameter(torch.empty(3, n_heads, d_model, d_head))
        self.b_QKV = nn.Parameter(torch.zeros(3, n_heads, d_head))
        self.W_O = nn.Parameter(torch.empty(n_heads, d_head, d_model))
        self.b_O = nn.Parameter(torch.zeros(d_model))

    W_Q = property(lambda self: self.W_QKV[0], doc="Query weights, (n_heads, d_model, d_head).")
    W_K = property(lambda self: self.W_QKV[1], doc="Key weights, (n_heads, d_model, d_head).")
    W_V = property(lambda self: self.W_QKV[2], doc="Value weights, (n_heads, d_model, d_head).")

    def forward(
        self, x: Float[Tensor, "batch position d_model"], mask: Float[Tensor, "query key"], tap: Tap | None
    ) -> Float[Tensor, "batch position d_model"]:
        weight = self.W_QKV.permute(2, 0, 1, 3).flatten(1)  # d_model 3·head·d_head: this order costs least to copy
        heads = F.linear(x, weight.T, self.b_QKV.flatten()).unflatten(-1, self.b_QKV.shape)
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # each: batch head position d_head
        if tap is not None:  # TransformerLens keeps q, k, v, z as batch position head d_head
            q, k, v = (
                tap(f"attn.hook_{n}", a.transpose(1, 2)).transpose(1, 2) for n, a in (("q", q), ("k", k), ("v", v))
            )
        pattern, v = self.variant.attend(q, k, v, mask)
        pattern = passes(tap, "attn.hook_pattern", pattern)
        z = passes(tap, "attn.hook_z", (pattern.to(v.dtype) @ v).transpose(1, 2))  # batch position head d_head
        return F.linear(z.flatten(2), self.W_O.flatten(0, 1).T, self.b_O)


class MLP(nn.Module):
    """Two layers with a GELU between, in GPT-2's tanh form; weights `(d_in, d_out)` as in TransformerLens."""

    def __init__(self, d_model: int, d_mlp: int):
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(d_model, d_mlp))
        self.b_in = nn.Parameter(torch.zeros(d_mlp))
        self.W_out = nn.Parameter(torch.empty(d_mlp, d_model))
        self.b_out = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        hidden = F.gelu(F.linear(x, self.W_in.T, self.b_in), approximate="tanh")
        return F.linear(hidden, self.W_out.T, self.b_out)


class Block(nn.Module):
    """One layer: attention, then (perhaps) an MLP, each adding to the residual stream."""

    def __init__(self, architecture: Architecture):
        super().__init__()
        norm = LayerNorm if architecture.layer_norm else lambda _: nn.Identity()
        self.ln1 = norm(architecture.d_model)
        self.attn = AttentionLayer(architecture)
        self.ln2 = norm(architecture.d_model) if architecture.mlp else None
        self.mlp = MLP(architecture.d_model, architecture.mlp_width) if architecture.mlp else None

    def forward(
        self, resid: Float[Tensor, "batch position d_model"], mask: Float[Tensor, "query key"], tap: Tap | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        resid = passes(tap, "hook_resid_pre", resid)
        resid = resid + passes(tap, "hook_attn_out", self.attn(self.ln1(resid), mask, tap))
        if self.mlp is not None and self.ln2 is not None:
            resid = passes(tap, "hook_resid_mid", resid)
            resid = resid + passes(tap, "hook_mlp_out", self.mlp(self.ln2(resid)))
        return passes(tap, "hook_resid_post", resid)


class Transformer(nn.Module):
    """Embedding, blocks, final LayerNorm, unembedding.

    Args:
        architecture: its shape.
        n_positions: the longest sequence.
        d_output: numbers put out per position.
        d_input: features of a position; or else
        d_vocab: number of different tokens.
        learned_positions: whether to add a learnt embedding of the position.
        generator: draws the initial weights. Without one they are left for `load_state_dict`.
    """

    def __init__(
        self,
        architecture: Architecture,
        *,
        n_positions: int,
        d_output: int,
        d_input: int | None = None,
        d_vocab: int | None = None,
        learned_positions: bool = False,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        if (d_input is None) == (d_vocab is None):
            raise ValueError(f"give one of d_input and d_vocab; got {d_input} and {d_vocab}")
        self.architecture = architecture
        d_model = architecture.d_model
        self.W_E = nn.Parameter(torch.empty(d_input or d_vocab or 0, d_model))
        self.b_E = nn.Parameter(torch.zeros(d_model)) if d_input else None
        self.W_pos = nn.Parameter(torch.empty(n_positions, d_model)) if learned_positions else None
        self.blocks = nn.ModuleList(Block(architecture) for _ in range(architecture.n_layers))
        self.ln_final = LayerNorm(d_model) if architecture.layer_norm else nn.Identity()
        self.W_U = nn.Parameter(torch.empty(d_model, d_output))
        self.b_U = nn.Parameter(torch.zeros(d_output))
        seen = torch.ones(n_positions, n_positions, dtype=torch.bool)
        hidden = ~(seen.tril() if architecture.causal else seen)
        self.register_buffer("mask", torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf), persistent=False)
        self.mask: Tensor
        if generator is not None:
            self.initialise(generator)

    @classmethod
    def for_task(cls, architecture: Architecture, task: Task, generator: torch.Generator | None = None) -> Transformer:
        """A transformer with the widths that a task needs."""
        return cls(
            architecture,
            n_positions=task.n_positions,
            d_output=task.d_output,
            d_input=task.d_input,
            d_vocab=task.d_vocab,
            learned_positions=not task.inputs_carry_position,
            generator=generator,
        )

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights anew, in the order of `named_parameters`; biases are 0, LayerNorms 1.

        `gpt2`: N(0, 0.02²), and where a layer adds to the residual stream divided by √(2 n_layers) (Radford et al.,
        2019). `fan_in`: uniform in ±1/√(number of inputs), the default of PyTorch's linear layers; an embedding's
        row counts as d_model inputs. `early_layers`: the same, but what layer l adds to the residual stream is divided
        by l + 1 (after Zhang et al., 2019, who divide by √l): the first hop then forms in early layers, and leaves
        later ones to the next. docs/fidelity.md compares them.
        """
        for name, parameter in self.named_parameters():
            weight = name.rpartition(".")[2]
            if weight.startswith("W_"):
                shape, device = parameter.shape, generator.device
                if self.architecture.init == "gpt2":
                    drawn = INIT_STD * torch.randn(shape, generator=generator, device=device)
                else:
                    even = 2 * torch.rand(shape, generator=generator, device=device) - 1
                    drawn = self.fan_in(weight) ** -0.5 * even
                parameter.copy_(drawn * self.write_scale(name))

    def write_scale(self, name: str) -> float:
        """By how much a weight that adds to the residual stream starts smaller; 1 for all others."""
        if not name.endswith(("W_O", "W_out")):
            return 1.0
        layer = int(name.split(".")[1])
        scales = {"gpt2": (2 * self.architecture.n_layers) ** -0.5, "early_layers": 1 / (layer + 1)}
        return scales.get(self.architecture.init, 1.0)

    def fan_in(self, weight: str) -> int:
        """How many numbers each output of a weight sums up."""
        shape = self.architecture
        read = {"W_O": shape.n_heads * shape.head_width, "W_out": shape.mlp_width}
        if weight == "W_E" and self.b_E is not None:
            return len(self.W_E)
        return read.get(weight, shape.d_model)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.W_U.device

    @property
    def n_parameters(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def activation_names(self) -> list[str]:
        """Names that `replace` and `cache` know, in the order of the forward pass."""
        with_mlp = self.architecture.mlp
        local = [n for n in BLOCK_NAMES if with_mlp or n not in ("hook_resid_mid", "hook_mlp_out")]
        per_block = [f"blocks.{layer}.{name}" for layer in range(len(self.blocks)) for name in local]
        embedding = ["hook_embed"] if self.W_pos is None else ["hook_embed", "hook_pos_embed"]
        return [*embedding, *per_block, *(["ln_final.hook_normalized"] if self.architecture.layer_norm else [])]

    @overload
    def forward(
        self,
        inputs: Tensor,
        *,
        replace: Replacements | None = None,
        cache: Literal[False] = False,
        at: slice | None = None,
        start_at_layer: int = 0,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        inputs: Tensor,
        *,
        replace: Replacements | None = None,
        cache: Literal[True] | Iterable[str],
        at: slice | None = None,
        start_at_layer: int = 0,
    ) -> tuple[Tensor, Cache]: ...
    def forward(
        self,
        inputs: Shaped[Tensor, "batch position ..."],
        *,
        replace: Replacements | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
        start_at_layer: int = 0,
    ) -> Float[Tensor, "batch position d_output"] | tuple[Float[Tensor, "batch position d_output"], Cache]:
        """Outputs at every position, or at the positions `at`.

        Args:
            inputs: features (float, batch position d_input) or tokens (int, batch position).
            replace: by name, what activations are replaced by, before anything reads them: a tensor that broadcasts
                to the activation, or a pure function of it. Patterns are batch head query key; q, k, v, z are batch
                position head d_head; the residual stream is batch position d_model.
            cache: True, or names: also return these activations, as replaced.
            at: the positions to read off; the last layer's norm and the unembedding are computed there only.
            start_at_layer: begin before this layer; the inputs then are its residual stream, as TransformerLens has it.

        Raises:
            BadInput: a name is none of `activation_names`, or the sequence is longer than the model's.
        """
        if not replace and cache is False and not start_at_layer:
            return self.unembed(self.run_blocks(self.embed(inputs, None), None), at, None)
        tap = self.tap(replace or {}, cache)
        resid = inputs if start_at_layer else self.embed(inputs, tap)
        resid = self.run_blocks(resid, tap, start_at_layer)
        outputs = self.unembed(resid, at, tap)
        return outputs if cache is False else (outputs, Cache(tap.kept))

    def tap(self, replace: Replacements, cache: bool | Iterable[str]) -> Tap:
        known = self.activation_names
        keep = [] if cache is False else known if cache is True else list(cache)
        for name in [*replace, *keep]:
            if name not in known:
                raise BadInput(
                    f"there is no activation {name!r}; they are hook_embed, blocks.0.hook_resid_pre, "
                    "blocks.0.attn.hook_pattern and so on (see activation_names)"
                )
        return Tap(replace, keep)

    def embed(
        self, inputs: Shaped[Tensor, "batch position ..."], tap: Tap | None
    ) -> Float[Tensor, "batch position d_model"]:
        if inputs.shape[1] > len(self.mask):
            raise BadInput(f"this model reads at most {len(self.mask)} positions; got {inputs.shape[1]}")
        resid = self.W_E[inputs] if self.b_E is None else F.linear(inputs, self.W_E.T, self.b_E)
        resid = passes(tap, "hook_embed", resid)
        if self.W_pos is None:
            return resid
        return resid + passes(tap, "hook_pos_embed", self.W_pos[: inputs.shape[1]].expand_as(resid))

    def run_blocks(
        self, resid: Float[Tensor, "batch position d_model"], tap: Tap | None, start: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        n = resid.shape[1]
        mask = self.mask[:n, :n]
        for layer, block in enumerate(self.blocks[start:], start):
            local = tap.within(layer) if tap is not None else None
            resid = block(resid, mask, local)
            if tap is not None and local is not None:
                tap.kept.update(local.kept)
        return resid

    def unembed(
        self, resid: Float[Tensor, "batch position d_model"], at: slice | None, tap: Tap | None
    ) -> Float[Tensor, "batch position d_output"]:
        if at is not None:
            resid = resid[:, at]
        resid = self.ln_final(resid, tap) if isinstance(self.ln_final, LayerNorm) else resid
        return F.linear(resid, self.W_U.T, self.b_U)

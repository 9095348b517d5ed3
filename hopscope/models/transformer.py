"""A pre-LayerNorm transformer after the GPT-2 recipe (Radford et al., 2019; Musat, ICLR 2025, section 7.1).

- Inputs are vectors or tokens; outputs are read off at chosen positions.
- Activations have TransformerLens' names. They are read (`cache=`) and replaced (`replace=`) by arguments of the
  forward pass, not by hooks. So a pass with replacements works with compile, vmap and autograd, and one batch may hold
  a thousand different replacements.
- Layers are in `base_layers.py`. Each rule of attention is a file in `attention/`, each position code in `positions/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from hopscope.core import catalogue
from hopscope.core.settings import BadInput, Variant, check_range, setting
from hopscope.models.attention.base import Attention
from hopscope.models.base import ATTENTION_NAMES, Cache, Model, Replacement, Replacements, Shape, Tap, passes
from hopscope.models.base_kernels import KERNELS, LOOKING_BACK, reads_last_layer_in_part
from hopscope.models.base_layers import Block, LayerNorm, mask_of
from hopscope.models.base_look_back import LOOK_BACK, check_look_back, look_back
from hopscope.models.base_sparing import spared
from hopscope.models.positions.base import Positions
from hopscope.tasks.base import Task

__all__ = ["Architecture", "Cache", "Replacement", "Replacements", "Tap", "Transformer", "passes"]

INIT_STD = 0.02  # GPT-2


@dataclass(frozen=True)
class Architecture(Shape):
    """The settings of a transformer, except widths that the task determines. Defaults: docs/contracts.md.

    `attention` and `positions` are a variant, or its name with the settings that differ from the default
    (`rotary(base=100)`).

    Raises:
        BadInput: layers are no multiple of `loops`, `d_model` is none of `n_heads` and `d_head` is not given,
            there is no such variant, or a recurrence is not causal.
    """

    stacks = True

    n_layers: int = setting(4, "number of layers", low=1, high=1024)
    n_heads: int = setting(1, "attention heads per layer", low=1, high=1024)
    d_model: int = setting(128, "width of the residual stream", low=1, high=65536)
    d_head: int | None = setting(None, "width of a head; default d_model / n_heads", low=1, high=65536)
    d_mlp: int | None = setting(None, "hidden width of the MLP; default 4 d_model", low=1, high=1 << 20)
    attention: str = setting("softmax", "attention variant, a file of models/attention, with its settings: name(a=1)")
    causal: bool = setting(True, "whether a position sees only itself and earlier ones")
    layer_norm: bool = setting(True, "whether each sublayer, and the output, normalises its input")
    mlp: bool = setting(False, "whether each layer has an MLP; without: attention only")
    init: str = setting(
        "gpt2",
        "initial weights: gpt2, N(0, 0.02²), scaled down where a layer writes to the stream; fan_in, uniform in "
        "±1/√inputs, as in PyTorch's layers; early_layers, as fan_in, but what layer l writes is divided by l+1 (ours)",
        choices=("gpt2", "fan_in", "early_layers"),
    )
    positions: str | None = setting(
        "learned",
        "position code, a file of models/positions: learned (GPT-2's, added to positions that inputs carry), input "
        "(only those that inputs carry), none, rotary(base=100), relative(start='L0 1:4')",
        since="0.2.0",
        before=None,  # `default_positions`
    )
    look_back: float = setting(0.0, LOOK_BACK, low=0, since="0.2.0")
    loops: int = setting(
        1,
        "how often the layers run with the same weights (looped depth); n_layers counts every repetition",
        low=1,
        high=1024,
        since="0.2.0",
    )

    def __post_init__(self) -> None:
        for name in ("attention", "positions"):  # the canonical text of a variant
            if isinstance(given := getattr(self, name), str | Variant):
                object.__setattr__(self, name, str(catalogue.chosen(f"models.{name}", str(given))))
        super().__post_init__()
        if self.n_layers % self.loops:
            raise BadInput(f"layers must be a multiple of loops; got {self.n_layers} and {self.loops}")
        if self.d_head is None and self.d_model % self.n_heads:
            raise BadInput(
                f"d-model must be a multiple of heads when d-head is not given; got {self.d_model} and {self.n_heads}"
            )

        if not self.causal and self.rule.recurrent:
            raise BadInput(f"{self.attention} is a recurrence, which needs a causal mask; leave causal on")

    @property
    def head_width(self) -> int:
        """d_head, or its default."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def own_layers(self) -> int:
        """The number of layers with weights of their own: n_layers / loops."""
        return self.n_layers // self.loops

    @property
    def mlp_width(self) -> int:
        """d_mlp, or its default."""
        return self.d_mlp or 4 * self.d_model

    @property
    def rule(self) -> Attention:
        """The attention variant with its settings."""
        return catalogue.chosen("models.attention", self.attention)

    @property
    def normalised(self) -> bool:
        return self.rule.normalised

    def code(self, carried: bool) -> Positions:
        """The position code, by default `default_positions`. Raises BadInput if it does not fit the inputs.

        `carried` says whether inputs carry positions.
        """
        code: Positions = catalogue.chosen("models.positions", self.positions or default_positions(carried))
        if code.carried is not None and code.carried != carried:
            raise BadInput(
                f"positions {code} is for inputs that {'carry' if code.carried else 'do not carry'} their positions; "
                f"these {'do' if carried else 'do not'}: choose {default_positions(carried)}, rotary or relative"
            )
        return code

    def resolved(self, task: Task) -> Architecture:
        check_look_back(self.look_back, self, task)
        positions = None if self.positions == default_positions(task.inputs_carry_position) else self.positions
        return self.but(d_head=self.head_width, d_mlp=self.mlp_width, positions=positions)

    def build(self, task: Task, generator: torch.Generator | None = None) -> Transformer:
        return Transformer.for_task(self, task, generator)


def default_positions(carried: bool) -> str:
    """The default position code, which depends on whether inputs carry positions."""
    return "input" if carried else "learned"


BLOCK_NAMES = (
    "hook_resid_pre",
    *(f"attn.hook_{name}" for name in ATTENTION_NAMES),
    "hook_attn_out",
    "hook_resid_mid",
    "hook_mlp_out",
    "hook_resid_post",
)


class Transformer(Model):
    """A transformer: embedding, blocks, final LayerNorm, unembedding.

    With `loops` the blocks run several times (Dehghani et al., 2019; Saunshi et al., ICLR 2025). Layers, also in names
    of activations, are counted over all loops; weights are named by the layers of the first loop.

    Args:
        architecture: the settings.
        n_positions: the length of the longest sequence.
        d_output: outputs per position.
        d_input: features per position, for inputs that are vectors.
        d_vocab: size of the vocabulary, for inputs that are tokens; give one of the two.
        learned_positions: whether inputs carry no positions; then the default position code is learned.
        generator: draws the initial weights; without one, load them with `load_state_dict`.
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
        self.architecture: Architecture = architecture
        self.reads_tokens = architecture.rule.reads_tokens
        self.starts_at_layers = not self.reads_tokens
        d_model, self.learned_positions = architecture.d_model, learned_positions
        self.W_E = nn.Parameter(torch.empty(d_input or d_vocab or 0, d_model))
        self.b_E = nn.Parameter(torch.zeros(d_model)) if d_input else None
        code = architecture.code(carried=not learned_positions)
        self.W_pos = nn.Parameter(torch.empty(n_positions, d_model)) if code.embedded else None
        layers = range(architecture.own_layers)
        self.blocks = nn.ModuleList(Block(architecture, layer, code, n_positions) for layer in layers)
        self.ln_final = LayerNorm(d_model) if architecture.layer_norm else nn.Identity()
        self.W_U = nn.Parameter(torch.empty(d_model, d_output))
        self.b_U = nn.Parameter(torch.zeros(d_output))
        self.register_buffer("mask", mask_of(n_positions, architecture.causal), persistent=False)
        self.mask: Tensor
        if generator is not None:
            self.initialise(generator)

    @classmethod
    def for_task(cls, architecture: Architecture, task: Task, generator: torch.Generator | None = None) -> Transformer:
        """A transformer with the widths that a task needs."""
        model = cls(
            architecture,
            n_positions=task.n_positions,
            d_output=task.d_output,
            d_input=task.d_input,
            d_vocab=task.d_vocab,
            learned_positions=not task.inputs_carry_position,
            generator=generator,
        )
        if architecture.look_back and generator is not None:
            look_back(model.get_parameter("blocks.0.attn.W_QKV"), model.W_E, architecture.look_back, architecture, task)
        return model

    @property
    def layers(self) -> list[Block]:
        """The block of every layer, over all loops."""
        return [*self.blocks] * self.architecture.loops  # type: ignore[list-item]

    def unrolled(self) -> Transformer:
        return self if self.architecture.loops == 1 else self.looped(1, self.architecture.n_layers)

    def looped(self, loops: int, own_layers: int | None = None, n_positions: int | None = None) -> Transformer:
        """A new model with copies of the weights and another number of loops.

        Args:
            loops: how often the layers run, for example more often than in training.
            own_layers: number of layers with weights of their own; by default as in this model. If there are more, the
                layers of this model are repeated.
            n_positions: the length of its longest sequence; embeddings of further positions or distances are 0.

        Raises:
            BadInput: loops is below 1.
        """
        check_range("loops", loops, {"low": 1})
        shape = self.architecture
        own_layers = own_layers or shape.own_layers
        new = type(self)(
            shape.but(n_layers=own_layers * loops, loops=loops),
            n_positions=n_positions or len(self.mask),
            d_output=self.W_U.shape[1],
            d_input=len(self.W_E) if self.b_E is not None else None,
            d_vocab=len(self.W_E) if self.b_E is None else None,
            learned_positions=self.learned_positions,
        )
        weights = self.state_dict()
        for name, value in new.state_dict().items():  # the new model's own tensors, without gradients
            weight = weights[in_first_loop(name, shape.own_layers)]
            shared = tuple(slice(min(sizes)) for sizes in zip(weight.shape, value.shape, strict=True))
            value.zero_()
            value[shared] = weight[shared]
        return new.to(self.device).train(self.training)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the initial weights in the order of `named_parameters`; biases are 0, scales of LayerNorms 1.

        `gpt2`: N(0, 0.02²); weights that write to the residual stream are divided by √(2 n_layers) (Radford et al.,
        2019). `fan_in`: uniform in ±1/√(number of inputs), the default of PyTorch's linear layers; token embeddings
        count as d_model inputs. `early_layers`: the same, but weights of layer l that write to the residual stream are
        divided by l + 1 (after Zhang et al., 2019, who divide by √l). The first hop then forms in early layers, and
        later layers are free for the next. docs/fidelity.md compares the three.
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
        for block in self.blocks:
            self.architecture.rule.draw(block.get_submodule("attn").variant, generator)  # type: ignore[arg-type]

    def write_scale(self, name: str) -> float:
        """The factor on the initial values of a weight that writes to the residual stream; 1 for other weights."""
        if not name.endswith(("W_O", "W_out")):
            return 1.0
        layer = int(name.split(".")[1])
        scales = {"gpt2": (2 * self.architecture.n_layers) ** -0.5, "early_layers": 1 / (layer + 1)}
        return scales.get(self.architecture.init, 1.0)

    def fan_in(self, weight: str) -> int:
        """The number of inputs of a weight."""
        shape = self.architecture
        read = {"W_O": shape.n_heads * shape.head_width, "W_out": shape.mlp_width}
        return len(self.W_E) if weight == "W_E" and self.b_E is not None else read.get(weight, shape.d_model)

    @property
    def activation_names(self) -> list[str]:
        """The names for `replace` and `cache`, in the order of the forward pass."""
        local = [n for n in BLOCK_NAMES if self.architecture.mlp or n not in ("hook_resid_mid", "hook_mlp_out")]
        per_block = [f"blocks.{layer}.{name}" for layer in range(self.architecture.n_layers) for name in local]
        embedding = ["hook_embed"] if self.W_pos is None else ["hook_embed", "hook_pos_embed"]
        return [*embedding, *per_block, *(["ln_final.hook_normalized"] if self.architecture.layer_norm else [])]

    def forward(
        self,
        inputs: Shaped[Tensor, "batch position ..."],
        *,
        replace: Replacements | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
        start_at_layer: int = 0,
        stop_at_layer: int | None = None,
    ) -> Float[Tensor, "batch position d_output"] | tuple[Float[Tensor, "batch position d_output"], Cache]:
        """Outputs at every position, or at the positions `at`.

        Args:
            inputs: features (float, batch position d_input) or tokens (int, batch position).
            replace: replacements of activations by name, made before anything reads them: a tensor that broadcasts to
                the activation, or a pure function of it. Patterns are batch head query key; q, k, v, z are batch
                position head d_head; the residual stream is batch position d_model.
            cache: True for all activations, or names: also return these, after replacement.
            at: the positions of the outputs; final norm and unembedding are computed only there.
            start_at_layer: start before this layer, with its residual stream as inputs, as in TransformerLens.
            stop_at_layer: stop before this layer, and return the residual stream there, at every position.

        Raises:
            BadInput: a name is not in `activation_names`, the sequence is longer than the model supports, or the pass
                starts at a later layer and its attention reads tokens.
        """
        tap = self.tap(replace, cache) if replace or cache is not False else None
        early = tap is None and reads_last_layer_in_part(self.blocks[-1], inputs.device)
        outputs = self.through(inputs, tap, at, start_at_layer, stop_at_layer, early)
        return outputs if tap is None or cache is False else (outputs, Cache(tap.kept))

    def through(
        self,
        inputs: Shaped[Tensor, "batch position ..."],
        tap: Tap | None,
        at: slice | None = None,
        start: int = 0,
        stop: int | None = None,
        sparing: bool = False,
    ) -> Float[Tensor, "batch position d_output"]:
        """The forward pass with a tap; `sparing` skips computations whose results are not used (`base_sparing`)."""
        resid, layers = inputs if start else self.embed(inputs, tap), range(self.architecture.n_layers)[start:stop]
        tokens = inputs if self.reads_tokens else None
        resid = self.run_blocks(layers, resid, tap, tokens, at if stop is None else None, sparing)
        return self.unembed(resid, tap) if stop is None else resid

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
        self, layers: range, resid: Tensor, tap: Tap | None, tokens: Tensor | None, at: slice | None, sparing: bool
    ) -> Float[Tensor, "batch position d_model"]:
        """The residual stream after some layers, at the positions `at`."""
        if layers.start and tokens is not None:
            raise BadInput(f"{self.architecture.attention} reads tokens; its model cannot begin at a later layer")
        for layer in layers:
            resid = self.run_block(layer, resid, tap, tokens, at if layer == layers[-1] else None, sparing)
        return resid if layers or at is None else resid[:, at]

    def run_block(
        self, layer: int, resid: Tensor, tap: Tap | None, tokens: Tensor | None, at: slice | None, sparing: bool
    ) -> Float[Tensor, "batch position d_model"]:
        """The residual stream after one layer, at the positions `at`."""
        block, mask = self.layers[layer], self.mask[: resid.shape[1], : resid.shape[1]]
        local = None if tap is None else tap.within(layer)
        if sparing and (local is not None or at is not None):
            resid = spared(block, resid, mask, local or Tap(), tokens, at)
        else:
            resid = block(resid, mask, local, tokens)
            resid = resid if at is None else resid[:, at]
        if tap is not None and local is not None:
            tap.kept.update(local.kept)
        return resid

    def unembed(
        self, resid: Float[Tensor, "batch position d_model"], tap: Tap | None = None
    ) -> Float[Tensor, "batch position d_output"]:
        resid = self.ln_final(resid, tap) if isinstance(self.ln_final, LayerNorm) else resid
        return F.linear(resid, self.W_U.T, self.b_U)

    def read_off(
        self, stream: Float[Tensor, "batch position d_model"], at: slice | None
    ) -> Float[Tensor, "batch position d_output"]:
        return self.unembed(stream if at is None else stream[:, at])

    def kernels(self, dtype: str) -> Mapping[str, str]:
        ours = KERNELS if dtype == "bfloat16" and self.device.type == "cpu" else {}
        ours = ours | LOOKING_BACK if ours and not self.architecture.rule.writes_locally else ours
        return {name: ours[name] for name in ours if self.architecture.mlp or not name.startswith("gelu")}

    def compile_parts(self) -> None:
        """Compile every block; they share one compiled program."""
        for block in self.blocks:
            block.compile()


def in_first_loop(name: str, own_layers: int) -> str:
    """A weight's name in the first loop: `blocks.1.attn.W_O` for `blocks.5.attn.W_O` if `own_layers` is 2."""
    return re.sub(r"(?<=^blocks\.)\d+", lambda layer: str(int(layer[0]) % own_layers), name)

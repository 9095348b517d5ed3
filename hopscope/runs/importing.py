"""Import from TransformerLens: its names and shapes of weights to ours, and back.

TransformerLens' `HookedTransformer` (Nanda & Bloom, 2022) computes what our transformer computes and uses the same
names, except that queries, keys and values are one parameter here. What its state dict does not say is assumed: softmax
attention scaled by 1/√d_head, the activation `gelu_new`, LayerNorms with ε = 1e-5, and learnt positions or none.
bench/parity.py compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from hopscope.core.memory import memory_free
from hopscope.core.settings import BadInput
from hopscope.core.storage import clear_errors, read_file
from hopscope.core.wording import shape as shown
from hopscope.models.transformer import Architecture, Transformer
from hopscope.runs.demand import gib
from hopscope.tasks.base import Task

Tensors = Mapping[str, Tensor]

#: Suffixes of pickles, which run the code they hold when they are read.
PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt")
CONVERSION = (
    "safetensors.torch.save_file({k: v.contiguous() for k, v in torch.load(old, weights_only=True).items()}, new)"
)

ACTIVATION = "gelu_new"  # of our MLPs, as transformers calls GELU in its tanh form
CLOSE = 1e-4  # the largest difference between logits that rounding explains, as a share of the largest logit

#: TransformerLens' constants, which are in its state dict but are not weights.
CONSTANTS = re.compile(r"(.*\.)?(mask|IGNORE|hook_.*)")
RENAMED = {
    "W_E": "embed.W_E",
    "b_E": "embed.b_E",
    "W_pos": "pos_embed.W_pos",
    "W_U": "unembed.W_U",
    "b_U": "unembed.b_U",
}
NORMS = re.compile(r"blocks\.\d+\.ln[12]\.[wb]|ln_final\.[wb]")


@dataclass(frozen=True)
class Imported:
    """A model made from another library's weights.

    Attributes:
        model: the model, with float32 weights.
        unread: tensors of the file that a model of this task does not use.
    """

    model: Transformer
    unread: tuple[str, ...]


def their_names(name: str) -> tuple[str, ...]:
    """TransformerLens' names for one of our parameters: three for `W_QKV` and `b_QKV`, else one."""
    prefix, dot, last = name.rpartition(".")
    if last in ("W_QKV", "b_QKV"):
        return tuple(f"{prefix}{dot}{last[0]}_{part}" for part in "QKV")
    return (RENAMED.get(name, name),)


def to_transformer_lens(model: Transformer) -> dict[str, Tensor]:
    """The weights under TransformerLens' names, each a copy, for `load_state_dict` or safetensors.

    A model of vectors has `embed.W_E` (d_input, d_model) and `embed.b_E` (d_model), which no HookedTransformer has.
    There the caller projects the inputs and runs the model with `start_at_layer=0` (as bench/parity.py does).

    Raises:
        BadInput: TransformerLens lacks the attention variant.
    """
    if model.architecture.attention != "softmax":
        raise BadInput(f"TransformerLens has softmax attention alone; this model's is {model.architecture.attention}")
    weights: dict[str, Tensor] = {}
    for name, value in model.unrolled().state_dict().items():
        names = their_names(name)
        parts = value.unbind() if len(names) > 1 else (value,)
        weights |= {theirs: part.detach().clone() for theirs, part in zip(names, parts, strict=True)}
    return weights


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises BadInput for any other file; a pickle is not read."""
    if path.suffix.lower() in PICKLES:
        raise BadInput(f"{path} is a pickle, and hopscope never unpickles; if you trust it, convert it: {CONVERSION}")
    if not path.exists():
        raise BadInput(f"could not read {path}: there is no such file")
    check_size(path)
    try:
        return safetensors.torch.load(read_file(path))
    except safetensors.SafetensorError as error:
        raise BadInput(f"{path} is not a safetensors file: {error}") from error


def check_size(path: Path) -> None:
    """Raise BadInput for a file that is not a safetensors file or does not fit into memory, before it is read."""
    if not path.is_file():
        return
    size, free = path.stat().st_size, memory_free()
    with clear_errors(path), path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if not 0 < header <= size - 8:
        raise BadInput(f"{path} is not a safetensors file: its header does not fit into it")
    if free is not None and 2 * size > free:  # its bytes, and the tensors made of them
        raise BadInput(f"importing {path} takes at least {gib(2 * size)} of memory, and {gib(free)} are free")


def import_model(
    tensors: Tensors,
    task: Task,
    *,
    causal: bool = True,
    layer_norm: bool | None = None,
    positions: str | None = None,
) -> Imported:
    """The model with this TransformerLens state dict, for a task.

    Args:
        tensors: by TransformerLens' names; the embeddings may have ours (`W_E` …). A missing `embed.b_E` is 0.
        task: the model must have its widths. Position embeddings beyond its sequences' length are dropped.
        causal: whether a position attends only to itself and earlier ones; a state dict does not say.
        layer_norm: whether the model normalises. Needed only if the state dict holds no LayerNorm: then either there is
            none, or scales and shifts were folded into the weights that follow.
        positions: `learned` if the model adds its position embedding to inputs that already carry positions, `input` if
            it does not. Needed only if the task's inputs do and the embedding is not 0.

    Raises:
        BadInput: a tensor is missing, unknown, of a wrong shape, or not finite.
    """
    weights = {name: value for name, value in with_their_names(tensors).items() if not CONSTANTS.fullmatch(name)}
    shape = find_architecture(weights, causal, layer_norm)
    architecture = shape.but(positions=find_positions(weights, task, positions))
    with torch.device("meta"):
        empty = Transformer.for_task(architecture, task)
    wanted = {name: tuple(value.shape) for name, value in to_transformer_lens(empty).items()}
    unread = tuple(name for name in ("pos_embed.W_pos",) if name in weights and name not in wanted)
    weights = {name: value for name, value in weights.items() if name not in unread}
    weights = filled(weights, wanted, folded=architecture.layer_norm and not any(map(NORMS.fullmatch, weights)))
    weights = cut_positions(weights, task)
    check_tensors(weights, wanted, task)
    model = Transformer.for_task(architecture, task)
    model.load_state_dict({name: ours(name, weights) for name in model.state_dict()}, strict=True)
    return Imported(model.eval(), unread)


def check_activation(tensors: Tensors, stated: str | None) -> None:
    """Raise BadInput unless the MLPs' activation, which no tensor shows, is stated and is ours."""
    mlp = any(".mlp." in name for name in tensors)
    if mlp and stated is None:
        raise BadInput(
            f"the file holds an MLP and does not say its activation; say --activation {ACTIVATION} if that is it, or "
            "give --logits, by which it is seen"
        )
    if stated is not None and not mlp:
        raise BadInput(f"the file holds no MLP, whose activation would be {stated}; leave --activation out")
    if stated not in (None, ACTIVATION):
        raise BadInput(f"MLPs are computed with {ACTIVATION} here; a model with {stated} would compute something else")


@torch.no_grad()
def check_logits(model: Transformer, given: Tensors) -> float:
    """The largest difference between a model's logits and given ones, as a share of the largest given logit.

    Args:
        model: the imported model.
        given: `inputs`, as the task makes them, and `logits`, the original model's output for them.

    Raises:
        BadInput: they differ by more than rounding, or have wrong shapes.
    """
    if missing := {"inputs", "logits"} - given.keys():
        raise BadInput(f"a file of logits holds inputs and logits; this one lacks {' and '.join(sorted(missing))}")
    logits = given["logits"].float()
    try:
        output = model(given["inputs"]).float()
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        raise BadInput(
            f"the inputs beside the given logits do not fit this task: {str(error).splitlines()[0]}"
        ) from error
    if output.shape != logits.shape:
        raise BadInput(f"the given logits should have the shape {shown(output.shape)}; they have {shown(logits.shape)}")
    far = float((output - logits).abs().max() / logits.abs().max())
    if not far <= CLOSE:
        raise BadInput(
            f"the imported model computes other logits than those given, by {far:.2g} of their largest: its activation "
            f"is not {ACTIVATION}, or its mask, LayerNorms or positions are not as stated"
        )
    return far


def with_their_names(tensors: Tensors) -> dict[str, Tensor]:
    """Tensors with our names for embeddings under TransformerLens'. Raises BadInput if both are present."""
    for mine, theirs in RENAMED.items():
        if mine in tensors and theirs in tensors:
            raise BadInput(f"the file holds both {mine} and {theirs}, which are one; leave one of them out")
    return {RENAMED.get(name, name): value for name, value in tensors.items()}


def find_layer_norm(tensors: Tensors, stated: bool | None) -> bool:
    """Whether the model normalises, by its tensors or else as stated. Raises BadInput where they disagree."""
    norms = sorted(filter(NORMS.fullmatch, tensors))
    if norms and stated is False:
        raise BadInput(f"the file holds a LayerNorm, {norms[0]}; leave --no-layer-norm out")
    if not norms and stated is None:
        raise BadInput(
            "the file holds no LayerNorm; say --layer-norm if they were folded into the weights, or --no-layer-norm "
            "if the model has none"
        )
    return bool(norms) or bool(stated)


def find_architecture(tensors: Tensors, causal: bool, layer_norm: bool | None) -> Architecture:
    """The model's shape, from the shapes of the first layer's tensors and the number of layers. Raises BadInput."""
    layers = [int(match[1]) for name in tensors if (match := re.match(r"blocks\.([0-9]{1,9})\.", name))]
    if not layers:
        raise BadInput(
            "the file holds no blocks.0.attn.W_Q: it is not the state dict of a TransformerLens HookedTransformer; "
            f"it holds {some(tensors)}"
        )
    n_heads, d_model, d_head = shape_of(tensors, "blocks.0.attn.W_Q", "(heads, d_model, d_head)", 3)
    mlp = any(".mlp." in name for name in tensors)
    d_mlp = shape_of(tensors, "blocks.0.mlp.W_in", "(d_model, d_mlp)", 2)[1] if mlp else None
    return Architecture(
        n_layers=max(layers) + 1,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_mlp=d_mlp,
        causal=causal,
        layer_norm=find_layer_norm(tensors, layer_norm),
        mlp=mlp,
        init="early_layers",  # has no effect here; kept because identities depend on it
    )


def shape_of(tensors: Tensors, name: str, meaning: str, n_axes: int) -> tuple[int, ...]:
    if name not in tensors:
        raise BadInput(f"{name} is missing; it should be {meaning}")
    shape = tuple(tensors[name].shape)
    if len(shape) != n_axes:
        raise BadInput(f"{name} should be {meaning}; its shape is {shown(shape)}")
    return shape


def some(names: Mapping[str, object]) -> str:
    """The first four of many names, and how many more there are."""
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "") or "nothing"


def filled(tensors: Tensors, wanted: Mapping[str, tuple[int, ...]], folded: bool) -> dict[str, Tensor]:
    """Add what may be missing: an embedding bias of 0, and scales 1 and shifts 0 of folded LayerNorms."""
    optional = {"embed.b_E": 0.0}
    if folded:
        optional |= {name: float(name.endswith(".w")) for name in wanted if NORMS.fullmatch(name)}
    made = {n: torch.full(wanted[n], value) for n, value in optional.items() if n in wanted and n not in tensors}
    return {**tensors, **made}


def find_positions(tensors: Tensors, task: Task, given: str | None) -> str | None:
    """The position code: `learned` if the model uses the file's position embedding, else None. Raises BadInput.

    A HookedTransformer always has that embedding; one that is run on vectors uses it only if the caller adds it.
    """
    table = tensors.get("pos_embed.W_pos")
    if table is None or not task.inputs_carry_position:
        return None if task.inputs_carry_position else "learned"
    if given is None and bool(table.any()):
        raise BadInput(
            f"the file has an embedding of positions, pos_embed.W_pos, and inputs of {task.name()} carry positions: "
            "say whether the model adds it, by positions learned, or not, by positions input"
        )
    return given if given == "learned" else None


def cut_positions(tensors: Tensors, task: Task) -> dict[str, Tensor]:
    """Drop position embeddings beyond the length of the task's sequences. Raises BadInput if there are too few."""
    table = tensors.get("pos_embed.W_pos")
    if table is None or table.ndim != 2:
        return dict(tensors)
    if len(table) < task.n_positions:
        raise BadInput(
            f"pos_embed.W_pos has {len(table)} positions, but a sequence of {task.name()} has {task.n_positions}"
        )
    return {**tensors, "pos_embed.W_pos": table[: task.n_positions]}


def check_tensors(tensors: Tensors, wanted: Mapping[str, tuple[int, ...]], task: Task) -> None:
    """Raise BadInput for the first tensor that is missing, unknown, not finite, or of a wrong shape or type."""
    width = {"unembed.W_U": ("d_model", "d_output"), "embed.W_E": ("d_input" if task.d_input else "d_vocab", "d_model")}
    for name, shape in wanted.items():
        means = f" ({' × '.join(width[name])} of {task.name()})" if name in width else ""
        if name not in tensors:
            hint = "; RMSNorm is not supported" if NORMS.fullmatch(name) and name.endswith(".b") else ""
            raise BadInput(f"{name} is missing; its shape should be {shown(shape)}{means}{hint}")
        if tuple(tensors[name].shape) != shape:
            theirs = shown(tensors[name].shape)
            raise BadInput(f"{name} should have the shape {shown(shape)}{means}; it has {theirs}")
        if not tensors[name].is_floating_point():
            raise BadInput(f"{name} should hold floating-point numbers; it holds {tensors[name].dtype}")
        if not tensors[name].float().isfinite().all():
            raise BadInput(f"{name} should hold finite numbers; it holds NaN, infinity, or what float32 cannot hold")
    if unknown := sorted(set(tensors) - set(wanted)):
        raise BadInput(
            f"{unknown[0]} has no place in this architecture, so the model computes something else; leave it out only "
            "if nothing reads it"
        )


def ours(name: str, tensors: Tensors) -> Tensor:
    """One of our parameters, in float32, from TransformerLens' tensors."""
    parts = [tensors[theirs].float() for theirs in their_names(name)]
    return torch.stack(parts) if len(parts) > 1 else parts[0]

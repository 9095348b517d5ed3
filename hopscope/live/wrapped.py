"""Read and replace activations of any module that attends through PyTorch's functions, without patching it.

A `torch.overrides.TorchFunctionMode` sees every call of `softmax`, `scaled_dot_product_attention` and `matmul` during a
forward pass. A first pass finds which calls are attention, and in which layer: patterns of queries over keys that are
then multiplied with values. Later passes count calls. Grouped keys, rotary positions, windows, sinks and caps on scores
need no support here, because the module applies them before or after its softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopscope.core.settings import BadInput
from hopscope.core.wording import kind, one_line
from hopscope.live.calls import Call, Watching, attentions_in, calls_of, is_pattern, unseen
from hopscope.live.stream import Listing, Reading, Stream, located
from hopscope.models.base import Cache, Model, Replacements, Shape, Tap, at_rest

PATTERN, OUTPUT = "hook_pattern", "hook_z"
#: By how much logits may change when patterns are replaced by themselves, relative to the largest logit (ours).
SAME = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}
PROBE = (2, 7)  # rows and positions of the tokens for the first pass if no inputs are given


@dataclass(frozen=True)
class BorrowedShape(Shape):
    """The shape of a model that hopscope did not build, as far as it is known.

    Attributes:
        d_model: width of the stream; where only patterns are seen, 64 per head.
        normalised: whether rows of its patterns sum to 1; with a sink they do not.
    """

    n_layers: int = 0  # type: ignore[misc]
    n_heads: int = 0  # type: ignore[misc]
    d_model: int = 0  # type: ignore[misc]
    mlp: bool = True  # type: ignore[misc]
    causal: bool = True  # type: ignore[misc]
    normalised: bool = True  # type: ignore[misc]

    def build(self, task: Any, generator: torch.Generator | None = None) -> Model:
        """Raises BadInput: hopscope cannot build such a model."""
        raise BadInput("a model from elsewhere is built by its own code or library, not by hopscope")


# The model -------------------------------------------------------------------------------------------------------


class Wrapped(Model):
    """A module that attends by PyTorch's functions, under the common contract.

    Activations are `blocks.l.attn.hook_pattern` and, if queries, keys and values of single heads are accessible,
    `hook_q`, `hook_k`, `hook_v` and `hook_z`, (batch, position, head, d_head), after rotary positions and norms, and
    repeated for every head that shares them. Layers are numbered in the order in which they attend. If layers add to
    a common stream, there are also `blocks.l.hook_resid_pre`, `hook_attn_out`, `hook_resid_mid`, `hook_mlp_out` and
    `hook_resid_post`, (batch, position, d_model).

    Attributes:
        stream: the location of the stream; None if it was not found.
        unstreamed: the reason why it was not found, in words.

    Args:
        model: called with inputs alone; returns logits, a sequence that begins with them, or an object or mapping with
            `logits`.
        inputs: some rows for the first pass; by default tokens 0 and 1.

    Raises:
        BadInput: no attention was found, or replacing patterns does not have the effect that it must have.
    """

    def __init__(self, model: nn.Module, inputs: Tensor | None = None):
        super().__init__()
        self.inner = model
        some = self.probe(inputs)
        calls, outputs = self.first_pass(some)
        self.layers = attentions_in(calls, *some.shape[:2])
        if not self.layers:
            raise BadInput(unseen(model, calls))
        self.n_calls, self.layer_at = len(calls), self.numbered()
        self.architecture: BorrowedShape = BorrowedShape(n_layers=len(self.layers), n_heads=0)
        self.stream: Stream | None = None
        self.unstreamed = ""
        self.architecture = self.verified_shape(some, logits_of(outputs, some.shape[1]))
        self.find_stream(some, logits_of(outputs, some.shape[1]))

    def probe(self, inputs: Tensor | None) -> Tensor:
        """The first rows, or tokens that any vocabulary has."""
        rows, positions = PROBE
        tokens = torch.arange(rows * positions).view(rows, positions) % 2
        return (tokens if inputs is None else inputs[:rows]).to(self.device)

    def first_pass(self, some: Tensor) -> tuple[list[Call], Any]:
        """The watched calls and the outputs of an unchanged pass. Raises BadInput if it fails."""
        try:
            with at_rest(self.inner):
                return calls_of(self.inner, some)
        except Exception as error:  # the caller's module may raise anything
            words = f"{type(error).__name__}: {one_line(error)}"
            raise BadInput(f"the model cannot read inputs of shape {tuple(some.shape)}: {words}") from None

    def numbered(self) -> dict[int, tuple[int, str]]:
        """The layer and the part (scores, values or pattern) of each call of attention, by the call's number."""
        found: dict[int, tuple[int, str]] = {}
        for layer, one in enumerate(self.layers):
            calls = {"scores": one.scores, "values": one.values, "pattern": one.pattern}
            found |= {number: (layer, part) for part, number in calls.items() if number is not None}
        return found

    @property
    def reads_heads(self) -> bool:
        """Whether queries, keys and values are accessible in every layer."""
        return all(one.scores is not None and one.values is not None for one in self.layers)

    @property
    def activation_names(self) -> list[str]:
        heads = ["hook_q", "hook_k", PATTERN, "hook_v", OUTPUT] if self.reads_heads else [PATTERN]
        parts = [f"attn.{part}" for part in heads]
        streams = self.stream.names if self.stream else [[] for _ in self.layers]
        return [f"blocks.{layer}.{part}" for layer, more in enumerate(streams) for part in (*parts, *more)]

    def forward(
        self,
        inputs: Tensor,
        *,
        replace: Replacements | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
    ) -> Any:
        tap, rows, positions = self.tap(replace, cache), len(inputs), inputs.shape[1]
        touched = any(".hook_" in name and ".attn." not in name for name in {*tap.replace, *tap.keep})
        watching = Watching(Pass(self, tap, rows, positions))
        attended = partial(self.attended, watching)
        reading = Reading(self.stream, tap, rows, positions, attended) if self.stream and touched else None
        with reading or nullcontext(), watching:
            outputs = self.inner(inputs)
        if watching.count != self.n_calls:
            raise BadInput("the model makes other attention calls than in its first pass; its layers are not known now")
        if reading and self.stream and reading.n_sums != self.stream.n_sums:
            raise BadInput("the model takes other sums than in its first pass; its stream is not known now")
        found = read_at(logits_of(outputs, inputs.shape[1]), at, inputs.shape[1])
        return found if cache is False else (found, Cache(tap.kept))

    @torch.no_grad()
    def verified_shape(self, some: Tensor, outputs: Tensor) -> BorrowedShape:
        """The model's shape, after checks that replacing patterns works.

        Patterns replaced by themselves must give the same outputs, and patterns of 0 other outputs. The patterns and
        the outputs of the first row must be the same in a batch of copies of it.
        """
        names = [f"blocks.{layer}.attn.{PATTERN}" for layer in range(len(self.layers))]
        if not bool(outputs.isfinite().all()):
            raise BadInput(f"a {type(self.inner).__name__} puts out NaN or infinity for the first rows of inputs")
        with at_rest(self.inner):
            _, patterns = self(some, cache=names)
            off = self.distance(some, patterns, outputs)
            copied, beside_copies = self(some[[0] * len(some)], cache=names)
            moved = self.distance(some, {name: torch.zeros_like(one) for name, one in patterns.items()}, outputs)
        bound = SAME.get(outputs.dtype, 1e-5)
        if not off <= bound:
            raise BadInput(
                f"replacing the attention of a {type(self.inner).__name__} by itself changes its outputs by {off:.1e} "
                f"of the largest, above {bound:g}: not all of its attention was seen"
            )
        if moved == 0:
            raise BadInput(
                f"setting every attention pattern of a {type(self.inner).__name__} to 0 changes no output: its heads "
                "do nothing, or what was seen is not its attention"
            )
        first = patterns[names[0]]
        apart = [(copied - outputs)[0].float().abs().max() / outputs[0].float().abs().max().clamp(min=1e-30)]
        apart += [(beside_copies[name] - one)[0].abs().max() for name, one in patterns.items()]
        if max(apart) > bound:
            words = "what a row attends to or puts out depends on the other rows of the batch"
            raise BadInput(f"{words}, or patterns are not (row, head, query, key)")
        if any(one.shape != first.shape for one in patterns.values()):
            raise BadInput("the layers of the model differ in their number of heads, which is not supported")
        causal = all(not bool(one.triu(1).any()) for one in patterns.values())
        whole = all(bool(((one.sum(-1).float() - 1).abs() <= 1e-2).all()) for one in patterns.values())
        heads = first.shape[1]
        return BorrowedShape(len(names), heads, self.width(some, heads), causal=causal, normalised=whole)

    @torch.no_grad()
    def find_stream(self, some: Tensor, outputs: Tensor) -> None:
        """Find the stream, and check it.

        Replacing streams by themselves must not change outputs. The last stream of other rows must give their outputs.
        """
        patterns = [f"blocks.{layer}.attn.{PATTERN}" for layer in range(len(self.layers))]
        try:
            with at_rest(self.inner):
                self.stream = located(self.sums(some, {}), [self.sums(some, {n: torch.zeros_like}) for n in patterns])
                names = [name for name in self.activation_names if ".attn." not in name]
                _, found = self(some, cache=names)
                off = self.distance(some, found, outputs)
                turned = self.distance(some.flip(0), {names[-1]: found[names[-1]]}, outputs)
        except BadInput as error:
            self.stream, self.unstreamed = None, str(error)
            return
        bound = SAME.get(outputs.dtype, 1e-5)
        if not off <= bound or turned > bound:
            self.stream, self.unstreamed = None, "the last sum that was seen does not determine the outputs"
            return
        self.architecture = replace(self.architecture, mlp=any(one.mlp for one in self.stream.layers))

    def sums(self, some: Tensor, replace: Replacements) -> Listing:
        """The additions to the stream in one pass of the wrapped model under replacements."""
        rows, positions = len(some), some.shape[1]
        watching = Watching(Pass(self, self.tap(replace, False), rows, positions))
        listing = Listing(rows, positions, partial(self.attended, watching))
        with listing, watching:
            self.inner(some)
        return listing

    def attended(self, watching: Watching) -> int:
        """The number of layers that have attended so far in a pass."""
        ends = (one.pattern if one.values is None else one.values for one in self.layers)
        return sum(end < watching.count for end in ends)

    def distance(self, some: Tensor, patterns: Mapping[str, Tensor], outputs: Tensor) -> float:
        """The largest change of outputs when activations are replaced, relative to the largest output."""
        scale = float(outputs.float().abs().max().clamp(min=1e-30))
        return float((self(some, replace=patterns) - outputs).float().abs().max()) / scale

    def width(self, some: Tensor, heads: int) -> int:
        """The width of a layer's heads together; 64 per head if they are not accessible."""
        if not self.reads_heads:
            return 64 * heads
        name = f"blocks.0.attn.{OUTPUT}"
        return heads * int(self(some, cache=[name])[1][name].shape[-1])


class Pass:
    """Makes the watched calls of one pass, reading and replacing the activations of attention.

    Args:
        model: the wrapped model.
        tap: reads and replaces activations by name.
        rows: number of rows of inputs.
        positions: number of positions.
    """

    def __init__(self, model: Wrapped, tap: Tap, rows: int, positions: int):
        self.model, self.tap, self.rows, self.positions = model, tap, rows, positions

    def __call__(self, number: int, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if number not in self.model.layer_at:
            return func(*args, **kwargs)
        layer, part = self.model.layer_at[number]
        if name == "scaled_dot_product_attention":
            return self.attended(layer, *args, **kwargs)
        if part == "pattern":
            return self.pattern(layer, func(*args, **kwargs))
        if name == "einsum" or not self.model.reads_heads:
            return func(*args, **kwargs)
        left, right = args
        if part == "scores":
            left, right = self.heads(layer, "hook_q", left), self.heads(layer, "hook_k", right.mT).mT
            return func(left, right, **kwargs)
        return self.heads(layer, OUTPUT, func(left, self.heads(layer, "hook_v", right), **kwargs))

    def pattern(self, layer: int, actual: Tensor) -> Tensor:
        """A pattern, read and replaced; the entry of a sink, if there is one, is kept."""
        if not is_pattern(actual, self.rows, self.positions):
            raise BadInput("the model makes other attention calls than in its first pass; its layers are not known now")
        keys, sink = actual[..., : self.positions], actual[..., self.positions :]
        pattern = self.tap(f"blocks.{layer}.attn.{PATTERN}", keys.reshape(self.rows, -1, *keys.shape[-2:]))
        pattern = pattern.to(actual.dtype).reshape(keys.shape)
        return torch.cat([pattern, sink], -1) if sink.shape[-1] else pattern

    def heads(self, layer: int, part: str, actual: Tensor) -> Tensor:
        """Queries, keys, values or outputs of heads, (batch head position d_head), read and replaced."""
        by_position = actual.reshape(self.rows, -1, *actual.shape[-2:]).transpose(1, 2)
        return self.tap(f"blocks.{layer}.attn.{part}", by_position).transpose(1, 2).reshape(actual.shape)

    def attended(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """`scaled_dot_product_attention` by its definition; half-precision inputs are computed in float32."""
        if enable_gqa:
            key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
        dtype = query.dtype
        query, key, value = (
            self.heads(layer, name, one.float() if one.dtype in (torch.float16, torch.bfloat16) else one)
            for name, one in (("hook_q", query), ("hook_k", key), ("hook_v", value))
        )
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))
        if attn_mask is not None:
            masks = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, float("-inf")) if masks else scores + attn_mask.to(scores.dtype)
        pattern = self.pattern(layer, scores.softmax(-1).nan_to_num())
        return self.heads(layer, OUTPUT, F.dropout(pattern, dropout_p, dropout_p > 0) @ value).to(dtype)


# Outputs ---------------------------------------------------------------------------------------------------------


def logits_of(outputs: Any, positions: int) -> Tensor:
    """The logits in a model's outputs, (batch, position, output). Raises BadInput if there are none."""
    found = getattr(outputs, "logits", outputs)
    found = found["logits"] if isinstance(found, Mapping) and "logits" in found else found
    found = found[0] if isinstance(found, tuple | list) and found else found
    if isinstance(found, Tensor) and found.ndim == 2:
        found = found[:, None]
    if not isinstance(found, Tensor) or found.ndim != 3 or found.shape[1] not in (1, positions):
        wanted = "logits (row, position, output), alone, first or as `logits`"
        raise BadInput(f"the model must return {wanted}; got {kind(found)}")
    return found


def read_at(outputs: Tensor, at: slice | None, positions: int) -> Tensor:
    """Outputs at some positions. A single output per row belongs to the last; BadInput is raised for others."""
    if at is None or outputs.shape[1] == positions:
        return outputs if at is None else outputs[:, at]
    if list(range(positions)[at]) != [positions - 1]:
        raise BadInput("the model has one output per row, which is taken to be at the last position; leave `at` at -1")
    return outputs

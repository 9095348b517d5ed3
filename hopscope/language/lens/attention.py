"""Read and edit attention inside a Hugging Face model; the only file that depends on how transformers calls attention.

A `Lens` makes a model use our attention function, registered with transformers' AttentionInterface. It computes the
same as `eager`, and passes every intermediate result to an `Edit`, which may read or replace it. It supports models
built like Llama: pre-norm layers with `q_proj`, `k_proj`, `v_proj` and `o_proj`, also with grouped key and value heads
or sliding windows. Others are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.language.checkpoints import Opened

NAME = "hopscope"
CLOSE = 1e-3  # tolerance of logits under our attention, and of what a layer adds to the stream, as a share of it
LIKE_LLAMA = "heads can be studied in models built like Llama"
ROUNDING = 1e-5  # rounding errors of a float32 stream, as a share of its largest number


class Edit:
    """An intervention in every attention layer; the base class changes nothing. Keys and values are per query head."""

    #: The first layer in which it changes anything.
    first: int = 0

    def inputs(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values with position codes applied; each of shape (batch, head, position, d_head)."""
        return q, k, v

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        """Attention weights after the softmax; shape (batch, head, query, key)."""
        return pattern

    def output(self, layer: int, z: Tensor) -> Tensor:
        """The heads' results before the output projection; shape (batch, position, head, d_head)."""
        return z


def attend(
    module: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scaling: float,
    hopscope_edit: Edit | None = None,
    **more: Any,
) -> tuple[Tensor, Tensor]:
    """Softmax attention with transformers' signature, each step passed through an edit.

    Raises BadInput for attention with capped scores or sinks.
    """
    if more.get("softcap") is not None or more.get("s_aux") is not None:
        raise BadInput("attention with capped scores or sinks is not plain softmax; choose a model built like Llama")
    edit, layer = hopscope_edit or Edit(), module.layer_idx
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    q, k, v = edit.inputs(layer, q, k, v)
    scores = q @ k.transpose(2, 3) * scaling
    if mask is not None:
        scores = scores + mask
    pattern = edit.pattern(layer, scores.softmax(-1, dtype=torch.float32).to(q.dtype))
    z = edit.output(layer, (pattern @ v).transpose(1, 2))
    return z.contiguous(), pattern


@contextlib.contextmanager
def attended_by_us(model: Any) -> Iterator[None]:
    """Registers our attention with transformers; after an error the registry and the model are restored."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    ours = ((AttentionInterface, attend), (AttentionMaskInterface, eager_mask))
    own, new = model.config._attn_implementation, [known for known, _ in ours if NAME not in known._global_mapping]
    for known, function in ours:
        known.register(NAME, function)
    try:
        yield
    except BaseException:
        if model.config._attn_implementation != own:
            model.set_attn_implementation(own)
        for known in new:  # `register` has no inverse; masks are looked up in the mapping that all instances share
            del known._global_mapping[NAME]
        raise


class Lens:
    """A model whose attention can be read and edited.

    Attributes:
        n_layers: number of layers.
        n_heads: query heads per layer; several may share a key and value head.
        norms_behind: whether the outputs of attention and MLP are normalised before they are added to the stream, as in
            Gemma. A layer's attention output is then not the sum of contributions of single heads.

    Raises:
        BadInput: the model is not in float32, or not built like Llama.
    """

    def __init__(self, opened: Opened):
        if opened.model.dtype != torch.float32:
            raise BadInput(f"heads are studied in float32, for differences are small; got {opened.model.dtype}")
        self.name, self.model, self.tokenizer = opened.name, opened.model, opened.tokenizer
        self.check_build()
        self.n_layers = len(self.layers)
        self.norms_behind = hasattr(self.layers[0], "pre_feedforward_layernorm")
        self.n_heads = int(self.model.config.num_attention_heads)
        ids = torch.arange(8)[None] % int(self.model.config.vocab_size)
        with torch.no_grad(), attended_by_us(self.model):
            self.check_attention(ids)
            self.check_writes(ids)

    def check_attention(self, ids: Tensor) -> None:
        """Raise BadInput if the model's logits differ between our attention and its own."""
        before, seen = self.model(ids).logits, Seen()
        try:
            self.model.set_attn_implementation(NAME)
            after = self.model(ids, hopscope_edit=seen).logits
        except (AttributeError, TypeError, ValueError, RuntimeError) as error:
            raise BadInput(f"the attention of {self.name} cannot be replaced ({error}); {LIKE_LLAMA}") from error
        if not bool(before.isfinite().all()):
            raise BadInput(f"{self.name} computes logits that are not finite; its weights are damaged")
        if len(seen.patterns) != self.n_layers or float((before - after).abs().max()) > CLOSE:
            raise BadInput(f"{self.name} does not compute plain softmax attention; {LIKE_LLAMA}")

    def check_writes(self, ids: Tensor) -> None:
        """Raise BadInput unless each layer adds the outputs of `written` and `mlp` to the residual stream.

        Some models transform them first: Granite scales them, BitNet and GLM-4 normalise them. The contribution of a
        head would then be wrong.
        """
        after: list[Tensor] = []
        keep = lambda _, __, out: after.append(out[0] if isinstance(out, tuple) else out)  # noqa: E731
        seen = Seen()
        with contextlib.ExitStack() as hooks:
            for layer in self.layers:
                hooks.enter_context(layer.register_forward_hook(keep))
            before, _ = self.streams(ids, seen)
        for layer, (stream, z, then) in enumerate(zip(before, seen.outputs, after, strict=True)):
            try:
                middle = stream + self.written(layer, z)
                off = (middle + self.mlp(layer, middle) - then).abs().max()
            except (AttributeError, TypeError, RuntimeError) as error:
                raise BadInput(
                    f"layer {layer} of {self.name} is not built like Llama's, whose heads can be studied: {error}"
                ) from error
            added = (then - stream).abs().max()
            if not off <= CLOSE * added + ROUNDING * then.abs().max():
                raise BadInput(
                    f"layer {layer} of {self.name} adds something else to its stream than the outputs of its attention "
                    f"and its MLP ({float(off):.3g} of {float(added):.3g}); {LIKE_LLAMA}"
                )

    def check_build(self) -> None:
        """Raise BadInput if a layer lacks one of the projections or norms that Llama's layers have."""
        parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "input_layernorm")
        layers = getattr(getattr(self.model, "model", None), "layers", ())
        for part in parts:
            try:
                for layer in layers:
                    layer.get_submodule(part)
            except AttributeError:
                layers = ()
        if not len(layers):
            raise BadInput(f"{self.name} has no layers with {', '.join(parts)}; {LIKE_LLAMA}")

    @property
    def layers(self) -> Any:
        """The model's layers."""
        return self.model.model.layers

    @property
    def heads(self) -> list[tuple[int, int]]:
        """(layer, head) of every head."""
        return [(layer, head) for layer in range(self.n_layers) for head in range(self.n_heads)]

    def window(self, layer: int) -> int | None:
        """The attention window of a layer in tokens, the query's own included; None if it is not limited."""
        return getattr(self.layers[layer].self_attn, "sliding_window", None)

    def position_codes(self, layer: int, stream: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of rotary positions (Su et al., 2021); each of shape (batch, position, d_head).

        Layers with and without an attention window may use different angles.
        """
        kinds = getattr(self.model.config, "layer_types", None)
        if hasattr(self.model.model.rotary_emb, "layer_types") and kinds:
            return self.model.model.rotary_emb(stream, positions, kinds[layer])
        return self.model.model.rotary_emb(stream, positions)

    def embed(self, ids: Tensor) -> Tensor:
        """The residual stream before the first layer."""
        return self.model.get_input_embeddings()(ids)

    def run(self, residual: Tensor, edit: Edit | None = None, start: int = 0, all_positions: bool = False) -> Tensor:
        """The logits at the last position or at all positions, from the residual stream before layer `start`.

        Args:
            residual: batch position d_model.
            edit: applies to the layers from `start`.
            start: layers before it are skipped.
            all_positions: return batch position token instead of batch token.
        """
        with passed_over(self.layers, start):
            logits = self.model(
                inputs_embeds=residual, use_cache=False, hopscope_edit=edit, logits_to_keep=0 if all_positions else 1
            ).logits
        return logits if all_positions else logits[:, -1]

    def streams(self, ids: Tensor, edit: Edit | None = None) -> tuple[list[Tensor], Tensor]:
        """The residual stream before each layer, and the logits at the last position."""
        streams: list[Tensor] = []
        with contextlib.ExitStack() as hooks:
            for layer in self.layers:
                hooks.enter_context(layer.register_forward_pre_hook(lambda _, args: streams.append(args[0])))
            logits = self.run(self.embed(ids), edit)
        return streams, logits

    def written(self, layer: int, z: Tensor) -> Tensor:
        """What a layer's attention adds to the residual stream if the results of its heads are `z`."""
        block = self.layers[layer]
        out: Tensor = block.self_attn.o_proj(z.flatten(2))
        # In Llama the norm of this name comes before the MLP.
        return block.post_attention_layernorm(out) if self.norms_behind else out

    def factors(self, norm: Any, stream: Tensor) -> Tensor:
        """The factors of an RMS norm on each number of a stream. With fixed factors the norm is linear.

        Llama's norms multiply by their weight, Gemma's by their weight plus 1; a stream of ones reveals either.
        """
        eps: float = getattr(norm, "variance_epsilon", None) or norm.eps
        gain = norm(torch.ones_like(stream[..., :1, :])) * (1 + eps) ** 0.5
        return gain * (stream.square().mean(-1, keepdim=True) + eps).rsqrt()

    def mlp(self, layer: int, stream: Tensor) -> Tensor:
        """What a layer's MLP adds to the given residual stream."""
        block = self.layers[layer]
        if self.norms_behind:
            return block.post_feedforward_layernorm(block.mlp(block.pre_feedforward_layernorm(stream)))
        return block.mlp(block.post_attention_layernorm(stream))

    def inputs(self, layer: int, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values that one layer computes from a residual stream, as in `Edit.inputs`."""
        caught: list[tuple[Tensor, Tensor, Tensor]] = []

        class Catch(Edit):
            def inputs(self, at: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                caught.append((q, k, v))
                raise Caught

        with passed_over(self.layers, layer), contextlib.suppress(Caught):
            self.model(inputs_embeds=residual, use_cache=False, hopscope_edit=Catch())
        return caught[0]


class Caught(Exception):
    """Ends a forward pass once the wanted values have been recorded."""


class Seen(Edit):
    """Keeps the pattern and the output of every layer."""

    def __init__(self) -> None:
        self.patterns: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        self.patterns.append(pattern)
        return pattern

    def output(self, layer: int, z: Tensor) -> Tensor:
        self.outputs.append(z)
        return z


@contextlib.contextmanager
def passed_over(layers: Any, start: int) -> Iterator[None]:
    """Skip the layers before `start`: they return their input. May be nested."""
    with contextlib.ExitStack() as stack:
        for layer in layers[:start]:
            stack.enter_context(patch.object(layer, "forward", lambda hidden_states, *_, **__: hidden_states))
        yield

"""Adapters that give models from elsewhere the contract of the circuit search. The models are not changed.

Most modules are wrapped (`hopscope.live.wrapped`). A `HookedTransformer` (TransformerLens; Nanda and Bloom, 2022) has
the activation names that are used here and can start at any layer, so it is run with temporary hooks, which saves
passes. TransformerLens itself is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from hopscope.core.settings import BadInput
from hopscope.live.wrapped import BorrowedShape, Wrapped
from hopscope.models.base import Cache, Model, Replacement, Replacements, Shape

HALVES = (torch.float16, torch.bfloat16)


class Borrowed(Model):
    """A model under the common contract. Replacements are converted to the dtype of the activation.

    Args:
        model: has the `architecture`, `activation_names` and `forward` of `hopscope.models.base.Model`.

    Raises:
        BadInput: it has no heads whose attention patterns can be replaced.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.architecture = self.shape_of(model)
        self.inner = model
        shape = self.architecture
        patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in range(shape.n_layers)]
        if not shape.n_layers or not shape.n_heads or not set(patterns) <= set(self.activation_names):
            name = type(model).__name__
            raise BadInput(f"a {name} offers no attention patterns (blocks.0.attn.hook_pattern …), which circuits need")
        self.starts_at_layers = bool(getattr(model, "starts_at_layers", False))

    def shape_of(self, model: Any) -> Shape:
        """The shape of a model. Raises BadInput."""
        shape = model.architecture
        if not isinstance(shape, Shape):
            raise BadInput(f"a model's architecture must be a hopscope.models.base.Shape; got a {type(shape).__name__}")
        return shape

    def __repr__(self) -> str:
        names = [name for name in self.activation_names if name.startswith("blocks.0.")]
        kind = type(getattr(self.inner, "inner", self.inner)).__name__
        return f"{kind}: {self.architecture}; {', '.join(names)}"

    @torch.no_grad()
    def check_cache(self, inputs: Tensor) -> None:
        """Raise BadInput unless `cache=` returns the patterns of these rows, (row, head, query, key)."""
        shape = self.architecture
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(shape.n_layers)]
        found = self(inputs, cache=names)
        if not (isinstance(found, tuple) and len(found) == 2 and {*names} <= {*found[1]}):
            held = f"every name given, such as {names[0]}"
            raise BadInput(f"forward(cache=…) must return (outputs, cache), and the cache must hold {held}")
        wanted = (len(inputs), shape.n_heads, inputs.shape[1], inputs.shape[1])
        for name in names:
            if (got := tuple(found[1][name].shape)) != wanted:
                raise BadInput(f"{name} must be (row, head, query, key), {wanted}; got {got}")

    @property
    def activation_names(self) -> list[str]:
        return list(self.inner.activation_names)  # type: ignore[arg-type]

    def forward(
        self,
        inputs: Tensor,
        *,
        replace: Replacements | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
        **late: int,
    ) -> Any:
        replace = {name: fitted(new) for name, new in (replace or {}).items()}
        found = self.run(inputs, replace, cache, at, **late)
        if "stop_at_layer" in late:  # a stream, which is given back to the model in its own dtype
            return found
        return (upcast(found[0]), *found[1:]) if isinstance(found, tuple) else upcast(found)

    def run(self, inputs: Tensor, replace: Replacements, cache: Any, at: slice | None, **late: int) -> Any:
        """A forward pass of the inner model."""
        return self.inner(inputs, replace=replace, cache=cache, at=at, **late)


class Hooked(Borrowed):
    """A HookedTransformer, which can start at any layer. Hooks are removed after each pass; the caller's are kept."""

    def __init__(self, model: nn.Module):
        super().__init__(model)
        self.starts_at_layers = True

    def shape_of(self, model: Any) -> BorrowedShape:
        c = model.cfg
        causal = getattr(c, "attention_dir", "causal") == "causal"
        return BorrowedShape(c.n_layers, c.n_heads, c.d_model, not getattr(c, "attn_only", False), causal)

    @property
    def activation_names(self) -> list[str]:
        return list(self.inner.hook_dict)  # type: ignore[arg-type]

    def run(self, inputs: Tensor, replace: Replacements, cache: Any, at: slice | None, **late: int) -> Any:
        tap = self.tap(replace, cache)
        # `n=n` keeps the name that was given: TransformerLens 4 passes another name of the same hook point.
        hooks = [(n, lambda actual, hook, n=n: tap(n, actual)) for n in {*tap.replace, *tap.keep}]
        outputs = self.inner.run_with_hooks(  # type: ignore[operator]
            inputs, return_type="logits", fwd_hooks=hooks, **late
        )
        outputs = outputs if at is None else outputs[:, at]
        return outputs if cache is False else (outputs, Cache(tap.kept))


def fitted(new: Replacement) -> Replacement:
    """A replacement whose result has the dtype of the activation."""
    return (lambda actual: new(actual).to(actual.dtype)) if callable(new) else new


def upcast(outputs: Tensor) -> Tensor:
    """Outputs in at least single precision, so that losses have it, too."""
    return outputs.float() if isinstance(outputs, Tensor) and outputs.dtype in HALVES else outputs


@torch.no_grad()
def starts_late(model: Any) -> bool:
    """Whether TransformerLens can start a model at a given layer, with patterns of all heads.

    It cannot for shared keys, windows and left padding, and neither can the bridge of version 3. Such a model is
    wrapped as any other module, and is only slower to search.
    """
    with suppress(Exception):  # versions of the library raise different errors
        c, like = model.cfg, next(model.parameters())
        shared = getattr(c, "n_key_value_heads", None) not in (None, c.n_heads) or getattr(c, "use_local_attn", False)
        padded = getattr(getattr(model, "tokenizer", None), "padding_side", "right") == "left"  # masked by tokens
        stream = torch.zeros(1, 1, c.d_model, dtype=like.dtype, device=like.device)
        model.run_with_hooks(stream, start_at_layer=c.n_layers - 1, stop_at_layer=c.n_layers)
        return not (shared or padded or getattr(c, "positional_embedding_type", "") == "shortformer")
    return False


def wrap(model: Any, inputs: Tensor | None = None) -> Borrowed:
    """Give any transformer one contract: activations by name, read (`cache=`) and replaced (`replace=`) in a pass.

    >>> wrapped = hopscope.wrap(model)  # doctest: +SKIP
    >>> logits, cache = wrapped(tokens, cache=True)  # doctest: +SKIP
    >>> cache["pattern", 0].shape  # (row, head, query, key)  # doctest: +SKIP

    Args:
        model: as for `hopscope.find_circuit`.
        inputs: some rows on which it is run once to find its attention; by default tokens 0 and 1.

    Raises:
        BadInput: no attention was found; the message says which calls were seen.
    """
    if inputs is not None:
        check_tensor(inputs, "inputs")
    if isinstance(model, Borrowed):
        return model
    if hasattr(model, "run_with_hooks") and starts_late(model):
        return Hooked(model)
    if hasattr(model, "architecture") and hasattr(model, "activation_names"):
        return Borrowed(model)
    if isinstance(model, nn.Module):
        return Borrowed(Wrapped(model, inputs))
    raise BadInput(f"the model must be a torch.nn.Module; got a {type(model).__name__}")


def check_tensor(given: Any, name: str) -> None:
    """Raise BadInput unless an argument of that name is a dense tensor of real numbers, in memory, with rows."""
    if not isinstance(given, Tensor):
        raise BadInput(f"{name} must be a tensor; got a {type(given).__name__}")
    if given.is_nested or given.layout != torch.strided or given.is_complex() or given.is_meta or not given.ndim:
        got = f"{given.dtype}, {given.layout}, {given.device}"
        raise BadInput(f"{name} must be a dense tensor of real numbers, a row for each sequence; got {got}")

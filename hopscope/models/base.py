"""The interface of models: what training, resuming, loading, drawing and the circuit search need.

A model is a file with two classes: its shape, a frozen dataclass of settings that builds it, and the module itself.
Activations are read (`cache=`) and replaced (`replace=`) by arguments of the forward pass. They have TransformerLens'
names. The attention pattern of layer l is `blocks.l.attn.hook_pattern`, (batch, head, query, key); clamps, measures and
the circuit search need nothing else of attention.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from hopscope.core.settings import BadInput, Variant
from hopscope.models.attention.base import Attention
from hopscope.tasks.base import Task

#: The replacement of an activation: a tensor that broadcasts to it, or a function of the actual activation.
Replacement = Tensor | Callable[[Tensor], Tensor]
Replacements = Mapping[str, Replacement]

ATTENTION_NAMES = ("q", "k", "v", "pattern", "z")


class Cache(dict[str, Tensor]):
    """Activations of a forward pass by name; `cache["pattern", 1]` means `cache["blocks.1.attn.hook_pattern"]`."""

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        if isinstance(key, tuple):
            short, layer = key
            key = f"blocks.{layer}.{'attn.' if short in ATTENTION_NAMES else ''}hook_{short}"
        return super().__getitem__(key)


class Tap:
    """Reads and replaces activations of one forward pass by name. `Tap()` does neither.

    Args:
        replace: replacements by name.
        keep: names of the activations to keep, after replacement, in `kept`.
        prefix: of these names in the whole model.
    """

    def __init__(self, replace: Replacements | None = None, keep: Iterable[str] = (), prefix: str = ""):
        self.replace = {} if replace is None else replace
        self.keep = frozenset(keep)
        self.prefix = prefix
        self.kept: dict[str, Tensor] = {}

    @property
    def names(self) -> frozenset[str]:
        """The activations that are read or replaced."""
        return self.keep.union(self.replace)

    def within(self, block: int) -> Tap | None:
        """The tap of one block, with names local to the block; None if nothing is read or replaced there."""
        prefix = f"blocks.{block}."
        replace = {name.removeprefix(prefix): new for name, new in self.replace.items() if name.startswith(prefix)}
        keep = [name.removeprefix(prefix) for name in self.keep if name.startswith(prefix)]
        return Tap(replace, keep, prefix) if replace or keep else None

    def __call__(self, name: str, actual: Tensor) -> Tensor:
        if name in self.replace:
            new = self.replace[name]
            actual = new(actual) if callable(new) else new.to(actual.dtype).expand_as(actual)
        if name in self.keep:
            self.kept[self.prefix + name] = actual
        return actual


def passes(tap: Tap | None, name: str, actual: Tensor) -> Tensor:
    """The activation after a tap has read and replaced it; unchanged if there is no tap."""
    return actual if tap is None else tap(name, actual)


@dataclass(frozen=True)
class Shape(Variant, ABC):
    """The settings of a model, except widths that the task determines. Models without attention set layers to 0."""

    n_layers = 0
    n_heads = 0
    d_model = 0  # width of the residual stream; 0: none
    mlp = False  # whether layers have an MLP
    causal = True
    #: Whether its runs can be stacked (`hopscope.training.stack`): models that differ in seeds differ in parameters
    #: alone, not in buffers, and `vmap` can map every operation.
    stacks = False

    @abstractmethod
    def build(self, task: Task, generator: torch.Generator | None = None) -> Model:
        """A model for a task. The generator draws its weights; without one, load them with `load_state_dict`."""

    def tokens_of(self, task: Task) -> int:
        """The size of a task's vocabulary, for a model that reads tokens. Raises BadInput for a task of vectors."""
        if task.d_vocab is None:
            raise BadInput(f"{self.name()} reads tokens, and {task.name()} has vectors; choose a task of tokens")
        return task.d_vocab

    def resolved(self, task: Task) -> Self:
        """The same shape with explicit values for defaults that depend on the task or on other settings."""
        return self

    def check_head(self, layer: int, head: int, of: str) -> None:
        """Raise BadInput if there is no such layer or no such head in it; `of` names the model in the message."""
        for word, number, there in (("layer", layer, self.n_layers), ("head", head, self.n_heads)):
            if number >= there:
                last = f"the last {word} is {there - 1}, counted from 0; got {number}"
                raise BadInput(f"{of}: {last if self.n_heads else 'this model has no attention heads'}")

    @property
    def normalised(self) -> bool:
        """Whether rows of attention patterns sum to 1."""
        return True

    @property
    def takes_turns(self) -> bool:
        """Whether its rule of attention alternates between kinds of updates (`Model.begin_update`)."""
        rule: Attention | None = getattr(self, "rule", None)
        return rule is not None and rule.takes_turns

    def null_pattern(self, task: Task) -> str:
        """The name of the pattern of a head that does nothing; by default the task's."""
        return task.null_pattern


class Ruled(nn.Module):
    """A layer of heads with a rule of attention.

    Attributes:
        rule: the attention variant.
        drawn: random tensors of the rule for the current update; empty outside of updates.
    """

    def __init__(self, rule: Attention):
        super().__init__()
        self.rule = rule
        self.drawn: dict[str, Tensor] = {}


class Model(nn.Module, ABC):
    """A module whose forward pass reads and replaces activations by name.

    Attributes:
        architecture: the settings from which it was built.
    """

    architecture: Shape

    @property
    @abstractmethod
    def activation_names(self) -> list[str]:
        """The names for `replace` and `cache`, in the order of the forward pass."""

    @abstractmethod
    def forward(
        self,
        inputs: Shaped[Tensor, "batch position ..."],
        *,
        replace: Replacements | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
    ) -> Any:
        """Outputs at every position, or at the positions `at`: (batch, position, d_output).

        Args:
            inputs: features (float, batch position d_input) or tokens (int, batch position).
            replace: replacements of activations by name, made before anything reads them: a tensor that broadcasts to
                the activation, or a pure function of it.
            cache: True for all activations, or names: return `(outputs, Cache)` with these, after replacement.
            at: the positions of the outputs; None for all.

        Raises:
            BadInput: a name is not in `activation_names`, or the sequence is longer than the model supports.
        """

    #: Whether `forward(start_at_layer=l)` takes the residual stream before layer l instead of inputs, and
    #: `forward(stop_at_layer=l)` returns it instead of outputs.
    starts_at_layers: bool = False

    def unrolled(self) -> Model:
        """A model that computes the same with separate weights for every layer; itself if it has no loops."""
        return self

    def read_off(self, stream: Float[Tensor, "batch position d_model"], at: slice | None) -> Tensor:
        """The outputs, read off a residual stream as if it came from the last layer; for losses at every layer."""
        raise BadInput(
            f"a {type(self).__name__} has no residual stream to read answers off; leave deep-supervision at 0"
        )

    def begin_update(self, step: int, n: int, random: torch.Generator) -> None:
        """Draw the random tensors of rules of attention that alternate between kinds of updates.

        Args:
            step: updates made so far.
            n: sequences in the batch.
            random: seeded for this update, so that a resumed run draws the same.
        """
        for layer in self.layers_with_rules():
            layer.drawn = layer.rule.drawn(step, n, random)

    def end_update(self, step: int) -> None:
        """Remove these random tensors, and the gradients of weights that this update does not train."""
        rules = {layer.rule for layer in self.layers_with_rules()}
        for layer in self.layers_with_rules():
            layer.drawn = {}
        for name, parameter in self.named_parameters():
            if not all(rule.trains(name, step) for rule in rules):
                parameter.grad = None

    def layers_with_rules(self) -> list[Ruled]:
        """The layers of heads, first to last."""
        return [part for part in self.modules() if isinstance(part, Ruled)]

    def kernels(self, dtype: str) -> Mapping[str, str]:
        """Our own kernels that training with this dtype uses, and their versions; a run's bits depend on them."""
        return {}

    def compile_parts(self) -> None:
        """Compile the parts that take most of the time."""
        self.compile()

    def tap(self, replace: Replacements | None, cache: bool | Iterable[str]) -> Tap:
        """The tap of one forward pass. Raises BadInput for a name that is not in `activation_names`."""
        known = self.activation_names
        keep = [] if cache is False else known if cache is True else list(cache)
        for name in [*(replace or {}), *keep]:
            if name not in known:
                raise BadInput(f"there is no activation {name!r}; they are {', '.join(known[:3])} … {known[-1]}")
        return Tap(replace, keep)

    @property
    def device(self) -> torch.device:
        """The device of the weights; for a model without weights, that of its buffers, or the CPU."""
        return next(itertools.chain(self.parameters(), self.buffers()), torch.empty(0)).device

    @property
    def n_parameters(self) -> int:
        """The number of trained parameters."""
        return sum(parameter.numel() for parameter in self.parameters())


class TappedModel(Model):
    """A model whose forward pass is one function, `outputs`, of its inputs and a tap."""

    @abstractmethod
    def outputs(self, inputs: Shaped[Tensor, "batch position ..."], tap: Tap | None, at: slice | None) -> Tensor:
        """Outputs at every position, or at the positions `at`; every activation goes through `passes(tap, name, …)`.

        Args:
            inputs: as in `forward`.
            tap: None if nothing is read or replaced; activations that only a tap needs can then be skipped.
            at: the positions of the outputs; None for all.
        """

    def forward(
        self,
        inputs: Shaped[Tensor, "batch position ..."],
        *,
        replace: Replacements | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
    ) -> Any:
        tap = self.tap(replace, cache) if replace or cache is not False else None
        outputs = self.outputs(inputs, tap, at)
        return outputs if tap is None or cache is False else (outputs, Cache(tap.kept))


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """A context in evaluation mode, without dropout; afterwards every part is in its previous mode."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True

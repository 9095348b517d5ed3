"""What a model must offer, so that it can be trained, resumed, loaded, drawn, watched and searched for circuits.

A model is a file with two classes: its shape, a frozen dataclass of settings that builds it, and the module itself.
Activations are read (`cache=`) and replaced (`replace=`) by arguments of the forward pass, by TransformerLens' names.
The pattern of layer l, where it has heads, is `blocks.l.attn.hook_pattern`, (batch, head, query, key): it is all that
clamps, measures and the circuit search need of attention.
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

#: What an activation is replaced by: a tensor that broadcasts to it, or a function of the actual one.
Replacement = Tensor | Callable[[Tensor], Tensor]
Replacements = Mapping[str, Replacement]

ATTENTION_NAMES = ("q", "k", "v", "pattern", "z")


class Cache(dict[str, Tensor]):
    """Activations of one forward by name; `cache["pattern", 1]` is short for `cache["blocks.1.attn.hook_pattern"]`."""

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        if isinstance(key, tuple):
            short, layer = key
            key = f"blocks.{layer}.{'attn.' if short in ATTENTION_NAMES else ''}hook_{short}"
        return super().__getitem__(key)


class Tap:
    """Reads and replaces the activations of one forward, by name. `Tap()` does neither."""

    def __init__(self, replace: Replacements | None = None, keep: Iterable[str] = (), prefix: str = ""):
        self.replace = {} if replace is None else replace
        self.keep = frozenset(keep)
        self.prefix = prefix
        self.kept: dict[str, Tensor] = {}

    @property
    def names(self) -> frozenset[str]:
        """What is read or replaced."""
        return self.keep.union(self.replace)

    def within(self, block: int) -> Tap | None:
        """The part that concerns one block, under names local to it; None if there is nothing to do there."""
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
    """The activation, as the tap leaves it."""
    return actual if tap is None else tap(name, actual)


@dataclass(frozen=True)
class Shape(Variant, ABC):
    """The settings of a model: all but the widths that the task dictates. One that has no layers of heads says 0."""

    n_layers = 0
    n_heads = 0
    d_model = 0  # width of the residual stream; 0: none
    mlp = False  # whether layers have an MLP
    causal = True

    @abstractmethod
    def build(self, task: Task, generator: torch.Generator | None = None) -> Model:
        """A model for a task, its weights drawn by the generator; without one they wait for `load_state_dict`."""

    def tokens_of(self, task: Task) -> int:
        """How many different tokens a task has, for a model that reads tokens. Raises BadInput for one of vectors."""
        if task.d_vocab is None:
            raise BadInput(f"{self.name()} reads tokens, and {task.name()} has vectors; choose a task of tokens")
        return task.d_vocab

    def resolved(self, task: Task) -> Self:
        """The same shape with every default that depends on another setting, or on the task, worked out."""
        return self

    def check_head(self, layer: int, head: int, of: str) -> None:
        """Raise BadInput where there is no such head of no such layer; `of` says whose they are."""
        for word, number, there in (("layer", layer, self.n_layers), ("head", head, self.n_heads)):
            if number >= there:
                raise BadInput(f"{of}: the last {word} is {there - 1}, counted from 0; got {number}")

    @property
    def normalised(self) -> bool:
        """Whether rows of attention patterns sum to 1."""
        return True

    @property
    def takes_turns(self) -> bool:
        """Whether it has a rule of attention whose updates differ from one another (`Model.begin_update`)."""
        rule: Attention | None = getattr(self, "rule", None)
        return rule is not None and rule.takes_turns

    def null_pattern(self, task: Task) -> str:
        """The pattern of a head that does nothing: by default the task's."""
        return task.null_pattern


class Ruled(nn.Module):
    """A layer of heads under a rule of attention.

    Attributes:
        rule: the variant.
        drawn: what it drew for the update that is being computed; else nothing.
    """

    def __init__(self, rule: Attention):
        super().__init__()
        self.rule = rule
        self.drawn: dict[str, Tensor] = {}


class Model(nn.Module, ABC):
    """A module whose forward reads and replaces activations by name.

    Attributes:
        architecture: the settings that it was built from.
    """

    architecture: Shape

    @property
    @abstractmethod
    def activation_names(self) -> list[str]:
        """Names that `replace` and `cache` know, in the order of the forward pass."""

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
            replace: by name, what activations are replaced by, before anything reads them: a tensor that broadcasts
                to the activation, or a pure function of it.
            cache: True, or names: return `(outputs, Cache)` with these activations, as replaced.
            at: the positions to read off.

        Raises:
            BadInput: a name is none of `activation_names`, or the sequence is longer than the model's.
        """

    #: Whether `forward(start_at_layer=l)` takes the residual stream before layer l in place of inputs, and
    #: `forward(stop_at_layer=l)` returns it in place of outputs.
    starts_at_layers: bool = False

    def unrolled(self) -> Model:
        """The model that computes the same and has weights of its own in every layer; itself, if it has no loops."""
        return self

    def read_off(self, stream: Float[Tensor, "batch position d_model"], at: slice | None) -> Tensor:
        """What the model would put out if this residual stream were its last. For losses at every layer."""
        raise BadInput(
            f"a {type(self).__name__} has no residual stream to read answers off; leave deep-supervision at 0"
        )

    def begin_update(self, step: int, n: int, random: torch.Generator) -> None:
        """Let rules of attention that take turns draw for the update after `step` others.

        Args:
            step: updates made so far.
            n: sequences in its batch.
            random: seeded for this update, so that a resumed run draws alike.
        """
        for layer in self.layers_with_rules():
            layer.drawn = layer.rule.drawn(step, n, random)

    def end_update(self, step: int) -> None:
        """Answer as a trained model does again, and drop gradients of weights that they leave alone in this update."""
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
        """Kernels of ours with which it is trained in a dtype, with their versions: bits of a run depend on them."""
        return {}

    def compile_parts(self) -> None:
        """Compile what takes the time."""
        self.compile()

    def tap(self, replace: Replacements | None, cache: bool | Iterable[str]) -> Tap:
        """What reads and replaces in one forward. Raises BadInput for a name that is none of `activation_names`."""
        known = self.activation_names
        keep = [] if cache is False else known if cache is True else list(cache)
        for name in [*(replace or {}), *keep]:
            if name not in known:
                raise BadInput(f"there is no activation {name!r}; they are {', '.join(known[:3])} … {known[-1]}")
        return Tap(replace, keep)

    @property
    def device(self) -> torch.device:
        """Where the weights are; of a model that has none, where its buffers are, or the processor."""
        return next(itertools.chain(self.parameters(), self.buffers()), torch.empty(0)).device

    @property
    def n_parameters(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.numel() for parameter in self.parameters())


class TappedModel(Model):
    """A model whose pass is one function, `outputs`, of its inputs and of what reads and replaces on the way."""

    @abstractmethod
    def outputs(self, inputs: Shaped[Tensor, "batch position ..."], tap: Tap | None, at: slice | None) -> Tensor:
        """Outputs at every position, or at the positions `at`; every activation goes through `passes(tap, name, …)`.

        Args:
            inputs: as those of `forward`.
            tap: None where nothing is read or replaced, so that what nobody asks for need not be made.
            at: the positions to read off.
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
    """Without dropout for a while; each part is then in the mode that it was in."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True

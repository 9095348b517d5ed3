"""Find the residual stream of any module among the sums of a forward pass, and read and replace it there.

Every layer adds to the stream, so each stream is a sum whose terms are the outputs of attention and MLP. One pass
records all sums of tensors with the stream's shape. One further pass per layer, with that layer's patterns at 0, shows
which terms depend on its attention. Submodules are not inspected, so the method does not depend on how a model is
written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hopscope.core.settings import BadInput
from hopscope.models.base import Tap

SUMS = ("add", "add_", "__add__", "__iadd__", "__radd__")
BEFORE, ATTENTION, BETWEEN, MLP, AFTER = (
    "hook_resid_pre",
    "hook_attn_out",
    "hook_resid_mid",
    "hook_mlp_out",
    "hook_resid_post",
)
Place = tuple[int, int]  # the number of a sum, and which of its two terms


@dataclass(frozen=True)
class Added:
    """The terms that one layer adds to the stream, and the sums that are streams, by their numbers.

    Attributes:
        attention: the term that is the output of attention.
        mlp: the term that is the output of the MLP, if there is one.
        between: the sum that the MLP reads; None if it reads the same stream as attention, or there is no MLP.
        after: the sum that is the stream after the layer.
    """

    attention: Place
    mlp: Place | None
    between: int | None
    after: int


@dataclass(frozen=True)
class Stream:
    """The location of a model's stream among its calls.

    Attributes:
        layers: the terms and sums of each layer.
        n_sums: number of sums in a pass, from the first attention on.
        first: the first call that takes the stream before all layers: the function's name, the number of earlier calls
            of it, and the index of the argument.
    """

    layers: tuple[Added, ...]
    n_sums: int
    first: tuple[str, int, int]

    @property
    def names(self) -> list[list[str]]:
        """The names of activations, by layer, without the prefix `blocks.l.`."""
        return [
            [BEFORE, ATTENTION, *([BETWEEN] if one.between is not None else []), *([MLP] if one.mlp else []), AFTER]
            for one in self.layers
        ]


def is_sum(name: str, args: Sequence[Any], rows: int, positions: int) -> bool:
    """Whether a call adds two tensors of the stream's shape, (row, position, width)."""
    if name not in SUMS or len(args) != 2 or not all(isinstance(one, Tensor) for one in args):
        return False
    return args[0].ndim == 3 and args[0].shape[:2] == (rows, positions) and args[0].shape == args[1].shape


class Reading(TorchFunctionMode):
    """Reads and replaces a stream during a pass.

    Args:
        stream: its location.
        tap: reads and replaces activations by name.
        rows: number of rows of inputs.
        positions: number of positions.
        attended: gives the number of layers that have attended so far.
    """

    def __init__(self, stream: Stream, tap: Tap, rows: int, positions: int, attended: Callable[[], int]):
        super().__init__()
        self.stream, self.tap, self.rows, self.positions, self.attended = stream, tap, rows, positions, attended
        self.n_sums, self.calls = 0, 0
        self.initial: tuple[Any, Any] | None = None  # the stream before all layers, and its replacement
        self.terms = {one.attention: f"blocks.{layer}.{ATTENTION}" for layer, one in enumerate(stream.layers)}
        self.terms |= {one.mlp: f"blocks.{layer}.{MLP}" for layer, one in enumerate(stream.layers) if one.mlp}
        self.streams: dict[int, list[str]] = {}
        for layer, one in enumerate(stream.layers):
            if one.between is not None:
                self.streams.setdefault(one.between, []).append(f"blocks.{layer}.{BETWEEN}")
            later = [f"blocks.{layer + 1}.{BEFORE}"] if layer + 1 < len(stream.layers) else []
            self.streams[one.after] = [f"blocks.{layer}.{AFTER}", *later]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        args = self.with_initial(name, args)
        if not is_sum(name, args, self.rows, self.positions) or kwargs or not self.attended():
            return func(*args, **kwargs)
        number = self.n_sums
        self.n_sums += 1
        terms = [self.tap(self.terms.get((number, i), ""), one) for i, one in enumerate(args)]
        result = func(*terms)
        for name_of_stream in self.streams.get(number, ()):
            result = self.tap(name_of_stream, result)
        return result

    def with_initial(self, name: str, args: Any) -> Any:
        """The arguments of a call, with the stream before all layers replaced."""
        known, when, which = self.stream.first
        if self.initial is None and name == known:
            if self.calls == when:
                self.initial = args[which], self.tap(f"blocks.0.{BEFORE}", args[which])
            self.calls += 1
        if self.initial is None or self.initial[0] is self.initial[1]:
            return args
        return tuple(self.initial[1] if one is self.initial[0] else one for one in args)


# Locating the stream ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """A sum in a pass.

    Attributes:
        layer: number of layers that had attended before it.
        terms: copies of both terms.
        result: a copy of the sum.
        objects: the original terms, for comparison by identity.
    """

    layer: int
    terms: tuple[Tensor, Tensor]
    result: Tensor
    objects: tuple[Tensor, Tensor]


class Listing(TorchFunctionMode):
    """Lists the sums of a pass from the first attention on, and every call with its arguments.

    Args:
        rows: number of rows of inputs.
        positions: number of positions.
        attended: gives the number of layers that have attended so far.
    """

    def __init__(self, rows: int, positions: int, attended: Callable[[], int]):
        super().__init__()
        self.rows, self.positions, self.attended = rows, positions, attended
        self.sums: list[Sum] = []
        self.calls: list[tuple[str, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        self.calls.append((name, args))
        if not is_sum(name, args, self.rows, self.positions) or kwargs or not self.attended():
            return func(*args, **kwargs)
        terms = args[0].detach().clone(), args[1].detach().clone()
        result = func(*args)
        self.sums.append(Sum(self.attended(), terms, result.detach().clone(), (args[0], args[1])))
        return result

    def uses(self, tensor: Tensor) -> list[int]:
        """The indices of calls that take a tensor after it was last written in place; reading its shape is ignored."""
        calls = [i for i, (name, args) in enumerate(self.calls) if name != "__get__" and any(x is tensor for x in args)]
        writes = [i for i in calls if self.calls[i][0] == "__setitem__" or self.calls[i][0] in ("copy_", "fill_")]
        return [i for i in calls if i > max(writes, default=-1)]

    def first_use(self, tensor: Tensor) -> tuple[str, int, int]:
        """The first call that takes a tensor, in the form of `Stream.first`."""
        number = self.uses(tensor)[0]
        name, args = self.calls[number]
        when = Counter(name for name, _ in self.calls[:number])[name]
        return name, when, next(i for i, one in enumerate(args) if one is tensor)


def located(whole: Listing, without: Sequence[Listing]) -> Stream:
    """The location of a model's stream.

    Args:
        whole: the sums of an unchanged pass.
        without: for each layer the sums of a pass with this layer's patterns at 0.

    Raises:
        BadInput: layers do not add to a common stream, or the outputs of attention and MLP cannot be identified.
    """
    layers, starts = list[Added](), list[Place]()
    before: Tensor | None = None
    for layer, other in enumerate(without):
        if len(other.sums) != len(whole.sums):
            raise BadInput("it takes other sums when a layer's patterns are 0")
        changed = partial(differs, whole, other)
        numbers = [i for i, one in enumerate(whole.sums) if one.layer == layer + 1]
        after = next((i for i in reversed(numbers) if goes_on(whole, i, layer, len(without))), None)
        if after is None:
            raise BadInput(f"layer {layer} takes no sum that the next layer adds to")
        terms = sorted(terms_of(whole, after, numbers[0]))
        start = start_of(whole, terms, before, changed)
        layers.append(added([place for place in terms if place != start], start, after, changed, layer))
        starts.append(start)
        before = whole.sums[after].result
    if any(one.after >= other.attention[0] for one, other in pairwise(layers)):
        raise BadInput("its layers add in another order than they attend in")
    first = whole.sums[starts[0][0]].objects[starts[0][1]]
    return Stream(tuple(layers), len(whole.sums), whole.first_use(first))


def differs(one: Listing, other: Listing, place: Place) -> bool:
    """Whether a term has another value in another pass."""
    number, which = place
    return not torch.equal(one.sums[number].terms[which], other.sums[number].terms[which])


def goes_on(whole: Listing, number: int, layer: int, n_layers: int) -> bool:
    """Whether a sum is a term of a sum of the next layer; always true in the last layer."""
    later = [one for one in whole.sums if one.layer == layer + 2]
    result = whole.sums[number].result
    return layer + 1 == n_layers or any(torch.equal(term, result) for one in later for term in one.terms)


def terms_of(whole: Listing, number: int, begin: int) -> list[Place]:
    """The terms of a sum; a term that is itself a sum of the same layer is replaced by its terms."""
    found = []
    for which, term in enumerate(whole.sums[number].terms):
        earlier = (i for i in range(number - 1, begin - 1, -1) if torch.equal(whole.sums[i].result, term))
        made = next(earlier, None)
        found += [(number, which)] if made is None else terms_of(whole, made, begin)
    return found


def start_of(whole: Listing, terms: Sequence[Place], before: Tensor | None, changed: Callable[[Place], bool]) -> Place:
    """The term that is the stream before a layer.

    It equals the stream after the previous layer. In the first layer it is the term that is used first, of those that
    do not depend on attention.
    """
    value = lambda place: whole.sums[place[0]].terms[place[1]]  # noqa: E731
    if before is not None:
        candidates = [place for place in terms if torch.equal(value(place), before)]
    else:
        same = [place for place in terms if not changed(place)]
        uses = lambda place: whole.uses(whole.sums[place[0]].objects[place[1]])[0]  # noqa: E731
        candidates = sorted(same, key=uses)
    if not candidates:
        raise BadInput("a layer does not add to the stream that it reads (norms after each sum are an example)")
    return candidates[0]


def added(terms: Sequence[Place], start: Place, after: int, changed: Callable[[Place], bool], layer: int) -> Added:
    """The outputs of a layer among its terms, apart from the stream. Raises BadInput unless they are attention and MLP.

    Attention is the first term that changes without the layer's patterns. The MLP, if there is one, is the other.
    """
    moved = [place for place in terms if changed(place)]
    if not moved or len(terms) > 2:
        raise BadInput(f"layer {layer} adds {len(terms)} terms to the stream, which are not attention and MLP")
    attention, rest = moved[0], [place for place in terms if place != moved[0]]
    between = attention[0] if rest and rest[0] in moved and start[0] == attention[0] else None
    return Added(attention, rest[0] if rest else None, between, after)

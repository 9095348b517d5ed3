"""The residual stream of any module: found among the sums that it takes, and read and changed there.

Every layer adds something to the stream, so each stream is a sum, and what attention and MLP add are its terms. One
pass tells all sums of tensors of the stream's shape. Passes without the attention of single layers tell which terms
come from it. No module is looked at, so that it holds for whatever way a model is written in.
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
    """What one layer adds to the stream, by numbers of sums.

    Attributes:
        attention: the term that is attention's.
        mlp: the MLP's, if there is one.
        between: the sum that the MLP reads; None where it reads what attention does, or there is none.
        after: the sum that is the stream behind the layer.
    """

    attention: Place
    mlp: Place | None
    between: int | None
    after: int


@dataclass(frozen=True)
class Stream:
    """Where a model's stream is.

    Attributes:
        layers: what each adds.
        n_sums: of a pass, from the first attention on.
        first: who is the first to take the stream before all layers: a function's name, how many calls of it came
            before, and which of its arguments.
    """

    layers: tuple[Added, ...]
    n_sums: int
    first: tuple[str, int, int]

    @property
    def names(self) -> list[list[str]]:
        """Of activations, by layer."""
        return [
            [BEFORE, ATTENTION, *([BETWEEN] if one.between is not None else []), *([MLP] if one.mlp else []), AFTER]
            for one in self.layers
        ]


def is_sum(name: str, args: Sequence[Any], rows: int, positions: int) -> bool:
    """Whether a call adds two tensors that a stream could be, (row, position, width)."""
    if name not in SUMS or len(args) != 2 or not all(isinstance(one, Tensor) for one in args):
        return False
    return args[0].ndim == 3 and args[0].shape[:2] == (rows, positions) and args[0].shape == args[1].shape


class Reading(TorchFunctionMode):
    """Reads and replaces a stream, during a pass.

    Args:
        stream: where it is.
        tap: reads and replaces by name.
        rows: of the inputs.
        positions: of each.
        attended: how many layers have attended so far.
    """

    def __init__(self, stream: Stream, tap: Tap, rows: int, positions: int, attended: Callable[[], int]):
        super().__init__()
        self.stream, self.tap, self.rows, self.positions, self.attended = stream, tap, rows, positions, attended
        self.n_sums, self.calls = 0, 0
        self.given: tuple[Any, Any] | None = None  # the stream before all layers, and what it is replaced by
        self.terms = {one.attention: f"blocks.{layer}.{ATTENTION}" for layer, one in enumerate(stream.layers)}
        self.terms |= {one.mlp: f"blocks.{layer}.{MLP}" for layer, one in enumerate(stream.layers) if one.mlp}
        self.whole: dict[int, list[str]] = {}
        for layer, one in enumerate(stream.layers):
            if one.between is not None:
                self.whole.setdefault(one.between, []).append(f"blocks.{layer}.{BETWEEN}")
            later = [f"blocks.{layer + 1}.{BEFORE}"] if layer + 1 < len(stream.layers) else []
            self.whole[one.after] = [f"blocks.{layer}.{AFTER}", *later]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        args = self.begun(name, args)
        if not is_sum(name, args, self.rows, self.positions) or kwargs or not self.attended():
            return func(*args, **kwargs)
        number = self.n_sums
        self.n_sums += 1
        terms = [self.left(self.terms.get((number, i)), one) for i, one in enumerate(args)]
        found = func(*terms)
        for whole in self.whole.get(number, ()):
            found = self.tap(whole, found)
        return found

    def left(self, name: str | None, actual: Tensor) -> Tensor:
        return actual if name is None else self.tap(name, actual)

    def begun(self, name: str, args: Any) -> Any:
        """The arguments of a call, in which the stream before all layers is as it is left."""
        known, when, which = self.stream.first
        if self.given is None and name == known:
            if self.calls == when:
                self.given = args[which], self.tap(f"blocks.0.{BEFORE}", args[which])
            self.calls += 1
        if self.given is None or self.given[0] is self.given[1]:
            return args
        return tuple(self.given[1] if one is self.given[0] else one for one in args)


# Where it is -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """A sum of a pass.

    Attributes:
        layer: how many layers had attended before it.
        terms: values of both.
        result: their sum.
        objects: the very tensors.
    """

    layer: int
    terms: tuple[Tensor, Tensor]
    result: Tensor
    objects: tuple[Tensor, Tensor]


class Listing(TorchFunctionMode):
    """Lists the sums of a pass from the first attention on, and every call with the tensors that it takes.

    Args:
        rows: of the inputs.
        positions: of each.
        attended: how many layers have attended so far.
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

    def uses(self, found: Tensor) -> list[int]:
        """The numbers of calls that take a tensor, once it is filled; to look at its shape is no use."""
        able = [i for i, (name, args) in enumerate(self.calls) if name != "__get__" and any(x is found for x in args)]
        filled = [i for i in able if self.calls[i][0] == "__setitem__" or self.calls[i][0] in ("copy_", "fill_")]
        return [i for i in able if i > max(filled, default=-1)]

    def first_use(self, found: Tensor) -> tuple[str, int, int]:
        """Who is the first to take a tensor."""
        number = self.uses(found)[0]
        name, args = self.calls[number]
        when = Counter(name for name, _ in self.calls[:number])[name]
        return name, when, next(i for i, one in enumerate(args) if one is found)


def located(whole: Listing, without: Sequence[Listing]) -> Stream:
    """Where the stream of a model is.

    Args:
        whole: a pass of the model as it is.
        without: for each layer one in which its heads attend to nothing.

    Raises:
        BadInput: layers add to no common stream, or what they add cannot be told apart.
    """
    layers, starts = list[Added](), list[Place]()
    before: Tensor | None = None
    for layer, other in enumerate(without):
        if len(other.sums) != len(whole.sums):
            raise BadInput("its sums are others when a layer attends to nothing")
        changed = partial(differs, whole, other)
        numbers = [i for i, one in enumerate(whole.sums) if one.layer == layer + 1]
        after = next((i for i in reversed(numbers) if goes_on(whole, i, layer, len(without))), None)
        if after is None:
            raise BadInput(f"layer {layer} adds to nothing that the next one reads")
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
    """Whether a sum is a term of a sum of the next layer; of the last, whichever it is."""
    later = [one for one in whole.sums if one.layer == layer + 2]
    result = whole.sums[number].result
    return layer + 1 == n_layers or any(torch.equal(term, result) for one in later for term in one.terms)


def terms_of(whole: Listing, number: int, begin: int) -> list[Place]:
    """What a sum is made of, where terms that are sums of the same layer are taken apart."""
    found = []
    for which, term in enumerate(whole.sums[number].terms):
        earlier = (i for i in range(number - 1, begin - 1, -1) if torch.equal(whole.sums[i].result, term))
        made = next(earlier, None)
        found += [(number, which)] if made is None else terms_of(whole, made, begin)
    return found


def start_of(whole: Listing, terms: Sequence[Place], before: Tensor | None, changed: Callable[[Place], bool]) -> Place:
    """Which term is the stream before the layer: what the last one left; before the first, what is used first."""
    value = lambda place: whole.sums[place[0]].terms[place[1]]  # noqa: E731
    if before is not None:
        able = [place for place in terms if torch.equal(value(place), before)]
    else:
        same = [place for place in terms if not changed(place)]
        uses = lambda place: whole.uses(whole.sums[place[0]].objects[place[1]])[0]  # noqa: E731
        able = sorted(same, key=uses)
    if not able:
        raise BadInput("a layer does not add to the stream that it reads (it is normed after each sum, say)")
    return able[0]


def added(terms: Sequence[Place], start: Place, after: int, changed: Callable[[Place], bool], layer: int) -> Added:
    """What a layer adds, of terms without the stream before it. Raises BadInput where that is not attention and MLP."""
    moved = [place for place in terms if changed(place)]
    if not moved or len(terms) > 2:
        raise BadInput(f"layer {layer} adds {len(terms)} things to the stream, which are not attention and MLP")
    attention, rest = moved[0], [place for place in terms if place != moved[0]]
    between = attention[0] if rest and rest[0] in moved and start[0] == attention[0] else None
    return Added(attention, rest[0] if rest else None, between, after)

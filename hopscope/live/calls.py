"""Find the attention of each layer among a module's calls of PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PRODUCTS = ("matmul", "__matmul__", "bmm", "einsum")
WATCHED = ("softmax", "scaled_dot_product_attention", *PRODUCTS)


@dataclass(frozen=True)
class Call:
    """A recorded call in a forward pass.

    Attributes:
        name: of the function.
        positional: number of positional arguments.
        shapes: shapes of the tensors among all arguments.
        result: the tensor that it returned.
    """

    name: str
    positional: int
    shapes: tuple[tuple[int, ...], ...]
    result: Tensor


@dataclass(frozen=True)
class Attention:
    """One layer's attention, as the indices of its calls in a pass.

    Attributes:
        pattern: the softmax, or `scaled_dot_product_attention`.
        scores: the product of queries and keys; None if it cannot be identified.
        values: the product of pattern and values; None if it is not a product of two tensors.
    """

    pattern: int
    scores: int | None = None
    values: int | None = None


class Watching(TorchFunctionMode):
    """Counts the calls of the functions in `WATCHED`, and lets `at` make each of them.

    Args:
        at: called with the number of the call, the function's name, the function, and its arguments; its result is
            the result of the call.
    """

    def __init__(self, at: Callable[[int, str, Callable[..., Any], Any, Any], Any]):
        super().__init__()
        self.at, self.count = at, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if func is F.multi_head_attention_forward:  # calls functions that are watched
            with self:
                return seen_through(func)(*args, **(kwargs or {}))
        if name not in WATCHED:
            return func(*args, **(kwargs or {}))
        self.count += 1
        return self.at(self.count - 1, name, func, args, kwargs or {})


def seen_through(func: Any) -> FunctionType:
    """A copy of a function of PyTorch whose inner calls are watched."""
    inner = {**func.__globals__, "has_torch_function": lambda tensors: False}
    made = FunctionType(func.__code__, inner, func.__name__, func.__defaults__, func.__closure__)
    made.__kwdefaults__ = func.__kwdefaults__
    return made


# What is attention -----------------------------------------------------------------------------------------------


def calls_of(model: nn.Module, inputs: Tensor) -> tuple[list[Call], Any]:
    """The watched calls of a forward pass, and the model's outputs."""
    calls: list[Call] = []

    def note(number: int, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        given = [*args, *kwargs.values()]
        shapes = tuple(tuple(one.shape) for one in given if isinstance(one, Tensor))
        calls.append(Call(name, len(args), shapes, result))
        return result

    with torch.no_grad(), Watching(note):
        return calls, model(inputs)


def attentions_in(calls: Sequence[Call], rows: int, positions: int) -> list[Attention]:
    """The attention of each layer, in the order of the calls.

    A layer's attention is `scaled_dot_product_attention`, or a softmax over keys whose result is then multiplied.
    """
    found, begin = [], 0
    for number, call in enumerate(calls):
        if call.name == "scaled_dot_product_attention" and call.shapes[0][-2] == positions == call.shapes[1][-2]:
            found.append(Attention(number, number, number))
            begin = number + 1
        if call.name != "softmax" or not is_pattern(call.result, rows, positions):
            continue
        shape = (*call.result.shape[:-1], positions)
        read = next((i for i in range(number + 1, len(calls)) if reads(calls[i], shape)), None)
        if read is None:
            continue
        made = [i for i in range(begin, number) if calls[i].name in PRODUCTS and calls[i].result.shape == shape]
        scores = made[0] if len(made) == 1 and is_plain(calls[made[0]]) else None
        found.append(Attention(number, scores, read if is_plain(calls[read]) else None))
        begin = read + 1
    return found


def is_pattern(result: Tensor, rows: int, positions: int) -> bool:
    """Whether a softmax has the shape of patterns: every query over every key, and at most one more entry, a sink."""
    heads = result.ndim in (3, 4) and result.shape[0] % rows == 0
    return heads and result.shape[-2] == positions and result.shape[-1] in (positions, positions + 1)


def reads(call: Call, shape: tuple[int, ...]) -> bool:
    """Whether a call is a product with a factor of that shape."""
    return call.name in PRODUCTS and shape in call.shapes


def is_plain(call: Call) -> bool:
    """Whether a call is a product of two tensors, head by head, both with as many dimensions as patterns."""
    dimensions = [len(shape) for shape in call.shapes]
    return call.name != "einsum" and call.positional == 2 and dimensions in ([3, 3], [4, 4])


def unseen(model: nn.Module, calls: Sequence[Call]) -> str:
    """The error message for a module in which no attention was found."""
    softmaxes = [tuple(call.result.shape) for call in calls if call.name == "softmax"]
    seen = f"softmax was called on {', '.join(map(str, softmaxes[:3]))}" if softmaxes else "softmax was not called"
    words = f"no attention was seen in a {type(model).__name__}: {seen}, scaled_dot_product_attention on no sequence"
    if hasattr(model, "set_attn_implementation"):
        return f"{words}; call model.set_attn_implementation('eager') first"
    remedy = "attend by torch.nn.functional.softmax over (row, head, query, key), rows of inputs first"
    return f"{words}; {remedy}, or implement the contract of hopscope.models.base.Model"

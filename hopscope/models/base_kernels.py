"""What training in bfloat16 on a CPU computes in a way of our own, because it is faster. A run records it (`kernels`).

- *gelu*: GELU in GPT-2's tanh form (Hendrycks and Gimpel, 2016, arXiv:1606.08415). PyTorch evaluates a tanh at every
  number, forward and again backward: a quarter of a step. But there are only 65,536 numbers. So value and derivative
  of each are computed once, in float32 as x·σ(2u), u = √(2/π)(x + 0.044715 x³), and rounded once, to bfloat16; a step
  looks both up, and keeps the derivative in place of x.
- *apart*: queries, keys and values are copied to where each lies by itself. Products gain more than copying takes.
- *last layer*: its queries attend, and its MLP is computed, at the positions that are read off and nowhere else
  (`base_sparing`). In float32 both are computed everywhere: fewer rows are added up in another order, and no float32
  run shall change a bit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

#: Names and versions, for the record of what a run's bits depend on.
KERNELS = {"gelu_bfloat16": "1", "last_layer_bfloat16": "1"}
#: Of rules whose output looks back (`Attention.writes_locally`): attention at all positions, the MLP at those read.
LOOKING_BACK = {"last_layer_bfloat16": "2"}
#: Numbers that are worked on at a time, so that what is computed in between stays in a processor's cache.
PIECE = 1 << 17
CUBIC = 0.044715
SCALE = 2 * (2 / torch.pi) ** 0.5


def gelu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """GELU of every number; by the kernel for bfloat16 on a CPU, by PyTorch otherwise, and wherever it compiles."""
    if x.dtype != torch.bfloat16 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    return Gelu.apply(x)[0]  # type: ignore[no-any-return]


def apart(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """In bfloat16 by itself in memory, where products of matrices are faster; otherwise as it is."""
    return x.contiguous() if x.dtype == torch.bfloat16 and x.device.type == "cpu" else x


def reads_last_layer_in_part(last: nn.Module, device: torch.device) -> bool:
    """Whether the last layer is computed where it is read off alone.

    Compiled blocks are one program for all layers, and the last one stays like the others.
    """
    return device.type == "cpu" and torch.is_autocast_enabled("cpu") and last._compiled_call_impl is None


class Gelu(torch.autograd.Function):
    """Value and derivative at once; backward is a product. vmap may hand over whole batches: no number asks another."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return value_and_slope(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1])

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:  # type: ignore[override]
        (slope,) = ctx.saved_tensors
        return gradient * slope

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int | None, ...]]:
        return Gelu.apply(x), in_dims * 2


def value_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
    """GELU of every number and its derivative, looked up; both in the dtype of x."""
    rows = x.contiguous().view(torch.uint16).view(-1, x.shape[-1])
    value, slope = (torch.empty_like(rows, dtype=torch.int16) for _ in range(2))
    n_rows = max(1, PIECE // max(1, rows.shape[1]))
    for start in range(0, len(rows), n_rows):
        piece = slice(start, start + n_rows)
        index = rows[piece].long()
        for table, found in zip(tables(), (value, slope), strict=True):
            torch.gather(table.expand(len(index), -1), 1, index, out=found[piece])
    return value.view(x.dtype).view(x.shape), slope.view(x.dtype).view(x.shape)


@cache
def tables() -> tuple[Tensor, Tensor]:
    """The bits of value and derivative, by the bits of a number: bfloat16 has no more than 65,536 of them."""
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    value, derivative = computed(numbers)
    return value.view(torch.int16), derivative.view(torch.int16)


def computed(x: Float[Tensor, "number"]) -> tuple[Tensor, Tensor]:
    """GELU and its derivative σ + x σ(1 − σ) (2u)′ in float32, rounded once; x (2u)′ is 3 (2u − ⅔ SCALE x)."""
    wide = x.float()
    doubled = torch.addcmul(torch.tensor(SCALE), wide, wide, value=SCALE * CUBIC).mul_(wide)
    sigmoid = doubled.sigmoid()
    rising = torch.ops.aten.sigmoid_backward(doubled.sub_(wide, alpha=2 * SCALE / 3), sigmoid)
    return (wide * sigmoid).to(x.dtype), torch.add(sigmoid, rising, alpha=3).to(x.dtype)

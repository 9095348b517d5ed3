"""What training in bfloat16 on a CPU computes in a way of our own, because it is faster. A run records it (`kernels`).

- *gelu*: GELU in GPT-2's tanh form (Hendrycks and Gimpel, 2016, arXiv:1606.08415). PyTorch evaluates a tanh at every
  number, forward and again backward: a quarter of a step. As x·σ(2u), u = √(2/π)(x + 0.044715 x³), the same function
  takes one sigmoid, and its derivative is made along with it and kept in place of x. All of it is computed in float32;
  value and derivative are rounded once, to bfloat16.
- *last layer*: its queries attend, and its MLP is computed, at the positions that are read off and nowhere else. In
  float32 both are computed everywhere: fewer rows are added up in another order, and no float32 run shall change a bit.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

#: Names and versions, for the record of what a run's bits depend on.
KERNELS = {"gelu_bfloat16": "1", "last_layer_bfloat16": "1"}
#: Numbers that are worked on at a time, so that what is computed in between stays in a processor's cache.
PIECE = 1 << 17
CUBIC = 0.044715
SCALE = 2 * (2 / torch.pi) ** 0.5


def gelu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """GELU of every number; by the kernel for bfloat16 on a CPU, by PyTorch otherwise, and wherever it compiles."""
    if x.dtype != torch.bfloat16 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    if torch.is_grad_enabled() and x.requires_grad:
        return Gelu.apply(x)[0]  # type: ignore[no-any-return]
    return value_and_slope(x, slope=False)[0]


def where_read(at: slice | None, last: nn.Module, device: torch.device) -> slice | None:
    """Where the last layer is computed if only the positions `at` are read off; None: everywhere.

    Compiled blocks are one program for all layers, and the last one stays like the others.
    """
    low = device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return at if low and last._compiled_call_impl is None else None


class Gelu(torch.autograd.Function):
    """Value and derivative at once; backward is a product."""

    generate_vmap_rule = True

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


def value_and_slope(x: Tensor, slope: bool = True) -> tuple[Tensor, Tensor]:
    """GELU and its derivative σ + x σ(1 − σ) (2u)′, both in the dtype of x; without `slope` the latter is empty.

    x (2u)′ is 3 (2u − ⅔ SCALE x), and 2u is there already: one pass over memory fewer than by itself.
    """
    numbers = x.flatten()
    scale = torch.tensor(SCALE)
    value, derivative = torch.empty_like(numbers), torch.empty_like(numbers if slope else numbers[:0])
    for start in range(0, len(numbers), PIECE):
        piece = slice(start, start + PIECE)
        wide = numbers[piece].float()
        doubled = torch.addcmul(scale, wide, wide, value=SCALE * CUBIC).mul_(wide)
        sigmoid = doubled.sigmoid()
        if slope:
            rising = torch.ops.aten.sigmoid_backward(doubled.sub_(wide, alpha=2 * SCALE / 3), sigmoid)
            derivative[piece] = torch.add(sigmoid, rising, alpha=3)
        value[piece] = wide.mul_(sigmoid)
    return value.view(x.shape), derivative.view(x.shape) if slope else derivative

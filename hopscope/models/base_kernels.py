"""Our own, faster kernels for training in bfloat16 on a CPU. A run records their versions (`kernels`).

- *gelu*: GELU in GPT-2's tanh form (Hendrycks and Gimpel, 2016, arXiv:1606.08415). PyTorch evaluates a tanh for every
  number in the forward and again in the backward pass, which takes a quarter of a step. But bfloat16 has only 65,536
  numbers. So value and derivative of each are computed once, in float32 as x·σ(2u), u = √(2/π)(x + 0.044715 x³), and
  rounded to bfloat16. A step looks up both, and keeps the derivative instead of x.
- *apart*: queries, keys and values are copied to contiguous memory. Matrix products gain more than copying costs.
- *last layer*: attention of its queries, and its MLP, are computed only at the positions that are read off
  (`base_sparing`). In float32 they are computed everywhere: with fewer rows sums are taken in another order, and the
  bits of float32 runs must not change.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

#: Names and versions, which a run records because its bits depend on them.
KERNELS = {"gelu_bfloat16": "1", "last_layer_bfloat16": "1"}
#: For rules whose output reads other positions (not `Attention.writes_locally`): only the MLP is computed in part.
LOOKING_BACK = {"last_layer_bfloat16": "2"}
#: Numbers per piece, so that intermediate results stay in the processor's cache.
PIECE = 1 << 17
CUBIC = 0.044715
SCALE = 2 * (2 / torch.pi) ** 0.5


def gelu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """GELU of every number: with our kernel for bfloat16 on a CPU, otherwise, and in compiled code, with PyTorch's."""
    if x.dtype != torch.bfloat16 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.gelu(x, approximate="tanh")
    return Gelu.apply(x)[0]  # type: ignore[no-any-return]


def apart(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """A contiguous copy if it is in bfloat16 on a CPU, where this speeds up matrix products; otherwise x itself."""
    return x.contiguous() if x.dtype == torch.bfloat16 and x.device.type == "cpu" else x


def reads_last_layer_in_part(last: nn.Module, device: torch.device) -> bool:
    """Whether the last layer is computed only at the positions that are read off.

    It is not if blocks are compiled, because all layers then share one program.
    """
    return device.type == "cpu" and torch.is_autocast_enabled("cpu") and last._compiled_call_impl is None


class Gelu(torch.autograd.Function):
    """GELU with its derivative, so that the backward pass is one product. It is elementwise, so vmap needs no care."""

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
    """GELU of every number and its derivative from the tables, both in the dtype of x."""
    rows = x.contiguous().view(torch.uint16).view(-1, x.shape[-1])
    value, slope = (torch.empty_like(rows, dtype=torch.int16) for _ in range(2))
    n_rows = max(1, PIECE // max(1, rows.shape[1]))
    for start in range(0, len(rows), n_rows):
        piece = slice(start, start + n_rows)
        index = rows[piece].long()
        for table, entries in zip(tables(), (value, slope), strict=True):
            torch.gather(table.expand(len(index), -1), 1, index, out=entries[piece])
    return value.view(x.dtype).view(x.shape), slope.view(x.dtype).view(x.shape)


@cache
def tables() -> tuple[Tensor, Tensor]:
    """The bits of value and derivative of every bfloat16 number, indexed by its own 16 bits."""
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    value, derivative = computed(numbers)
    return value.view(torch.int16), derivative.view(torch.int16)


def computed(x: Float[Tensor, "number"]) -> tuple[Tensor, Tensor]:
    """GELU and its derivative σ + x σ(1 − σ) (2u)′, computed in float32 and rounded; x (2u)′ is 3 (2u − ⅔ SCALE x)."""
    wide = x.float()
    doubled = torch.addcmul(torch.tensor(SCALE), wide, wide, value=SCALE * CUBIC).mul_(wide)
    sigmoid = doubled.sigmoid()
    rising = torch.ops.aten.sigmoid_backward(doubled.sub_(wide, alpha=2 * SCALE / 3), sigmoid)
    return (wide * sigmoid).to(x.dtype), torch.add(sigmoid, rising, alpha=3).to(x.dtype)

"""x-transformers' ContinuousTransformerWrapper around its Decoder, trained by an ordinary loop.

It leaves out the biases of LayerNorm, of attention and of both projections; the matrix products are the same, and so
is, as set here, the GELU: its own default, by the error function, is the cheaper one on CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from x_transformers import ContinuousTransformerWrapper, Decoder

from bench.contenders.torch_loop import ordinary_step
from bench.work import Work


class Continuous(nn.Module):
    def __init__(self, work: Work):
        super().__init__()
        decoder = Decoder(
            dim=work.model.d_model,
            depth=work.model.n_layers,
            heads=work.model.n_heads,
            attn_dim_head=work.model.head_width,
            attn_flash=True,
            ff_custom_activation=nn.GELU(approximate="tanh"),
        )
        self.wrapped = ContinuousTransformerWrapper(
            dim_in=work.task.d_input,
            dim_out=work.task.d_output,
            max_seq_len=work.task.n_positions,
            use_abs_pos_emb=False,
            attn_layers=decoder,
        )
        self.n_queries = work.task.n_chains

    def forward(self, inputs: Tensor) -> Tensor:
        return self.wrapped(inputs)[:, -self.n_queries :]


def make(work: Work, dtype: str, compiled: bool) -> Callable[[int], float]:
    torch.manual_seed(0)
    return ordinary_step(Continuous(work), work, dtype)

"""The same model as a good engineer writes it in plain PyTorch: fused q, k, v; scaled_dot_product_attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.contenders.torch_loop import ordinary_step
from bench.work import Work


class Block(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.ln1 = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(approximate="tanh"), nn.Linear(4 * d_model, d_model)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.ln1(x)).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(z.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, work: Work):
        super().__init__()
        d_model = work.model.d_model
        self.embed = nn.Linear(work.task.d_input, d_model)
        self.blocks = nn.ModuleList(Block(d_model, work.model.n_heads) for _ in range(work.model.n_layers))
        self.norm = nn.LayerNorm(d_model)
        self.unembed = nn.Linear(d_model, work.task.d_output)
        self.n_queries = work.task.n_chains

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embed(inputs)
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.norm(x[:, -self.n_queries :]))


def make(work: Work, dtype: str, compiled: bool) -> Callable[[int], float]:
    torch.manual_seed(0)
    model = GPT(work)
    if compiled:
        model.compile()
    return ordinary_step(model, work, dtype)

"""TransformerLens' HookedTransformer, trained by an ordinary loop on vectors that a linear layer projects."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from transformer_lens import HookedTransformer, HookedTransformerConfig

from bench.contenders.torch_loop import ordinary_step
from bench.work import Work


class Hooked(nn.Module):
    def __init__(self, work: Work):
        super().__init__()
        config = HookedTransformerConfig(
            n_layers=work.model.n_layers,
            d_model=work.model.d_model,
            n_ctx=work.task.n_positions,
            n_heads=work.model.n_heads,
            d_head=work.model.head_width,
            d_mlp=work.model.mlp_width,
            d_vocab=1,
            d_vocab_out=work.task.d_output,
            act_fn="gelu_new",
            normalization_type="LN",
            device="cpu",
            seed=0,
        )
        self.embed = nn.Linear(work.task.d_input, work.model.d_model)
        self.hooked = HookedTransformer(config)
        self.hooked.embed.requires_grad_(False)  # neither is used: vectors come in at layer 0
        self.hooked.pos_embed.requires_grad_(False)
        self.n_queries = work.task.n_chains

    def forward(self, inputs: Tensor) -> Tensor:
        return self.hooked(self.embed(inputs), start_at_layer=0)[:, -self.n_queries :]


def make(work: Work, dtype: str, compiled: bool) -> Callable[[int], float]:
    return ordinary_step(Hooked(work), work, dtype)

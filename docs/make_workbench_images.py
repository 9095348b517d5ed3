"""Trains a plain PyTorch model on induction and draws the pictures of docs/workbench.md: docs/images/workbench_*.svg.

Prints what each measure says of it, too.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hopscope
from hopscope.drawing.style import rendered
from hopscope.live import workbench

IMAGES = Path(__file__).parent / "images"
TOKENS, WIDTH, HEADS, LENGTH = 16, 64, 2, 13


class Block(nn.Module):
    """Attention and an MLP, both behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.ln1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln2(x))


class Small(nn.Module):
    """Two blocks over tokens and learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.head(self.ln(self.blocks(self.tokens(tokens) + self.places.weight)))
        return found


def rows(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Different tokens, then one of them again: asked is what followed it. And the same rows that ask for another."""
    random = torch.Generator().manual_seed(seed)
    tokens = torch.rand(n, TOKENS, generator=random).argsort(-1)[:, : LENGTH - 1]
    place, other = torch.rand(n, LENGTH - 2, generator=random).argsort(-1)[:, :2].split(1, -1)
    clean, corrupt = (torch.cat([tokens, tokens.gather(1, one)], 1) for one in (place, other))
    right, wrong = (tokens.gather(1, one + 1)[:, 0] for one in (place, other))
    return clean, corrupt, right, wrong


def trained(below: float = 0.02, most: int = 4000) -> Small:
    """A model that solves the task."""
    torch.manual_seed(0)
    model, mean = Small(), 3.0
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
    for step in range(most):
        clean, _, right, _ = rows(128, step)
        loss = F.cross_entropy(model(clean)[:, -1], right)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        mean = 0.95 * mean + 0.05 * float(loss.detach())
        if mean < below:
            break
    print(f"{step + 1} steps, loss {mean:.3f}")
    return model.eval()


def measures(model: nn.Module) -> list[workbench.Shown]:
    """All of the page."""
    clean, corrupt, right, wrong = rows(256, 1 << 20)
    wrapped = hopscope.wrap(model, clean)
    return [
        workbench.attention(wrapped, clean),
        workbench.nodes(wrapped, clean, corrupt, (right, wrong)),
        workbench.edges(wrapped, clean, corrupt, (right, wrong)),
        workbench.attribution(wrapped, clean, right, wrong),
        workbench.lens(wrapped, clean, right),
        workbench.composition(wrapped, clean),
        workbench.qk_ov(wrapped, clean),
        workbench.ablation(wrapped, clean, ["L0", "L1H0", "L1H1", "m0", "m1"], (right, wrong), null="mean"),
    ]


if __name__ == "__main__":
    for found in measures(trained()):
        print(f"{found.name}: {found}")
        (IMAGES / f"workbench_{found.name}.svg").write_bytes(rendered(found.picture(), "svg"))

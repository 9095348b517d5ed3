"""Hand-set attention layers: one whose outputs are sums of known directions, one whose prefix lengths are known.

The first has an induction head, and heads for the token before and the one before that. Every head writes the attended
token's own direction, drawn at random: 64 directions in 32 dimensions, in superposition. Outputs are sums of these
directions alone. The second layer has n-gram heads (Akyürek et al., 2024, arXiv:2401.12973) of orders 1 to 3. Each is
an induction head that needs a prefix of that many tokens.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.repeated_segment import RepeatedSegment

ORDERS = (1, 2, 3)
N_HEADS, N_TOKENS, D_HEAD, LENGTH = 3, 64, 32, 32
Z, PATTERN = "blocks.0.attn.hook_z", "blocks.0.attn.hook_pattern"
ALL_IN = 40  # a score that takes all attention


def task() -> RepeatedSegment:
    """Uniform random tokens with a segment that occurs twice."""
    return RepeatedSegment(length=LENGTH, d_vocab=N_TOKENS, shortest=8, longest=14, frequencies="uniform")


def prefix_heads() -> Transformer:
    """Induction heads that need prefixes of one, two and three tokens."""
    return layer(f"n_gram(orders='{','.join(map(str, ORDERS))}')", "none", 0)


def by_hand(seed: int) -> Transformer:
    """An induction head and two heads that look back, with directions of their own."""
    return layer("n_gram(orders='1')", f"relative(start='L0H1 1:{ALL_IN}; L0H2 2:{ALL_IN}')", seed)


@torch.no_grad()
def layer(attention: str, positions: str, seed: int) -> Transformer:
    """One attention layer with hand-set weights; other parts of the model are not used."""
    shape = Architecture(
        n_layers=1,
        n_heads=N_HEADS,
        d_model=N_TOKENS,
        d_head=D_HEAD,
        attention=attention,
        layer_norm=False,
        mlp=False,
        positions=positions,
        init="early_layers",
    )
    random = generator(seed, "directions of a layer by hand")
    model = Transformer.for_task(shape, task(), random).requires_grad_(False)
    model.W_E.copy_(torch.eye(N_TOKENS))
    codes = torch.randn(N_HEADS, N_TOKENS, D_HEAD, generator=random)
    weights(model)[:2] = 0  # queries and keys are off: tokens and distances alone decide where heads look
    weights(model)[2] = nn.functional.normalize(codes, dim=-1)
    return model


def weights(model: Transformer) -> Float[Tensor, "qkv head token d_head"]:
    """The weights of queries, keys and values."""
    return model.get_parameter("blocks.0.attn.W_QKV")


def directions(model: Transformer) -> Float[Tensor, "known d"]:
    """The known directions, one for each head and token, in the space of all heads' outputs concatenated."""
    known = torch.zeros(N_HEADS, N_TOKENS, N_HEADS, D_HEAD)
    for head, values in enumerate(weights(model)[2]):
        known[head, :, head] = values
    return known.flatten(0, 1).flatten(1)


def outputs(model: Transformer, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "row d"]:
    """All heads' outputs, concatenated, at every position after the second."""
    found: Tensor = model(tokens, cache=[Z])[1][Z]
    return found[:, 2:].flatten(2).flatten(0, 1)


def true_l0(model: Transformer, tokens: Int[Tensor, "batch position"]) -> float:
    """The mean number of known directions in an output: the number of attended tokens, summed over heads."""
    pattern = model(tokens, cache=[PATTERN])[1][PATTERN]
    moved = pattern @ nn.functional.one_hot(tokens, N_TOKENS).to(pattern.dtype)[:, None]
    return float((moved > 1e-6).double().sum((1, 3))[:, 2:].mean())


def drawn(n: int, seed: int) -> Int[Tensor, "batch position"]:
    """Tokens of n sequences."""
    tokens: Tensor = task().sample(n, generator(seed, "sequences of a layer by hand")).inputs
    return tokens

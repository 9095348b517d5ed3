"""A planted layer like that of indirect object identification (Wang et al., 2023): five heads with known roles.

Each sequence names two names, and one of them again. A *name mover* looks from the last token to the name that occurs
once, which is the answer. Other heads look to an earlier copy of a token, after it, and one back. The last head has two
unrelated tasks: from the last token it looks to the repeated name, and elsewhere it looks three back. Attention is set
by rule, and a head writes a random direction for each token that it attends to.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from hopscope.core.seeds import generator
from hopscope.experiments.reports import Row, row
from hopscope.probes.sparse_autoencoder import SparseTraining, trained
from hopscope_studies.attention_saes.kinds import KINDS, Parts, by_source, kind_rows, owned
from hopscope_studies.attention_saes.known import ALIKE, compared, right_head
from hopscope_studies.attention_saes.reading import known as as_rows

NAMES, TOKENS, D_HEAD, LENGTH = 10, 50, 21, 24  # 210 directions in 105 dimensions
#: What each head writes: its number, the first and the last of the tokens that it attends to, and the sources' kind.
WRITES = (
    (0, 1, TOKENS, "copy"),
    (1, 1, TOKENS, "after a copy"),
    (2, 1, TOKENS, "near"),
    (3, 1, NAMES, "far"),
    (4, 1, NAMES, "far"),
    (4, NAMES + 1, TOKENS, "near"),
)


def drawn(n: int, random: torch.Generator) -> tuple[Int[Tensor, "sequence position"], Int[Tensor, "2 sequence 1"]]:
    """Sequences of a start token (0), names (1 to `NAMES`) and other tokens.

    Returns:
        The tokens, and the places of the name that occurs once and of the other name's second occurrence.
    """
    ids = torch.randint(NAMES + 1, TOKENS + 1, (n, LENGTH), generator=random)
    ids[:, 0] = 0
    names, places = (torch.rand(n, 10, generator=random).argsort(1)[:, :2] + 1 for _ in range(2))
    again = torch.randint(11, 19, (n, 1), generator=random)
    ids.scatter_(1, places, names).scatter_(1, again, names[:, 1:])
    return ids, torch.stack([places[:, :1], again])


def attended(ids: Tensor, places: Tensor) -> Int[Tensor, "sequence head query"]:
    """The position that each head attends to; 0, where nothing is read, if there is nothing for it."""
    at = torch.arange(LENGTH)
    copy = ((ids[:, :, None] == ids[:, None]).tril(-1) * at).amax(-1)  # the latest
    after = torch.where(copy > 0, copy + 1, 0)
    back, third = ((at - by).clamp(min=0).expand_as(ids) for by in (1, 3))
    mover, both = places * (at == LENGTH - 1)
    both = both + third * (ids.gather(1, third) > NAMES) * (at < LENGTH - 1)
    return torch.stack([copy, after, back, mover, both], 1)


def read(values: Float[Tensor, "head token d_head"], ids: Tensor, places: Tensor, named: Tensor) -> Parts:
    """The heads' outputs by kind of source, with sources named by these tokens."""
    pattern = one_hot(attended(ids, places), LENGTH).to(values.dtype)
    return by_source(pattern, values[:, ids].transpose(0, 1), named)


def planted_rows(seed: int, n: int, training: SparseTraining) -> Iterator[Row]:
    """What an autoencoder of a planted layer recovers, next to controls, and the kinds of its features."""
    values = normalize(torch.randn(5, TOKENS + 1, D_HEAD, generator=generator(seed, "planted directions")), dim=-1)
    values[:, 0] = 0
    spots = [(head, token, kind) for head, first, last, kind in WRITES for token in range(first, last + 1)]
    owner, token, role = torch.tensor([(head, token, KINDS.index(kind)) for head, token, kind in spots]).T
    known = (one_hot(owner, 5)[..., None] * values[owner, token][:, None]).flatten(1)
    some, others = (drawn(n, generator(seed, "planted sequences", half)) for half in range(2))
    z, held = (read(values, *one, one[0]).sum(2).flatten(1) for one in (some, others))
    sae = trained(z, training)
    yield from as_rows({"known": len(known), **compared(sae, z, held, known, training)})
    yield row("autoencoder", "right_head", right_head(sae, held, known, owner))
    best, feature = (normalize(known, dim=1) @ sae.W_dec.T).max(1)
    for what, named in (("own", others[0]), ("another's", others[0].roll(1, 0))):
        again = read(values, *others, named)
        yield from kind_rows(sae, again, what)
        heads, kinds = (one[feature] for one in owned(sae, again))
        right = ((heads == owner) & (kinds == role))[best >= ALIKE]
        yield row("right kind", "features", float(right.sum() / max(len(right), 1)), other=what)

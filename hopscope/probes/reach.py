"""Probes: which pieces of its chain a position holds after each layer, and which it may (Musat, ICLR 2025, section 5).

The paper's theorem 1 counts pieces of information: the symbols x_0 … x_D of a chain, and the places p_1 … p_D of its
pairs. In its model of attention every position holds a contiguous run of them, which at most triples with each layer.
Here trained models are searched for the pieces, by a linear probe per residual stream, role and piece.

- **A probe is judged by naming.** A ridge regression predicts the symbol's numbers (for a pair, the code of its place).
  The prediction names one of the N candidates that the sequence offers for this piece, one per chain. Without
  information about the chain the right one is named in 1/N of all cases, because chains are exchangeable and steps are
  shuffled independently. So a piece counts as *decoded* if the accuracy's interval lies above 1/N.
- **R² alone misleads.** A head that attends uniformly to one step's N candidates finds them by place alone and follows
  no chain. But the mean of N independent symbols predicts each of them with R² = 1/N. A place p_k has no such floor:
  its candidates are the same in every sequence, so their mean is a constant, and R² = 0.
- **A mask may distinguish chains.** Under a causal mask the first token of a pair sees the second tokens of earlier
  pairs, and never its own. So what it sees there belongs to other chains. Excluding some candidates raises the accuracy
  above 1/N, and following them lowers it, without holding the piece itself. Cells where this is possible are marked
  `excludable`; what is decoded there does not violate the reach.
- **Sequences are the units.** The N chains of a sequence share its candidates, and the model may find one by excluding
  the others. So the interval is Wilson's with an effective number of independent answers, estimated from the variance
  between sequences (at least one per sequence, at most N), and simultaneous over all probes (Bonferroni).

A piece that is decoded is present. One that is not may still be present in a form that no linear map reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from jaxtyping import Float
from pandas import DataFrame
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.probes.linear import Moments, Probe, Tally
from hopscope.probes.pieces import Pieces, pieces_of
from hopscope.tasks.retrieval import Retrieval

CHUNK = 1 << 24  # numbers of residual streams in memory at a time


# Searching ---------------------------------------------------------------------------------------------------------


def probe(
    model: Model,
    task: Retrieval,
    n_train: int = 4000,
    n_select: int = 1000,
    n_test: int = 4000,
    seed: int = 0,
    *,
    shuffled: bool = False,
    tests: int | None = None,
) -> DataFrame:
    """Which pieces of its chain every position of a model holds, after every layer.

    All probes of one stream and role share one Gram matrix and one eigendecomposition. Sequences are processed in
    chunks that are not kept.

    Args:
        model: a model of the task.
        task: plain retrieval.
        n_train: sequences to fit the probes on; at least 2.
        n_select: sequences to choose their ridge strengths on; at least 2.
        n_test: sequences to judge them on; at least 2.
        seed: of these sequences, which share nothing with training or with each other.
        shuffled: whether to probe for the pieces of a randomly drawn chain: a control in which nothing can be decoded.
        tests: over how many probes the intervals hold simultaneously; by default those of this call.

    Returns:
        A row per stream, role and piece: layer (layers passed; 0 is the embedding), role, piece, kind (`symbol` or
        `position`), accuracy (0–1), low and high (its interval), floor (1/N), r2 (on held-out sequences), r2_floor
        (1/N for a symbol, 0 for a position), allowed (by the information-flow model), excludable (see above) and
        decoded (low > floor). A breach of the reach is decoded and neither allowed nor excludable.

    Raises:
        BadInput: the task is not plain retrieval, or a number of sequences is below 2.
    """
    if not isinstance(task, Retrieval):
        raise BadInput(f"probes know the pieces of plain retrieval alone; got {getattr(task, 'name', lambda: task)()}")
    if min(n_train, n_select, n_test) < 2:
        raise BadInput(f"every set must have at least 2 sequences; got {n_train}, {n_select} and {n_test}")
    sizes = {"train": n_train, "select": n_select, "test": n_test}
    _, score = fitted(model, task, sizes, seed, shuffled)
    return score.table(task, model.architecture.causal, tests)


def fitted(
    model: Model, task: Retrieval, sizes: Mapping[str, int], seed: int, shuffled: bool = False
) -> tuple[list[list[Probe]], Tally]:
    """The probe of every stream and place, and their answers; `sizes` are sequences to `train`, `select` and `test`."""
    train, select = (moments(model, task, sizes[use], seed, use, shuffled) for use in ("train", "select"))
    probes = [
        [Probe.fit(*pair, task.d_symbol) for pair in zip(*places, strict=True)]
        for places in zip(train, select, strict=True)
    ]
    score = Tally(len(probes), 2 * task.n_hops + 1)
    for streams, pieces in seen(model, task, sizes["test"], seed, "test", shuffled):
        score.n += len(pieces.right)
        for layer, stream in enumerate(streams):
            for place, of_place in enumerate(probes[layer]):
                score.add(layer, place, of_place, at(stream, pieces, place), pieces)
    return probes, score


def seen(
    model: Model, task: Retrieval, n: int, seed: int, purpose: str, shuffled: bool
) -> Iterator[tuple[list[Float[Tensor, "batch position d_model"]], Pieces]]:
    """Every residual stream on n sequences, from the embedding on, in chunks, with the pieces of each chunk."""
    n_layers, d_model = model.architecture.n_layers, model.architecture.d_model
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{layer}.hook_resid_post" for layer in range(n_layers))]
    size = max(1, min(512, CHUNK // (task.n_positions * d_model * len(names))))
    random = generator(seed, f"probe {purpose}", 0, model.device)
    drawn = generator(seed, f"probe {purpose} shuffled", 0, model.device) if shuffled else None
    while n > 0:
        batch = task.sample(min(n, size), random)
        with torch.no_grad():
            cache = model(batch.inputs, cache=names, at=slice(0, 0))[1]
        yield [cache[name] for name in names], pieces_of(task, batch, drawn)
        n -= size


def at(
    stream: Float[Tensor, "batch position d_model"], pieces: Pieces, place: int
) -> Float[Tensor, "batch chain d_model"]:
    """The residual vectors at one place along each chain."""
    index = pieces.positions[:, place, :, None].expand(-1, -1, stream.shape[-1])
    return stream.gather(1, index)


def moments(model: Model, task: Retrieval, n: int, seed: int, purpose: str, shuffled: bool) -> list[list[Moments]]:
    """The moments of every stream and place over n sequences."""
    n_places = 2 * task.n_hops + 1
    sums_of = [[Moments() for _ in range(n_places)] for _ in range(model.architecture.n_layers + 1)]
    for streams, pieces in seen(model, task, n, seed, purpose, shuffled):
        targets = pieces.targets.flatten(0, 1).flatten(1)
        for stream, places in zip(streams, sums_of, strict=True):
            for place, sums in enumerate(places):
                sums.add(at(stream, pieces, place).flatten(0, 1), targets)
    return sums_of

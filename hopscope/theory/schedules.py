"""Optimal schedules as a reference for circuits: all of them, the fewest heads, and the redundancy of a given circuit.

The paper remarks that Transformers A, B and C use four heads for three hops, although three would suffice (Musat, ICLR
2025, section 8.2). This module computes such statements. Only useful heads count: a pair of layer and head in which
some position attends along a path that the answer needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.theory.depth import Heads, Mask, chain_of, minimum_depth
from hopscope.theory.flow import Chain, simulate, without_spare
from hopscope.theory.search import Search


def optimal_schedules(
    hops: int, mask: Mask = "causal", heads: Heads = "one", order: str = "nearest_first", limit: int = 20_000
) -> list[tuple[Path, ...]]:
    """All minimal schedules of the minimum depth, sorted; no path of a minimal one can be removed.

    Schedules that differ only in the numbering of heads are the same. For shuffled facts they are those of a worst
    order; arguments are those of `hopscope.theory.depth.minimum_depth`.

    Raises:
        BadInput: an argument is out of range, or the search finds more than `limit` schedules, minimal or not.
    """
    chain = chain_of(hops, mask, order)
    depth = minimum_depth(hops, mask, heads, order)
    found = Search(chain, (1 if heads == "one" else 2,) * depth.min_layers).all(limit)
    return sorted(tuple(paths) for paths in found if is_minimal(chain, paths))


def is_minimal(chain: Chain, paths: Sequence[Path]) -> bool:
    """Whether paths bring the query the answer, and would not without any one of them."""
    others = ([other for other in paths if other != path] for path in paths)
    return simulate(chain, paths).solves and not any(simulate(chain, fewer).solves for fewer in others)


def fewest_heads(hops: int, mask: Mask = "causal", order: str = "nearest_first", n_layers: int | None = None) -> int:
    """The fewest useful heads over all layers, for a given number of layers or for any.

    Heads of one layer can be moved to consecutive layers of their own: every position then holds at least as much. So
    at least as many heads are needed as one-head layers, and with that many layers no more are needed. With fewer
    layers, a search finds how many layers need two heads.

    Args:
        hops: D.
        mask: `causal` or `none`.
        order: as in `hopscope.theory.depth`.
        n_layers: layers of the model; None for any number.

    Raises:
        BadInput: an argument is out of range, `n_layers` is below the minimum depth, or the search is too large.
    """
    chain = chain_of(hops, mask, order)
    alone = minimum_depth(hops, mask, "one", order).min_layers
    if n_layers is None or n_layers >= alone:
        return alone
    if n_layers < (least := minimum_depth(hops, mask, "many", order).min_layers):
        raise BadInput(f"layers must be at least {least} for {hops} hops; got {n_layers}")
    for heads in sorted(itertools.product((1, 2), repeat=n_layers), key=sum):
        if sum(heads) >= alone and Search(chain, heads).any():
            return sum(heads)
    raise AssertionError("two heads in every layer are as good as any number")


@dataclass(frozen=True)
class Yardstick:
    """A circuit compared with the optimum.

    Attributes:
        hops: D.
        mask: `causal` or `none`.
        order: of the facts.
        solves: whether its information flow brings the query the answer.
        layers: number of layers with a path.
        heads: number of heads with a path, over all layers.
        fewest_layers: how many layers suffice, with many heads each.
        fewest_heads: how many heads suffice, with one head in each layer.
        minimal: the paths that remain after superfluous ones are removed, last layers first.
        spare: the superfluous paths.
        blind: paths whose positions share no piece, which violates assumption 1.
        masked: paths that the mask forbids.
        elsewhere: paths between different chains, which this model of information flow does not describe.
    """

    hops: int
    mask: Mask
    order: str
    solves: bool
    layers: int
    heads: int
    fewest_layers: int
    fewest_heads: int
    minimal: tuple[Path, ...]
    spare: tuple[Path, ...]
    blind: tuple[Path, ...]
    masked: tuple[Path, ...]
    elsewhere: tuple[Path, ...]

    def as_dict(self) -> dict[str, Any]:
        """As in JSON."""
        return asdict(self)


def redundancy(paths: Sequence[Path], hops: int, mask: Mask = "causal", order: str = "nearest_first") -> Yardstick:
    """Compare a circuit, such as one found in a trained model, with the fewest layers and heads that its task needs.

    If the circuit does not solve the task, none of its paths counts as superfluous.

    Raises:
        BadInput: an argument is out of range, or a path names a role that a chain of `hops` does not have.
    """
    chain = chain_of(hops, mask, order)
    flow = simulate(chain, paths)
    elsewhere = tuple(path for path in paths if path.chain != "same")
    idle = {*elsewhere, *flow.blind, *flow.masked}
    able = [path for path in paths if path not in idle]
    kept = without_spare(chain, able) if flow.solves else able
    return Yardstick(
        hops,
        mask,
        order,
        flow.solves,
        len({path.layer for path in paths}),
        len({(path.layer, path.head) for path in paths}),
        minimum_depth(hops, mask, "many", order).min_layers,
        minimum_depth(hops, mask, "one", order).min_layers,
        tuple(sorted(kept)),
        tuple(sorted(set(able) - set(kept))),
        flow.blind,
        flow.masked,
        elsewhere,
    )

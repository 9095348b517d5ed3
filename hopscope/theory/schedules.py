"""Schedules as yardsticks: all that are optimal, the fewest heads, and how much of a given circuit could be spared.

The paper remarks of Transformers A, B and C, which use four heads for three hops, that three would have done (Musat,
ICLR 2025, section 8.2); here such remarks are computed. A head counts where it is useful: a pair of layer and head in
which some position attends along a path that the answer needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.theory.depth import Heads, Mask, chain_of, check_heads, minimum_depth
from hopscope.theory.flow import Chain, simulate, without_spare
from hopscope.theory.search import Search


def optimal_schedules(
    hops: int, mask: Mask = "causal", heads: Heads = "one", order: str = "nearest_first", limit: int = 20_000
) -> list[tuple[Path, ...]]:
    """All schedules of the least depth from which no path can be left out, up to the naming of heads, sorted.

    Of shuffled facts, those for a worst order. Raises BadInput if the search meets more than `limit` schedules, with
    and without spare paths.
    """
    chain = chain_of(hops, mask, order)
    check_heads(heads)
    depth = minimum_depth(hops, mask, heads, order)
    found = Search(chain, (1 if heads == "one" else 2,) * depth.min_layers).all(limit)
    return sorted(tuple(paths) for paths in found if is_minimal(chain, paths))


def is_minimal(chain: Chain, paths: Sequence[Path]) -> bool:
    """Whether the query gets the answer, but no longer when any one path is left out."""
    others = ([other for other in paths if other != path] for path in paths)
    return simulate(chain, paths).solves and not any(simulate(chain, fewer).solves for fewer in others)


def fewest_heads(hops: int, mask: Mask = "causal", order: str = "nearest_first", n_layers: int | None = None) -> int:
    """The fewest useful heads, counted over all layers; in so many layers, by default in any number.

    Heads that stand side by side in a layer can be put one after the other into layers of their own: then everybody
    holds as much or more. So there are never fewer heads than layers are needed with one head each, and given that many
    layers there need not be more. With fewer layers a search tells how many have to stand side by side.
    """
    chain = chain_of(hops, mask, order)
    alone = minimum_depth(hops, mask, "one", order).min_layers
    if n_layers is None or n_layers >= alone:
        return alone
    if n_layers < (least := minimum_depth(hops, mask, "many", order).min_layers):
        raise BadInput(f"layers must be at least {least} for {hops} hops; got {n_layers}")
    dealings = itertools.product((1, 2), repeat=n_layers)
    for dealing in sorted(dealings, key=sum):
        if sum(dealing) >= alone and Search(chain, dealing).any():
            return sum(dealing)
    raise AssertionError("two heads in every layer are as good as any number")


@dataclass(frozen=True)
class Yardstick:
    """A circuit, measured against the optimum.

    Attributes:
        solves: whether its information flow brings the query the answer.
        layers: how many layers its paths are in.
        heads: how many heads, counted over all layers.
        fewest_layers: how many would do, with many heads each.
        fewest_heads: how many would do, with as many layers.
        minimal: what is left when paths that can be spared are taken out, late layers first.
        spare: those paths.
        blind: paths whose positions share no piece when they attend: breaches of assumption 1.
        masked: paths that attend against the mask.
        elsewhere: paths between different chains, of which the model says nothing.
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
    """How a circuit, such as one found in a trained model, compares with the least that its task needs.

    It does not have to solve the task: then nothing of it is spare, for nothing of it suffices. Raises BadInput for
    roles that a chain of so many hops lacks.
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

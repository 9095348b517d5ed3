"""Constructed attention patterns: the ideal pattern of a path, and null patterns, of a head that does nothing.

They replace what a head computed, to see what it is needed for (Musat, ICLR 2025, appendix E). docs/contracts.md
defines the words. Rows are attending positions and sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.core.settings import check_choice
from hopscope.problem.paths import Path
from hopscope.problem.roles import Roles

#: Null patterns: uniform over all that a position sees; identity, on the position itself.
NULLS = ("uniform", "identity")


def visible(n_positions: int, causal: bool, device: torch.device | str | None = None) -> Bool[Tensor, "query key"]:
    """Which positions each position may attend to."""
    everything = torch.ones(n_positions, n_positions, dtype=torch.bool, device=device)
    return everything.tril() if causal else everything


def null(kind: str, sees: Bool[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """A null pattern. Raises BadInput for a kind that is not in `NULLS`."""
    check_choice("a null pattern", kind, NULLS)
    chosen = sees if kind == "uniform" else torch.eye(len(sees), dtype=torch.bool, device=sees.device)
    return chosen / chosen.sum(-1, keepdim=True)


def ideal(
    path: Path, roles: Roles, sees: Bool[Tensor, "query key"], several: str = "even"
) -> tuple[Float[Tensor, "batch query key"], Bool[Tensor, "batch query"]]:
    """A path's ideal rows, and the positions that have one: holders of its query role with a visible target.

    Args:
        path: the path; its layer and head are ignored.
        roles: the roles of the sequences.
        sees: what the mask allows; hidden targets do not count.
        several: where several positions hold the key role, `even` attends to all of them, `latest` to the last.
    """
    targets = roles.pairs(path.query, path.key, path.chain) & sees
    if several == "latest":
        later = targets.flip(-1).cumsum(-1).flip(-1)  # number of targets from here on
        targets = targets & (later == 1)
    held = targets.any(-1)
    return targets / targets.sum(-1, keepdim=True).clamp(min=1), held


def prescribed(
    base: Float[Tensor, "batch head query key"],
    paths: Iterable[Path] | Mapping[Path, float] | Mapping[Path, float | Tensor],
    roles: Roles,
    sees: Bool[Tensor, "query key"],
    several: str = "even",
) -> Float[Tensor, "batch head query key"]:
    """One layer's pattern with the rows of some paths ideal.

    Args:
        base: the rows of all other positions; not modified.
        paths: paths of that layer. Paths of one head and query role share the row: by their weights, which may differ
            between positions, or else evenly.
        roles: the roles of the sequences.
        sees: what the mask allows.
        several: as for `ideal`.
    """
    weights = paths if isinstance(paths, Mapping) else dict.fromkeys(paths, 1.0)
    if not weights:
        return base
    total, shares = torch.zeros_like(base), torch.zeros(base.shape[:3], device=base.device)
    for path, weight in weights.items():
        rows, held = ideal(path, roles, sees, several)
        total[:, path.head] += torch.as_tensor(weight, device=base.device)[..., None] * rows
        shares[:, path.head] += weight * held
    return torch.where(shares[..., None] > 0, total / shares[..., None].clamp(min=1e-9), base)

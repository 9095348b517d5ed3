"""Attention patterns made by hand: the ideal pattern of a path, and those that stand for a head that does nothing.

They replace what a head computed, to learn what it is needed for (Musat, ICLR 2025, appendix E); docs/contracts.md has
the words. Rows are attending positions and sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.problem.roles import Roles

#: Patterns of a head that does nothing: even over all that a position sees; itself alone.
NULLS = ("uniform", "identity")


def visible(n_positions: int, causal: bool, device: torch.device | str | None = None) -> Bool[Tensor, "query key"]:
    """Which positions a position may attend to."""
    everything = torch.ones(n_positions, n_positions, dtype=torch.bool, device=device)
    return everything.tril() if causal else everything


def null(kind: str, sees: Bool[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """The pattern of a head that does nothing. Raises BadInput for a kind that is not in `NULLS`."""
    if kind not in NULLS:
        raise BadInput(f"a null pattern must be one of {', '.join(NULLS)}; got {kind!r}")
    chosen = sees if kind == "uniform" else torch.eye(len(sees), dtype=torch.bool, device=sees.device)
    return chosen / chosen.sum(-1, keepdim=True)


def ideal(
    path: Path, roles: Roles, sees: Bool[Tensor, "query key"], several: str = "even"
) -> tuple[Float[Tensor, "batch query key"], Bool[Tensor, "batch query"]]:
    """The rows that a path prescribes, and for which positions it does: holders of its query role with a target.

    Args:
        path: its layer and head are not looked at.
        roles: of the sequences.
        sees: what the mask allows; targets that it hides are none.
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
        base: the rows of all other positions; it is not changed.
        paths: of that layer. Paths of one head and query role share the row: by their weights, if they have any, which
            may differ from position to position; else evenly.
        roles: of the sequences.
        sees: what the mask allows.
        several: as `ideal` has it.
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

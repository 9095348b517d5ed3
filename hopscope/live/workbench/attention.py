"""Patterns by role, before any search; with roles that tokens suggest, where nobody names any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.live.borrowed import borrowed
from hopscope.live.checks import Naming, check_at, roles_of
from hopscope.live.given import slice_of
from hopscope.live.workbench.base import Asked, Shown
from hopscope.models.base import at_rest
from hopscope.problem.relations import relations
from hopscope.problem.roles import RELATIONS, Roles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 0.95  # of rows that must hold a role, so that it is suggested (ours)
DEEPEST = 16  # facts in a chain


def attention(model: Any, inputs: Tensor, *, roles: Naming | Roles | None = None, at: int = -1) -> Shown:
    """Mean attention of every head from role to role.

    Args:
        model: as `hopscope.wrap` takes it.
        inputs: some rows.
        roles: of positions, as `hopscope.find_circuit` takes them; by default those that tokens suggest (`suggested`)
            or, where there are none, relations between positions.
        at: the position that answers.

    Returns:
        A row for each head and path (layer, head, query, key, chain, attention), the strongest first.

    Raises:
        BadInput: something does not fit.
    """
    lent = borrowed(model, inputs)
    asked, named = Asked(lent, inputs, at), "named"
    if roles is None:
        try:
            roles, named = suggested(inputs, at=at), "suggested by tokens"
        except BadInput:
            named = "relations between positions"
    found = roles_of(roles, asked.inputs, slice_of(asked.at)) or relations(asked.inputs, slice_of(asked.at))
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(asked.n_layers)]
    with at_rest(lent):
        patterns = asked.activations(*names)
    strengths = torch.stack([found.strengths(patterns[name].float()) for name in names]).cpu()
    return shown(strengths, found, named)


def shown(strengths: Tensor, roles: Roles, named: str) -> Shown:
    """Of mean attention on every path, (layer, relation, head, query role, key role), table, picture and words."""
    from pandas import DataFrame

    def draw() -> Figure:
        from hopscope.drawing.attention_maps import mean_role_attention

        return mean_role_attention(strengths, roles.names, roles.attended)

    rows = [
        (layer, head, roles.names[query], roles.attended[key], RELATIONS[relation], float(strengths[index]))
        for index in strengths.isnan().logical_not().nonzero().tolist()
        for index, (layer, relation, head, query, key) in [(tuple(index), index)]
    ]
    columns = ["layer", "head", "query", "key", "chain", "attention"]
    table = DataFrame(rows, columns=columns).sort_values("attention", ascending=False, kind="stable", ignore_index=True)
    strong = [f"L{row[0]}H{row[1]} {row[2]}->{row[3]} {row[5]:.2f}" for row in table.head(5).itertuples(index=False)]
    words = f"Roles ({named}): {', '.join(roles.names)}. The strongest mean attention: {', '.join(strong)}."
    return Shown("attention", words, table, draw)


def suggested(inputs: Tensor, *, at: int = -1) -> Naming:
    """Roles that tokens suggest: the chain that a query begins, as `hopscope.find_circuit` takes them.

    `key[1]` is the one other position that holds the query's token, `value[1]` the position after it, `key[2]` the one
    other position that holds that token, and so on, as far as 95 % of the rows have them.

    Args:
        inputs: tokens (int, row position).
        at: the position that answers.

    Raises:
        BadInput: inputs are no tokens, or they do not repeat in this way.
    """
    if not isinstance(inputs, Tensor) or inputs.is_floating_point() or inputs.ndim != 2:
        raise BadInput("roles are suggested by tokens (row, position); name those of features by roles=")
    check_at(at, inputs.shape[1])
    place = at % inputs.shape[1]
    depths = torch.tensor([len(chain_of(row, place)) for row in inputs.tolist()])
    deepest = max((k for k in range(1, DEEPEST + 1) if float((depths >= k).float().mean()) >= MOST), default=0)
    if not deepest:
        raise BadInput("no roles are suggested: the query's token does not stand at one other position; name roles")

    def naming(row: list[Any]) -> dict[str, int]:
        facts = list(enumerate(chain_of(row, place)[:deepest], 1))
        keys = {f"key[{k}]": key for k, key in facts}
        return {"query": place, **keys, **{f"value[{k}]": key + 1 for k, key in facts if key + 1 != place}}

    return naming


def chain_of(row: list[Any], place: int) -> list[int]:
    """The places of a chain's keys, from a query on, as far as each is the only one."""
    found: list[int] = []
    token, known = row[place], {place}
    while len(found) < DEEPEST:
        able = [i for i, held in enumerate(row) if held == token and i not in known]
        if len(able) != 1 or able[0] + 1 >= len(row) or able[0] + 1 in known:
            break
        found.append(able[0])
        known |= {able[0], able[0] + 1}
        token = row[able[0] + 1]
    return found

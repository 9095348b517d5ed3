"""Mean attention from role to role, without a search; by default with roles that repeated tokens suggest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from pandas import DataFrame
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.live.checks import Naming, check_at, roles_of
from hopscope.live.given import slice_of
from hopscope.live.workbench.base import Shown, studied
from hopscope.problem.relations import relations
from hopscope.problem.roles import RELATIONS, Roles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 0.95  # share of rows that must have a role for it to be suggested (ours)
DEEPEST = 16  # most facts in a chain


def attention(model: Any, inputs: Tensor, *, roles: Naming | Roles | None = None, at: int = -1) -> Shown:
    """Mean attention of every head from role to role.

    Args:
        model: as for `hopscope.wrap`.
        inputs: some rows.
        roles: of positions, as for `hopscope.find_circuit`; by default those that tokens suggest (`suggested`) or, if
            there are none, relations between positions.
        at: the position of the answer.

    Returns:
        A row for each head and path (layer, head, query, key, chain, attention from 0 to 1), the strongest first.

    Raises:
        BadInput: an argument does not fit.
    """
    named = "named"
    if roles is None:
        try:
            roles, named = suggested(inputs, at=at), "suggested by tokens"
        except BadInput:
            named = "relations between positions"
    with studied(model, inputs, at) as subject:
        answer = slice_of(subject.at)
        found = roles_of(roles, subject.inputs, answer) or relations(subject.inputs, answer)
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(subject.n_layers)]
        patterns = subject.activations(*names)
    strengths = torch.stack([found.strengths(patterns[name].float()) for name in names]).cpu()
    return shown(strengths, found, named)


def shown(strengths: Tensor, roles: Roles, named: str) -> Shown:
    """The result from the mean attention on every path, (layer, relation, head, query role, key role)."""

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
    """Roles for `hopscope.find_circuit` that repeated tokens suggest: the chain that begins at the query.

    `key[1]` is the only other position with the query's token, `value[1]` the position after it, `key[2]` the only
    other position with that token, and so on, as long as 95 % of the rows have them.

    Args:
        inputs: tokens (int, row position).
        at: the position of the answer.

    Raises:
        BadInput: inputs are not tokens, or tokens do not repeat in this way.
    """
    if not isinstance(inputs, Tensor) or inputs.is_floating_point() or inputs.ndim != 2:
        raise BadInput("roles are suggested for tokens (row, position); give the roles of features by roles=")
    check_at(at, inputs.shape[1])
    place = at % inputs.shape[1]
    depths = torch.tensor([len(chain_of(row, place)) for row in inputs.tolist()])
    deepest = max((k for k in range(1, DEEPEST + 1) if float((depths >= k).float().mean()) >= MOST), default=0)
    if not deepest:
        raise BadInput("no roles are suggested: the query's token is not at exactly one other position; give roles=")

    def naming(row: list[Any]) -> dict[str, int]:
        facts = list(enumerate(chain_of(row, place)[:deepest], 1))
        keys = {f"key[{k}]": key for k, key in facts}
        return {"query": place, **keys, **{f"value[{k}]": key + 1 for k, key in facts if key + 1 != place}}

    return naming


def chain_of(row: list[Any], place: int) -> list[int]:
    """The positions of a chain's keys from a query on, as long as each is the only one with its token."""
    keys: list[int] = []
    token, known = row[place], {place}
    while len(keys) < DEEPEST:
        candidates = [i for i, held in enumerate(row) if held == token and i not in known]
        if len(candidates) != 1 or candidates[0] + 1 >= len(row) or candidates[0] + 1 in known:
            break
        keys.append(candidates[0])
        known |= {candidates[0], candidates[0] + 1}
        token = row[candidates[0] + 1]
    return keys

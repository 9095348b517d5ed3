"""What stands to every query of `hop_k` and `k_fold`, position by position, against the definitions in plain Python."""

from __future__ import annotations

import pytest
import torch

from hopscope.problem.relations import Relations
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope.tasks.k_fold import KFold


def related(roles: Relations, name: str, row: int) -> dict[int, list[int]]:
    """For each query the positions that stand to it so, from the relation's map."""
    pairs = roles.pairs("query", name, "same")[row].nonzero().tolist()
    return {q: [k for p, k in pairs if p == q] for q, _ in pairs}


@pytest.mark.parametrize("seed", range(5))
def test_every_letter_of_hop_k_has_its_own_targets(seed):
    task = HopK(length=14, n_letters=3, n_hops=3)
    batch = task.sample(20, seed)
    roles = batch.searched
    for row in range(20):
        hops, letters = int(batch.draw["hops"][row, 0]), batch.draw["letters"][row].tolist()

        def find(place, letters=letters):
            earlier = [j for j in range(1, place) if letters[j - 1] == letters[place]]
            return max(earlier, default=None)

        for place in range(len(letters)):
            position, chain = place + 1, [place]
            for _ in range(3):
                chain.append(None if chain[-1] is None else find(chain[-1]))
            for k in (1, 2, 3):
                wanted = [] if chain[k] is None else [chain[k] + 1]
                assert related(roles, f"value[{k}]", row).get(position, []) == wanted
                assert related(roles, f"key[{k}]", row).get(position, []) == [at - 1 for at in wanted]
            answer = [] if chain[hops] is None else [chain[hops] + 1]
            assert related(roles, "answer", row).get(position, []) == answer
            assert related(roles, "nowhere", row).get(position, []) == ([] if answer else [0])
            assert related(roles, "count", row).get(position, []) == ([0] if answer else [])
            assert related(roles, "−1", row).get(position, []) == ([position - 1] if place else [])


def test_answers_of_hop_k_stand_where_it_is_said():
    task = HopK(length=12, n_letters=4, n_hops=2)
    batch = task.sample(64, 0)
    answers = batch.targets.amax(-1)
    at = batch.searched.pairs("query", "answer", "same")[:, 1:]
    found = at.any(-1)
    assert torch.equal(found, answers != task.undefined)
    assert torch.equal(batch.inputs[torch.where(found)[0], at.long().argmax(-1)[found]], answers[found])


@pytest.mark.parametrize("cyclic", [True, False])
def test_every_position_of_k_fold_has_its_own_targets(cyclic):
    task = KFold(n_hops=3, n_symbols=4, counts="all", cyclic=cyclic)
    batch = task.sample(6, 2)
    roles, shown, hidden = batch.searched, batch.draw["shown"], task.permutations
    for row in range(6):
        for position in range(12 if cyclic else 4):
            fold, symbol = divmod(position, 4)
            for j in (1, 2, 3):
                assert related(roles, f"key[{j}]", row)[position] == [fold * 4 + symbol]
                place = int(hidden[fold, symbol])
                assert related(roles, f"value[{j}]", row)[position] == [fold * 4 + place]
                symbol = int(shown[row, fold, place])
                assert symbol == int(batch.targets[row, position, j - 1])
                fold = (fold + 1) % 3


def test_other_tasks_are_searched_in_their_roles():
    batch = Induction(length=6, d_vocab=8).sample(3, 0)
    assert batch.searched is batch.roles

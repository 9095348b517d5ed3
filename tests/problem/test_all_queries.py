"""What stands to every query of `hop_k` and `k_fold`, position by position, against the definitions in plain Python."""

from __future__ import annotations

import pytest
import torch

from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.units import Ground
from hopscope.circuits.words import paragraph
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.relations import Relations
from hopscope.tasks.base import Batch
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


def folded(task: KFold) -> Transformer:
    """Two layers for two hops, by hand: each position looks into its own fold, then at what it found in the next."""
    n, symbols, hidden = task.n_positions, task.n_symbols, task.permutations
    token, place, one, two = (slice(a, b) for a, b in ((0, symbols), (symbols, symbols + n), (18, 22), (22, 26)))
    shape = Architecture(n_layers=2, d_model=26, d_head=26, layer_norm=False, mlp=False, causal=False)
    model = Transformer.for_task(shape, task)
    for parameter in model.parameters():
        parameter.data.zero_()
    model.W_E.data[:, token], model.W_pos.data[:, place] = torch.eye(symbols), torch.eye(n)
    model.W_U.data[one, :symbols] = model.W_U.data[two, symbols:] = 20 * torch.eye(symbols)
    first, second = (block.attn for block in model.blocks)
    scale = 40 * shape.head_width**0.5
    fold, symbol = torch.arange(n) // symbols, torch.arange(n) % symbols
    first.W_QKV.data[0, 0, place, :n] = (
        scale * torch.eye(n)[fold * symbols + hidden[fold, symbol]]
    )  # where hop 1 stands
    first.W_QKV.data[1, 0, place, :n] = torch.eye(n)
    asked_by = hidden.argsort(-1)[fold, symbol]  # of every place the symbol whose hop is shown there
    second.W_QKV.data[0, 0, place, :2] = scale * torch.eye(2)[(fold + 1) % 2]
    second.W_QKV.data[1, 0, place, :2] = torch.eye(2)[fold]
    second.W_QKV.data[0, 0, one, 2:6] = scale * torch.eye(symbols)
    second.W_QKV.data[1, 0, place, 2:6] = torch.eye(symbols)[asked_by]
    for attn, target in ((first, one), (second, two)):
        attn.W_QKV.data[2, 0, token, :symbols] = torch.eye(symbols)
        attn.W_O.data[0, :symbols, target] = torch.eye(symbols)
    return model.eval()


def test_a_model_that_answers_at_every_position_has_its_circuit():
    """Seen from the first permutation alone, what the others ask was nobody's, and no set of paths could be found."""
    task = KFold(n_hops=2, n_symbols=4, counts="all")
    model, batch = folded(task), task.sample(64, 1)
    with torch.no_grad():
        assert task.correct(model(batch.inputs), batch).all()
    circuit = discover(model, task, Discovery(discovery=32, selection=32, report=64))
    assert circuit.verdict == "circuit", circuit.reason
    assert sorted(str(found.path) for found in circuit.paths) == ["L0H0 query->value[1]", "L1H0 query->value[2]"]
    [supply] = circuit.supplies
    assert (str(supply.source), supply.part) == ("L0H0 query->value[1]", "query")
    assert "the positions of role" not in paragraph(circuit, task)
    seen_from_one = Batch(task, batch.draw)
    seen_from_one.__dict__["searched"] = batch.roles
    assert set(Ground(seen_from_one, model.architecture).query_roles) != {"query"}

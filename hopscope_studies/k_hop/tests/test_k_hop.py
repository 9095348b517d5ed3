"""Tests of `k_hop`: k-fold composition and two hops by hand, curricula, and claims."""

from __future__ import annotations

import math

import pytest
import torch
from pandas import DataFrame

from hopscope import Architecture
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.experiments.results import claim_ids
from hopscope.models import Transformer
from hopscope.problem.roles import ABSENT
from hopscope.tasks.base import TokenTask
from hopscope.tasks.k_fold import KFold
from hopscope.tasks.two_hop import TwoHop
from hopscope_studies.k_hop.experiments import k_hop
from hopscope_studies.stacked_heads.experiments import curricula

NAN = float("nan")


def by_hand(shown: list[list[int]], hidden: list[list[int]], a: int, b: int, hops: int) -> int:
    """The definition: apply s_a p_a, then s_(a+1) p_(a+1) and so on, cyclically."""
    for i in range(hops):
        turn = (a + i) % len(shown)
        b = shown[turn][hidden[turn][b]]
    return b


@pytest.mark.parametrize("cyclic", [True, False])
@pytest.mark.parametrize(("k", "counts"), [(1, "doubling"), (3, "all"), (4, "doubling"), (6, "doubling")])
def test_every_answer_is_the_definitions(k, counts, cyclic):
    task = KFold(n_hops=k, n_symbols=4, counts=counts, cyclic=cyclic)
    batch = task.sample(20, 1)
    hidden = task.permutations.tolist()
    for row in range(20):
        shown = batch.draw["shown"][row].tolist()
        assert batch.inputs[row].tolist() == [x for permutation in shown for x in permutation]
        asked = [(a, b) for a in range(k if cyclic else 1) for b in range(4)]
        expected = [[by_hand(shown, hidden, a, b, h) for h in task.difficulties] for a, b in asked]
        assert batch.targets[row].tolist() == expected


def test_two_permutations_by_hand():
    """For s = (1 2 0), (2 0 1) and no hidden permutation: 0 → 1 → 0, 1 → 2 → 1, 2 → 0 → 2, and cyclically."""
    task = KFold(n_hops=2, n_symbols=3, hidden=0)
    draw = {"shown": torch.tensor([[[1, 2, 0], [2, 0, 1]]])}
    assert task.targets(draw)[0].tolist() == [[1, 0], [2, 1], [0, 2], [2, 0], [0, 1], [1, 2]]
    assert task.brute_force([1, 2, 0, 2, 0, 1])[0] == [1, 0]


def test_hidden_permutations_belong_to_the_task():
    first, again, other = KFold(), KFold(), KFold(hidden=2)
    assert torch.equal(first.permutations, again.permutations)
    assert not torch.equal(first.permutations, other.permutations)
    assert (KFold(hidden=0).permutations == torch.arange(5)).all()
    assert (first.permutations.sort(-1).values == torch.arange(5)).all()


def test_numbers_of_hops():
    assert KFold(n_hops=8).hop_names == ("k=1", "k=2", "k=4", "k=8")
    assert KFold(n_hops=6).difficulties == (1, 2, 4, 6)
    assert KFold(n_hops=3, counts="all").difficulties == (1, 2, 3)
    with pytest.raises(BadInput, match="trained must be one of 1, 2, 4; got 3"):
        KFold(trained=3)
    with pytest.raises(BadInput, match="no 'hard' in curricula"):
        KFold(curriculum="hard")


def test_only_the_hops_of_the_batch_are_trained_and_all_are_measured():
    """Logits of other numbers of hops get no gradient; with the implicit curriculum all get one."""
    for name, reached in (("staged", [False, True, False]), ("implicit", [True, True, True])):
        task = KFold(curriculum=name)
        batch = (task.at(2) if name == "staged" else task).sample(3)
        outputs = torch.zeros(3, task.n_positions, task.d_output, requires_grad=True)
        batch.task.loss(outputs, batch.targets).backward()
        touched = outputs.grad.unflatten(-1, (3, 5)).abs().sum((0, 1, 3)) > 0
        assert touched.tolist() == reached
        assert task.hop_losses(outputs, batch.targets).tolist() == pytest.approx([math.log(5)] * 3)


def test_roles_follow_each_chain():
    """value[j] holds what hop j leads to, and key[j + 1] is where that symbol is asked about."""
    task = KFold(n_hops=3)
    batch = task.sample(30, 0)
    chain, inputs, targets = batch.roles.chain, batch.inputs, task.but(counts="all").targets(batch.draw)
    assert batch.roles.names == ("query", "value[1]", "key[2]", "value[2]", "key[3]", "value[3]")
    for row in range(30):
        for start in range(5):
            for j in range(3):
                place = int((chain[row, 2 * j + 1] == start).nonzero())
                assert inputs[row, place] == targets[row, start, j]
                if j:
                    at = int((chain[row, 2 * j] == start).nonzero())
                    assert at == 5 * j + targets[row, start, j - 1]


def test_two_hop_counts_and_order():
    """1 to 4 chains are equally frequent, there are always 11 pairs, and a chain's first pair precedes its second."""
    task = TwoHop()
    batch = task.sample(4000, 0)
    kind = batch.draw["kind"]
    assert task.n_positions == 23
    shares = torch.bincount(batch.draw["chains"][:, 0], minlength=5) / 4000
    assert (shares[1:] - 0.25).abs().max() < 5 * (0.25 * 0.75 / 4000) ** 0.5
    for row in range(200):
        n = int(batch.draw["chains"][row])
        assert sorted(k for k in kind[row].tolist() if k >= 0) == list(range(2 * n))
        for c in range(n):
            places = [kind[row].tolist().index(k) for k in (2 * c, 2 * c + 1)]
            assert places == sorted(places)
        assert len(set(batch.inputs[row, :-1].tolist())) == 22 - n  # only a chain's middle stands twice


def test_two_hop_guesses_cost_what_the_baselines_say():
    """Guessing among ends of chains costs the mean of ln 1 … ln 4, and among all ends that of ln 7 … ln 10."""
    task = TwoHop()
    assert task.baselines["any end of a chain"] == pytest.approx(math.log(24) / 4)
    assert task.baselines["any end"] == pytest.approx(math.log(5040) / 4)
    batch = task.sample(2000, 0)
    held = batch.roles.chain != ABSENT
    ends = held[:, 4]  # value[2]: the ends of all chains
    logits = torch.full((2000, 1, task.d_vocab), -1e9)
    for row in range(2000):
        logits[row, 0, batch.inputs[row][ends[row]]] = 0.0
    assert float(task.loss(logits, batch.targets)) == pytest.approx(math.log(24) / 4, abs=0.05)


def test_two_hop_without_distractors_is_five_chains_of_two_pairs():
    """As in the authors' script: 15 different tokens, each middle twice, and a guess among ends costs ln 5."""
    task = TwoHop(n_pairs=10, n_chains=5, fewest=5)
    batch = task.sample(300, 0)
    assert (batch.draw["chains"] == 5).all() and (batch.draw["kind"] >= 0).all()
    assert all(len(set(row[:-1])) == 15 for row in batch.inputs.tolist())
    assert task.baselines["any end of a chain"] == task.baselines["any end"] == pytest.approx(math.log(5))
    for row in batch.inputs.tolist()[:50]:
        again = task.read(row)
        assert task.inputs(again)[0].tolist() == row
    with pytest.raises(BadInput, match="fewest must be at most chains, 4; got 5"):
        TwoHop(fewest=5)
    chain, others = [0, 1, 1, 2], list(range(3, 19))  # one chain, eight distractors
    with pytest.raises(BadInput, match="there may be 5 chains"):
        task.read([*chain, *others, 0])


def test_two_hop_refuses_what_does_not_fit():
    with pytest.raises(BadInput, match="pairs must be at least 8"):
        TwoHop(n_pairs=7)
    with pytest.raises(BadInput, match="d-vocab must be at least 21"):
        TwoHop(d_vocab=20)


def doubling_attends(task: KFold, draw, layer: int) -> torch.Tensor:
    """The pattern of the paper's construction in a layer, one-hot; shape (batch, query, key)."""
    once, n = task.once(draw), len(draw["shown"])
    k, symbols = once.shape[1:]
    if layer == 0:  # the hidden permutation, by place alone
        at = task.permutations.expand(n, -1, -1) + symbols * torch.arange(k)[:, None]
    else:  # what 2^(layer − 1) hops lead to, that many permutations on
        reach = 2 ** (layer - 1)
        reached = task.but(counts="all").targets(draw)[..., reach - 1].view(n, k, symbols)
        at = reached + symbols * ((torch.arange(k)[:, None] + reach) % k)
    return torch.nn.functional.one_hot(at.flatten(1), k * symbols).float()


def test_pointers_that_double_answer_every_number_of_hops():
    """Chained, the construction's patterns up to layer l read 2^l hops, so ⌈log2 k⌉ + 1 layers suffice."""
    task = KFold(n_hops=8)
    assert isinstance(task, TokenTask)
    batch = task.sample(10, 0)
    reached = torch.nn.functional.one_hot(batch.inputs, 5).float()
    for layer in range(k_hop.enough(8)):
        reached = doubling_attends(task, batch.draw, layer) @ reached
        assert torch.equal(reached.argmax(-1), batch.targets[..., layer])


@pytest.mark.parametrize(("k", "layers"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (8, 4), (9, 5), (16, 5)])
def test_layers_that_are_enough(k, layers):
    assert k_hop.enough(k) == layers == math.ceil(math.log2(k)) + 1


def test_a_model_for_all_stages_reads_every_position():
    task = KFold(curriculum="layerwise")
    model = Transformer.for_task(Architecture(n_layers=1, d_model=8, causal=False), task, generator(0, "init"))
    assert model.W_pos.shape == (20, 8)
    assert model(task.at(1).sample(2).inputs, at=task.query_positions).shape == (2, 20, 15)


# Claims on tables made by hand ------------------------------------------------------------------------------------


def run_of(curriculum: str, task_k: int, layers: int, learnt: dict[int, int | None], end: int = 1000, seed: int = 0):
    """Rows of a run whose hops fall from ln 4 to 0 at these steps (None: never)."""
    about = {"run": f"{curriculum}{task_k}.{layers}.{seed}", "version": "v", "seed": seed, "chance": math.log(4)}
    about |= {"curriculum": curriculum, "task_k": task_k, "layers": layers, "val_loss": 1.0}
    return [
        {**about, "step": step, "hop": f"k={k}", "k": k, "hop_loss": 0.0 if at and step >= at else math.log(4)}
        for k, at in learnt.items()
        for step in range(0, end + 1, 50)
    ]


def tidy_runs() -> list[dict]:
    rows = run_of("none", 2, 2, {1: None, 2: 100}) + run_of("none", 3, 3, {1: None, 2: None, 3: None})
    rows += run_of("none", 4, 3, {1: None, 2: None, 4: None})
    for k, ends in ((2, {1: 100, 2: 200}), (4, {1: 100, 2: 200, 4: 350})):
        rows += run_of("layerwise", k, 3, ends) + run_of("mixture", k, 3, ends)
    rows += run_of("implicit", 4, 1, {1: 100, 2: None, 4: None}) + run_of("implicit", 4, 2, {1: 50, 2: 100, 4: None})
    return rows + run_of("implicit", 4, 3, {1: 50, 2: 100, 4: 150})


def judged(source, rows: list[dict]):
    return {claim.id: (claim.verdict, claim.number) for claim in source.claims(DataFrame(rows))}


def test_claims_of_k_hop():
    """With rows every 50 steps, half of ln 4 is passed at 75 for a fall at 100; k = 2 costs 175 and k = 4 325 steps."""
    found = judged(k_hop, tidy_runs())
    verdicts = {name: verdict for name, (verdict, _) in found.items()}
    assert verdicts == dict.fromkeys(claim_ids("k_hop"), "holds") | {
        "cost_alone": "undecided"
    }  # one ratio, a lower bound
    assert found["k_hops_alone_stay_at_chance"][1] == pytest.approx(1.0)
    assert found["cost_alone"][1] == pytest.approx(1000 / 75)
    assert found["cost_of_a_mixture"][1] == pytest.approx(math.log(325 / 175) / math.log(2))
    assert found["layer_by_layer"][1] == 1.0


@pytest.mark.parametrize(("end", "verdict"), [(2000, "holds"), (1000, "fails")])
def test_two_ratios_show_a_law(end: int, verdict: str):
    """k = 2 costs 75 steps, k = 3 325, more than four times as many, and k = 4 more than the whole run."""
    rows = [row for row in tidy_runs() if row["curriculum"] != "none"]
    rows += run_of("none", 2, 2, {2: 100}) + run_of("none", 3, 3, {3: 350}) + run_of("none", 4, 3, {4: None}, end)
    assert judged(k_hop, rows)["cost_alone"] == (verdict, pytest.approx((325 / 75 + end / 325) / 2))


def test_claims_of_k_hop_that_fail():
    rows = [row for row in tidy_runs() if not (row["curriculum"] == "none" and row["task_k"] == 4)]
    rows = [row for row in rows if not (row["curriculum"] == "implicit" and row["layers"] == 2)]
    rows += run_of("none", 4, 3, {1: None, 2: None, 4: 300}) + run_of("implicit", 4, 2, {1: 50, 2: 100, 4: 90})
    rows += run_of("layerwise", 8, 4, {8: None}) + run_of("mixture", 8, 4, {8: None})
    found = {name: verdict for name, (verdict, _) in judged(k_hop, rows).items()}
    assert found["k_hops_alone_stay_at_chance"] == "fails"
    assert found["curriculum_solves"] == found["mixture_solves"] == found["cost_of_a_mixture"] == "fails"
    assert found["hops_in_order"] == found["layer_by_layer"] == "fails"


def ending(curriculum: str, seed: int, loss: float, learnt: float) -> dict:
    about = {"run": f"{curriculum}{seed}", "version": "v", "seed": seed, "hop": "x2", "k": 2, "steps": 1000}
    return {**about, "curriculum": curriculum, "loss": loss, "learnt": learnt, "solved": loss < 0.05}


def test_claims_of_curricula():
    rows = [ending("none", s, 0.75, NAN) for s in (0, 1)] + [ending("implicit", s, 0.01, 100) for s in (0, 1)]
    rows += [ending(name, s, 0.01, 300) for name in ("mixture", "staged", "layerwise") for s in (0, 1)]
    found = judged(curricula, rows)
    assert {verdict for verdict, _ in found.values()} == {"holds"}
    assert found["implicit_is_fastest"][1] == pytest.approx(3.0)
    never = [row | {"learnt": NAN} if row["curriculum"] not in ("implicit", "none") else row for row in rows]
    assert judged(curricula, never)["implicit_is_fastest"] == ("holds", pytest.approx(10.0))  # 1,000 steps at least
    assert judged(curricula, [row | {"learnt": NAN} for row in rows])["implicit_is_fastest"][0] == "undecided"
    rows[-1]["loss"] = rows[0]["loss"] = 0.6
    rows[2]["learnt"] = rows[3]["learnt"] = 900
    found = judged(curricula, rows)
    assert [found[name][0] for name in ("none_fails", "layerwise_solves", "implicit_is_fastest")] == ["fails"] * 3

"""Tests of `causal_structure`: sequences, hand-set transformers, readings, and claims that hold and that fail."""

from __future__ import annotations

import math

import pytest
import torch
from pandas import DataFrame

from hopscope import Config, Training
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.evaluator import Evaluator
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.emergence.record import attention
from hopscope.experiments.quantities import Quantities
from hopscope.interventions.clamps import parse_clamps, replacements
from hopscope.measures.attention_on_path import attention_on_path
from hopscope.measures.base import observe
from hopscope.problem.paths import Path
from hopscope.tasks.base_sources import expected_loss, expected_loss_of_logits
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.causal_structure.claims import claims, query_share
from hopscope_studies.causal_structure.constructions import ANSWER, WAYS, constructed
from hopscope_studies.causal_structure.measures.parent_attention import parent_attention
from hopscope_studies.causal_structure.models.disentangled_transformer import DisentangledArchitecture
from hopscope_studies.causal_structure.readings import at_the_end, outstanding
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences

TASK = CausalSequences(graph_seed=3)
EVEN = CausalSequences(graph="two_parents", roots="uniform", d_vocab=2, length=9)

# The task --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [EVEN, CausalSequences(roots="uniform", d_vocab=4, concentration=0.6)], ids=str)
def test_with_even_roots_the_vectorised_floor_is_the_plain_one(task):
    """On 2,000 sequences both agree to 1e-12, since they are the same conjugate posterior, computed in two ways."""
    batch = task.sample(2000, 5)
    found = task.foretold(batch.inputs)[:, 0].tolist()
    for inputs, law in zip(batch.inputs.tolist(), found, strict=True):
        [[best]] = task.brute_force(inputs)
        assert [best[state] for state in range(task.d_vocab)] == pytest.approx(law, abs=1e-12)


def test_with_stationary_roots_both_integrals_agree():
    """Two importance samples of one posterior, on 100 sequences: they differ only by sampling noise."""
    batch = TASK.sample(100, 6)
    plain = torch.tensor([[TASK.brute_force(x)[0][0][s] for s in range(3)] for x in batch.inputs.tolist()])
    found = TASK.foretold(batch.inputs)[:, 0]
    assert float((plain - found).abs().mean()) < 0.02
    assert float((plain - found).mean(0).abs().max()) < 0.01
    assert float((found - TASK.counted(batch.inputs)[:, 0]).abs().mean()) > 0.02


def test_bayes_is_below_the_reference_and_above_the_source():
    floors = TASK.floors
    assert floors["source"] < floors["foretold"] < floors["counted"] < TASK.solved_below < math.log(3)


def test_the_next_token_follows_the_law_and_children_follow_their_parents():
    """On 40,000 sequences, tokens follow the mean of their laws, and tokens after equal tokens come from one row."""
    task = CausalSequences(graph="pairs", length=4, concentration=1.0)
    batch = task.sample(40_000, 1)
    shares = batch.targets[:, 0, 0].bincount(minlength=3) / 40_000
    assert torch.allclose(shares.double(), task.law(batch.draw)[:, 0].mean(0), atol=0.01)
    tokens = batch.inputs
    alike = tokens[:, 0] == tokens[:, 3]  # then position 1 and what is asked come from one row
    same = (tokens[:, 1] == batch.targets[:, 0, 0]).double()
    assert float(same[alike].mean()) == pytest.approx(0.5, abs=0.02)  # E Σ p² of Dirichlet(1, 1, 1)
    assert float(same[~alike].mean()) == pytest.approx(1 / 3, abs=0.02)


def test_relations_by_hand():
    """In a chain of five, the parents, and the positions that follow the asked token."""
    task = CausalSequences(graph="chain", length=5)
    draw = {"tokens": torch.tensor([[0, 1, 0, 2, 0, 1]]), "law": torch.full((1, 3), 1 / 3)}
    roles = task.roles(draw)
    assert roles.names == ("query", "child", "root")
    child, query = (
        roles.pairs(*path, "same")[0].nonzero().tolist()
        for path in (("child", "parent"), ("query", "child-of-same-token"))
    )
    assert child == [[1, 0], [2, 1], [3, 2]]
    assert query == [[4, 1], [4, 3]]
    assert roles.pairs("query", "other-token", "same")[0].nonzero().tolist() == [[4, 1], [4, 3]]


def test_siblings_share_a_parent():
    task = CausalSequences(graph_seed=3)
    found = task.siblings.nonzero().tolist()
    parents = task.latent.parents
    assert found == [[i, j] for i in range(12) for j in range(12) if i != j and parents[i] and parents[i] == parents[j]]
    assert found


def test_several_parents_have_no_stationary_law():
    with pytest.raises(BadInput, match="roots=uniform"):
        CausalSequences(graph="two_parents")


# The model, by hand ----------------------------------------------------------------------------------------------


def by_counting(task: CausalSequences, tokens: list[int], answer: float = ANSWER) -> list[float]:
    """Both models' outputs for one sequence, in plain Python: c times each state's share among the selected children.

    If no child's parent holds the asked token, all children are selected.
    """
    children = [child for child in task.latent.children if child < task.length - 1]
    chosen = [c for c in children if tokens[task.latent.parents[c][0]] == tokens[-1]] or children
    return [answer * sum(tokens[c] == state for c in chosen) / len(chosen) for state in range(task.d_vocab)]


@pytest.mark.parametrize("way", WAYS)
def test_made_by_hand_it_answers_as_plain_counting_does(way):
    """On 1,000 sequences outputs agree to 1e-5; attention is the graph in one construction, and not in the other."""
    batch, model = TASK.sample(1000, 2), constructed(TASK, way)
    with torch.no_grad():
        found = model(batch.inputs, at=TASK.query_positions)[:, 0]
    expected = torch.tensor([by_counting(TASK, tokens) for tokens in batch.inputs.tolist()])
    assert torch.allclose(found, expected, atol=1e-5)
    attention = parent_attention(observe(model, batch))
    assert (attention["L0H0"] > 0.999) == (way == WAYS[0]) and (attention["L0H0"] < 0.5) == (way == WAYS[1])


def test_the_two_constructions_are_told_apart_by_where_the_graph_is():
    keys, query = (at_the_end(constructed(TASK, way), TASK, 0, 512) for way in WAYS)
    assert keys["loss"] == pytest.approx(query["loss"], abs=1e-6)
    assert (keys["layer 0 first"], query["layer 1 first"]) == (1.0, 1.0)
    assert query["layer 0"] < 0.5 and keys["layer 1 first"] < 0.5
    assert keys["query blind"] == pytest.approx(keys["loss"], abs=1e-6)
    assert query["children blind"] == pytest.approx(query["loss"], abs=1e-6)
    assert keys["children blind"] > keys["loss"] + 0.1 and query["query blind"] > query["loss"] + 0.1
    assert keys["layer 0 shuffled"] < 0.1


def test_an_untrained_model_attends_evenly_and_knows_nothing():
    found = at_the_end(DisentangledArchitecture().build(TASK), TASK, 0, 256)
    even = [1 / (child + 1) for child in TASK.latent.children]
    assert found["layer 0"] == pytest.approx(sum(even) / len(even), abs=1e-6)
    assert found["loss"] == pytest.approx(math.log(3), abs=1e-6)
    assert found["children blind"] == pytest.approx(found["loss"], abs=1e-6)


def test_expected_losses_by_hand():
    law, logits = torch.tensor([[0.5, 0.5]]).double(), torch.tensor([[0.0, math.log(3)]])
    assert float(expected_loss_of_logits(logits, law)) == pytest.approx(-0.5 * math.log(0.25) - 0.5 * math.log(0.75))
    assert float(expected_loss(torch.tensor([[0.25, 0.75]]).double(), law)) == pytest.approx(
        float(expected_loss_of_logits(logits, law))
    )


def test_what_stands_out_may_stand_below():
    assert outstanding(torch.tensor([0.1, -5.0, 0.2, 0.3, 9.0]), 3) == 1
    assert outstanding(torch.tensor([0.1, 5.0, 0.2, 0.3, -9.0]), 3) == 1


def test_vectors_are_refused():
    with pytest.raises(BadInput, match="reads tokens"):
        DisentangledArchitecture().build(Retrieval())


def test_a_path_between_relations_is_clamped():
    """Children are clamped to their parents in a model that attends evenly: only their rows become ideal."""
    batch, shape = TASK.sample(4, 0), DisentangledArchitecture()
    replace = replacements(parse_clamps("L0H0 child->parent ideal@0"), batch, shape)
    with torch.no_grad():
        _, cache = shape.build(TASK)(batch.inputs, replace=replace, cache=["blocks.0.attn.hook_pattern"])
    pattern = cache["pattern", 0][:, 0]
    children = [child for child in TASK.latent.children if child < TASK.length - 1]
    assert torch.equal(pattern[:, children], TASK.latent.adjacency[children].float().expand(4, -1, -1))
    assert torch.allclose(pattern[:, -1], torch.tensor(1 / TASK.length))
    with pytest.raises(BadInput, match="there is no role 'nosuch'"):
        Config(TASK, shape, Training(clamps="L0H0 child->nosuch ideal@0"))


@pytest.mark.parametrize(("way", "path"), [(WAYS[0], "L0H0 child->parent"), (WAYS[1], "L0H0 query->other-token")])
def test_discovery_finds_the_path_that_was_put_in(way, path, monkeypatch):
    """The models answer less well than trained ones, so the threshold of solving is set to their own loss."""
    model = constructed(TASK, way, answer=ANSWER)
    monkeypatch.setattr(CausalSequences, "solved_below", 1.05)
    found = discover(model, TASK, Discovery(discovery=128, selection=128, report=256, alternatives=2))
    assert Path.parse(path) in [one.path for one in found.paths]


# Claims ----------------------------------------------------------------------------------------------------------

GOOD = {
    "information": {"parents found": 1.0},
    WAYS[0]: {"loss": 0.9, "layer 0": 1.0},
    WAYS[1]: {"loss": 0.9, "layer 0": 0.2},
    "sgd": {
        "layer 0": 0.8,
        "layer 0 first": 0.9,
        "layer 0 shuffled": 0.1,
        "loss": 0.69,
        "bayes": 0.65,
        "counted": 0.68,
        "children blind": 1.0,
        "query blind": 0.75,
        "circuit accepted": 1.0,
        "circuit L0H0 child->parent": 0.8,
    },
    "adamw": {
        "layer 0": 0.05,
        "layer 0 first": 0.0,
        "loss": 0.69,
        "bayes": 0.65,
        "layer 1 first": 0.9,
        "layer 1 first shuffled": 0.1,
        "children blind": 0.9,
        "query blind": 0.9,
        "circuit accepted": 1.0,
        "circuit L0H0 query->other-token": 0.8,
    },
    "two parents": {"split": 0.9, "layer 0": 0.8, "loss": 0.5, "bayes": 0.4},
}
BAD = {
    "information_finds_parents": ("information", "parents found", 0.9),
    "made_by_hand": (WAYS[1], "loss", 0.91),
    "sgd_attends_to_parents": ("sgd", "layer 0", 0.3),
    "adamw_does_not": ("adamw", "layer 0 first", 0.9),
    "at_the_same_loss": ("adamw", "loss", 0.75),
    "adamw_keeps_it_in_layer_1": ("adamw", "layer 1 first", 0.4),
    "whose_layer_0": ("adamw", "query blind", 0.7),
    "sgd_circuit": ("sgd", "circuit accepted", 0.0),
    "adamw_circuit": ("adamw", "circuit accepted", 0.0),
    "reference_is_not_bayes": ("sgd", "counted", 0.65),
    "none_below_bayes": ("adamw", "loss", 0.64),
    "two_parents_split": ("two parents", "split", 0.3),
}


def tabled(numbers: dict[str, dict[str, float]]) -> DataFrame:
    """A table with the same numbers for five seeds of each kind."""
    rows = [
        {
            "run": f"{kind}{seed}",
            "version": "0",
            "scale": "cpu",
            "kind": kind,
            "seed": seed,
            "step": 0,
            "quantity": q,
            "value": v,
        }
        for kind, quantities in numbers.items()
        for q, v in quantities.items()
        for seed in range(5)
    ]
    return DataFrame(rows)


def test_every_claim_holds_where_it_should():
    assert {claim.id: claim.verdict for claim in claims(tabled(GOOD))} == dict.fromkeys(BAD, "holds")


@pytest.mark.parametrize("name", BAD)
def test_every_claim_can_fail(name):
    kind, quantity, value = BAD[name]
    worse = {**GOOD, kind: {**GOOD[kind], quantity: value}}
    verdicts = {claim.id: claim.verdict for claim in claims(tabled(worse))}
    assert verdicts[name] == "fails"


def test_the_querys_part_of_blindness():
    """The query's share is 0.06 of 0.37 for SGD and 0.21 of 0.42 for AdamW."""
    told = Quantities(tabled(GOOD), "")
    assert query_share(told, "sgd").tolist() == pytest.approx([0.06 / 0.37] * 5)
    assert query_share(told, "adamw").tolist() == pytest.approx([0.5] * 5)


def test_noise_breaks_the_symmetry_of_heads():
    """Without noise the heads of a layer stay equal; with it they start different."""
    still, moved = (DisentangledArchitecture(n_heads=2, noise=n).build(EVEN, generator(0, "init")) for n in (0.0, 0.1))
    assert not still.A0.any() and not torch.equal(moved.A0[0], moved.A0[1])


# Relations as paths ----------------------------------------------------------------------------------------------


def test_strengths_of_relations_equal_a_sum_in_loops():
    """Strengths of random patterns equal sums over positions with `Relations.pairs`; between chains they are NaN."""
    batch = TASK.sample(6, 0)
    n, roles = TASK.length, batch.roles
    pattern = torch.rand(6, 2, n, n, generator=generator(0, "test"))
    same, other = roles.strengths(pattern)
    for i, place in enumerate(roles.names):
        for j, relation in enumerate(roles.attended):
            wanted = roles.pairs(place, relation, "same")
            rows = wanted.any(-1)
            for head in range(2):
                expected = (pattern[:, head] * wanted).sum(-1)[rows].mean()
                assert torch.allclose(same[head, i, j], expected, equal_nan=True)
    assert other.isnan().all()


def test_paths_of_relations_are_measured_and_followed():
    """The measure of all paths, and that of emergence, both find that the hand-set model attends to parents."""
    seen = observe(constructed(TASK, WAYS[0]), TASK.sample(16, 0))
    assert attention_on_path(seen)["L0H0 child->parent"] == pytest.approx(1.0, abs=1e-3)
    sums, counts = attention(Evaluator(seen.model, seen.batch), [Path.parse("L0H0 child->parent")])
    assert float(sums.sum() / counts.sum()) == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(BadInput, match="there is no role 'nosuch'"):
        attention(Evaluator(seen.model, seen.batch), [Path.parse("L0H0 child->nosuch")])

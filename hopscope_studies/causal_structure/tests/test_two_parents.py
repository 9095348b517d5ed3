"""Tests of `two_parents`: graphs, the measure of division, the model in plain sums, claims that hold and that fail."""

from __future__ import annotations

import math

import pytest
import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.theory.markov.graphs import Graph
from hopscope_studies.causal_structure.experiments.two_parents import KINDS, claims, kind_of, runs, training
from hopscope_studies.causal_structure.halves import divided, halves
from hopscope_studies.causal_structure.models.disentangled_transformer import (
    DisentangledArchitecture,
    DisentangledTransformer,
)
from hopscope_studies.causal_structure.readings import at_the_end
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences, drawn_and_before

TASK = CausalSequences(d_vocab=3, length=12, graph="drawn_and_before", graph_seed=4, roots="uniform")
SHARP = 100.0


def built(seed: int = 0, noise: float = 0.5) -> DisentangledTransformer:
    """A model of two heads per layer with random weights."""
    return DisentangledArchitecture(n_heads=2, noise=noise).build(TASK, generator(seed, "init"))


@torch.no_grad()
def by_hand(swapped: bool = False) -> DisentangledTransformer:
    """A model of which head 0 attends to the earlier parent of every child, and head 1 to the later; or swapped."""
    model, V = built(noise=0.0), TASK.d_vocab
    parents = [*TASK.latent.parents[: TASK.length - 1], TASK.latent.parents[-1]]
    for child, pair in enumerate(parents):
        for head, parent in enumerate(pair[::-1] if swapped else pair):
            model.get_parameter("A0")[head, V + child, V + parent] = SHARP
    return model


# Graphs ----------------------------------------------------------------------------------------------------------


def test_one_parent_is_the_node_before_and_the_other_is_drawn():
    """Each earlier node but the last is drawn about equally often: node 5 has four candidates."""
    others = [drawn_and_before(6, seed)[5][0] for seed in range(800)]
    assert all(drawn_and_before(6, seed)[5][1] == 4 for seed in range(20))
    shares = torch.tensor(others).bincount(minlength=4) / 800
    assert shares.tolist() == pytest.approx([0.25] * 4, abs=0.06)
    for seed in range(20):
        graph = Graph(drawn_and_before(12, seed))
        assert graph.length == 12 and graph.children == list(range(2, 12))


def test_with_two_parents_counting_is_bayes():
    """The task's predictor equals the plain one on 500 sequences."""
    batch = TASK.sample(500, 3)
    for inputs, law in zip(batch.inputs.tolist(), TASK.foretold(batch.inputs)[:, 0].tolist(), strict=True):
        assert list(TASK.brute_force(inputs)[0][0].values()) == pytest.approx(law, abs=1e-12)
    with pytest.raises(BadInput, match="roots=uniform"):
        CausalSequences(graph="drawn_and_before")


# The measure of division -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
def test_a_model_made_to_divide_is_found_to_divide(swapped):
    found = halves(by_hand(swapped), TASK, 0, 64)
    assert (found["divided"], found["mass"]) == (1.0, pytest.approx(1.0, abs=1e-5))
    assert found["divided another"] < 0.35 and found["divided permuted"] < 0.35
    assert found["apart"] == pytest.approx(1.0, abs=1e-5)


def test_division_by_hand():
    """Four readers: two one way round, one the other way, and one whose heads agree: half are divided one way."""
    graph = Graph(((), (), (0, 1), (1, 2), (0, 3), (2, 4), (1, 3)))  # the last position, 5, reads for node 6: 1 and 3
    pattern = torch.zeros(2, 6, 6)
    for child, heads in {2: (0, 1), 3: (1, 2), 4: (3, 0), 5: (1, 1)}.items():
        for head, key in enumerate(heads):
            pattern[head, child, key] = 0.6
    found = divided(pattern, graph)
    assert found["divided"] == 0.5
    assert found["mass"] == pytest.approx(0.6 * 5 / 8)  # of the eight numbers five are of a head's own parent


def test_heads_that_are_equal_are_not_apart_and_lose_nothing_by_being_made_alike():
    model = built(noise=0.0)
    found, end = halves(model, TASK, 0, 128), at_the_end(model, TASK, 0, 128)
    assert found["apart"] == 0.0 and found["divided"] == 0.0
    assert found["alike"] == pytest.approx(end["loss"], abs=1e-6) == pytest.approx(math.log(3), abs=1e-6)


# The model -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_model_is_what_its_docstring_says():
    """Head by head and position by position, in plain sums; the answer does not depend on taps or on `at`."""
    model, batch = built(), TASK.sample(3, 1)
    model.W_U.copy_(torch.randn(model.W_U.shape, generator=generator(1, "test")))
    found = model(batch.inputs)
    for sequence, outputs in zip(batch.inputs, found, strict=True):
        stream = torch.cat([torch.eye(3)[sequence], torch.eye(TASK.length)], 1)
        for layer in range(2):
            rows = []
            for i in range(TASK.length):
                read = [stream[i]]
                for matrix in model.get_parameter(f"A{layer}"):
                    weights = torch.stack([stream[i] @ matrix @ stream[j] for j in range(i + 1)]).softmax(0)
                    read.append(sum(w * stream[j] for j, w in enumerate(weights)))
                rows.append(torch.cat(read))
            stream = torch.stack(rows)
        assert torch.allclose(stream @ model.W_U, outputs, atol=1e-4)
    last = model(batch.inputs, at=TASK.query_positions)
    tapped, _ = model(batch.inputs, cache=["blocks.0.attn.hook_pattern"])
    assert torch.allclose(last, found[:, -1:], atol=1e-5) and torch.allclose(tapped, found, atol=1e-5)


# The experiment --------------------------------------------------------------------------------------------------


def test_every_run_knows_its_kind():
    for scale in ("quick", "cpu", "paper"):
        assert all(training(scale, kind_of(c), c.training.seed) == c for c in runs(scale))


END = {"loss": 0.5, "bayes": 0.45, "way": 0.95, "divided": 0.9, "apart": 0.8, "alike": 0.9}
GOOD = {
    "two heads, V = 3": END | {"divided another": 0.1, "divided permuted": 0.1},
    "sgd, V = 5": {"loss": 0.5, "bayes": 0.45, "layer 0": 0.7, "layer 0 shuffled": 0.1},
    "adamw, V = 5": {"loss": 0.5, "bayes": 0.45, "layer 0": 0.1, "layer 0 shuffled": 0.1},
}
BAD = {
    "heads_divide_3": ("two heads, V = 3", "divided", 0.7),
    "division_matters_3": ("two heads, V = 3", "alike", 0.51),
    "most_can_be_known_3": ("two heads, V = 3", "way", 0.8),
    "apart_at_the_end_3": ("two heads, V = 3", "apart", 0.4),
    "another_graph": ("two heads, V = 3", "divided permuted", 0.4),
    "at_the_start": ("two heads, V = 3", "course apart", 0.3),
    "sgd_in_larger_vocabularies_5": ("sgd, V = 5", "layer 0", 0.4),
    "adamw_in_larger_vocabularies_5": ("adamw, V = 5", "layer 0", 0.3),
    "other_trees": ("sgd, V = 5", "layer 0 shuffled", 0.3),
    "never_below_bayes": ("adamw, V = 5", "loss", 0.4),
}
START = {"course divided": 0.1, "course apart": 0.06}


def verdicts(changed: str = "", quantity: str = "", value: float = 0.0) -> dict[str, str]:
    """By claim, the verdict on a table of five seeds, all alike, with one number changed."""
    rows = []
    for kind, numbers in GOOD.items():
        steps = [(100, numbers)] + ([(0, START)] if kind.startswith("two") else [])
        for step, of in steps:
            changes = {quantity: value} if kind == changed and quantity in of else {}
            for name, number in {**of, **changes}.items():
                about = {"version": "0", "scale": "cpu", "kind": kind, "step": step, "quantity": name, "value": number}
                rows += [{"run": f"{kind}{seed}", "seed": seed, **about} for seed in range(5)]
    return {claim.id: claim.verdict for claim in claims(DataFrame(rows))}


def test_every_claim_holds_where_it_should():
    assert verdicts() == dict.fromkeys(BAD, "holds")


@pytest.mark.parametrize("id", BAD)
def test_every_claim_can_fail(id):
    assert verdicts(*BAD[id])[id] == "fails"


def test_scale_cpu_has_the_first_kinds():
    assert {kind_of(config) for config in runs("cpu")} == set(list(KINDS)[:4])

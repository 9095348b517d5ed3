"""Tests of `false_demonstrations`: contexts, the hand-set model, calculations by hand, claims that hold or fail."""

from __future__ import annotations

import pytest
import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.interventions.parts import Part, silenced
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.false_demonstrations.by_hand import overthinker
from hopscope_studies.false_demonstrations.cells import TASK, cell
from hopscope_studies.false_demonstrations.claims import BY_HAND, UNTRAINED
from hopscope_studies.false_demonstrations.demonstrations import FALSE, demonstrated
from hopscope_studies.false_demonstrations.experiments import false_demonstrations
from hopscope_studies.false_demonstrations.removal import (
    accuracy,
    by_layer,
    critical_layer,
    highest,
    other_sets,
    quiet_attention,
    quiet_mlps,
    scores,
)

SMALL = ItemLabels(**TASK)
HAND = SMALL.but(d_item=64)


# Contexts and the oracle -----------------------------------------------------------------------------------------


def test_brute_force_agrees_with_targets_of_training():
    batch = SMALL.sample(2000, 0)
    found = [SMALL.brute_force(row)[0][0] for row in batch.inputs.tolist()]
    known = batch.draw["classes"][:, -1] < SMALL.n_classes
    shown = (batch.draw["classes"][:, :-1] == batch.draw["classes"][:, -1:]).any(1)
    assert (known | shown).all()  # else nobody could tell
    assert found == batch.targets[:, -1, 0].tolist()


def test_brute_force_believes_the_context():
    batch = demonstrated(SMALL, "permuted", 300)
    found = torch.tensor([SMALL.brute_force(row)[0][0] for row in batch.inputs.tolist()])
    assert (found == (batch.targets[:, -1, 0] + 1) % SMALL.n_labels).all()


def test_contexts_differ_in_labels_alone():
    true = demonstrated(SMALL, "true", 4000)
    labels = true.draw["labels"]
    assert (labels == true.draw["classes"] % SMALL.n_labels).all()
    for kind in FALSE:
        other = demonstrated(SMALL, kind, 4000)
        assert (other.draw["classes"] == true.draw["classes"]).all()
        assert (other.targets == true.targets).all()
        assert (other.inputs[:, ::2] == true.inputs[:, ::2]).all()
    shares = {kind: wrong(kind) for kind in FALSE}
    assert shares["permuted"] == 1
    assert shares["half"] == pytest.approx(1 / 2, abs=0.02)
    assert shares["random"] == pytest.approx(7 / 8, abs=0.02)


def wrong(kind: str) -> float:
    """Share of a context's labels that are false."""
    draw = demonstrated(SMALL, kind, 4000).draw
    return float((draw["labels"] != draw["classes"] % SMALL.n_labels)[:, :-1].float().mean())


def test_absent_contexts_never_show_the_class():
    classes = demonstrated(SMALL, "permuted", 2000, absent=True).draw["classes"]
    assert not (classes[:, :-1] == classes[:, -1:]).any()


# The model by hand -----------------------------------------------------------------------------------------------


def test_the_model_by_hand_overthinks():
    """Its answers are right before layer 1, follow the context after it, and are right without its head."""
    model, false, true = (overthinker(HAND), *(demonstrated(HAND, kind, 500) for kind in ("permuted", "true")))
    assert by_layer(model, false) == [1, 1, 0]
    assert by_layer(model, true) == [1, 1, 1]
    assert critical_layer(by_layer(model, true), by_layer(model, false)) == 2
    scored = scores(model, false)
    assert scored[Part(1, 0)] > 0.99 and abs(scored[Part(0, 0)]) < 0.15
    assert accuracy(model, false, silenced(highest(scored, 1))) == 1


def test_the_model_by_hand_reads_new_classes():
    batch = HAND.but(fresh=1.0, bursty=1.0).sample(500, 0)
    assert accuracy(overthinker(HAND), batch) > 0.99


# Measures --------------------------------------------------------------------------------------------------------


def test_critical_layers():
    assert critical_layer([0.2, 0.8, 0.9, 0.9], [0.2, 0.7, 0.4, 0.1]) == 2
    assert critical_layer([0.2, 0.9], [0.2, 0.1]) == 1
    assert critical_layer([0.2, 0.9], [0.2, 0.9]) is None


def test_sets_of_other_heads():
    scored = {Part(layer, head): layer + head / 10 for layer in range(2) for head in range(2)}
    assert highest(scored, 1) == [Part(1, 1)]
    assert other_sets(scored, [Part(1, 1)]) == [[Part(0, 0)], [Part(0, 1)], [Part(1, 0)]]


def test_quiet_layers_write_nothing():
    config = cell(0, "quick")
    model = config.model.build(config.task, generator(0, "model"))
    inputs = config.task.sample(3, 0).inputs
    layers = range(config.model.n_layers)
    stream = model(inputs, replace={**quiet_attention(layers), **quiet_mlps(layers)}, cache=True)[1]
    biases = sum(model.get_parameter(f"blocks.{layer}.attn.b_O") for layer in layers)
    assert torch.allclose(stream["resid_post", config.model.n_layers - 1], stream["hook_embed"] + biases, atol=1e-6)


# Claims ----------------------------------------------------------------------------------------------------------


def made(bad: bool) -> DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    rows: list[dict] = []

    def add(condition: str, seed: int, kind: str, name: str, value: float, step: int = 0) -> None:
        about = {"run": f"{condition}{seed}", "version": "", "seed": seed, "condition": condition}
        rows.append({**about, "kind": kind, "name": name, "step": step, "value": value})

    for seed in range(5):
        course = (0.3, 0.95, 0.95, 0.9 if bad else 0.2)
        for step, value in enumerate(course):
            for kind in FALSE:
                add("trained", seed, "lens", kind, value + (0.1 if bad and not step else 0.0), step)
                add(UNTRAINED, seed, "lens", kind, 0.6 if bad else 0.15, step)
            add("trained", seed, "lens", "true", (0.3, 0.95, 0.95, 0.95)[step], step)
            add(UNTRAINED, seed, "lens", "true", 0.1, step)
        add("trained", seed, "critical", "layers", 1 if bad else 3)
        add("trained", seed, "critical", "depth", 3)
        add("trained", seed, "chosen", "L2H0", 0 if bad else 3)
        for kind in ("true", *FALSE):
            wrong = kind != "true"
            add("trained", seed, "whole", kind, (0.4 if bad else 0.2) if wrong else 0.95)
            add("trained", seed, "without heads", kind, (0.1 if bad else 0.8) if wrong else (0.7 if bad else 0.94))
            add("trained", seed, "without others", kind, (0.5 if bad else 0.25) if wrong else 0.94)
        for part, value in (("attention", 0.1 if bad else 0.9), ("MLPs", 0.5 if bad else 0.3)):
            add("trained", seed, f"without late {part}", "permuted", value)
        for name in ("IC", "IW"):
            add("trained", seed, "accuracy", name, 0.4 if bad else 0.97)
            add("trained", seed, "patterns of others", name, 0.9 if bad else 0.5)
        for kind in ("true", "permuted"):
            add("trained", seed, "absent", kind, 0.4 if bad and kind == "permuted" else 0.95)
    for step, value in enumerate((1.0, 1.0, 0.9 if bad else 0.0)):
        add(BY_HAND, 0, "lens", "permuted", value, step)
    for name, left in (("whole", 0.0), ("without heads", 0.1 if bad else 1.0)):
        add(BY_HAND, 0, name, "permuted", left)
        add(BY_HAND, 0, name, "true", 1.0)
    return DataFrame(rows)


@pytest.mark.parametrize(("bad", "verdict"), [(False, "holds"), (True, "fails")])
def test_claims_hold_of_what_bears_them_out_and_fail_of_what_does_not(bad, verdict):
    found = {claim.id: claim.verdict for claim in false_demonstrations.claims(made(bad))}
    assert found == dict.fromkeys(claim_ids("false_demonstrations"), verdict)


def test_without_runs_nothing_is_decided():
    rows = made(False)
    found = {one.id: one.verdict for one in false_demonstrations.claims(rows[rows.condition == BY_HAND])}
    assert {name for name, verdict in found.items() if verdict != "undecided"} == {"by_hand"}


def test_seeds_differ_in_nothing_else():
    one, other = cell(0, "cpu"), cell(1, "cpu")
    assert one.task == other.task and one.model == other.model
    assert one.training.but(seed=1) == other.training

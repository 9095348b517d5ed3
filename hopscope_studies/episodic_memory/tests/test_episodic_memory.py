"""Tests of `episodic_memory`: CMR's closed form, the authors' distances, scripted answers, and claims."""

from __future__ import annotations

import numpy
import pandas
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.models.transformer import Architecture
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.episodic_memory import context_maintenance as cmr
from hopscope_studies.episodic_memory.claims import claims
from hopscope_studies.episodic_memory.context_maintenance import Memory
from hopscope_studies.episodic_memory.fit import Fit, Fitter
from hopscope_studies.episodic_memory.response import (
    answers,
    asymmetry,
    contiguity,
    heads_by_lag,
    lists,
    response_by_lag,
)

# The model of recall ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", [0.2, 0.5, 0.8])
def test_bindings_are_the_matrix_inverse_of_the_code(encoding):
    """M = (I − (1 − β) T)⁻¹ T with T the shift by one, as the authors compute it."""
    shift = numpy.eye(12, k=1)
    expected = numpy.linalg.inv(numpy.eye(12) - (1 - encoding) * shift) @ shift
    assert numpy.allclose(cmr.bindings(encoding, 11), expected)


@pytest.mark.parametrize("encoding", [0.3, 0.7])
def test_simulated_recall_is_the_closed_form_where_there_is_one(encoding):
    items = cmr.recalled(Memory(encoding, 1.0, 0.0), 100, 2000, 20, numpy.random.default_rng(0))
    assert numpy.allclose(cmr.transitions(items), cmr.in_closed_form(encoding), atol=0.01)


def test_complete_drift_recalls_in_series():
    items = cmr.recalled(Memory(1.0, 1.0, 0.0), 30, 50, 40, numpy.random.default_rng(0))
    assert numpy.array_equal(cmr.transitions(items), numpy.eye(17)[cmr.LAGS + 1])
    assert (items[:, -1] == -1).all()  # it has come to the end of the list


def test_recall_by_the_context_of_study_goes_back_too():
    """With γ = 1 an item retrieves the contexts of earlier items, so negative lags occur."""
    forward, both = (
        cmr.transitions(cmr.recalled(Memory(0.5, 1.0, g), 100, 300, 20, numpy.random.default_rng(0))) for g in (0, 1)
    )
    assert forward[: cmr.LAGS].sum() == 0
    assert both[: cmr.LAGS].sum() > 0.05


def one_run(memory: Memory, n: int, random: numpy.random.Generator, recalls: int) -> list[int]:
    """One simulated recall, line by line as in the authors' code."""
    shift = numpy.eye(n + 1, k=1)
    called = numpy.linalg.inv(numpy.eye(n + 1) - (1 - memory.encoding) * shift) @ shift
    item = int(random.integers(0, cmr.STARTS))
    context, found = numpy.eye(n + 1)[item], [item]
    for _ in range(recalls):
        strength = called.T @ context
        item = int(numpy.where(random.random() <= numpy.cumsum(strength / strength.sum()))[0][0])
        if item >= n:
            break
        found.append(item)
        incoming = (1 - memory.studied) * numpy.eye(n + 1)[item] + memory.studied * called @ numpy.eye(n + 1)[item]
        context = (1 - memory.recall) * context + memory.recall * incoming / numpy.linalg.norm(incoming)
        context /= numpy.linalg.norm(context)
    return found


def test_vectorised_recall_is_recall_line_by_line():
    memory, random = Memory(0.6, 0.7, 0.4), numpy.random.default_rng(1)
    slow = [one_run(memory, 60, random, 10) for _ in range(1500)]
    rows = numpy.array([[*run, *[-1] * (11 - len(run))] for run in slow])
    fast = cmr.recalled(memory, 60, 3000, 10, numpy.random.default_rng(2))
    assert numpy.allclose(cmr.transitions(rows), cmr.transitions(fast), atol=0.015)


# The distance -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitter() -> Fitter:
    """Fits models with closed forms, and one without change of context, which never leaves its item."""
    curves = {Memory(b, 1.0, 0.0): cmr.in_closed_form(b).tolist() for b in (0.2, 0.4, 0.6, 0.8, 1.0)}
    curves |= {Memory(1.0, 0.0, 0.0): numpy.eye(17)[8].tolist()}
    return Fitter(curves)


def narrow(lag: int) -> numpy.ndarray:
    return numpy.eye(17)[cmr.LAGS + lag]


def test_a_pure_induction_head_is_at_distance_nought(fitter):
    found = fitter.fit(narrow(1))
    assert found.distance == pytest.approx(0)
    assert found.memory == Memory(1.0, 1.0, 0.0) and found.like_recall


def test_a_duplicate_token_head_is_near_but_not_like_recall(fitter):
    """The paper's criterion calls it CMR-like; ours does not."""
    found = fitter.fit(narrow(0))
    assert found.near and not found.like_recall


@pytest.mark.parametrize("lag", [-1, 2, 3])
def test_heads_at_other_lags_are_far(fitter, lag):
    assert not fitter.fit(narrow(lag)).near


def test_distances_by_hand():
    """Model (0 … 0, 1, ½, 0 …), attention 1 at lag +1 alone: (½)² / 11 over the variance 1/11 − 1/121."""
    model = narrow(1) + 0.5 * narrow(2)
    found = Fitter({Memory(0.5, 1.0, 0.0): model.tolist()}).fit(3 * narrow(1) + 0.2)
    assert found.distance == pytest.approx(0.25 / 11 / (1 / 11 - 1 / 121))


def test_a_flat_curve_is_infinitely_far(fitter):
    assert fitter.fit(numpy.ones(17)).distance == numpy.inf


def test_being_like_recall_asks_for_all_three():
    good = Memory(0.5, 0.9, 0.2)
    assert Fit(0.1, good, True).like_recall
    assert not Fit(0.6, good, True).like_recall
    assert not Fit(0.1, good, False).like_recall
    assert not Fit(0.1, Memory(0.5, 0.5, 0.2), True).like_recall


def test_few_random_curves_are_near():
    some = {memory: cmr.response_curve(memory, 60, 60, 20).tolist() for memory in list(cmr.grid())[::5]}
    found = Fitter(some).chance(1000)
    assert 0 < found["even near"] < 0.1
    assert found["even like recall"] <= found["even near"]


# Answers ----------------------------------------------------------------------------------------------------------


def scripted(shown, weigh):
    """A model's answers that weight each position of the list by its distance from the present token's position."""
    n, length = shown.first.shape
    place = torch.arange(length).float()
    weight = weigh(place - shown.order[..., None])  # batch position place
    share = weight / weight.sum(-1, keepdim=True).clamp(min=1e-9)
    probabilities = torch.zeros(n, length, 40)
    return probabilities.scatter(2, shown.first[:, None].expand(-1, length, -1), share)


def test_an_even_recaller_is_flat_and_its_raw_counts_are_not():
    shown = lists(300, 16, 40, generator(0, "lists"))
    curve = response_by_lag(scripted(shown, torch.ones_like), shown)
    assert list(curve.values()) == pytest.approx([1.0] * len(curve), abs=1e-4)
    assert contiguity(curve) == pytest.approx(1, abs=1e-4) and asymmetry(curve) == pytest.approx(0, abs=1e-4)
    lag = (torch.arange(16) - shown.order[..., None]).abs()
    assert (lag == 8).sum() < 0.6 * (lag == 1).sum()


def test_a_serial_recaller_has_all_its_mass_at_plus_one():
    shown = lists(100, 16, 40, generator(0, "lists"))
    curve = response_by_lag(scripted(shown, lambda lag: (lag == 1).float()), shown)
    assert curve[1] == pytest.approx(len(curve)) and sum(curve.values()) == pytest.approx(curve[1])
    assert contiguity({**curve, 2: 1e-9}) > 1e6


def test_contiguity_and_asymmetry_by_hand():
    curve = {lag: 1.0 for lag in range(-8, 9) if lag} | {1: 4.0, -1: 3.0}
    assert (contiguity(curve), asymmetry(curve)) == (4.0, 1.0)


def test_lists_are_shown_twice():
    shown = lists(20, 10, 30, generator(1, "lists"))
    assert torch.equal(shown.inputs[:, :10].sort().values, shown.inputs[:, 10:].sort().values)
    assert all(len(set(row)) == 10 for row in shown.first.tolist())
    same = lists(20, 10, 30, generator(1, "lists"), shuffled=False)
    assert torch.equal(same.inputs[:, :10], same.inputs[:, 10:])


def test_an_untrained_model_recalls_evenly():
    task = RepeatedSegment()
    model = Architecture(n_layers=2, d_model=16, mlp=False, positions="rotary").build(task, generator(0, "init"))
    shown = lists(100, 16, 64, generator(0, "lists"))
    assert contiguity(answers(model, shown)) == pytest.approx(1, abs=0.2)
    curves = heads_by_lag(model, shown)
    assert curves.keys() == {(0, 0), (1, 0)}
    assert all(value < 0.3 for curve in curves.values() for value in curve.values())


# Claims -----------------------------------------------------------------------------------------------------------


def head(seed: int, step: int, number: int, lag_1: float, distance: float, like: bool) -> dict:
    about = {"run": f"r{seed}", "version": "", "seed": seed, "kind": "head", "heads": 2, "step": step, "layer": 1}
    fitted = {"encoding": 0.9, "recall": 0.9, "studied": 0.0, "near": distance < 0.5, "like_recall": like}
    return {**about, "head": number, "lag_1": lag_1, "distance": distance, **fitted}


def answer(seed: int, kind: str = "answer", **values: object) -> dict:
    return {"run": f"r{seed}", "version": "", "seed": seed, "kind": kind, "heads": 2, **values}


def made(bad: bool) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    about = {"run": "cmr", "version": "", "seed": 0}
    rows = [{**about, "kind": "simulation", "encoding": 0.5, "furthest": 0.1 if bad else 0.001}]
    names = ("even near", "exponential near", "even like recall", "exponential like recall")
    rows.append({**about, "kind": "chance", **dict.fromkeys(names, 0.4 if bad else 0.05)})
    for seed in range(5):
        ends = ((0.9, 0.0, True), (0.1, 3.0, False)) if not bad else ((0.9, 2.0, False), (0.1, 0.1, False))
        for number, (lag_1, distance, like) in enumerate(ends):
            rows.append(head(seed, 0, number, 0.1, 1.0, False))
            rows.append(head(seed, 100, number, lag_1, distance, like))
        for step, (forward, near) in enumerate(((0.1, 1.0), (0.2, 1.1), (0.5, 3.0), (0.9, 9.0))):
            found = {"forward": forward, "contiguity": near, "asymmetry": near - 0.5}
            if bad:
                found = {"forward": forward, "contiguity": 1.9 - 0.5 * near / 9, "asymmetry": -1.0}
            rows.append(answer(seed, step=step * 100 // 3, **found))
        for which, left in (("all", 1.2), ("one", 8.0)) if not bad else (("all", 1.4), ("one", 1.1)):
            rows.append(answer(seed, "silenced", step=100, silenced=which, contiguity=left, asymmetry=0.0))
    if bad:
        rows.append({**head(5, 100, 0, 0.0, 0.1, False)})
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(bad=False))}
    assert list(found) == claim_ids("episodic_memory")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    found = {claim.id: claim.verdict for claim in claims(made(bad=True))}
    assert found == dict.fromkeys(claim_ids("episodic_memory"), "fails")

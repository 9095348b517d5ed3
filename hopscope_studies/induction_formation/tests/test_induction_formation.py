"""Tests of `induction_formation`: claims that hold or fail, the toy model against autograd, the hand-set circuit."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from pandas import DataFrame

from hopscope.builds.item_induction import induction
from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.measures.base import observe
from hopscope.models import Architecture
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.induction_formation.claims import BY_HAND
from hopscope_studies.induction_formation.experiments import induction_clamps, induction_formation
from hopscope_studies.induction_formation.heads import judged, margins
from hopscope_studies.induction_formation.measures.induction_strength import induction_strength
from hopscope_studies.induction_formation.theory import product
from hopscope_studies.induction_formation.theory.product import CLAMPED, Product

NAN = float("nan")
LN2 = math.log(2)
SEEDS = range(3)


def row(condition: str, seed: int, kind: str, name: str, value: float, step: int = 0) -> dict:
    about = {"run": f"{condition}.{seed}", "version": "v", "seed": seed, "condition": condition}
    return {**about, "kind": kind, "name": name, "step": step, "value": value}


def verdicts(source, rows: list[dict]) -> dict[str, str]:
    claims = list(source.claims(DataFrame(rows)))
    assert [claim.id for claim in claims] == claim_ids(source.__name__.rpartition(".")[2])
    return {claim.id: claim.verdict for claim in claims}


# What forms ----------------------------------------------------------------------------------------------------------


def formation(losses, strengths, alone, accuracies, gains, labels, classes, hand, start) -> list[dict]:
    """A table of the first experiment in which all free runs are equal."""
    rows = [row(BY_HAND, 0, "accuracy", "whole", hand), row(BY_HAND, 0, "strength", "H0", hand)]
    for seed in SEEDS:
        rows += [row("free", seed, "loss", "validation", loss, 100 * i) for i, loss in enumerate(losses)]
        rows += [row("free", seed, "seen", "induction", start)]
        rows += [row("free", seed, "strength", f"H{h}", x) for h, x in enumerate(strengths)]
        rows += [row("free", seed, "alone", f"H{h}", x) for h, x in enumerate(alone)]
        rows += [row("free", seed, "accuracy", name, x) for name, x in accuracies.items()]
        rows += [row("free", seed, "margin", name, x) for name, x in gains.items()]
        for name, step in (("labels", labels), ("classes", classes)):
            rows.append(row(name, seed, "learnt", "phase change", step, 6000))
    return rows


def margins_of(single: list[float], pair) -> dict[str, float]:
    heads = {f"H{h}": gain - 1 for h, gain in enumerate(single)}
    pairs = {f"H{a} H{b}": pair(single[a], single[b]) - 1 for a, b in combinations(range(len(single)), 2)}
    return {"none": -1.0, **heads, **pairs}


PAPERS = {
    "losses": [1.6, 0.72, 0.7, 0.69, 0.68, 0.69, 0.1, 0.05],
    "strengths": [0.418, 0.736, 0.708, 0.845],
    "alone": [0.4, 0.77, 0.75, 0.98],
    "accuracies": {
        "whole": 1.0,
        "layer 0 for patterns alone": 0.9999,
        "nothing of layer 0": 0.5,
        "patterns of others": 0.48,
        "withheld labels": 0.97,
    },
    "gains": margins_of([1.0, 2.0, 0.5, 3.0], lambda a, b: 0.8 * (a + b)),
    "labels": 5000.0,
    "classes": 1500.0,
    "hand": 1.0,
    "start": 0.02,
}
OTHERS = {
    "losses": [1.6, 1.4, 1.2, 1.0, 0.8, 0.5, 0.4, 0.3, 0.25, 0.2, 0.18, 0.17, 0.16],
    "strengths": [0.1, 0.9, 0.0, 0.0],
    "alone": [0.4, 1.0, 0.4, 0.3],
    "accuracies": {
        "whole": 1.0,
        "layer 0 for patterns alone": 0.7,
        "nothing of layer 0": 0.99,
        "patterns of others": 0.9,
        "withheld labels": 0.5,
    },
    "gains": margins_of([1.0, 2.0, 0.5, 3.0], lambda a, b: 1 / (a + b)),
    "labels": 1500.0,
    "classes": NAN,
    "hand": 0.9,
    "start": 0.4,
}


def test_a_table_like_the_papers_holds_and_one_that_is_not_fails():
    assert set(verdicts(induction_formation, formation(**PAPERS)).values()) == {"holds"}
    found = verdicts(induction_formation, formation(**OTHERS))
    assert set(found.values()) == {"fails"}, found


def test_without_free_runs_nothing_of_them_is_claimed():
    rows = [one for one in formation(**PAPERS) if one["condition"] != "free"]
    found = verdicts(induction_formation, [*rows, row("free", 0, "learnt", "phase change", NAN)])
    decided = {name for name, verdict in found.items() if verdict != "undecided"}
    assert decided <= {"labels_delay_more_than_classes", "by_hand"}


def clamped(times: dict[str, float], toy: dict[str, float], closed: float) -> list[dict]:
    rows = [row(name, seed, "learnt", "phase change", t, 6000) for name, t in times.items() for seed in SEEDS]
    rows += [row("toy", seed, "toy", name, steps) for name, steps in toy.items() for seed in SEEDS]
    return rows + [row("toy", seed, "closed", "bc", closed) for seed in SEEDS]


TIMES = {"none": 2500, "previous": 1700, "perfect": 600, "copy": 300, "match": 200, "patterns": 900, "silent": NAN}


def test_the_order_of_clamps_holds_as_the_paper_has_it_and_fails_turned_round():
    right = verdicts(induction_clamps, clamped(TIMES, {"none": NAN, "c": 40, "bc": 9}, 9))
    assert set(right.values()) == {"holds"}
    turned = dict(zip(TIMES, [200, 300, 600, 1700, 2500, NAN, 900], strict=True))
    wrong = verdicts(induction_clamps, clamped(turned, {"none": 5, "c": 40, "bc": 50}, 9))
    assert set(wrong.values()) == {"fails"}


def test_who_never_changes_is_slower_than_anyone():
    never = {**TIMES, "previous": NAN}
    found = verdicts(induction_clamps, clamped(never, {"none": 60, "c": 40, "bc": 9}, 9))
    assert (found["previous_token_is_faster"], found["perfect_layer_is_faster_still"]) == ("fails", "holds")


# The toy -------------------------------------------------------------------------------------------------------------


def test_its_gradient_is_autograds():
    targets, now = Product(d=7, seed=3).vectors()
    now.requires_grad_()
    cube = torch.einsum("i,j,k->ijk", *now) - torch.einsum("i,j,k->ijk", *targets)
    whole = 0.5 * cube.square().mean()
    whole.backward()
    assert product.loss(now.detach(), targets) == pytest.approx(float(whole.detach()))
    assert torch.allclose(product.slopes(now.detach(), targets), now.grad, atol=1e-14)


@pytest.mark.parametrize("seed", range(8))
def test_two_clamped_are_the_closed_form(seed):
    toy = Product(seed=seed)
    assert toy.half("bc") == toy.closed()


def test_what_is_not_halved_in_time_is_not_told_as_a_number():
    assert Product(most=3, seed=0).half("") is None
    assert CLAMPED == ("", "c", "bc")


# Heads ---------------------------------------------------------------------------------------------------------------


def test_by_hand_it_is_one_head_of_strength_1():
    task = ItemLabels(withheld=2)
    found = {(kind, name): value for kind, name, value in judged(induction(task), task)}
    assert found["accuracy", "whole"] == found["strength", "H0"] == found["accuracy", "withheld labels"] == 1
    assert found["accuracy", "layer 0 for patterns alone"] == 1
    assert found["loss", "whole"] < 1e-6
    assert 0.35 < found["accuracy", "nothing of layer 0"] < 0.65
    assert 0.35 < found["accuracy", "patterns of others"] < 0.65


def test_strength_counts_right_minus_wrong():
    """With half of the attention on the right label and a quarter on the wrong one, the strength is one quarter."""
    task = ItemLabels(d_item=8)
    batch = task.sample(32, 0)
    same = batch.roles.pairs("query", "value[1]", "same")[:, -1]
    other = batch.roles.pairs("query", "value[1]", "other")[:, -1]
    pattern = torch.zeros(32, 1, 5, 5)
    pattern[:, 0, -1] = 0.5 * same + 0.25 * other
    pattern[:, 0, -1, -1] = 0.25
    shape = Architecture(n_layers=1, n_heads=1, d_model=16, positions="none", mlp=False)
    seen = observe(shape.build(task, generator(0, "init")), batch)
    seen.cache["blocks.0.attn.hook_pattern"] = pattern
    assert induction_strength(seen) == {"L0H0": pytest.approx(0.25)}


def test_margins_by_hand():
    task = ItemLabels(d_item=8)
    batch = task.sample(4, 0)
    logits = torch.arange(5.0).expand(4, 1, 5)
    labels = batch.draw["labels"]
    assert torch.equal(margins(logits, batch), (labels[:, 2] - (labels[:, :2].sum(1) - labels[:, 2])).float())

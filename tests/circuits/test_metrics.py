"""Metrics by hand calculation on toy numbers, and against other ways of computing the same thing."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from bench import metrics
from bench.metrics import Yardstick
from hopscope.builds.build import Build, build
from hopscope.circuits.components import curve as curves
from hopscope.circuits.components.curve import Curve
from hopscope.circuits.evaluator import AsIs, Evaluator, Hard, Kept, Silenced
from hopscope.circuits.judging.stability import jaccard, likeness
from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval

A, B, C, D, E = (Path(0, 0, "query", f"key[{k}]") for k in range(1, 6))


# By hand ---------------------------------------------------------------------------------------------------------


def test_faithfulness_is_not_clipped():
    assert curves.normalised(0.1, model=0.1, null=1.1) == pytest.approx(1.0)
    assert curves.normalised(0.6, model=0.1, null=1.1) == pytest.approx(0.5)
    assert curves.normalised(0.0, model=0.1, null=1.1) == pytest.approx(1.1)  # better than the model
    assert curves.normalised(2.1, model=0.1, null=1.1) == pytest.approx(-1.0)  # worse than null
    assert math.isnan(curves.normalised(0.5, model=1.0, null=1.0))


def test_areas_by_hand():
    cpr, cmd = curves.areas([0.0, 0.5, 1.0], [0.0, 1.2, 1.0])
    assert cpr == pytest.approx(0.5 * 0.6 + 0.5 * 1.1)
    assert cmd == pytest.approx(0.5 * (1.0 + 0.2) / 2 + 0.5 * (0.2 + 0.0) / 2)


def test_on_mib_grid_the_areas_add_up_to_its_width():
    losses = [1.0 - size / 1000 for size in range(1001)]
    cpr, cmd = Curve(tuple(losses), model=0.0, null=1.0, sizes=tuple(range(1001))).on_grid()
    assert cpr + cmd == pytest.approx(0.999)
    assert cpr == pytest.approx((1 - 0.001**2) / 2)  # f(k) = k


def test_the_exact_integral_and_that_on_a_log_axis():
    step = Curve((1.0, 1.0, 0.0, 0.0, 0.0), 0.0, 1.0, (0, 1, 2, 3, 4))  # f = 0 0 1 1 1
    assert metrics.exact(step) == (pytest.approx((0 + 0.5 + 1 + 1) / 4), pytest.approx((1 + 0.5) / 4))
    middle = math.log(2) / 2 + math.log(4 / 2)
    assert metrics.on_log_axis(step)[0] == pytest.approx(middle / math.log(4))


def test_mib_grid_rounds_down_to_whole_paths():
    n = 613  # 0.1 % are no path, 0.2 % are one (specs)
    losses = [1.0, *[0.0] * n]
    f = [0.0, *[1.0] * 9]
    assert Curve(tuple(losses), 0.0, 1.0, tuple(range(n + 1))).on_grid() == pytest.approx(
        curves.areas(curves.MIB_GRID, f)
    )


def test_distances_between_circuits():
    one, two = frozenset({A, B, C}), frozenset({B, C, D})
    assert metrics.shd(one, two) == 2
    assert jaccard(one, two) == pytest.approx(0.5) and jaccard(frozenset(), frozenset()) == 1
    assert likeness([one, two, one]) == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert math.isnan(likeness([one]))
    assert metrics.nearest(frozenset({A, B}), [frozenset({D, E}), one]) == one


# On a model ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built():
    return build(Retrieval(n_hops=2), Build(layers=4, unused="dead", seed=3))


@pytest.fixture(scope="module")
def true(built):
    return frozenset(map(Path.from_dict, built.truth["schedule"]))


@pytest.fixture(scope="module")
def lab(built):
    return Yardstick(Evaluator(built.model, built.config.task.sample(24, 1)))


def test_a_true_circuit_is_faithful_complete_and_minimal(lab, true):
    assert metrics.normalised_faithfulness(lab, true).value == pytest.approx(1, abs=0.02)
    assert metrics.normalised_faithfulness(lab, frozenset()).value == 0
    assert metrics.ioi_faithfulness(lab, true).value < 0.01 < metrics.ioi_faithfulness(lab, frozenset()).value
    assert metrics.complement_faithfulness(lab, true).value < 0.1  # far below 0 where later heads go astray
    assert metrics.same_symbol(lab, true).value > 0.99
    assert metrics.same_symbol(lab, frozenset()).value < 0.5
    assert all(score.value > 0.1 for score in metrics.minimality(lab, true).values())


def test_a_path_too_many_is_not_minimal(lab, true):
    spare = next(path for path in lab.evaluator.ground.paths if path.layer == 0 and path not in true)
    assert metrics.minimality(lab, true | {spare}, budget=4)[spare].value < 0.01


def test_metrics_are_their_definitions_step_by_step(lab, true):
    evaluator = lab.evaluator
    loss = lambda change: evaluator.loss(change).mean  # noqa: E731
    model, null, circuit = loss(AsIs()), loss(Kept(frozenset())), loss(Kept(true))
    assert lab.losses([true])[0] == pytest.approx(circuit, abs=1e-6)
    found = metrics.normalised_faithfulness(lab, true).value
    assert found == pytest.approx((null - circuit) / (null - model), abs=1e-4)
    half = frozenset(sorted(true)[:2])
    for k in (half, true):
        gap = abs(loss(Silenced(k)) - loss(Kept(true - k)))
        assert metrics.incompleteness(lab, true, [k])[0] == pytest.approx(gap, abs=1e-5)
    greedy, mean = metrics.greedy_completeness(lab, true), metrics.random_completeness(lab, true)
    assert greedy.value >= max(metrics.incompleteness(lab, true, [frozenset({p}) for p in true])) - 1e-6
    assert 0 <= mean.value <= mean.parts["greatest"]
    first = min(true)
    alone = abs(loss(Kept(true - {first})) - circuit)
    score = metrics.minimality(lab, true, budget=100)[first]
    assert score.parts["alone"] == pytest.approx(alone, abs=1e-5) and score.value >= score.parts["alone"]
    every = [frozenset(c) for n in range(len(true)) for c in itertools.combinations(sorted(true - {first}), n)]
    worth = max(abs(loss(Kept(true - k - {first})) - loss(Kept(true - k))) for k in [*every, true - {first}])
    assert score.value == pytest.approx(worth, abs=1e-5)


def test_the_curve_ends_at_null_and_at_the_model(lab, true):
    order = sorted(true) + [p for p in lab.evaluator.ground.paths if p not in true]
    found = metrics.curve(lab, order)
    assert found.n == len(lab.evaluator.ground.paths)
    assert found.faithfulness[0] == 0 and found.faithfulness[-1] == pytest.approx(1, abs=1e-4)
    assert [loss < 0.05 for loss in found.losses].index(True) == len(true)


def test_by_hand_paths_are_ideal(built, true):
    evaluator = Evaluator(built.model, built.config.task.sample(24, 1))
    lab = Yardstick(evaluator, "by hand")
    assert lab.losses([true])[0] == pytest.approx(evaluator.loss(Hard(dict.fromkeys(true, 1.0))).mean, abs=1e-5)


def test_every_number_is_stamped(lab, true):
    score = metrics.normalised_faithfulness(lab, true).as_dict()
    assert score["protocol"] == {"null": "uniform", "n": 24, "seed": 0, "criterion": "live", "about": ""}


def test_answers_are_named_as_the_task_judges_them(lab):
    """Where the named symbol is the one asked for, `task.correct` says so."""
    batch = lab.evaluator.batch
    for outputs in lab.evaluator.outputs([AsIs(), Kept(frozenset())]):
        right = (metrics.named(outputs, batch) == batch.task.asked(batch.draw)).flatten(0, 1)
        assert torch.equal(right, batch.task.correct(outputs, batch))


def test_tokens_are_compared_by_divergence():
    built = build(SymbolicRetrieval(n_hops=1), Build(seed=1))
    lab = Yardstick(Evaluator(built.model, built.config.task.sample(16, 1)))
    true = frozenset(map(Path.from_dict, built.truth["schedule"]))
    near, far = metrics.distance_to_model(lab, true), metrics.distance_to_model(lab, frozenset())
    assert near.name.startswith("KL") and abs(near.value) < 0.01 < far.value
    batch = lab.evaluator.batch
    p, q = (o.view(16, 4, -1).softmax(-1) for o in lab.evaluator.outputs([AsIs(), Kept(frozenset())]))
    assert far.value == pytest.approx(float((p * (p / q).log()).sum(-1).mean()), rel=1e-3)
    assert metrics.same_symbol(lab, true).parts["hops"]["x1"] == 1.0
    assert metrics.asked(batch).all()


def test_vectors_are_compared_by_squares(lab):
    one, two = lab.evaluator.outputs([AsIs(), Kept(frozenset())])
    far = metrics.distance_to_model(lab, frozenset())
    assert far.value == pytest.approx(float((one - two).square().mean()), rel=1e-5)
    assert far.parts["squared_norm"] == pytest.approx(far.value * one.shape[-1], rel=1e-5)


def test_rows_without_a_role_are_in_every_circuit():
    task = Induction(length=6, d_vocab=8)
    model = Transformer.for_task(Architecture(n_layers=2, d_model=16), task, generator(0, "init"))
    lab = Yardstick(Evaluator(model, task.sample(8)))
    assert lab.always and lab.always <= lab.change(()).units

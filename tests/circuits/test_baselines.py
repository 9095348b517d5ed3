"""Baselines against plain reimplementations, finite differences and axioms; and all of them on a model with a truth."""

from __future__ import annotations

from functools import cache, partial

import pytest
import torch

from bench.baselines import BASELINES, base
from bench.baselines.acdc import acdc, visits, walk
from bench.baselines.attribution import attribution
from bench.baselines.base import Proposal, covered, pruned, smallest
from bench.baselines.eap_gp import eap_gp
from bench.baselines.gates import Gates
from bench.baselines.integrated_gradients import integrated_gradients
from bench.baselines.learned_masks import drawn, expected_open, learned_masks
from bench.baselines.relp import Rules, answered, relp
from bench.circuits import DEMO, Contest, cells
from bench.metrics import Yardstick
from hopscope.builds.build import Build, build
from hopscope.circuits.evaluator import AsIs, Evaluator, Kept
from hopscope.circuits.search import shortest
from hopscope.core.seeds import generator
from hopscope.interventions.patterns import null
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.runs.run import load
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval


def untrained(task, **shape):
    """A small model whose attention is far from even."""
    model = Transformer.for_task(Architecture(**{"n_layers": 2, "d_model": 16, **shape}), task, generator(0, "init"))
    with torch.no_grad():
        for block in model.blocks:
            block.attn.W_QKV[:2] *= 6
    return model


def in_double(**shape):
    """A model of which everything can be computed plainly, in double precision."""
    task = Retrieval(n_hops=1, n_chains=2)
    model = untrained(task, n_heads=2, **shape).double()
    batch = task.sample(6, 3)
    batch.__dict__.update(inputs=batch.inputs.double(), targets=batch.targets.double())
    return Yardstick(Evaluator(model, batch))


@pytest.fixture(scope="module")
def small():
    return in_double()


@pytest.fixture(scope="module")
def built():
    return build(Retrieval(n_hops=2), Build(layers=4, unused="dead", seed=3))


@pytest.fixture(scope="module")
def lab(built):
    return Yardstick(Evaluator(built.model, built.config.task.sample(16, 1)))


# Gates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_spread_gates_of_0_and_1_are_kept(lab, seed):
    gates = Gates(lab.evaluator, lab.null, "spread")
    chosen = [p for p in gates.paths if torch.rand(1, generator=generator(seed, str(p))) < (seed + 1) / 7]
    values = torch.zeros(gates.shape)
    for path, place in zip(gates.paths, gates.places, strict=True):
        values[place] = float(path in chosen)
    assert float(gates.loss(values).detach()) == pytest.approx(lab.losses([chosen])[0], abs=1e-5)


@pytest.mark.parametrize("form", ["plain", "spread"])
def test_all_gates_open_is_the_model_and_all_shut_is_null(lab, form):
    gates = Gates(lab.evaluator, lab.null, form)
    assert float(gates.loss(torch.ones(gates.shape)).detach()) == pytest.approx(lab.model, abs=1e-5)
    assert float(gates.loss(torch.zeros(gates.shape)).detach()) == pytest.approx(lab.nothing, abs=1e-5)


@pytest.mark.parametrize("task", [Induction(length=6, d_vocab=8), HopK(n_hops=1, length=8)], ids=lambda t: t.name())
def test_gates_of_tasks_with_nameless_positions(task):
    lab = Yardstick(Evaluator(untrained(task), task.sample(8)))
    gates = Gates(lab.evaluator, lab.null, "spread")
    assert float(gates.loss(torch.zeros(gates.shape)).detach()) == pytest.approx(lab.losses([[]])[0], abs=1e-5)
    assert float(gates.loss(torch.ones(gates.shape)).detach()) == pytest.approx(lab.losses([gates.paths])[0], abs=1e-4)


def test_a_pruned_model_is_kept_whole_before_what_is_removed(lab):
    paths = lab.evaluator.ground.paths
    assert covered(lab.evaluator.ground)
    for removed in (paths[-3:], paths[40:60], paths[:2]):
        change = pruned(lab, removed)
        plain = Kept(frozenset(paths) - set(removed))
        assert change.first_layer == min(p.layer for p in removed)
        one, two = lab.evaluator.outputs([change]), lab.evaluator.outputs([plain])
        torch.testing.assert_close(one, two, atol=1e-4, rtol=0)


# Attribution -----------------------------------------------------------------------------------------------------


def harms(proposals):
    return proposals[0].scores


@torch.no_grad()
def test_attribution_is_the_slope_of_a_gate_at_one(small):
    """By differences from below, to second order: above 1 gates are clamped."""
    gates, step = Gates(small.evaluator, small.null), 0.01
    scores = harms(attribution(small))

    def loss(place, value):
        values = torch.ones(gates.shape)
        values[place] = value
        return float(gates.loss(values))

    for path, place in zip(gates.paths, gates.places, strict=True):
        at_one, below, further = (loss(place, 1 - i * step) for i in range(3))
        slope = (3 * at_one - 4 * below + further) / (2 * step)
        assert scores[path] == pytest.approx(-slope, abs=5e-4)


def test_attribution_is_the_sum_over_entries_of_the_null_minus_the_pattern_times_the_gradient(small):
    """Σ (A_null − A)·∂L/∂A, with the gradient by a leaf that is added to every pattern."""
    evaluator, task = small.evaluator, small.evaluator.batch.task
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in evaluator.layers]
    leaves = [torch.zeros_like(p).requires_grad_() for p in evaluator.patterns]
    replace = {name: lambda actual, leaf=leaf: actual + leaf for name, leaf in zip(names, leaves, strict=True)}
    outputs = evaluator.model(evaluator.batch.inputs, replace=replace, at=task.query_positions)
    gradients = torch.autograd.grad(task.loss(outputs, evaluator.batch.targets), leaves)
    even = null("uniform", evaluator.ground.sees)
    scores = harms(attribution(small))
    for path in evaluator.ground.paths:
        difference = (even - evaluator.patterns[path.layer][:, path.head]) * gradients[path.layer][:, path.head]
        total = float((difference * evaluator.ground.entries(path)).sum())
        assert scores[path] == pytest.approx(total, abs=1e-5)


def test_signed_and_absolute_orders_are_both_given(small):
    signed, absolute = attribution(small)
    assert "signed" in signed.name and "absolute" in absolute.name
    assert absolute.scores == {path: abs(value) for path, value in signed.scores.items()}
    assert signed.cost.forwards == signed.cost.backwards == 1 and absolute.cost.forwards == 0


def test_integrated_gradients_add_up(small, lab):
    for some, tolerance in ((small, 0.01), (lab, 0.1)):
        total = sum(harms(integrated_gradients(some, steps=100)).values())
        assert total == pytest.approx(some.nothing - some.model, rel=tolerance)


# RelP ------------------------------------------------------------------------------------------------------------


def test_what_relp_starts_from_has_one_output_for_whichever_hop_is_asked():
    batch = HopK().sample(4)
    outputs = torch.randn(*batch.targets.shape[:2], batch.task.d_output)
    which = batch.targets.amax(-1)
    by_hand = [
        outputs[row, place, which[row, place]] - outputs[row, place].mean() for row, place in (which >= 0).nonzero()
    ]
    torch.testing.assert_close(answered(outputs, batch), torch.stack(by_hand).mean())


def test_relp_is_half_of_gradient_times_difference_where_all_else_is_linear():
    """One layer of attention alone, read off linearly: of its only product the pattern gets half."""
    lab = in_double(n_layers=1, layer_norm=False, init="fan_in")
    evaluator, model = lab.evaluator, lab.evaluator.model
    batch, task, block = evaluator.batch, evaluator.batch.task, model.blocks[0].attn
    with torch.no_grad():
        values = torch.einsum("bpi,hid->bhpd", model.embed(batch.inputs, None), block.W_V)
        answers = torch.einsum("bhpd,hdm,mo->bhpo", values, block.W_O, model.W_U)  # what each head would read where
        worth = torch.einsum("bhpo,bqo->bhqp", answers, batch.targets) / batch.targets.shape[:2].numel()
    even = null("uniform", evaluator.ground.sees)[task.query_positions]
    scores = harms(relp(lab))
    for path in evaluator.ground.paths:
        entries = evaluator.ground.entries(path)[:, task.query_positions]
        difference = evaluator.patterns[0][:, path.head, task.query_positions] - even
        total = float((difference * entries * worth[:, path.head]).sum())
        assert scores[path] == pytest.approx(total / 2, abs=1e-5)


def test_relp_is_a_plain_forward_pass_with_its_rules_written_out():
    """Two layers with norms and MLPs; what is a constant is detached where it is computed."""
    lab = in_double(mlp=True, init="fan_in")
    evaluator, model = lab.evaluator, lab.evaluator.model
    batch, task = evaluator.batch, evaluator.batch.task
    leaves = [torch.zeros_like(p).requires_grad_() for p in evaluator.patterns]

    def norm(x, layer):
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt().detach() * layer.w + layer.b

    def product(how, one, other):
        return (torch.einsum(how, one, other.detach()) + torch.einsum(how, one.detach(), other)) / 2

    x = model.embed(batch.inputs, None)
    for block, leaf in zip(model.blocks, leaves, strict=True):
        read, attention = norm(x, block.ln1), block.attn
        q, k, v = (torch.einsum("bpm,hmd->bhpd", read, weight) for weight in attention.W_QKV)
        scores = product("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5 + model.mask
        z = product("bhqk,bhkd->bhqd", scores.softmax(-1) + leaf, v)
        x = x + torch.einsum("bhqd,hdm->bqm", z, attention.W_O) + attention.b_O
        hidden = norm(x, block.ln2) @ block.mlp.W_in + block.mlp.b_in
        factor = torch.nn.functional.gelu(hidden, approximate="tanh") / hidden
        x = x + (hidden * factor.detach()) @ block.mlp.W_out + block.mlp.b_out
    outputs = (norm(x, model.ln_final) @ model.W_U + model.b_U)[:, task.query_positions]
    passed = torch.autograd.grad((outputs * batch.targets).sum(-1).mean(), leaves)
    even, scores = null("uniform", evaluator.ground.sees), harms(relp(lab))
    for path in evaluator.ground.paths:
        difference = evaluator.patterns[path.layer][:, path.head] - even
        total = (difference * passed[path.layer][:, path.head] * evaluator.ground.entries(path)).sum()
        assert scores[path] == pytest.approx(float(total.detach()), abs=1e-6)
    assert max(map(abs, scores.values())) > 1e-3


def test_relevance_begins_at_the_right_token():
    """Two sequences with one answer each, of logits 3, 0, 0 and 1, 2, 6: 3 − 1 and 2 − 3, on average."""
    batch = Induction(length=2, d_vocab=3).sample(2, 0)
    batch.__dict__["targets"] = torch.tensor([[[0]], [[1]]])
    outputs = torch.tensor([[[3.0, 0, 0]], [[1.0, 2, 6]]])
    assert float(answered(outputs, batch)) == pytest.approx((2 - 1) / 2)


def test_rules_change_what_is_passed_back_and_nothing_else():
    """Norms and activations as they are; what they pass back to their input, times that, is what came: it is kept."""
    x = torch.randn(4, 6, dtype=torch.double, generator=generator(0, "test"))
    x[0, 0] = 0
    weight, came = torch.rand(6, dtype=torch.double), torch.randn(4, 6, dtype=torch.double)
    for function in (lambda x: torch.nn.functional.layer_norm(x, (6,), weight), torch.nn.functional.gelu):
        leaf = x.clone().requires_grad_()
        with Rules():
            y = function(leaf)
        torch.testing.assert_close(y.detach(), function(x))
        [passed] = torch.autograd.grad((y * came).sum(), [leaf])
        torch.testing.assert_close((passed * x).sum(-1), (y * came).sum(-1).detach(), atol=1e-4, rtol=0)


# EAP-GP ----------------------------------------------------------------------------------------------------------


def test_eap_gp_is_its_plain_loop_where_answers_are_linear_in_gates():
    """One layer without norms: answers are y0 + M·g, so that both derivatives are products of matrices."""
    lab = in_double(n_layers=1, layer_norm=False, init="fan_in")
    gates = Gates(lab.evaluator, lab.null)
    with torch.no_grad():
        start = gates.outputs(torch.zeros(gates.shape)).flatten()
        each = [gates.outputs(gates.at([path])).flatten() - start for path in gates.paths]
    matrix, targets = torch.stack(each, 1), lab.evaluator.batch.targets.flatten()
    steps, at, slopes = 7, torch.ones(len(each), dtype=matrix.dtype), []
    for _ in range(steps):
        slopes.append(2 * matrix.T @ (start + matrix @ at - targets) / len(targets))
        away = 2 * matrix.T @ matrix @ at
        at = (at - len(each) ** 0.5 / steps * away / away.norm()).clamp(0, 1)
    scores = harms(eap_gp(lab, steps=steps))
    expected = -torch.stack(slopes).mean(0)
    assert [scores[path] for path in gates.paths] == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-6)
    assert float(expected.abs().max()) > 1e-3
    assert eap_gp(lab, steps=steps)[0].cost.forwards == steps + 1


# ACDC ------------------------------------------------------------------------------------------------------------


def plain_acdc(evaluator, order, threshold):
    """Conmy et al.'s loop as one would write it down: one threshold, one change at a time, nothing shared."""
    kept = set(order)
    now = evaluator.loss(AsIs()).mean
    for path in order:
        without = evaluator.loss(Kept(frozenset(kept - {path}))).mean
        if without - now < threshold:
            kept.remove(path)
            now = without
    return frozenset(kept)


@pytest.mark.parametrize("order", ["weakest first", "named", "strongest first"])
def test_acdc_is_its_plain_loop(small, order):
    thresholds = (1e-4, 1e-3, 1e-2)
    [found] = acdc(small, thresholds=thresholds, order=order)
    for threshold, circuit in zip(thresholds, found.circuits, strict=True):
        assert circuit == plain_acdc(small.evaluator, visits(small, order), threshold)
    assert found.about["forwards_alone"] == 3 * (len(small.evaluator.ground.paths) + 1) >= found.cost.forwards


# What AutoCircuit 1.0.1 (with transformer-lens 2.18.0, torch 2.15.0) does on its own MicroModel(2): its edges in the
# order in which it tries them, and those that acdc_prune_scores(faithfulness_target="mse") removes at each τ. Its units
# are edges between components, not paths, so what is compared is the greedy walk.
EDGES = ["B0.0->End", "B0.1->End", "B1.1->End", "B1.0->End", "S->End", "B0.0->B1.1", "S->B1.1", "B0.0->B1.0"]
EDGES += ["S->B1.0", "B0.1->B1.1", "B0.1->B1.0", "S->B0.1", "S->B0.0"]
REMOVED = {
    0.1: "",
    10.0: "B0.0->End S->End",
    20.0: "B0.0->End S->End S->B1.0",
    100.0: "B0.0->End B0.1->End S->End S->B1.1 S->B1.0",
    200.0: "B0.0->End B0.1->End S->End B0.0->B1.1 S->B1.1 B0.0->B1.0 S->B1.0 S->B0.0",
    500.0: "B0.0->End B0.1->End B1.0->End S->End B0.0->B1.1 S->B1.1 B0.0->B1.0 S->B1.0 B0.1->B1.0 S->B0.0",
}
CLEAN = torch.tensor([[[1.0, 0.0], [0.5, 1.0]], [[-1.0, 2.0], [1.0, 1.0]]])
CORRUPT = torch.tensor([[[0.0, 1.0], [1.0, -1.0]], [[1.0, 1.0], [-0.5, 0.0]]])


def micro_model(inputs, removed=frozenset(), instead=None):
    """Two layers of two heads, each of which multiplies what it reads; removed edges carry another run's value."""
    weights, values = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), {"S": inputs}

    def read(name, sources):
        return sum(instead[s] if f"{s}->{name}" in removed else values[s] for s in sources)

    for layer in (0, 1):
        sources = list(values)
        values |= {f"B{layer}.{h}": weights[h] * read(f"B{layer}.{h}", sources) for h in (0, 1)}
    return read("End", list(values)), values


def test_the_walk_is_that_of_autocircuit():
    clean, _ = micro_model(CLEAN)
    _, instead = micro_model(CORRUPT)

    def measure(sets):
        return [float((micro_model(CLEAN, removed, instead)[0] - clean).square().mean()) for removed in sets]

    for threshold, found in zip(REMOVED, walk(EDGES, measure, list(REMOVED)), strict=True):
        assert found == set(REMOVED[threshold].split())


def test_acdc_goes_from_the_last_layer_to_the_first(small):
    layers = [path.layer for path in visits(small, "weakest first")]
    assert layers == sorted(layers, reverse=True)


def test_what_acdc_keeps_depends_on_its_order(lab):
    """What goes first goes for free, its attention having nowhere to fall: so the weakest must go first."""
    sizes = {order: len(acdc(lab, thresholds=(0.01,), order=order)[0].circuits[0]) for order in ORDERS}
    assert sizes["weakest first"] < sizes["strongest first"]


ORDERS = ("weakest first", "strongest first")


def test_acdc_scores_are_the_last_threshold_that_a_path_survived(lab):
    [found] = acdc(lab, thresholds=(0.001, 0.1))
    low, high = found.circuits
    for path, score in found.scores.items():
        assert score == (0.1 if path in high else 0.001 if path in low else 0.0)


# Learned masks ---------------------------------------------------------------------------------------------------


def test_hard_concrete_gates_are_exactly_0_as_often_as_they_say():
    location = torch.tensor([-2.0, 0.0, 1.0]).expand(20000, 3)
    gates = drawn(location, generator(0, "test"))
    assert ((gates >= 0) & (gates <= 1)).all() and (gates == 1).any()
    share = (gates > 0).float().mean(0)
    torch.testing.assert_close(share, expected_open(location[0]), atol=0.015, rtol=0)


def test_a_higher_price_shuts_more_gates(lab):
    cheap, dear = learned_masks(lab, prices=(0.0, 3.0), steps=40)
    assert sum(v > 0 for v in cheap.scores.values()) > sum(v > 0 for v in dear.scores.values())


# All of them -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proposals(lab):
    """What a baseline proposes, asked for once; masks are trained at two prices, for half as long as by default."""
    known = {"learned_masks": partial(learned_masks, prices=(0.3, 3.0), steps=100)}
    return cache(lambda name: list({**BASELINES, **known}[name](lab, 0)))


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_scores_every_path(lab, proposals, name):
    for proposal in proposals(name):
        assert set(proposal.scores) == set(lab.evaluator.ground.paths)
        assert sorted(proposal.order) == sorted(proposal.scores)
        least = smallest(proposal, lab, 0.05)
        assert least.circuit is None or lab.losses([least.circuit])[0] < 0.05


@pytest.mark.heavy
def test_a_contest_measures_a_baseline_on_fresh_sequences(monkeypatch):
    """On the packaged run's model, whose attention shows its five paths; a row of the table, without trying subsets."""
    monkeypatch.setattr("bench.circuits.READABLE", 0)
    contest = Contest(load(DEMO), draws=1)
    [entry] = contest.baseline("attention_weight")
    assert entry.size == 5 and 0 < entry.live < contest.threshold and set(entry.hops) == {"x1", "x2"}
    assert entry.as_dict()["exact"]["CPR"] > 0.9 and cells(entry)[:2] == ["attention weight", "5"]


def test_attribution_is_blind_where_the_loss_is_nil(lab, built):
    """A model without error is at the bottom of a parabola: no first-order guess can tell what it needs."""
    assert lab.model < 1e-4
    assert max(abs(value) for value in harms(attribution(lab)).values()) < 1e-2 < lab.nothing


@pytest.mark.parametrize("name", sorted({*BASELINES} - {"random_order", "attribution"}))
def test_every_baseline_beats_chance_at_the_truth(proposals, built, name):
    truth = set(map(Path.from_dict, built.truth["schedule"]))
    assert max(above(p.scores, truth) for p in proposals(name)) > 0.7


def above(scores, truth):
    """The share of pairs of a true path and another in which the true one has the higher score; a tie is half a pair.

    It is the area under the ROC curve.
    """
    pairs = [(scores[true], scores[other]) for true in truth for other in scores.keys() - truth]
    return sum((one > two) + 0.5 * (one == two) for one, two in pairs) / len(pairs)


def test_bisection_finds_where_prefixes_begin_to_pass(lab, monkeypatch):
    order = lab.evaluator.ground.paths
    for border in range(1, len(order) + 1):
        monkeypatch.setattr(lab, "losses", lambda circuits, border=border: [float(len(c) < border) for c in circuits])
        assert shortest(order, lambda paths, border=border: len(paths) >= border) == border
        found = smallest(Proposal("x", {p: -i for i, p in enumerate(order)}), lab, 0.5)
        assert found.circuit == frozenset(order[:border])
    monkeypatch.setattr(lab, "losses", lambda circuits: [1.0 for _ in circuits])
    assert smallest(Proposal("x", dict.fromkeys(order, 0.0)), lab, 0.5).circuit is None


def test_dips_near_the_border_are_found(lab, monkeypatch):
    order = lab.evaluator.ground.paths
    passes = {30, 31, *range(34, len(order) + 1)}
    monkeypatch.setattr(lab, "losses", lambda circuits: [float(len(c) not in passes) for c in circuits])
    found = smallest(Proposal("x", {p: -i for i, p in enumerate(order)}), lab, 0.5)
    assert len(found.circuit) == 30


def test_costs_add_up():
    one, two = base.Cost(1, 2, 3.0), base.Cost(4, 0, 0.5)
    assert one + two == base.Cost(5, 2, 3.5)
    assert len(BASELINES) == 8

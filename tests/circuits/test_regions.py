"""Proofs over regions: bounds hold at points drawn from the region, agree with the library at radius 0, and by hand."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bench.adversaries import BUILDS, Adversary, adversary
from bench.bounds import Bounds, rivals
from bench.definition import KINDS, CopyFirst, RMSNorm, posed
from bench.hand_made import Maker, copiers
from bench.regions import DRAWN, SLACK, STREAM, asked, by_kind, chains_proven, examined, fillings, laboratory, main
from bench.zonotopes import CURVATURE, affine, ball, gelu, rms_scale, softmax, spread, weighted
from hopscope.circuits.evaluator import Evaluator, Hard, Kept
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch
from hopscope.tasks.induction import Induction

#: Without and with MLPs, of tokens and of vectors, normalised, with relations for roles.
SAMPLE = ("induction", "retrieval", "hop_k", "suppressor", "composed by MLP", "modular sum", "RMSNorm", "sink")
RADIUS = {"retrieval": 0.003, "hop_k": 0.003, "RMSNorm": 0.004, "composed by MLP": 0.005}
JOIN, READ = Path(0, 0, "value[1]", "key[1]"), Path(1, 0, "query", "value[1]")


def inside(points, region, generator):
    """Points of a zonotope, at corners and between them."""
    numbers = 2 * torch.rand(points, len(region) - 1, generator=generator).double() - 1
    numbers[::2] = numbers[::2].sign()
    return region[0] + torch.einsum("sg,gpd->spd", numbers, region[1:])


def within(values, region):
    """Whether vectors are where a zonotope's box is, to float64's tolerance."""
    return bool(((values - region[0]).abs() <= spread(region) + 1e-9 * (1 + values.abs())).all())


def drawn(kind, n=4):
    """A model of a kind, sequences, and its paths with most of a row's attention: live, and by hand."""
    made = DRAWN[kind](0, kind, 0)
    strengths = Evaluator(made.model, made.task.sample(64, 1)).strengths
    paths = {path: share for path, share in strengths.items() if share > 0.5 and path.query != path.key}
    return made, made.task.sample(n, 7), [Kept(frozenset(paths)), Hard(paths)]


def run(lab, change, stream=None):
    """The library's outputs under a change, from a stream, and what stands before each layer."""
    names = [f"blocks.{layer}.hook_resid_pre" for layer in lab.layers]
    replace = lab.changed([change]) | ({} if stream is None else {STREAM: stream[None]})
    with torch.no_grad():
        outputs, cache = lab.model(lab.batch.inputs, replace=replace, cache=names, at=lab.batch.task.query_positions)
    return outputs[0], [cache[name][0] for name in names]


def margins(lab, outputs):
    normals, offsets = rivals(lab.batch)
    return (normals * outputs).sum((1, 2)) + offsets


# Parts -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def region():
    """Two positions of three numbers, with generators of both."""
    return torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(1)).double()


@pytest.fixture
def points(region):
    return inside(200, region, torch.Generator().manual_seed(2))


def test_linear_maps_are_exact(region, points):
    """All points are in, and the ends of every number's interval are reached where its generators all pull one way."""
    weight, bias = torch.randn(3, 4).double(), torch.randn(4).double()
    mapped = affine(region, weight, bias)
    assert all(within(point @ weight + bias, mapped) for point in points)
    ends = region[0] + torch.einsum("g,gpd->pd", mapped[1:, 0, 2].sign(), region[1:])
    assert torch.isclose((ends @ weight + bias)[0, 2], mapped[0, 0, 2] + spread(mapped)[0, 2])


def test_weights_in_intervals(region, points):
    low = torch.tensor([[0.1, 0.7], [0.5, 0.5]]).double()
    sums, errors = weighted((low, low + torch.tensor([[0.2, 0.0], [0.3, 0.1]])), region)
    both = torch.cat([sums, errors])
    for add in (torch.zeros(2, 2), torch.tensor([[0.2, 0.0], [0.3, 0.1]]), torch.tensor([[0.0, 0.0], [0.3, 0.0]])):
        assert all(within((low + add) @ point, both) for point in points)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_softmax_is_within_its_bounds(region, points, scale):
    weight = scale * torch.randn(3, 6, generator=torch.Generator().manual_seed(3)).double()
    allowed = torch.tensor([[0.0, -math.inf], [0.0, 0.0]]).double()
    low, high = softmax(region @ weight[:, :3], region @ weight[:, 3:], allowed)
    assert torch.equal(low[0], allowed[0].exp()) and torch.equal(high[0], allowed[0].exp())
    for point in points:
        actual = (point @ weight[:, :3] @ (point @ weight[:, 3:]).T + allowed).softmax(-1)
        assert bool((low - 1e-12 <= actual).all() and (actual <= high + 1e-12).all())


def test_softmax_by_hand():
    """One query of 1, keys 2 and 0, each within .1: differences of scores are 2 ± (.1 + .1 + 2·.1), and twice .01."""
    q, k = ball(torch.ones(1, 1).double(), 0.1), ball(torch.tensor([[2.0], [0.0]]).double(), 0.1)
    q, k = torch.cat([q, torch.zeros(2, 1, 1)]), torch.cat([k[:1], torch.zeros(1, 2, 1), k[1:]])
    low, high = softmax(q, k, torch.zeros(1, 2).double())
    assert low[0].tolist() == pytest.approx([1 / (1 + math.exp(-2 + 0.42)), 1 / (1 + math.exp(2 + 0.42))])
    assert high[0].tolist() == pytest.approx([1 / (1 + math.exp(-2 - 0.42)), 1 / (1 + math.exp(2 - 0.42))])


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
def test_gelu_is_near_its_line(region, points, scale):
    line, error = gelu(scale * region)
    numbers = torch.linspace(-1, 1, 2001).double()
    x, steep = scale * region[0], scale * spread(region)
    slope = torch.where(region[1] != 0, line[1] / (scale * region[1]), 0.0)
    value = F.gelu(x + numbers[:, None, None] * steep, approximate="tanh")
    assert bool(((value - line[0] - slope * numbers[:, None, None] * steep).abs() <= error + 1e-12).all())


def test_gelu_s_curvature_is_less_than_is_assumed():
    x = torch.linspace(-20, 20, 400_001, dtype=torch.float64, requires_grad=True)
    [slope] = torch.autograd.grad(F.gelu(x, approximate="tanh").sum(), x, create_graph=True)
    [curvature] = torch.autograd.grad(slope.sum(), x)
    assert 0.79 < float(curvature.abs().max()) < CURVATURE


def test_rms_norm_s_scale(region, points):
    low, high = rms_scale(region, 1e-6)
    actual = (points.square().mean(-1) + 1e-6).rsqrt()
    assert bool((low <= actual + 1e-12).all() and (actual <= high + 1e-12).all())


# Models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SAMPLE)
def test_bounds_at_radius_0_are_the_library_s_own_outputs(kind):
    made, batch, changes = drawn(kind)
    for change in changes:
        theirs = Evaluator(made.model, batch).outputs([change])[0]
        for row in range(len(batch)):
            lab, centre = laboratory(made.model, batch, row)
            mine = Bounds(lab, change).margins(ball(centre, 0.0))
            torch.testing.assert_close(mine, margins(lab, run(lab, change)[0]), rtol=0, atol=1e-9)
            torch.testing.assert_close(mine, margins(lab, theirs[row].double()), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("kind", SAMPLE)
def test_margins_are_positive_where_the_task_counts_answers_as_right(kind):
    made, batch, changes = drawn(kind, n=16)
    for change in (*changes, Kept(frozenset())):
        outputs = Evaluator(made.model, batch).outputs([change])[0]
        for row in range(len(batch)):
            one = batch.rows(slice(row, row + 1))
            normals, offsets = rivals(one)
            ahead = (normals * outputs[row].double()).sum((1, 2)) + offsets
            if float(ahead.min().abs()) > 1e-4:  # no tie
                assert bool((ahead > 0).all()) == bool(made.task.correct(outputs[row, None], one).all())


@pytest.mark.parametrize("kind", SAMPLE)
def test_no_point_of_a_region_is_out_of_bounds(kind):
    made, batch, changes = drawn(kind, n=1)
    lab, centre = laboratory(made.model, batch, 0)
    for change in changes:
        for radius in (RADIUS.get(kind, 0.02), 0.1):  # at the second bounds are loose, and still hold
            region, bounds = ball(centre, radius), Bounds(lab, change)
            streams, least = list(bounds.streams(region)), bounds.margins(region)
            for point in inside(10, region, torch.Generator().manual_seed(5)):
                outputs, before = run(lab, change, point)
                assert all(within(x, held) for x, held in zip(before, streams, strict=False))
                assert not bool((margins(lab, outputs) < least - 1e-9 * (1 + least.abs())).any())


def test_a_head_that_moves_the_first_token_by_hand():
    """The right logit is c (1 − r) − r at least, another c r + r at most; so the proof holds below c / (2 c + 2)."""
    task, strength = CopyFirst(length=3, d_vocab=5), 4.0
    made = Maker(1, 1, task=task)
    made.head(0, 0, [made.place(0)], [made.move("token", "out", strength)])
    lab, centre = laboratory(made.model, task.sample(1, 1), 0)
    path = Path(0, 0, "query", "key[1]")
    bounds, edge = Bounds(lab, Hard({path: 1.0})), strength / (2 * strength + 2)
    for radius in (0.0, 0.1, edge):
        least = bounds.margins(ball(centre, radius))
        assert least.tolist() == pytest.approx([strength - 2 * radius * (strength + 1)] * 4, abs=1e-9)
    found = examined(lab, centre, Hard({path: 1.0}))
    assert 0.95 * edge < found["proven"] < edge < found["attacked"] < 1.05 * edge and found["others"]


def test_a_sharp_head_is_proven_live_as_far_as_its_scores_are_apart():
    """Scores 1000 at place 0, and 0. All four parts of the place are in the query's sum, so that their difference is
    1000 (1 − (4 + 2) r − 2·4 r²) at least: so the head is sure until r is .1404, and the answer until .4."""
    task = CopyFirst(length=3, d_vocab=5)
    made = Maker(1, 1, task=task)
    made.head(0, 0, [made.place(0, 1000.0)], [made.move("token", "out", 4.0)])
    lab, centre = laboratory(made.model, task.sample(1, 1), 0)
    bounds = Bounds(lab, Kept(frozenset([Path(0, 0, "query", "key[1]")])))
    edge = (math.sqrt(6**2 + 4 * 8) - 6) / 16
    sure, unsure = (bounds.margins(ball(centre, share * edge)) for share in (0.97, 1.03))
    assert sure.tolist() == pytest.approx([4 - 10 * 0.97 * edge] * 4, abs=1e-6)
    assert bool((unsure < 4 - 10 * 1.03 * edge - 1).all())


def test_a_circuit_that_lacks_a_path_has_no_proof():
    made = copiers(20.0)
    lab, centre = laboratory(made.model, made.task.sample(1, 3), 0)
    whole = examined(lab, centre, Kept(frozenset([JOIN, READ])))
    assert 0.01 < whole["proven"] < whole["attacked"] < 0.5 and whole["others"]
    nothing = {"proven": None, "attacked": None, "others": None}
    assert examined(lab, centre, Kept(frozenset([READ]))) == nothing
    assert examined(lab, centre, Kept(frozenset([JOIN]))) == examined(lab, centre, Hard({JOIN: 1.0})) == nothing


def test_all_fillings_are_in_their_region_and_right():
    made = copiers(20.0)
    batch = made.task.sample(1, 3)
    lab, centre = laboratory(made.model, batch, 0)
    region, change = fillings(lab, centre), Kept(frozenset([JOIN, READ]))
    least = Bounds(lab, change).margins(region)
    assert bool((least >= SLACK).all())
    chain = (batch.roles.chain[0] >= 0).any(0)
    others = [token for token in range(made.v) if token not in batch.inputs[0, chain].tolist()]
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        drawn_tokens = torch.tensor(others)[torch.randint(len(others), chain.shape, generator=random)]
        tokens = torch.where(chain, batch.inputs[0], drawn_tokens)
        stream = lab.model(tokens[None], cache=[STREAM])[1][STREAM][0]
        assert within(stream, region)
        assert bool((margins(lab, run(lab, change, stream)[0]) >= least - 1e-9).all())


def test_fillings_leave_all_chains_as_they_are():
    made = adversary(0, "two_hop", 0)
    lab, centre = laboratory(made.model, made.task.sample(1, 3), 0)
    region, chain = fillings(lab, centre), (lab.ground.roles.chain[0] >= 0).any(0)
    assert torch.equal(region[0, chain], centre[chain]) and bool((region[1:, chain] == 0).all())
    assert int((~chain).sum()) == 2 and bool((region[1:, ~chain] != 0).any(-1).any(0).all())  # a pair in no chain


@pytest.fixture
def small():
    """The textbook's two layers for a task of 360 sequences."""
    made = Maker(2, 1, {"before": 5}, task=Induction(length=4, d_vocab=5))
    made.head(0, 0, [made.previous()], [made.move("token", "before")])
    made.head(1, 0, [made.same("token", "before"), made.not_first()], [made.move("token", "out", 20.0)])
    return made


def test_every_sequence_of_a_small_task_is_proven_and_right(small):
    """All sixty chains are proven, and all 360 sequences of them are right; without the first layer's path neither."""
    every = [(order, place) for order in itertools.permutations(range(5), 4) for place in range(3)]
    tokens, places = torch.tensor([order for order, _ in every]), torch.tensor([[place] for _, place in every])
    evaluator = Evaluator(small.model, Batch(small.task, {"tokens": tokens, "place": places}))
    for units, all_right in (({JOIN, READ}, True), ({READ}, False)):
        change = Kept(frozenset(units))
        proven, chains = chains_proven(small.model, small.task, change)
        assert chains == 60 and (proven == 60) == all_right
        assert bool(evaluator.hits_of(evaluator.outputs([change])[0]).all()) == all_right


def test_one_command_proves_every_sequence_of_a_task(small, monkeypatch, capsys):
    made = Adversary("0/small/1", "small", small.model.eval(), small.task, 2)
    monkeypatch.setattr("bench.regions.DRAWN", {"small": lambda *name: made if name == (0, "small", 1) else None})
    main(["--every", "0/small/1"])
    assert capsys.readouterr().out == "60 of 60 chains are proven with all their fillings\n"


def test_layer_norm_is_refused():
    task = Induction(length=6, d_vocab=8)
    model = Architecture(n_layers=1, d_model=8).build(task, torch.Generator().manual_seed(1))
    lab, _ = laboratory(model, task.sample(1, 1), 0)
    with pytest.raises(BadInput, match="RMSNorm alone"):
        Bounds(lab, Hard())


def test_kinds_are_those_of_both_benchmarks():
    assert {*DRAWN} == {*BUILDS, *KINDS} and len(DRAWN) == len(BUILDS) + len(KINDS)
    assert isinstance(posed(0, "RMSNorm", 0).model.ln_final, RMSNorm) and issubclass(RMSNorm, nn.Module)


# The program -----------------------------------------------------------------------------------------------------


def test_sequences_that_ask_nothing_are_left_out():
    """Of triggers some sequences repeat none."""
    batch = adversary(0, "trigger_bigrams", 2).task.sample(20, 1)
    assert 0 < len(asked(batch)) < 20 and all((batch.targets[row] >= 0).any() for row in asked(batch))
    assert len(asked(adversary(0, "retrieval", 0).task.sample(20, 1))) == 20


def test_the_table_tells_medians_of_what_is_proven():
    one = {"name": "0/a/0", "kind": "a", "test": "by hand", "proven": 0.1, "attacked": 0.2, "others": True}
    more = [one | {"name": "0/a/1", "proven": 0.3, "others": False}, one | {"proven": None, "others": None}]
    live = one | {"test": "live", "proven": 0.0, "others": None}
    assert by_kind([one, *more, live]).splitlines()[2:] == [
        "| a | 2 | 2 of 3 | 0.2 | 0.2 | 1 of 2 | 0 of 1 | – | – | – |"
    ]


def test_one_command_proves_and_writes(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("bench.regions.DRAWN", {"two tasks": posed})
    main(["--each", "2", "--seed", "3", "--json", str(tmp_path / "r.json")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3/two tasks/0: by hand 0.") and lines[1] == "3/two tasks/1: no circuit"
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["no circuit"] == ["3/two tasks/1"] and len(written["sequences"]) == 4
    assert all(0 < one["proven"] < one["attacked"] for one in written["sequences"])

"""`find_circuit` on tensors: the circuits of runs and of weights written by hand, nothing left behind, clear errors."""

from __future__ import annotations

import json
import math
from pathlib import Path as Files
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from families import Plain
from matplotlib.patches import FancyBboxPatch
from torch import nn

import hopscope
from hopscope.circuits import discovery
from hopscope.circuits.circuit import UNCLAIMED
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.exam import TRIALS, Exam, drawn_for
from hopscope.circuits.report import Report
from hopscope.circuits.sufficiency import LAST, Sufficiency
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.live.borrowed import wrap
from hopscope.live.checks import RowByRow, loss_of, roles_of
from hopscope.live.given import Data, Deck, Given
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.problem.relations import relations
from hopscope.problem.roles import NO_CHAIN, Roles
from hopscope.runs.run import load
from hopscope.tasks.base import NOT_ASKED
from hopscope.tasks.induction import Induction

SOLVED = Files(__file__).parents[1] / "data" / "runs_0_1" / "solved"
SMALL = Discovery(discovery=32, selection=48, report=64)
V, N, SHARP = 12, 9, 30.0
TASK = Induction(length=N - 1, d_vocab=V)
WIDTH = V + N + V + V
TOKEN, PLACE, BEFORE, ANSWER = (slice(a, b) for a, b in ((0, V), (V, V + N), (V + N, 2 * V + N), (2 * V + N, WIDTH)))


@torch.no_grad()
def induction_by_hand(dtype=torch.float32):
    """Layer 0 copies every token one place on; layer 1 finds the place to which the query's own was copied."""
    shape = Architecture(n_layers=2, n_heads=1, d_model=WIDTH, d_head=WIDTH, layer_norm=False, mlp=False)
    model = Transformer.for_task(shape, TASK)
    for parameter in model.parameters():
        parameter.zero_()
    model.W_E[:, TOKEN], model.W_pos[:, PLACE], model.W_U[ANSWER] = torch.eye(V), torch.eye(N), 12 * torch.eye(V)
    first, second = (block.attn for block in model.blocks)
    scale = SHARP * WIDTH**0.5
    first.W_QKV[0, 0, PLACE, :N] = scale * torch.eye(N).roll(-1, 1).tril(-1)
    first.W_QKV[1, 0, PLACE, :N] = torch.eye(N)
    first.W_QKV[2, 0, TOKEN, :V] = first.W_O[0, :V, BEFORE] = torch.eye(V)
    second.W_QKV[0, 0, TOKEN, :V] = scale * torch.eye(V)
    second.W_QKV[1, 0, BEFORE, :V] = second.W_QKV[2, 0, TOKEN, :V] = second.W_O[0, :V, ANSWER] = torch.eye(V)
    return model.to(dtype)


@pytest.fixture(scope="module")
def rows():
    """Inputs and targets of 512 rows in which the first token is not asked for: nothing stands before it."""
    return drawn(512)


def drawn(n):
    batch = TASK.sample(2 * n, 0)
    asked = batch.draw["place"][:, 0] > 0
    return batch.inputs[asked][:n], batch.targets[asked][:n, 0, 0]


def find(rows, model=None, **given):
    given.setdefault("settings", SMALL)
    return hopscope.find_circuit(model or induction_by_hand(), *rows, **given)


def pairs(row):
    place = row.index(row[-1])
    return {"query": -1, "asked": place, "answer": place + 1}


@pytest.fixture(scope="module")
def by_relations(rows):
    """What is found in the model by hand, once for all tests that look at it; its tokens have names."""
    return find(rows, names="abcdefghijkl")


@pytest.fixture(scope="module")
def by_roles(rows):
    return find(rows, roles=pairs)


@pytest.fixture(scope="module")
def shuffled(rows):
    inputs, targets = rows
    return find((inputs, targets.roll(1)))


def paths(found):
    return {str(path.path) for path in found.circuit.paths}


# What is found ---------------------------------------------------------------------------------------------------


def test_of_a_run_the_same_circuit_as_by_its_task():
    run = load(SOLVED)
    batch = run.task.sample(256, 3)
    known = discover(run.model, run.task, SMALL)
    where, given = run.task.query_positions, (batch.inputs, batch.targets)
    found = hopscope.find_circuit(run.model, *given, at=where, roles=batch.roles, settings=SMALL)
    assert known.paths and found.verdict == known.verdict == "circuit"
    assert paths(found) == {str(path.path) for path in known.paths}
    assert found.circuit.losses["model"].mean == pytest.approx(known.losses["model"].mean, rel=0.5)


def test_without_roles_paths_lead_by_relations(by_relations):
    found = by_relations
    assert found.verdict == "circuit" and paths(found) == {"L0H0 each->−1", "L1H0 query->after-same-token"}
    assert "each position attends to the position before it" in found.words
    assert "the query attends to positions that follow the same token" in found.words


def test_roles_come_from_a_function_of_a_row(by_roles):
    found = by_roles
    assert found.verdict == "circuit" and paths(found) == {"L0H0 answer->asked", "L1H0 query->answer"}
    assert "“answer” attends to “asked”" in found.words


def test_an_untrained_model_has_no_circuit(rows):
    model = Transformer.for_task(Architecture(n_layers=2, n_heads=2, d_model=32), TASK, generator(0, "weights"))
    found = find(rows, model)
    assert found.verdict == "none" and "the model itself" in found.reason


def test_answers_that_were_shuffled_have_no_circuit(shuffled):
    assert shuffled.verdict == "none"


def test_every_position_can_be_asked(rows):
    inputs, _ = rows
    tokens = torch.cat([inputs[:, :-1], inputs[:, :-1]], 1)[:, :N]  # so few that one place repeats
    model = induction_by_hand()
    targets = model(tokens)[:, -2:].argmax(-1).detach()
    found = find((tokens, targets), model, at=slice(-2, None))
    assert found.circuit.losses["model"].n >= SMALL.report
    assert found.circuit.losses["model"].mean < found.circuit.losses["null"].mean


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_number_formats_are_the_models(rows, dtype):
    found = find(rows, induction_by_hand(dtype), roles=pairs)
    assert found.verdict == "circuit" and paths(found) == {"L0H0 answer->asked", "L1H0 query->answer"}


def test_a_loss_that_looks_at_values_is_called_row_by_row(rows, by_roles):
    def loss(outputs, targets):
        assert float(outputs.detach().abs().sum()) >= 0
        return F.nll_loss(outputs.log_softmax(-1), targets)

    assert paths(find(rows, roles=pairs, loss=loss)) == paths(by_roles)


def test_reported_losses_are_those_of_rows_that_the_search_has_not_seen(rows, by_relations):
    inputs, targets = rows
    model, found = induction_by_hand(), by_relations
    told = found.circuit.losses["model"]
    reported = [row for (purpose, _), dealt in found.task.deck.dealt.items() for row in dealt if purpose in REPORTS]
    searched = [row for (purpose, _), dealt in found.task.deck.dealt.items() for row in dealt if purpose not in REPORTS]
    assert len({*map(int, reported)}) == len(reported) >= told.n and not {*map(int, reported)} & {*map(int, searched)}
    reported = reported[: told.n]  # a trial that is settled leaves the rest unread
    outputs = model(inputs[reported])[:, -1].detach()
    assert told.mean == pytest.approx(float(F.cross_entropy(outputs, targets[reported])), rel=1e-4)


REPORTS = {
    generator(0, f"circuit {purpose}").initial_seed() for trial in range(1, TRIALS + 1) for purpose in drawn_for(trial)
}


@pytest.mark.parametrize(("n", "trials", "rows_told"), [(256, 1, 128), (512, 2, 256), (1536, 3, 384)])
def test_another_trial_is_held_on_rows_that_are_left_or_not_at_all(n, trials, rows_told, monkeypatch):
    """A set that only luck let through fails after two rounds of 64 rows, and a trial takes no more rows than that."""
    half = frozenset([Path(1, 0, "query", "answer")])
    monkeypatch.setattr(discovery, "try_every_set", lambda *_: ([half], UNCLAIMED))
    found = find(drawn(n), roles=pairs)
    dealt = found.task.deck.dealt.items()
    told = [int(row) for (purpose, _), some in dealt if purpose in REPORTS for row in some]
    assert found.verdict != "circuit" and len(told) == len(set(told)) == rows_told
    assert len({purpose for (purpose, _), _ in dealt if purpose in REPORTS}) == 2 * trials
    assert not set(told) & {int(row) for (purpose, _), some in dealt if purpose not in REPORTS for row in some}


def heads_in_layer_1(*written):
    """The model by hand with one head of layer 1 for each function, which says what the head writes, token by token."""
    shape = Architecture(n_layers=2, n_heads=len(written), d_model=WIDTH, d_head=WIDTH, layer_norm=False, mlp=False)
    model, one = Transformer.for_task(shape, TASK), induction_by_hand()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.zero_()
            known = one.state_dict()[name]
            parameter.copy_(known) if parameter.shape == known.shape else None
        for layer in range(2):
            to, source = model.blocks[layer].attn, one.blocks[layer].attn
            for head in range(len(written) if layer else 1):
                to.W_QKV[:, head], to.W_O[head] = source.W_QKV[:, 0], source.W_O[0]
        for head, write in enumerate(written):
            write(model.blocks[1].attn.W_O[head][:V, ANSWER])
    return model


def misread(by):
    """Token 0 is taken for token 1, by so many nats."""

    def write(values):
        values[0, 1] = 1 + by / 12

    return write


def only(*tokens):
    def write(values):
        for token in {*range(V)} - {*tokens}:
            values[token] = 0

    return write


def alternatives(found):
    return {frozenset(map(str, one)) for one in found.circuit.alternatives}


BEFORE_IT, FIRST, SECOND, THIRD = "L0H0 each->−1", *(f"L1H{head} query->after-same-token" for head in range(3))


@pytest.fixture(scope="module")
def many():
    batch = TASK.sample(4096, 0)
    asked = batch.draw["place"][:, 0] > 0
    return batch.inputs[asked][:2048], batch.targets[asked][:2048, 0, 0]


@pytest.mark.parametrize("seed", [0, 3])
def test_a_head_that_puts_a_rare_answer_right_belongs_to_the_circuit(many, seed):
    """Without it the loss would do: one answer in twelve is wrong, by a hair. Seed 3 sees few such rows at first."""
    found = find(many, heads_in_layer_1(misread(1.42), only(0)), settings=Discovery(seed=seed))
    assert found.verdict == "circuit", found.reason
    assert alternatives(found) == {frozenset([BEFORE_IT, FIRST, SECOND])}


def test_a_set_that_is_too_often_wrong_hides_no_circuit_that_holds_it(many):
    """Heads 0 and 1 share the answers; head 2 knows all but one, which head 0 puts right."""
    found = find(many, heads_in_layer_1(only(*range(6)), only(*range(6, 12)), misread(0.05)), settings=Discovery())
    assert alternatives(found) == {frozenset([BEFORE_IT, FIRST, SECOND]), frozenset([BEFORE_IT, FIRST, THIRD])}
    assert found.circuit.completeness.claim != "proven"  # head 2 alone is at the very threshold


def noisy(many, share, seed):
    inputs, targets = many
    wrong = torch.rand(len(targets), generator=torch.Generator().manual_seed(seed)) < share
    return inputs, torch.where(wrong, (targets + 1) % V, targets)


def test_what_a_circuit_must_keep_is_measured_where_it_is_reported(many):
    """Some labels are wrong, so that the model's own loss differs from rows to rows."""
    model = heads_in_layer_1(lambda values: values[0].mul_(-0.12), only(0))
    with torch.no_grad():
        model.blocks[1].attn.W_O[1, 0, ANSWER] *= 1.12
        model.W_U.mul_(6.5 / 12)
    rows = noisy(many, 0.006, 3)
    for seed in (0, 3):
        found = find(rows, model, roles=pairs, settings=Discovery(seed=seed))
        told = {name: loss.mean for name, loss in found.circuit.losses.items()}
        start = min(told["null"], found.task.constant)
        assert found.circuit.threshold == pytest.approx(start - 0.95 * (start - told["model"]), rel=1e-6)
        if found.verdict == "circuit":
            assert (start - told["live"]) / (start - told["model"]) > 0.95


def test_an_alternative_stands_the_same_trial(many):
    """Head 1 does what head 0 does, but is wrong in a twelfth of the answers, and its loss is low."""
    found = find(many, heads_in_layer_1(lambda values: None, misread(0.05)), settings=Discovery())
    exam = Exam(wrap(heads_in_layer_1(lambda values: None, misread(0.05))), found.task, Discovery(), lambda _: None)
    units = frozenset([Path(0, 0, "each", "−1"), Path(1, 1, "query", "after-same-token")])
    report = Report(exam, Sufficiency(exam))
    assert report.trial(units).losses["live"].high < report.trial(units).demands.loss
    assert not report.trial(units).fits() and report.validated([units]) == ([], 1)
    assert alternatives(found) == {frozenset([BEFORE_IT, FIRST])}


@pytest.mark.parametrize("seed", [0, 3])
def test_a_relation_that_the_report_has_not_seen_has_no_strength(rows, seed):
    """One row in a hundred repeats a token at its beginning, and a half-trained model looks there."""
    inputs, targets = rows[0].clone(), rows[1]
    rare = torch.rand(len(inputs), generator=torch.Generator().manual_seed(seed)) < 0.01
    rare &= (inputs[:, :3] != inputs[:, -1:]).all(1)
    inputs[rare, 2] = inputs[rare, 1]
    model = induction_by_hand()
    with torch.no_grad():
        model.W_U.mul_(3.5 / 12)
        model.blocks[0].attn.W_QKV[0].mul_(4 / SHARP)
    sizes = Discovery(discovery=64, selection=64, report=64, seed=seed)
    assert find((inputs, targets), model, settings=sizes).verdict == "none"


# Nothing is left behind ------------------------------------------------------------------------------------------


class Noisy(nn.Module):
    """A module of the common contract with dropout, part of it in training mode."""

    def __init__(self):
        super().__init__()
        self.inner, self.dropout = induction_by_hand().eval(), nn.Dropout(0.9)

    architecture = property(lambda self: self.inner.architecture)
    activation_names = property(lambda self: self.inner.activation_names)

    def forward(self, inputs, **more):
        found = self.inner(inputs, **more)
        return (self.dropout(found[0]), found[1]) if more.get("cache") else self.dropout(found)


def test_modes_weights_and_chance_are_as_before(rows):
    model = Noisy()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    found = find(rows, model, roles=pairs)
    assert found.verdict == "circuit"
    assert (model.training, model.inner.training, model.dropout.training) == (True, False, True)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in weights.items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(state, torch.get_rng_state())


def test_modes_are_restored_after_an_error(rows):
    model = Noisy()
    with pytest.raises(BadInput):
        find(rows, model, roles=lambda row: {"query": 99})
    assert (model.training, model.inner.training, model.dropout.training) == (True, False, True)


# Shown and stored ------------------------------------------------------------------------------------------------


def test_a_notebook_shows_verdict_words_and_picture(by_relations):
    found = by_relations
    page = found._repr_html_()
    assert "verdict: circuit" in page and "the query attends to" in page and "<svg" in page and "<?xml" not in page
    said = {text.get_text() for text in found.diagram().axes[0].texts}
    assert {"L0H0  1.00", "L1H0  1.00", "query", "after-same-token", "−1"} <= said
    inputs = found.task.sample(32).inputs[0].tolist()
    assert "abcdefghijkl"[inputs[-1]] in said


def test_boxes_of_one_colour_hold_one_symbol(by_relations):
    axes = by_relations.diagram().axes[0]
    boxes = {patch.get_bbox().x0: patch.get_facecolor() for patch in axes.patches if isinstance(patch, FancyBboxPatch)}
    symbols = {text.get_position()[0]: text.get_text() for text in axes.texts if len(text.get_text()) == 1}
    colours = {(symbols[x], tint) for left, tint in boxes.items() for x in symbols if abs(x - left - 0.17) < 1e-6}
    assert len(colours) == len({symbol for symbol, _ in colours}) == len({tint for _, tint in colours}) == 2


def test_the_picture_of_roles_begins_at_the_answer(rows):
    found = find(rows, roles=lambda row: {"asked": row.index(row[-1]), "answer": row.index(row[-1]) + 1, "end": -1})
    assert paths(found) == {"L0H0 answer->asked", "L1H0 end->answer"}
    said = "\n".join(text.get_text() for text in found.diagram().axes[0].texts)
    assert "end" in said and "L1H0  1.00" in said


def test_all_is_stored(by_relations, tmp_path):
    by_relations.save(tmp_path / "new")
    names = {file.name for file in (tmp_path / "new").iterdir()}
    assert names >= {"circuit.json", "hypotheses.jsonl", "words.txt", "circuit.svg", "circuit.png"}
    assert json.loads((tmp_path / "new" / "circuit.json").read_text())["verdict"] == "circuit"


def test_without_paths_there_are_words_alone(shuffled, tmp_path):
    found = shuffled
    if not found.circuit.paths:
        with pytest.raises(BadInput, match="no path to draw"):
            found.diagram()
        assert "<svg" not in found._repr_html_()
    found.save(tmp_path)
    assert (tmp_path / "words.txt").exists()


# Parts -----------------------------------------------------------------------------------------------------------


def test_relations_by_hand():
    #         0  1  2  3  4
    tokens = [7, 5, 7, 6, 7]
    found = relations(torch.tensor([tokens]), slice(-1, None))
    related = {name: match[0].nonzero().tolist() for name, match in found.matches.items()}
    assert found.names == ("query", "each") and found.held()[0, 0].tolist() == [False] * 4 + [True]
    assert related["itself"] == [[i, i] for i in range(5)]
    assert related["first"] == [[i, 0] for i in range(5)]
    assert related["−1"] == [[1, 0], [2, 1], [3, 2], [4, 3]]
    assert related["−2"] == [[2, 0], [3, 1], [4, 2]]
    assert related["same-token"] == [[0, 2], [0, 4], [2, 0], [2, 4], [4, 0], [4, 2]]
    assert related["after-same-token"] == [[0, 3], [2, 1], [4, 1], [4, 3]]
    assert found.pairs("query", "after-same-token", "same")[0].nonzero().tolist() == [[4, 1], [4, 3]]
    assert not found.pairs("query", "after-same-token", "other").any()


def test_features_have_offsets_alone():
    assert set(relations(torch.zeros(3, 4, 2), slice(0, 1)).matches) == {"itself", "first", "−1", "−2"}


def test_roles_in_several_chains():
    found = roles_of(lambda row: {"query": [3, 2], "fact": [[0, 1], None]}, torch.zeros(1, 4), slice(2, None))
    assert found.names == ("query", "fact")
    assert found.chain[0].tolist() == [[-1, -1, 1, 0], [0, 0, -1, -1]]
    named = roles_of(lambda row: {"fact": 0}, torch.zeros(1, 4), slice(2, None))
    assert named.names == ("query", "fact") and named.chain[0, 0].tolist() == [-1, -1, NO_CHAIN, NO_CHAIN]


def given(targets, outputs, loss, at=-1):
    data = Data(torch.zeros(len(targets), 4), targets, at, loss, loss, None, 0.0)
    return Given(data, outputs, Discovery())


def test_chance_is_the_best_constant_answer():
    tokens = torch.tensor([0, 0, 1, 2]).repeat(100)
    entropy = 0.5 * math.log(2) + 0.5 * math.log(4)
    assert given(tokens, torch.zeros(8, 1, 5), F.cross_entropy).chance == pytest.approx(entropy, rel=1e-3)
    numbers = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    variance = float(numbers.var(0, correction=0).mean())
    assert given(numbers, torch.zeros(8, 1, 3), F.mse_loss).chance == pytest.approx(variance, rel=1e-3)
    cosh = lambda outputs, targets: (outputs[..., 0] - targets).cosh().mean()  # noqa: E731  # no form that we know
    skewed = numbers[:, 0].exp().clamp(max=3)
    best = min(float((at - skewed.double()).cosh().mean()) for at in torch.linspace(0, 3, 301).tolist())
    assert given(skewed, torch.zeros(8, 1, 2), cosh).chance == pytest.approx(best, rel=1e-3)


def test_chance_of_probabilities_is_of_probabilities():
    """Nothing, from which the search for a constant begins, is no probability: its loss is 100, or infinite."""
    answers = torch.tensor([0, 1, 1, 1]).repeat(100)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    own = lambda o, t: -torch.where(t == 1, o[:, 0], 1 - o[:, 0]).log().mean()  # noqa: E731
    clamped = lambda o, t: -torch.where(t == 1, o[:, 0], 1 - o[:, 0]).clamp(1e-9, 1).log().mean()  # noqa: E731
    library = lambda o, t: F.binary_cross_entropy(o[:, 0], t.float())  # noqa: E731
    for loss in (own, clamped, library):
        some = torch.tensor([0.2, 0.9, 0.8, 0.9]).repeat(2)[:, None, None]
        assert given(answers, some, loss).chance == pytest.approx(entropy, rel=1e-3)


def test_a_model_is_solved_near_the_floor_wherever_that_is():
    probability = lambda o, t: -o.softmax(-1).gather(-1, t[:, None]).mean()  # noqa: E731
    data = Data(torch.zeros(400, 4), torch.arange(4).repeat(100), -1, probability, probability, None, -1.0)
    task = Given(data, torch.zeros(8, 1, 4), Discovery())
    assert task.chance == pytest.approx(-0.25, abs=1e-3)
    assert task.model_threshold == pytest.approx(-1 + 0.05 * 0.75, abs=1e-3)
    assert task.learnt_below == pytest.approx(-0.625, abs=1e-3)


@pytest.mark.parametrize("off", [1.0, 0.125])
def test_losses_below_zero_are_no_obstacle(rows, off):
    """A threshold below 0, or hardly above it, is no scale for a loss: as a multiple of it nothing is hopeless."""
    found = find(rows, loss=lambda outputs, targets: F.cross_entropy(outputs, targets) - off, floor=-off)
    assert found.verdict == "circuit" and found.circuit.completeness.claim == "proven"
    assert len(found.circuit.paths) == 2 and found.circuit.losses["live"].mean < found.circuit.threshold < 0.01


@pytest.mark.parametrize("left", [2, 3, 4, 6])
def test_few_rows_beside_the_search_are_enough_to_begin_with(left):
    """One or two sequences for the first step of the joint test."""
    found = find(drawn(2 * (64 + 64) + left), settings=Discovery(discovery=64, selection=64, report=64), roles=pairs)
    assert found.verdict == "circuit"


def test_by_default_each_row_counts_as_much_however_many_answers_it_asks():
    outputs, targets = torch.randn(8, 2, 5, generator=torch.Generator().manual_seed(0)), torch.arange(16).view(8, 2) % 5
    targets[:3, 1] = NOT_ASKED
    each = [F.cross_entropy(outputs[i, : 1 if i < 3 else 2], targets[i, : 1 if i < 3 else 2]) for i in range(8)]
    assert float(loss_of(None, outputs, targets)(outputs, targets)) == pytest.approx(float(sum(each) / 8), rel=1e-5)
    whole = loss_of(None, outputs[3:], targets[3:])(outputs[3:], targets[3:])
    assert float(whole) == pytest.approx(float(F.cross_entropy(outputs[3:].flatten(0, 1), targets[3:].flatten())))


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_a_sum_is_no_mean_however_small_its_losses(size):
    outputs = size * torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    total = lambda outputs, targets: F.mse_loss(outputs, targets, reduction="sum")  # noqa: E731
    with pytest.raises(BadInput, match="a mean over rows"):
        loss_of(total, outputs, outputs + 1e-3 * size)
    sure, answers = torch.eye(8) * 30, torch.arange(8)
    with pytest.raises(BadInput, match="a mean over rows"):
        loss_of(lambda o, t: F.cross_entropy(o, t, reduction="sum"), sure, answers)


def test_what_nobody_can_know_is_asked_of_no_model():
    """A tenth of the answers are noise: once this is told, the best model has a circuit."""
    batch = TASK.sample(4096, 0)
    asked = batch.draw["place"][:, 0] > 0
    inputs, targets = batch.inputs[asked], batch.targets[asked][:, 0, 0]
    random = torch.Generator().manual_seed(1)
    noisy = torch.rand(len(targets), generator=random) < 0.1
    heard = torch.where(noisy, torch.randint(V, targets.shape, generator=random), targets)
    right, wrong = 0.9 + 0.1 / V, 0.1 / V
    least = -(right * math.log(right) + (V - 1) * wrong * math.log(wrong))
    model = induction_by_hand()
    with torch.no_grad():
        model.W_U.mul_(math.log(right / wrong) / 12)
    untold = hopscope.find_circuit(model, inputs, heard, roles=pairs, floor=least)
    assert (
        untold.verdict == "none"
        and "the lower end must reach 95.0%" in untold.reason
        and "best_accuracy" in untold.reason
    )
    found = hopscope.find_circuit(model, inputs, heard, roles=pairs, floor=least, best_accuracy=right)
    assert found.verdict == "circuit", found.reason


def test_losses_in_small_units_are_told(rows, tmp_path):
    loss = lambda outputs, targets: 1e-7 * F.cross_entropy(outputs, targets)  # noqa: E731
    found = find(rows, roles=pairs, loss=loss)
    assert found.verdict == "circuit" and "with every head null it is 2." in found.words and "e-07" in found.words
    found.save(tmp_path)
    stored = json.loads((tmp_path / "circuit.json").read_text())["loss"]
    assert stored["null"] == pytest.approx(found.circuit.losses["null"].mean, rel=1e-3)


def test_rows_are_dealt_once():
    device = torch.device("cpu")
    deck = Deck(400, Discovery(discovery=50, selection=100, report=100), device)
    seed = lambda purpose: generator(0, f"circuit {purpose}").initial_seed()  # noqa: E731
    wanted = {"discovery": 50, "selection": 100, "report": 100, "joint 0": 8, "joint 1": 500, "report, round 2": 700}
    dealt = {purpose: deck.deal(n, seed(purpose)).tolist() for purpose, n in wanted.items()}
    assert [len(rows) for rows in dealt.values()] == [50, 100, 100, 8, 192, 100]
    joint, told = dealt["joint 0"] + dealt["joint 1"], dealt["report"] + dealt["report, round 2"]
    assert len(joint) == len(set(joint)) and set(joint) > {*dealt["discovery"], *dealt["selection"]}
    assert sorted(joint + told) == list(range(400))
    assert deck.deal(100, seed("report")).tolist() == dealt["report"]
    again = deck.deal(30, seed("joint 2")).tolist()
    assert len(again) == 30 and not set(again) & {*dealt["report"], *dealt["report, round 2"]}


@pytest.mark.parametrize(
    ("n", "sizes"), [(256, [64, 64]), (600, [64, 64, 128, 44]), (8192, [64, 64, 128, 256, 512, 1024])]
)
def test_the_rounds_of_a_report_double_until_the_rows_end(n, sizes):
    """They are the same rows for every circuit that is reported on, and none is dealt twice."""
    used = find(drawn(n), roles=pairs).task
    exam = Exam(induction_by_hand(), Given(used.data, used.answer[None], SMALL), SMALL, lambda _: None)
    report = Report(exam, Sufficiency(exam))
    rounds = [evaluator.batch.draw["row"].tolist() for evaluator in report.rounds()]
    assert [len(rows) for rows in rounds] == sizes
    assert len({row for rows in rounds for row in rows}) == sum(sizes)
    assert rounds == [evaluator.batch.draw["row"].tolist() for evaluator in report.rounds()]


@pytest.mark.parametrize("n", [256, 1000])
def test_the_joint_test_ends_with_the_rows_and_leaves_open_what_they_do_not_decide(n):
    """It counts no row twice, and notes a set that is within its error of the threshold when there are no more."""
    used = find(drawn(n), roles=pairs).task
    task = Given(used.data, used.answer[None], SMALL)
    exam = Exam(induction_by_hand(), task, SMALL, lambda _: None)
    for suffices in (Sufficiency(exam), Sufficiency(exam)):  # a search begins anew under other nulls
        stages = [evaluator.batch.draw["row"].tolist() for evaluator, _ in suffices.stages()]
        rows = [row for some in stages for row in some]
        assert len(rows) == len(set(rows)) == n // 2 and suffices.last < LAST
        half = frozenset([Path(1, 0, "query", "answer")])
        losses = torch.cat(
            [evaluator.sequence_losses([exam.kept(half)])[0] for steps in exam.joint for evaluator in steps]
        )
        exam.threshold, exam.accuracy = float(losses.mean()), 0.0
        assert not suffices.ask("live", [half])[0].passed and half in suffices.undecided
        exam.threshold = 0.5 * float(losses.mean())
        assert not Sufficiency(exam).ask("live", [half])[0].passed


def test_row_by_row_is_the_loss_itself():
    outputs, targets = torch.randn(3, 6, 5, requires_grad=True), torch.randint(5, (6,))
    each = torch.vmap(lambda o, t: RowByRow.apply(o[None], t[None], F.cross_entropy))
    for found in outputs.detach():
        assert torch.allclose(each(found, targets), F.cross_entropy(found, targets, reduction="none"))
    [slope] = torch.autograd.grad(RowByRow.apply(outputs[0], targets, F.cross_entropy), [outputs])
    [known] = torch.autograd.grad(F.cross_entropy(outputs[0], targets), [outputs])
    assert torch.allclose(slope, known)


class Wrapped(nn.Module):
    """A module of the common contract around another."""

    def __init__(self):
        super().__init__()
        self.inner = induction_by_hand()

    architecture = property(lambda self: self.inner.architecture)
    activation_names = property(lambda self: self.inner.activation_names)


class Tupled(Wrapped):
    def forward(self, inputs, **more):
        return (self.inner(inputs, **more), None)


class Uncached(Wrapped):
    def forward(self, inputs, cache=False, **more):
        return self.inner(inputs, **more)


class Broken(Plain):
    """Puts out a number that is not finite: for one row of tokens, or for every row."""

    def __init__(self, value, row=None):
        super().__init__()
        self.value, self.row = value, row

    def forward(self, tokens):
        hit = torch.ones(len(tokens)).bool() if self.row is None else (tokens == self.row).all(1)
        whole = super().forward(tokens)
        return torch.where(hit[:, None, None], whole.index_fill(-1, torch.tensor([0]), self.value), whole)


class Miscounted(Wrapped):
    """Says that it has three heads, and has one."""

    def __init__(self):
        super().__init__()
        self.shape = Architecture(n_layers=2, n_heads=3, d_model=WIDTH, d_head=WIDTH, layer_norm=False, mlp=False)

    architecture = property(lambda self: self.shape)

    def forward(self, inputs, **more):
        return self.inner(inputs, **more)


class Failing(Wrapped):
    def forward(self, inputs, **more):
        return {}["logits"]


class Named(nn.Module):
    architecture, activation_names = "gpt", ("blocks.0.attn.hook_pattern",)


def test_a_model_of_buffers_alone_is_searched(rows):
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.__dict__["inner"] = induction_by_hand()

        architecture = property(lambda self: self.inner.architecture)
        activation_names = property(lambda self: self.inner.activation_names)

        def forward(self, inputs, **more):
            return self.inner(inputs, **more)

    assert find(rows, Fixed(), roles=pairs).verdict == "circuit"


@pytest.mark.parametrize("names", [range(V), map(str, range(V))])
def test_names_of_tokens_may_be_numbers_or_made_as_they_are_read(rows, names):
    assert find(rows, names=names).names == [str(token) for token in range(V)]


def test_names_are_no_formulas(rows):
    """`$$` is a token of GPT-2; between dollars matplotlib reads mathematics."""
    marked = find(rows, names=["$$"] * V, roles=lambda row: {"query": -1, "$x_{$": row.index(row[-1]) + 1})
    assert "<svg" in marked._repr_html_()


# Errors ----------------------------------------------------------------------------------------------------------

ERRORS = {
    "tensors": (lambda i, t: {"inputs": i.tolist()}, "inputs must be a tensor; got a list"),
    "complex": (lambda i, t: {"targets": t * 1j}, r"targets must be a dense tensor of real numbers, .*complex64"),
    "sparse": (lambda i, t: {"inputs": i.to_sparse()}, r"inputs must be a dense tensor of real numbers, .*sparse_coo"),
    "nowhere": (lambda i, t: {"inputs": i.to("meta")}, r"inputs must be a dense tensor of real numbers, .*meta"),
    "one dimension": (lambda i, t: {"inputs": i[:, 0]}, r"tokens of shape \(row, position\)"),
    "features": (lambda i, t: {"inputs": i.float()}, r"features of shape \(row, position, feature\)"),
    "unequal": (lambda i, t: {"targets": t[1:]}, "as many rows; got 512 and 511"),
    "few": (lambda i, t: {"inputs": i[:99], "targets": t[:99]}, "needs at least 256 of them; got 99"),
    "large settings": (lambda i, t: {"settings": Discovery()}, "needs 2048 rows; got 512"),
    "at": (lambda i, t: {"at": 9}, "at must be one of the 9 positions; got 9"),
    "empty at": (lambda i, t: {"at": slice(9, None)}, "at must hold some of the 9 positions"),
    "at in words": (lambda i, t: {"at": "x"}, "at must be a position or a slice of positions; got 'x'"),
    "endless at": (lambda i, t: {"at": slice(0, 8, 0)}, "at must be a slice of whole numbers with a step other than 0"),
    "floor in words": (lambda i, t: {"floor": "0"}, "floor must be a finite number; got '0'"),
    "settings": (lambda i, t: {"settings": "x"}, "settings must be a hopscope.circuits.discovery.Discovery; got 'x'"),
    "model": (lambda i, t: {"model": nn.Linear(2, 2)}, "the model cannot read inputs of shape"),
    "no model": (lambda i, t: {"model": {}}, "the model must be a torch.nn.Module; got a dict"),
    "too long": (
        lambda i, t: {"inputs": i.repeat(1, 2)},
        "the model cannot read inputs of shape .*at most 9 positions",
    ),
    "tokens": (lambda i, t: {"inputs": i + 90}, "the model cannot read inputs of shape"),
    "targets": (
        lambda i, t: {"at": slice(-2, None)},
        r"targets of shape \(8,\) do not match outputs of shape \(8, 2, 12\)",
    ),
    "numbers": (
        lambda i, t: {"targets": t.float()},
        r"targets of shape \(8,\) do not match outputs of shape \(8, 12\)",
    ),
    "no scalar": (
        lambda i, t: {"loss": lambda o, t: (o - 1).square()},
        r"must be one number.*a Tensor of shape \(8, 12\)",
    ),
    "float": (lambda i, t: {"loss": lambda o, t: 1.0}, "must be one number.*got a float"),
    "sum": (lambda i, t: {"loss": lambda o, t: F.cross_entropy(o, t, reduction="sum")}, "must be a mean over rows"),
    "nan": (lambda i, t: {"loss": lambda o, t: o.mean() / 0}, "the loss must be finite"),
    "raises": (lambda i, t: {"loss": lambda o, t: F.cross_entropy(o, t[1:])}, "the loss fails on outputs of shape"),
    "correct": (lambda i, t: {"correct": lambda o, t: 1}, "correct must return a tensor of bools"),
    "correct raises": (lambda i, t: {"correct": lambda o, t: o @ t}, "correct fails on outputs of shape"),
    "untold": (
        lambda i, t: {"loss": lambda o, t: F.cross_entropy(o, t[:, 0]), "targets": t[:, None]},
        "do not determine which outputs.*give a rule by correct=",
    ),
    "constant": (lambda i, t: {"targets": torch.zeros_like(t)}, "all targets are the same"),
    "floor": (lambda i, t: {"floor": 9.0}, "floor must be below the loss of the best constant answer, 2.4.*; got 9"),
    "unbounded": (
        lambda i, t: {"loss": F.nll_loss},
        "floor must be below the loss of the best constant answer, -.*; got 0.0; .*log-probabilities",
    ),
    "best accuracy": (lambda i, t: {"best_accuracy": 1.2}, "best_accuracy must be above 0 and at most 1; got 1.2"),
    "one for all": (
        lambda i, t: {"correct": lambda o, t: (o.argmax(-1) == t).all()},
        "correct must return a tensor of bools, .*got a Tensor of shape .* for 8 rows",
    ),
    "correct later": (
        lambda i, t: {"correct": lambda o, t: (o.argmax(-1) == t) if len(o) <= 8 else None},
        "correct must return a tensor of bools",
    ),
    "tuple": (lambda i, t: {"model": Tupled()}, "the model must return a tensor .*; got a tuple"),
    "model raises": (lambda i, t: {"model": Failing()}, "the model cannot read inputs of shape .*KeyError"),
    "architecture": (lambda i, t: {"model": Named()}, "architecture must be a hopscope.models.base.Shape; got a str"),
    "uncached": (
        lambda i, t: {"model": Uncached()},
        r"forward\(cache=…\) must return \(outputs, cache\).*blocks.0.attn",
    ),
    "miscounted": (
        lambda i, t: {"model": Miscounted()},
        r"blocks.0.attn.hook_pattern must be \(row, head, query, key\), \(2, 3, 9, 9\); got \(2, 1, 9, 9\)",
    ),
    "backwards": (lambda i, t: {"at": slice(None, None, -1)}, "at must hold some of the 9 positions, in their order"),
    "nan later": (
        lambda i, t: {"model": Broken(float("nan"), i[400])},
        r"the loss must be finite on every row; on rows 256 to 511 it is nan",
    ),
    "nan weights": (
        lambda i, t: {"model": Broken(float("nan"))},
        "a Broken puts out NaN or infinity for the first rows",
    ),
    "masked": (lambda i, t: {"model": Broken(float("-inf"))}, "a Broken puts out NaN or infinity for the first rows"),
    "loss later": (
        lambda i, t: {"loss": lambda o, t: F.cross_entropy(o, t) * (1.0 if len(t) <= 8 else math.inf)},
        "the loss must be finite on every row; on rows 0 to 255 it is inf",
    ),
    "few names": (lambda i, t: {"names": "abc"}, "names must name all 12 tokens; got 3"),
    "no dimensions": (lambda i, t: {"targets": torch.tensor(1)}, "targets must be .*a row for each sequence"),
    "nothing asked": (
        lambda i, t: {"targets": torch.where(torch.arange(512) == 400, NOT_ASKED, t)},
        "leave out 1 row without a target, where all targets are -100",
    ),
    "targets later": (
        lambda i, t: {"targets": torch.where(torch.arange(512) == 400, V + 3, t)},
        "targets must be numbers of the 12 outputs, or -100 where there is no target; got 15",
    ),
    "targets below": (
        lambda i, t: {"targets": torch.where(torch.arange(512) == 400, -1, t)},
        "targets must be numbers of the 12 outputs, or -100 where there is no target; got -1",
    ),
    "tokens later": (
        lambda i, t: {"inputs": torch.where((torch.arange(512) == 400)[:, None], V + 3, i)},
        "the model cannot read inputs of shape",
    ),
    "a place twice": (
        lambda i, t: {"roles": lambda row: {"a": [[0, 1], [1]]}},
        "role a is held by position 1 in two chains",
    ),
    "role space": (lambda i, t: {"roles": lambda row: {"a b": 0}}, "a word without spaces; got 'a b'"),
    "role place": (
        lambda i, t: {"roles": lambda row: {"a": 9}},
        "role a must be held by some of the 9 positions; got 9",
    ),
    "roles raise": (lambda i, t: {"roles": lambda row: {"a": row.index(99)}}, "roles fails on the row .*99"),
    "roles shape": (
        lambda i, t: {"roles": Roles(("a",), torch.zeros(2, 1, 9).long())},
        r"\(512, 1, 9\); got \(2, 1, 9\)",
    ),
}


@pytest.mark.parametrize("exam", ERRORS)
def test_what_does_not_fit_is_told_in_one_sentence(rows, exam):
    change, words = ERRORS[exam]
    everything = {"model": induction_by_hand(), "inputs": rows[0], "targets": rows[1], "settings": SMALL}
    everything |= change(*rows)
    with pytest.raises(BadInput, match=words) as error:
        hopscope.find_circuit(**everything)
    assert "\n" not in str(error.value)


def test_a_model_without_heads_has_no_attention_patterns(rows):
    class Headless(nn.Module):
        architecture = Architecture(n_layers=2, n_heads=1, d_model=8)
        activation_names = ("hook_embed",)

    with pytest.raises(BadInput, match="a Headless offers no attention patterns"):
        find(rows, Headless())


class Bridge(nn.Module):
    """A model behind TransformerLens 4's interface: hooks are called by other names than they were asked under."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model
        shape = model.architecture
        self.cfg = SimpleNamespace(
            n_layers=shape.n_layers, n_heads=shape.n_heads, d_model=shape.d_model, attn_only=True
        )
        self.hook_dict = dict.fromkeys(model.activation_names)

    def forward(self, inputs):
        return self.model(inputs)

    def run_with_hooks(self, inputs, return_type, fwd_hooks):
        def called(name, hook):
            return lambda actual: hook(actual, hook=SimpleNamespace(name=f"canonical.{name}"))

        return self.model(inputs, replace={name: called(name, hook) for name, hook in fwd_hooks})


def test_a_model_that_reads_no_replaced_pattern_is_refused(rows):
    """transformer-lens 3 calls the hooks of its bridge, and goes on with what it had: every circuit was `none`."""

    class Deaf(Bridge):
        def run_with_hooks(self, inputs, return_type=None, fwd_hooks=(), start_at_layer=None, stop_at_layer=None):
            if start_at_layer is not None:
                return inputs
            super().run_with_hooks(inputs, return_type, fwd_hooks)
            return self.model(inputs)

    with pytest.raises(BadInput, match="setting every attention pattern to 0 changes no answer"):
        find(rows, Deaf(induction_by_hand()))


def test_a_model_that_names_a_late_start_and_refuses_it_starts_at_the_beginning(rows):
    class Refusing(Bridge):
        def forward(self, inputs, start_at_layer=None, stop_at_layer=None):
            if start_at_layer is not None:
                raise NotImplementedError("start_at_layer is not supported")
            return super().forward(inputs)

    lent = wrap(Refusing(induction_by_hand()))
    assert not lent.starts_at_layers and find(rows, lent.inner).verdict == "circuit"


def test_hooks_are_known_by_the_name_that_was_asked_for(rows, by_relations):
    """transformer-lens 4 calls `blocks.1.hook_resid_pre` `blocks.1.hook_in`: the search ended in a KeyError."""
    found = find(rows, Bridge(induction_by_hand()))
    assert found.verdict == "circuit"
    assert [p.path for p in found.circuit.paths] == [p.path for p in by_relations.circuit.paths]

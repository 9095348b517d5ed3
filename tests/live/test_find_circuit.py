"""`find_circuit` on tensors: the circuits of runs and of weights written by hand, nothing left behind, clear errors."""

from __future__ import annotations

import json
import math
from pathlib import Path as Files

import pytest
import torch
import torch.nn.functional as F
from matplotlib.patches import FancyBboxPatch
from torch import nn

import hopscope
from hopscope.circuits.discovery import Discovery, discover
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.live.checks import RowByRow, roles_of
from hopscope.live.given import Data, Deck, Given
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.relations import relations
from hopscope.problem.roles import NO_CHAIN, Roles
from hopscope.runs.run import load
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
    batch = TASK.sample(1024, 0)
    asked = batch.draw["place"][:, 0] > 0
    return batch.inputs[asked][:512], batch.targets[asked][:512, 0, 0]


def find(rows, model=None, **given):
    given.setdefault("settings", SMALL)
    return hopscope.find_circuit(model or induction_by_hand(), *rows, **given)


def pairs(row):
    place = row.index(row[-1])
    return {"query": -1, "asked": place, "answer": place + 1}


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


def test_without_roles_paths_lead_by_relations(rows):
    found = find(rows)
    assert found.verdict == "circuit" and paths(found) == {"L0H0 each->−1", "L1H0 query->after-same-token"}
    assert "each position attends to the position before it" in found.words
    assert "the query attends to positions that follow the same token" in found.words


def test_roles_come_from_a_function_of_a_row(rows):
    found = find(rows, roles=pairs)
    assert found.verdict == "circuit" and paths(found) == {"L0H0 answer->asked", "L1H0 query->answer"}
    assert "“answer” attends to “asked”" in found.words


def test_an_untrained_model_has_no_circuit(rows):
    model = Transformer.for_task(Architecture(n_layers=2, n_heads=2, d_model=32), TASK, generator(0, "weights"))
    found = find(rows, model)
    assert found.verdict == "none" and "the model itself" in found.reason


def test_answers_that_were_shuffled_have_no_circuit(rows):
    inputs, targets = rows
    assert find((inputs, targets.roll(1))).verdict == "none"


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


def test_a_loss_that_looks_at_values_is_called_row_by_row(rows):
    def loss(outputs, targets):
        assert float(outputs.detach().abs().sum()) >= 0
        return F.nll_loss(outputs.log_softmax(-1), targets)

    assert paths(find(rows, roles=pairs, loss=loss)) == paths(find(rows, roles=pairs))


def test_reported_losses_are_those_of_rows_that_the_search_has_not_seen(rows):
    inputs, targets = rows
    model = induction_by_hand()
    found = find(rows, model)
    told = found.circuit.losses["model"]
    reported = [row for (purpose, _), dealt in found.task.deck.dealt.items() for row in dealt if purpose in REPORTS]
    searched = [row for (purpose, _), dealt in found.task.deck.dealt.items() for row in dealt if purpose not in REPORTS]
    assert len({*map(int, reported)}) == len(reported) == told.n and not {*map(int, reported)} & {*map(int, searched)}
    outputs = model(inputs[reported])[:, -1].detach()
    assert told.mean == pytest.approx(float(F.cross_entropy(outputs, targets[reported])), rel=1e-4)


REPORTS = {generator(0, f"circuit {purpose}").initial_seed() for purpose in ("report", "report, more")}


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


def test_a_notebook_shows_verdict_words_and_picture(rows):
    found = find(rows, names="abcdefghijkl")
    page = found._repr_html_()
    assert "verdict: circuit" in page and "the query attends to" in page and "<svg" in page and "<?xml" not in page
    said = {text.get_text() for text in found.diagram().axes[0].texts}
    assert {"L0H0  1.00", "L1H0  1.00", "query", "after-same-token", "−1"} <= said
    inputs = found.task.sample(32).inputs[0].tolist()
    assert "abcdefghijkl"[inputs[-1]] in said


def test_boxes_of_one_colour_hold_one_symbol(rows):
    axes = find(rows, names="abcdefghijkl").diagram().axes[0]
    boxes = {patch.get_bbox().x0: patch.get_facecolor() for patch in axes.patches if isinstance(patch, FancyBboxPatch)}
    symbols = {text.get_position()[0]: text.get_text() for text in axes.texts if len(text.get_text()) == 1}
    colours = {(symbols[x], tint) for left, tint in boxes.items() for x in symbols if abs(x - left - 0.17) < 1e-6}
    assert len(colours) == len({symbol for symbol, _ in colours}) == len({tint for _, tint in colours}) == 2


def test_the_picture_of_roles_begins_at_the_answer(rows):
    found = find(rows, roles=lambda row: {"asked": row.index(row[-1]), "answer": row.index(row[-1]) + 1, "end": -1})
    assert paths(found) == {"L0H0 answer->asked", "L1H0 end->answer"}
    said = "\n".join(text.get_text() for text in found.diagram().axes[0].texts)
    assert "end" in said and "L1H0  1.00" in said


def test_all_is_stored(rows, tmp_path):
    find(rows).save(tmp_path / "new")
    names = {file.name for file in (tmp_path / "new").iterdir()}
    assert names >= {"circuit.json", "hypotheses.jsonl", "words.txt", "circuit.svg", "circuit.png"}
    assert json.loads((tmp_path / "new" / "circuit.json").read_text())["verdict"] == "circuit"


def test_without_paths_there_are_words_alone(rows, tmp_path):
    inputs, targets = rows
    found = find((inputs, targets.roll(1)))
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


def test_rows_are_dealt_once():
    device = torch.device("cpu")
    deck = Deck(400, Discovery(discovery=50, selection=100, report=100), device)
    seed = lambda purpose: generator(0, f"circuit {purpose}").initial_seed()  # noqa: E731
    wanted = {"discovery": 50, "selection": 100, "report": 100, "joint 0": 8, "joint 1": 500, "report, more": 700}
    dealt = {purpose: deck.deal(n, seed(purpose)).tolist() for purpose, n in wanted.items()}
    assert sorted(row for rows in dealt.values() for row in rows) == list(range(400))
    assert [len(rows) for rows in dealt.values()] == [50, 100, 100, 8, 42, 100]
    assert deck.deal(100, seed("report")).tolist() == dealt["report"]
    again = deck.deal(30, seed("joint 2")).tolist()
    assert len(again) == 30 and not set(again) & {*dealt["report"], *dealt["report, more"]}


def test_row_by_row_is_the_loss_itself():
    outputs, targets = torch.randn(3, 6, 5, requires_grad=True), torch.randint(5, (6,))
    each = torch.vmap(lambda o, t: RowByRow.apply(o[None], t[None], F.cross_entropy))
    for found in outputs.detach():
        assert torch.allclose(each(found, targets), F.cross_entropy(found, targets, reduction="none"))
    [slope] = torch.autograd.grad(RowByRow.apply(outputs[0], targets, F.cross_entropy), [outputs])
    [known] = torch.autograd.grad(F.cross_entropy(outputs[0], targets), [outputs])
    assert torch.allclose(slope, known)


# Errors ----------------------------------------------------------------------------------------------------------

ERRORS = {
    "tensors": (lambda i, t: {"inputs": i.tolist()}, "inputs and targets must be tensors; got list and Tensor"),
    "one dimension": (lambda i, t: {"inputs": i[:, 0]}, r"tokens of shape \(row, position\)"),
    "features": (lambda i, t: {"inputs": i.float()}, r"features of shape \(row, position, feature\)"),
    "unequal": (lambda i, t: {"targets": t[1:]}, "as many rows; got 512 and 511"),
    "few": (lambda i, t: {"inputs": i[:99], "targets": t[:99]}, "at least 256 rows that it can divide; got 99"),
    "large settings": (lambda i, t: {"settings": Discovery()}, "needs 2048 rows; got 512"),
    "at": (lambda i, t: {"at": 9}, "at must be one of the 9 positions; got 9"),
    "empty at": (lambda i, t: {"at": slice(9, None)}, "at must hold some of the 9 positions"),
    "at in words": (lambda i, t: {"at": "x"}, "at must be a position or a slice of positions; got 'x'"),
    "endless at": (lambda i, t: {"at": slice(0, 8, 0)}, "at must be a slice of whole numbers that goes on"),
    "floor in words": (lambda i, t: {"floor": "0"}, "floor must be a finite number; got '0'"),
    "settings": (lambda i, t: {"settings": "x"}, "settings must be a hopscope.circuits.discovery.Discovery; got 'x'"),
    "model": (lambda i, t: {"model": nn.Linear(2, 2)}, "must be a HookedTransformer, or keep the contract.*a Linear"),
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
        r"must be one number.*a tensor of shape \(8, 12\)",
    ),
    "float": (lambda i, t: {"loss": lambda o, t: 1.0}, "must be one number.*got a float"),
    "sum": (lambda i, t: {"loss": lambda o, t: F.cross_entropy(o, t, reduction="sum")}, "must be a mean over rows"),
    "nan": (lambda i, t: {"loss": lambda o, t: o.mean() / 0}, "the loss must be finite"),
    "raises": (lambda i, t: {"loss": lambda o, t: F.cross_entropy(o, t[1:])}, "the loss fails on outputs of shape"),
    "correct": (lambda i, t: {"correct": lambda o, t: 1}, "correct must say of each answer whether it is right"),
    "correct raises": (lambda i, t: {"correct": lambda o, t: o @ t}, "correct fails on outputs of shape"),
    "untold": (
        lambda i, t: {"loss": lambda o, t: F.cross_entropy(o, t[:, 0]), "targets": t[:, None]},
        "do not tell which outputs.*say it by correct=",
    ),
    "constant": (lambda i, t: {"targets": torch.zeros_like(t)}, "all targets are the same"),
    "floor": (lambda i, t: {"floor": 9.0}, "floor must be below the loss of the best constant answer, 2.4.*; got 9"),
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


@pytest.mark.parametrize("case", ERRORS)
def test_what_does_not_fit_is_told_in_one_sentence(rows, case):
    change, words = ERRORS[case]
    everything = {"model": induction_by_hand(), "inputs": rows[0], "targets": rows[1], "settings": SMALL}
    everything |= change(*rows)
    with pytest.raises(BadInput, match=words) as error:
        hopscope.find_circuit(**everything)
    assert "\n" not in str(error.value)


def test_a_model_without_heads_has_no_attention_patterns(rows):
    class Headless(nn.Module):
        architecture = Architecture(n_layers=2, n_heads=1, d_model=8)
        activation_names = ("hook_embed",)

    with pytest.raises(BadInput, match="a Headless has no attention patterns"):
        find(rows, Headless())

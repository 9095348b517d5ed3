"""What people type, computed by PyTorch: right by the task's own word, under changes, and told where it is none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from hopscope import BadInput, load
from hopscope.circuits.evaluator import Evaluator, Silenced
from hopscope.core import catalogue
from hopscope.explorer.bundle import SIZES
from hopscope.explorer.computing import Ask, Computer
from hopscope.explorer.sequences import Sequences, asked
from hopscope.explorer.typed import typing_of
from hopscope.models.transformer import Architecture
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch, Task
from hopscope.tasks.base_sheets import SheetTask
from hopscope.tasks.induction import Induction

TASKS = {name: catalogue.find("tasks", name) for name in catalogue.names("tasks")}
READ = [name for name, task in TASKS.items() if task.read is not Task.read]
SHEETS = [name for name, task in TASKS.items() if issubclass(task, SheetTask)]


def computer_of(task: Task) -> SimpleNamespace:
    """An untrained model of two layers, with what computes its answers."""
    model = Architecture(n_layers=2, d_model=16).build(task, torch.Generator().manual_seed(0)).eval()
    batch = task.sample(SIZES[-1], 0)
    paths = tuple(Evaluator(model, batch.rows(slice(0, 64))).ground.paths)
    return SimpleNamespace(model=model, batch=batch, paths=paths, computer=Computer(batch, paths, lambda step: model))


def answer(found: SimpleNamespace, **values: list[str]) -> list[dict]:
    told = found.computer.answer(Ask.parse({"n": ["8"], **values}), None)["typed"]
    json.dumps(told, allow_nan=False)
    return told


def text(tokens: list[int]) -> list[str]:
    return [",".join(map(str, tokens))]


@pytest.mark.parametrize("name", TASKS)
def test_every_task_says_how_it_is_typed(name):
    """As facts, token by token in names of which each means one token, or not at all and why."""
    batch = TASKS[name]().sample(SIZES[-1], 0)
    typing = typing_of(batch)
    if typing["kind"] == "none":
        assert name in typing["told"] and typing["told"].endswith(".")
        return
    assert typing["kind"] == ("facts" if name in SHEETS else "tokens")
    if typing["kind"] == "tokens":
        firsts = [own[0] for own in typing["names"]]
        assert len(set(firsts)) == len(firsts) == batch.task.d_vocab
        assert typing["example"] == batch.inputs[0].tolist()


@pytest.mark.parametrize("name", READ)
def test_a_typed_sequence_is_answered_as_the_task_has_it(name):
    task = TASKS[name]()
    found = computer_of(task)
    other = task.sample(3, 7)
    tokens = other.inputs[2].tolist()
    known = Batch(task, task.read(tokens))
    with torch.no_grad():
        logits = task.logits(found.model(known.inputs, at=task.query_positions))
    [sequence] = answer(found, typed=text(tokens))
    right = asked(known)
    assert [(one["query"], one["hop"]) for one in sequence["answers"]] == [
        (query, hop) for query in range(right.shape[1]) for hop in range(right.shape[2])
    ]
    for one in sequence["answers"]:
        assert one["right"] == right[0, one["query"], one["hop"]]
        sets = logits[0, one["query"]]  # one for each hop, or one for all
        own = sets[min(one["hop"], len(sets) - 1)]
        assert one["named"] == int(own.argmax())
        assert one["distance"] == pytest.approx(-float(own.log_softmax(-1).max()), rel=1e-4)
        assert one["runner_up_distance"] >= one["distance"]
    assert sequence["roles"] == other.roles.labels(2) or name == "two_hop"  # chains are numbered anew


def test_a_typed_sequence_is_changed_as_any():
    task = Induction(length=6, d_vocab=9)
    found = computer_of(task)
    path = Path.parse("L1H0 query->value[1]")
    tokens = [3, 1, 4, 8, 5, 2, 4]
    silenced = Evaluator(found.model, Batch(task, task.read(tokens))).outputs([Silenced(frozenset([path]))])[0]
    [sequence] = answer(found, typed=text(tokens), off=[str(path)])
    [one] = sequence["answers"]
    assert one["distance"] == pytest.approx(-float(silenced[0, 0].log_softmax(-1).max()), rel=1e-5)
    [plain] = answer(found, typed=text(tokens))
    assert plain["answers"][0]["distance"] != pytest.approx(one["distance"], rel=1e-4)
    assert one["right"] == 8


@pytest.mark.parametrize("name", SHEETS)
def test_fresh_sheets_are_drawn_for_typed_facts(name):
    """Symbols by their numbers, in the order in which facts and queries stand; answers as the sheet's own."""
    task = TASKS[name]()
    found = computer_of(task)
    told = answer(found, fresh=["5"], seed=["3"])
    assert told == answer(found, fresh=["5"], seed=["3"]) != answer(found, fresh=["5"], seed=["4"])
    hops = len(task.hop_names)
    for sequence in told:
        order = {key: torch.tensor([values]) for key, values in sequence["order"].items()}
        known = task.sheet.asked(order)[0][..., task.asked_hops].flatten().tolist()
        assert [one["right"] for one in sequence["answers"]] == known
        assert len(sequence["answers"]) == task.n_chains * hops
        assert all(-1 <= one["named"] < task.sheet.n_symbols for one in sequence["answers"])


def test_the_demos_model_answers_fresh_sheets():
    run = load("packaged")
    seen = Sequences.of(run)
    computer = Computer(seen.batch, seen.paths, run.at)
    told = computer.answer(Ask.parse({"step": ["1000"], "fresh": ["20"]}), None)["typed"]
    hits = [one["named"] == one["right"] for sequence in told for one in sequence["answers"]]
    assert sum(hits) / len(hits) > 0.95


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"typed": ["1,2"]}, "a sequence of induction has 7 tokens below 9"),
        ({"typed": ["3,1,4,8,5,2,9"]}, "has 7 tokens below 9"),
        ({"typed": ["3,1,4,8,5,3,4"]}, "must all differ"),
        ({"typed": ["3,1,4,8,5,2,7"]}, "must be one of those before it"),
        ({"typed": ["3,1,4,8,5,2,2"]}, "that another one follows"),
        ({"typed": ["a,b"]}, "typed must be a whole number"),
        ({"fresh": ["3"]}, "facts cannot be typed for the task induction"),
        ({"fresh": ["65"]}, "fresh must be at most 64"),
    ],
)
def test_what_cannot_be_asked_is_told(values, said):
    with pytest.raises(BadInput, match=said):
        answer(computer_of(Induction(length=6, d_vocab=9)), **values)


def test_a_sheet_is_not_typed_by_tokens():
    with pytest.raises(BadInput, match="retrieval cannot be typed"):
        answer(computer_of(TASKS["retrieval"]()), typed=["1,2"])


@pytest.mark.parametrize(
    ("name", "tokens", "said"),
    [
        ("hop_k", lambda example: [0, *example[1:]], "begins with a number of hops"),
        ("hop_k", lambda example: [example[0], 1, 1, *example[3:]], "no letter may follow itself"),
        ("k_fold", lambda example: [0, 0, *example[2:]], "each symbol once"),
        ("two_hop", lambda example: [*example[:-1], 29 if example[-1] != 29 else 28], "the query must begin a pair"),
        ("trigger_bigrams", lambda example: [1, 5, 1, 6, *example[4:]], "space is a trigger"),
        ("factual_recall", lambda example: [*example[:-1], 0], "one subject and one relation"),
        ("noisy_bigram", lambda example: [*example[:-1], 1], "q must stand last"),
    ],
)
def test_what_a_task_never_draws_is_told(name, tokens, said):
    task = TASKS[name]()
    with pytest.raises(BadInput, match=said):
        task.read(tokens(task.sample(1, 0).inputs[0].tolist()))


def test_triggers_that_are_drawn_cannot_be_read_off():
    typing = typing_of(TASKS["trigger_bigrams"](trigger_choice="drawn").sample(2, 0))
    assert typing["kind"] == "none" and "does not say which they are" in typing["told"]


def test_a_task_that_reads_nothing_says_so(monkeypatch):
    monkeypatch.setattr(Induction, "read", Task.read)
    typing = typing_of(Induction().sample(2, 0))
    assert typing == {"kind": "none", "told": "Sequences of the task induction cannot be typed: it does not read them."}

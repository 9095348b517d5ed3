"""Grids and commands: by hand, by enumeration against other implementations, and asked of a server."""

from __future__ import annotations

import json
import re
from itertools import permutations, product

import numpy
import pytest

from hopscope.cli import main
from hopscope.formulations.base_draw import Draw
from hopscope.language.backends.known import Known
from hopscope.language.benchmarks.hypothesis_refinement import HypothesisRefinement, domain_named
from hopscope.language.layouts.chat import Chat
from hopscope_studies.hypothesis_refinement.experiments import hypothesis_refinement_kinds
from tests.fault_server import FaultServer

GRIDS, COMMANDS = domain_named("grids"), domain_named("commands")

# Grids ---------------------------------------------------------------------------------------------------------------

BY_HAND = {
    "mirror": "021/100/211",
    "turn": "101/102/210",
    "swap": "210/002/221",
    "erase": "100/001/110",
    "fill": "122/221/112",
    "fall": "000/121/112",
    "slide": "012/100/211",
    "copy": "120/120/120",
    "turn then fall": "100/101/212",
    "copy then fill": "122/122/122",
}


def cells_of(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, row)) for row in text.split("/"))


@pytest.mark.parametrize("rule", BY_HAND)
def test_operations_on_a_grid_by_hand(rule):
    given = cells_of("120/001/112")
    names = rule.split(" then ")
    assert GRIDS.told(GRIDS.run(names, given)) == BY_HAND[rule]
    assert GRIDS.applied(GRIDS.read_rule(rule, lenient=False), given) == BY_HAND[rule]


#: The same operations on an array of grids [..., row, column].
IN_NUMPY = {
    "mirror": lambda grids: numpy.flip(grids, axis=-1),
    "turn": lambda grids: numpy.rot90(grids, k=-1, axes=(-2, -1)),
    "swap": lambda grids: numpy.where(grids == 0, 0, 3 - grids),
    "erase": lambda grids: numpy.where(grids == 2, 0, grids),
    "fill": lambda grids: numpy.where(grids == 0, 2, grids),
    "fall": lambda grids: numpy.take_along_axis(grids, numpy.argsort(grids > 0, axis=-2, kind="stable"), axis=-2),
    "slide": lambda grids: numpy.roll(grids, 1, axis=-1),
    "copy": lambda grids: numpy.repeat(grids[..., :1, :], 3, axis=-2),
}


def by_numpy(names, grids):
    for name in names:
        grids = IN_NUMPY[name](grids)
    return grids


def test_every_rule_on_grids_is_a_function_of_its_own_on_all_19683_grids():
    """And every pair of operations is the rule that it is read as; rules agree with arrays on some grids."""
    every = numpy.array(list(product(range(3), repeat=9)), dtype=numpy.int8).reshape(-1, 3, 3)
    rules = {rule: by_numpy(names, every).tobytes() for rule, names in GRIDS.rules.items()}
    assert len(set(rules.values())) == len(rules) == 46
    for pair in product(IN_NUMPY, repeat=2):
        called = GRIDS.read_rule(" then ".join(pair), lenient=False)
        assert rules[called] == by_numpy(pair, every).tobytes()
    some = every[::601]
    for rule, names in GRIDS.rules.items():
        told = [GRIDS.told(grid) for grid in by_numpy(names, some).tolist()]
        assert told == [GRIDS.applied(rule, tuple(map(tuple, grid))) for grid in some.tolist()]


def test_no_grid_gets_the_same_output_from_all_rules():
    """So that every example can be spoilt."""
    every = numpy.array(list(product(range(3), repeat=9)), dtype=numpy.int8).reshape(-1, 3, 3)
    made = numpy.stack([by_numpy(names, every) for names in GRIDS.rules.values()])
    assert (made != made[0]).any(axis=(0, 2, 3)).all()


# Commands ------------------------------------------------------------------------------------------------------------

UNITS = [*((name,) for name in ("dax", "lug", "wif")), *((name, "fep") for name in ("dax", "lug", "wif"))]
EVERY = [*UNITS, *((*one, "kiki", *other) for one, other in product(UNITS, repeat=2))]
SHAPES = {"then": r"\1 \2", "after": r"\2 \1", "around": r"\1 \2 \1", "inside": r"\2 \1 \2"}


def rewritten(rule: str, command: str) -> str:
    """What a command means, by rewriting its text."""
    dax, lug, wif, often, joined = rule.split(", ")
    text = re.sub(r"(\w+) fep", r"\1 \1" if often == "twice" else r"\1 \1 \1", command)
    text = re.sub(r"^(.+) kiki (.+)$", SHAPES[joined], text)
    for name, colour in (("dax", dax), ("lug", lug), ("wif", wif)):
        text = text.replace(name, colour)
    return text


@pytest.mark.parametrize(
    ("rule", "command", "meant"),
    [
        ("red, blue, green, twice, then", "dax kiki lug fep", "red blue blue"),
        ("red, blue, green, thrice, after", "dax kiki lug fep", "blue blue blue red"),
        ("red, blue, green, twice, around", "wif fep kiki dax", "green green red green green"),
        ("red, blue, green, twice, inside", "wif fep kiki dax", "red green green red"),
        ("red, blue, green, thrice, inside", "dax fep", "red red red"),
        ("red, blue, green, thrice, around", "lug", "blue"),
    ],
)
def test_commands_by_hand(rule, command, meant):
    assert COMMANDS.applied(rule, tuple(command.split())) == meant == rewritten(rule, command)


def test_every_rule_on_every_command_by_rewriting():
    assert len(EVERY) == len(set(EVERY)) == 42
    made = {rule: tuple(COMMANDS.applied(rule, given) for given in EVERY) for rule in COMMANDS.rules}
    assert made == {rule: tuple(rewritten(rule, " ".join(given)) for given in EVERY) for rule in COMMANDS.rules}
    assert len(set(made.values())) == len(made) == 6 * 2 * 4
    assert all(len(COMMANDS.outputs(given)) > 1 for given in EVERY)
    assert {tuple(rule.split(", ")[:3]) for rule in made} == set(permutations(("red", "green", "blue")))


def test_every_command_is_drawn_and_no_other():
    drawn = {COMMANDS.drawn(Draw("test", {}, 0, index)) for index in range(2000)}
    assert drawn == set(EVERY)


# Answers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "text", "strict", "lenient"),
    [
        ("grids", " 012/120/000.", "012/120/000", "012/120/000"),
        ("grids", "It is 012/120/000, no: 111/120/000", None, "111/120/000"),
        ("grids", "013/120/000", None, None),  # no such colour
        ("grids", "012/120", None, None),
        ("grids", "0012/120/000", None, None),
        ("grids", "012 120 000", None, None),
        ("commands", "red blue blue.", "red blue blue", "red blue blue"),
        ("commands", "Red", None, None),
        ("commands", "red or else blue green", None, "blue green"),
        ("commands", "reddish", None, None),
        ("commands", "dax", None, None),
    ],
)
def test_outputs_are_read_from_text(domain, text, strict, lenient):
    assert domain_named(domain).read_output(text, lenient=False) == strict
    assert domain_named(domain).read_output(text, lenient=True) == lenient


@pytest.mark.parametrize(
    ("domain", "text", "strict", "lenient"),
    [
        ("grids", "turn then fall", "turn then fall", "turn then fall"),
        ("grids", "fill then mirror", "mirror then fill", "mirror then fill"),  # the same, and first
        ("grids", "I would turn", None, "turn"),
        ("grids", "rotate", None, None),
        ("commands", "red, blue, green, twice, then", "red, blue, green, twice, then", "red, blue, green, twice, then"),
        ("commands", "red, red, green, twice, then", None, None),  # a colour each
        ("commands", "They mean red, blue, green, twice, after", None, "red, blue, green, twice, after"),
        ("commands", "red, blue, green, then, twice", None, None),
    ],
)
def test_rules_are_read_from_text(domain, text, strict, lenient):
    assert domain_named(domain).read_rule(text, lenient=False) == strict
    assert domain_named(domain).read_rule(text, lenient=True) == lenient


# Claims and commands -------------------------------------------------------------------------------------------------


def test_the_two_domains_are_asked_as_lists_and_lights_are():
    works = list(hypothesis_refinement_kinds.runs("cpu"))
    assert {work.domain for work in works} == {"grids", "commands"}
    asked = [work for work in works if getattr(work, "model", "") == "smollm2"]
    assert [(work.domain, work.layout, work.count, work.choose) for work in asked] == [
        ("grids", "code", 40, True),
        ("grids", "chat", 20, False),
        ("commands", "code", 40, True),
        ("commands", "chat", 20, False),
    ]


ASKED = ["--layout", "chat", "--protocol", "greedy_lenient", "--count", "6", "--json"]


@pytest.mark.parametrize("domain", ["grids", "commands"])
@pytest.mark.parametrize("answers", ["output", "rule"])
def test_a_server_is_asked_and_the_cost_told_beforehand(domain, answers, tmp_path, capsys, monkeypatch):
    """The page's command, at a server that knows every answer; the bound on requests is what was then sent."""
    pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")
    monkeypatch.chdir(tmp_path)
    bench, known = HypothesisRefinement(domain, answers), Known("chatty" if answers == "rule" else "oracle")
    known.learn(bench, Chat(), 0, range(6))
    with FaultServer(answer=known.answer) as server:
        told = ["lm", "evaluate", "--benchmark", f"hypothesis_refinement(domain={domain}, answers={answers})"]
        told += ["--model", server.url, *ASKED]
        assert main([*told, "--dry-run"]) == 0
        (cost,) = json.loads(capsys.readouterr().out)
        assert (server.requests, cost["requests"], cost["tokens_out"]) == (0, 6, 6 * bench.MAX_TOKENS)
        assert main(told) == 0
        rows = {row["measure"]: row for row in json.loads(capsys.readouterr().out)}
        assert server.requests == 6
    assert {name: row["value"] for name, row in rows.items()} == {"raw": 1, "task": 1, "valid": 1}
    assert 0 < rows["raw"]["chance"] < 0.5

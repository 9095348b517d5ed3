"""`hopscope depth` as users meet it: JSON as in contracts, words, pictures, and one sentence for what cannot be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ask(capsys):
    """Run `hopscope depth`; returns its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["depth", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def test_json_as_in_contracts(ask):
    code, out, _ = ask(7, "--json")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == ["hops", "mask", "heads", "order", "min_layers", "paper_bound", "schedule", "certificate"]
    assert (answer["hops"], answer["mask"], answer["heads"], answer["order"]) == (7, "causal", "one", "nearest_first")
    assert (answer["min_layers"], answer["paper_bound"]) == (4, 3)
    assert all(set(path) == {"layer", "head", "query", "key", "chain"} for path in answer["schedule"])
    assert answer["certificate"]["query_reach"] == [0, 1, 3, 7]
    assert answer["certificate"]["needed"] == 14
    assert answer["certificate"]["held"]["query"] == [0, 7]


@pytest.mark.parametrize(
    ("arguments", "layers"),
    [
        ((13, "--mask", "none", "--heads", "many"), 4),
        ((13, "--mask", "none"), 5),
        ((4, "--heads", "many", "--order", "1,2,4,3"), 3),
        ((4, "--order", "1,2,4,3"), 4),
        ((4, "--order", "shuffled"), 4),
        (("--shape", "a>x a>y xy>z"), 3),
    ],
)
def test_options_reach_the_answer(ask, arguments, layers):
    code, out, _ = ask(*arguments, "--json")
    assert code == 0
    assert json.loads(out)["min_layers"] == layers


def test_words_for_people(ask):
    code, out, _ = ask(3)
    assert code == 0
    assert "fewest layers: 3 = ⌈log2(2D+1)⌉; the paper's lower bound ⌈log3 2D⌉ is 2" in out
    assert re.search(r"layer 1 +├─H0─+┼─+┼─+▶│\n +│ +├─H0─+▶│ +│\n", out)  # query to value[1], value[3] to value[2]
    assert "Why 2 layers cannot: the answer is piece e6" in out
    assert "e0, e1, e3" in out


def test_words_for_other_settings(ask):
    assert "⌈log3(4D+1)⌉" in ask(3, "--mask", "none", "--heads", "many")[1]
    assert "fewer than ⌈log2(2D+1)⌉" in ask(4, "--heads", "many", "--order", "1,2,4,3")[1]
    assert "this is the number for the worst order" in ask(4, "--order", "shuffled")[1]
    shape = ask("--shape", "a>x a>y xy>z")[1]
    assert "key[3,1]" in shape and "├─H1─" in shape
    assert "z is missing" in shape
    assert max(map(len, ask(1000)[1].splitlines())) < 1000


def test_a_picture(ask, tmp_path):
    code, out, _ = ask(2, "--draw", tmp_path / "two.svg")
    assert code == 0
    for suffix in ("svg", "png"):
        assert (tmp_path / f"two.{suffix}").stat().st_size > 1000
        assert f"two.{suffix}" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "hops must be from 1"),
        ((3000,), "hops must be from 1 to 2048"),
        (("two",), "two"),
        ((), "give the number of hops D, or a --shape"),
        ((2, "--shape", "a>x"), "not both"),
        ((2, "--mask", "half"), "--mask"),
        ((2, "--heads", "two"), "--heads"),
        ((3, "--order", "1,2"), "order must be"),
        (("--shape", "a>"), "shape must be steps"),
        (("--shape", "a>x", "--heads", "one"), "--heads many"),
        (("--shape", "a>x x>y", "--order", "1"), "order must be"),
        ((20, "--draw", "long"), "at most 16 hops"),
    ],
)
def test_bad_input_is_one_sentence(ask, arguments, words):
    code, out, err = ask(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_a_thousand_hops_need_neither_pytorch_nor_patience():
    code = "import sys, time; from hopscope.cli import main; main(['depth', '1000', '--json'])"
    code += "; print('torch' in sys.modules); print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    *answer, torch, seconds = done.stdout.splitlines()
    assert torch == "False"
    assert float(seconds) < 5  # of the processor's time: one with the interpreter's start, more on a slow machine
    assert json.loads("\n".join(answer))["min_layers"] == 11

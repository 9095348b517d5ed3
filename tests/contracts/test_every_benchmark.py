"""Every benchmark, found by its file: the right answer scores 1, guesses score chance, nothing breaks the scorer."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.language.benchmarks.base import LONGEST, Benchmark, Exercise

ROOT = Path(__file__).parents[2]
NAMES = catalogue.names("language.benchmarks")
LAYOUTS = catalogue.names("language.layouts")
GUESSES = 200
#: What models write that is no answer, and what nobody should write.
MALFORMED = (
    *(
        "",
        " ",
        "\n",
        ".",
        ",",
        "I cannot say.",
        "->",
        "-> ->",
        "a",
        "[",
        "[[[[",
        "]",
        "[1, 2",
        "None",
        "''",
        "\x00",
        "�",
    ),
    *(
        "__import__('os').system('true')",
        "$(true)",
        "(" * 5000,
        "[" * 5000,
        "ab -> " * 5000 + "zz",
        "é -> ñ",
        "→",
        "x" * 10**5,
    ),
    *("take", "onoff", "reversed", "9" * 5000),
)


#: As the catalogue reads them: every benchmark by default, and other forms of its answers.
FORMS = (
    *NAMES,
    "induction_bench(k=3, n_letters=3, n_rules=2, labels=shuffled)",
    *(f"hypothesis_refinement(domain={domain}, answers={form})"
      for domain, form in product(catalogue.names("language.domains"), ("output", "rule"))
      if (domain, form) != ("lists", "output")),
)  # fmt: skip


@pytest.fixture(params=FORMS)
def benchmark_of(request) -> Benchmark:
    return catalogue.chosen("language.benchmarks", request.param)


@functools.cache
def asked(benchmark: Benchmark) -> list[Exercise]:
    return [benchmark.question(5, index) for index in range(25)]


@pytest.fixture
def exercises(benchmark_of) -> list[Exercise]:
    return asked(benchmark_of)


def test_the_right_answer_scores_one(exercises):
    for one in exercises:
        for text in (one.answer, f" {one.answer}\n", f"{one.answer}."):
            assert one.mark(text).valid and set(one.mark(text).measures.values()) == {1.0}, text
        assert set(one.mark(one.answer, lenient=True).measures.values()) == {1.0}


def test_every_choice_is_of_the_right_form_and_one_is_right(exercises):
    for one in exercises:
        assert len(set(one.acceptable)) == len(one.acceptable) == round(1 / one.benchmark.chance)
        marks = [one.mark(choice) for choice in one.acceptable]
        assert all(mark.valid for mark in marks)
        right = [set(mark.measures.values()) == {1.0} for mark in marks]
        assert right.count(True) == 1 and one.acceptable[right.index(True)] == one.answer
    assert len({one.acceptable.index(one.answer) for one in exercises}) == len(exercises[0].acceptable)


def test_measures_are_what_the_benchmark_says(exercises):
    for one in exercises:
        for text in (one.answer, "nothing", one.guess(3)):
            mark = one.mark(text)
            assert tuple(mark.measures) == one.benchmark.MEASURES == tuple(one.benchmark.floors(one))
            assert all(0 <= value <= 1 for value in mark.measures.values())


def test_guesses_are_valid_and_score_their_closed_form(benchmark_of):
    made = [benchmark_of.question(0, index) for index in range(GUESSES)]
    marks = [one.mark(one.guess(index)) for index, one in enumerate(made)]
    assert all(mark.valid for mark in marks)
    for name in benchmark_of.MEASURES:
        floors = [benchmark_of.floors(one)[name] for one in made]
        floor = sum(floors) / GUESSES
        error = (floor * (1 - floor) / GUESSES) ** 0.5
        assert sum(mark.measures[name] for mark in marks) / GUESSES == pytest.approx(floor, abs=5 * error + 1e-9), name


@pytest.mark.parametrize("lenient", [False, True])
def test_malformed_answers_are_counted_and_break_nothing(exercises, lenient):
    one = exercises[0]
    for text in MALFORMED:
        mark = one.mark(text, lenient)
        assert not mark.valid and set(mark.measures.values()) == {0.0}, text
    late = "no " * LONGEST + one.answer  # further than is read
    assert not one.mark(late, lenient).valid


def test_what_is_said_around_an_answer_is_forgiven_by_lenient_reading_alone(exercises):
    for one in exercises:
        said = f"Let me see. {one.answer}"
        assert not one.mark(said).valid
        assert set(one.mark(said, lenient=True).measures.values()) == {1.0}


def test_seed_and_index_make_the_exercise(benchmark_of):
    made = benchmark_of.question(3, 4)
    assert made == benchmark_of.question(3, 4)
    assert made.formulation == benchmark_of.name() and (made.seed, made.index) == (3, 4)
    assert len({benchmark_of.question(seed, index).prompt for seed in range(6) for index in range(6)}) > 30
    with pytest.raises(BadInput, match="must be 0 or more"):
        benchmark_of.question(-1, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_asks_it(exercises, layout):
    shown, one = catalogue.find("language.layouts", layout)(), exercises[2]
    rendered, blank = shown.render(one.benchmark, one), shown.render(one.benchmark, one.without_facts())
    assert one.facts in rendered.text and one.facts not in blank.text
    assert tuple(choice.strip() for choice in rendered.choices) == one.acceptable
    assert "\n" not in one.answer and one.stem == one.stem.strip()


def test_json_has_prompt_answer_and_choices(exercises):
    again = json.loads(json.dumps(exercises[0].as_dict()))
    assert list(again) == ["prompt", "answer", "choices"]
    assert again["answer"] in again["choices"]


FINGERPRINTS = """
import hashlib, json, sys
from hopscope.core import catalogue
found = {}
for name in catalogue.names("language.benchmarks"):
    made = [catalogue.find("language.benchmarks", name)().question(7, i) for i in range(10)]
    told = "".join(repr(one) + one.guess(3) for one in made)
    found[name] = hashlib.sha256(told.encode()).hexdigest()
print(json.dumps(found))
assert "torch" not in sys.modules and "numpy" not in sys.modules, "benchmarks need no tensors"
"""


def test_other_processes_make_the_same_bytes_without_torch():
    found = []
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", FINGERPRINTS], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert sorted(found[0]) == NAMES

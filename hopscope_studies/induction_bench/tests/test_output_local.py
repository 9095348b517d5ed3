"""Output strictly local functions: the plain definition as an oracle, and every small function enumerated."""

from __future__ import annotations

import json
from itertools import combinations, permutations, product

import pytest

from hopscope.cli import main
from hopscope.language.benchmarks import base_local_functions as isl
from hopscope.language.benchmarks.base_local_functions import all_rules, as_text, clash, in_order, rules_in, strings
from hopscope.language.benchmarks.induction_bench import InductionBench
from hopscope_studies.induction_bench.language.benchmarks.base_output_local import applied, is_shown, learned, sample
from hopscope_studies.induction_bench.language.benchmarks.induction_bench_osl import MOST, InductionBenchOsl
from hopscope_studies.induction_bench.measured import Learned

SIZES = [(2, 3, 2), (3, 3, 2), (3, 2, 4), (3, 5, 4), (4, 3, 5)]


def functions(letters: str, k: int, most: int) -> list[dict[str, str]]:
    """All sets of 1 to `most` rules of which none's suffix is a suffix of another's."""
    rules, found = all_rules(letters, k), []
    for count in range(1, most + 1):
        for some in combinations(rules, count):
            if not any(clash(a, b) for (a, _), (b, _) in combinations(some, 2)):
                found.append(in_order(dict(some)))
    return found


def from_left(rules: dict[str, str], text: str) -> str:
    """By the definition: the last letter of a rule's left side changes, after the others as written."""
    written = ""
    for letter in text:
        (said,) = [out for left, out in rules.items() if (written + letter).endswith(left)] or [letter]
        written = written + said
    return written


def from_right(rules: dict[str, str], text: str) -> str:
    """By the definition: the first letter of a rule's left side changes, before the others as written."""
    written = ""
    for letter in reversed(text):
        (said,) = [out for left, out in rules.items() if (letter + written).startswith(left)] or [letter]
        written = said + written
    return written


def test_what_is_written_counts_by_hand():
    assert [applied({"bb": "a"}, text) for text in ("b", "bb", "bbb", "bbbb")] == ["b", "ba", "bab", "baba"]
    assert isl.applied({"bb": "a"}, "bbbb") == "baaa"  # an input strictly local function sees the letters read
    assert applied({"ab": ""}, "abb") == "a"  # what was left out is no context
    assert isl.applied({"ab": ""}, "abb") == "ab"


@pytest.mark.parametrize(("side", "written"), [("left", from_left), ("right", from_right)])
@pytest.mark.parametrize("size", SIZES)
def test_examples_are_what_the_definition_writes(size, side, written):
    benchmark = InductionBenchOsl(*size, side=side)
    for index in range(8):
        exercise = benchmark.question(0, index)
        text = exercise.answer if side == "left" else benchmark.turned(exercise.answer)
        rules = {
            left if side == "left" else left[::-1]: out for left, out in rules_in(text, benchmark.letters, size[0])
        }
        assert len(rules) == size[2] and max(map(len, rules)) == size[0]
        pairs = [line.removeprefix("f(").split(") = ") for line in exercise.statements]
        assert pairs == sorted(pairs, key=lambda pair: (len(pair[0]), pair[0]))
        assert [out for _, out in pairs] == [written(rules, left) for left, _ in pairs]


@pytest.mark.parametrize(
    ("letters", "k", "most", "sets", "distinct", "longer"),
    [("ab", 2, 4, 80, 80, 0), ("abc", 2, 2, 351, 351, 0), ("ab", 3, 3, 1408, 1120, 40)],
)
def test_every_function_has_one_shown_set_of_rules_which_is_learned(letters, k, most, sets, distinct, longer):
    """And `longer` of them need examples of more than k letters: all strings of up to k letters do not show them."""
    every = functions(letters, k, most)
    shown = [rules for rules in every if is_shown(rules, letters, k)]
    assert (len(every), len(shown)) == (sets, distinct)
    texts = ["".join(text) for text in product(letters, repeat=k + 3)]
    outputs, of_shown = (
        len({tuple(from_left(rules, text) for text in texts) for rules in some}) for some in (every, shown)
    )
    assert outputs == of_shown == distinct
    assert all(learned(sample(rules, letters, k), k) == rules for rules in shown)
    short = [learned({text: applied(rules, text) for text in strings(letters, k)}, k) for rules in shown]
    assert sum(found != rules for found, rules in zip(short, shown, strict=True)) == longer


@pytest.mark.parametrize(("letters", "k", "most"), [("ab", 3, 3), ("ab", 4, 2)])
def test_no_other_set_of_as_many_rules_agrees_with_a_shown_one_on_its_sample(letters, k, most):
    """Nor a smaller one. Sets of clashing rules, which a guess may state, count too."""
    every = [
        dict(reversed(some)) for count in range(1, most + 1) for some in combinations(all_rules(letters, k), count)
    ]
    shown = [rules for rules in functions(letters, k, most) if is_shown(rules, letters, k)][:: 40 if k == 3 else 400]
    for rules in shown:
        examples = sample(rules, letters, k).items()
        agree = [other for other in every if all(applied(other, text) == out for text, out in examples)]
        assert {tuple(in_order(other).items()) for other in agree if len(other) <= len(rules)} == {tuple(rules.items())}


def test_for_two_letters_the_sample_is_that_of_an_input_strictly_local_function():
    """Who takes the function for one finds all its rules from these examples."""
    for rules in functions("abc", 2, 2):
        examples = sample(rules, "abc", 2)
        assert examples == {text: isl.applied(rules, text) for text in strings("abc", 2)}
        assert isl.learned(examples, 2) == rules


def test_functions_of_one_rule_in_both_classes_by_hand():
    """If xx is left out, the context stays x; if x, y and z all differ, no rule looks at what xy -> z wrote."""
    same = {
        (left, out)
        for left, out in all_rules("abc", 2)
        if all(applied({left: out}, text) == isl.applied({left: out}, text) for text in strings("abc", 4))
    }
    in_both = {(x + x, "") for x in "abc"} | {(x + y, z) for x, y, z in permutations("abc")}
    assert same == in_both and len(same) == 9 < len(all_rules("abc", 2)) == 27


def test_floors_by_counting_all_guesses():
    for side in ("left", "right"):
        benchmark = InductionBenchOsl(k=3, n_letters=2, n_rules=2, side=side)
        guesses = [benchmark.turned(as_text(dict([a])) + ", " + as_text(dict([b]))) for a, b in
                   combinations(all_rules("ab", 3), 2)]  # fmt: skip
        exercise = benchmark.question(0, 1)
        marks = [exercise.mark(guess).measures for guess in guesses]
        for name, floor in benchmark.floors(exercise).items():
            assert sum(mark[name] for mark in marks) / len(guesses) == pytest.approx(floor), name


def test_marks_by_hand():
    left, right = (InductionBenchOsl(k=2, n_letters=2, n_rules=1, side=side) for side in ("left", "right"))
    assert left.exercise(0, 0, (), "", "", ("ab -> a", ())).mark("ab -> a").measures == dict.fromkeys(left.MEASURES, 1)
    mirrored = right.exercise(0, 0, (), "", "", ("ab -> b", ()))
    assert mirrored.mark("ab -> b").measures == dict.fromkeys(right.MEASURES, 1)
    assert not mirrored.mark("ab -> a").valid  # a copy, for it is a that changes
    assert mirrored.mark("ab -> ''").measures == dict.fromkeys(right.MEASURES, 0)
    assert mirrored.mark("ba -> a, ab -> b").measures == {"recall": 1, "precision": 0.5, "compatibility": 0, "exact": 0}


def test_functions_that_no_examples_show_are_left_out():
    """The first such exercise is the one of a number far away."""
    benchmark, plain = InductionBenchOsl(3, 2, 4), super(InductionBenchOsl, InductionBenchOsl(3, 2, 4))
    hidden = [
        index for index in range(60) if not is_shown(benchmark.rules_of(plain.question(0, index).answer), "ab", 3)
    ]
    assert len(hidden) > 3
    for index in hidden:
        exercise = benchmark.question(0, index)
        assert exercise.index == index and exercise.answer == benchmark.question(0, index + MOST).answer
        assert is_shown(benchmark.rules_of(exercise.answer), "ab", 3)


@pytest.mark.parametrize("side", ["left", "right"])
def test_shuffled_labels_keep_rules_and_right_sides_and_part_them(side):
    for index in range(5):
        true, mixed = (InductionBenchOsl(3, 3, 2, labels, side).question(0, index) for labels in ("true", "shuffled"))
        assert (mixed.answer, mixed.acceptable, mixed.ask) == (true.answer, true.acceptable, true.ask)
        sides = [[line.split(" = ") for line in one.statements] for one in (true, mixed)]
        assert [left for left, _ in sides[0]] == [left for left, _ in sides[1]]
        assert sorted(right for _, right in sides[0]) == sorted(right for _, right in sides[1]) and sides[0] != sides[1]


def test_the_closing_line_says_where_reading_begins():
    plain, left, right = (one.ask for one in (InductionBench(), InductionBenchOsl(), InductionBenchOsl(side="right")))
    assert left == plain.replace("y right after x", "y right after a written x") != plain
    assert "from right to left, but for rules such as xy -> z: x right before a written y becomes z; or" in right
    assert right.count("x right before a written y") == 2 == left.count("y right after a written x")


def test_the_learner_finds_functions_of_the_papers_sizes_and_fewer_rules_from_half():
    for size in ((2, 5, 3), (3, 5, 4), (4, 5, 5)):
        rows = Learned(*size, count=8, side="left").report()["rows"]
        assert {row["value"] for row in rows if row["labels"] == "true"} == {1.0}
        (half,) = (row["value"] for row in rows if (row["labels"], row["measure"]) == ("half", "recall"))
        assert half < 0.7


def test_costs_at_an_endpoint_are_told_beforehand(capsys):
    told = ["--benchmark", "induction_bench_osl(side=right)", "--model", "https://example.com/v1", "--layout", "chat"]
    assert main(["lm", "evaluate", *told, "--count", "10", "--dry-run", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["requests"] == 10 and row["question"] == "induction_bench_osl"

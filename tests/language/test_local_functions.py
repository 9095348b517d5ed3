"""InductionBench against brute force over all small functions, against hand calculation, and through every runner."""

from __future__ import annotations

import csv
import json
import re
from itertools import combinations, product

import pytest

from hopscope.cli import main
from hopscope.core.intervals import wilson, wilson_of_mean
from hopscope.core.settings import BadInput
from hopscope.formulations.base_draw import Draw
from hopscope.language.backends.known import Known
from hopscope.language.benchmarking import PROTOCOLS, ask_benchmark
from hopscope.language.benchmarks.base_local_functions import (
    all_rules,
    applied,
    as_text,
    clash,
    drawn,
    in_order,
    learned,
    read_rules,
    rules_in,
    strings,
)
from hopscope.language.benchmarks.induction_bench import InductionBench
from hopscope.language.evaluation import Evaluation, read_rows
from hopscope.language.layouts.chat import Chat
from hopscope.language.lm_eval import export

ONE = InductionBench(k=2, n_letters=2, n_rules=1)


def functions(letters: str, k: int, most: int) -> list[dict[str, str]]:
    """All functions with 1 to `most` rules."""
    rules, found = all_rules(letters, k), []
    for count in range(1, most + 1):
        for some in combinations(rules, count):
            if not any(clash(a, b) for (a, _), (b, _) in combinations(some, 2)):
                found.append(in_order(dict(some)))
    return found


def written(rules: dict[str, str], text: str) -> str:
    """By the definition: a table of what is written for every window, filled rule by rule, then looked up."""
    longest = max(map(len, rules))
    table = {w: w[-1] for w in strings("".join(sorted(set(text) | set("".join(rules)))), longest)}
    for suffix, out in rules.items():
        table |= {window: out for window in table if window.endswith(suffix)}
    return "".join(table[text[max(0, end - longest) : end]] for end in range(1, len(text) + 1))


def sample(rules: dict[str, str], letters: str, k: int) -> dict[str, str]:
    return {string: applied(rules, string) for string in strings(letters, k)}


@pytest.mark.parametrize(("letters", "k", "most", "count"), [("ab", 2, 4, 80), ("abc", 2, 2, 351), ("ab", 3, 2, 256)])
def test_the_learner_finds_every_small_function_and_no_two_look_alike(letters, k, most, count):
    every = functions(letters, k, most)
    assert len(every) == count
    looks = [tuple(sample(rules, letters, k).items()) for rules in every]
    assert len(set(looks)) == len(every)
    assert all(learned(dict(look), k) == rules for look, rules in zip(looks, every, strict=True))
    longer = ["".join(s) for s in product(letters, repeat=k + 2)]
    for rules in every[::7]:
        assert [applied(rules, string) for string in longer] == [written(rules, string) for string in longer]


@pytest.mark.parametrize(("k", "letters", "rules"), [(2, 5, 3), (3, 5, 4), (3, 8, 5), (4, 5, 5)])
def test_the_learner_finds_functions_of_the_papers_sizes(k, letters, rules):
    alphabet = "abcdefgh"[:letters]
    for index in range(8):
        function = drawn(Draw("test", {}, 1, index), alphabet, k, rules)
        assert len(function) == rules and max(map(len, function)) == k
        assert not any(clash(a, b) for a, b in combinations(function, 2))
        assert learned(sample(function, alphabet, k), k) == function


def test_half_of_the_examples_are_too_few():
    """Negative control: what is not shown is not found."""
    recalls = []
    for index in range(30):
        function, draw = drawn(Draw("test", {}, 2, index), "abcde", 2, 3), Draw("half", {}, 2, index)
        shown = {s: w for s, w in sample(function, "abcde", 2).items() if draw.below(2)}
        found = learned(shown, 2)
        assert set(found.items()) <= set(function.items())  # k = 2: what is seen once is constant
        recalls.append(len(found) / 3)
    assert sum(recalls) / 30 == pytest.approx(1 / 4, abs=0.15)  # a rule shows if its string and its first letter do


@pytest.mark.parametrize(("rules", "size"), [(1, 8), (2, 28)])
def test_floors_by_counting_all_guesses(rules, size):
    bench = InductionBench(k=2, n_letters=2, n_rules=rules)
    guesses = [
        ", ".join(f"{s} -> {w or chr(39) * 2}" for s, w in some) for some in combinations(all_rules("ab", 2), rules)
    ]
    assert len(guesses) == size
    exercise = bench.question(0, 0)
    marks = [exercise.mark(guess).measures for guess in guesses]
    for name, floor in bench.floors(exercise).items():
        assert sum(mark[name] for mark in marks) / size == pytest.approx(floor), name


def test_one_rule_of_three_letters_and_five_is_guessed_once_in_750():
    assert InductionBench(k=3, n_letters=5, n_rules=1).floors()["recall"] == 1 / (150 * 5)


def test_marks_by_hand():
    exercise = ONE.exercise(0, 0, (), "", "", ("ab -> a", ()))
    assert exercise.mark("ab -> a").measures == dict.fromkeys(ONE.MEASURES, 1.0)
    assert exercise.mark("ba -> b, ab -> a").measures == {
        "recall": 1.0,
        "precision": 0.5,
        "compatibility": 0.0,
        "exact": 0.0,
    }
    assert exercise.mark("ab -> ''").measures == dict.fromkeys(ONE.MEASURES, 0.0)
    assert exercise.mark("ab -> ''").valid
    two = InductionBench(k=3, n_letters=2, n_rules=2)
    hand = two.exercise(0, 0, (), "", "", ("bb -> a, aab -> ''", ()))
    assert hand.mark("bb -> a").measures == {"recall": 0.5, "precision": 1.0, "compatibility": 0.0, "exact": 0.0}
    # abb and bbb together say what bb says, but for bb itself, at the beginning
    assert hand.mark("abb -> a, bbb -> a, aab -> ''").measures["compatibility"] == 0
    # of two rules for one suffix the first counts; the longer wins over the shorter
    assert hand.mark("bb -> a, aab -> '', aab -> a").measures["compatibility"] == 1
    assert hand.mark("bb -> a, abb -> a, aab -> ''").measures == {
        "recall": 1.0,
        "precision": 2 / 3,
        "compatibility": 1.0,
        "exact": 0.0,
    }


@pytest.mark.parametrize(
    ("text", "strict", "lenient"),
    [
        ("ab -> c", [("ab", "c")], [("ab", "c")]),
        ("ab→c; ba -> ''\nbc -> \"\".", [("ab", "c"), ("ba", ""), ("bc", "")], [("ab", "c"), ("ba", ""), ("bc", "")]),
        ("ab -> c, ab -> c", [("ab", "c")], [("ab", "c")]),
        ("The rule is ab -> c.", None, [("ab", "c")]),
        ("`ab -> c`", None, [("ab", "c")]),
        ("ab -> cc", None, []),
        ("ab -> b", None, []),  # a copy
        ("a -> b", None, []),  # too short
        ("abca -> b", None, []),  # too long
        ("xy -> z", None, []),  # not of these letters
        ("f(ab) = c", None, []),
        ("ab -> c, and", None, [("ab", "c")]),
        ("ab ->", None, []),
        ("", None, []),
    ],
)
def test_rules_are_read_from_text(text, strict, lenient):
    assert read_rules(text, "abc", 3) == strict
    assert rules_in(text, "abc", 3) == lenient


def test_rules_are_written_as_they_are_read():
    for rules in functions("ab", 3, 2):
        assert read_rules(as_text(rules), "ab", 3) == list(rules.items())


def test_examples_are_all_strings_and_what_the_function_writes():
    exercise = InductionBench(k=2, n_letters=3, n_rules=2).question(1, 2)
    rules = dict(read_rules(exercise.answer, "abc", 2))
    assert exercise.statements == tuple(f"f({s}) = {written(rules, s)}" for s in strings("abc", 2))
    assert len(exercise.statements) == 3 + 9


def test_shuffled_labels_keep_rules_and_right_sides_and_part_them():
    for index in range(10):
        true = InductionBench().question(0, index)
        mixed = InductionBench(labels="shuffled").question(0, index)
        assert (mixed.answer, mixed.acceptable, mixed.ask) == (true.answer, true.acceptable, true.ask)
        sides = [[line.split(" = ") for line in one.statements] for one in (true, mixed)]
        assert [left for left, _ in sides[0]] == [left for left, _ in sides[1]]
        assert sorted(right for _, right in sides[0]) == sorted(right for _, right in sides[1])
        rules = dict(read_rules(true.answer, "abcde", 2))
        right = [side == applied(rules, left[2:-1]) for left, side in sides[1]]
        assert sum(right) < 10  # of 30; one of 25 by chance, and one of five


def test_what_there_is_no_room_for_is_refused():
    with pytest.raises(BadInput, match="room for 4 rules; got 5"):
        InductionBench(k=3, n_letters=2, n_rules=5)
    with pytest.raises(BadInput, match="200 strings"):
        InductionBench(k=3, n_letters=8, labels="shuffled").question(0, 0)


# Asked ---------------------------------------------------------------------------------------------------------------


def known(behaviour: str, benchmark: InductionBench, count: int) -> Known:
    model = Known(behaviour)
    model.learn(benchmark, Chat(), 0, range(count))
    return model


def values(behaviour: str, protocol: str, benchmark: InductionBench = ONE, count: int = 40) -> dict[str, float]:
    found = ask_benchmark(known(behaviour, benchmark, count), benchmark, Chat(), protocol, Evaluation(count))
    return {row["measure"]: row["value"] for row in found.rows}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_whoever_knows_scores_exactly_one(protocol):
    for benchmark in (ONE, InductionBench(), InductionBench(k=3, labels="shuffled")):
        assert set(values("oracle", protocol, benchmark, 10).values()) == {1.0}


def test_whoever_is_malformed_scores_none_and_is_counted():
    nothing = dict.fromkeys((*ONE.MEASURES, "valid"), 0.0)
    for behaviour in ("refuses", "always_1", "last_line"):
        assert values(behaviour, "greedy_strict") == values(behaviour, "greedy_lenient") == nothing
    assert values("chatty", "greedy_strict") == nothing
    assert set(values("chatty", "greedy_lenient").values()) == {1.0}


def test_whoever_guesses_scores_what_their_guesses_are_worth():
    found = values("uniform", "greedy_strict", InductionBench(k=2, n_letters=3, n_rules=2), count=400)
    assert found["valid"] == 1  # of 324 functions; guesses follow from the text
    assert found["recall"] == found["precision"] == pytest.approx(2 / 27, abs=5 * (2 / 27 * 25 / 27 / 400) ** 0.5)


def test_rows_have_intervals_and_chance():
    backend = known("uniform", InductionBench(), 30)
    found = ask_benchmark(backend, InductionBench(), Chat(), settings=Evaluation(30))
    for row in found.rows:
        scores = [one.mark.measures.get(row["measure"], float(one.mark.valid)) for one in found.judged]
        assert (row["low"], row["high"]) == wilson_of_mean(scores) == wilson(sum(scores), 30)
        assert row["n"] == 30 and not row["partial"]
    chance = {row["measure"]: row["chance"] for row in found.rows if row["measure"] != "valid"}
    assert chance == pytest.approx(InductionBench().floors())


def test_strict_and_lenient_reading_share_an_answer(tmp_path):
    backend = known("chatty", ONE, 6)
    for protocol in ("greedy_strict", "greedy_lenient"):
        ask_benchmark(backend, ONE, Chat(), protocol, Evaluation(6), tmp_path)
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 6


def test_the_interval_of_a_mean_is_that_of_a_share_as_large():
    assert wilson_of_mean([1.0, 0.0, 1.0, 1.0]) == wilson(3, 4)
    assert wilson_of_mean([0.5, 0.5]) == wilson(1, 2)
    assert wilson_of_mean([]) == (0.0, 1.0)


# Commands ------------------------------------------------------------------------------------------------------------


def test_evaluate_knows_benchmarks(tmp_path, capsys):
    arguments = ["--benchmark", "induction_bench(k=2, n_letters=2, n_rules=1)", "--count", "5", "--layout", "chat"]
    out = tmp_path / "out"
    for _ in range(2):  # asked again, nothing is asked and no row is there twice
        assert main(["evaluate", *arguments, "--model", "known:oracle", "--out", str(out), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["measure"] for row in rows] == [*ONE.MEASURES, "valid"]
        assert {row["value"] for row in rows} == {1.0}
        assert rows[-1]["chance"] is None and rows[0]["chance"] == 1 / 8
    kept = read_rows(out / "benchmarks.csv")
    assert [row["value"] for row in kept] == ["1"] * 5
    assert list(csv.DictReader((out / "benchmarks.csv").read_text().splitlines())) == kept
    assert main(["evaluate", *arguments, "--model", "known:refuses", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "recall" in shown and "at 0.12" in shown and "induction_bench" in shown
    assert len(read_rows(out / "benchmarks.csv")) == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--benchmark", "induction_bench", "--hops", "2"], "--hops is not for benchmarks"),
        (["--benchmark", "induction_bench", "--formulation", "equations"], "--formulation is not for benchmarks"),
        (
            ["--benchmark", "induction_bench", "--protocol", "resample"],
            "must be one of greedy_strict, greedy_lenient",
        ),
        (["--benchmark", "induction_bensh"], "did you mean 'induction_bench'"),
        (["--benchmark", "induction_bench(kay=3)"], "has no setting 'kay'"),
        (["--benchmark", "induction_bench(k=9)"], "k must be at most 4"),
        (["--benchmark", "induction_bench", "--max-tokens", "0"], "max-tokens must be at least 1"),
    ],
)
def test_evaluate_refuses_in_a_sentence(arguments, words, capsys, tmp_path):
    assert main(["evaluate", *arguments, "--model", "known:oracle", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_ask_shows_an_exercise_and_its_choices(capsys):
    assert main(["ask", "induction_bench", "--k", "2", "--letters", "2", "--rules", "1", "--seed", "3"]) == 0
    made, shown = ONE.question(3, 0), capsys.readouterr().out
    assert shown.rstrip("\n") == f"{made.prompt}\nCorrect: {made.answer}\nChoices: {' | '.join(made.acceptable)}"
    assert main(["ask", "induction_bench", "--letters", "2", "--rules", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [ONE.question(0, 0).as_dict()]


def test_lm_eval_gets_a_choice_and_the_whole_answer(tmp_path):
    exported = export(ONE, tmp_path, 4, 1)
    assert exported.tasks == tuple(f"hopscope_induction_bench_2_2_1_true_{way}" for way in ("choice", "generate"))
    lines = (tmp_path / "hopscope_induction_bench_2_2_1_true.jsonl").read_text().splitlines()
    for index, line in enumerate(lines):
        made, document = ONE.question(1, index), json.loads(line)
        assert document["acceptable"][document["right"]] == document["answer"] == made.answer
        assert document["prompt"] == made.prompt and document["continued"] == f"{made.facts}\nRules of f:"
    text = (tmp_path / f"{exported.tasks[1]}.yaml").read_text()
    settings = {name: json.loads(value) for name, value in (line.split(": ", 1) for line in text.splitlines())}
    (way,) = settings["filter_list"]
    line, whole, _ = (one.get("regex_pattern", "") for one in way["filter"])
    assert re.findall(whole, re.findall(line, " ab -> ''.\n")[0]) == ["ab -> ''"]
    assert not [answer for found in re.findall(line, " \n") for answer in re.findall(whole, found)]
    assert settings["generation_kwargs"]["max_gen_toks"] == ONE.MAX_TOKENS

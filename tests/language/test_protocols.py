"""Protocols that put a question otherwise: what is given, what is read, and what is told before anything is asked."""

from __future__ import annotations

import json
import re

import pytest

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language import lm_eval
from hopscope.language.backends.known import Known
from hopscope.language.evaluation import Evaluation, evaluate
from hopscope.language.layouts.chat import Chat
from hopscope.language.layouts.code import Code
from hopscope.language.protocols.chain_of_thought import ChainOfThought
from hopscope.language.protocols.filler_tokens import FillerTokens
from hopscope.language.protocols.repeated_problem import RepeatedProblem
from hopscope.language.turns import completion

ASKED = Equations(n_hops=1, n_chains=2)


def chosen(text):
    return catalogue.chosen("language.protocols", text)


def put(protocol, layout):
    questions = protocol.put(ASKED)
    return layout.render(questions, questions.question(0, 0)).text


def test_a_repeated_problem_is_the_one_written_by_hand():
    plain = ASKED.question(0, 0)
    assert put(RepeatedProblem(n_times=2), Chat()) == f"{plain.prompt}\n\n(repeat #2)\n{plain.prompt}"
    again = f"{plain.prompt}\n\n(repeat #2)\n{plain.facts}\n{plain.stem}"
    assert put(RepeatedProblem(n_times=2), Code()) == again


def test_filler_stands_between_the_question_and_its_answer():
    plain, text = ASKED.question(0, 0), put(FillerTokens(n_numbers=5), Chat())
    assert text.startswith(plain.prompt) and text.endswith("\nFiller: 1 2 3 4 5")
    assert put(FillerTokens(n_numbers=5), Code()) == f"{text}\n{plain.stem}"


class Slow(Known):
    """Knows the answer only behind so many filler tokens."""

    def answer(self, text, seed):
        filler = re.search(r"Filler: (.*)", text)
        return super().answer(text, seed) if filler and len(filler[1].split()) >= 20 else "I cannot say."


def test_a_model_that_needs_twenty_tokens_answers_behind_twenty():
    for n, right in ((19, 0), (20, 8)):
        row = evaluate(Slow("oracle"), ASKED, Chat(), FillerTokens(n_numbers=n), Evaluation(count=8)).row
        assert (row["correct"], row["protocol"]) == (right, f"filler_tokens(n_numbers={n})")
        assert row["n"] == 8


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("b is a, a is 1.\nAnswer: 0", "0"),
        ("Answer: 1? No.\n**Answer:** 0\nAnything else? 1", "0"),
        ("Answer:\n\n1", "1"),
        ("It was 0.\nSo it is 1.\n", "1"),
        ("It is 1.\nThat is all.", None),
        ("", None),
    ],
)
def test_the_answer_stands_behind_the_thoughts(text, label):
    assert ChainOfThought().label(text, ("0", "1")) == label


class Thinks(Known):
    """Thinks aloud; every other time the limit of tokens cuts it off, with a wrong answer just named."""

    def generate(self, requests, sampling):
        said = [self.answer(request.text, 0) for request in requests]
        whole = [completion(f"0 or 1?\nAnswer: {answer}", "stop") for answer in said]
        return [completion("0 or 1?\nAnswer: 7", "length") if i % 2 else one for i, one in enumerate(whole)]


def test_what_is_put_otherwise_is_put_as_its_own_protocol_puts_it():
    """Filler behind the instruction to think, and behind a repeated problem; a repeated problem with its filler."""
    think = put(ChainOfThought(), Chat())
    filler = put(FillerTokens(n_numbers=5), Chat()).removeprefix(ASKED.question(0, 0).prompt)
    assert put(FillerTokens(by="chain_of_thought", n_numbers=5), Chat()) == think + filler
    assert put(RepeatedProblem(by="chain_of_thought", n_times=2), Chat()) == f"{think}\n\n(repeat #2)\n{think}"
    twice = "repeated_problem(n_times=2)"
    assert put(FillerTokens(by=twice, n_numbers=5), Chat()) == put(chosen(twice), Chat()) + filler
    filled = f"{ASKED.question(0, 0).prompt}{filler}"
    both = RepeatedProblem(by="filler_tokens(n_numbers=5)", n_times=2)
    assert put(both, Chat()) == f"{filled}\n\n(repeat #2)\n{filled}"


def test_thoughts_put_otherwise_are_never_direct_and_settings_reach_the_rule(tmp_path):
    for text in ("filler_tokens(by=chain_of_thought)", "repeated_problem(by='filler_tokens(by=chain_of_thought)')"):
        thinks = chosen(text)
        assert not thinks.direct and isinstance(thinks.rule, ChainOfThought)
        assert thinks.given(max_tokens=9).rule.max_tokens == 9
        assert chosen(str(thinks.given(max_tokens=9))) == thinks.given(max_tokens=9)
        assert put(thinks.given(max_tokens=9), Chat()) == put(thinks, Chat())
        with pytest.raises(BadInput, match="needs a reply with room for thoughts; use --layout chat"):
            evaluate(Known("oracle"), ASKED, Code(), thinks, Evaluation(count=2))
        [task] = lm_eval.export(ASKED, tmp_path, 2, 0, thinks).tasks
        assert "chain_of_thought" in task and '"name": "thoughts"' in (tmp_path / f"{task}.yaml").read_text()
    twice = chosen("filler_tokens(by=repeated_problem)")
    assert twice.direct and twice.given(max_tokens=9).by == "repeated_problem(by='greedy_lenient(max_tokens=9)')"
    assert twice.given() == twice.but(by="repeated_problem")


def test_direct_answers_and_thoughts_put_otherwise_have_two_tables(tmp_path, capsys):
    ways = ["filler_tokens(by=chain_of_thought)", "filler_tokens"]
    line = ["evaluate", "--model", "known:oracle", "--hops", "1", "--layout", "chat", "--count", "2"]
    assert main([*line, "--protocol", *ways, "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.count("accuracy") == 2


def test_thoughts_that_were_cut_off_are_not_wrong(tmp_path):
    row = evaluate(Thinks("oracle"), ASKED, Chat(), ChainOfThought(), Evaluation(count=8), tmp_path).row
    assert (row["n"], row["correct"], row["run_outs"], row["cut_off"]) == (4, 4, 4, 4)
    said = [json.loads(line)["said"]["text"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert all("0 or 1?\nAnswer: " in text for text in said)
    assert "Say directly" not in put(ChainOfThought(), Chat())
    with pytest.raises(BadInput, match="use --layout chat"):
        evaluate(Known("oracle"), ASKED, Code(), ChainOfThought(), Evaluation(count=1))


def test_cost_is_told_and_nothing_is_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = "evaluate --model http://127.0.0.1:9/v1 --hops 1 2 --layout chat --protocol resample --count 6 --dry-run"
    assert main([*line.split(), "--price", "1000000", "0", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["requests"] for row in rows] == [60, 60] and [row["tokens_out"] for row in rows] == [1920, 1920]
    assert all(row["price"] == row["tokens_in"] and row["seconds"] is None for row in rows)
    assert main([*line.split(), "--speed", "100", "64"]) == 0
    assert "in all at most 120 requests" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["price", "speed", "timeout"])
@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_a_price_or_a_time_is_a_number_within_bounds(option, number, capsys):
    """NaN is neither below nor above any bound, so bounds alone let it pass."""
    values = [number] if option == "timeout" else [number, "2"]
    assert main(["lm", "evaluate", "--model", "known:oracle", "--dry-run", f"--{option}", *values]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and f"--{option}" in err and number in err

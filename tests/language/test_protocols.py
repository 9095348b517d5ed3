"""Protocols that put a question otherwise: what is given, what is read, and what is told before anything is asked."""

from __future__ import annotations

import json
import re

import pytest

from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language.backends.known import Known
from hopscope.language.evaluation import Evaluation, evaluate
from hopscope.language.layouts.chat import Chat
from hopscope.language.layouts.code import Code
from hopscope.language.protocols.chain_of_thought import ChainOfThought
from hopscope.language.protocols.filler_tokens import FillerTokens
from hopscope.language.protocols.repeated_problem import RepeatedProblem
from hopscope.language.turns import completion

ASKED = Equations(n_hops=1, n_chains=2)


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

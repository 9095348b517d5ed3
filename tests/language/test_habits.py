"""Servers with habits: a perfect answerer is perfect by every rule that can read it, or one sentence refuses."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language import lm_eval
from hopscope.language.agreement import agreed
from hopscope.language.backends.base import Unreachable
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.backends.known import Known
from hopscope.language.evaluation import COLUMNS, Evaluation, evaluate, put_rows, read_table, write_table
from hopscope.language.layouts.chat import Chat
from hopscope.language.layouts.code import Code
from hopscope.language.protocols.greedy_lenient import GreedyLenient
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood
from hopscope.language.protocols.resample import Resample
from hopscope.language.server import Patience
from hopscope.language.turns import completion
from tests.language.habits_server import HABITS, REFUSED, WORDS, HabitsServer

HASTY = Patience(timeout=5.0, silence=5.0, pause=0.001, longest=0.01)
CELLS = [
    (Chat(), GreedyLenient()),
    (Code(), GreedyLenient()),
    (Code(), LogLikelihood()),
    (Chat(), Resample(max_tries=2)),
]
ASKED = Equations(n_hops=1)
REFUSALS = {
    "unclosed": "cut off in their thoughts before they ended; raise --max-tokens",
    "cut": "cut off before they ended; raise --max-tokens",
    "cut in thoughts": "cut off in their thoughts before they ended; raise --max-tokens",
    "thoughts alone": "cut off in their thoughts before they ended; raise --max-tokens",
    "stream": "a stream, though none was asked for",
    "page": "a page of HTML",
    "number": "content that is neither a text nor a list of parts",
}
#: Habits with which an answer is not alone in its text.
SENTENCES = {"bold", "explained", "the", "eq", "quote"}


def row(endpoint, layout, protocol, count=6, **more):
    return evaluate(endpoint, ASKED, layout, protocol, Evaluation(count=count), **more).row


@pytest.mark.parametrize("habit", HABITS)
def test_a_perfect_answerer_is_perfect_or_one_sentence_refuses(habit, caplog):
    with HabitsServer(habit) as server:
        endpoint = Endpoint(server.url, patience=HASTY)
        for layout, protocol in [*CELLS, (Chat(), GreedyStrict())]:
            caplog.clear()
            if habit == "number" or (habit in REFUSALS and not protocol.scores):
                with pytest.raises((BadInput, Unreachable), match=re.escape(REFUSALS[habit])):
                    row(endpoint, layout, protocol)
                continue
            if habit in ("stream", "page"):
                continue  # what echoes is asked of the same server in due form
            found = row(endpoint, layout, protocol)
            if (
                habit in SENTENCES
                and isinstance(protocol, GreedyStrict | Resample)
                and not isinstance(protocol, GreedyLenient)
            ):
                assert found["valid"] == 0 and found["correct"] == 0
                [warned] = [record.getMessage() for record in caplog.records]
                assert "none of" in warned and repr(WORDS[habit].split("{}")[0])[:-1] in warned
            else:
                assert (found["accuracy"], found["valid"]) == (1, 1), (layout, protocol)
        endpoint.close()


@pytest.mark.parametrize("habit", REFUSED)
def test_what_a_server_refuses_is_learnt_once_and_recorded(habit, tmp_path, caplog):
    field = REFUSED[habit][0]
    with HabitsServer(habit) as server:
        endpoint = Endpoint(server.url, in_flight=1, patience=HASTY)
        found = row(endpoint, Code(), GreedyLenient(), folder=tmp_path)
        assert server.requests == 1 + 6 and found["accuracy"] == 1
        renamed = field == "max_tokens"
        assert json.loads(found["left_out"]) == ([] if renamed else [field])
        said = [json.loads(line)["said"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
        assert all(
            one["finish_reason"] == "stop" and one.get("left_out", []) == ([] if renamed else [field]) for one in said
        )
        assert sum(field in record.getMessage() for record in caplog.records) == (not renamed)
        endpoint.close()


def test_a_refusal_of_lengths_leaves_nothing_out():
    """vLLM names max_tokens where a prompt is too long."""
    with HabitsServer("no seed") as server:
        endpoint = Endpoint(server.url, patience=HASTY)
        from hopscope.language.server import Refused

        long = Refused("no", "'max_tokens' or 'max_completion_tokens' is too large: 32; the context length is 16; seed")
        with pytest.raises(Refused):
            endpoint.learn(long)
        assert (endpoint.limit, endpoint.left_out) == ("max_tokens", [])
        endpoint.close()


@pytest.mark.parametrize("habit", [*WORDS, "parts"])
def test_one_server_has_one_score_in_lm_eval(habit, tmp_path):
    """The filters of the exported task, applied as lm-eval applies them: the lenient reading is ours in the chat."""
    lm_eval.export(ASKED, tmp_path, 6, 0)
    [path] = tmp_path.glob("*_generate.yaml")
    settings = {k: json.loads(v) for k, _, v in (line.partition(": ") for line in path.read_text().splitlines())}
    ways = {way["name"]: way["filter"] for way in settings["filter_list"]}
    for index in range(6):
        question = ASKED.question(0, index)
        text = WORDS.get(habit, "{}").replace("{}", question.answer)
        if habit.startswith("cut") and "<think>" not in text:
            continue  # lm-eval is not told that a text was cut off
        ours = GreedyLenient().judge(question, [completion(text).said]).label
        assert filtered(ways["lenient"], text) == (ours or "[invalid]")
        if habit != "explained":  # strictly, lm-eval reads the first line alone, and we the whole reply
            ours = GreedyStrict().judge(question, [completion(text).said]).label
            assert filtered(ways["strict"], text) == (ours or "[invalid]")


def filtered(steps, text):
    """As lm-eval's RegexFilter: all that is found, of which one is chosen; without any the fallback."""
    for step in steps:
        if step["function"] == "regex":
            found = re.findall(step["regex_pattern"], text)
            text = found[step.get("group_select", 0)].strip() if found else step["fallback"]
    return text


def test_thoughts_and_reasons_are_in_the_table(tmp_path):
    with HabitsServer("think") as server:
        endpoint = Endpoint(server.url, patience=HASTY)
        found = row(endpoint, Chat(), GreedyLenient())
        assert (found["thoughts"], json.loads(found["finish_reasons"])) == (6, {"stop": 6})
        endpoint.close()


def test_a_table_of_before_gets_the_new_columns(tmp_path):
    old = {name: "" for name in COLUMNS if name not in ("finish_reasons", "thoughts", "left_out")} | {"model": "old"}
    same = ("model", "formulation", "layout", "protocol", "settings", "identity")
    put_rows(tmp_path / "table.csv", [old], tuple(old), same)
    known = Known("thinks")
    known.learn(ASKED, Chat(), 0, range(3))
    write_table(tmp_path, [row(known, Chat(), GreedyLenient(), count=3)])
    assert [(one["model"], one["thoughts"]) for one in read_table(tmp_path)] == [("old", ""), ("known:thinks", "3")]


@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        ("2", "2", ""),
        ("<think></think>2", "2", ""),
        ("<thinking>1?</thinking>\n2", "2", "1?"),
        ("<|channel|>analysis<|message|>1?<|end|><|start|>assistant<|channel|>final<|message|>2<|return|>", "2", None),
        ("Well. <think>1", "Well.", "1"),
        ("<think>1", "", "1"),
        ("1?</think></think>2", "2", "1?</think>"),
        ("2</s>3", "2", ""),
    ],
)
def test_what_of_a_text_is_its_answer(text, answer, thoughts):
    said = completion(text)
    assert said == answer and thoughts in (None, said.thoughts)


def test_scores_and_text_that_contradict_each_other_are_refused():
    """An answer above 1/2 is how the likeliest text begins; a sentence, and a score below it, say nothing."""
    known = Known("oracle")
    known.learn(ASKED, Code(), 0, range(3))
    request = Code().render(ASKED, ASKED.question(0, 0))
    right = [choice.strip() for choice in request.choices].index(ASKED.question(0, 0).answer)
    sure = [-0.1 if at == right else -5.0 for at in range(len(request.choices))]
    assert agreed(known, request, sure) == {"text": ASKED.question(0, 0).answer}
    with pytest.raises(BadInput, match=r"with probability 0\.90 and writes .* which no model does"):
        agreed(known, request, sure[::-1] if sure != sure[::-1] and right * 2 + 1 != len(sure) else sure[1:] + sure[:1])
    agreed(known, request, [score - 0.7 for score in sure[1:] + sure[:1]])
    chatty = Known("chatty")
    chatty.learn(ASKED, Code(), 0, range(3))
    agreed(chatty, request, sure[1:] + sure[:1])

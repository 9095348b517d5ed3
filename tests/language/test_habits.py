"""Servers with habits: a perfect answerer is perfect by every rule that can read it, or one sentence refuses."""

from __future__ import annotations

import json
import re
from math import log
from random import Random

import pytest

pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.cli import main
from hopscope.cli.lm.evaluate import cell_rows
from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language import lm_eval
from hopscope.language.agreement import agreed
from hopscope.language.backends.base import Backend, Sampling, Unreachable
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.backends.known import Known
from hopscope.language.benchmarking import Marking
from hopscope.language.benchmarks.hypothesis_refinement import HypothesisRefinement
from hopscope.language.evaluation import COLUMNS, Evaluation, evaluate, put_rows, read_rows, write_table
from hopscope.language.fields import Fields
from hopscope.language.layouts.base import Rendered
from hopscope.language.layouts.chat import Chat
from hopscope.language.layouts.code import Code
from hopscope.language.protocols.chain_of_thought import ChainOfThought
from hopscope.language.protocols.filler_tokens import FillerTokens
from hopscope.language.protocols.greedy_lenient import GreedyLenient
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood
from hopscope.language.protocols.resample import Resample
from hopscope.language.records import Records
from hopscope.language.server import Patience
from hopscope.language.turns import Completion, completion
from tests.language.habits_server import HABITS, REFUSED, UNNAMED, WORDS, HabitsServer

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
    "no seed, in its own words": "if it refuses a field, --omit leaves that out",
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


def test_of_answers_that_begin_others_the_right_one_is_the_likeliest():
    """Twelve chains: 1, 10, 11 and 12 among them, a digit a token; each text is sure of the right answer alone."""
    with HabitsServer("plain") as server:
        endpoint = Endpoint(server.url, patience=HASTY)
        asked = Equations(n_hops=1, n_chains=12)
        found = evaluate(endpoint, asked, Code(), LogLikelihood(), Evaluation(count=24)).row
        endpoint.close()
    assert {"1", "10"} <= json.loads(found["labels"]).keys()
    assert found["accuracy"] == 1 and 0.99 < found["mass"] <= 1


LISTS = HypothesisRefinement()


@pytest.mark.parametrize("habit", HABITS)
def test_a_perfect_answerer_of_a_benchmark_is_perfect_or_one_sentence_refuses(habit, tmp_path, caplog):
    questions = {Chat().render(LISTS, one).text: one.answer for one in (LISTS.question(0, index) for index in range(2))}
    with HabitsServer(habit, questions.__getitem__) as server, Records.opened(tmp_path) as records:
        endpoint = Endpoint(server.url, in_flight=1, patience=HASTY)
        for lenient in (True, False):
            cell, caplog.records[:] = (LISTS, Chat(), Marking(LISTS.MAX_TOKENS, lenient)), []
            if habit in REFUSALS:
                with pytest.raises((BadInput, Unreachable), match=re.escape(REFUSALS[habit])):
                    cell_rows(endpoint, cell, Evaluation(count=2), records, lambda *_: None)
                continue
            [raw, _, valid] = cell_rows(endpoint, cell, Evaluation(count=2), records, lambda *_: None)
            assert raw["value"] == valid["value"] == float(lenient or habit not in SENTENCES)
            assert sum("none of 2 answers" in one.getMessage() for one in caplog.records) == (raw["value"] == 0)
            assert raw["thoughts"] == 2 * (habit.startswith("think") or habit == "parts")
            assert json.loads(raw["finish_reasons"]) == {"stop": 2}
            assert (habit in REFUSED and habit != "no max_tokens") == bool(
                json.loads(raw["left_out"])
            ) or habit == "no stop"
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


def test_who_asked_before_another_learnt_of_a_refusal_asks_again(monkeypatch):
    """Questions in flight with the refused field come back refused when the field is known and left out already."""
    with HabitsServer("no temperature") as server:
        endpoint = Endpoint(server.url, "x")
        post = endpoint.server.post

        def learnt_meanwhile(bodies, read):
            if "temperature" in bodies[0][1]:
                endpoint.fields.left_out.append("temperature")  # by another, before this one is answered
            return post(bodies, read)

        monkeypatch.setattr(endpoint.server, "post", learnt_meanwhile)
        request = Rendered("a = 1\nWhat is the value of a?", chat=True, choices=(), spans=())
        assert [str(text) for text in endpoint.generate([request], [Sampling(1.0, 8, 0)])] == ["1"]
        endpoint.close()


def test_a_refusal_of_lengths_leaves_nothing_out():
    """vLLM names max_tokens where a prompt is too long."""
    fields = Fields("it")
    assert not fields.learn("'max_tokens' or 'max_completion_tokens' is too large: 32; the context length is 16; seed")
    assert (fields.limit, fields.left_out) == ("max_tokens", [])


@pytest.mark.parametrize("habit", ["no seed, in its own words", "no stop", "no temperature"])
def test_what_is_omitted_is_never_sent_and_recorded(habit, tmp_path, capsys):
    """A refusal that does not name its field stops an evaluation, unless the field is left out beforehand."""
    field = (REFUSED | UNNAMED)[habit][0]
    with HabitsServer(habit) as server:
        asked = ["evaluate", "--model", server.url, "--hops", "1", "--layout", "code", "--protocol", "greedy_strict"]
        asked += ["--count", "2", "--json", "--out", str(tmp_path / "out")]
        if "own words" in habit:
            assert main(asked) == 2
            assert "--omit" in capsys.readouterr().err
        assert main([*asked, "--omit", field, "max_tokens"]) == 0
        [found] = json.loads(capsys.readouterr().out)
    assert (found["accuracy"], found["left_out"]) == (1, sorted([field, "max_tokens"]))
    assert field not in found["identity"]["sampling"]  # an answer to another request is another answer


def test_what_cannot_be_omitted_is_said_in_a_sentence(capsys):
    assert main(["evaluate", "--model", "http://127.0.0.1:9/v1", "--omit", "prompt"]) == 2
    assert (
        "fields that can be left out are temperature, max_tokens, seed, stop; got 'prompt'" in capsys.readouterr().err
    )
    assert main(["evaluate", "--model", "known:oracle", "--omit", "seed"]) == 2
    assert "--omit is for models at an address" in capsys.readouterr().err


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
    rows = read_rows(tmp_path / "table.csv")
    assert [(one["model"], one["thoughts"]) for one in rows] == [
        ("old", ""),
        ("known:thinks", "3"),
    ]


@pytest.mark.parametrize(
    ("questions", "protocol", "advised"),
    [
        (ASKED, GreedyStrict(), "greedy_lenient"),
        (ASKED, Resample(max_tries=2), "greedy_lenient"),
        (ASKED, FillerTokens(by="greedy_strict"), "greedy_lenient"),
        (ASKED, GreedyLenient(), "log_likelihood"),
        (ASKED, FillerTokens(), "log_likelihood"),
        (ASKED, ChainOfThought(), "log_likelihood"),
        (LISTS, Marking(24), "greedy_lenient"),
        (LISTS, Marking(24, lenient=True), "log_likelihood"),
    ],
)
def test_the_advice_is_another_protocol_than_the_one_in_use(questions, protocol, advised, tmp_path, caplog):
    with Records.opened(tmp_path) as records:
        cell_rows(Known("refuses"), (questions, Chat(), protocol), Evaluation(count=2), records, lambda *_: None)
    [warned] = [record.getMessage() for record in caplog.records]
    assert "none of" in warned and re.findall(r"--protocol (\w+)", warned) == [advised]


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


class Two(Backend):
    """A model of two tokens: it scores by one distribution, and writes by another."""

    model, identity, has_chat_template = "two", {}, False

    def __init__(self, scored, written=None):
        self.scored, self.wrote = scored, written or scored

    def log_likelihoods(self, requests):
        """An answer's tokens are its characters; what stands nowhere in the table has nearly nothing."""
        return [[self.log_p(choice) for choice in request.choices] for request in requests]

    def log_p(self, text):
        return sum(log(self.scored[text[:at]].get(text[at], 1e-9)) for at in range(len(text)))

    def generate(self, requests, sampling):
        text = ""
        for _ in range(sampling[0].max_tokens):
            text += max(self.wrote[text].items(), key=lambda pair: pair[1])[0] if text in self.wrote else ""
        return [Completion(text)] * len(requests)


def put(*choices):
    return Rendered("", False, choices, ())


def test_scores_and_text_of_one_model_agree_whatever_is_likely():
    """Likeliest by token and by answer differ: `ab` begins with the likelier token, and `c` is the likelier answer."""
    asked, table = put("ab", "ad", "c"), {"": {"a": 0.6, "c": 0.4}, "a": {"b": 0.5, "d": 0.5}}
    one = Two(table)
    assert agreed(one, asked, one.log_likelihoods([asked])[0]) == {"text": "a"}
    for seed in range(200):  # any table is a model's
        draw = Random(seed)
        level = lambda tokens, draw=draw: {token: 0.01 + draw.random() for token in tokens}  # noqa: E731
        some = {text: level("abc ") for text in ("", "a", "b", "c", " ", " a", " b", " c")}
        some = {text: {t: p / sum(found.values()) for t, p in found.items()} for text, found in some.items()}
        for choices in (("ab", "b", "ca"), (" a", " b", " c"), (" ab", " a", " c")):
            one, asked = Two(some), put(*choices)
            agreed(one, asked, one.log_likelihoods([asked])[0])


def test_scores_and_text_that_contradict_each_other_are_refused():
    """Another answer is begun than the likeliest, though its token is scored below: also where none is above 1/2."""
    scored, written = {"": {"1": 0.4, "2": 0.3, "3": 0.3}}, {"": {"1": 0.3, "2": 0.4, "3": 0.3}}
    one = Two(scored, written)
    with pytest.raises(BadInput, match=r"'1' with probability 0\.40 and begins its text with '2', of prob.* 0\.30"):
        agreed(one, put("1", "2", "3"), one.log_likelihoods([put("1", "2", "3")])[0])
    sure = Two({"": {" ": 1}, " ": {"1": 0.7, "2": 0.3}}, {"": {" ": 1}, " ": {"1": 0.3, "2": 0.7}})
    with pytest.raises(BadInput, match="which no model does"):
        agreed(sure, put(" 1", " 2"), sure.log_likelihoods([put(" 1", " 2")])[0])


def test_sentences_and_what_was_drawn_say_nothing_against_scores():
    chatty = Known("chatty")
    chatty.learn(ASKED, Code(), 0, range(3))
    request = Code().render(ASKED, ASKED.question(0, 0))
    scores = chatty.log_likelihoods([request])[0]
    agreed(chatty, request, scores[1:] + scores[:1])
    one = Two({"": {"1": 0.6, "2": 0.4}}, {"": {"2": 1.0}})
    drawn = Completion("2")
    drawn.left_out = ("temperature",)
    one.generate = lambda *_: [drawn]
    assert agreed(one, put("1", "2"), one.log_likelihoods([put("1", "2")])[0]) == {"text": "2"}

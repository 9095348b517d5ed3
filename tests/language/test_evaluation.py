"""Scores that are known beforehand, through every layout and protocol; what is kept, and what is never counted."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.core.intervals import wilson
from hopscope.core.settings import BadInput
from hopscope.core.storage import Busy, Damaged
from hopscope.formulations.equations import Equations
from hopscope.formulations.relatives import Relatives
from hopscope.language.backends.base import Unreachable
from hopscope.language.backends.known import BEHAVIOURS, Known
from hopscope.language.evaluation import COLUMNS, Cell, Evaluation, evaluate, read_rows, write_table
from hopscope.language.layouts.chat import Chat
from hopscope.language.layouts.code import Code
from hopscope.language.layouts.few_shot import FewShot
from hopscope.language.protocols.base import accepted, last_named, sampling_seed
from hopscope.language.protocols.greedy_lenient import GreedyLenient
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood
from hopscope.language.protocols.resample import Resample
from hopscope.language.records import Records
from hopscope.runs.integrity import check

LAYOUTS = catalogue.names("language.layouts")
PROTOCOLS = catalogue.names("language.protocols")
FORMULATIONS = catalogue.names("formulations")
#: Thoughts have room in a reply alone.
ASKABLE = [
    (layout, protocol)
    for layout in LAYOUTS
    for protocol in PROTOCOLS
    if catalogue.find("language.protocols", protocol).direct or layout == "chat"
]
COUNT = 100
ALL = Evaluation(count=COUNT)


def learned(behaviour, formulation, layout, count=COUNT, batch=64):
    known = Known(behaviour, batch)
    known.learn(formulation, layout, 0, range(count))
    return known


def score(behaviour, protocol, formulation=None, layout=None, settings=ALL, **more):
    formulation, layout = formulation or Equations(), layout or Code()
    known = learned(behaviour, formulation, layout, settings.count)
    return evaluate(known, formulation, layout, protocol, settings, **more).row


# Layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_spans_are_where_the_words_are(layout, formulation):
    asked, shown = catalogue.find("formulations", formulation)(), catalogue.find("language.layouts", layout)()
    question = asked.question(3, 5)
    rendered, blank = shown.render(asked, question), shown.render(asked, question.without_facts())
    words = {question.prompt[span.start : span.end] for span in question.spans if span.role == "query"}
    for span in rendered.spans:
        word = rendered.text[span.start : span.end]
        assert word and not word[0].isspace() and not word[-1].isspace()
        if span.role == "query":
            assert word in words
    ours = [(s.role, s.chain, question.facts[s.start : s.end]) for s in question.statement_spans]
    theirs = [(s.role, s.chain, rendered.text[s.start : s.end]) for s in rendered.spans if s.role != "query"]
    assert theirs == ours
    assert [choice.strip() for choice in rendered.choices] == list(question.acceptable)
    assert all(line not in blank.text.split("\n\n")[-1].splitlines() for line in question.statements)
    assert rendered.text.endswith(blank.text.split("\n\n")[-1])


def test_solved_questions_are_others_and_their_answers_are_right():
    formulation, layout = Equations(n_hops=2), FewShot(n_shots=3)
    asked = {formulation.question(0, index).facts for index in range(50)}
    for index in range(50):
        *shots, last = layout.render(formulation, formulation.question(0, index)).text.split("\n\n")
        assert len(shots) == 3 and last == Code().render(formulation, formulation.question(0, index)).text
        for shot in shots:
            *facts, ask, answer = shot.splitlines()
            known = dict(line.split(" = ") for line in facts)
            value = ask.removeprefix("print(").removesuffix(")")
            while value in known:
                value = known[value]
            assert answer == f"# output: {value}" and "\n".join(facts) not in asked


# Scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize(("layout", "protocol"), ASKABLE)
def test_the_oracle_is_always_right(formulation, layout, protocol):
    asked, shown = catalogue.find("formulations", formulation)(), catalogue.find("language.layouts", layout)()
    settings = Evaluation(count=5)
    row = score("oracle", catalogue.find("language.protocols", protocol)(), asked, shown, settings)
    assert (row["n"], row["correct"], row["accuracy"], row["valid"], row["tries"]) == (5, 5, 1.0, 1.0, 1.0)
    assert row["run_outs"] == row["left"] == 0 and not row["partial"] and row["low"] == wilson(5, 5)[0]


def numbers(text):
    return [word for word in text.replace("\n", " ").split() if word.isdigit()]


#: What a model says to equations, worked out from the statements' text alone.
SAID = {
    "oracle": lambda q: q.answer,
    "last_line": lambda q: numbers(q.facts)[-1],
    "first_value": lambda q: numbers(q.facts)[0],
    "always_1": lambda q: "1",
    "refuses": lambda q: None,
    "chatty": lambda q: f"It must be {q.answer}, I think.",
    "thinks": lambda q: q.answer,
    "ends": lambda q: q.answer,
    "runs_on": lambda q: q.answer,
}


@pytest.mark.parametrize("behaviour", SAID)
@pytest.mark.parametrize(("layout", "protocol"), ASKABLE)
def test_known_models_score_what_they_score_by_hand(behaviour, layout, protocol):
    count, protocol, layout = (
        10,
        catalogue.find("language.protocols", protocol)(),
        catalogue.find("language.layouts", layout)(),
    )
    row = score(behaviour, protocol, layout=layout, settings=Evaluation(count=count))
    questions = [Equations().question(0, index) for index in range(count)]
    said = [SAID[behaviour](question) for question in questions]
    silent, wordy = behaviour == "refuses", behaviour == "chatty"
    lenient = protocol.title in ("greedy_lenient", "filler_tokens", "repeated_problem", "chain_of_thought")
    if protocol.rule.scores:  # who refuses holds all for equally likely, so that the first one counts
        said = ["0" if silent else q.answer if wordy else s for q, s in zip(questions, said, strict=True)]
    elif wordy and lenient:
        said = [question.answer for question in questions]
    right = sum(s == question.answer for s, question in zip(said, questions, strict=True))
    formless = not protocol.rule.scores and (silent or (wordy and not lenient))
    out = count if formless and protocol.name() == "resample" else 0
    assert (row["n"], row["run_outs"], row["correct"]) == (count - out, out, right)
    assert row["valid"] == (0.0 if formless else 1.0)
    assert math.isnan(row["tries"]) if out else row["tries"] == 1.0


@pytest.mark.parametrize("protocol", [LogLikelihood(), GreedyStrict(), Resample()], ids=str)
def test_guessing_is_right_as_often_as_chance_says(protocol):
    """Within 3.29 standard errors, the 99.9 % band of the binomial distribution, and with all answers in use."""
    count = 800
    row = score("uniform", protocol, settings=Evaluation(count=count))
    assert row["chance"] == 0.25 and row["n"] == count
    assert abs(row["accuracy"] - 0.25) < 3.29 * math.sqrt(0.25 * 0.75 / count)
    labels = json.loads(row["labels"])
    assert set(labels) == {"0", "1", "2", "3"} and sum(labels.values()) == count
    assert all(abs(n / count - 0.25) < 3.29 * math.sqrt(0.25 * 0.75 / count) for n in labels.values())


def test_form_decides_what_the_chatty_and_the_silent_score():
    strict, lenient = score("chatty", GreedyStrict()), score("chatty", GreedyLenient())
    assert (strict["correct"], strict["valid"], lenient["correct"], lenient["valid"]) == (0, 0.0, COUNT, 1.0)
    assert json.loads(strict["labels"]) == {"none": COUNT} and strict["n"] == COUNT
    out = score("chatty", Resample(max_tries=3))
    assert (out["n"], out["run_outs"], out["valid"], out["left"]) == (0, COUNT, 0.0, 0)
    assert math.isnan(out["accuracy"]) and (out["low"], out["high"]) == (0.0, 1.0)
    silent = score("refuses", LogLikelihood())
    assert silent["mass"] == pytest.approx(4e-6) and json.loads(silent["labels"]) == {"0": COUNT}


def test_a_prior_is_taken_off():
    """A model that always prefers 1, but prefers the right answer more than it would without the statements."""

    class Biased(Known):
        def answer(self, text, seed):
            return "1"

        def scores(self, request):
            question = self.questions.get(request.text)
            bare = [choice.strip() for choice in request.choices]
            return [
                -6.0 + 4.0 * (answer == "1") + (question is not None and question.answer == answer) for answer in bare
            ]

    biased = Biased("oracle")
    biased.learn(Equations(), Code(), 0, range(COUNT))
    row = evaluate(biased, Equations(), Code(), LogLikelihood(), ALL).row
    ones = sum(Equations().question(0, index).answer == "1" for index in range(COUNT))
    assert row["correct"] == ones and row["prior_corrected"] == 1.0


@pytest.mark.parametrize(
    ("text", "strict", "lenient"),
    [
        ("1", "1", "1"),
        (" 2.\n", "2", "2"),
        ("12", None, None),
        ("It is 3", None, "3"),
        ("2 or 3?", None, "3"),
        ("s = 1, so 0.", None, "0"),
        ("", None, None),
        ("one", None, None),
    ],
)
def test_reading_answers(text, strict, lenient):
    acceptable = ("0", "1", "2", "3")
    assert accepted(text, acceptable) == strict
    assert last_named(text, acceptable) == lenient


def test_names_within_names_are_read_whole():
    assert last_named("Annabel lives there", ("Anna", "Annabel")) == "Annabel"
    assert last_named("not Annabels", ("Anna", "Annabel")) is None


OTHERS = ("-2", "\u22122", "2.5", "1.2", "1,2", "2,5", "22", ".2", "x = .2", "1-2", "2\u20133", "1/2", "2/3", "2:30")
ITSELF = ("2.", "It is 2, I think.", "x = 2", "(2)", "2; not 2.5", "3 or 2", "- 2", "x:2", "x=2,y=3", "s. 2", "so...2")


@pytest.mark.parametrize(("text", "named"), [*((t, None) for t in OTHERS), *((t, "2") for t in ITSELF)])
def test_another_number_is_no_answer(text, named):
    assert last_named(text, ("2",)) == named


def test_wilson_by_hand():
    """8 of 10: the solutions of (p - 0.8)² = 1.96² p (1 - p) / 10."""
    z2 = 1.959964**2 / 10
    a, b, c = 1 + z2, -(1.6 + z2), 0.64
    root = math.sqrt(b * b - 4 * a * c)
    assert wilson(8, 10) == pytest.approx(((-b - root) / (2 * a), (-b + root) / (2 * a)))
    assert wilson(0, 0) == (0.0, 1.0) and wilson(0, 5)[0] == 0.0 and wilson(5, 5)[1] == 1.0


# What is asked, and kept -----------------------------------------------------------------------------------------


class Counting(Known):
    """Counts what it is asked."""

    asked = 0

    def generate(self, requests, sampling):
        self.asked += len(requests)
        return super().generate(requests, sampling)

    def log_likelihoods(self, requests):
        self.asked += len(requests)
        return super().log_likelihoods(requests)


def counting(behaviour="oracle", formulation=None, layout=None, batch=64):
    known = Counting(behaviour, batch)
    known.learn(formulation or Equations(), layout or Code(), 0, range(COUNT))
    return known


def test_nothing_is_asked_twice_and_protocols_share_texts(tmp_path):
    first = counting()
    row = evaluate(first, Equations(), Code(), GreedyStrict(), ALL, tmp_path).row
    assert first.asked == COUNT
    again = counting()
    assert evaluate(again, Equations(), Code(), GreedyStrict(), ALL, tmp_path).row == row
    assert evaluate(again, Equations(), Code(), GreedyLenient(), ALL, tmp_path).row["correct"] == COUNT
    assert again.asked == 0
    evaluate(again, Equations(), Code(), GreedyStrict(), Evaluation(count=COUNT // 2), tmp_path)
    assert again.asked == 0


@pytest.mark.parametrize("what", ["model", "identity", "layout", "hops", "tokens", "temperature", "seed", "generator"])
def test_nothing_is_taken_for_something_else(tmp_path, monkeypatch, what):
    few = Evaluation(count=20)
    evaluate(counting(), Equations(), Code(), GreedyStrict(), few, tmp_path)
    formulation, layout, protocol, settings = Equations(), Code(), GreedyStrict(), few
    if what == "hops":
        formulation = Equations(n_hops=4)
    elif what == "layout":
        layout = Chat()
    elif what == "tokens":
        protocol = GreedyStrict(max_tokens=31)
    elif what == "temperature":
        protocol = Resample(temperature=0.5)
    elif what == "generator":
        monkeypatch.setattr("hopscope.language.evaluation.VERSION", 0)
    elif what == "seed":
        settings = few.but(seed=1)
    other = counting("oracle", formulation, layout)
    other.learn(formulation, layout, settings.seed, range(few.count))
    if what == "model":
        other.model = "another"
    elif what == "identity":
        other.identity = {"known": "an altered version"}
    for _ in range(2):
        evaluate(other, formulation, layout, protocol, settings, tmp_path)
    assert other.asked == few.count


def altered(asked=None, blank=None):
    """The layout `code`, changed in its file alone: name and settings are the same."""

    @dataclass(frozen=True)
    class Altered(Code):
        def render(self, formulation, question):
            changes = asked if question.statements else blank
            return dataclasses.replace(super().render(formulation, question), **(changes or {}))

    Altered.__module__ = Code.__module__
    return Altered()


def test_an_answer_is_for_one_prompt_one_stop_and_one_blank(tmp_path):
    layouts = [altered(), altered({"stop": ()}), altered({"chat": True}), altered(blank={"text": "?"}), altered()]
    models = [counting() for _ in layouts]
    for model, layout in zip(models, layouts, strict=True):
        evaluate(model, Equations(), layout, LogLikelihood(), Evaluation(count=10), tmp_path)
    assert [model.asked > 0 for model in models] == [True, True, True, True, False]


def test_questions_that_do_not_fit_into_memory_are_made_again(tmp_path, monkeypatch):
    row = evaluate(counting("last_line"), Equations(), Code(), Resample(), ALL).row
    monkeypatch.setattr("hopscope.language.evaluation.KEPT", 3)
    again = counting("last_line")
    assert evaluate(again, Equations(), Code(), Resample(), ALL, tmp_path).row == row
    assert evaluate(again, Equations(), Code(), Resample(), ALL, tmp_path).row == row
    assert again.asked == COUNT


def test_a_torn_line_is_asked_again_and_an_altered_one_is_named(tmp_path):
    row = evaluate(counting(), Equations(), Code(), GreedyStrict(), ALL, tmp_path).row
    path = tmp_path / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    again = counting()
    assert evaluate(again, Equations(), Code(), GreedyStrict(), ALL, tmp_path).row == row
    assert again.asked == 1 and sorted(path.read_bytes().splitlines()) == sorted(whole.splitlines())
    path.write_bytes(whole.replace(b'{"key"', b'{"kex"', 1))
    with pytest.raises(Damaged, match="line 1"):
        evaluate(again, Equations(), Code(), GreedyStrict(), ALL, tmp_path)


@pytest.mark.parametrize(
    "said",
    [
        *({}, 5, None, [], {"text": 5}, {"text": "1", "finish_reason": {}}, {"text": "1", "left_out": 3}),
        *({"scores": [-1.0]}, {"scores": -1.0, "blank": [-1.0]}, {"scores": ["a"], "blank": [-1.0]}),
    ],
)
def test_a_line_that_holds_no_answer_is_named(said, tmp_path):
    path = tmp_path / "records.jsonl"
    evaluate(counting(), Equations(), Code(), GreedyStrict(), Evaluation(count=3), tmp_path)
    first, second, third = map(json.loads, path.read_text().splitlines())
    path.write_text("".join(json.dumps(one) + "\n" for one in (first, second | {"said": said}, third)))
    with pytest.raises(Damaged, match=r"records\.jsonl is altered in line 2; delete that line to ask again"):
        evaluate(counting(), Equations(), Code(), GreedyStrict(), Evaluation(count=3), tmp_path)


@pytest.mark.parametrize("line", ["garbage", "[]", "3", "null", '{"key": "a", "said": {}}', "null{}", '{"key": "a"'])
def test_verify_reads_records_as_an_evaluation_does(line, tmp_path, capsys):
    """A line that an evaluation refuses is a fault of the folder, in the same words; so is one that was cut short."""
    asked = (Equations(), Code(), GreedyStrict(), Evaluation(count=3), tmp_path)
    write_table(tmp_path, [evaluate(counting(), *asked).row])
    assert main(["verify", str(tmp_path)]) == 0
    path = tmp_path / "records.jsonl"
    whole = path.read_text().splitlines(keepends=True)
    for number in (1, 3):
        lines = [f"{line}\n" if place == number else kept for place, kept in enumerate(whole, 1)]
        path.write_text("".join(lines))
        capsys.readouterr()
        with pytest.raises(Damaged, match=f"altered in line {number}; delete that line to ask again"):
            evaluate(counting(), *asked)
        assert main(["verify", str(tmp_path)]) == 2
        out = capsys.readouterr().out
        assert f"{path} is altered in line {number}; delete that line to ask again\n" in out and "1 fault" in out
        assert path.read_text() == "".join(lines)


def test_verify_leaves_a_torn_last_line_to_the_evaluation(tmp_path, capsys):
    """A kill leaves one: it is no fault, since its question is asked again; reading to verify does not cut it off."""
    write_table(tmp_path, [evaluate(counting(), Equations(), Code(), GreedyStrict(), ALL, tmp_path).row])
    path = tmp_path / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    torn = path.read_bytes()
    assert main(["verify", str(tmp_path)]) == 0 and path.read_bytes() == torn


def test_an_answer_that_was_edited_is_named(tmp_path, capsys):
    """The right answer in place of a wrong one: each line states a digest of itself, as new versions write it."""
    asked = (Equations(), Code(), GreedyStrict(), Evaluation(count=3), tmp_path)
    row = evaluate(counting("last_line"), *asked).row
    write_table(tmp_path, [row])
    path = tmp_path / "records.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    right = [one | {"said": one["said"] | {"text": one["answer"]}} for one in records]
    path.write_text("".join(json.dumps(one) + "\n" for one in right))
    with pytest.raises(Damaged, match=r"records\.jsonl is altered in line 3"):
        evaluate(counting("last_line"), *asked)
    assert main(["verify", str(tmp_path)]) == 2 and "is altered in line 3" in capsys.readouterr().out
    plain = [{name: value for name, value in one.items() if name != "line_sha256"} for one in records]
    for same in ([dict(reversed(one.items())) for one in records], plain):  # other spelling; of an older version
        path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in same))
        assert main(["verify", str(tmp_path)]) == 0
        again = counting("last_line")
        assert evaluate(again, *asked).row == row and again.asked == 0


class Wrong(Counting):
    """Gives every answer the same log-likelihood, until it is mended; `prior` is one without statements."""

    wrong = prior = None

    def scores(self, request):
        found = super().scores(request)
        if request.text not in self.questions and self.prior is not None:
            return [self.prior, *found[1:]]
        return found if self.wrong is None else [self.wrong] * len(found)


@pytest.mark.parametrize(("wrong", "words"), [(-0.1, "sum to 3.62"), (-math.inf, "no finite numbers")])
def test_scores_that_cannot_be_right_are_asked_again(wrong, words, tmp_path):
    """Asked, refused, mended, asked again: nothing of it is kept, and what older versions kept is not read."""
    asked = (Equations(), Code(), LogLikelihood(), ALL, tmp_path)
    model = Wrong("oracle")
    model.wrong = wrong
    for _ in range(2):
        with pytest.raises(BadInput, match=f"(?s)question 0.*{words}.*greedy_lenient"):
            evaluate(model, *asked)
    model.wrong = None
    row = evaluate(model, *asked).row
    assert row["accuracy"] == 1 and row["n"] == COUNT
    path = tmp_path / "records.jsonl"
    first, *others = map(json.loads, path.read_text().splitlines())
    first["said"]["scores"] = [wrong] * 4
    del first["line_sha256"]  # which older versions did not write
    path.write_text("".join(json.dumps(one) + "\n" for one in (first, *others)))
    model.asked = 0
    assert evaluate(model, *asked).row == row and model.asked > 0
    model.asked = 0
    assert evaluate(model, *asked).row == row and model.asked == 0


def test_an_answer_of_no_prior_probability_is_read_back(tmp_path):
    model = Wrong("oracle")
    model.prior = -math.inf
    asked = (Equations(), Code(), LogLikelihood(), ALL, tmp_path)
    row = evaluate(model, *asked).row
    model.asked = 0
    assert evaluate(model, *asked).row == row and model.asked == 0


def test_a_table_that_is_altered_is_not_added_to(tmp_path):
    """It is listed in its folder's manifest; records are not: they grow, and each line is looked at by itself."""
    result = evaluate(counting(), Equations(), Code(), GreedyStrict(), ALL, tmp_path)
    path = write_table(tmp_path, [result.row])
    assert check(tmp_path).state == "whole" and check(tmp_path).unverified == ("records.jsonl",)
    path.write_bytes(path.read_bytes().replace(b"greedy_strict", b"greedy_strice", 1))
    for use in (lambda: read_rows(tmp_path / "table.csv"), lambda: write_table(tmp_path, [result.row])):
        with pytest.raises(Damaged, match=r"table\.csv is altered"):
            use()


class Failing(Counting):
    """Is gone after some requests."""

    allowed = 70

    def generate(self, requests, sampling):
        if self.asked >= self.allowed:
            raise Unreachable("it is gone")
        return super().generate(requests, sampling)


def test_what_could_not_be_asked_is_not_wrong(tmp_path):
    failing = Failing("oracle", 32)
    failing.learn(Equations(), Code(), 0, range(COUNT))
    with pytest.raises(Unreachable):
        evaluate(failing, Equations(), Code(), GreedyStrict(), ALL, tmp_path)
    with Records.opened(tmp_path) as records:
        row = Cell(failing, Equations(), Code(), GreedyStrict(), ALL).told(records).row
    assert (row["n"], row["correct"], row["partial"], row["left"]) == (96, 96, True, COUNT - 96)
    failing.allowed = 10**6
    failing.asked = 0
    done = evaluate(failing, Equations(), Code(), GreedyStrict(), ALL, tmp_path).row
    assert failing.asked == COUNT - 96
    assert done == evaluate(learned("oracle", Equations(), Code()), Equations(), Code(), GreedyStrict(), ALL).row


def test_tries_are_those_of_an_undisturbed_run(tmp_path):
    """Sampled words that are acceptable now and then; stopped in between, the tries are the same."""

    class Fickle(Failing):
        def answer(self, text, seed):
            return self.questions[text].answer if seed % 3 == 0 else "hm"

    def fickle():
        model = Fickle("oracle", 16)
        model.learn(Equations(), Code(), 0, range(COUNT))
        return model

    whole = fickle()
    whole.allowed = 10**6
    row = evaluate(whole, Equations(), Code(), Resample(), ALL).row
    for allowed in (70, 150):
        cut = fickle()
        cut.allowed = allowed
        with pytest.raises(Unreachable):
            evaluate(cut, Equations(), Code(), Resample(), ALL, tmp_path)
    again = fickle()
    again.allowed = 10**6
    assert evaluate(again, Equations(), Code(), Resample(), ALL, tmp_path).row == row
    seeds = [[sampling_seed(0, index, attempt) % 3 == 0 for attempt in range(10)] for index in range(COUNT)]
    assert row["run_outs"] == sum(not any(tries) for tries in seeds) > 0
    assert row["tries"] == pytest.approx(sum(t.index(True) + 1 if any(t) else 10 for t in seeds) / row["n"])


def test_one_writer_at_a_time(tmp_path):
    with Records.opened(tmp_path), pytest.raises(Busy, match="another process"):
        evaluate(counting(), Equations(), Code(), GreedyStrict(), ALL, tmp_path)


def test_a_model_without_a_chat_template_is_not_asked_in_one(tmp_path):
    bare = counting()
    bare.has_chat_template = False
    with pytest.raises(BadInput, match="no chat template"):
        evaluate(bare, Equations(), Chat(), GreedyStrict(), ALL, tmp_path)
    assert not (tmp_path / "records.jsonl").exists()


# The command -----------------------------------------------------------------------------------------------------


def test_the_command_asks_everything_and_keeps_a_table(tmp_path, capsys):
    out = ["--out", str(tmp_path / "e"), "--count", "20"]
    what = [
        "--model",
        "known:oracle",
        "--formulation",
        "equations",
        "--hops",
        "1",
        "2",
        "3",
        "--layout",
        "code",
        "chat",
    ]
    assert main(["evaluate", *what, *out, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["hops"], r["layout"]) for r in rows] == [(d, n) for d in (1, 2, 3) for n in ("code", "chat")]
    assert all(row["accuracy"] == 1.0 and row["tries"] == 1.0 for row in rows)
    kept = read_rows(tmp_path / "e" / "table.csv")
    assert len(kept) == 6 and tuple(kept[0]) == COLUMNS and kept[0]["prior_corrected"] == "1"
    assert main(["evaluate", *what, *out]) == 0
    said = capsys.readouterr().out
    assert "known:oracle" in said and "above" in said
    assert read_rows(tmp_path / "e" / "table.csv") == kept
    with (tmp_path / "e" / "table.csv").open() as file:
        assert next(csv.reader(file)) == list(COLUMNS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "known:nobody"], "one of oracle"),
        (["--formulation", "equation"], "did you mean 'equations'"),
        (["--layout", "chatt"], "did you mean 'chat'"),
        (["--protocol", "greedy"], "did you mean"),
        (["--hops", "0"], "hops must be at least 1"),
        (["--hops", "x"], "'x' is not a valid integer"),
        (["--formulation", "functions", "--hops", "5"], "functions always has 2 hops"),
        (["--count", "0"], "'--count': it must be from 1 to 1000000; got 0"),
        (["--model", "nosuch"], "there is no model 'nosuch'"),
        (["stray"], "got more than was expected: stray"),
        (
            ["--layout", "code", "--protocol", "chain_of_thought"],
            "chain_of_thought needs a reply with room for thoughts",
        ),
        (["--layout", "raw", "--protocol", "resample", "filler_tokens(by=chain_of_thought)"], "; add --layout chat"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    given = arguments if {"--model", "stray"} & set(arguments) else ["--model", "known:oracle", *arguments]
    assert main(["evaluate", *given]) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_hops_that_no_formulation_has_are_refused(tmp_path, monkeypatch, capsys):
    """Each formulation says why, and the last line says what to do."""
    monkeypatch.chdir(tmp_path)
    line = ["evaluate", "--model", "known:oracle", "--formulation", "functions", "relatives", "--hops", "9", "8"]
    assert main(line) == 2
    *reasons, last = capsys.readouterr().err.strip().splitlines()
    assert len(reasons) == 4 and "functions with 9 hops is left out: functions always has 2 hops" in reasons[0]
    assert last == "hopscope: no question of functions, relatives is left; choose other --hops or --chains"
    assert not list(tmp_path.iterdir())


SLOW = """
import sys, time
from hopscope.cli import main
from hopscope.language.backends import known

class Slow(known.Known):
    def generate(self, requests, sampling):
        time.sleep(0.02)
        return super().generate(requests, sampling)

known.Known = Slow
import hopscope.language.opening
hopscope.language.opening.Known = Slow
Slow.__init__.__defaults__ = (8,)
sys.exit(main(sys.argv[1:]))
"""


WHAT = ["--model", "known:uniform", "--layout", "code", "--protocol", "resample", "--count", "300"]


def lines(folder: Path) -> int:
    path = folder / "records.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def test_an_interrupt_keeps_what_was_answered(tmp_path):
    asked = ["evaluate", *WHAT, "--out", str(tmp_path)]
    # What is started from a script's background ignores SIGINT, and hands that on.
    heeding = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    process = subprocess.Popen([sys.executable, "-c", SLOW, *asked], stderr=subprocess.PIPE, preexec_fn=heeding)
    while lines(tmp_path) < 50:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and b"same command" in err
    before = (tmp_path / "records.jsonl").read_bytes()
    assert main(asked) == 0 and lines(tmp_path) > before.count(b"\n")
    assert (tmp_path / "records.jsonl").read_bytes().startswith(before)


def test_behaviours_are_what_the_docs_say():
    known = {"oracle", "last_line", "first_value", "uniform", "always_1", "refuses", "chatty"}
    assert set(BEHAVIOURS) == known | {"thinks", "ends", "runs_on"}
    assert score("uniform", LogLikelihood(), Relatives(), Chat())["chance"] == 1 / 16

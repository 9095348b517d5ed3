"""Every formulation, found by its file: the oracle agrees, every span is a word of its fact, and bytes never change."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.formulations.base import Formulation, Question, Span
from hopscope.problem.oracle import Fact

ROOT = Path(__file__).parents[2]
NAMES = catalogue.names("formulations")


def wordings(name: str) -> list[Formulation]:
    """The paper's settings, and whatever else of a few hops and chains the wording allows."""
    kind, found = catalogue.find("formulations", name), [catalogue.find("formulations", name)()]
    for n_hops in (1, 2, 3, 4, 8):
        for n_chains in (2, 4, 5, 6):
            try:
                found.append(kind(n_hops=n_hops, n_chains=n_chains))
            except BadInput:
                continue
    assert len(found) > 3
    return found


@pytest.fixture(params=NAMES)
def wording(request) -> Formulation:
    return catalogue.find("formulations", request.param)()


@functools.cache
def asked(name: str) -> list[tuple[Formulation, Question]]:
    return [(formulation, formulation.question(5, i)) for formulation in wordings(name) for i in range(25)]


@pytest.fixture(params=NAMES)
def questions(request) -> list[tuple[Formulation, Question]]:
    return asked(request.param)


def stands_for(word: str, symbol: str) -> bool:
    """Whether a word is a symbol, up to a capital, brackets and an ending: Luminists, luminism."""
    word, symbol = word.lower(), symbol.strip("()").lower()
    return word == symbol or (
        word.startswith(symbol[:-1]) and word[len(symbol) - 1 :] in (f"{symbol[-1]}s", "ans", "ts")
    )


def spans_by_statement(question: Question) -> list[tuple[Fact, list[Span]]]:
    """Each fact with the spans of its line."""
    found, start = [], 0
    for fact, statement in zip(question.problem.facts, question.statements, strict=True):
        end = start + len(statement)
        found.append((fact, [span for span in question.statement_spans if start <= span.start and span.end <= end]))
        start = end + 1
    assert sum(len(spans) for _, spans in found) == len(question.statement_spans)
    return found


def test_the_oracle_agrees(questions):
    for formulation, question in questions:
        rounds = question.problem.hops(*question.problem.queries)
        assert len(rounds) == formulation.n_hops
        assert rounds[-1] == {question.answer}
        concluded = question.problem.successors(*question.problem.queries)
        assert [*question.problem.queries, *(symbol.strip("()") for symbol in concluded)] == list(question.chain)


def test_every_fact_that_is_asked_for_is_needed(questions):
    """Without any one fact of the chain the answer does not follow: there is no way round."""
    for _, question in questions[::5]:
        facts = question.problem.facts
        needed = 0
        for i in range(len(facts)):
            rest = type(question.problem)(facts[:i] + facts[i + 1 :], question.problem.queries)
            needed += question.answer not in rest.successors(*question.problem.queries)
        assert needed == len({fact.step for fact in facts})


def test_acceptable_answers_are_what_chance_guesses_among(questions):
    for formulation, question in questions:
        assert question.answer in question.acceptable
        assert len(set(question.acceptable)) == len(question.acceptable)
        assert formulation.chance == pytest.approx(1 / len(question.acceptable))
        in_order = sorted(question.acceptable, key=int if question.answer.isdigit() else str)
        assert list(question.acceptable) == in_order
        assert all(re.search(rf"\b{answer}\b", question.facts) for answer in question.acceptable)


def test_spans_are_the_words_of_their_facts(questions):
    for _, question in questions:
        text = question.facts
        for fact, spans in spans_by_statement(question):
            letters = [""] if len(fact.premises) == 1 else ["a", "b", "c"][: len(fact.premises)]
            wanted = {f"key[{fact.step}{letter}]": p for letter, p in zip(letters, fact.premises, strict=True)}
            wanted[f"value[{fact.step}]"] = fact.conclusion
            assert sorted(wanted) == sorted(span.role for span in spans)
            for span in spans:
                assert stands_for(text[span.start : span.end], wanted[span.role])
                assert re.fullmatch(r"\b\w+\b", text[span.start : span.end])
                around = text[max(span.start - 1, 0) : span.start], text[span.end : span.end + 1]
                assert not any(character.isalnum() for character in around)
            assert len({span.chain for span in spans}) == 1


def test_spans_of_prompt_question_and_stem(questions):
    for _, question in questions:
        for text, spans in ((question.ask, question.ask_spans), (question.stem, question.stem_spans)):
            assert tuple(text[s.start : s.end] for s in spans) == question.problem.queries
            assert {(s.role, s.chain) for s in spans} == {("query", question.asked)}
        words = [question.prompt[s.start : s.end] for s in question.spans]
        assert words == [question.facts[s.start : s.end] for s in question.statement_spans] + list(
            question.problem.queries
        )
        assert question.prompt == "\n".join([*question.statements, question.ask])


def test_each_chain_has_one_fact_of_every_step(questions):
    """The roles alone lead from the query to the answer, and every chain is as complete as the one asked about."""
    for formulation, question in questions:
        steps = sorted({fact.step for fact in question.problem.facts})
        by_chain: dict[int | None, list[Fact]] = {}
        for fact, spans in spans_by_statement(question):
            by_chain.setdefault(spans[0].chain, []).append(fact)
        by_chain.pop(None, None)
        assert sorted(by_chain) == list(range(formulation.n_chains))
        for facts in by_chain.values():
            assert sorted(fact.step for fact in facts) == steps
        facts = sorted(by_chain[question.asked], key=lambda fact: fact.step)
        assert [f.conclusion.strip("()") for f in facts] == list(question.chain[len(question.problem.queries) :])
        shown = [premise for fact in facts for premise in fact.premises]
        assert set(question.problem.queries) <= set(shown)


def test_texts_are_lines_that_a_model_can_continue(questions):
    for _, question in questions:
        assert all(line == line.strip() and "\n" not in line and line for line in (*question.statements, question.ask))
        assert question.stem == question.stem.strip()
        assert "Say directly" in question.ask and "Say directly" not in question.stem


def test_json_has_what_the_contract_names(wording):
    made = wording.question(1, 2)
    again = json.loads(json.dumps(made.as_dict()))
    assert list(again) == ["prompt", "answer", "acceptable", "chain", "spans"]
    assert again["prompt"] == made.prompt and again["answer"] == made.answer == again["chain"][-1]
    assert all(list(span) == ["start", "end", "role", "chain"] for span in again["spans"])


def test_seed_index_and_settings_each_change_the_question(wording):
    made = wording.question(3, 4)
    assert made == wording.question(3, 4)
    assert made.formulation == wording.name() and (made.seed, made.index) == (3, 4)
    assert len({wording.question(seed, index).prompt for seed in range(10) for index in range(10)}) == 100
    fewer = wording.but(n_chains=2)
    assert len({fewer.question(0, index).asked for index in range(20)}) == 2


def test_what_the_wording_lacks_is_refused(wording):
    for changes in ({"n_hops": 0}, {"n_hops": 99}, {"n_chains": 1}, {"n_chains": 99}, {"n_hops": 1.5}):
        with pytest.raises(BadInput):
            wording.but(**changes)
    for seed, index in ((-1, 0), (0, -1)):
        with pytest.raises(BadInput, match="must be 0 or more"):
            wording.question(seed, index)


FINGERPRINTS = """
import hashlib, json, sys
from hopscope.core import catalogue
print(json.dumps({name: hashlib.sha256("".join(
    repr(catalogue.find("formulations", name)().question(7, i)) for i in range(20)).encode()).hexdigest()
    for name in reversed(catalogue.names("formulations"))}))
assert "torch" not in sys.modules and "numpy" not in sys.modules, "formulations need no tensors"
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

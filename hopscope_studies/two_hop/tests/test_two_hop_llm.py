"""Tests of two hops in words: texts against the oracle, and measurements of backends with known answers."""

from __future__ import annotations

import itertools
from collections import Counter

import pandas
import pytest
from pandas import DataFrame

from hopscope_studies.two_hop.experiments import two_hop_llm
from hopscope_studies.two_hop.language.measured import rows_of
from hopscope_studies.two_hop.language.templates import CHAINS, TEMPLATES, asked
from hopscope_studies.two_hop.tests.made_up import made_up


class Known:
    """A backend that scores answers by a rule on the text, not by a network."""

    def __init__(self, rule):
        self.rule = rule

    def log_likelihoods(self, requests):
        return [[self.rule(one.text, choice.strip()) for choice in one.choices] for one in requests]


def solver(text: str, name: str) -> float:
    """1 for the name reached from the question's name by one or two facts, as many as the question asks, else 0."""
    *facts, stem = text.split(". ")
    pairs = [[word.strip(".") for word in fact.split() if word.strip(".") in names(text)] for fact in facts]
    step = dict(pairs)
    start = next(word.strip(",.") for word in reversed(stem.split()) if word.strip(",.") in names(text))
    return float(name == (step[step[start]] if step[start] in step else step[start]))


def names(text: str) -> set[str]:
    """The invented names, which are all capitalised words but the templates' own."""
    usual = {"Every", "Therefore", "The"}
    return {word for word in text.replace(".", " ").replace(",", " ").split() if word.istitle()} - usual


@pytest.mark.parametrize(("template", "n_chains"), list(itertools.product(TEMPLATES, CHAINS)))
def test_texts_say_what_the_oracle_knows(template, n_chains):
    for index in range(20):
        text = asked(template, n_chains, 3, index)
        start, middle, end = text.chains[0]
        assert text.problem.hops(start) == [{middle}, {end}] and text.problem.hops(middle) == [{end}]
        assert len(set(itertools.chain(*text.chains))) == 3 * n_chains
        assert text.choices[0] == end and text.choices[n_chains] == middle
        assert start in text.two and middle in text.one and end not in text.two + text.one
        assert middle not in text.two  # else two hops would be one
        sentences = text.facts.rstrip(".").split(". ")
        assert len(sentences) == len(text.problem.facts) == 2 * n_chains
        for sentence, fact in zip(sentences, text.problem.facts, strict=True):
            assert sentence.index(fact.premises[0]) < sentence.index(fact.conclusion)
        for a, b, c in text.chains:  # each chain in its order
            steps = [fact.conclusion for fact in text.problem.facts if fact.premises[0] in (a, b)]
            assert steps == [b, c]


def test_every_interleaving_is_as_likely():
    """Two chains have six interleavings."""
    orders = Counter()
    for index in range(1200):
        text = asked("kinds", 2, 0, index)
        orders[tuple(fact.premises[0] in text.chains[0] for fact in text.problem.facts)] += 1
    assert len(orders) == 6 and all(150 < count < 250 for count in orders.values())


def test_one_who_follows_the_facts_is_always_right():
    rows = DataFrame(rows_of(Known(solver), 5, 0))
    assert len(rows) == len(TEMPLATES) * len(CHAINS) * 2
    assert (rows.right == rows.asked).all() and (rows.ends == rows.asked).all() and not rows.own.any()


def test_who_says_what_stands_last_is_right_by_chance_and_who_stops_early_says_the_middle():
    last = DataFrame(rows_of(Known(lambda text, name: text.index(name)), 40, 0))
    four = last[last.chains == 4]
    assert 0.15 < four.right.sum() / four.asked.sum() < 0.35 and (four.ends == four.asked).all()
    early = DataFrame(rows_of(Known(lambda text, name: float(f"{name} " in after_query(text))), 10, 0))
    two = early[early.hops == 2]
    assert (two.own == two.asked).all() and not two.ends.any()


def after_query(text: str) -> str:
    """The fact that begins with the name that the question asks about, without that name."""
    *facts, stem = text.split(". ")
    start = next(word.strip(",.") for word in reversed(stem.split()) if word.strip(",.") in names(text))
    fact = next(fact for fact in facts if start in fact and fact.index(start) < 20)
    return fact.replace(start, "") + " "


# Claims ----------------------------------------------------------------------------------------------------------


def table(rows: list[dict], seeds: int = 5) -> DataFrame:
    about = {"version": "v", "model": "m"}
    parts = [("language", seed) for seed in range(seeds)] + [("untrained", 0)]
    return DataFrame(
        [{"run": f"{part}{seed}", "seed": seed, "part": part, **about, **row} for part, seed in parts for row in rows]
    )


def verdicts(found: DataFrame) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in two_hop_llm.claims(found)}


def test_a_model_that_guesses_two_hops():
    rows = [{**row, "asked": 40, "right": 10 * row["right"], "ends": 30, "own": 5} for row in made_up()]
    assert set(verdicts(table(rows)).values()) == {"holds"}


def test_each_claim_can_fail():
    rows = [{**row, "asked": 40, "right": 40, "ends": 8, "own": 30} for row in made_up()]
    said = verdicts(table(rows))
    assert said.pop("one_hop_is_found") == "holds"
    assert set(said.values()) == {"fails"}
    nothing = [{**row, "asked": 40, "right": 40 // row["chains"], "ends": 20, "own": 5} for row in made_up()]
    assert verdicts(table(nothing))["one_hop_is_found"] == "fails"


def test_counts_add_over_seeds_and_templates():
    found = table([{**row, "asked": 8} for row in made_up()])
    [claim] = [c for c in two_hop_llm.claims(found) if c.id == "two_hops_are_a_guess_among_ends"]
    assert claim.n == 5 * len(TEMPLATES) * 3 * 8 and claim.seeds == (0, 1, 2, 3, 4)
    assert pandas.notna(claim.number)

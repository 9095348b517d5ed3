"""Rules on lists and lights: by hand, against Python's own operations, and by trying every rule."""

from __future__ import annotations

from itertools import product

import pytest

from hopscope.core.settings import BadInput
from hopscope.language.backends.known import Known
from hopscope.language.benchmarking import PROTOCOLS, ask_benchmark
from hopscope.language.benchmarks.hypothesis_refinement import (
    DOMAINS,
    SEEN,
    TESTS,
    HypothesisRefinement,
    domain_named,
)
from hopscope.language.domains.lights import OBJECTS
from hopscope.language.evaluation import Evaluation
from hopscope.language.layouts.code import Code

LISTS, LIGHTS = domain_named("lists"), domain_named("lights")
OPERATIONS = LISTS.OPERATIONS

BY_HAND = {
    "reverse": ([3, 1, 1, 4], "[4, 1, 1, 3]"),
    "sort": ([3, 1, 1, 4], "[1, 1, 3, 4]"),
    "unique": ([3, 1, 1, 4], "[3, 1, 4]"),
    "evens": ([3, 1, 1, 4], "[4]"),
    "double": ([3, 1, 1, 4], "[6, 2, 2, 8]"),
    "increment": ([3, 1, 1, 4], "[4, 2, 2, 5]"),
    "rest": ([3, 1, 1, 4], "[1, 1, 4]"),
    "chop": ([3, 1, 1, 4], "[3, 1, 1]"),
    "sort then rest": ([3, 1, 1, 4], "[1, 3, 4]"),
    "rest then sort": ([3, 2, 1, 4], "[1, 2, 4]"),
    "rest then chop": ([3], "[]"),
}


@pytest.mark.parametrize("rule", BY_HAND)
def test_rules_on_lists_by_hand(rule):
    given, made = BY_HAND[rule]
    assert LISTS.applied(rule, tuple(given)) == made


def test_every_rule_on_lists_is_a_function_of_its_own_and_every_pair_is_one_of_them():
    """On lists that the grammar was not sorted by."""
    lists = [*product((0, 3, 4), repeat=4), (9, 8, 9, 1, 0), (7,), (5, 5)]
    made = {rule: tuple(LISTS.applied(rule, given) for given in lists) for rule in LISTS.rules}
    assert len(set(made.values())) == len(made) == 50
    assert set(OPERATIONS) <= set(made)
    for pair in product(OPERATIONS, repeat=2):
        called = LISTS.read_rule(" then ".join(pair), lenient=False)
        assert tuple(LISTS.applied(called, given) for given in lists) == tuple(
            str(list(OPERATIONS[pair[1]](OPERATIONS[pair[0]](given)))) for given in lists
        )


def test_a_light_is_on_if_one_of_its_objects_is_there():
    assert len(LIGHTS.rules) == 6 + 15 + 20
    assert LIGHTS.applied("apple, cup", ("bell", "cup")) == "on"
    assert LIGHTS.applied("apple, cup", ("bell", "drum")) == "off"


@pytest.mark.parametrize("domain", DOMAINS)
def test_eight_examples_leave_one_rule_whatever_is_asked(domain):
    world = domain_named(domain)
    for index in range(60):
        one = HypothesisRefinement(domain).instance(3, index)
        assert one == HypothesisRefinement(domain, "rule").instance(3, index)
        assert (len(one.seen), len(one.tests)) == (SEEN, TESTS)
        assert len({given for given, _ in (*one.seen, *one.tests)}) == SEEN + TESTS  # no test was shown
        fits = [rule for rule in world.rules if all(world.applied(rule, given) == made for given, made in one.seen)]
        assert fits == [one.rule] == world.consistent(one.shown)


@pytest.mark.parametrize(
    ("domain", "text", "strict", "lenient"),
    [
        ("lists", " [1,2 ,  3]. ", "[1, 2, 3]", "[1, 2, 3]"),
        ("lists", "[]", "[]", "[]"),
        ("lists", "It is [1, 2], no: [2]", None, "[2]"),
        ("lists", "1, 2", None, None),
        ("lists", "[1, -2]", None, None),
        ("lists", "[1, [2]]", None, "[2]"),
        ("lists", "[12345]", None, None),
        ("lists", "[1.5]", None, None),
        ("lights", "on", "on", "on"),
        ("lights", "off.", "off", "off"),
        ("lights", "On", None, None),
        ("lights", "not off but on, I think", None, "on"),
        ("lights", "lemon", None, None),
    ],
)
def test_outputs_are_read_from_text(domain, text, strict, lenient):
    assert domain_named(domain).read_output(text, lenient=False) == strict
    assert domain_named(domain).read_output(text, lenient=True) == lenient


@pytest.mark.parametrize(
    ("domain", "text", "strict", "lenient"),
    [
        ("lists", "sort then rest", "sort then rest", "sort then rest"),
        ("lists", "reverse then double", "reverse then double", "reverse then double"),
        ("lists", "double then reverse", "reverse then double", "reverse then double"),  # the same, and first
        ("lists", "sort then reverse then rest", None, "rest"),
        ("lists", "import os", None, None),
        ("lists", "sorted", None, None),
        ("lights", "cup, apple", "apple, cup", "apple, cup"),
        ("lights", "the cup", None, "cup"),
        ("lights", "apple, bell, cup, drum", None, None),  # more than three
        ("lights", "cups", None, None),
    ],
)
def test_rules_are_read_from_text(domain, text, strict, lenient):
    assert domain_named(domain).read_rule(text, lenient=False) == strict
    assert domain_named(domain).read_rule(text, lenient=True) == lenient


def test_marks_of_a_rule_are_those_of_its_tests():
    bench = HypothesisRefinement("lights", "rule")
    for index in range(10):
        one, exercise = bench.instance(0, index), bench.question(0, index)
        for rule in LIGHTS.rules:
            right = [LIGHTS.applied(rule, given) == made for given, made in one.tests]
            assert exercise.mark(rule).measures == {"raw": sum(right) / TESTS, "task": float(all(right))}


def test_noise_spoils_examples_each_by_itself_and_nothing_else():
    for domain in DOMAINS:
        clean, noisy = HypothesisRefinement(domain), HypothesisRefinement(domain, noise=25)
        spoilt = 0
        for index in range(200):
            one, other = clean.instance(1, index), noisy.instance(1, index)
            assert (one.rule, one.seen, one.tests) == (other.rule, other.seen, other.tests)
            assert [given for given, _ in other.shown] == [given for given, _ in one.shown]
            spoilt += sum(a != b for a, b in zip(one.shown, other.shown, strict=True))
        assert spoilt / 1600 == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / 1600) ** 0.5)


def test_shuffled_outputs_are_the_same_outputs():
    moved = 0
    for index in range(20):
        true, mixed = (HypothesisRefinement(labels=labels).instance(0, index) for labels in ("true", "shuffled"))
        assert sorted(made for _, made in true.shown) == sorted(made for _, made in mixed.shown)
        assert true.tests == mixed.tests
        moved += sum(a != b for a, b in zip(true.shown, mixed.shown, strict=True))
    assert moved > 100  # of 160


def test_lights_are_on_as_often_as_off():
    answers = [HypothesisRefinement("lights").question(0, index).answer for index in range(400)]
    assert answers.count("on") / 400 == pytest.approx(0.5, abs=5 * 0.5 / 20)


def test_what_is_asked_and_shown():
    lists, rule = HypothesisRefinement().question(0, 0), HypothesisRefinement(answers="rule").question(0, 0)
    one = HypothesisRefinement().instance(0, 0)
    assert lists.statements == rule.statements == tuple(f"f({list(x)}) = {made}" for x, made in one.seen)
    assert lists.ask.startswith(f"What is f({list(one.tests[0][0])})?") and lists.answer == one.tests[0][1]
    assert rule.answer == one.rule
    light = HypothesisRefinement("lights").question(0, 0)
    assert all(any(thing in line for thing in OBJECTS) for line in light.statements)
    assert {*light.acceptable} == {"on", "off"} and HypothesisRefinement("lights").chance == 0.5
    with pytest.raises(BadInput, match="noise must be at most 50"):
        HypothesisRefinement(noise=60)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("answers", ["output", "rule"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_whoever_knows_scores_exactly_one_and_whoever_refuses_is_counted(domain, answers, protocol):
    bench = HypothesisRefinement(domain, answers)
    for behaviour, value in (("oracle", 1.0), ("refuses", 0.0)):
        known = Known(behaviour)
        known.learn(bench, Code(), 0, range(12))
        found = ask_benchmark(known, bench, Code(), protocol, Evaluation(12))
        if protocol != "log_likelihood" or behaviour == "oracle":
            assert {row["value"] for row in found.rows} == {value}

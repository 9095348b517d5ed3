"""Rules beside outputs: an exact learner that prefers short answers, choices by hand, claims by hand calculation."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace

import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids
from hopscope.language.backends.known import Known
from hopscope.language.benchmarks.hypothesis_refinement import DOMAINS, SEEN, HypothesisRefinement
from hopscope_studies.hypothesis_refinement.experiments import hypothesis_refinement_rules as rules
from hopscope_studies.hypothesis_refinement.experiments.hypothesis_refinement_rules import (
    INDIFFERENT,
    KNOWS,
    WAYS,
    Chosen,
    picked,
)

COUNT = 25


def asked(domain, answers, labels="true"):
    bench = HypothesisRefinement(domain, answers, labels=labels)
    return bench, [bench.question(1, index) for index in range(COUNT)]


# Exercises -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", DOMAINS)
def test_with_shuffled_outputs_the_right_rule_and_the_choices_are_those_of_the_exercise(domain):
    bench, true = asked(domain, "rule")
    world, moved = bench.world, 0
    for one, other in zip(true, asked(domain, "rule", "shuffled")[1], strict=True):
        assert (one.answer, one.acceptable) == (other.answer, other.acceptable)
        assert len(set(one.acceptable)) == 4
        seen = bench.instance(one.seed, one.index).seen
        assert [rule for rule in one.acceptable if world.kept(rule, seen) == SEEN] == [one.answer]
        moved += one.statements != other.statements
    assert moved >= COUNT - 2


@pytest.mark.parametrize("domain", DOMAINS)
def test_rule_and_output_are_asked_about_the_same_examples(domain):
    for one, other in zip(asked(domain, "rule")[1], asked(domain, "output")[1], strict=True):
        assert one.statements == other.statements
        bench = other.benchmark
        assert other.answer == bench.world.applied(one.answer, bench.instance(1, one.index).tests[0][0])


# Choices -------------------------------------------------------------------------------------------------------------


def test_the_highest_score_is_picked_by_hand():
    question = SimpleNamespace(acceptable=("a", "b", "c", "d"), answer="c")
    for scores in permutations((0.1, 0.2, 0.3, 0.4)):
        assert picked(question, scores) == (scores[2] == 0.4)
        assert picked(question, scores, 2) == (scores[2] > scores[0])
        assert picked(question, scores, 3) == (scores[2] > max(scores[:2]))
    assert picked(question, [0.0] * 4) == 0  # of equal scores the first
    question.answer = "a"
    assert picked(question, [0.0] * 4) == picked(question, [0.0] * 4, 2) == 1
    assert picked(question, [0.0, 1.0, 0.0, 0.0], 2) == 0


class Learner(Known):
    """Log p is −9 a character, plus the examples shown that a rule fits; of an output, 1 for that of the best rule.

    So it prefers short answers by far, and knows the rule by what log p gains.
    """

    def __init__(self):
        super().__init__("refuses")

    def log_likelihoods(self, requests):
        return [
            [-9.0 * len(choice) + fit for choice, fit in zip(one.choices, self.fits(one), strict=True)]
            for one in requests
        ]

    def fits(self, request):
        question = self.questions.get(request.text)
        return [0] * len(request.choices) if question is None else fits(question)


def fits(question):
    bench = question.benchmark
    one, world = bench.instance(question.seed, question.index), bench.world
    if bench.answers == "rule":
        return [world.kept(rule, one.shown) for rule in question.acceptable]
    best = max(world.rules, key=lambda rule: world.kept(rule, one.shown))
    return [world.applied(best, one.tests[0][0]) == made for made in question.acceptable]


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_exact_learner_that_prefers_short_answers_is_right_by_the_gain_alone(domain, monkeypatch):
    monkeypatch.setattr(rules, "open_backend", lambda *_, **__: Learner())
    made = DataFrame(Chosen("learner", domain, COUNT, 1).report()["rows"])
    assert len(made) == COUNT * len(WAYS)
    assert set(made.of) == {2 if domain == "lights" else 4}
    gain = made[made.way == "beyond prior"]
    assert (gain[["rule", "rule_paired", "output"]] == 1).all(axis=None)
    shuffled = [(one.answer, one.acceptable, fits(one)) for one in asked(domain, "rule", "shuffled")[1]]
    expected = [int(all_[scores.index(max(scores))] == answer) for answer, all_, scores in shuffled]
    assert list(gain.rule_shuffled) == expected
    assert sum(expected) < COUNT  # shuffled outputs tell less of the rule
    shortest = [len(one.answer) == min(map(len, one.acceptable)) for one in asked(domain, "rule")[1]]
    assert list(made[made.way == "sum"].rule) == shortest  # among equally short ones it knows the rule
    assert not all(shortest)


def test_scripted_models_score_their_closed_forms():
    knows = DataFrame(Chosen(KNOWS, "grids", COUNT).report()["rows"])
    assert (knows.filter(regex="rule|output") == 1).all(axis=None)
    alike = DataFrame(Chosen(INDIFFERENT, "lights", 4 * COUNT).report()["rows"])
    drawn = [HypothesisRefinement("lights", "rule").question(0, index) for index in range(4 * COUNT)]
    assert list(alike[alike.way == "beyond prior"].rule) == [one.answer == one.acceptable[0] for one in drawn]


# Claims --------------------------------------------------------------------------------------------------------------


def table(true=30, wins=20, losses=0, before=20, after=0, knows=1, alike=0.25):
    """Fifty exercises in each domain; in the others, both choices are alike."""
    rows = []
    about = {"version": "v", "part": "rules", "of": 4, "way": "beyond prior"}
    for domain in DOMAINS:
        for index in range(50):
            one = {"run": f"{domain}{index % 5}", "seed": index % 5, "model": "m", "domain": domain, **about}
            rule = int(index < true)
            shuffled = int(wins <= index < true or true <= index < true + losses)
            paired, output = int(index < before), int(before <= index < before + after)
            rows.append(one | {"rule": rule, "rule_shuffled": shuffled, "rule_paired": paired, "output": output})
        for index in range(100):
            one = {"run": f"s{domain}", "seed": 0, "domain": domain, **about}
            right = dict.fromkeys(("rule", "rule_shuffled", "rule_paired", "output", "output_shuffled"), knows)
            rows.append(one | {"model": KNOWS, **right})
            rows.append(one | {"model": INDIFFERENT, **dict.fromkeys(right, int(index < 100 * alike))})
    return DataFrame(rows)


def verdicts(**changes):
    return {claim.id: claim.verdict for claim in rules.claims(table(**changes))}


def ended(found, end):
    return [verdict for id, verdict in found.items() if id.endswith(end)]


def test_each_holds_where_all_is_as_claimed():
    found = verdicts()
    assert list(found) == claim_ids("hypothesis_refinement_rules")
    assert set(found.values()) == {"holds"}
    claim = next(one for one in rules.claims(table()) if one.id == "lists_rule_beyond_shuffled")
    assert claim.number == pytest.approx(0.4) and claim.seeds == (0, 1, 2, 3, 4)


def test_sign_tests_are_corrected_for_four_domains():
    """9 against 1: 11/1024, and four times that is 0.043. 8 against 1: 10/512, and four times that is 0.078."""
    assert ended(verdicts(wins=9, losses=1), "rule_beyond_shuffled") == ["holds"] * 5
    assert ended(verdicts(wins=8, losses=1), "rule_beyond_shuffled") == ["undecided"] * 4 + ["holds"]
    assert ended(verdicts(wins=1, losses=9), "rule_beyond_shuffled") == ["fails"] * 5
    assert ended(verdicts(before=9, after=1), "rule_before_output") == ["holds"] * 5
    assert ended(verdicts(before=1, after=8), "rule_before_output") == ["undecided"] * 4 + ["fails"]


def test_guessing_is_beaten_if_the_interval_says_so():
    """Wilson's interval of 19 of 50 is 0.259 to 0.518, of 18 it is 0.241 to 0.499, and of 5 it is 0.043 to 0.214."""
    assert ended(verdicts(true=19), "beyond_guessing") == ["holds"] * 5
    assert ended(verdicts(true=18), "beyond_guessing") == ["undecided"] * 4 + ["holds"]
    assert ended(verdicts(true=5), "beyond_guessing") == ["fails"] * 5


def test_controls_fail_where_they_should():
    assert verdicts(knows=0)["whoever_knows_chooses_right"] == "fails"
    assert verdicts(alike=0.34)["indifference_scores_chance"] == "holds"  # 0.09, at most 4 × 0.5 / 20
    assert verdicts(alike=0.36)["indifference_scores_chance"] == "fails"


def test_the_figure_shows_domains_and_what_is_compared():
    some = table().assign(output_shuffled=0)
    shown = rules.figure(some)
    labels = [[tick.get_text() for tick in ax.get_xticklabels()] for ax in shown.axes]
    assert labels[0] == [f"{domain}\n{asked}" for domain in DOMAINS for asked in ("rule", "output")]
    assert labels[1] == ["beyond prior\nrule"]

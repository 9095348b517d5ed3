"""Tests of `hypothesis_refinement`: the loop on all sequences of proposals, and claims that hold and that fail."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids
from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.hypothesis_refinement import DOMAINS, SEEN, HypothesisRefinement, domain_named
from hopscope_studies.hypothesis_refinement.claims import NEVER
from hopscope_studies.hypothesis_refinement.experiments import hypothesis_refinement
from hopscope_studies.hypothesis_refinement.figure import figure
from hopscope_studies.hypothesis_refinement.measured import Proposals
from hopscope_studies.hypothesis_refinement.refinement import found_by_chance, refine, scripted, spared

# The loop ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(("hypotheses", "rounds"), [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_the_closed_form_by_all_that_may_be_proposed(domain, hypotheses, rounds):
    """The probabilities of all sequences of right and wrong hypotheses that find the rule sum to 1 − (1 − p)^NT."""
    bench, percent = HypothesisRefinement(domain, "rule"), 20
    one, world = bench.instance(0, 1), bench.world
    wrong = next(rule for rule in world.rules if rule != one.rule)
    found = 0.0
    for said in product((True, False), repeat=hypotheses * rounds):
        left = iter(said)
        loop = refine(
            world,
            one.shown,
            lambda _, n, left=left: [one.rule if next(left) else wrong for _ in range(n)],
            hypotheses,
            rounds,
        )
        assert loop.fits == (loop.rule == one.rule) == any(said)
        found += loop.fits * 0.2 ** sum(said) * 0.8 ** (len(said) - sum(said))
    assert found == pytest.approx(found_by_chance(percent, hypotheses, rounds))


def test_the_loop_stops_when_a_rule_fits_and_keeps_the_best_of_all_rounds():
    bench = HypothesisRefinement("lists", "rule")
    one, world = bench.instance(0, 0), bench.world
    ranked = sorted((r for r in world.rules if r != one.rule), key=lambda r: world.kept(r, one.shown))
    worst, best = ranked[0], ranked[-1]
    asked: list[str] = []

    def propose(so_far: str, wanted: int) -> list[str]:
        asked.append(so_far)
        return [[best, worst], [worst, worst], [worst, one.rule]][len(asked) - 1][:wanted]

    loop = refine(world, one.shown, propose, 2, 9)
    assert (loop.rule, loop.fits, loop.rounds, loop.proposed) == (one.rule, True, 3, 6)
    assert asked == ["", best, best]  # the best goes back
    asked.clear()
    loop = refine(world, one.shown, propose, 2, 2)
    assert (loop.rule, loop.fits, loop.rounds) == (best, False, 2)


def test_a_scripted_proposer_is_right_as_often_as_it_says():
    world = domain_named("lights")
    propose = scripted(world, "cup", 30, Draw("test", {}, 0, 0))
    said = [propose("", 1)[0] for _ in range(200)]
    assert said.count("cup") / 200 == pytest.approx(0.3, abs=5 * (0.21 / 200) ** 0.5)
    assert set(said) <= set(world.rules)
    assert scripted(world, "cup", 0, Draw("test", {}, 0, 0))("", 5).count("cup") == 0
    assert scripted(world, "cup", 100, Draw("test", {}, 0, 0))("", 5) == ["cup"] * 5


def test_noise_by_all_that_may_be_spoilt():
    weights = [0.25 ** sum(spoilt) * 0.75 ** (4 - sum(spoilt)) for spoilt in product((0, 1), repeat=4)]
    assert sum(weights) == pytest.approx(1)
    assert spared(25, 4) == pytest.approx(weights[0])  # none
    assert spared(0, SEEN) == 1


def test_rows_of_proposals_say_what_they_must():
    rows = {(row["labels"], row["measure"]): row for row in Proposals("lights", 40).exact()}
    assert rows["every rule", "found"]["value"] == 1
    never = [row for row in Proposals("lights", 40).grid() if row["labels"] == NEVER]
    wrong = {row["measure"]: row["value"] for row in never}
    assert wrong["found"] == 0 and 0 < wrong["examples kept"] < 1


# Claims --------------------------------------------------------------------------------------------------------------


def row(part: str, labels: str, measure: str, value: float, **more: Any) -> dict[str, Any]:
    low, high = more.pop("ends", (max(0.0, value - 0.05), min(1.0, value + 0.05)))
    told = {"run": part, "version": "v", "seed": 0, "part": part, "model": "m", "domain": "lists", "layout": "code"}
    given = {"protocol": "greedy_lenient", "n": 400, "value": value, "low": low, "high": high, "chance": None}
    return {**told, "labels": labels, "measure": measure, **given, **more}


def table(
    every: float = 1.0,
    off: float = 0.0,
    many: float = 0.96,
    partial: float = 0.5,
    lucky: float = 0.0,
    spoilt: float = 0.0,
    best: float = 0.8,
    oracle: float = 1.0,
    guess: float = 0.05,
    lists: float = 0.3,
    lights: float = 0.7,
    more: tuple[float, float] = (0.001, 0.999),
    form: tuple[float, float] = (0.9, 0.0),
) -> DataFrame:
    """A table for which every claim holds, unless arguments change it; `more` are the sign test's probabilities."""
    beyond = {"ends": more, "chance": 0.0}
    choice = {"domain": "lights", "protocol": "log_likelihood"}
    rows = [
        row("proposers", "every rule", "found", every),
        row("proposers", "p 20 N 1 T 1", "found", 0.2 + off, chance=0.2),
        row("proposers", "noise 25", "right rule fits", spared(25, 8), chance=spared(25, 8), domain="lights"),
        row("proposers", "p 20 N 5 T 3", "found", many, chance=found_by_chance(20, 5, 3) if many > 0.5 else many),
        *(row("proposers", "p 0 N 5 T 3", name, partial) for name in ("raw", "examples kept")),
        row("proposers", "p 0 N 5 T 3", "found", lucky, chance=0.0),
        row("proposers", "noise 25", "right rule fits", spared(25, 8) + spoilt, chance=spared(25, 8)),
        row("proposers", "noise 25", "found by what fits", 0.1),
        row("proposers", "noise 25", "found by what fits best", best),
        row("scripted", "true", "raw", oracle, model="known:oracle"),
        row("scripted", "true", "raw", guess, model="known:uniform", chance=0.05),
        row("language", "true", "raw", lists, chance=0.06),
        row("language", "true beyond shuffled", "raw", 0.2, **beyond),
        row("language", "true", "choice", lights, chance=0.5, **choice),
        row("language", "true beyond shuffled", "choice", 0.2, **choice, **beyond),
        row("language", "true", "valid", form[0], protocol="greedy_strict"),
        row("language", "true", "valid", form[1], protocol="greedy_strict", layout="chat"),
        row("language", "shuffled", "raw", 0.1, chance=0.05),
    ]
    return pandas.read_csv(io.StringIO(DataFrame(rows).to_csv(index=False)))


def verdicts(**changes: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in hypothesis_refinement.claims(table(**changes))}


def test_each_holds_where_all_is_as_claimed():
    assert list(verdicts()) == claim_ids("hypothesis_refinement")
    assert set(verdicts().values()) == {"holds"}


TESTED = {"lists_beyond_shuffled", "lights_beyond_shuffled"}


@pytest.mark.parametrize(
    ("changes", "fail"),
    [
        ({"every": 0.99}, {"every_rule_tried_is_exact"}),
        ({"off": 0.1}, {"found_by_closed_form"}),
        ({"many": 0.25}, {"more_hypotheses_find_more"}),
        ({"partial": 0.0}, {"wrong_rules_fall_to_the_best_partial"}),
        ({"partial": 1.0}, {"wrong_rules_fall_to_the_best_partial"}),
        ({"spoilt": 0.1}, {"noise_breaks_exact_filtering"}),
        ({"best": 0.15}, {"the_best_fit_survives_noise"}),
        ({"oracle": 0.99}, {"whoever_knows_scores_one"}),
        ({"guess": 0.2}, {"guessing_scores_chance"}),
        ({"lists": 0.0, "guess": 0.05}, {"lists_beyond_guessing"}),
        ({"lights": 0.4}, {"lights_beyond_even"}),
        ({"more": (0.999, 0.001)}, TESTED),
        ({"form": (0.3, 0.0)}, {"form_of_lists"}),
        ({"form": (0.9, 0.7)}, {"form_of_lists"}),
    ],
)
def test_each_fails_alone_where_it_should(changes, fail):
    found = verdicts(**changes)
    assert {id for id, verdict in found.items() if verdict == "fails"} == fail
    assert {verdict for id, verdict in found.items() if id not in fail} == {"holds"}


def test_what_chance_could_do_is_undecided():
    found = verdicts(more=(0.3, 0.8))
    assert {id for id, verdict in found.items() if verdict == "undecided"} == TESTED
    for changes, id in (
        ({"lists": 0.09}, "lists_beyond_guessing"),
        ({"lights": 0.54}, "lights_beyond_even"),
        ({"form": (0.52, 0.0)}, "form_of_lists"),
        ({"form": (0.9, 0.47)}, "form_of_lists"),
    ):
        assert {one for one, verdict in verdicts(**changes).items() if verdict == "undecided"} == {id}


def test_other_domains_are_judged_by_the_same_thresholds_and_only_by_what_was_asked():
    """Grids in the place of lists, and commands, asked in code alone, in that of lights."""
    of_grids = table(form=(0.9, 0.0), lists=0.3).replace({"domain": {"lists": "grids", "lights": "commands"}})
    chosen = of_grids[of_grids.measure == "choice"].assign(domain="grids", chance=0.25, value=0.3, low=0.2, high=0.4)
    both = pandas.concat([of_grids, chosen[chosen.labels == "true"]], ignore_index=True)
    found = {claim.id: claim for claim in hypothesis_refinement.claims(both)}
    of_models = {id: claim.verdict for id, claim in found.items() if id.startswith(("grids", "commands", "form"))}
    assert of_models == {
        "grids_beyond_guessing": "holds",
        "grids_beyond_shuffled": "holds",
        "grids_chosen_beyond_guessing": "undecided",  # 0.2 to 0.4 holds a quarter
        "grids_chosen_beyond_shuffled": "undecided",  # no row
        "commands_chosen_beyond_guessing": "holds",
        "commands_chosen_beyond_shuffled": "holds",
        "form_of_grids": "holds",
    }
    assert found["grids_chosen_beyond_guessing"].number == pytest.approx(0.3)
    assert found["grids_beyond_guessing"].number == pytest.approx(0.3 - 0.06)
    assert "> 0 " in found["grids_beyond_guessing"].threshold
    assert "> 0.25" in found["grids_chosen_beyond_guessing"].threshold
    assert "{" not in "".join(claim.sentence for claim in found.values())


def test_the_figure_shows_the_closed_form_noise_and_outputs():
    titles = [ax.get_title("left") for ax in figure(table()).axes]
    assert titles == [
        "1 − (1 − p)^(NT); lists ●, lights ■",
        "Noise, p = 0.5, N = 5, T = 3",
        "m: what a rule makes of a ninth input",
    ]

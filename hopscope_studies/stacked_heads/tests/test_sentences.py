"""Tests that each factual sentence of the paper's sections 7 to 9 is judged by an existing claim, or has a reason."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.experiments.results import all_claims, claim_ids
from hopscope_studies.stacked_heads import recipe
from hopscope_studies.stacked_heads.sentences import PRIOR, Sentence, differing, page, sentences, verdicts

RESULTS = Path(__file__).parents[1]
SECTIONS = ("7", "7.1", "7.2", "8", "8.1", "8.2", "8.2 (i)", "8.2 (ii)", "9", "9.1", "9.2")
SECTIONS += ("9.2 (i)", "9.2 (ii)", "9.2 (iii)", "9.2 (iv)", "E")


def test_they_are_numbered_in_the_papers_order():
    found = sentences()
    assert [sentence.number for sentence in found] == list(range(1, len(found) + 1))
    assert all(SECTIONS.index(a.section) <= SECTIONS.index(b.section) for a, b in pairwise(found))
    assert {sentence.section for sentence in found} == set(SECTIONS)


@pytest.mark.parametrize("sentence", sentences(), ids=lambda sentence: str(sentence.number))
def test_each_is_judged_or_said_not_to_be(sentence: Sentence):
    """A sentence has exactly one of three: claims of an experiment, settings of recipes, or a reason."""
    assert sum(map(bool, (sentence.claims, sentence.settings, sentence.not_judged))) == 1
    for name in sentence.claims:
        source, _, claim = name.partition("/")
        assert source in catalogue.names("experiments")
        assert claim in claim_ids(source)
    assert [differing(settings) for settings in sentence.settings] == [{}] * len(sentence.settings)


def test_a_recipe_that_is_set_otherwise_is_told():
    settings = {"preset": "transformer_d", "task": {"n_hops": 3}, "model": {"mlp": False}, "training": {"batch": 128}}
    assert differing(settings) == {"n_hops": 4, "batch": 256}
    (shown,) = verdicts(Sentence(1, "9", "So.", settings=(settings,)), {})
    assert shown == ("the preset `transformer_d`", "**differs**: n_hops is 4, batch is 256")


def test_the_page_has_all_in_order_with_the_verdict_at_each_scale():
    claims = all_claims(RESULTS)
    shown = page(claims)
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", shown, re.M)]
    assert numbers == list(range(1, len(numbers) + 1)) == [sentence.number for sentence in sentences()]
    assert all(line.count(" | ") == 4 for line in shown.splitlines()[2:])
    one = {"experiment": "fig5", "id": "solved", "sentence": "So. (With a prior: some.)", "n": 5}
    rows = [{**one, "scale": "paper", "verdict": "holds", "number": None, "sentence": "So."}]
    rows += [{**one, "scale": "cpu", "verdict": "fails", "number": 0.0123}]
    sentence = Sentence(1, "8.2", "Low.", claims=("fig5/solved", "fig5/four_heads"))
    assert list(verdicts(sentence, {"fig5/solved": rows})) == [
        ("`fig5/solved`", "cpu, with the prior: **fails** (0.0123, n = 5); paper: **holds**"),
        ("`fig5/four_heads`", "not run yet"),
    ]


def test_the_command_prints_the_page(capsys):
    assert main(["report", "--results", str(RESULTS), "--paper"]) == 0
    assert capsys.readouterr().out == f"{page(all_claims(RESULTS))}\n{recipe.page()}"


#: Sentences on what trained models of sections 8 and 9 do.
ABOUT_MODELS = [one for one in sentences() if one.number in {*range(18, 30), *range(37, 54)} and one.claims]


@pytest.mark.parametrize("sentence", ABOUT_MODELS, ids=lambda sentence: str(sentence.number))
def test_none_on_trained_models_is_judged_by_runs_with_a_prior_alone(sentence: Sentence):
    """The paper's models have no prior, so each sentence on trained models needs a claim on runs without one."""
    judged = [row for row in all_claims(RESULTS) if f"{row['experiment']}/{row['id']}" in sentence.claims]
    assert any(PRIOR not in row["sentence"] for row in judged)

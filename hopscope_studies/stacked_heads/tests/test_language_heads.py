"""Tests of claims on the heads of a language model: each holds or fails on hand-made reports as it should."""

from __future__ import annotations

import copy
from typing import Any

from pandas import DataFrame

from hopscope.experiments.results import claim_ids
from hopscope_studies.stacked_heads.experiments import language_heads
from hopscope_studies.stacked_heads.experiments.language_heads import rows_of
from hopscope_studies.stacked_heads.tests.made_up import MADE_UP


def table(*reports: dict[str, Any]) -> DataFrame:
    """Reports of several seeds, as rows of the experiment's table."""
    about = {"version": "v", "model": "m"}
    rows = [about | {"run": f"r{seed}", "seed": seed} | row for seed, one in enumerate(reports) for row in rows_of(one)]
    return DataFrame(rows)


def judged(*reports: dict[str, Any]) -> dict[str, tuple[str, float]]:
    return {claim.id: (claim.verdict, round(claim.number, 6)) for claim in language_heads.claims(table(*reports))}


def test_a_report_in_which_one_head_of_forty_does_the_hop():
    found = judged(MADE_UP, MADE_UP)
    assert found == {
        "one_hop_above_chance": ("holds", 0.55),  # 0.8 − 0.25
        "induction_heads_matter": ("holds", 3.8),  # 5 − 1.2, the worst of the random sets
        "few_heads_do_the_hop": ("holds", 0.025),
        "they_keep_the_metric": ("holds", 0.9),
        "random_heads_do_not": ("holds", 0),
        "others_do_not": ("holds", 0.1),
        "same_heads_for_other_questions": ("holds", 1),
        "an_induction_head_is_among_them": ("holds", 1),
        "stack_is_deep_enough": ("holds", 0),
    }
    assert list(found) == claim_ids("language_heads")


def test_one_in_which_nothing_of_the_kind_is_so():
    worse = copy.deepcopy(MADE_UP)  # of what a set keeps, 0.8 is asked of it and 0.2 of others
    worse["hop"]["low"] = 0.2
    worse["ablation"]["without_top"] = 1.1
    worse["minimal"] |= {"size": 4, "random_sets": [{"faithfulness": 0.5, "low": 0.4, "high": 0.6}]}
    worse["minimal"]["set"]["faithfulness"] = worse["minimal"]["without_set"]["faithfulness"] = 0.6
    worse["heads"] = [{"head": "L0H1", "minimal": True}]
    worse["depth"]["stack"] = ["L1H0"]
    assert {verdict for verdict, _ in judged(MADE_UP, worse).values()} == {"fails"}
    assert judged(MADE_UP)["same_heads_for_other_questions"][0] == "undecided"  # one seed cannot tell

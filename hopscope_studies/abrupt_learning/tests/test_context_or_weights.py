"""Tests of `context_or_weights`: each claim on tables for which it holds and for which it fails."""

from __future__ import annotations

from pandas import DataFrame

from hopscope.experiments.results import claim_ids
from hopscope_studies.abrupt_learning.experiments import context_or_weights

#: By condition: IC, IC2, IW, as Reddy has it and turned round.
PAPERS = {
    "few": (0.3, 0.1, 0.45),
    "middle": (0.7, 0.5, 0.2),
    "many": (0.94, 0.8, 0.06),
    "single": (0.5, 0.3, 0.3),
    "burst": (0.95, 0.9, 0.07),
    "noise": (0.6, 0.4, 0.25),
}
OTHERS = {
    "few": (0.9, 0.9, 0.1),
    "middle": (0.5, 0.5, 0.1),
    "many": (0.3, 0.1, 0.05),
    "single": (0.9, 0.3, 0.3),
    "burst": (0.5, 0.9, 0.1),
    "noise": (0.6, 0.4, 0.1),
}


def table(numbers) -> DataFrame:
    return DataFrame(
        {
            "run": f"{name}.{seed}",
            "version": "v",
            "seed": seed,
            "condition": name,
            "kind": "accuracy",
            "name": test,
            "step": 2500,
            "value": value + 0.01 * seed,
        }
        for name, of in numbers.items()
        for seed in range(3)
        for test, value in zip(("IC", "IC2", "IW"), of, strict=True)
    )


def verdicts(rows: DataFrame) -> dict[str, str]:
    claims = list(context_or_weights.claims(rows))
    assert [claim.id for claim in claims] == claim_ids("context_or_weights")
    return {claim.id: claim.verdict for claim in claims}


def test_a_table_like_the_papers_holds_and_one_turned_round_fails():
    assert set(verdicts(table(PAPERS)).values()) == {"holds"}
    assert set(verdicts(table(OTHERS)).values()) == {"fails"}


def test_seeds_are_compared_with_themselves_and_one_condition_alone_says_nothing():
    rows = table(PAPERS)
    found = verdicts(rows[rows.condition == "middle"])
    assert {name for name, verdict in found.items() if verdict != "undecided"} <= {"one_at_the_cost_of_the_other"}

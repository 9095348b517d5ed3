"""Tests of `capacity`: capacity and accuracies by hand, and each claim on tables for which it holds or fails."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from pandas import DataFrame

from hopscope_studies.capacity.experiments.capacity import SETTINGS, accuracies, capacity, claims, config


@pytest.mark.parametrize("layers", [2, 3, 4, 5])
def test_capacity_is_the_closed_form(layers):
    assert capacity(layers) == 2 ** (layers - 1) - 1


def test_chains_beyond_capacity_are_asked_in_both_ways():
    for layers, asked in SETTINGS.items():
        beyond = {hops for hops, _ in asked if hops > capacity(layers)}
        assert {(hops, last) for hops, last in asked if hops in beyond} == {
            pair for hops in beyond for pair in ((hops, hops), (hops, capacity(layers)))
        }


def test_what_is_asked_changes_no_sequence():
    every, reachable = (config("cpu", 3, 4, last, 0).task for last in (4, 3))
    assert torch.equal(every.sample(8, 1).inputs, reachable.sample(8, 1).inputs)
    assert torch.equal(every.sample(8, 1).targets[..., :12], reachable.sample(8, 1).targets)


def test_accuracies_are_those_of_the_sequences_that_their_names_say():
    """A model whose outputs are 0 names the smallest symbol, which is seldom right."""
    seen = []

    def model(inputs, at):
        seen.append(inputs.shape[1])
        return torch.zeros(len(inputs), -at.start, 4)

    run = SimpleNamespace(task=config("cpu", 2, 3, 1, 0).task, model=model)
    [row] = list(accuracies(run))
    assert list(row) == ["hop", "trained", "three_chains", "shuffled"]
    assert row["hop"] == "x1"
    assert all(0 <= row[name] < 0.3 for name in ("trained", "three_chains", "shuffled"))
    assert seen == [4 * 7, 3 * 7, 4 * 7]


def table(
    learns: float = 0.02,
    algorithm: float = 0.9,
    beyond: float = 0.76,
    lost: float = 0.8,
    late: float = 2.0,
    elsewhere: float = 0.2,
) -> DataFrame:
    """A table of ten seeds. Models that are asked for all hops lose some reachable hops, and learn others later.

    Args:
        learns: final loss on chains within capacity.
        algorithm: their accuracy among three chains.
        beyond: final loss of hops beyond capacity.
        lost: the share of seeds that lose the reachable hops.
        late: the ratio of their learning times.
        elsewhere: by how much their accuracy among three chains is lower.
    """
    rows = []
    for seed in range(10):
        for layers, asked in SETTINGS.items():
            for hops, last in asked:
                most = capacity(layers)
                for k in range(1, last + 1):
                    within, all_asked = hops <= most, last > most
                    never = k > most or (all_asked and seed < 10 * lost)
                    loss = beyond if k > most else 0.9 if never else learns if within else 0.02
                    rows.append(
                        {
                            "run": f"{seed}/{layers}/{hops}/{last}",
                            "setting": f"{layers}/{hops}/{last}",
                            "seed": seed,
                            "prior": "none",
                            "layers": layers,
                            "hops": hops,
                            "last": last,
                            "capacity": most,
                            "k": k,
                            "loss": loss,
                            "learnt": math.nan if never else 100 * (late if all_asked else 1),
                            "steps": 100 * late,
                            "three_chains": algorithm if within else 0.7 - elsewhere * all_asked,
                        }
                    )
    return DataFrame(rows)


def verdicts(**changes) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in claims(table(**changes))}


@pytest.mark.parametrize(
    ("names", "change"),
    [
        ({"within_is_learnt"}, {"learns": 0.6}),
        ({"algorithm_within"}, {"algorithm": 0.7}),
        ({"nothing_beyond", "guess_beyond"}, {"beyond": 0.4}),
        ({"guess_beyond"}, {"beyond": 0.85}),
        ({"fewer"}, {"lost": 0.1}),
        ({"later"}, {"late": 1.1}),
        ({"worse_elsewhere"}, {"elsewhere": 0.0}),
    ],
)
def test_each_claim_holds_and_fails_by_its_own_values(names, change):
    assert set(verdicts().values()) == {"holds"}
    found = verdicts(**change)
    assert {name for name, verdict in found.items() if verdict == "fails"} == names


def test_without_a_reachable_hop_learnt_in_both_ways_nothing_is_said_of_it():
    assert verdicts(lost=1.0)["worse_elsewhere"] == "undecided"

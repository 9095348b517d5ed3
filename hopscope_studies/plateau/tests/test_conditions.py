"""Tests of claims on causes, priors and traps, on made-up tables for which they hold and for which they fail."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids
from hopscope_studies.plateau.experiments import plateau_causes, plateau_priors, plateau_traps
from hopscope_studies.plateau.tests.test_plateau import run_of
from hopscope_studies.plateau.theory.two_factor import Places, TwoFactor

NAN = float("nan")
TRUTH = TwoFactor(Places.of(4, 3, "deepest_first"), look_up=0.8, join=0.8, cost=0.1, wear=0.2, delay=40)


def ends(condition: str, learnt: float | tuple[float, ...], joined=(0.3, 0.2), loss=0.75, later=0.1, n=3) -> list[dict]:
    """The first and last step of two seeds' runs in which every hop is learnt at a step, or each at its own."""
    times = learnt if isinstance(learnt, tuple) else (learnt,) * n
    return [
        {
            "run": f"{condition}.{seed}",
            "version": "v",
            "seed": seed,
            "condition": condition,
            "hop": f"x{k}",
            "step": step,
            "steps": 400,
            "hop_loss": 1.0 if step == 0 else loss,
            "learnt": time,
            "joined": joined[step > 0],
            "joined_later": later,
            "look_up": 0.1,
        }
        for seed in (0, 1)
        for k, time in enumerate(times, 1)
        for step in (0, 400)
    ]


def judged(source, rows: list[dict]) -> dict[str, str]:
    claims = list(source.claims(DataFrame(rows)))
    assert [claim.id for claim in claims] == claim_ids(source.__name__.rpartition(".")[2])
    return {claim.id: claim.verdict for claim in claims}


def causes(
    learns: dict[str, float], joined: dict[str, tuple[float, float]], later: float, forgets: float
) -> list[dict]:
    """A table of every condition; those that the theory is fitted to follow its predictions."""
    rows = [
        {**row, "condition": name, "run": f"{name}.{seed}", "joined_later": 0.1}
        for name, start in plateau_causes.STARTS.items()
        for seed in (0, 1)
        for row in run_of(TRUTH, start, seed)
    ]
    rest = [name for name in plateau_causes.CAUSES if name not in (*plateau_causes.STARTS, "released at 200")]
    for name in rest:
        rows += ends(name, learns.get(name, NAN), joined.get(name, (0.3, 0.2)), later=later)
    steps = {200: 0.05, 210: forgets, 1000: 1 - forgets}
    about = {"version": "v", "condition": "released at 200", "hop": "x1", "steps": 1000, "learnt": 40.0}
    seen = {"joined": 0.9, "joined_later": 0.1, "look_up": 0.9}
    return rows + [
        {**about, **seen, "run": f"released.{seed}", "seed": seed, "step": step, "hop_loss": loss}
        for seed in (0, 1)
        for step, loss in steps.items()
    ]


def test_causes():
    quick = ("facts whole", "strong prior, frozen", "weak prior, queries blind in layer 0", "learnt positions")
    learns = dict.fromkeys((*quick, "no prior, 1 hop", "no prior, nearest first"), 100.0)
    joined = {"strong prior, later layers frozen": (0.8, 0.1), "weak prior, no detour": (0.25, 0.5)}
    as_said = judged(plateau_causes, causes(learns, joined, 0.7, 0.95))
    assert set(as_said.values()) == {"holds"}
    turned = {name: NAN if name in learns else 100.0 for name in plateau_causes.CAUSES}
    found = judged(plateau_causes, causes(turned, {"strong prior, later layers frozen": (0.8, 0.7)}, 0.2, 0.3))
    # The runs without a prior are the theory's own, in which nothing is learnt.
    assert found.pop("without_a_prior_it_waits") == "holds"
    assert set(found.values()) == {"fails"}


def test_what_the_model_is_asked_follows_from_what_is_changed():
    """Times are those of the true model with each change: frozen joins do not move, and blind queries cost nothing."""
    times = {
        name: float(replace(TRUTH, **changed).learning_time(start, 400, 5))
        for name, (start, changed) in plateau_causes.FORETOLD.items()
    }
    assert times.keys() <= plateau_causes.CAUSES.keys()
    assert {name for name, time in times.items() if time < 400} >= {"strong prior, frozen", "no prior, 1 hop"}
    assert {name for name, time in times.items() if time > 400} >= {"weak prior, frozen", "prior of 2, 5 hops"}


def priors(learns: set[str], weights: float = 70.0, loss: float = 0.9) -> list[dict]:
    rows = ends("biased start, 2", 100.0, (0.4, 0.9)) + ends("biased start, 4", 50.0, (0.8, 0.9))
    for name in plateau_priors.PRIORS:
        if not name.startswith("biased"):
            time = (weights if name.startswith("initial") else 90.0) if name in learns else NAN
            rows += ends(name, time, (0.57, 0.9), loss=loss)
    return rows


def test_priors():
    enough = {"biased start, 4", "kv shift", "initial weights, 20", "learnt positions"}
    as_said = judged(plateau_priors, priors(enough))
    assert set(as_said.values()) == {"holds"}
    other = judged(plateau_priors, priors(set(plateau_priors.PRIORS) - enough, loss=0.1))
    assert other.pop("biased_start_suffices") == "holds"  # it is the law that the others are held to
    assert other.pop("it_matters_how_much_not_how") == "holds"  # of weights of 2, which do what the law says
    assert set(other.values()) == {"fails"}
    late = judged(plateau_priors, priors(enough, weights=300.0))
    assert late["it_matters_how_much_not_how"] == "fails"  # the law says 70


@pytest.mark.parametrize("turned", [False, True])
def test_traps(turned):
    free = {
        *("nearest first, no mask", "deepest first, no mask", "last hop alone, 2 given"),
        *("5 hops, 8 heads", "5 hops, 1 head, no MLP", "5 hops, 1 head, facts whole"),
    }
    rows = []
    for name in plateau_traps.TRAPS:
        rows += ends(name, 100.0 if (name in free) != turned else NAN, n=5 if name.startswith("5") else 3)
    found = judged(plateau_traps, rows)
    assert set(found.values()) == {"fails" if turned else "holds"}


def test_a_hop_that_stalls_is_told_from_one_that_does_not():
    rows = ends("nearest first", (60.0, 90.0, NAN)) + ends("nearest first, no mask", (60.0, 90.0, 300.0))
    found = judged(plateau_traps, rows)
    assert found["nearest_first_stalls"] == found["sight_of_later_facts_frees_it"] == "holds"
    assert found["the_last_hop_alone_waits"] == "undecided"

"""The claims of `episodic_memory`, judged from the table alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, Limit, between, bound, telling
from hopscope_studies.episodic_memory.fit import NEAR

CMR, EMERGENCE = "Ji-An et al.", "Mistry et al."
COPIES = 0.2  # attention at lag +1 above which a head counts as copying (ours)
CONTIGUOUS = 2.0  # contiguity above which answers count as contiguous (ours); 1 is even recall
TOGETHER = 0.8  # rank correlation over checkpoints above which two measures count as rising together (ours)
RANDOM = ["even near", "exponential near"]  # shares of random curves of either kind that are near recall
#: What is claimed, by experiment and id.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text(encoding="utf-8"))


def said_of(experiment: str) -> dict[str, str]:
    """What an experiment claims, by id."""
    return {id: sentence.format(copies=COPIES) for id, sentence in SENTENCES[experiment].items()}


told = telling(said_of("episodic_memory"))


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the simulation, heads, and answers."""
    yield from simulation_claims(table)
    yield from head_claims(table[table.kind == "head"], table[table.kind == "chance"])
    yield from answer_claims(table[table.kind == "answer"], table[table.kind == "silenced"])


def simulation_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the simulation against the closed form, and about the share of random curves that fit."""
    checked, chance = table[table.kind == "simulation"], table[table.kind == "chance"]
    claim, far = partial(told, Evidence(checked, CMR)), checked.furthest
    yield claim("simulation_is_the_closed_form", far, "greatest distance of a share", n=len(checked), below=0.02)
    shares, what = pandas.concat([chance[one] for one in RANDOM]), f"share of random curves at a distance below {NEAR}"
    yield told(Evidence(chance, "control"), "random_curves_are_near", shares, what, within=between(0.01, 0.1))


def last(rows: DataFrame) -> DataFrame:
    """The rows of each run's last step."""
    return rows[rows.step == rows.groupby("run").step.transform("max")]


def copying(heads: DataFrame) -> DataFrame:
    """The heads that attend to the token after their own token's earlier occurrence."""
    return heads[heads.lag_1 > COPIES]


def head_claims(heads: DataFrame, chance: DataFrame) -> Iterator[Claim]:
    """Claims about how close heads are to a recall model."""
    ends = last(heads)
    best = copying(ends)
    others = ends.drop(best.index)
    liked = [bound("heads that are like recall", best.like_recall.astype(float).tolist(), of="share of", at_least=1)]
    claim = partial(told, Evidence(best, CMR, source="paper", among=ends))
    yield claim("copying_heads_recall", best.distance, "CMR distance", below=NEAR, also=liked)
    has = [float(run in set(best.run)) for run in ends.run.unique()]
    what = "models with a head that attends to what followed its token"
    yield told(Evidence(ends, CMR), "every_model_has_one", has, what, of="share of", at_least=1)
    floor = float(chance[RANDOM].max().max()) if len(chance) else float("nan")
    claim = partial(told, Evidence(others, CMR, among=ends), n=len(others), of="share of", at_most=floor)
    yield claim("other_heads_do_not", others.near.astype(float), "heads that are CMR-like")
    yield distance_claim(heads, best, ends)


def distance_claim(heads: DataFrame, best: DataFrame, ends: DataFrame) -> Claim:
    """The claim that the copying heads come closer to recall in training."""
    keys = ["run", "layer", "head"]
    starts = heads[heads.step == 0].set_index(keys).distance
    change = (best.set_index(keys).distance - starts).dropna()
    claim = partial(told, Evidence(best, CMR, among=ends), number="median")
    return claim("distance_falls", change, "change of the CMR distance", below=0)


def answer_claims(answered: DataFrame, silenced: DataFrame) -> Iterator[Claim]:
    """Claims about the contiguity of answers, when it rises, and which heads it needs."""
    ends = last(answered)
    claim = partial(told, Evidence(ends, EMERGENCE))
    yield claim("answers_are_contiguous", ends.contiguity, "contiguity", above=CONTIGUOUS)
    yield claim("answers_lean_forward", ends.asymmetry, "asymmetry", above=0)
    together = {run: part.forward.rank().corr(part.contiguity.rank()) for run, part in answered.groupby("run")}
    claim = partial(told, Evidence(answered, EMERGENCE), "contiguity_comes_with_induction")
    yield claim(Series(together, dtype=float), "rank correlation", above=TOGETHER, of="median")
    yield from silenced_claims(ends, silenced)
    starts = answered[answered.step == 0]
    flat = between(0.8, 1.25)
    yield told(Evidence(starts, "control"), "untrained_is_flat", starts.contiguity, "contiguity", within=flat)


def silenced_claims(ends: DataFrame, silenced: DataFrame) -> Iterator[Claim]:
    """Claims about contiguity without all copying heads, and without one of several."""
    whole = ends.set_index("run").contiguity - 1
    limits: dict[tuple[str, str], Limit] = {
        ("contiguity_needs_the_heads", "all"): {"below": 0.1},
        ("one_of_several_is_spared", "one"): {"above": 0.5},
    }
    for (id, which), limit in limits.items():
        part = without(silenced, which)
        left = ((part.groupby("run").contiguity.mean() - 1) / whole).dropna()
        evidence = Evidence(part, EMERGENCE, among=ends)
        yield told(evidence, id, left, "share of contiguity left", of="median", **limit)


def without(silenced: DataFrame, which: str) -> DataFrame:
    """The rows without `all` copying heads, or without `one`; empty if no model has such heads."""
    return silenced if silenced.empty else silenced[silenced.silenced == which]

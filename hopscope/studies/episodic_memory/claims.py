"""The claims of `episodic_memory`, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator

import pandas
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, between, bound, judge
from hopscope.studies.episodic_memory.fit import NEAR

CMR, EMERGENCE = "Ji-An et al., section 4", "Mistry et al."
CONTIGUOUS = 2.0  # contiguity from which answers are called contiguous (ours); 1 is even recall
TOGETHER = 0.8  # rank correlation over checkpoints from which two things are said to come together (ours)


def claims(table: DataFrame) -> Iterator[Claim]:
    """The model of recall, heads, answers."""
    yield from simulation_claims(table)
    yield from head_claims(table[table.kind == "head"], table[table.kind == "chance"])
    yield from answer_claims(table[table.kind == "answer"], table[table.kind == "silenced"])


def simulation_claims(table: DataFrame) -> Iterator[Claim]:
    """The simulation against the closed form, and the floor of random curves."""
    checked, chance = table[table.kind == "simulation"], table[table.kind == "chance"]
    yield judge(
        "simulation_is_the_closed_form",
        "With β_rec = 1 and γ = 0 the simulated CRP is (1 − β_enc)^(d−1) up to its sum (control).",
        checked.furthest,
        "greatest distance of a share",
        section=CMR,
        rows=checked,
        n=len(checked),
        below=0.02,
        source="ours",
    )
    shares = pandas.concat([chance["even near"], chance["exponential near"]])
    strict = pandas.concat([chance["even like recall"], chance["exponential like recall"]])
    yield judge(
        "random_curves_are_near",
        "A few per cent of random curves are CMR-like as the paper has it (on the authors' released grid 2 to 6 %); "
        f"asked also for β_rec above 0.5 and a preference for lag +1 over 0, {strict.max():.1%} are.",
        shares,
        f"share of random curves at a distance below {NEAR}",
        section="control",
        rows=chance,
        within=between(0.01, 0.1),
        source="ours",
    )


def last(rows: DataFrame) -> DataFrame:
    """The rows of every run's last step."""
    return rows[rows.step == rows.groupby("run").step.transform("max")]


def copying(heads: DataFrame) -> DataFrame:
    """Of each run, the head that attends most to what followed its token."""
    return heads.loc[heads.groupby("run").lag_1.idxmax()]


def head_claims(heads: DataFrame, chance: DataFrame) -> Iterator[Claim]:
    """How near heads are to a model of recall."""
    ends = last(heads)
    best = copying(ends)
    others = ends.drop(best.index)
    liked = best.like_recall.astype(float)
    yield judge(
        "copying_heads_recall",
        "In each model, the head that attends most to what followed its token is near a model of recall, one that "
        "prefers lag +1 and calls up the item's own context (paper: induction heads are CMR-like; the distance of pure "
        f"attention at +1 is 0; {liked.mean():.0%} are like recall, fitted β_rec {words_of(best.recall)}, β_enc "
        f"{words_of(best.encoding)}).",
        best.distance,
        "CMR distance",
        section=CMR,
        rows=best,
        below=NEAR,
        also=[bound("that is like recall", liked.tolist(), of="share of", at_least=1)],
        source="paper",
    )
    floor = float(chance[["even near", "exponential near"]].max().max()) if len(chance) else float("nan")
    yield judge(
        "other_heads_do_not",
        f"All other heads are no nearer than random curves, of which {floor:.1%} are CMR-like.",
        others.near.astype(float),
        "that are CMR-like",
        section=CMR,
        rows=others,
        among=ends,
        n=len(others),
        of="share of",
        at_most=floor,
        source="ours",
    )
    starts = heads[heads.step == 0].merge(best[["run", "layer", "head"]], on=["run", "layer", "head"])
    change = best.set_index("run").distance - starts.set_index("run").distance
    yield judge(
        "distance_falls",
        "The copying heads' CMR distance falls in training (paper: so it does in Pythia; the number is the median).",
        change,
        "change of the CMR distance",
        section=CMR,
        rows=best,
        below=0,
        number="median",
        source="ours",
    )


def words_of(values: Series) -> str:
    """Their range."""
    return f"{values.min():g} to {values.max():g}"


def answer_claims(answered: DataFrame, silenced: DataFrame) -> Iterator[Claim]:
    """Contiguity of answers, when it comes, and what it needs."""
    ends = last(answered)
    yield judge(
        "answers_are_contiguous",
        "After a token of the list, answers go to what followed it there: CRP at lag +1 over the mean at lags 2 to 5 "
        "on either side (1: recall is even).",
        ends.contiguity,
        "contiguity",
        section=EMERGENCE,
        rows=ends,
        above=CONTIGUOUS,
        source="ours",
    )
    yield judge(
        "answers_lean_forward",
        "They go forward rather than back: CRP at +1 minus that at −1.",
        ends.asymmetry,
        "asymmetry",
        section=EMERGENCE,
        rows=ends,
        above=0,
        source="ours",
    )
    together = {run: part.forward.rank().corr(part.contiguity.rank()) for run, part in answered.groupby("run")}
    yield judge(
        "contiguity_comes_with_induction",
        "Over training contiguity comes with attention to what followed the token: rank correlation over checkpoints.",
        Series(together, dtype=float),
        "rank correlation",
        section=EMERGENCE,
        rows=answered,
        above=TOGETHER,
        of="median",
        source="ours",
    )
    yield from silenced_claims(ends, silenced)
    starts = answered[answered.step == 0]
    yield judge(
        "untrained_is_flat",
        "Before training recall is even (control).",
        starts.contiguity,
        "contiguity",
        section="control",
        rows=starts,
        within=between(0.8, 1.25),
        source="ours",
    )


def silenced_claims(ends: DataFrame, silenced: DataFrame) -> Iterator[Claim]:
    """What is left of contiguity without the copying head, and without another head of its layer."""
    whole = ends.set_index("run").contiguity - 1
    gone = silenced[silenced.copies.astype(bool)].set_index("run").contiguity - 1
    other = silenced[~silenced.copies.astype(bool)].groupby("run").contiguity.mean() - 1
    left, kept = (gone / whole).dropna(), (other / whole).dropna()
    spared = pandas.Series([f"{kept.min():.2f} to {kept.max():.2f}" if len(kept) else "unknown"]).iloc[0]
    yield judge(
        "contiguity_needs_the_head",
        "Without the copying head contiguity is gone (paper: without induction heads it is); without another head of "
        f"its layer {spared} of it is left. The number is the share of contiguity − 1 that is left.",
        left,
        "share left without the copying head",
        section=EMERGENCE,
        rows=silenced,
        number="median",
        below=0.5,
        also=[bound("share left without another head", kept, of="median", above=0.5)],
        source="ours",
    )

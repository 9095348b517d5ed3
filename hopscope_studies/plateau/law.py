"""The claims of the experiment `plateau`: the threshold, what happens on either side of it, the law and its theory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.judging import Claim, Evidence, around, bound
from hopscope.experiments.values import power_law
from hopscope_studies.plateau.conditions import BEYOND, SENTENCES
from hopscope_studies.plateau.course import endings, hop_times, times
from hopscope_studies.plateau.theory.fit import STRIDE, Seen, fitted
from hopscope_studies.plateau.theory.two_factor import Places, TwoFactor

WEAK, STRONG = 1.0, 2.0  # weak starts are at most the former, strong ones at least the latter; 1.5 lies between
FIT = (1.0, 4.0)  # the starts that the theory is fitted to
GUESSING, PLATEAU = 1.0, 0.75  # losses of predicting 0, and of a guess that follows no chain (N = 4)


def is_central(config: Config) -> bool:
    """Whether a run is of the kind that the theory is fitted to: D = 3, deepest first, one head, no MLP."""
    task = config.task.as_dict()
    return bool(
        (task["n_hops"], task["order"]) == (3, "deepest_first") and config.model.n_heads == 1 and not config.model.mlp
    )


def central(table: DataFrame) -> DataFrame:
    """The rows of such runs."""
    return table[(table.D == 3) & (table.order == "deepest_first") & (table.heads == 1) & ~table.mlp.astype(bool)]


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims of one scale, on cells with D = 3, deepest first and one head."""
    small = table[(table.D == 3) & (table.order == "deepest_first") & (table.heads == 1)]
    yield from threshold_claims(small)
    yield from factor_claims(endings(small) if len(small) else small.assign(joined_start=[]))
    yield the_law(small)
    yield from theory_claims(central(table), table)


def told(
    rows: DataFrame, id: str, *measured: Any, among: DataFrame, section: str = BEYOND, said: Any = (), **how: Any
) -> Claim:
    """One of `SENTENCES`, which may say numbers, as a claim about some rows."""
    sentence = SENTENCES["plateau"][id].format(weak=WEAK, strong=STRONG, fit=FIT, **dict(said))
    return Evidence(rows, section, among=among).claim(id, sentence, *measured, **how)


def threshold_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about which starts learn."""
    weak, strong = table[table.start <= WEAK], table[table.start >= STRONG]
    early, late = (hop_times(rows, "x1").map(math.isfinite) for rows in (weak, strong))
    share: dict[str, Any] = {"of": "share of", "among": table}
    yield told(weak, "weak_starts_wait", early, "runs that learn x1", at_most=0, **share)
    yield told(strong, "strong_starts_learn", late, "runs that learn x1", at_least=1, **share)
    first, last = hop_times(table, "x1"), times(table)
    begun = first[first < math.inf].index
    rows, every = table[table.run.isin(begun)], last[begun].map(math.isfinite)
    yield told(rows, "later_hops_follow", every, "runs that learn every hop", at_least=0.9, **share)


def factor_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims about how the two factors change."""
    first = ends[ends.hop == "x1"]
    waits, learns = first[first.learnt.isna()], first[first.learnt.notna()]
    begun = waits[waits.start > 0]
    left, gained = (rows["joined"] / rows.joined_start for rows in (begun, learns))
    what = "share of the join's attention that is left"
    yield told(begun, "the_join_is_unlearnt", left, what, below=0.8, among=first)
    what, look_up = "look-up attention at the end", waits.look_up
    yield told(waits, "the_look_up_goes_too", look_up, what, below=0.25, among=first)
    what = "join's attention at the end over that at the start"
    yield told(learns, "what_learns_keeps_its_join", gained, what, above=1, among=first)


def the_law(table: DataFrame) -> Claim:
    """Claims about learning time by the initial join, for runs that learn, with and without MLPs."""
    first = endings(table[table.hop == "x1"]) if len(table) else table.assign(joined_start=[])
    learns = first[first.learnt.notna()]
    exponents = [power_law(part.joined_start, part.learnt)[1] for _, part in learns.groupby(["mlp", "seed"])]
    how: dict[str, Any] = {"n": learns.seed.nunique(), "of": "median", "within": around(-1, 0.3), "among": first}
    return told(learns, "time_goes_as_one_over_the_join", exponents, "exponent of that attention", **how)


# Theory ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Theory:
    """The two-factor model fitted to two starts, and the same without cost and wear.

    Attributes:
        model: the model with all four rates.
        free: the model with growth alone.
        delay: steps until runs without a prior are halfway to the plateau.
        seen: the measurements by start.
        steps: the number of steps in training.
    """

    model: TwoFactor
    free: TwoFactor
    delay: float
    seen: dict[float, Seen]
    steps: int

    def predicted(self, start: float) -> float:
        """The predicted step at which x1 is learnt from this start."""
        return float(self.model.learning_time(start, self.steps, STRIDE))


def theory_of(table: DataFrame) -> Theory | None:
    """The theory of the central cells; None if runs without a prior or from the fitted starts are missing."""
    first = table[table.hop == "x1"]
    seen = {float(start): seen_of(first[first.start == start]) for start in first.start.unique()}
    if not {0.0, *FIT} <= seen.keys():
        return None
    delay = halfway(first[first.start == 0])
    places, steps = Places.of(4, 3, "deepest_first"), int(first.steps.max())
    chosen = {start: seen[start] for start in FIT}
    model = fitted(chosen, places, 3, delay, steps)
    free = fitted({FIT[1]: seen[FIT[1]]}, places, 3, delay, steps, cost=False)
    return Theory(model, free, delay, seen, steps)


def seen_of(part: DataFrame) -> Seen:
    """The measurements of runs with one start; joins for as long as most of these runs last."""
    joins = part.groupby("step").joined.agg(["mean", "count"])
    joins = joins[joins["count"] * 2 > part.run.nunique()]
    return Seen(
        dict(zip(joins.index.tolist(), joins["mean"].tolist(), strict=True)), float(numpy.median(hop_times(part, "x1")))
    )


def halfway(table: DataFrame) -> float:
    """The step at which runs without a prior are halfway from predicting 0 to the plateau."""
    losses = table.groupby("step").hop_loss.median()
    below = losses.index[losses < (GUESSING + PLATEAU) / 2]
    return float(below[0]) if len(below) else 0.0


def theory_claims(table: DataFrame, among: DataFrame) -> Iterator[Claim]:
    """Claims about the theory's predictions for starts to which it was not fitted."""
    theory = theory_of(table) if len(table) else None
    edge = theory.model.threshold(theory.steps, stride=STRIDE) if theory else math.nan
    share = hop_times(table, "x1").map(math.isfinite)
    share = share.groupby(table.drop_duplicates("run").set_index("run").start).mean() if len(table) else share
    never, always = share.index[share == 0].max(), share.index[share == 1].min()
    what, ends = "predicted threshold", {"never": never, "always": always}
    also = [bound(what, edge, above=never), bound(what, edge, below=always)]
    about: dict[str, Any] = {"among": among, "section": "beyond"}
    yield told(table, "the_model_predicts_the_threshold", [edge], what, also=also, said=ends, **about)
    learnt = {start: seen.learnt for start, seen in theory.seen.items()} if theory else {}
    held = [start for start, step in learnt.items() if start not in FIT and math.isfinite(step)]
    ratios = [theory.predicted(start) / learnt[start] for start in held] if theory else []
    named = ", ".join(f"b = {start:g}: {ratio:.2f}" for start, ratio in zip(held, ratios, strict=True)) or "none"
    rows, factors = table[table.start.isin(held)], [max(ratio, 1 / ratio) for ratio in ratios]
    about["said"], what = {"ratios": named}, "factor between prediction and median"
    yield told(rows, "the_model_predicts_the_times", factors, what, at_most=2, **about)
    free = float(theory.free.learning_time(FIT[0], theory.steps, STRIDE)) if theory else math.nan
    also = [
        bound("predicted step", free, below=theory.steps if theory else math.nan),
        bound(f"share of runs with b = {FIT[0]:g} that learn x1", float(share.get(FIT[0], math.nan)), at_most=0),
    ]
    rows, what = table[table.start == FIT[0]], "predicted step"
    yield told(rows, "growth_alone_has_no_threshold", [free], what, also=also, **about)

"""The claims of `noisy_bigram`, about statements of the paper and of Bietti's talk, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy
from pandas import DataFrame, Index, Series

from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Bound, Claim, Evidence, between, bound
from hopscope.experiments.values import lags, power_law
from hopscope_studies.noisy_bigram.official import TALK, mean, official_claims, told


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on samples, on the paper's setting, on ours (`even_…`, where tokens are equally likely), and on language.

    Claims without a finished run are not judged (scale `long`).
    """
    table = table.reindex(columns=table.columns.union(Index(COLUMNS), sort=False))
    if (table.kind == "samples").any():
        yield from sample_claims(table[table.kind == "samples"])
    yield from official_claims(table)
    yield from training_claims(table[table.kind == "curve"])
    yield from removal_claims(table[table.kind == "truncation"])
    language = table[table.kind == "language"]
    if len(language):
        yield from language_claims(language)


#: Columns that claims read; runs that have them may not be finished yet.
COLUMNS = (
    *("run", "seed", "step", "alpha", "trains", "state", "layers", "matrix", "share"),
    *("correct", "noise", "top", "margin", "margin_early", "margin_late", "attended", "attended_noise"),
)

RECALLED = 0.9  # of what is to be recalled (ours)
#: The powers of N between which a number of samples counts as O(1), or as O(N).
BOUNDS = {"feed_forward": (-0.25, 0.25), "attention": (0.75, 1.25)}


def needed(rows: DataFrame, column: str, level: float = RECALLED) -> dict[int, float]:
    """For each size of vocabulary the number of samples at which a rising share first reaches a level; NaN: never."""
    means, found = rows.groupby(["n_tokens", "samples"])[column].mean().reset_index(), {}
    for n_tokens in sorted(means.n_tokens.unique()):
        part = means[means.n_tokens == n_tokens]
        steps = numpy.log2(part.samples.to_numpy(float)).tolist()
        found[int(n_tokens)] = 2 ** crossing(steps, (-part[column]).tolist(), -level + 1e-12)
    return found


def slope(needs: dict[int, float]) -> float:
    """The power of N with which the number of samples grows, fitted to the logarithms; NaN if one number is unknown."""
    return power_law(list(needs), list(needs.values()))[1] if all(map(math.isfinite, needs.values())) else math.nan


def sample_claims(rows: DataFrame) -> Iterator[Claim]:
    """Claims about how many samples a first gradient step needs, by size of the vocabulary, at one context length."""
    for layer, id in (
        ("feed_forward", "feed_forward_needs_few_samples"),
        ("attention", "attention_needs_samples_as_tokens"),
    ):
        powers = {seed: slope(needed(part, f"{layer}_noise")) for seed, part in rows.groupby("seed")}
        known = Series(powers, dtype=float).rename_axis("seed").dropna()
        sure = bound("the number of seeds of which it is not known", len(powers) - len(known), equals=0)
        within = between(*BOUNDS[layer])
        yield told(rows, id, known, rows.length.iloc[0], n=len(known), within=within, provided=sure)


def training_claims(rows: DataFrame) -> Iterator[Claim]:
    """Claims about what is learnt by the end of training, and in which order."""
    ends = rows[rows.step == rows.groupby("run").step.transform("max")]
    ends = ends[ends.trains != "all"]
    yield mean(ends, "even_noise_as_often_as_it_comes", (ends.noise - ends.alpha).abs(), below=0.1)
    moments = []
    for _, curve in rows[rows.trains != "all"].groupby("run"):
        alpha, steps = float(curve.alpha.iloc[0]), curve.step.tolist()
        noise = crossing(steps, (-curve.noise).tolist(), -alpha / 2)
        moments.append((noise, crossing(steps, (-curve.correct).tolist(), -(1 - alpha) / 2)))
    leads = lags(moments)  # a run that learns recall and never the noise contradicts the claim
    yield mean(rows, "even_noise_before_recall", leads, n=len(leads), above=0)


def chosen(rows: DataFrame, layers: str, share: float, trains: tuple[str, ...], state: str = "trained") -> DataFrame:
    """Truncation rows, one per run, sorted by run."""
    found = rows[(rows.layers == layers) & (rows.share == share) & rows.trains.isin(trains) & (rows.state == state)]
    return found.sort_values("run").set_index("run", drop=False)


def removal_claims(rows: DataFrame) -> Iterator[Claim]:
    """Claims about the effects of removing feed-forward weights, and about controls."""
    theirs = ("last", "both")
    whole, without = chosen(rows, "none", 1.0, theirs), chosen(rows, "late", 0.0, theirs)
    learnt = whole.index[whole.correct > (1 - whole.alpha) / 2]
    whole, without = whole.loc[learnt], without.loc[learnt]
    yield from late_claims(whole, without, rows)
    yield low_rank_claim(rows, learnt)
    early = chosen(rows, "early", 0.0, ("both",))
    yield mean(early, "even_early_layer_is_no_substitute", early.margin, among=rows, at_most=0)
    # Before training all models of a seed are one.
    start, bare = (chosen(rows, part, share, theirs[1:], "untrained") for part, share in (("none", 1.0), ("late", 0.0)))
    yield mean(bare, "untrained_stays_untrained", (bare.correct - start.correct).abs(), below=0.05)
    free, kept = chosen(rows, "none", 1.0, ("all",)), chosen(rows, "late", 0.0, ("all",))
    yield told(
        kept,
        "everywhere_if_all_is_trained",
        kept.noise,
        also=[bound("ratio of p(noise) to what it was", kept.noise / free.noise, above=0.5)],
    )


def low_rank_claim(rows: DataFrame, learnt: Any) -> Claim:
    """The claim that a low rank has the effect of rank 0."""
    late = rows[(rows.layers == "late") & (rows.state == "trained") & rows.run.isin(learnt)]
    low = late[(late.share > 0) & (late.share <= 0.2)]
    best = low.sort_values("margin").groupby("run").tail(1)
    return mean(best, "even_truncation_turns_to_the_context", best.margin, among=rows, above=0)


def late_claims(whole: DataFrame, without: DataFrame, rows: DataFrame) -> Iterator[Claim]:
    """Claims that predictions move from global to in-context, and how far."""
    yield mean(
        without,
        "even_removal_turns_to_the_context",
        without.margin,
        whole.noise.mean(),
        without.noise.mean(),
        among=rows,
        above=0,
        also=[bound("ratio of its p(noise) to what it was", without.noise / whole.noise, below=0.5)],
    )
    yield mean(without, "even_removal_makes_recall_certain", without.correct, among=rows, above=0.9)


LANGUAGE = ("smollm2_turns_to_spain", "smollm2_late_layers_only")


def language_claims(rows: DataFrame) -> Iterator[Claim]:
    """Claims about SmolLM2's answers to "Madrid is located in", and to nine other cities."""
    if "skipped" in rows and rows.skipped.notna().any():
        words, there = f"Not asked: {rows.skipped.dropna().iloc[0]}.", Bound("the model is installed", False)
        yield from (Evidence(rows, TALK, source="").claim(id, words, [], provided=there) for id in LANGUAGE)
        return
    odds = numpy.log(rows.correct / rows.noise)
    rows = rows.assign(odds=odds, late=rows["first"] >= 2 * (int(rows["first"].max()) + 1) / 3)
    one = rows[(rows["first"] >= 0) & ~rows.layers.str.contains("-")]
    madrid = one[one.prompt == "Madrid"]
    late_ones = madrid[madrid.late].sort_values("odds")
    best = late_ones.iloc[-1]  # chosen on Madrid, judged on the other cities
    others = one[(one.layers == best.layers) & (one.share == best.share) & (one.prompt != "Madrid")]
    yield told(
        others,
        "smollm2_turns_to_spain",
        others.odds,
        len(others),
        (others.odds > 0).sum(),
        among=madrid,
        n=len(others),
        of="median",
        above=0,
    )
    first = madrid[~madrid.late]
    yield told(madrid, "smollm2_late_layers_only", first.odds, n=len(first), at_most=0)

"""The claims of `composition`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy
from pandas import DataFrame, Series

from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Claim, Evidence, bound

FAILS, SUCCEEDS = 0.5, 0.2  # errors out of distribution (ours)
TOGETHER = 0.1  # share of training within which two things count as simultaneous (ours)
#: Curves that the error out of distribution is compared with: claim, what it is, in words, the paper's section.
MEASURES = (
    ("shift_rises_as_the_error_falls", "shift", "attention of layer 0 at its best fixed offset"),
    ("induction_rises_as_the_error_falls", "induction", "attention of layer 1 at its best lag"),
    ("match_rises_as_the_error_falls", "diagonal", "the diagonal score of W_QK W_OV"),
)


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims, in the order of the paper: depth, changes in training, the bridge, pools; then the control."""
    curves = table[table.kind == "curve"]
    ends = curves[curves.step == curves.groupby("run").step.transform("max")]
    yield from depth_claims(ends)
    yield from movement_claims(curves[(curves.layers == 2) & (curves.pool == 0)])
    yield from bridge_claims(learnt(ends), table[table.kind == "projection"])
    yield from pool_claims(ends)
    starts = curves[(curves.step == 0) & (curves.pool == 0)]
    yield Evidence(starts, "control").claim(
        "untrained_knows_nothing",
        "Control: before training, models copy no better out of distribution than by guessing.",
        starts.ood_error,
        "error out of distribution",
        above=0.9,
    )


def learnt(ends: DataFrame) -> DataFrame:
    """The two-layer models that copy out of distribution; only these can have a bridge."""
    return ends[(ends.layers == 2) & (ends.pool == 0) & (ends.ood_error < SUCCEEDS)]


def depth_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims about one layer against two."""
    one, two = (ends[(ends.layers == layers) & (ends.pool == 0)] for layers in (1, 2))
    yield Evidence(one, "section 3").claim(
        "one_layer_fails_elsewhere",
        "One layer of attention does not learn to copy segments longer than in training and of other tokens (paper: "
        "its error stays near that of guessing).",
        one.ood_error,
        "final error out of distribution",
        above=FAILS,
    )
    yield Evidence(two, "section 3").claim(
        "two_layers_succeed_elsewhere",
        "Two layers of attention learn to copy segments longer than in training and of other tokens (paper: the error "
        "falls to nearly 0).",
        two.ood_error,
        "final error out of distribution",
        below=SUCCEEDS,
    )


def halfway(curve: DataFrame, name: str) -> float:
    """The share of training after which a measure is halfway from its first value to its last; NaN if it never is."""
    curve = curve.sort_values("step")
    values = curve[name].to_numpy(float)
    middle = (values[0] + values[-1]) / 2
    sign = 1 if values[0] > values[-1] else -1
    return crossing(curve.step.tolist(), (sign * values).tolist(), sign * middle) / float(curve.step.max())


def gaps(curves: DataFrame, name: str) -> Series:
    """By run, the halfway point of a measure minus that of the out-of-distribution error, as shares of training."""
    found = {}
    for run, curve in curves.groupby("run"):
        if curve.sort_values("step").ood_error.iloc[-1] < SUCCEEDS:
            found[run] = halfway(curve, name) - halfway(curve, "ood_error")
    return Series(found, dtype=float)


def movement_claims(curves: DataFrame) -> Iterator[Claim]:
    """Claims about measures that change while the error falls."""
    for id, name, words in MEASURES:
        difference = gaps(curves, name)
        yield Evidence(curves[curves.run.isin(difference.index)], "section 3", among=curves).claim(
            id,
            f"In runs that learn to copy, {words} rises while the error out of distribution falls: both are halfway at "
            f"the same time, to within {TOGETHER:.0%} of training (paper: simultaneous).",
            difference.abs(),
            "distance in shares of training",
            at_most=TOGETHER,
            of="median",
        )


def bridge_claims(ends: DataFrame, projected: DataFrame) -> Iterator[Claim]:
    """Claims that the two heads share a subspace, and that it matters."""
    yield Evidence(ends, "sections 3 and 4", among=projected).claim(
        "weights_match",
        "The product of layer 1's W_QK and layer 0's W_OV is large on its diagonal: it has a higher diagonal score "
        "than with the directions of W_OV shuffled.",
        ends.diagonal - ends.shuffled,
        "score above the highest shuffled one",
        above=0,
    )
    yield Evidence(ends, "sections 3 and 4", among=projected).claim(
        "subspaces_match",
        "The subspace that layer 1's W_QK reads at keys overlaps with the subspace that layer 0's W_OV writes: the "
        "cosines of their principal angles exceed those of random subspaces by more than 0.1.",
        ends.match - ends.random_match,
        "cosine above that of random subspaces",
        above=0.1,
    )
    rows = projected[projected.run.isin(ends.run)]
    rank = sorted(rows["rank"].unique())[-2] if rows["rank"].nunique() > 1 else math.nan
    rows = rows[rows["rank"] == rank]
    for id, name, sentence, sign in (
        (
            "bridge_is_needed",
            "without",
            "Projecting the shared directions out of layer 0's output breaks copying",
            1,
        ),
        ("bridge_is_enough", "only", "Keeping only the shared directions of layer 0's output spares copying", -1),
    ):
        part = rows[rows.projection == name]
        yield Evidence(part, "sections 3 and 4", among=projected).claim(
            id,
            f"{sentence}; doing the same with as many random directions does not ({rank:g} directions that the heads "
            "of both layers share).",
            sign * (part.shared_error - part.random_error),
            "difference of the errors",
            above=0.2,
        )


def pool_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims that models memorise pools below a critical size."""
    pools = ends[ends.pool > 0]
    small, large = (pools[pools.pool == size] for size in (pools.pool.min(), pools.pool.max()))
    yield Evidence(small, "code, run.sh").claim(
        "small_pools_are_memorised",
        f"Trained on {pools.pool.min()} different segments, models memorise these and do not copy others.",
        small.ood_error,
        "final error out of distribution",
        above=FAILS,
        also=[bound("final error in distribution", small.id_error, below=SUCCEEDS)],
    )
    yield Evidence(large, "code, run.sh").claim(
        "large_pools_are_not",
        f"Trained on {pools.pool.max()} different segments, models also copy out of distribution with a low error.",
        large.ood_error,
        "final error out of distribution",
        below=SUCCEEDS,
    )
    critical = critical_pools(pools)
    yield Evidence(pools, "code, run.sh").claim(
        "critical_pool",
        "There is a critical number of different training segments at which the error out of distribution falls below "
        "one half (paper: between 740 and 750 segments).",
        critical,
        "critical pool",
        n=len(critical),
        number="geometric mean",
        above=float(pools.pool.min()),
        also=[bound("critical pool", critical, below=float(pools.pool.max()))],
    )


def critical_pools(pools: DataFrame) -> list[float]:
    """By seed, the pool size at which the out-of-distribution error falls below one half; ∞ if it never does."""
    found = []
    for _, part in pools.groupby("seed"):
        part = part.sort_values("pool")
        at = crossing(numpy.log2(part.pool).tolist(), part.ood_error.tolist(), FAILS)
        found.append(math.inf if math.isnan(at) else 2**at)
    return found

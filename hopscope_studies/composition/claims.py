"""The claims of `composition`, judged from the table alone."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy
from pandas import DataFrame, Series

from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Claim, Evidence, bound, telling

FAILS, SUCCEEDS = 0.5, 0.2  # errors out of distribution (ours)
TOGETHER = 0.1  # share of training within which two things count as simultaneous (ours)
ERROR, FINAL = "error out of distribution", "final error out of distribution"
RUN = "code, run.sh"
#: Curves that the error out of distribution is compared with, by claim.
MEASURES = {
    "shift_rises_as_the_error_falls": "shift",
    "induction_rises_as_the_error_falls": "induction",
    "match_rises_as_the_error_falls": "diagonal",
}
#: What is claimed, by experiment and id; some sentences say which rank or which pool.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text(encoding="utf-8"))
told = telling(SENTENCES["composition"])


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims, in the order of the paper: depth, changes in training, the bridge, pools; then the control."""
    curves = table[table.kind == "curve"]
    ends = curves[curves.step == curves.groupby("run").step.transform("max")]
    yield from depth_claims(ends)
    yield from movement_claims(curves[(curves.layers == 2) & (curves.pool == 0)])
    yield from bridge_claims(learnt(ends), table[table.kind == "projection"])
    yield from pool_claims(ends)
    starts = curves[(curves.step == 0) & (curves.pool == 0)]
    yield told(Evidence(starts, "control"), "untrained_knows_nothing", starts.ood_error, ERROR, above=0.9)


def learnt(ends: DataFrame) -> DataFrame:
    """The two-layer models that copy out of distribution; only these can have a bridge."""
    return ends[(ends.layers == 2) & (ends.pool == 0) & (ends.ood_error < SUCCEEDS)]


def depth_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims about one layer against two."""
    one, two = (ends[(ends.layers == layers) & (ends.pool == 0)] for layers in (1, 2))
    yield told(Evidence(one, "section 3"), "one_layer_fails_elsewhere", one.ood_error, FINAL, above=FAILS)
    yield told(Evidence(two, "section 3"), "two_layers_succeed_elsewhere", two.ood_error, FINAL, below=SUCCEEDS)


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
    return Series(found, dtype=float).rename_axis("run")


def movement_claims(curves: DataFrame) -> Iterator[Claim]:
    """Claims about measures that change while the error falls."""
    for id, name in MEASURES.items():
        difference = gaps(curves, name)
        evidence = Evidence(curves[curves.run.isin(difference.index)], "section 3", among=curves)
        apart = "distance in shares of training"
        yield told(evidence, id, difference.abs(), apart, said={"together": TOGETHER}, at_most=TOGETHER, of="median")


def bridge_claims(ends: DataFrame, projected: DataFrame) -> Iterator[Claim]:
    """Claims that the two heads share a subspace, and that it matters."""
    section = "sections 3 and 4"
    claim = partial(told, Evidence(ends, section, among=projected))
    yield claim("weights_match", ends.diagonal - ends.shuffled, "score above the highest shuffled one", above=0)
    beyond = ends.match - ends.random_match
    yield claim("subspaces_match", beyond, "cosine above that of random subspaces", above=0.1)
    rows = projected[projected.run.isin(ends.run)]
    rank = sorted(rows["rank"].unique())[-2] if rows["rank"].nunique() > 1 else math.nan
    rows = rows[rows["rank"] == rank]
    for id, name, sign in (("bridge_is_needed", "without", 1), ("bridge_is_enough", "only", -1)):
        part = rows[rows.projection == name]
        claim = partial(told, Evidence(part, section, among=projected), said={"rank": rank})
        yield claim(id, sign * (part.shared_error - part.random_error), "difference of the errors", above=0.2)


def pool_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims that models memorise pools below a critical size."""
    pools = ends[ends.pool > 0]
    small, large = (pools[pools.pool == size] for size in (pools.pool.min(), pools.pool.max()))
    known = [bound("final error in distribution", small.id_error, below=SUCCEEDS)]
    claim = partial(told, Evidence(small, RUN), said={"pool": pools.pool.min()})
    yield claim("small_pools_are_memorised", small.ood_error, FINAL, above=FAILS, also=known)
    claim = partial(told, Evidence(large, RUN), said={"pool": pools.pool.max()})
    yield claim("large_pools_are_not", large.ood_error, FINAL, below=SUCCEEDS)
    found, what = critical_pools(pools), "critical pool"
    claim = partial(told, Evidence(pools, RUN), n=len(found), number="geometric mean")
    also = [bound(what, found, below=float(pools.pool.max()))]
    yield claim("critical_pool", found, what, above=float(pools.pool.min()), also=also)


def critical_pools(pools: DataFrame) -> Series:
    """By seed, the pool size at which the out-of-distribution error falls below one half; ∞ if it never does."""
    found = {}
    for seed, part in pools.groupby("seed"):
        part = part.sort_values("pool")
        at = crossing(numpy.log2(part.pool).tolist(), part.ood_error.tolist(), FAILS)
        found[seed] = math.inf if math.isnan(at) else 2**at
    return Series(found, dtype=float).rename_axis("seed")

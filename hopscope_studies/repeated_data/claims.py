"""The claims of `repeated_data`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy
import pandas
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound

PAPER = "Hernandez et al., abstract"


def claims(table: DataFrame) -> Iterator[Claim]:
    """Held-out loss by repetition, copying, the equivalent model size, and the controls."""
    whole = table[table.width == table.width.max()]
    fresh, mixed = whole[(whole.pool == 0) & ~whole.alone], whole[whole.pool > 0]
    alone, pools = whole[whole.alone], sorted(mixed.pool.unique())
    worst = mixed.groupby("pool").loss.mean().idxmax() if len(mixed) else math.nan
    hurt = by_seed(mixed[mixed.pool == worst])
    few, many = (by_seed(mixed[mixed.pool == pool]) for pool in (pools[-1], pools[0]))
    yield Evidence(hurt, PAPER).claim(
        "middle_repetition_is_worst",
        "Held-out loss is worst at an intermediate number of repetitions: it is above the losses with the most and "
        "with the fewest repetitions (paper: a double descent in repetitions).",
        (hurt.loss - pandas.concat([few.loss, many.loss], axis=1).max(axis=1)).dropna(),
        "nats above the worse of the two ends",
        above=0,
        unanimous=True,
    )
    yield from harm_claims(hurt, by_seed(fresh), by_seed(alone))
    yield size_claim(hurt, table[(table.pool == 0) & ~table.alone])
    yield from control_claims(many, fresh)


def by_seed(rows: DataFrame) -> DataFrame:
    """The rows indexed by seed, which stays a column."""
    return rows.set_index("seed", drop=False)


def harm_claims(hurt: DataFrame, base: DataFrame, alone: DataFrame) -> Iterator[Claim]:
    """The worst pool against no repetition and against the fresh sequences alone, seed by seed."""
    yield Evidence(hurt, PAPER).claim(
        "induction_is_hurt",
        "At the pool with the highest loss, the induction head attends less than in the same seed without repetition "
        "(paper: induction heads are hurt disproportionately).",
        (base.induction - hurt.induction).dropna(),
        "attention lost",
        above=0,
        unanimous=True,
    )
    yield Evidence(hurt, PAPER).claim(
        "repetition_hurts",
        "At the pool with the highest loss, the loss on fresh segments is above that after as many sequences without "
        "repetition.",
        (hurt.loss - base.loss).dropna(),
        "nats above no repetition",
        above=0,
        unanimous=True,
    )
    yield Evidence(hurt, PAPER).claim(
        "worse_than_leaving_it_out",
        "At the pool with the highest loss, the loss is above that of a model that sees the fresh sequences alone, so "
        "repetition does harm.",
        (hurt.loss - alone.loss).dropna(),
        "nats above the fresh sequences alone",
        above=0,
        unanimous=True,
    )


def size_claim(hurt: DataFrame, ladder: DataFrame) -> Claim:
    """The worst pool's losses, expressed as sizes of models without repetition."""
    rungs = ladder.groupby("parameters").loss.median()
    return Evidence(hurt, PAPER).claim(
        "acts_like_a_smaller_model",
        "At the pool with the highest loss, a model does no better than one with three quarters of its parameters does "
        "without repetition (paper: a model of 800M parameters acts like one of 400M).",
        shares_of_size(hurt.loss, rungs),
        "share of the parameters",
        below=0.75,
        of="median",
    )


def shares_of_size(losses: Series, rungs: Series) -> list[float]:
    """The size at which models without repetition have each loss, as a share of the largest; 1 if it is no worse.

    Between two sizes the logarithm of the size is interpolated linearly in the loss. Losses worse than the smallest
    model's get that model's share.
    """
    ordered = rungs.sort_values()  # the best first, because interpolation needs rising losses
    logs = numpy.log(ordered.index.to_numpy(float) / float(rungs.index.max()))
    return numpy.exp(numpy.interp(losses, ordered, logs)).tolist()  # type: ignore[no-any-return]


def control_claims(many: DataFrame, fresh: DataFrame) -> Iterator[Claim]:
    """The conditions under which the other claims mean anything; before training all models of a seed are one."""
    yield Evidence(many, "control").claim(
        "the_pool_is_learnt",
        "Control: the most often repeated segments are known by heart: in their first copy the error rate is lower "
        "than in the first copy of fresh segments.",
        (many.fresh_known_error - many.known_error).dropna(),
        "error rate, fresh minus repeated",
        above=0.1,
    )
    yield Evidence(fresh, "control").claim(
        "without_repetition_copies",
        "Control: without repetition the models copy fresh segments.",
        fresh.error,
        "error on fresh segments",
        of="median",
        below=0.1,
        also=[bound("attention of the induction head", fresh.induction, of="median", above=0.5)],
    )
    yield Evidence(fresh, "control").claim(
        "untrained_guesses",
        "Control: before training no model copies.",
        fresh.untrained_error,
        "error on fresh segments",
        above=0.9,
    )

"""The claims of `repeated_data`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy
import pandas
from pandas import DataFrame, Series

from hopscope.experiments.judging import Bound, Claim, Evidence, bound, more_often

PAPER = "Hernandez et al., abstract"
CLEAR = 0.1  # difference of losses (nats) or of attention beyond which two models of one seed differ (ours)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Held-out loss by repetition, copying, the equivalent model size, and the controls."""
    over_time, table = table, at_the_end(table)
    whole = table[table.width == table.width.max()]
    fresh, mixed = whole[(whole.pool == 0) & ~whole.alone], whole[whole.pool > 0]
    alone, ends = whole[whole.alone], (mixed.pool.max(), mixed.pool.min())
    worst = mixed.groupby("pool").loss.mean().idxmax() if len(mixed) else math.nan
    hurt = by_seed(mixed[mixed.pool == worst])
    few, many = (by_seed(mixed[mixed.pool == pool]) for pool in ends)
    yield by_sign(
        "middle_repetition_is_worst",
        "Held-out loss is worst at an intermediate number of repetitions: it is above the losses with the most and "
        "with the fewest repetitions (paper: a double descent in repetitions).",
        hurt,
        hurt.loss - pandas.concat([few.loss, many.loss], axis=1).max(axis=1),
        "nats above the worse of the two ends",
        Bound("worst pool neither the smallest nor the largest", worst not in ends),
    )
    yield from harm_claims(hurt, by_seed(fresh), by_seed(alone))
    yield size_claim(hurt, table[(table.pool == 0) & ~table.alone])
    yield from control_claims(many, fresh)
    yield time_claim(over_time[(over_time.width == over_time.width.max()) & (over_time.pool > 0)], mixed)


def at_the_end(table: DataFrame) -> DataFrame:
    """The last row of each run."""
    return table[table.step == table.groupby("run").step.transform("max")]


def time_claim(over_time: DataFrame, mixed: DataFrame) -> Claim:
    """Whether models that do not copy in the end had an induction head before: seeds are counted, not models."""
    failed = mixed[mixed.error > 0.5]
    return Evidence(failed, "beyond", among=mixed).claim(
        "the_head_never_forms",
        "With repetition, models that do not copy fresh segments in the end (error above .5) had no induction head "
        "earlier in training, so repetition keeps the head from forming rather than destroying it.",
        over_time[over_time.run.isin(failed.run)].groupby("run").induction.max(),
        "attention of the induction head at any step",
        n=failed.seed.nunique(),
        below=0.5,
    )


def by_sign(id: str, sentence: str, hurt: DataFrame, differences: Series, what: str, *also: Bound) -> Claim:
    """A claim on differences within seeds: most seeds that differ clearly differ so, by a one-sided sign test."""
    wins, losses = int((differences > CLEAR).sum()), int((differences < -CLEAR).sum())
    tested = more_often(f"more seeds above {CLEAR} ({wins}) than below -{CLEAR} ({losses}),", wins, losses)
    return Evidence(hurt, PAPER).claim(id, sentence, differences.dropna(), what, also=[tested, *also])


def by_seed(rows: DataFrame) -> DataFrame:
    """The rows indexed by seed, which stays a column."""
    return rows.set_index("seed", drop=False)


def harm_claims(hurt: DataFrame, base: DataFrame, alone: DataFrame) -> Iterator[Claim]:
    """The worst pool against no repetition and against the fresh sequences alone, seed by seed."""
    yield by_sign(
        "induction_is_hurt",
        "At the pool with the highest loss, the induction head attends less than in the same seed without repetition "
        "(paper: induction heads are hurt disproportionately).",
        hurt,
        base.induction - hurt.induction,
        "attention lost",
    )
    yield by_sign(
        "repetition_hurts",
        "At the pool with the highest loss, the loss on fresh segments is above that after as many sequences without "
        "repetition.",
        hurt,
        hurt.loss - base.loss,
        "nats above no repetition",
    )
    yield by_sign(
        "worse_than_leaving_it_out",
        "At the pool with the highest loss, the loss is above that of a model that sees the fresh sequences alone, so "
        "repetition does harm.",
        hurt,
        hurt.loss - alone.loss,
        "nats above the fresh sequences alone",
    )


def size_claim(hurt: DataFrame, ladder: DataFrame) -> Claim:
    """The worst pool's losses, expressed as sizes of models without repetition."""
    rungs = ladder.groupby("parameters").loss.median()
    return Evidence(hurt, PAPER).claim(
        "acts_like_a_smaller_model",
        "At the pool with the highest loss, the median model does no better than one with three quarters of its "
        "parameters does without repetition (paper: a model of 800M parameters acts like one of 400M).",
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

"""The claims of `repeated_data`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas
from pandas import DataFrame

from hopscope.experiments.judging import Claim, bound, judge

PAPER = "Hernandez et al., abstract"


def claims(table: DataFrame) -> Iterator[Claim]:
    """Held-out loss by repetition, copying, and the controls."""
    fresh, mixed = table[(table.pool == 0) & ~table.half], table[table.pool > 0]
    half, pools = table[table.half], sorted(mixed.pool.unique())
    worst = mixed.groupby("pool").loss.mean().idxmax() if len(mixed) else math.nan
    hurt = mixed[mixed.pool == worst].set_index("seed")
    few, many = (mixed[mixed.pool == pool].set_index("seed") for pool in (pools[-1], pools[0]))
    yield judge(
        "middle_repetition_is_worst",
        "Held-out loss is worst at a number of repetitions in between: it is above that of both the most often and the "
        f"least often repeated data (the worst pool has {worst:g} segments; paper: a double descent in repetitions).",
        (hurt.loss - pandas.concat([few.loss, many.loss], axis=1).max(axis=1)).dropna(),
        "nats above the worse of the two ends",
        section=PAPER,
        rows=hurt.reset_index(),
        above=0,
        source="ours",
    )
    yield from harm_claims(hurt, fresh.set_index("seed"), half.set_index("seed"))
    yield judge(
        "the_pool_is_learnt",
        "The most often repeated segments are known by heart: in their first copy errors are fewer than of fresh ones.",
        (many.fresh_known_error - many.known_error).dropna(),
        "share of errors fewer",
        section="control",
        rows=many.reset_index(),
        above=0.1,
        source="ours",
    )
    yield judge(
        "without_repetition_copies",
        "Without repetition the models copy fresh segments (else nothing could be hurt).",
        fresh.error,
        "error on fresh segments",
        section="control",
        rows=fresh,
        of="median",
        below=0.1,
        also=[bound("attention of the induction head", fresh.induction, of="median", above=0.5)],
        source="ours",
    )


def harm_claims(hurt: DataFrame, base: DataFrame, alone: DataFrame) -> Iterator[Claim]:
    """The worst pool against no repetition, and against the fresh half of the sequences alone; each by seed."""
    yield judge(
        "induction_is_hurt",
        "There the induction head attends less, against the same seed without repetition (paper: copying and induction "
        "heads are hurt disproportionately; here all that is asked is copying, so out of proportion to what cannot be "
        "said).",
        (base.induction - hurt.induction).dropna(),
        "attention lost",
        section=PAPER,
        rows=hurt.reset_index(),
        above=0,
        source="ours",
    )
    yield judge(
        "repetition_hurts",
        "At the worst pool the loss on fresh segments is above that of as many sequences without repetition.",
        (hurt.loss - base.loss).dropna(),
        "nats above no repetition",
        section=PAPER,
        rows=hurt.reset_index(),
        above=0,
        source="ours",
    )
    yield judge(
        "worse_than_leaving_it_out",
        "It is even above that of a model that sees the fresh half of the sequences alone, so repetition does harm "
        "rather than no good (paper: repeating 0.1 % of the data 100 times makes 800M parameters act like 400M).",
        (hurt.loss - alone.loss).dropna(),
        "nats above the fresh half alone",
        section=PAPER,
        rows=hurt.reset_index(),
        above=0,
        source="ours",
    )

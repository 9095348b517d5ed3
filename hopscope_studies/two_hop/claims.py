"""The claims of `two_hop`, from its table."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.curves import first_below
from hopscope.experiments.judging import Claim, Evidence, Limit, bound
from hopscope.tasks.two_hop import TwoHop
from hopscope_studies.two_hop.cells import CONDITIONS

OFFICIAL = TwoHop(n_pairs=10, n_chains=5, fewest=5)
GUESS = OFFICIAL.baselines["any end of a chain"]  # ln 5
LEARNT, SOLVED = 0.5 * GUESS, 0.2
STALLED = 0.9 * GUESS
NEAR, LONG = 0.1, 200  # nats, steps: what counts as a plateau
ABRUPT = 150  # steps in which the loss falls from a guess to 0.3
RIGHT, WRONG = 0.9, 0.5


def claims(table: DataFrame) -> Iterator[Claim]:
    """The paper's observations, and our claims."""
    yield ends_at(
        table,
        "every_hop_and_a_prior_are_enough",
        "prior",
        "Three-layer models learn two hops if they are also asked for the middle of the chain and two heads initially "
        "attend to the previous token.",
        at_most=SOLVED,
    )
    yield ends_at(
        table,
        "the_end_alone_is_not_learnt",
        "end alone",
        "Asked for the chain's end alone, three-layer models of which two heads initially attend to the previous token "
        "do not learn two hops.",
        at_least=STALLED,
    )
    yield ends_at(
        table,
        "without_the_prior_it_is_not_learnt",
        "no prior",
        "Without heads that initially attend to the previous token, three-layer models do not learn two hops, although "
        "every hop is asked.",
        at_least=STALLED,
    )
    yield ends_at(
        table,
        "kv_shift_needs_no_prior",
        "KV shift",
        "Models with KV shifting attention learn two hops without heads that initially attend to the previous token.",
        at_most=SOLVED,
    )
    yield middle_first(table)
    yield abrupt(table)
    yield plateau(table)
    yield told_apart(table)
    yield ends_at(
        table,
        "nothing_below_the_minimum",
        "two layers",
        "Models with two layers of plain attention, one fewer than two hops need in theory, do not learn two hops.",
        at_least=STALLED,
    )
    yield untrained(table)


def curve(table: DataFrame, condition: str, hop: str = "x2") -> DataFrame:
    """The losses of a condition's runs over training."""
    return table[(table.kind == "loss") & (table.condition == condition) & (table.hop == hop)]


def ends_at(table: DataFrame, name: str, condition: str, words: str, **limit: float) -> Claim:
    """A claim on the final losses of a condition."""
    rows = curve(table, condition)
    last = rows.sort_values("step").groupby("run").value.last()
    level: Limit = {**limit}  # type: ignore[typeddict-item]
    return Evidence(rows, "beyond", among=table).claim(
        name,
        words,
        last,
        "final loss of x2 (nats; a guess among ends costs ln 5 = 1.609)",
        **level,
    )


def learnt(rows: DataFrame, below: float = LEARNT) -> Series:
    """The step at which a loss first fell below a bound, by seed; ∞ if never."""
    return first_below(rows.rename(columns={"value": "hop_loss"}), below, "seed").droplevel("hop").fillna(math.inf)


def middle_first(table: DataFrame) -> Claim:
    """Judge whether hops are learnt in the order of the chain."""
    lags, rows = [], table[table.condition.isin(("prior", "KV shift", "distractors"))]
    for condition in ("prior", "KV shift", "distractors"):
        first, second = (learnt(curve(table, condition, hop)) for hop in ("x1", "x2"))
        lags += (second - first)[second < math.inf].tolist()
    return Evidence(rows, "beyond", among=table).claim(
        "the_middle_comes_first",
        f"The middle of a chain is learnt before its end, in every run that learns both ({len(lags)} runs).",
        lags,
        "number of steps from x1 to x2",
        above=0,
        number="median",
    )


def abrupt(table: DataFrame) -> Claim:
    """Judge whether the loss falls abruptly."""
    rows = table[table.condition.isin(("prior", "KV shift"))]
    falls = []
    for condition in ("prior", "KV shift"):
        high, low = (learnt(curve(table, condition), level) for level in (STALLED, 0.3))
        falls += (low - high)[low < math.inf].tolist()
    return Evidence(rows, "3", among=table).claim(
        "it_is_abrupt",
        f"If two hops are learnt, the loss falls abruptly: from 90 % of a guess's loss to 0.3 within {ABRUPT} steps.",
        falls,
        "number of steps from 90 % of a guess's loss to 0.3",
        at_most=ABRUPT,
    )


def plateau(table: DataFrame) -> Claim:
    """Judge whether models asked for the end alone stay at the paper's plateau."""
    names = ("end alone", "KV shift, end alone")
    rows = table[table.condition.isin(names)]
    stays = [longest(run.sort_values("step")) for name in names for _, run in curve(table, name).groupby("run")]
    return Evidence(rows, "3", among=table).claim(
        "plateau_among_ends",
        f"Asked for the end alone, models stay near ln 5, the loss of a guess among the chains' ends, for {LONG} "
        "steps.",
        stays,
        "longest stretch there, in steps",
        at_least=LONG,
    )


def longest(run: DataFrame) -> float:
    """The longest stretch of steps within `NEAR` of a guess among ends."""
    best, began = 0.0, None
    for step, value in zip(run.step, run.value, strict=True):
        if abs(value - GUESS) > NEAR:
            began = None
            continue
        began = step if began is None else began
        best = max(best, float(step - began))
    return best


def told_apart(table: DataFrame) -> Claim:
    """Judge whether a model trained among other chains names the end of the right one."""
    rows = table[(table.kind == "right") & (table.condition == "distractors")]
    return Evidence(rows, "2 and 3", among=table).claim(
        "distractors_are_told_apart",
        "Models trained with distractor chains name the right chain's end, whatever the number of chains.",
        rows.value,
        "share of right answers",
        at_least=RIGHT,
    )


def untrained(table: DataFrame) -> Claim:
    """Judge that before training all tokens are equally likely (control)."""
    rows = table[(table.kind == "loss") & (table.step == 0) & table.condition.isin(list(CONDITIONS))]
    return Evidence(rows, "beyond", among=table).claim(
        "untrained_knows_nothing",
        "Control: before training, models give all tokens about the same probability.",
        rows.value / math.log(OFFICIAL.d_vocab),
        "loss over ln 30",
        at_least=0.9,
        provided=bound("number of conditions", rows.condition.nunique(), at_least=1),
    )

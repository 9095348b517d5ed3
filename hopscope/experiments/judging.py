"""Claims, and the one place where they are judged: number, spread, n, words of the threshold and verdict come together.

A claim is about values, most often one per run. `Evidence` says which rows of a table are behind it and where the
source says it, and its method `claim` judges: `Evidence(rows, "7.2").claim(id, sentence, values, "final loss",
above=0.7, …)`. Its bound is on every value, or on a statistic of them (`of="median"`). Further bounds are `also`; what
must be so before the runs can tell at all is `provided`. Nothing known is no evidence: a bound over no values is
undecided, never met. Values that are no numbers are explained in `hopscope.experiments.values`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from pandas import DataFrame

from hopscope.experiments.priors import COLUMN, NONE, under_prior
from hopscope.experiments.values import STATISTICS, Statistic, Values, known, numbers

Verdict = Literal["holds", "fails", "undecided"]

CERTAIN = 0.05  # probability below which chance is ruled out (ours)


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, our number for it, and whether it holds. Made by `Evidence.claim` alone.

    Attributes:
        id: short name, unique within the experiment.
        section: where the paper says it.
        sentence: what it says, in our words.
        number: our number; NaN if there is none.
        spread: lowest and highest value over the seeds.
        n: how many runs (or samples) the number is made of.
        seeds: which.
        threshold: what the number is compared with, in words.
        verdict: `holds`, `fails`, or `undecided` where the runs cannot tell.
    """

    id: str
    section: str
    sentence: str
    number: float
    spread: tuple[float, float]
    n: int
    seeds: tuple[int, ...]
    threshold: str
    verdict: Verdict


# Bounds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """Where a value may lie, both ends included; `between`, `around` and `factor` make one.

    Attributes:
        low: the lower end.
        high: the upper end.
        words: how it reads after what the value is.
    """

    low: float
    high: float
    words: str

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float) and self.low <= value <= self.high


def between(low: float, high: float) -> Interval:
    """Between two ends."""
    return Interval(low, high, f"in [{low:g}, {high:g}]")


def around(middle: float, by: float) -> Interval:
    """At most so far from a number."""
    return Interval(middle - by, middle + by, f"within {by:g} of {middle:.4g}")


def factor(middle: float, by: float) -> Interval:
    """At most so many times a positive number, or as small a part of it."""
    return Interval(middle / by, middle * by, f"within a factor {by:g} of {middle:.3g}")


class Limit(TypedDict, total=False):
    """What values are held to: one of the first six, on every value unless `of` says on which statistic of them.

    unanimous: all meet it, or none does; where some do it is undecided. An interval, given as its two ends, is then
    undecided where it straddles the limit.
    """

    above: float
    at_least: float
    below: float
    at_most: float
    equals: float
    within: Interval
    of: Statistic
    unanimous: bool


#: Each comparison's sign, the comparison, and what stands before the values' words where it is on every one of them.
COMPARISONS: dict[str, tuple[str, Callable[[float, Any], bool], str]] = {
    "above": (">", operator.gt, "lowest"),
    "at_least": ("≥", operator.ge, "lowest"),
    "below": ("<", operator.lt, "highest"),
    "at_most": ("≤", operator.le, "highest"),
    "equals": ("=", operator.eq, "every"),
    "within": ("", lambda value, interval: value in interval, "every"),
}


@dataclass(frozen=True)
class Bound:
    """Something that must be so for a claim to hold; made by `bound` where it is a comparison of numbers.

    Attributes:
        words: what.
        met: whether it is; None where the values cannot tell.
    """

    words: str
    met: bool | None


def bound(what: str, values: Values, **limit: Unpack[Limit]) -> Bound:
    """Values held to a limit.

    Args:
        what: what each of them is, such as "final loss"; where a single number is given it stands alone.
        values: numbers, or truth values for `of="share of"`.
        limit: see `Limit`.

    Raises:
        TypeError: not exactly one comparison is given.
    """
    name = comparison(limit)
    sign, test, which = COMPARISONS[name]
    level: Any = limit[name]  # type: ignore[literal-required]
    each, of = numbers(values), limit.get("of")
    which = of or (which if isinstance(values, Iterable) else "")
    found = each if of is None else [STATISTICS[of](known(each))] if known(each) else []
    compared = f"{sign} {level:g}" if sign else level.words
    if limit.get("unanimous"):
        words = f"{what} {compared} in all; undecided if in some"
    else:
        words = f"{which} {what} {compared}".strip()
    return Bound(words, agreed([test(value, level) for value in found], limit) if known(found) else None)


def comparison(limit: Limit) -> str:
    """Which of the comparisons a limit has."""
    found = [name for name in limit if name not in ("of", "unanimous")]
    if len(found) != 1 or found[0] not in COMPARISONS:
        raise TypeError(f"a bound needs one of {', '.join(COMPARISONS)}; got {', '.join(found) or 'none'}")
    return found[0]


def agreed(passes: Sequence[bool], limit: Limit) -> bool | None:
    """Whether all pass; of what must be unanimous None if only some do."""
    return None if limit.get("unanimous") and any(passes) and not all(passes) else all(passes)


def significant(what: str, chance: float, contrary: float) -> Bound:
    """A one-sided test: met if chance would hardly do as much, not met if it would hardly do as much the other way.

    Args:
        what: the result, such as "τ > 0".
        chance: probability (0–1) that chance goes as far on the side that is claimed.
        contrary: the same on the other side.
    """
    met = True if chance < CERTAIN else False if contrary < CERTAIN else None
    return Bound(f"{what} with a one-sided permutation probability below {CERTAIN}", met)


def without_prior(rows: DataFrame) -> Bound:
    """For what a prior takes away: such a claim is asked only of runs that had none (column `prior`)."""
    return bound(
        "the number of runs without a prior",
        (rows[rows[COLUMN] == NONE] if COLUMN in rows else rows).run.nunique(),
        above=0,
    )


def sign_test(wins: int, of: int) -> float:
    """The probability that a fair coin shows heads so often, or more, in so many tosses."""
    return sum(math.comb(of, k) for k in range(wins, of + 1)) / 2**of


# Judging ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """Runs of a table, and whose sentences they are held against: `Evidence(rows, "7.2").claim(id, sentence, …)`.

    Attributes:
        rows: of the table, with columns `run` and `seed`: the runs behind a claim. What `prior` they had, if there is
            such a column, is added to its sentence.
        section: where the source says it; `ours` if no paper does.
        source: whose thresholds they are, such as "paper".
        among: rows whose seeds are named where `rows` has none.
    """

    rows: DataFrame
    section: str
    source: str = "ours"
    among: DataFrame | None = None

    def claim(
        self,
        id: str,
        sentence: str,
        values: Values,
        what: str = "",
        *,
        n: int | None = None,
        number: Statistic | float | None = None,
        spread: tuple[float, float] | None = None,
        also: Iterable[Bound] = (),
        provided: Bound | None = None,
        **limit: Unpack[Limit],
    ) -> Claim:
        """A claim, judged: it holds if every bound is met, fails if one is not, and else is undecided.

        Args:
            id: its name.
            sentence: what is claimed.
            values: of which number and spread are made, and which `limit` is on.
            what: what each of them is, in words that can follow "lowest", "highest" or "mean".
            n: how many runs or samples the number is made of; None: the different runs in `rows`.
            number: a statistic of the values, or the number itself; None: the statistic that decides, or
                else their mean.
            spread: None: the lowest and the highest of the values.
            also: bounds on other values.
            provided: without this the claim is undecided.
            limit: what the values are held to; see `Limit`. None: only `also` judges.
        """
        bounds = [*([bound(what, values, **limit)] if limit else []), *also]
        if not bounds and provided is None:
            raise TypeError(f"{id} is held to nothing: give a limit, or bounds")
        there, told = known(numbers(values)), deciding(limit) or "mean" if number is None else number
        value = value_of(there, told)
        some = self.rows if len(self.rows) or self.among is None else self.among
        return Claim(
            id,
            self.section,
            under_prior(sentence, some),
            number=value,
            spread=(min(there, default=value), max(there, default=value)) if spread is None else spread,
            n=max(1, self.rows.run.nunique() if n is None else n),
            seeds=tuple(sorted({int(seed) for seed in some.seed})),
            threshold=words_of(bounds, provided, self.source) + words_of_number(values, told, what, limit),
            verdict=settled(bounds, provided),
        )


def judge(
    *said: Any, section: str, rows: DataFrame, among: DataFrame | None = None, source: str = "", **limit: Any
) -> Claim:
    """`Evidence.claim` in one call, as studies wrote it before there was `Evidence`."""
    return Evidence(rows, section, source, among).claim(*said, **limit)


def settled(bounds: Sequence[Bound], provided: Bound | None) -> Verdict:
    """What all bounds together say."""
    found = [one.met for one in bounds]
    if (provided is not None and not provided.met) or not found:
        return "undecided"
    return "fails" if False in found else "undecided" if None in found else "holds"


def deciding(limit: Limit) -> Statistic | None:
    """The statistic of the values that decides: where every one is bound on one side, that which is nearest to it."""
    if "above" in limit or "at_least" in limit:
        return limit.get("of", "lowest")
    return limit.get("of", "highest" if "below" in limit or "at_most" in limit else None)


def value_of(there: Sequence[float], told: Statistic | float) -> float:
    """The number that is told of the values that are known; NaN of none."""
    if not isinstance(told, str):
        return float(told)
    return float(STATISTICS[told](there)) if there else math.nan


def words_of(bounds: Sequence[Bound], provided: Bound | None, source: str) -> str:
    """The threshold: all bounds, whose they are, and what is asked first."""
    words = ", and ".join(one.words for one in bounds) or "not judged"
    words += f" ({source})" if source else ""
    return words + (f"; asked only if {provided.words}" if provided is not None else "")


def words_of_number(values: Values, told: Statistic | float, what: str, limit: Limit) -> str:
    """Which statistic is told, where it is another than the one that decides."""
    if not isinstance(told, str) or told == deciding(limit) or not what or not isinstance(values, Iterable):
        return ""
    return f"; the number is the {told}" + ("" if limit else f" {what}")

"""Claims, and the one place where they are judged: number, spread, n, the threshold in words, and verdict.

A claim is about values, most often one per run. `Evidence` holds the rows of a table behind it and its section in the
source. The method `claim` judges: `Evidence(rows, "7.2").claim(id, sentence, values, "final loss", above=0.7, …)`. The
bound is on every value, or on a statistic of them (`of="median"`). Further bounds are given as `also`; a condition
without which the runs cannot decide is `provided`. A bound over no values is undecided, never met.
`hopscope.experiments.values` explains NaN and infinite values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from pandas import DataFrame

from hopscope.core.intervals import sign_test
from hopscope.experiments.priors import COLUMN, NONE, under_prior
from hopscope.experiments.values import STATISTICS, Statistic, Values, interval_over_seeds, known, numbers

Verdict = Literal["holds", "fails", "undecided"]

CERTAIN = 0.05  # one-sided probability below which chance is ruled out (our choice)


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, our number for it, and whether it holds. Only `Evidence.claim` makes one.

    Attributes:
        id: short name, unique within the experiment.
        section: where the paper says it.
        sentence: what it says, in our words.
        number: our number; NaN if there is none.
        spread: lowest and highest value over the seeds.
        interval: 95 % interval of the values' mean over seeds; None unless there is one value for each of three or
            more seeds.
        n: how many runs (or samples) the number is computed from.
        seeds: their seeds.
        threshold: what the number is compared with, in words.
        verdict: `holds`, `fails`, or `undecided` if the runs cannot tell.
    """

    id: str
    section: str
    sentence: str
    number: float
    spread: tuple[float, float]
    interval: tuple[float, float] | None
    n: int
    seeds: tuple[int, ...]
    threshold: str
    verdict: Verdict


# Bounds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A closed range of values; `between`, `around` and `factor` make one.

    Attributes:
        low: the lower end.
        high: the upper end.
        words: the range in words, to follow what the values are.
    """

    low: float
    high: float
    words: str

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float) and self.low <= value <= self.high


def between(low: float, high: float) -> Interval:
    """Values from `low` to `high`."""
    return Interval(low, high, f"in [{low:g}, {high:g}]")


def around(middle: float, by: float) -> Interval:
    """Values at most `by` from `middle`."""
    return Interval(middle - by, middle + by, f"within {by:g} of {middle:.4g}")


def factor(middle: float, by: float) -> Interval:
    """Values between a positive number divided by `by` and multiplied by it."""
    return Interval(middle / by, middle * by, f"within a factor {by:g} of {middle:.3g}")


class Limit(TypedDict, total=False):
    """Keywords of a bound: one of the first six, on every value, or on the statistic that `of` names.

    unanimous: met if all values meet it, not met if none does, else undecided. An interval given as its two ends is
    then undecided if it straddles the limit.
    """

    above: float
    at_least: float
    below: float
    at_most: float
    equals: float
    within: Interval
    of: Statistic
    unanimous: bool


#: Each comparison's sign, the comparison, and the words before the values' name if every value is compared.
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
    """A condition for a claim to hold; comparisons of numbers are made by `bound`.

    Attributes:
        words: the condition.
        met: whether it is met; None if the values cannot tell.
    """

    words: str
    met: bool | None


def bound(what: str, values: Values, **limit: Unpack[Limit]) -> Bound:
    """A bound on values.

    Args:
        what: what each value is, such as "final loss"; a single number is named by this alone.
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
    tested = each if of is None else [STATISTICS[of](known(each))] if known(each) else []
    compared = f"{sign} {level:g}" if sign else level.words
    if limit.get("unanimous"):
        words = f"{what} {compared} in all; undecided if in some"
    else:
        words = f"{which} {what} {compared}".strip()
    return Bound(words, agreed([test(value, level) for value in tested], limit) if known(tested) else None)


def comparison(limit: Limit) -> str:
    """The name of a limit's comparison. Raises TypeError unless there is exactly one."""
    given = [name for name in limit if name not in ("of", "unanimous")]
    if len(given) != 1 or given[0] not in COMPARISONS:
        raise TypeError(f"a bound needs one of {', '.join(COMPARISONS)}; got {', '.join(given) or 'none'}")
    return given[0]


def agreed(passes: Sequence[bool], limit: Limit) -> bool | None:
    """Whether all pass; None if only some do and the limit must be unanimous."""
    return None if limit.get("unanimous") and any(passes) and not all(passes) else all(passes)


def significant(what: str, chance: float, contrary: float) -> Bound:
    """A one-sided test: met if the result is unlikely by chance, not met if the opposite result is.

    Args:
        what: the result, such as "τ > 0".
        chance: probability (0–1) of a result at least as extreme by chance, on the claimed side.
        contrary: the same on the opposite side.
    """
    met = True if chance < CERTAIN else False if contrary < CERTAIN else None
    return Bound(f"{what} with a one-sided permutation probability below {CERTAIN}", met)


def more_often(what: str, wins: int, losses: int) -> Bound:
    """A one-sided sign test of wins against losses: met if so many wins are unlikely by chance; see `significant`."""
    return significant(what, *(sign_test(side, wins + losses) for side in (wins, losses)))


def without_prior(rows: DataFrame) -> Bound:
    """For a claim that a prior makes meaningless: met if some runs had none (column `prior`)."""
    return bound(
        "the number of runs without a prior",
        (rows[rows[COLUMN] == NONE] if COLUMN in rows else rows).run.nunique(),
        above=0,
    )


# Judging ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """The runs behind claims, and the source of the claims: `Evidence(rows, "7.2").claim(id, sentence, …)`.

    Attributes:
        rows: rows of the table, with columns `run` and `seed`: the runs behind a claim. If there is a column `prior`,
            the runs' prior is added to the sentence.
        section: where the source says it; `ours` if no paper does.
        source: whose thresholds they are, such as "paper".
        among: rows whose seeds are named if `rows` is empty.
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
        """Judge a claim: it holds if every bound is met, fails if one is not met, and else is undecided.

        Args:
            id: its name.
            sentence: what is claimed.
            values: number and spread are computed from them, and `limit` applies to them.
            what: what each value is, in words that can follow "lowest", "highest" or "mean".
            n: how many runs or samples the number is computed from, 0 for none; None: the number of runs in `rows`.
            number: a statistic of the values, or the number itself; None: the statistic that decides, or else their
                mean.
            spread: None: lowest and highest of the values.
            also: bounds on other values.
            provided: the claim is undecided unless this is met.
            limit: the bound on the values; see `Limit`. None: only `also` decides.
        """
        some = self.rows if len(self.rows) or self.among is None else self.among
        interval = interval_over_seeds(values, some)
        values = numbers(values) if isinstance(values, Iterable) else values  # an iterator is read once
        bounds = [*([bound(what, values, **limit)] if limit else []), *also]
        if not bounds and provided is None:
            raise TypeError(f"{id} is held to nothing: give a limit, or bounds")
        if n is not None and n != len(known(numbers(values))):
            interval = None  # these values are not what is counted
        there, statistic = known(numbers(values)), deciding(limit) or "mean" if number is None else number
        value = value_of(there, statistic)
        return Claim(
            id,
            self.section,
            under_prior(sentence, some),
            number=value,
            spread=(min(there, default=value), max(there, default=value)) if spread is None else spread,
            interval=interval,
            n=self.rows.run.nunique() if n is None else int(n),  # of a count in numpy, too, which is no JSON
            seeds=tuple(sorted({int(seed) for seed in some.seed})),
            threshold=words_of(bounds, provided, self.source) + words_of_number(values, statistic, what, limit),
            verdict=settled(bounds, provided),
        )


def telling(sentences: Mapping[str, str]) -> Callable[..., Claim]:
    """`Evidence.claim` for a study whose sentences are in a table.

    Args:
        sentences: what is claimed, by id; what is in braces is filled in for each claim.

    Returns:
        A function of the evidence, the id, and the further arguments of `Evidence.claim`. Its own arguments are `said`,
        what fills the braces of the sentence, and `sentence`, its id if several claims share it. It raises KeyError for
        an id without a sentence, and for braces that nothing fills.
    """

    def told(
        evidence: Evidence, id: str, *measured: Any, said: Mapping[str, Any] = {}, sentence: str = "", **how: Any
    ) -> Claim:
        return evidence.claim(id, sentences[sentence or id].format(**said), *measured, **how)

    return told


def judge(
    *said: Any, section: str, rows: DataFrame, among: DataFrame | None = None, source: str = "", **limit: Any
) -> Claim:
    """`Evidence.claim` in one call: the older form, kept for studies that use it."""
    return Evidence(rows, section, source, among).claim(*said, **limit)


def settled(bounds: Sequence[Bound], provided: Bound | None) -> Verdict:
    """The verdict of all bounds together."""
    results = [bound.met for bound in bounds]
    if (provided is not None and not provided.met) or not results:
        return "undecided"
    return "fails" if False in results else "undecided" if None in results else "holds"


def deciding(limit: Limit) -> Statistic | None:
    """The statistic of the values that decides: for a one-sided bound on every value, the one nearest to it."""
    if "above" in limit or "at_least" in limit:
        return limit.get("of", "lowest")
    return limit.get("of", "highest" if "below" in limit or "at_most" in limit else None)


def value_of(there: Sequence[float], statistic: Statistic | float) -> float:
    """The number of a claim, from the known values; NaN if there are none."""
    if not isinstance(statistic, str):
        return float(statistic)
    return float(STATISTICS[statistic](there)) if there else math.nan


def words_of(bounds: Sequence[Bound], provided: Bound | None, source: str) -> str:
    """The threshold in words: all bounds, their source, and the condition for judging."""
    words = ", and ".join(one.words for one in bounds) or "not judged"
    words += f" ({source})" if source else ""
    return words + (f"; asked only if {provided.words}" if provided is not None else "")


def words_of_number(values: Values, statistic: Statistic | float, what: str, limit: Limit) -> str:
    """The name of the number's statistic, if it is not the one that decides."""
    if not isinstance(statistic, str) or statistic == deciding(limit) or not what or not isinstance(values, Iterable):
        return ""
    return f"; the number is the {statistic}" + ("" if limit else f" {what}")

"""The claims of `two_hop_llm`, from its table."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.core.intervals import wilson
from hopscope.experiments.judging import Bound, Claim, Evidence, bound
from hopscope_studies.two_hop.language.templates import CHAINS

SOURCE = "arXiv:2502.13913, abstract"
AMONG = tuple(n for n in CHAINS if n > 1)  # chains among which one can guess
MOST = max(CHAINS)
OFTEN = 0.5


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims on one hop and two among distractors, and the controls."""
    language, untrained = table[table.part == "language"], table[table.part == "untrained"]
    yield one_hop(language)
    yield guessed(
        language,
        "two_hops_are_a_guess_among_ends",
        "Asked for two hops among two, three or four chains, SmolLM2 is right as often as a guess among the chains' "
        "ends.",
        SOURCE,
    )
    yield worse(language)
    yield ends(language)
    yield alone(language)
    yield guessed(
        untrained,
        "untrained_guesses",
        "Control: asked for two hops, the untrained model is right as often as a guess among the chains' ends.",
        "beyond",
    )


def one_hop(language: DataFrame) -> Claim:
    """Judge whether the model does one hop at all."""
    rows = at(language, 1, MOST)
    lows = [interval(part, "right")[0] for _, part in rows.groupby("template", sort=False)]
    return Evidence(rows, "beyond", source="a guess").claim(
        "one_hop_is_found",
        f"Asked for one hop among {MOST} chains, SmolLM2 is right more often than a guess, in every prompt template.",
        lows,
        "lower end of the 95 % interval of a template's share of right answers",
        n=int(rows.asked.sum()),
        above=1 / MOST,
    )


def guessed(part: DataFrame, name: str, sentence: str, section: str) -> Claim:
    """A claim that the interval of right answers contains a guess's share, for every number of chains."""
    rows = part[(part.hops == 2) & part.chains.isin(AMONG)]
    bounds: list[Bound] = []
    distances = []
    for n in AMONG:
        some = at(part, 2, n)
        low, high = interval(some, "right")
        bounds.append(bound(f"guess among {n} less the interval's lower end", [1 / n - low], at_least=0))
        bounds.append(bound(f"interval's upper end less a guess among {n}", [high - 1 / n], at_least=0))
        distances.append(share(some, "right") - 1 / n)
    return Evidence(rows, section, source="95 % intervals; ours").claim(
        name,
        sentence,
        distances,
        "share of right answers less a guess's",
        n=int(rows.asked.sum()),
        number="mean",
        also=bounds,
    )


def worse(language: DataFrame) -> Claim:
    """Judge whether two hops are harder than one in the same texts."""
    one, two = (at(language, hops, MOST).groupby("seed")[["right", "asked"]].sum() for hops in (1, 2))
    return Evidence(language, "beyond").claim(
        "two_hops_are_harder",
        f"On the same texts of {MOST} chains, SmolLM2 answers one hop rightly more often than two, in every seed.",
        one.right / one.asked - two.right / two.asked,
        "share of right answers to one hop less that to two",
        n=int(two.asked.sum()),
        above=0,
    )


def ends(language: DataFrame) -> Claim:
    """Judge whether ends are likelier than middles."""
    rows = at(language, 2, MOST)
    return mostly_an_end(
        rows,
        "ends_rather_than_middles",
        f"Asked for two hops among {MOST} chains, SmolLM2 gives the end of some chain a higher probability than every "
        "chain's middle in most texts.",
    )


def alone(language: DataFrame) -> Claim:
    """Judge whether the model names the end of a chain without distractors."""
    rows = at(language, 2, 1)
    return mostly_an_end(
        rows,
        "a_chain_alone_is_followed",
        "Asked for two hops of the only chain, SmolLM2 gives the chain's end a higher probability than its middle in "
        "most texts.",
    )


def mostly_an_end(rows: DataFrame, name: str, sentence: str) -> Claim:
    """A claim that an end is the likeliest name in more than half of the texts, by the interval."""
    low, high = interval(rows, "ends")
    return Evidence(rows, SOURCE).claim(
        name,
        sentence,
        share(rows, "ends"),
        "share of texts",
        n=int(rows.asked.sum()),
        spread=(low, high),
        also=[bound("lower end of its 95 % interval", [low], above=OFTEN)],
    )


def at(part: DataFrame, hops: int, chains: int) -> DataFrame:
    """The rows for a number of hops among a number of chains."""
    return part[(part.hops == hops) & (part.chains == chains)]


def share(rows: DataFrame, of: str) -> float:
    """The share of texts in a column of counts."""
    return float(rows[of].sum() / rows.asked.sum())


def interval(rows: DataFrame, of: str) -> tuple[float, float]:
    """The 95 % interval (Wilson) of the share of texts in a column."""
    return wilson(float(rows[of].sum()), int(rows.asked.sum()))

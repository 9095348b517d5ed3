"""Five ways to pose the same problem: every curriculum on the retrieval problem (Musat, section 7; card 5).

The paper compares its implicit curriculum, all hops asked at once, with none. Others ask the last hop alone, too, but
pose easier sequences beside the hard ones (`mixture`) or before them (`staged`, `layerwise`). The demo's recipe, D = 2,
nearest facts first; with so few hops `layerwise` has the stages of `staged` and would train the same weights, so it is
left to the paper scale, where D = 4.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.settings import by_setting
from hopscope.experiments.base import SOLVED, Claim, endings_of, verdict
from hopscope.experiments.variants import seeds_of, variants
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 170, "paper": 40_000}
CURRICULA = ("implicit", "mixture", "staged", "layerwise", "none")
CLAIMS = ("none_fails", *(f"{name}_solves" for name in CURRICULA[:-1]), "implicit_is_fastest")


def runs(scale: str) -> Iterator[Config]:
    """Each curriculum, over seeds; those of the implicit one are runs of `fig7`."""
    longer = {"n_hops": 4} if scale == "paper" else {}
    for name in CURRICULA if scale == "paper" else [name for name in CURRICULA if name != "layerwise"]:
        yield from variants(scale, task={"curriculum": name, **longer}, training={"steps": 8000} if longer else None)


def table(runs: list[Run]) -> DataFrame:
    """A row per run and hop asked, as `endings_of` makes it; only the implicit curriculum asks all."""
    return endings_of(runs, curriculum=lambda config: config.task.as_dict()["curriculum"])


def figure(table: DataFrame) -> Figure:
    """How the last hop ended, and when it was learnt, by curriculum."""
    return by_setting(
        last_hops(table), "curriculum", "curriculum", Retrieval().baselines["right step, no chain followed"]
    )


def last_hops(table: DataFrame) -> DataFrame:
    """The hop that every curriculum asks."""
    return table[table.k == table.k.max()]


def claims(table: DataFrame) -> Iterator[Claim]:
    """None learns nothing; which others do; and which is soonest."""
    rows = last_hops(table)
    alone = rows[rows.curriculum == "none"]
    yield Claim(
        "none_fails",
        "7.2",
        "Without curriculum the last hop's loss stays above 0.7.",
        number=alone.loss.min(),
        spread=(alone.loss.min(), alone.loss.max()),
        n=len(alone),
        seeds=seeds_of(alone),
        threshold="lowest final loss > 0.7 (paper)",
        verdict=verdict(bool((alone.loss > 0.7).all())),
    )
    yield from (solves(rows[rows.curriculum == name], name) for name in CURRICULA[:-1] if name in set(rows.curriculum))
    yield fastest(rows)


def solves(rows: DataFrame, name: str) -> Claim:
    """Whether one curriculum gets there in most runs."""
    share = float((rows.loss < SOLVED).mean())
    return Claim(
        f"{name}_solves",
        "7.2" if name == "implicit" else "beyond (card 5 says it of k-fold composition)",
        f"With the curriculum {name} the last hop is solved in as many steps, in most runs "
        f"({(rows.loss < SOLVED).sum()} of {len(rows)}; the number is the median final loss).",
        number=rows.loss.median(),
        spread=(rows.loss.min(), rows.loss.max()),
        n=len(rows),
        seeds=seeds_of(rows),
        threshold=f"share of runs with a final loss below {SOLVED} > 0.5 (ours)",
        verdict=verdict(share > 0.5),
    )


def fastest(rows: DataFrame) -> Claim:
    """Asking all at once against taking turns; a run that never learns counts as all its steps, a lower bound."""
    never = rows.learnt.isna().groupby(rows.curriculum).sum().to_dict()
    median = rows.assign(learnt=rows.learnt.fillna(rows.steps)).groupby("curriculum").learnt.median()
    others = median.drop(["implicit", "none"])
    many = rows.groupby("curriculum").size().to_dict()
    words = ", ".join(
        f"{name} {'at least ' if 2 * never[name] >= many[name] else ''}{step:.0f} ({never[name]} of {many[name]} never)"
        for name, step in median.items()
    )
    ratio = float(others.min() / median["implicit"])
    return Claim(
        "implicit_is_fastest",
        "beyond",
        f"Asking every hop at once teaches the last in fewer steps than any other curriculum does (median: {words}).",
        number=ratio,
        spread=(ratio, float(others.max() / median["implicit"])),
        n=len(rows),
        seeds=seeds_of(rows),
        threshold="steps of the fastest other one over those of the implicit one, or a lower bound, > 1 (ours)",
        verdict=verdict(ratio > 1) if 2 * never["implicit"] < many["implicit"] else "undecided",
    )

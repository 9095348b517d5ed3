"""Five ways to pose the same problem: every curriculum on the retrieval problem (Musat, section 7; arXiv:2505.23683).

The paper compares its implicit curriculum, which asks all hops at once, with none. Other curricula ask the last hop
alone but add easier sequences to the hard ones (`mixture`) or put them first (`staged`, `layerwise`). The recipe is the
packaged run's, D = 2, nearest facts first. With so few hops `layerwise` has the same stages as `staged`, so it is only
run at the paper scale, where D = 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.settings import by_setting
from hopscope.experiments.curves import SOLVED, endings_of
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.variants import variants
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.one_setting import NO_CHAIN, columns
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 300, "paper": 40_000}
SEEDS = {"quick": 1, "cpu": 5, "paper": 8}
CURRICULA = ("implicit", "mixture", "staged", "layerwise", "none")
told = telling("curricula")


def runs(scale: str) -> Iterator[Config]:
    """Each curriculum, over seeds; those of the implicit one are `packaged_seeds`."""
    longer = {"n_hops": 4} if scale == "paper" else {}
    for name in CURRICULA if scale == "paper" else [name for name in CURRICULA if name != "layerwise"]:
        training = {"steps": 8000} if longer else None
        yield from variants(scale, task={"curriculum": name, **longer}, training=training, seeds=SEEDS)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop asked, as made by `endings_of`; only the implicit curriculum asks all hops."""
    return endings_of(runs, **columns("curriculum"))


def figure(table: DataFrame) -> Figure:
    """How the last hop ended, and when it was learnt, by curriculum."""
    return by_setting(last_hops(table), "curriculum", "curriculum", NO_CHAIN)


def last_hops(table: DataFrame) -> DataFrame:
    """The rows of the last hop, which every curriculum asks."""
    return table[table.k == table.k.max()]


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether training without a curriculum fails, which curricula succeed, and which is fastest."""
    rows = last_hops(table)
    alone = rows[rows.curriculum == "none"]
    yield told(Evidence(alone, "7.2", source="paper"), "none_fails", alone.loss, "final loss", above=0.7)
    yield from (solves(rows[rows.curriculum == name], name) for name in CURRICULA[:-1] if name in set(rows.curriculum))
    yield fastest(rows)


def solves(rows: DataFrame, name: str) -> Claim:
    """Judge whether most runs with one curriculum solve the last hop."""
    solved = rows.loss < SOLVED
    section = "7.2" if name == "implicit" else "beyond (arXiv:2505.23683 says it of k-fold composition)"
    also = [bound(f"runs with a final loss below {SOLVED}", solved, of="share of", above=0.5)]
    how: dict[str, Any] = {"said": {"name": name, "n": solved.sum(), "all": len(rows)}, "sentence": "solves"}
    return told(Evidence(rows, section), f"{name}_solves", rows.loss, "final loss", number="median", also=also, **how)


def fastest(rows: DataFrame) -> Claim:
    """Compare the implicit curriculum with the others; a run that does not learn counts with all its steps."""
    median = rows.assign(learnt=rows.learnt.fillna(rows.steps)).groupby("curriculum").learnt.median()
    learnt = rows[rows.curriculum == "implicit"].learnt.notna()
    what = "ratio of another's median steps, or of a lower bound of them, to the implicit one's"
    found = median.drop(["implicit", "none"]) / median["implicit"]
    provided = bound("runs that learn with the implicit one", learnt, of="share of", above=0.5)
    return told(Evidence(rows, "beyond"), "implicit_is_fastest", found, what, above=1, provided=provided)

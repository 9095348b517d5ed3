"""Does theorem 1 hold in trained models? Pieces decoded against pieces allowed (Musat, ICLR 2025, section 5).

Theorem 1 rests on two assumptions about attention and is checked in the paper against the depth that training needs.
Here it is checked directly: after each layer every position's residual stream is probed for every piece of its chain,
and compared with what the information-flow model allows there (hopscope.probes.reach; docs/theory.md). The controls are
the same model before training, the same probes asked for a randomly drawn chain, and a hand-built transformer that
breaks the premise.

The models are those of the experiment `curriculum`, with implicit curriculum; at paper scale Transformers A, B and C.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.grid import grids
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.tables import columns_of
from hopscope.probes.breach import breach
from hopscope.probes.reach import probe
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.stacked_heads.experiments import curriculum
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 300, "paper": 15_000}
COMPARES_RUNS = True  # its intervals hold over all models at once

#: Numbers of sequences for fitting probes, for choosing their ridge strength, and for judging them.
SEQUENCES = {"quick": (200, 100, 200), "full": (8000, 2000, 8000)}

#: Which models are probed of every run: its name, whether it is trained, and whether chains are drawn at random.
KINDS = (("trained", True, False), ("untrained", False, False), ("random chain", True, True))
BREACH = "built by hand"

SECTION = "5, theorem 1"
told = telling("thm1")


def runs(scale: str) -> Iterator[Config]:
    """The runs of `curriculum` with implicit curriculum, which both experiments share; at `paper` A, B and C."""
    if scale == "paper":
        yield from (recipe("transformer_abc").config(seed=seed) for seed in range(3))
    else:
        yield from (config for config in curriculum.runs(scale) if config.task.as_dict()["curriculum"] == "implicit")


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row for every model, stream, role and piece, from `hopscope.probes.reach.probe`.

    The intervals hold simultaneously over the whole table.
    """
    sizes = SEQUENCES["quick" if scale == "quick" else "full"]
    by_hand = Retrieval(n_hops=1, order="nearest_first", position_base=100.0)
    cells = [(run.config.model.n_layers + 1) * (2 * run.config.task.as_dict()["n_hops"] + 1) ** 2 for run in runs]
    tests = len(KINDS) * sum(cells) + 2 * 3**2
    parts = []
    for run in runs:
        assert isinstance(run.task, Retrieval)
        about = {
            **columns_of(run),
            "last_hop_learnt": last_hop_learnt(run),
            "hops": run.config.task.as_dict()["n_hops"],
        }
        for kind, is_trained, shuffled in KINDS:
            model = run.model if is_trained else run.at(0)
            found = probe(model, run.task, *sizes, shuffled=shuffled, tests=tests)
            parts += [{**about, "model": kind, **row} for row in found.to_dict("records")]
    about |= {"run": "by hand", "seed": -1, "last_hop_learnt": False, "hops": 1, "model": BREACH}
    parts += [{**about, **row} for row in probe(breach(by_hand), by_hand, *sizes, tests=tests).to_dict("records")]
    return DataFrame(parts).assign(n=sizes[2])


def last_hop_learnt(run: Run) -> bool:
    """Whether the last hop's loss on fresh data is below the threshold of learning."""
    losses = (run.report or {})["hop_losses"]
    return bool(losses[run.task.hop_names[-1]] < run.task.learnt_below)


def figure(table: DataFrame) -> Figure:
    """A panel per layer, and in it a row per model and position; untrained seeds and controls together."""
    told = zip(table["model"], table["seed"], table["role"], strict=True)
    names = [
        f"{model}, seed {seed}: {role}" if model == "trained" else f"{model}: {role}" for model, seed, role in told
    ]
    streams = [f"after layer {layer - 1}" if layer else "input" for layer in table["layer"]]
    placed = table.assign(place=names, stream=streams, control=table["model"] != "trained")
    placed = placed.sort_values(["control", "layer"], kind="stable")
    places, pieces = [*placed["place"].unique()], [*placed["piece"].unique()]

    def grid(part: DataFrame, column: str) -> numpy.ndarray:
        means = part.pivot_table(index="place", columns="piece", values=column)
        return means.reindex(places, columns=pieces).to_numpy()

    layers = {str(stream): part for stream, part in placed.groupby("stream", sort=False)}
    shown = grids(
        {layer: grid(part, "accuracy") for layer, part in layers.items()},
        places,
        pieces,
        "candidate named rightly",
        texts=[[""] * len(pieces)] * len(places),
        title="Which pieces of its chain does a position hold, and which may it?",
        caption="Rows: models and positions. Columns: symbols x and places p of a chain. A dot: the theorem allows it.",
    )
    for ax, part in zip(shown.axes, layers.values(), strict=False):  # the last axes are the scale
        row, column = numpy.nonzero(grid(part, "allowed") > 0)
        ax.plot(column, row, "o", ms=2.5, color="tab:orange")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on theorem 1 cell by cell, then on the controls."""
    trained = table[table["model"] == "trained"]
    beyond = breachable(trained)
    breaches = beyond.groupby("seed")["decoded"].sum()
    what = "number of cells beyond the reach whose accuracy's interval (95 % over all cells) lies above 1/N"
    said = {"n": int(breaches.sum()), "all": len(beyond)}
    yield told(Evidence(trained, SECTION), "nothing_beyond_reach", breaches, what, of="total", equals=0, said=said)
    yield from answers(table)
    yield first_layers(trained)
    yield from controls(table)


def breachable(table: DataFrame) -> DataFrame:
    """The cells in which a decoded piece would contradict the theorem: neither allowed nor reachable by exclusion."""
    return table[~table["allowed"] & ~table["excludable"]]


def answers(table: DataFrame) -> Iterator[Claim]:
    """Judge whether x_D is at the query in the end."""
    ends = table[(table["role"] == "query") & (table["piece"] == "x" + table["hops"].astype(str))]
    ends = ends[ends["layer"] == ends.groupby(["run", "model"])["layer"].transform("max")]
    trained = ends[ends["model"] == "trained"]
    learnt = trained[trained["last_hop_learnt"]]
    before = ends[(ends["model"] == "untrained") & ends["run"].isin(learnt["run"])]
    evidence, said = Evidence(learnt, SECTION, among=trained), {"n": len(learnt), "all": len(trained)}
    also = [
        bound(
            "runs whose accuracy's interval lies above 1/N after training", learnt["decoded"], of="share of", equals=1
        ),
        bound("those before", before["decoded"], of="share of", equals=0),
    ]
    yield told(evidence, "answer_arrives", learnt["accuracy"], "accuracy", number="lowest", also=also, said=said)


def first_layers(trained: DataFrame) -> Claim:
    """Judge in which layer each symbol first appears at the query, against the exact minimum depth."""
    asked = trained[(trained["role"] == "query") & (trained["kind"] == "symbol") & (trained["piece"] != "x0")]
    first = asked[asked["decoded"]].groupby(["run", "piece"])["layer"].min()
    least = asked[asked["allowed"]].groupby(["run", "piece"])["layer"].min()
    early = [key for key in first.index if key not in least.index]
    evidence, what = Evidence(trained, SECTION), "difference in layers to the exact minimum depth (causal, many heads)"
    also = [bound("the number of pieces decoded that no layer may hold", len(early), equals=0)]
    return told(evidence, "no_sooner_than_the_minimum_depth", (first - least).dropna(), what, at_least=0, also=also)


def controls(table: DataFrame) -> Iterator[Claim]:
    """Claims on the controls: probes find a planted breach, and nothing where there is nothing to find."""
    found = table[(table["model"] == BREACH) & (table["role"] == "query") & (table["piece"] == "x1")]
    found, trained = found[found["layer"] == 1], table[table["model"] == "trained"]
    beyond = found["decoded"] & ~found["allowed"] & ~found["excludable"]
    evidence = Evidence(trained, SECTION)
    also = [bound("such cells not allowed, of which the interval lies above 1/N,", beyond, of="share of", equals=1)]
    yield told(
        evidence, "breach_by_hand_is_found", found["accuracy"], n=int(found["n"].min()), number="lowest", also=also
    )
    for kind, id, judged in (
        ("untrained", "untrained_holds_nothing_beyond", breachable(table)),
        ("random chain", "random_chain_is_not_decoded", table),
    ):
        cells = judged[judged["model"] == kind]
        shares, what = cells.groupby("seed")["decoded"].mean(), "share of cells decoded"
        said = {"n": int(cells["decoded"].sum()), "all": len(cells)}
        yield told(evidence, id, shares, what, number=cells["decoded"].mean(), of="highest", equals=0, said=said)

"""Are induction heads episodic memory? The CMR distance of heads, and the lag-CRP of answers over training.

After Ji-An et al. (2024, arXiv:2405.14992; code corxyz/icl-cmr) and Mistry et al. (2025, arXiv:2502.06902; methods are
our reading): small models that learn to continue repeated segments are shown lists twice. Their heads are compared with
a model of human free recall. Their answers are counted by lag, with the induction heads and without them. We read the
code of the first paper and the abstract of the second, so no sections are named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.core.storage import read_json
from hopscope.experiments.tables import columns_of
from hopscope.experiments.work import Finished
from hopscope.interventions.parts import Part, silenced
from hopscope.models.base import Replacements
from hopscope.models.transformer import Transformer
from hopscope.runs.run import Run
from hopscope_studies.episodic_memory.cells import SIMULATED, Simulations, cell
from hopscope_studies.episodic_memory.claims import COPIES, claims as claims
from hopscope_studies.episodic_memory.context_maintenance import LAGS, Memory, in_closed_form, recalled, transitions
from hopscope_studies.episodic_memory.figure import figure as figure
from hopscope_studies.episodic_memory.fit import Fitter
from hopscope_studies.episodic_memory.response import Lists, answers, asymmetry, contiguity, heads_by_lag, lists

#: Heads are compared with the simulations.
COMPARES_RUNS = True
#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 100, "paper": 30_000}

#: Seeds of models of one head a layer, and of four.
SEEDS = {"quick": (1, 1), "cpu": (8, 5), "paper": (8, 5)}
SHOWN = {"quick": 32, "cpu": 256, "paper": 1000}  # lists
RANDOM_CURVES = {"quick": 50, "cpu": 1000, "paper": 10_000}
CHECKED = (0.2, 0.4, 0.6, 0.8)  # β_enc at which the simulation is held to the closed form


def runs(scale: str) -> Iterator[Config | Simulations]:
    """The simulations, and models with one head and with four heads per layer."""
    yield SIMULATED[scale]
    for n_heads, n_seeds in zip((1, 4), SEEDS[scale], strict=True):
        yield from (cell(n_heads, seed, scale) for seed in range(n_seeds))


def table(finished: list[Run | Finished], scale: str) -> DataFrame:
    """Rows with run, version, seed and kind.

    `head`, of the first and the last step: heads (a layer), layer, head, step, lag_-8 … lag_8 (mean attention), the CMR
    distance, the fitted encoding, recall and studied, near and like_recall (`fit.Fit`). `answer`, of every step:
    contiguity, asymmetry and forward, the greatest attention at lag +1. `silenced`, of the last step: the same without
    all copying heads of the last layer, or without one of several. `chance`: shares of random curves that fit a recall
    model. `simulation`: the greatest distance of a simulated CRP from the closed form.
    """
    simulated = next(one for one in finished if isinstance(one, Finished))
    curves = {Memory(*row["memory"]): row["curve"] for row in read_json(simulated.path / "curves.json")}
    fitter, rows = Fitter(curves), []
    for one in finished:
        if isinstance(one, Finished):
            about = {"run": one.work.identity, "version": one.version, "seed": 0}
            rows += [about | row for row in simulation_rows(fitter, scale)]
        else:
            about = columns_of(one) | {"heads": one.config.model.n_heads}
            rows += [about | row for row in model_rows(one, fitter, scale)]
    return DataFrame(rows)


def simulation_rows(fitter: Fitter, scale: str) -> Iterator[dict[str, Any]]:
    """The shares of random curves that fit, and the distance of simulations from the closed form."""
    yield {"kind": "chance", **fitter.chance(RANDOM_CURVES[scale])}
    work = SIMULATED[scale]
    for encoding in CHECKED:
        random = numpy.random.default_rng(1)
        items = recalled(Memory(encoding, 1.0, 0.0), 100, 50 * work.n_runs, 20, random)
        furthest = float(abs(transitions(items) - in_closed_form(encoding)).max())
        yield {"kind": "simulation", "encoding": encoding, "furthest": furthest}


def model_rows(run: Run, fitter: Fitter, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on a model over training."""
    length, random = run.config.task.n_positions // 2, generator(0, "lists")
    d_vocab = run.config.task.d_vocab
    assert d_vocab is not None
    again = lists(SHOWN[scale], length, d_vocab, random, shuffled=False)
    shuffled = lists(SHOWN[scale], length, d_vocab, random)
    for step in run.steps:
        model, curves = opened(run, step, again)
        yield {"kind": "answer", "step": step, "forward": max(c[1] for c in curves.values()), **said(model, shuffled)}
        if step in (run.steps[0], run.steps[-1]):
            yield from head_rows(curves, fitter, step)
    model, curves = opened(run, run.steps[-1], again)
    yield from silenced_rows(model, curves, shuffled, run.steps[-1])


def opened(run: Run, step: int, shown: Lists) -> tuple[Transformer, dict[tuple[int, int], dict[int, float]]]:
    """A model after this many steps, and its heads' lag curves."""
    model = run.at(step)
    assert isinstance(model, Transformer)
    return model, heads_by_lag(model, shown)


def said(model: Transformer, shown: Lists, replace: Replacements | None = None) -> dict[str, float]:
    """Contiguity and asymmetry of a model's answers."""
    curve = answers(model, shown, replace)
    return {"contiguity": contiguity(curve), "asymmetry": asymmetry(curve)}


def head_rows(curves: dict[tuple[int, int], dict[int, float]], fitter: Fitter, step: int) -> Iterator[dict[str, Any]]:
    """Rows on every head's lag curve and its fit."""
    for (layer, head), curve in curves.items():
        values = [curve[lag] for lag in range(-LAGS, LAGS + 1)]
        found = fitter.fit(numpy.nan_to_num(values))
        yield {
            "kind": "head",
            "step": step,
            "layer": layer,
            "head": head,
            **{f"lag_{lag}": value for lag, value in curve.items()},
            "distance": found.distance,
            "encoding": found.memory.encoding,
            "recall": found.memory.recall,
            "studied": found.memory.studied,
            "near": found.near,
            "like_recall": found.like_recall,
        }


def silenced_rows(
    model: Transformer, curves: dict[tuple[int, int], dict[int, float]], shown: Lists, step: int
) -> Iterator[dict[str, Any]]:
    """Rows on answers with all copying heads of the last layer silenced and, if there are several, each alone."""
    last = model.architecture.n_layers - 1
    copying = [head for head in range(model.architecture.n_heads) if curves[last, head][1] > COPIES]
    about = {"kind": "silenced", "step": step, "layer": last}
    if copying:
        without = silenced(Part(last, head) for head in copying)
        yield {**about, "silenced": "all", **said(model, shown, without)}
    for head in copying if len(copying) > 1 else ():
        yield {**about, "silenced": "one", "head": head, **said(model, shown, silenced([Part(last, head)]))}

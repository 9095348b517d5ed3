"""Language models on the five formulations, and on equations of growing depth (Musat, ICLR 2025, figure 2, section 4).

The paper asks large hosted models 500 questions per formulation, directly and again until the answer is acceptable, and
finds them nearly perfect up to D = 5. Here the models are those that run anywhere (135 and 270 million parameters), so
the paper's sentences about large models are left undecided, with our numbers. The claims judge what small models can
do: one hop, not two. Any other model can be asked the same with `hopscope lm evaluate`. Scale `quick` uses models whose
answers are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Unpack

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.core.storage import read_json, write_json
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Bound, Claim, Evidence, Limit, bound
from hopscope.experiments.work import Finished, Stopped, Work
from hopscope.formulations.base import Formulation
from hopscope.language.backends.base import Backend
from hopscope.language.evaluation import Evaluation, evaluate, none_for_nan
from hopscope.language.opening import open_backend
from hopscope.language.protocols.base import Protocol
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 550, "paper": 4000}

FEW = 10  # answers
CHANCE = 0.25  # of equations: one of four values

FORMULATIONS = ("equations", "lives_with", "kingdoms", "functions", "relatives")  # F1 to F5
DEPTHS = range(1, 9)
told = telling("fig2")


@dataclass(frozen=True)
class Asked(Work):
    """One row of the table: a model, a formulation, a layout, a protocol with its settings."""

    label = "asked"

    model: str = setting("smollm2", "which")
    formulation: str = setting("equations", "which")
    n_hops: int = setting(0, "D; 0: the formulation's own")
    layout: str = setting("code", "which")
    protocol: str = setting("log_likelihood", "which")
    count: int = setting(120, "questions")
    max_tries: int = setting(5, "of resampling")
    max_tokens: int = setting(8, "of a generated answer: longer ones are no acceptable answer alone")
    dtype: str = setting("bfloat16", "of a model in this process, which is that of its weights")
    seed: int = setting(0, "of the questions", low=0, since="0.2.0")

    @property
    def questions(self) -> Formulation:
        """The formulation that generates the questions."""
        kind = catalogue.find("formulations", self.formulation)
        made: Formulation = kind(n_hops=self.n_hops) if self.n_hops else kind()
        return made

    @property
    def scoring(self) -> Protocol:
        """The protocol by which the questions are put and scored."""
        chosen: Protocol = catalogue.chosen("language.protocols", self.protocol)
        return chosen.given(max_tries=self.max_tries, max_tokens=self.max_tokens)

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        def watch(done: int, of: int) -> None:
            if done < of and should_stop():
                raise Stopped

        layout = catalogue.find("language.layouts", self.layout)()
        backend, settings = opened(self.model, self.dtype), Evaluation(count=self.count, seed=self.seed)
        result = evaluate(backend, self.questions, layout, self.scoring, settings, folder, watch=watch)
        write_json(folder / "row.json", {name: none_for_nan(value) for name, value in result.row.items()})


@lru_cache(maxsize=1)
def opened(model: str, dtype: str) -> Backend:
    """A model, opened once for all of its consecutive rows."""
    return open_backend(model, dtype=dtype)


def runs(scale: str) -> Iterator[Asked]:
    """All formulations, equations by depth; at paper scale 500 questions in two layouts, and the paper's protocol."""
    if scale == "quick":
        for model in ("known:oracle", "known:last_line"):
            yield from every_formulation(model, "code", 24)
            yield from every_depth(model, "code", 24)
        return
    count = {"cpu": 120, "paper": 500}[scale]
    yield from every_depth("smollm2", "code", count)
    yield from every_formulation("smollm2", "code", count)
    if scale == "paper":
        yield from every_formulation("smollm2", "chat", count)
        for formulation, hops in (("equations", 1), ("equations", 5), ("kingdoms", 5)):
            yield Asked("smollm2", formulation, hops, layout="chat", protocol="resample", count=100)
        for hops in (1, 2, 3, 5):
            yield Asked("gemma3-270m", "equations", hops, count=120)
        yield from every_formulation("gemma3-270m", "code", 120)


def every_formulation(model: str, layout: str, count: int) -> Iterator[Asked]:
    """The paper's five formulations; in layout `code`, equations are left out, because `every_depth` asks them."""
    for formulation in FORMULATIONS:
        if not (formulation == "equations" and layout == "code"):
            yield Asked(model, formulation, layout=layout, count=count)


def every_depth(model: str, layout: str, count: int) -> Iterator[Asked]:
    """Equations with D = 1 to 8."""
    for hops in DEPTHS:
        yield Asked(model, "equations", hops, layout=layout, count=count)


def table(finished: list[Finished], scale: str) -> DataFrame:
    """The rows of `hopscope lm evaluate` (`hopscope.language.evaluation.COLUMNS`), with run and version."""
    rows: list[dict[str, Any]] = []
    for one in finished:
        row = {name: value for name, value in read_json(one.path / "row.json").items() if name != "settings"}
        rows.append({"run": one.work.identity, "version": one.version, **row})
    return DataFrame(rows)


@styled
def figure(table: DataFrame) -> Figure:
    """Left: accuracy by formulation. Right: on equations by depth. Bars are 95 % intervals, dashes guessing."""
    shown = picture(10.0, 4.2)
    left, right = shown.subplots(1, 2, sharey=True, width_ratios=(1.25, 1))
    series = list(dict.fromkeys(zip(table.model, table.layout, table.protocol, strict=True)))
    for index, (model, layout, protocol) in enumerate(series):
        part = table[(table.model == model) & (table.layout == layout) & (table.protocol == protocol)]
        label = f"{model}, {layout}, {protocol.replace('_', ' ')}"
        places = [FORMULATIONS.index(name) + 0.13 * (index - (len(series) - 1) / 2) for name in own(part).formulation]
        draw(left, places, own(part), colour(index), label)
        equations = part[part.formulation == "equations"].sort_values("hops")
        if len(equations) > 2:
            draw(right, [hops + 0.06 * index for hops in equations.hops], equations, colour(index), label, lines=True)
    for place, name in enumerate(FORMULATIONS):
        chance = table[table.formulation == name].chance
        if len(chance):
            left.plot([place - 0.45, place + 0.45], [chance.iloc[0]] * 2, color=GREY, lw=1.0, ls="--", zorder=0)
    right.axhline(0.25, color=GREY, lw=1.0, ls="--", zorder=0)
    left.set_xticks(range(len(FORMULATIONS)), FORMULATIONS)
    left.set(ylim=(0, 1.02), ylabel="accuracy", title="Formulations, at the paper's settings")
    right.set(xlabel="D, hops", title="Equations by depth")
    for ax, words in ((left, "paper, large models: great"), (right, "paper, large models: almost perfect up to D = 5")):
        ax.text(0.02, 0.965, words, transform=ax.transAxes, fontsize=8, color=GREY, va="center")
    handles, labels = left.get_legend_handles_labels()
    shown.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), fontsize=8)
    return shown


def own(part: DataFrame) -> DataFrame:
    """Rows at the paper's settings: equations at D = 5."""
    return part[(part.formulation != "equations") | (part.hops == 5)]


def draw(ax: Axes, places: list[float], rows: DataFrame, tint: str, label: str, lines: bool = False) -> None:
    """Draw points with their intervals, or nothing where n is 0; without lines a label says n where answers are few."""
    known = rows.n.to_numpy() > 0
    if not known.any():
        return
    rows, places = rows[known], [place for place, there in zip(places, known, strict=True) if there]
    # An interval's end can lie inside by the last bit of a float, where all answers are right.
    off = [(rows.accuracy - rows.low).clip(lower=0), (rows.high - rows.accuracy).clip(lower=0)]
    style = "-o" if lines else "o"
    ax.errorbar(places, rows.accuracy, yerr=off, fmt=style, ms=4, lw=1.2, color=tint, capsize=2, label=label)
    for place, n, accuracy in zip(places, rows.n, rows.accuracy, strict=True):
        if n < FEW and not lines:
            ax.annotate(f"n = {n}", (place, accuracy), (4, -12), textcoords="offset points", fontsize=7, color=tint)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on what the paper says of large models, with our numbers, and on what small models can do."""
    scored = table[table.protocol == "log_likelihood"]
    equations = scored[(scored.formulation == "equations") & (scored.layout == "code")]
    yield paper_says("equations_to_depth_5", equations[equations.hops <= 5], table)
    yield paper_says("other_formulations", scored[scored.formulation != "equations"], table)
    one, more = equations[equations.hops == 1], equations[equations.hops > 1]
    yield of_every_row("one_hop_above_chance", one, above=CHANCE)
    yield of_every_row("two_hops_at_chance", more, at_most=CHANCE)
    yield form(table)


def names(table: DataFrame) -> str:
    return ", ".join(dict.fromkeys(table.model))


def paper_says(id: str, rows: DataFrame, table: DataFrame) -> Claim:
    """A claim, always undecided, that repeats the paper's sentence about models that we do not have."""
    provided = Bound("the models are the paper's, which are far larger than ours", False)
    how: dict[str, Any] = {"number": "mean", "provided": provided, "said": {"models": names(table)}}
    return told(Evidence(rows, "4", source="", among=table), id, rows.accuracy, "accuracy", n=int(rows.n.sum()), **how)


def of_every_row(id: str, rows: DataFrame, **limit: Unpack[Limit]) -> Claim:
    """A claim about every row, judged by the lower end of its interval; the number is the mean accuracy."""
    passing = sum(bool(bound("", low, **limit).met) for low in rows.low)
    evidence = Evidence(rows, "beyond (4)", source="guessing; by log-likelihood, layout code")
    also = [bound("lower end of the 95 % interval (Wilson)", rows.low, **limit)]
    said, n = {"n": passing, "all": len(rows)}, int(rows.n.sum())
    return told(evidence, id, rows.accuracy, "accuracy", n=n, number="mean", also=also, said=said)


def form(table: DataFrame) -> Claim:
    """A claim on how often a small model answers in the form that the paper's protocol waits for."""
    rows = table[table.protocol == "resample"]
    evidence, what = Evidence(rows, "beyond (4, A)", among=table), "share of valid tries"
    n = int((rows.n + rows.run_outs).sum() if len(rows) else table.n.sum())
    return told(evidence, "form_of_answers", rows.valid, what, n=n, number="mean", below=0.1)

"""Accuracy of small language models by hops and protocol (Musat, section 4, asked in the ways of Greenblatt, 2026).

Greenblatt (github.com/rgreenblatt/multi_hop, write_up.md) finds that filler tokens, or a repetition of the problem,
improve large models on two and three hops without a chain of thought. Here the five formulations are asked in both ways
and plainly. The answer is always the likeliest of the acceptable ones, so these three protocols differ only in the
text, and each answers every question. Answers after a chain of thought are sampled and judged separately.

Our expectation, written before any of these runs: neither filler tokens nor repetition improve SmolLM2, which does not
do two hops at all; no protocol brings it above guessing at three hops or more; chains of thought do not either. With
the questions of seed 0 the one on three hops failed narrowly, and the one on repetition was undecided. Four more seeds
were then declared at scale `long`. Expected, before they were asked: with all five, neither is a real gain (repetition
undecided, and no protocol above guessing at three hops).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.core.intervals import wilson
from hopscope.core.storage import read_listed
from hopscope.core.strangers import json_of
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence, Limit, bound, more_often
from hopscope.experiments.work import Finished
from hopscope.language.checkpoints import BASE
from hopscope.language.records import NAME
from hopscope_studies.stacked_heads.experiments import fig2
from hopscope_studies.stacked_heads.experiments.fig2 import FORMULATIONS, Asked, draw
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores, at the 310 tokens a second of fig2's runs.
SECONDS = {"quick": 3, "cpu": 640, "long": 6400, "paper": 40000}
CELL_SECONDS = 200

DEPTHS = {"quick": (1, 3), "cpu": (1, 2, 3, 5, 8)}  # at other scales all from 1 to 8
COUNT = {"quick": 4, "cpu": 16, "long": 16, "paper": 120}  # questions
SEEDS = {"long": 5}  # of questions without a chain of thought; at other scales one

FILLED, REPEATED = "filler_tokens(by=log_likelihood, n_numbers=100)", "repeated_problem(by=log_likelihood, n_times=2)"
DIRECT = ("log_likelihood", FILLED, REPEATED)
#: The most hops that are asked with a chain of thought; at five hops of kingdoms all of SmolLM2's 16 were cut off.
THOUGHT_OVER = {"kingdoms": 4}
told = telling("hops_by_protocol")


def runs(scale: str) -> Iterator[Asked]:
    """What SmolLM2 is asked."""
    models = ("known:oracle", "known:last_line") if scale == "quick" else ("smollm2",)
    yield from asked(models, scale, COUNT[scale], SEEDS.get(scale, 1))


def asked(models: Iterable[str], scale: str, count: int, seeds: int = 1) -> Iterator[Asked]:
    """Every formulation with every number of hops that it has wordings for, by every protocol."""
    for model in models:
        for formulation in FORMULATIONS:
            for hops in worded(formulation, DEPTHS.get(scale, tuple(range(1, 9)))):
                for seed, protocol in itertools.product(range(seeds), DIRECT):
                    yield Asked(model, formulation, hops, protocol=protocol, count=count, seed=seed)
                if scale != "cpu" and hops <= THOUGHT_OVER.get(formulation, hops) and model not in BASE:
                    yield Asked(model, formulation, hops, "chat", "chain_of_thought", count, max_tokens=256)


def worded(formulation: str, depths: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of hops that a formulation has wordings for; its own if it has only one."""
    limited = {"kingdoms": tuple(hops for hops in depths if hops <= 5), "functions": (2,), "relatives": (4,)}
    return limited.get(formulation, depths)


def table(finished: list[Finished], scale: str) -> DataFrame:
    """The rows of `fig2`, and in the column `right` the numbers of the questions that were answered rightly (JSON)."""
    return fig2.table(finished, scale).assign(right=[json.dumps(right(one)) for one in finished])


def right(one: Finished) -> list[int]:
    """The indices of the questions that were answered rightly; every protocol here asks once."""
    assert isinstance(one.work, Asked)
    questions, rule = one.work.questions, one.work.scoring.rule
    records = [json_of(line, infinities=True) for line in read_listed(one.path, NAME).splitlines()]
    judged = [rule.judge(questions.question(said["seed"], said["index"]), [said["said"]]) for said in records]
    return sorted(answer.index for answer in judged if answer.correct and not answer.run_out)


@styled
def figure(table: DataFrame) -> Figure:
    """A panel per formulation, a line per model and protocol; the last panel is of chains of thought."""
    shown = picture(10.0, 6.0)
    *panels, apart = shown.subplots(2, 3, sharex=True, sharey=True).flat
    of_direct = table.assign(line=table.model + ", " + table.protocol.str.partition("(")[0].str.replace("_", " "))
    of_direct = of_direct[table.layout == "code"]
    for ax, formulation in zip(panels, FORMULATIONS, strict=True):
        by_hops(ax, of_direct, of_direct[of_direct.formulation == formulation], formulation.replace("_", " "))
    thought = table.assign(line=table.model + ", " + table.formulation)[table.layout == "chat"]
    by_hops(apart, thought, thought, "after a chain of thought")
    apart.set_visible(len(thought) > 0)
    panels[2].tick_params(labelbottom=len(thought) == 0)
    if len(thought):
        apart.legend(fontsize=8)
    panels[0].set(ylim=(-0.02, 1.02), xlim=(0.5, 8.7), xticks=range(1, 9))
    shown.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return shown


def by_hops(ax: Axes, every: DataFrame, rows: DataFrame, title: str) -> None:
    """Draw accuracy by hops with 95 % intervals (Wilson); a line has one colour in all panels, dashes are guesses."""
    for index, line in enumerate(dict.fromkeys(every.line)):
        part = pooled(rows[rows.line == line])
        draw(ax, [hops + 0.08 * index for hops in part.hops], part, colour(index), line, lines=True)
    for chance in rows.chance.unique():
        ax.axhline(chance, color=GREY, lw=1.0, ls="--", zorder=0)
    counts = rows.groupby(["line", "hops"]).n.sum()
    asked = " to ".join(f"{n:.0f}" for n in dict.fromkeys((counts.min(), counts.max()))) if len(rows) else "none"
    ax.set(title=f"{title} (n = {asked})", xlabel="D, hops", ylabel="accuracy")


def pooled(rows: DataFrame) -> DataFrame:
    """Accuracy with its interval by number of hops, over all seeds together."""
    counts = rows.groupby("hops", as_index=False)[["correct", "n"]].sum()
    ends = [wilson(int(correct), int(n)) for correct, n in zip(counts.correct, counts.n, strict=True)]
    low, high = zip(*ends, strict=True) if ends else ((), ())
    return counts.assign(accuracy=counts.correct / counts.n, low=low, high=high)


def claims(table: DataFrame) -> Iterator[Claim]:
    """For each model, claims on what Greenblatt finds in large ones, and on whether any protocol beats guessing."""
    for model in dict.fromkeys(table.model):
        rows = table[table.model == model]
        direct, thought = rows[rows.layout == "code"], rows[rows.layout == "chat"]
        yield lifts(model, direct, "filler_tokens", "With 100 numbers as filler tokens")
        yield lifts(model, direct, "repeated_problem", "With the problem given twice")
        yield guessing(direct[direct.hops >= 3], rows, "three_hops_at_chance", model, at_most=0)
        if model not in BASE:
            yield guessing(thought[thought.hops >= 2], rows, "thoughts_help", model, above=0)


def lifts(model: str, rows: DataFrame, name: str, asked_how: str) -> Claim:
    """Judge whether a protocol improves accuracy at two or more hops, by a sign test on questions that change."""
    plain, other = (rows[rows.protocol.str.startswith(start)] for start in ("log_likelihood", name))
    both = plain[plain.hops >= 2].merge(other, on=["formulation", "hops", "seed"], suffixes=("", "_other"))
    pairs = [(set(json_of(a)), set(json_of(b))) for a, b in zip(both.right, both.right_other, strict=True)]
    won, lost = sum(len(b - a) for a, b in pairs), sum(len(a - b) for a, b in pairs)
    by_depth = both.groupby("hops")[["correct", "correct_other", "n"]].sum()
    gained, also = (by_depth.correct_other - by_depth.correct) / by_depth.n, [more_often("won > lost", won, lost)]
    evidence, what = Evidence(rows, "beyond (Greenblatt, 2026)"), "accuracy gained, by depth"
    how: dict[str, Any] = {"n": int(both.n.sum()), "number": "mean", "also": also}
    said = {"how": asked_how, "model": model, "won": won, "lost": lost}
    return told(evidence, f"{name}_lift_{model}", gained, what, said=said, sentence="lift", **how)


def guessing(rows: DataFrame, among: DataFrame, name: str, model: str, **limit: Unpack[Limit]) -> Claim:
    """Bound the interval of each protocol's accuracy minus that of guessing, over all rows together."""
    pooled = rows.assign(guessed=rows.chance * rows.n).groupby("protocol")[["correct", "n", "guessed"]].sum()
    low = [wilson(int(correct), int(n))[0] for correct, n in zip(pooled.correct, pooled.n, strict=True)]
    above, what = (pooled.correct - pooled.guessed) / pooled.n, "accuracy less guessing, by protocol"
    also = [bound("lower end of the 95 % interval (Wilson) less guessing", low - pooled.guessed / pooled.n, **limit)]
    how: dict[str, Any] = {"n": int(pooled.n.sum()), "number": "highest", "also": also}
    evidence, said = Evidence(rows, "beyond (4)", among=among), {"model": model}
    return told(evidence, f"{name}_{model}", above, what, said=said, sentence=name, **how)

"""Several characters ahead on text: the loss of the next one at equal weights, and generation by several heads.

After Gloeckle et al. (2024, arXiv:2404.19737): sections 2 and 3.1 on quality by model size, section 3.2 on generation.
Small language models of Shakespeare's plays predict one, two or four characters ahead. All have five layers, so a head
more is a layer less in the trunk. Plain models with as few layers up to the next character stand beside them.
"""

from __future__ import annotations

import math
import time
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.core.intervals import interval_of_mean
from hopscope.core.seeds import generator
from hopscope.drawing.curves import name_baselines, run_lines
from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope.experiments.judging import Claim, Evidence, telling
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope_studies.multi_token.generation import continued, first_alone
from hopscope_studies.multi_token.models.multi_token import MultiTokenTransformer
from hopscope_studies.multi_token.tasks.text_ahead import TextAhead
from hopscope_studies.multi_token.text_cells import KINDS, cells

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "paper": 300_000}

PROMPTS = {"quick": 2, "cpu": 32, "paper": 128}  # stretches of held-out text that are continued
GIVEN = 0.25  # share of a prompt in the length of the window
ALIKE = 0.02  # nats within which losses count as equal (ours, as in `text_by_attention`)
#: Kinds with several heads, and the plain kind with as many layers up to the next character.
AS_DEEP = {"two": "one, 4 layers", "four": "one, 2 layers"}
told = telling(tomllib.loads((Path(__file__).parents[1] / "data" / "text_sentences.toml").read_text()))


def runs(scale: str) -> Iterator[Config]:
    """Every kind, seed by seed."""
    return (config for _, config in cells(scale))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, logged step and character ahead, and one on each run's generation.

    Columns: run, version, seed, prior, kind; step, hop (t+1 …), loss (held out, nats), weights, guess; of generation
    characters (written), passes, same (share of characters that the first head alone writes, too), seconds and
    seconds_alone (of the processor, with all heads and with the first head alone).
    """
    named = {config.identity: kind for kind, config in cells(scale)}
    return rows_of(runs, lambda run: measured(run, named[run.config.identity], scale))


def measured(run: Run, kind: str, scale: str) -> Iterator[dict[str, Any]]:
    """The rows of one run."""
    about = {"kind": kind, "weights": run.model.n_parameters, "guess": run.task.chance}
    for row in run.rows:
        yield from (about | {"step": row["step"], "hop": hop, "loss": loss} for hop, loss in row["hop_losses"].items())
    yield {"kind": kind, **generated(run, scale)}


def generated(run: Run, scale: str) -> dict[str, float]:
    """How a model continues stretches of held-out text, with all of its heads and with the first alone."""
    model, task = run.model, run.task
    assert isinstance(model, MultiTokenTransformer) and isinstance(task, TextAhead)
    given = math.ceil(GIVEN * task.length)
    prompts = task.sample(PROMPTS[scale], generator(0, "prompts")).inputs[:, :given].tolist()
    taken, texts = [], []
    for one in (model, first_alone(model, task)):
        continued(one, prompts[0], task.length)  # the first passes of a process are slow
        began = time.process_time()
        texts.append([continued(one, prompt, task.length) for prompt in prompts])
        taken.append(time.process_time() - began)
    written = (task.length - given) * len(prompts)
    pairs = [pair for (a, _), (b, _) in zip(*texts, strict=True) for pair in zip(a[given:], b[given:], strict=True)]
    found = {"characters": written, "passes": sum(passes for _, passes in texts[0])}
    return found | {
        "same": sum(a == b for a, b in pairs) / written,
        "seconds": taken[0],
        "seconds_alone": taken[1],
    }


# Judging ---------------------------------------------------------------------------------------------------------


def last(table: DataFrame, hop: str = "t+1") -> Series:
    """The final held-out loss of a character ahead, by kind and seed."""
    rows = table[table.hop == hop]
    return rows[rows.step == rows.groupby("run").step.transform("max")].set_index(["kind", "seed"]).loss


def above(losses: Series, kind: str, other: str) -> Series:
    """How much more a kind loses than another, by seed."""
    by_kind = losses.unstack("kind").reindex(columns=[kind, other])
    return (by_kind[kind] - by_kind[other]).dropna()


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about losses, generation, and controls. README.md says what we expected; both were committed first."""
    losses, written = last(table), table[table.passes.notna()].set_index("seed")
    for kind, plain in AS_DEEP.items():
        yield interval(f"{kind}_cost_the_next", table, above(losses, kind, "one"), kind, above=0.0)
        yield interval(f"{kind}_do_not_help", table, above(losses, kind, plain), kind, at_least=-ALIKE)
        rows = written[written.kind == kind]
        many, gain = rows.characters / rows.passes, rows.seconds_alone / rows.seconds
        evidence = Evidence(rows.reset_index(), "3.2", among=table)
        least = 1.3 if kind == "two" else 1.6
        yield told(evidence, f"{kind}_write_more_a_pass", many, "characters a pass", at_least=least)
        yield told(evidence, f"{kind}_write_faster", gain, "ratio of times", above=1.0)
    four = table[(table.kind == "four") & table.hop.notna()]
    ends = [last(four, hop) for hop in dict.fromkeys(four.hop)]
    rises = Series([rise for one, more in pairwise(ends) for rise in more - one], dtype=float)
    evidence = Evidence(four, "ours", among=table)
    yield told(evidence, "farther_is_harder", rises, "rise of the loss", n=four.seed.nunique(), above=0.0)
    control = Evidence(written.reset_index(), "control", among=table)
    yield told(control, "same_text", written.same, "share of equal characters", equals=1)
    starts = table[table.step == 0]
    off = (starts.loss - starts.guess).abs()
    yield told(Evidence(starts, "control"), "untrained_text_ahead", off, "difference (nats)", below=0.05)


def interval(id: str, table: DataFrame, values: Series, kind: str, **limit: Any) -> Claim:
    """A claim that both ends of the 95 % interval of a mean difference keep a limit; undecided if only one does."""
    ends, rows = interval_of_mean(values.tolist()), table[table.kind == kind]
    how: dict[str, Any] = {"n": len(values), "number": float(values.mean()), "unanimous": True}
    return told(Evidence(rows, "3.1", among=table), id, ends, "end of the 95 % interval (nats)", **how, **limit)


# The figure ------------------------------------------------------------------------------------------------------


@styled
def figure(table: DataFrame) -> Figure:
    """Losses of the next character; of those ahead; final losses less that of one head; characters a pass, speed."""
    shown = picture(11.0, 7.0)
    course, ahead, ends, speed = shown.subplots(2, 2).flatten().tolist()
    for index, kind in enumerate(KINDS):
        rows = table[(table.kind == kind) & (table.hop == "t+1")]
        run_lines(course, rows, "loss", color=colour(index), label=kind, middle="mean")
    for index, hop in enumerate(dict.fromkeys(table.hop.dropna())):
        rows = table[(table.kind == "four") & (table.hop == hop)]
        run_lines(ahead, rows, "loss", color=colour(index), label=hop, middle="mean")
    guess = {"guess": float(table.guess.max())}
    for ax, title in ((course, "The next character"), (ahead, "Four characters ahead")):
        name_baselines(ax, guess)
        ax.set(xlabel="steps", ylabel="held-out loss (nats)", title=title)
        ax.legend(fontsize=7)
    draw_differences(ends, last(table))
    draw_speeds(speed, table[table.passes.notna()])
    return shown


def draw_differences(ax: Axes, losses: Series) -> None:
    """Draw each kind's final loss less that of one head and five layers: a cross per seed, and the mean's interval."""
    others = list(KINDS)[1:]
    for row, kind in enumerate(others):
        found = above(losses, kind, "one")
        low, high = interval_of_mean(found.tolist()) if len(found) > 1 else (found.mean(), found.mean())
        ax.plot(found, [row + 0.2] * len(found), "x", ms=4, color=colour(row + 1))
        ax.plot([low, high], [row, row], color=colour(row + 1))
        ax.plot(found.mean(), row, "o", color=colour(row + 1))
    ax.axvline(0, color=GREY, lw=0.8, ls="--")
    name_rows(ax, others)
    ax.set(xlabel="loss of the next character less that of one head (nats)", title="After training")


def draw_speeds(ax: Axes, written: DataFrame) -> None:
    """Draw characters a pass, and the ratio of times with the first head alone and with all heads, a mark per seed."""
    several = list(AS_DEEP)
    for row, kind in enumerate(several):
        rows = written[written.kind == kind]
        ax.plot(rows.characters / rows.passes, [row - 0.1] * len(rows), "o", color=colour(0))
        ax.plot(rows.seconds_alone / rows.seconds, [row + 0.1] * len(rows), "x", color=colour(1))
    ax.plot([], [], "o", color=colour(0), label="characters a pass")
    ax.plot([], [], "x", color=colour(1), label="times as fast as the first head alone")
    ax.axvline(1, color=GREY, lw=0.8, ls="--")
    name_rows(ax, several)
    ax.set(title="Generation")
    ax.legend(fontsize=7)

"""Loss over training, and each hop's part of it (Musat, ICLR 2025, figure 6, section 9).

The paper's Transformer D (24 layers, D = 4) stays at a plateau for 450 epochs; then its partial losses fall one after
the other. The runs are those of `fig7`. At the scale for two cores they start with a prior for the previous token, for
which the paper's model waits. At scale `paper` there is no prior, and the nearest facts come first; `fig6_deepest` has
the other order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.emergence.onset import Onset, onset
from hopscope.experiments.curves import LEARNT, SOLVED, crossing, hop_curves_of
from hopscope.experiments.judging import Claim, Evidence, without_prior
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.experiments import fig7
from hopscope_studies.stacked_heads.experiments.fig7 import runs as runs
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores; the runs are those of `fig7`.
SECONDS = {"quick": 6, "cpu": 300, "paper": 60_000}

#: Partial losses between which a hop's fall is timed: the paper's bound for not learnt (section 7.2), and ours. An #:
#: untrained model is worse than a guess, so shares of the whole fall would include the time until it guesses.
HIGH, LOW = 0.7, 0.1
told = telling("fig6")


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, logged step and hop; columns as of `hop_curves_of`, with train_loss."""
    trained = [
        {"run": run.config.identity, "step": row["step"], "train_loss": row["train_loss"]}
        for run in runs
        for row in run.rows
    ]
    return hop_curves_of(runs).merge(DataFrame(trained), on=["run", "step"])


@styled
def figure(table: DataFrame) -> Figure:
    """Left: training and validation loss. Right: validation loss of each hop. Thin: seeds; thick: their median."""
    shown = picture(9.2, 3.6)
    left, right = shown.subplots(1, 2, sharey=True)
    whole = table.drop_duplicates(["run", "step"])
    run_lines(left, whole, "train_loss", color=GREY, label="training", middle="median")
    run_lines(left, whole, "val_loss", color=colour(0), label="validation", middle="median")
    for index, (hop, part) in enumerate(table.groupby("hop")):
        run_lines(right, part, "hop_loss", color=colour(index), label=str(hop), middle="median")
    left.set(ylabel="mean squared error", title="Loss, all hops")
    right.set(title="Validation loss of each hop")
    for ax in (left, right):
        ax.set(xlabel="optimizer steps", ylim=(0, None))
        ax.legend(loc="upper right")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims of section 9.2 on losses; `fig7` judges when paths emerge."""
    ends = table[table.step == table.groupby("run").step.transform("max")].groupby("run")
    evidence = Evidence(table, "9.2", source="")
    yield told(evidence, "solved", ends.val_loss.first(), "final validation loss", below=SOLVED)
    evidence = Evidence(table, "9.2", source="appendix E's bound")
    yield told(evidence, "every_hop_solved", ends.hop_loss.max(), "final loss of the worst hop", below=SOLVED)
    yield falls_abruptly(table)
    yield waits_long(table)
    hops = learnt(table)
    yield fig7.hops_in_order(hops, table)
    yield fig7.last_comes_late(hops, table)


def learnt(table: DataFrame) -> dict[int, dict[str, Onset]]:
    """The onset of each hop, when its loss falls below 0.5, by seed."""
    found: dict[int, dict[str, Onset]] = {}
    for _, rows in table.groupby(["seed", "hop"]):
        seed, hop = int(rows.seed.iloc[0]), str(rows.hop.iloc[0])
        found.setdefault(seed, {})[hop] = onset(rows.step.tolist(), -rows.hop_loss.to_numpy(), -LEARNT)
    return found


def falls_abruptly(table: DataFrame) -> Claim:
    """Judge whether the first hop waits and is then learnt abruptly (observation i)."""
    first = table[table.hop == table.hop.iloc[0]]
    shares = [share for _, run in first.groupby("run") if (share := fall_to_wait(run.step, run.hop_loss)) is not None]
    evidence = Evidence(table, "9.2 (i)", source="ours; the paper's plateau is 450 of 800 epochs")
    what = "ratio of fall to wait"
    return told(evidence, "first_hop_abrupt", shares, what, n=len(shares), below=1, provided=without_prior(first))


def waits_long(table: DataFrame) -> Claim:
    """Judge for how much of training the first hop's loss stays high (observation i)."""
    first = table[table.hop == table.hop.iloc[0]]
    shares = [
        crossing(run.step.tolist(), run.hop_loss.tolist(), HIGH) / run.step.max() for _, run in first.groupby("run")
    ]
    evidence, what = Evidence(table, "9.2 (i)", source="the paper's share is 0.56"), "share of training before"
    found = [math.inf if math.isnan(share) else share for share in shares]
    return told(evidence, "first_hop_waits", found, what, at_least=0.5, provided=without_prior(first))


def fall_to_wait(steps: Series, losses: Series) -> float | None:
    """The steps that a loss takes from 0.7 to 0.1, over the steps before; None if it never falls so low."""
    begin, end = (crossing(steps.tolist(), losses.tolist(), level) for level in (HIGH, LOW))
    return (end - begin) / max(begin, 1.0) if math.isfinite(end) else None

"""Whether a training collapsed: losses that had fallen, and rose back to where nothing is known."""

from __future__ import annotations

from typing import NamedTuple

from hopscope.core.wording import listed
from hopscope.runs.reading import RunReader
from hopscope.tasks.base import Task

#: The share of a baseline from which a loss counts as back at it (ours): guesses scatter by a few percent.
BACK = 0.95


class Collapse(NamedTuple):
    """Where a training fell back, and what to try.

    Attributes:
        step: the first logged step from which on a loss was no longer what it had been.
        hops: whose losses rose.
        baseline: the name of the baseline that they rose to, and its loss.
        advice: what to try.
    """

    step: int
    hops: list[str]
    baseline: tuple[str, float]
    advice: str

    def __str__(self) -> str:
        name, loss = self.baseline
        return (
            f"Training collapsed at step {self.step}: the loss of {listed(self.hops)} rose back to {loss:.3g}, "
            f"which is {name!r}; {self.advice}."
        )


def collapse(run: RunReader) -> Collapse | None:
    """The collapse that a run ended in, as far as it is trained; None where there is none.

    A hop collapsed if its last loss is at a baseline from which it had fallen: below `learnt_below` for a guess among
    the right symbols, halfway to the next baseline for worse ones. A spike that passes is no collapse.
    """
    found: dict[str, tuple[int, tuple[str, float]]] = {}
    for hop in run.task.hop_names:
        curve = [(row["step"], loss) for row in run.rows if (loss := row["hop_losses"].get(hop)) is not None]
        if curve and (level := reached(curve[-1][1], run.task)):
            name, loss, below = level
            if better := [place for place, (_, value) in enumerate(curve) if value < below]:
                found[hop] = curve[better[-1] + 1][0], (name, loss)
    if not found:
        return None
    step, baseline = min(found.values(), key=lambda each: each[0])
    training = run.config.training
    gentler = f"an --lr below {training.lr:g}" + ("" if training.clip else ", or --clip 1")
    return Collapse(step, list(found), baseline, f"try {gentler}, or another --seed")


def reached(loss: float, task: Task) -> tuple[str, float, float] | None:
    """The worst baseline that a loss is at, its loss, and what counts as below it; None for what is below them all."""
    guesses = [(name, value) for name, value in task.baselines.items() if value > task.learnt_below]
    for place, (name, value) in enumerate(guesses):
        if loss >= BACK * value:
            better = guesses[place + 1 :]
            return name, value, (value + better[0][1]) / 2 if better else task.learnt_below
    return None

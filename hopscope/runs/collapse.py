"""Whether training collapsed: losses that had fallen rose back to that of a guess."""

from __future__ import annotations

from typing import NamedTuple

from hopscope.core.wording import listed
from hopscope.runs.reading import RunReader
from hopscope.tasks.base import Task

#: A loss of at least this share of a baseline counts as back at it (our choice): guesses scatter by a few percent.
BACK = 0.95


class Collapse(NamedTuple):
    """Where training collapsed, and what to try.

    Attributes:
        step: the first logged step from which a loss stayed up.
        hops: the hops whose losses rose.
        baseline: name and loss of the baseline that they rose to.
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
    """The collapse that a run ended in, as far as it is trained; None if there is none.

    A hop collapsed if its last loss is at a baseline and an earlier one was below it: below `learnt_below` if no lower
    baseline lies above that, else below the middle between the two baselines. A passing spike is no collapse.
    """
    collapsed: dict[str, tuple[int, tuple[str, float]]] = {}
    for hop in run.task.hop_names:
        curve = [(row["step"], loss) for row in run.rows if (loss := row["hop_losses"].get(hop)) is not None]
        if curve and (level := reached(curve[-1][1], run.task)):
            name, loss, below = level
            if better := [place for place, (_, value) in enumerate(curve) if value < below]:
                collapsed[hop] = curve[better[-1] + 1][0], (name, loss)
    if not collapsed:
        return None
    step, baseline = min(collapsed.values(), key=lambda each: each[0])
    training = run.config.training
    gentler = f"an --lr below {training.lr:g}" + ("" if training.clip else ", or --clip 1")
    return Collapse(step, list(collapsed), baseline, f"try {gentler}, or another --seed")


def reached(loss: float, task: Task) -> tuple[str, float, float] | None:
    """The worst baseline that a loss is at: its name, its loss, and the loss below it; None if it is at none."""
    guesses = [(name, value) for name, value in task.baselines.items() if value > task.learnt_below]
    for place, (name, value) in enumerate(guesses):
        if loss >= BACK * value:
            better = guesses[place + 1 :]
            below = (value + better[0][1]) / 2 if better else task.learnt_below
            return name, value, min(below, BACK * value)  # a loss is not at a baseline and below it
    return None

"""Refinement between two checkpoints: the run is trained again, bit for bit, and saved more often in between.

A batch is a function of (seed, step), so training again gives the same weights on the same machine with as many
threads. This is checked at every checkpoint on the way; if a bit differs, nothing is refined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput, check_range
from hopscope.emergence.onset import Onset
from hopscope.emergence.record import trained_steps
from hopscope.emergence.track import Emergence, follow
from hopscope.models.base import Model
from hopscope.runs.run import Run
from hopscope.training.trainer import Trainer

Gap = tuple[int, int]
State = dict[str, Tensor]


class Refined(Run):
    """A run with weights of further steps in memory.

    Args:
        run: the run as it was trained.
        between: weights by step.
    """

    def __init__(self, run: Run, between: dict[int, State]):
        super().__init__(run.path)
        self.between = between

    @property
    def steps(self) -> list[int]:
        return sorted({*super().steps, *self.between})

    def at(self, step: int) -> Model:
        if step not in self.between:
            return super().at(step)
        model = self.config.model.build(self.task)
        model.load_state_dict(self.between[step], strict=True)
        return model.eval()


def retrained(run: Run, gaps: Sequence[Gap], every: int, watch: Callable[[str], None] = lambda _: None) -> Refined:
    """The run with weights of further steps in some gaps between its checkpoints.

    Args:
        run: trained here on a CPU.
        gaps: (after, by), each between two checkpoints.
        every: steps between the further weights.
        watch: called with a description of each step of the work.

    Raises:
        BadInput: the run was not trained here, or was trained on a GPU or compiled, or retraining gives other bits, or
            `every` is below 1.
    """
    check_range("every", every, {"low": 1})
    steps, about = trained_steps(run), run.environments[0]
    if about["compiled"] or not str(about["device"]).startswith("cpu"):
        raise BadInput(f"{run.path} was trained compiled or on a GPU, and only plain CPU runs are retrained bit by bit")
    wanted = {step for after, by in gaps for step in range(after + every, by, every)}
    between: dict[int, State] = {}
    with threads(int(about["threads"])):
        trainer = Trainer(run.config, torch.device("cpu"))
        for step in range(1, max((by for _, by in gaps), default=0) + 1):
            trainer.step(step - 1)
            if step in steps:
                watch(f"{run.path}: retrained to step {step}, the same to the bit")
                check_same(run, step, trainer.model.state_dict())
            if step in wanted:
                between[step] = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    return Refined(run, between)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Context with this number of threads, on which the order of sums depends."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_same(run: Run, step: int, weights: State) -> None:
    """Raise BadInput unless the weights are bit-identical to those of a checkpoint."""
    stored = run.at(step).state_dict()
    if not all(torch.equal(weights[name], value) for name, value in stored.items()):
        raise BadInput(
            f"{run.path} does not come out the same to the bit when it is trained again here: at step {step} weights "
            "differ; refine it on the machine that trained it, or train with more --checkpoints"
        )


def gaps_of(emergence: Emergence, every: int) -> list[Gap]:
    """The gaps wider than `every` in which attention, effect or loss passed a threshold."""
    onsets: list[Onset] = [*emergence.events.values(), *emergence.learnt.values()]
    onsets += [followed.cost.causal.onset for followed in emergence.paths if followed.cost]
    seen = {(o.after, o.by) for o in onsets if o.after is not None and o.by is not None and o.status == "seen"}
    return sorted((after, by) for after, by in seen if by - after > every)


def refine(
    run: Run, emergence: Emergence, every: int, watch: Callable[[str], None] = lambda _: None, **how: Any
) -> Emergence:
    """Follow the same paths again, with weights every `every` steps in gaps where something passed a threshold.

    Args:
        run: the run that was followed.
        emergence: the result at its checkpoints.
        every: steps between the further weights.
        watch: called with a description of each step of the work.
        how: `n`, `seed` and `null` of `follow`, as before.

    Raises:
        BadInput: as `retrained` does.
    """
    gaps = gaps_of(emergence, every)
    if not gaps:
        return emergence
    paths = [followed.path for followed in emergence.paths]
    return follow(retrained(run, gaps, every, watch), paths, watch=watch, **how)

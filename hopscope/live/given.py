"""A task made of tensors: somebody's inputs and targets, in place of sequences that are drawn.

What a task knows by construction is taken from the data here. Chance is the loss of the best constant answer to the
given targets; without a word from their owner, an answer is right where it is the likeliest, or, of numbers, where its
squared error is less than half the targets' variance. These choices are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope.circuits.exam import AVERAGES, TRIALS, Discovery, drawn_for
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Problem
from hopscope.problem.relations import relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import NOT_ASKED, Batch, Task

LEAST = 256  # rows
CHANCE = 4096  # rows, about, that chance is measured on
Measure = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Data:
    """What was given.

    Attributes:
        inputs: tokens (int, row position), or features (float, row position feature).
        targets: by row, whatever else.
        at: where answers are read off: a position, or a slice of them.
        loss: of outputs and targets, their mean over rows; of a single row, too.
        correct: which answers are right, a bool for each.
        roles: of all rows; None: the relations of `hopscope.problem.relations`.
        floor: the least loss that a perfect model reaches.
        best_accuracy: its share of right answers.
    """

    inputs: Tensor
    targets: Tensor
    at: int | slice
    loss: Measure
    correct: Measure
    roles: Roles | None
    floor: float
    best_accuracy: float = 1.0


def slice_of(at: int | slice) -> slice:
    """Where answers are read off, as a slice."""
    return at if isinstance(at, slice) else slice(at, at + 1 or None)


def shaped(outputs: Tensor, at: int | slice) -> Tensor:
    """Outputs as their owner expects them: of one position without a dimension for it."""
    return outputs if isinstance(at, slice) else outputs[:, 0]


class Deck:
    """Rows for each purpose: none of the report's for the search, and none twice for the report.

    The search's go to discovery, to selection, and to the joint test of circuits. That sees each of its own once, and
    then, once, those of the first two. Heads are averaged over all of them, which takes none from these.

    Args:
        n: number of rows.
        settings: how many the search asks for.
        device: of the generators by which it asks.
    """

    def __init__(self, n: int, settings: Discovery, device: torch.device):
        order = torch.randperm(n, generator=generator(settings.seed, "given rows"), device="cpu")
        first = settings.discovery + settings.selection
        self.whole = {"search": order[: n // 2], "report": order[n // 2 :]}
        self.left = {"search": torch.cat([order[: n // 2], order[:first]]), "report": order[n // 2 :]}
        self.dealt: dict[tuple[int, int], Tensor] = {}
        told = [purpose for trial in range(1, TRIALS + 1) for purpose in drawn_for(trial)]
        seed = lambda purpose: generator(settings.seed, f"circuit {purpose}", 0, device).initial_seed()  # noqa: E731
        self.reports, self.averages = set(map(seed, told)), seed(AVERAGES)

    def deal(self, n: int, purpose: int) -> Tensor:
        """Up to n rows; for one purpose the same again. Whoever asks after that sees all rows anew."""
        if purpose == self.averages:
            return self.whole["search"][:n]
        if (purpose, n) not in self.dealt:
            pool = "report" if purpose in self.reports else "search"
            left = self.left[pool] if len(self.left[pool]) else self.whole[pool]
            self.dealt[purpose, n], self.left[pool] = left[:n], left[n:]
        return self.dealt[purpose, n]


class Given(Task):
    """Somebody's data as a task.

    Args:
        data: what was given.
        outputs: of the model for some rows, (row, query, output): their shape, and an answer that can be given.
        settings: of the search.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__
    unsolved_advice = (
        "train it longer; if it is sure of answers that count as wrong, check those labels; what nobody can know is "
        "told by floor= and best_accuracy="
    )
    option = "settings=Discovery({}=...)"

    def __init__(self, data: Data, outputs: Tensor, settings: Discovery):
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "answer", outputs.new_zeros(outputs.shape[1:]))
        object.__setattr__(self, "middle", outputs.mean(0))
        object.__setattr__(self, "deck", Deck(len(data.inputs), settings, data.inputs.device))

    data: Data
    answer: Tensor
    middle: Tensor
    deck: Deck

    @classmethod
    def name(cls) -> str:
        return "given"

    @property
    def n_positions(self) -> int:
        return self.data.inputs.shape[1]

    @property
    def d_output(self) -> int:
        return self.answer.shape[-1]

    @property
    def query_positions(self) -> slice:
        return slice_of(self.data.at)

    @property
    def hop_names(self) -> tuple[str, ...]:
        return ("answer",)

    @property
    def floor(self) -> float:  # type: ignore[override]
        return self.data.floor

    @property
    def best_accuracy(self) -> float:  # type: ignore[override]
        return self.data.best_accuracy

    @property
    def learnt_below(self) -> float:
        """Half of the way from chance to the floor, which may be below 0 (ours)."""
        return self.floor + 0.5 * (self.chance - self.floor)

    @property
    def solved_below(self) -> float:
        """95 % of it (ours)."""
        return self.floor + 0.05 * (self.chance - self.floor)

    @property
    def model_threshold(self) -> float:
        return self.solved_below

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        return {"row": self.deck.deal(n, generator.initial_seed()).to(self.data.inputs.device)}

    def has_further(self, n: int) -> bool:
        """Of those that are kept for reports."""
        return len(self.deck.left["report"]) >= n

    @property
    def has_more_to_search(self) -> bool:
        return len(self.deck.left["search"]) > 0

    def inputs(self, draw: Draw) -> Tensor:
        return self.data.inputs[draw["row"]]

    def targets(self, draw: Draw) -> Tensor:
        """In three dimensions, as all tasks have them; their owner's functions see them in the form that was given."""
        return self.data.targets[draw["row"]].reshape(len(draw["row"]), 1, -1)

    def restored(self, targets: Tensor) -> Tensor:
        """Targets in the form that was given."""
        return targets.reshape(len(targets), *self.data.targets.shape[1:])

    def roles(self, draw: Draw) -> Roles:
        roles = self.data.roles
        if roles is None:
            return relations(self.inputs(draw), self.query_positions)
        return Roles(roles.names, roles.chain[draw["row"]])

    def problem(self, draw: Draw, row: int) -> Problem:
        """Raises BadInput: nobody said which facts tensors stand for."""
        raise BadInput("given tensors are no facts, so there is no problem to show")

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {}

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.data.loss(shaped(outputs, self.data.at), self.restored(targets))

    def hop_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)[None]

    def correct(self, outputs: Tensor, batch: Batch) -> Tensor:
        return self.data.correct(shaped(outputs, self.data.at), self.restored(batch.targets)).flatten()[:, None]

    @property
    def baselines(self) -> dict[str, float]:
        """The owner's loss of the best answer that is the same for all rows; and what a perfect model reaches."""
        return {"the best constant answer": self.constant, "solved": self.floor}

    @cached_property
    def constant(self) -> float:
        """The loss of the best constant answer: from nothing, a mean of the model's own, means and frequencies.

        The least of them is taken on by gradient. One of the model's own is there for outputs that are not free, such
        as probabilities.

        Raises:
            BadInput: the loss fails on many rows together, or no constant has a finite one.
        """
        targets = self.data.targets[:: max(1, len(self.data.targets) // CHANCE)]
        expand = lambda one: one.expand(len(targets), *one.shape)  # noqa: E731
        loss = lambda one: self.loss(expand(one), targets)  # noqa: E731
        starts = [self.answer, self.middle, *typical(targets, shaped(self.answer[None], self.data.at)[0], self.answer)]
        try:
            with torch.no_grad():
                losses = [float(loss(start)) for start in starts]
        except Exception as error:  # whatever the owner's function raises
            words = " ".join(str(error).split()) or type(error).__name__
            raise BadInput(f"the loss fails on {len(targets)} rows together: {words[:200]}") from None
        finite = {found: start for found, start in zip(losses, starts, strict=True) if math.isfinite(found)}
        if not finite:
            raise BadInput("no constant answer that was tried has a finite loss, so there is no chance to compare with")
        return min(min(finite), *(descended(start, loss) for start in finite.values()))


def typical(targets: Tensor, like: Tensor, answer: Tensor) -> list[Tensor]:
    """The targets' mean, or the logarithms of their frequencies, where they have the form of outputs.

    Args:
        targets: of some rows.
        like: outputs of a row, as their owner expects them.
        answer: the same, as tasks have them.
    """
    n_classes = answer.shape[-1]
    if targets.is_floating_point() and targets.shape[1:] == like.shape:
        return [targets.mean(0).reshape(answer.shape).to(answer.dtype)]
    if classes(targets, like):
        asked = (targets != NOT_ASKED)[..., None]
        counts = (F.one_hot(targets.clamp(min=0).long(), n_classes) * asked).sum(0).to(answer.dtype)
        return [(counts + 1e-3).log().reshape(answer.shape)]
    return []


def classes(targets: Tensor, like: Tensor) -> bool:
    """Whether targets number the outputs, one for each query."""
    return (
        not targets.is_floating_point()
        and targets.shape[1:] == like.shape[:-1]
        and -1 < int(targets.clamp(min=0).max()) < like.shape[-1]
    )


def descended(start: Tensor, loss: Callable[[Tensor], Tensor]) -> float:
    """The loss after some steps of L-BFGS; infinite where the owner's function cannot be differentiated."""
    answer = start.detach().clone().requires_grad_()
    optimizer = torch.optim.LBFGS([answer], max_iter=40, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        found = loss(answer)
        found.backward()  # type: ignore[no-untyped-call]
        return found

    try:
        with torch.enable_grad():
            optimizer.step(closure)  # type: ignore[no-untyped-call, arg-type]
            found = float(loss(answer).detach())
    except RuntimeError:
        return float("inf")
    return found if math.isfinite(found) else float("inf")

"""The base of tasks: batches of tensors, the role of every position, and the problem in plain Python.

A task is a frozen value with settings. All randomness of a batch is in its `Draw`, made by a generator that is passed
in. Inputs, targets, roles and problems are renderings of the same draw, so each can be checked against the plain-Python
oracle in `hopscope.problem.oracle`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, Settings
from hopscope.curricula.base import Curriculum
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Problem
from hopscope.problem.roles import Roles
from hopscope.tasks.base_thresholds import Thresholds

#: `brute_force`'s answer for one output; a float is the posterior mean of a number (`base_regression`).
BestAnswer = int | float | Mapping[int, float] | None

#: Target of a position at which nothing is asked (token tasks); PyTorch's convention for cross-entropy.
NOT_ASKED = -100


class Batch:
    """Sequences of one task. Each rendering of the draw is computed when it is first used, then cached."""

    def __init__(self, task: Task, draw: Draw):
        self.task = task
        self.draw = draw

    def __len__(self) -> int:
        return len(next(iter(self.draw.values())))

    @cached_property
    def inputs(self) -> Shaped[Tensor, "batch position ..."]:
        """Features (float; batch, position, feature) or token numbers (int; batch, position)."""
        return self.task.inputs(self.draw)

    @cached_property
    def targets(self) -> Shaped[Tensor, "batch query output"]:
        """The right answers at the query positions: numbers, or token numbers with `NOT_ASKED` gaps."""
        return self.task.targets(self.draw)

    @cached_property
    def roles(self) -> Roles:
        """The role and chain of every position."""
        return self.task.roles(self.draw)

    @cached_property
    def searched(self) -> Roles:
        """The roles or relations that paths of circuits connect; for most tasks, the roles."""
        return self.task.searched_roles(self)

    def problem(self, row: int) -> Problem:
        """One sequence as facts and queries in plain Python."""
        return self.task.problem(self.draw, row)

    def problems(self) -> Iterator[Problem]:
        """All sequences as facts and queries in plain Python."""
        return (self.problem(row) for row in range(len(self)))

    def rows(self, index: slice | Tensor) -> Batch:
        """Some of the sequences."""
        return Batch(self.task, {name: values[index] for name, values in self.draw.items()})


class Task(Settings, Thresholds, ABC):
    """A data-generating process with known answers. Subclasses are frozen dataclasses, one per file.

    Exactly one of `d_input` and `d_vocab` is set: the number of features per position, or the number of tokens.
    """

    d_input: int | None = None
    d_vocab: int | None = None
    #: Whether `inputs` already carry positions; if not, the model learns a position embedding.
    inputs_carry_position = False
    #: The pattern that an ablated head gets (docs/contracts.md, thresholds).
    null_pattern = "uniform"
    #: The ideal pattern where several positions hold a path's key role: `even` over them, or on the `latest`.
    ideal_over = "even"

    @classmethod
    def name(cls) -> str:
        """The name of the task's file."""
        return cls.__module__.rpartition(".")[2]

    # What a task must supply ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def n_positions(self) -> int:
        """Length of the sequences."""

    @property
    @abstractmethod
    def d_output(self) -> int:
        """Numbers that the model puts out per query position."""

    @property
    @abstractmethod
    def query_positions(self) -> slice:
        """The positions at which answers are read, the same in every sequence."""

    @property
    @abstractmethod
    def hop_names(self) -> tuple[str, ...]:
        """The names of the losses by hop, from the easiest hop to the hardest."""

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """Every random choice of n sequences, on the generator's device."""

    @abstractmethod
    def inputs(self, draw: Draw) -> Shaped[Tensor, "batch position ..."]:
        """The sequences as the model gets them."""

    @abstractmethod
    def targets(self, draw: Draw) -> Shaped[Tensor, "batch query output"]:
        """The right answers."""

    @abstractmethod
    def roles(self, draw: Draw) -> Roles:
        """The role of every position."""

    def searched_roles(self, batch: Batch) -> Roles:
        """What paths of circuits connect: roles or, if every position is a query with targets of its own, relations.

        `hopscope.problem.relations` explains them.
        """
        return batch.roles

    @abstractmethod
    def problem(self, draw: Draw, row: int) -> Problem:
        """One sequence as facts and queries."""

    @abstractmethod
    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        """The tensor that stands for each symbol of `problem(draw, row)` in inputs and targets."""

    @abstractmethod
    def hop_losses(
        self, outputs: Float[Tensor, "batch query output"], targets: Shaped[Tensor, "batch query target"]
    ) -> Float[Tensor, "hop"]:
        """The loss of each hop, in the order of `hop_names`; NaN where a batch does not ask a hop."""

    def by_hop(self, losses: Float[Tensor, "hop"]) -> dict[str, float]:
        """The value of `hop_losses` by the hops' names, without those that are not asked."""
        return {hop: loss for hop, loss in zip(self.hop_names, losses.tolist(), strict=True) if not math.isnan(loss)}

    @abstractmethod
    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether each output names the right symbol (the nearest, or the likeliest)."""

    # What follows from it ------------------------------------------------------------------------------------

    def sample(self, n: int, random: torch.Generator | int = 0, *, device: torch.device | str | None = None) -> Batch:
        """n fresh sequences; `random` is a generator or a seed. Equal seeds give equal batches. Raises BadInput."""
        if isinstance(n, bool) or not isinstance(n, Integral) or n < 0:
            raise BadInput(f"the number of sequences must be a whole number from 0 on; got {n!r}")
        if isinstance(random, int):
            random = generator(random, "sample", 0, device or "cpu")
        return Batch(self, self.draw(n, random))

    def has_further(self, n: int) -> bool:
        """Whether n further sequences exist that have not been used; always, for a task that draws them."""
        return True

    @property
    def in_training(self) -> Task:
        """The task that training draws from; another one if training must not draw what validation does (`text`)."""
        return self

    @property
    def own_files(self) -> Mapping[str, str]:
        """Files of the user's that the task reads, by name, with their sha256."""
        return {}

    @property
    def has_more_to_search(self) -> bool:
        """Whether a search may use further sequences that it has not judged circuits on."""
        return True

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a task that overrides the oracle: its targets could then be wrong and still pass the tests."""
        super().__init_subclass__(**more)
        if own := {"successors", "answers"} & vars(cls).keys():
            reason = f"{cls.__name__} may not define {' or '.join(sorted(own))}, which belong to the plain problem; "
            raise TypeError(f"{reason}say which hops are asked (asked_hops), or answer from the inputs (brute_force)")

    def successors(self, draw: Draw, row: int) -> list[list[str]]:
        """The oracle's answer to each query of one sequence: the names of what follows from it, in order."""
        problem = self.problem(draw, row)
        return [problem.successors(query) for query in problem.queries]

    def answers(self, draw: Draw, row: int) -> list[list[str]]:
        """The part of `successors` that the targets hold, as names, in order."""
        return [names[self.asked_hops] for names in self.successors(draw, row)]

    @property
    def asked_hops(self) -> slice:
        """Which of a query's successors the targets hold; by default all."""
        return slice(None)

    def position_features(self, steps: int = 0) -> Float[Tensor, "d_input d_code"] | None:
        """A linear map from an input at position t to the position code of t + steps; None if inputs carry no code."""
        return None

    def brute_force(self, inputs: list[Any]) -> list[list[BestAnswer]]:
        """The best answers that one sequence's inputs allow, for a task that facts do not answer.

        It is plain Python, or float64 numpy, and shares nothing with `targets`: contract tests compare the two. A task
        that overrides this method has a `problem` for illustration only.

        Inputs are one sequence as plain lists: token numbers or rows of features. For each query position
        and output, the result has the right target (a number), or the probability of each number, or None where inputs
        do not determine it.
        """
        raise NotImplementedError

    @classmethod
    def answers_by_force(cls) -> bool:
        """Whether `brute_force`, rather than the problem's facts, is the task's oracle."""
        return cls.brute_force is not Task.brute_force

    def read(self, tokens: list[int]) -> Draw:
        """The draw that gives these `n_positions` tokens, the inverse of `inputs`. Raises BadInput if none does."""
        raise NotImplementedError

    @property
    def bayes_loss(self) -> float:
        """The lowest expected loss of any predictor that gets the inputs alone."""
        return self.floor

    def loss(
        self, outputs: Float[Tensor, "batch query output"], targets: Shaped[Tensor, "batch query target"]
    ) -> Float[Tensor, ""]:
        """The training loss: the mean of the losses by hop."""
        return self.hop_losses(outputs, targets).mean()

    # Difficulty, for curricula -------------------------------------------------------------------------------

    @property
    def hardest(self) -> int:
        """The task's difficulty, in hops. Curricula choose one of `difficulties`, and pose the task `at` it."""
        return 1

    def at(self, difficulty: int) -> Task:
        """The same task with fewer hops, for the same model. Raises ValueError for a difficulty that it lacks."""
        if difficulty != self.hardest:
            raise ValueError(f"{self.name()} has one difficulty, {self.hardest}; got {difficulty}")
        return self

    @property
    def difficulties(self) -> Sequence[int]:
        """The difficulties that a curriculum may choose, ascending."""
        return range(1, self.hardest + 1)

    @property
    def taught_by(self) -> Curriculum | None:
        """The task's curriculum, if it has one."""
        return None

    def stage(self, progress: float, random: torch.Generator) -> Task:
        """The task as its curriculum poses it at `progress` (0–1) of training."""
        taught = self.taught_by
        if taught is None:
            return self
        return self.at(taught.difficulty(self.difficulties, progress, random))


class VectorTask(Task):
    """A task whose symbols are vectors with standard normal components; its loss is the mean squared error.

    Outputs and targets of a query are the answers' vectors, concatenated: `len(hop_names) · d_symbol` numbers.
    """

    d_symbol: int

    @property
    def d_output(self) -> int:
        return len(self.hop_names) * self.d_symbol

    def circuit_threshold(self, model: float, null: float) -> float:
        """A circuit is accepted below a mean squared error of 0.05 (paper, appendix E)."""
        return 0.05

    def circuit_accuracy(self, model: float, null: float) -> float:
        """The least accuracy of an accepted circuit: 0, because appendix E bounds only the loss."""
        return 0.0

    def hop_losses(
        self, outputs: Float[Tensor, "batch query output"], targets: Float[Tensor, "batch query output"]
    ) -> Float[Tensor, "hop"]:
        error = (outputs.float() - targets).square()
        return error.unflatten(-1, (len(self.hop_names), self.d_symbol)).mean((0, 1, 3))

    @abstractmethod
    def candidates(self, draw: Draw) -> Float[Tensor, "batch symbol d_symbol"]:
        """All symbols that occur in each sequence."""

    @abstractmethod
    def asked(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        """The right answers as indices into `candidates`."""

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        guesses = outputs.float().unflatten(-1, (len(self.hop_names), self.d_symbol))
        distances = torch.cdist(guesses.flatten(1, 2), self.candidates(batch.draw))  # batch query·hop symbol
        named = distances.argmin(-1).unflatten(1, guesses.shape[1:3])
        return (named == self.asked(batch.draw)).flatten(0, 1)


class TokenTask(Task):
    """A task whose answers are tokens; its loss is the cross-entropy in nats.

    Targets of a query are token numbers, one per hop, with `NOT_ASKED` for gaps. Outputs are the hops' logits,
    concatenated: `len(hop_names) · n_logits` numbers. Inputs are tokens, too, unless a task sets `d_input`. By default
    a task has a setting `length`, and every position is a query.
    """

    length: int
    #: The answer that training favours in any context, where a task has one (`noisy_bigram`).
    global_answer: int | None = None

    @property
    def learnt_below(self) -> float:
        """A hop counts as learnt halfway from the floor to the loss of the best partial guess (our choice).

        Models stay long at such a guess, and its loss may lie below half of chance.
        """
        guesses = [loss for loss in self.baselines.values() if loss > max(self.solved_below, self.floor)]
        return self.floor + 0.5 * (min(guesses) - self.floor)

    @property
    def n_logits(self) -> int:
        """Logits per hop, one for every possible answer: all tokens, unless inputs are vectors."""
        return self.d_vocab or 0

    @property
    def d_output(self) -> int:
        return len(self.hop_names) * self.n_logits

    @property
    def n_positions(self) -> int:
        return self.length

    @property
    def query_positions(self) -> slice:
        return slice(0, None)

    def inputs(self, draw: Draw) -> Shaped[Tensor, "batch position ..."]:
        """The first `n_positions` tokens drawn; one more may be drawn, which occurs only as a target."""
        return draw["tokens"][:, : self.n_positions]

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        """By default a symbol `t7` is token 7, wherever it stands."""
        return {f"t{token}": torch.tensor(token) for token in range(self.d_vocab or 0)}

    def recalled(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        """The answers in the context; they differ from the targets only where a task replaces some by noise."""
        return self.targets(draw)

    def shown(self, batch: Batch) -> Int[Tensor, "batch position"]:
        """The answer that each position shows, or `NOT_ASKED`."""
        return batch.inputs

    @property
    def answer_parts(self) -> dict[str, Int[Tensor, "output"]]:
        """Classes of answers: for each name the class number of every output. Most tasks have none.

        A model may know part of an answer, such as what a fact's relation decides (`part_loss` of the study `facts`).
        """
        return {}

    def logits(self, outputs: Float[Tensor, "batch query output"]) -> Float[Tensor, "batch query hop vocab"]:
        """Outputs by hop."""
        return outputs.float().unflatten(-1, (-1, self.n_logits))

    def hop_losses(
        self, outputs: Float[Tensor, "batch query output"], targets: Int[Tensor, "batch query hop"]
    ) -> Float[Tensor, "hop"]:
        logits = self.logits(outputs)
        losses = F.cross_entropy(
            logits.movedim(-1, 1), targets, ignore_index=NOT_ASKED, reduction="none"
        )  # batch query hop
        asked = (targets != NOT_ASKED).sum((0, 1))
        return losses.sum((0, 1)) / asked

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        named = self.logits(outputs).argmax(-1)
        right = (named == batch.targets).flatten(0, 1)
        return right[(batch.targets != NOT_ASKED).flatten(0, 1).all(-1)]

    def uniform(self, n: int | None = None) -> float:
        """Cross-entropy in nats of n equally likely tokens (by default all): ln n."""
        return math.log(n or self.n_logits)

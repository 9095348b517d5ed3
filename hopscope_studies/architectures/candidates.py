"""The candidates of the bench: rules of attention, position codes and optimizers, as the catalogue has them.

No candidate is listed here. Every file in `models/attention/`, `models/positions/` or `training/optimizers/`, in the
library, in a study or in a folder of one's own, is one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch

from hopscope.configuration.config import Training
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval

HEADS = 2
#: The position code with the prior: layer 0 begins with attention to the token before.
PRIOR = "relative(start='L0 1:4')"
#: Longer chains have more positions, and a stronger prior.
STRONGER, LONG = "relative(start='L0 1:5')", 6
#: All candidates get as many parameters as plain attention of this width, with three layers, on three hops.
WIDTH, LAYERS, TASK = 128, 3, Retrieval(n_hops=3, order="deepest_first", position_base=100.0)
NARROWEST, WIDEST = 8, 512


@dataclass(frozen=True)
class Candidate:
    """One row of the bench; by default plain attention with the prior.

    Attributes:
        attention: the rule's name.
        positions: the code; None: the task's own.
        mlp: whether layers have one.
        optimizer: the optimizer's name.
    """

    attention: str = "softmax"
    positions: str | None = PRIOR
    mlp: bool = False
    optimizer: str = Training().optimizer

    @property
    def name(self) -> str:
        """The rule, and whatever else differs from the defaults."""
        code = {PRIOR: [], None: ["no prior"]}.get(self.positions, [self.positions or ""])
        rule_of_updates = [] if self.optimizer == Candidate.optimizer else [self.optimizer]
        return ", ".join([self.attention, *code, *(["MLP"] if self.mlp else []), *rule_of_updates])

    @property
    def brings_its_own(self) -> bool:
        """Whether its rule joins neighbouring tokens by itself, so that it needs no prior."""
        return bool(catalogue.chosen("models.attention", self.attention).shifted)

    def shape(self, task: Task, n_layers: int, d_model: int | None = None) -> Architecture:
        """The architecture for a task, as wide as its parameters allow."""
        long_chain = len(task.hop_names) >= LONG
        return Architecture(
            n_layers=n_layers,
            n_heads=HEADS,
            d_model=width(self) if d_model is None else d_model,
            mlp=self.mlp,
            causal=task.name() != "k_fold",
            positions=STRONGER if self.positions == PRIOR and long_chain else self.positions,
            attention=self.attention,
            init="early_layers",
        )


REFERENCE = Candidate()


def rules(prior: bool = True) -> Iterator[Candidate]:
    """Every rule of attention that there is, with the prior or without."""
    found = (Candidate(name, PRIOR if prior else None) for name in catalogue.names("models.attention"))
    return (candidate for candidate in found if fits(candidate, TASK))


def others() -> Iterator[Candidate]:
    """Plain attention with every other position code, with an MLP, and with every other optimizer."""
    codes = [Candidate(positions=name) for name in catalogue.names("models.positions") if name != "input"]
    updates = [Candidate(optimizer=name) for name in catalogue.names("training.optimizers")]
    found = [*codes, Candidate(mlp=True), *(one for one in updates if one != REFERENCE)]
    return (candidate for candidate in found if fits(candidate, TASK))


@cache
def fits(candidate: Candidate, task: Task) -> bool:
    """Whether the model can be built: a rule may need more heads, or a code inputs without positions."""
    try:
        weightless(candidate.shape(task, LAYERS, WIDTH), task)
    except BadInput:
        return False
    return True


def weightless(shape: Architecture, task: Task) -> Transformer:
    """A model without storage for its weights (PyTorch's meta device), to count parameters and operations."""
    with torch.device("meta"):
        return shape.build(task)


@cache
def width(candidate: Candidate) -> int:
    """The width, a multiple of 4, at which a candidate's number of parameters is closest to the reference's."""
    plain = replace(candidate, optimizer=REFERENCE.optimizer, positions=PRIOR)  # neither makes a difference
    if plain != candidate:
        return width(plain)
    wanted = parameters(REFERENCE, WIDTH)
    widths = range(NARROWEST, WIDEST + 1, 4)
    place = bisect_left(widths, wanted, key=lambda d_model: parameters(candidate, d_model))
    return min(widths[place - 1 : place + 1], key=lambda d_model: abs(parameters(candidate, d_model) - wanted))


@cache
def parameters(candidate: Candidate, d_model: int) -> int:
    """The number of trained parameters in the setting in which widths are matched."""
    return weightless(candidate.shape(TASK, LAYERS, d_model), TASK).n_parameters

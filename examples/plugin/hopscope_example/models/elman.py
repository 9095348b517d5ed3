"""A simple recurrent network (Elman, 1990): h_t = tanh(x_t W_E + h_(t−1) W_H + b), read off at every position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hopscope.core.settings import setting
from hopscope.models.base import Cache, Model, Replacements, Shape, passes
from hopscope.tasks.base import Task


@dataclass(frozen=True)
class Elman(Shape):
    """It has no heads, so there is no circuit to search for; all else is as for any model."""

    width: int = setting(16, "numbers in the state", low=1)

    def build(self, task: Task, generator: torch.Generator | None = None) -> Model:
        return ElmanModel(self, task, generator)


class ElmanModel(Model):
    """The state is kept, read and replaced under one name, `hook_state`."""

    def __init__(self, shape: Elman, task: Task, generator: torch.Generator | None):
        super().__init__()
        self.architecture = shape
        self.features = task.d_input is not None

        def drawn(ins: int, outs: int) -> nn.Parameter:
            """Weights with standard deviation 1/√inputs; zeros where they are loaded later."""
            values = torch.zeros(ins, outs) if generator is None else torch.randn(ins, outs, generator=generator)
            return nn.Parameter(values * ins**-0.5)

        self.W_E = drawn(task.d_input or task.d_vocab or 0, shape.width)
        self.W_H = drawn(shape.width, shape.width)
        self.b = nn.Parameter(torch.zeros(shape.width))
        self.W_U = drawn(shape.width, task.d_output)

    @property
    def activation_names(self) -> list[str]:
        return ["hook_embed", "hook_state"]

    def forward(
        self,
        inputs: Tensor,
        *,
        replace: Replacements | None = None,
        cache: bool | Iterable[str] = False,
        at: slice | None = None,
    ) -> Any:
        tap = self.tap(replace, cache) if replace or cache is not False else None
        seen = passes(tap, "hook_embed", inputs @ self.W_E if self.features else self.W_E[inputs])
        state, states = torch.zeros_like(seen[:, 0]), []
        for x in seen.unbind(1):
            state = torch.tanh(x + state @ self.W_H + self.b)
            states.append(state)
        stream = passes(tap, "hook_state", torch.stack(states, 1))
        outputs = (stream if at is None else stream[:, at]) @ self.W_U
        return outputs if cache is False else (outputs, Cache(tap.kept if tap else {}))

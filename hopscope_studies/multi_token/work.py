"""A check without long training: with one head the model equals the plain model after every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from hopscope.configuration.config import Config, Training
from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope.models.base import Shape
from hopscope.models.transformer import Architecture
from hopscope.training.trainer import Trainer
from hopscope_studies.multi_token.models.multi_token import MultiTokenArchitecture
from hopscope_studies.multi_token.tasks.names_in_text import NamesInText


@dataclass(frozen=True)
class OneHead(Report):
    """The difference in weights between a model with one head and a plain one with as many layers, after training."""

    label, file = "multi_token_identity", "numbers.json"

    seeds: int = setting(5, "how many pairs", low=1)
    steps: int = setting(10, "updates of each", low=1)
    d_model: int = setting(32, "width of the models", low=2)

    def about(self) -> dict[str, Any]:
        return {"problem": "tokens", "asked": "near", "note": ""}

    def report(self) -> Any:
        """A row per seed."""
        return [{"seed": seed, "difference": self.difference(seed)} for seed in range(self.seeds)]

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        for row in report:
            yield {"seed": row["seed"], "kind": "identity", "name": "difference", "step": 0, "value": row["difference"]}

    def difference(self, seed: int) -> float:
        """The largest difference of any weight after training; infinite if the weights have different names."""
        size: dict[str, Any] = {
            "n_layers": 2,
            "d_model": self.d_model,
            "n_heads": 2,
            "positions": "rotary",
            "init": "early_layers",
            "mlp": True,
        }
        one, plain = (self.trained(shape, seed) for shape in (MultiTokenArchitecture(**size), Architecture(**size)))
        if one.keys() != plain.keys():
            return float("inf")
        return max(float((one[name] - plain[name]).abs().max()) for name in one)

    def trained(self, shape: Shape, seed: int) -> dict[str, torch.Tensor]:
        """A model's weights after training."""
        recipe = Training(steps=self.steps, batch=8, seed=seed)
        trainer = Trainer(Config(NamesInText(length=16), shape, recipe), torch.device("cpu"))
        for step in range(self.steps):
            trainer.step(step)
        return dict(trainer.model.state_dict())

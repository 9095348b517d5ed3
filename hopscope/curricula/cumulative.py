"""Stages that keep earlier ones: easier sequences stay among the harder ones (after Bengio et al., 2009)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.curricula.mixture import Mixture


class Cumulative(Mixture):
    """One hop first, then one or two, up to all difficulties; stages have equal length, draws within one are uniform.

    Under `staged` a model forgets easy sequences, because they are not posed again. Here every stage adds a difficulty,
    so the last stage is a `mixture`.
    """

    def difficulty(self, offered: Sequence[int], progress: float, generator: torch.Generator) -> int:
        stage = min(len(offered), 1 + int(progress * len(offered)))
        return super().difficulty(offered[:stage], progress, generator)

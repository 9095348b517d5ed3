"""What the experiments of this study claim: the sentences of `data/claims.toml`, by experiment and id."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

from hopscope.experiments import judging
from hopscope.experiments.judging import Claim

SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "claims.toml").read_text(encoding="utf-8"))


def telling(experiment: str) -> Callable[..., Claim]:
    """`hopscope.experiments.judging.telling` with the sentences of an experiment."""
    return judging.telling(SENTENCES[experiment])

"""What the experiments of this study claim: the sentences of `data/claims.toml`, by experiment and id."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hopscope.experiments.judging import Claim, Evidence

SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "claims.toml").read_text(encoding="utf-8"))


def telling(experiment: str) -> Callable[..., Claim]:
    """`Evidence.claim` with the sentences of an experiment.

    Further arguments: `said`, what fills the braces of a sentence; `sentence`, its id, if several claims share it.
    """

    def told(
        evidence: Evidence, id: str, *measured: Any, said: Mapping[str, Any] = {}, sentence: str = "", **how: Any
    ) -> Claim:
        words = SENTENCES[experiment][sentence or id].format(**said)
        return evidence.claim(id, words, *measured, **how)

    return told

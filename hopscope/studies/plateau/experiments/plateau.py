"""Why heads wait."""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval

SECONDS = {"quick": 8, "cpu": 720}
CLAIMS = ()

STARTS = (4, 3, 2, 1.5, 1, 0)
TRAINING = Training(
    steps=400,
    dtype="bfloat16",
    stop_below=0.2,
    log_every=10,
    checkpoints="400",
    measures="join_attention,look_up_attention",
)


def prior(start: float) -> str:
    """Positions."""
    return f"relative(start='L0 1:{start:g}')"


def runs(scale: str) -> Iterator[Config]:
    for seed in range(5):
        for mlp in (False, True):
            for start in STARTS:
                yield Config(
                    Retrieval(n_hops=3, order="deepest_first"),
                    Architecture(n_layers=5, mlp=mlp, positions=prior(start)),
                    TRAINING.but(seed=seed),
                )

def table(runs, scale): ...
def figure(table): ...
def claims(table): ...

"""Pages on runs of three and of five hops, in seconds: hardly trained models, and a circuit as trained ones have.

The circuit and the strengths of paths are written into the bundle; weights, patterns and reference losses are the
model's own, so that the page's engine runs it.
"""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import numpy

from hopscope import Architecture, Config, Training, train
from hopscope.circuits.evaluator import Evaluator, Silenced
from hopscope.explorer.building import Builder
from hopscope.explorer.bundle import Block
from hopscope.explorer.page import export
from hopscope.explorer.tour import tour_of
from hopscope.problem.paths import Path
from hopscope.tasks.retrieval import Retrieval

STEPS = (0, 8, 16, 24)


def circuit_paths(hops: int) -> list[Path]:
    """Pairs join in layer 0, then a hop a layer; and the query looks at other chains first, as trained models do."""
    pairs = [Path(0, 0, f"value[{hop}]", f"key[{hop}]", "same") for hop in range(1, hops + 1)]
    looks = [Path(hop, 0, "query", f"value[{hop}]", "same") for hop in range(1, hops + 1)]
    return [*pairs, *looks, Path(0, 0, "query", f"key[{hops}]", "other"), Path(1, 0, "value[2]", "key[1]", "other")]


def builder_of(hops: int, folder: File) -> Builder:
    """A built bundle with the weights of all steps."""
    recipe = Training(steps=STEPS[-1], batch=4, val_size=4, log_every=1, checkpoints=str(STEPS[1]))
    task = Retrieval(n_hops=hops, order="deepest_first")
    shape = Architecture(n_layers=hops + 1, n_heads=1, d_model=16, d_head=16)
    run = train(Config(task, shape, recipe), folder, threads=1, compile="off")
    builder = Builder([run.path], which="all")
    [part] = builder.parts
    part.searched = STEPS[-1]  # nothing would be found
    builder.build()
    evaluator = Evaluator(run.model, run.task.sample(64, 0))
    part.entry["circuit"] = {
        "step": STEPS[-1],
        "words": "Layer 0 joins the two tokens of every fact. The query then hops.",
        "verdict": "circuit",
        "reason": "",
        "threshold": 0.2,
        "losses": {name: {"mean": 0.1, "low": 0.1, "high": 0.1, "n": 64} for name in ("live", "model", "null")},
        "paths": [described(path, evaluator, run.task.null_pattern) for path in circuit_paths(hops)],
    }
    part.find_decoders(STEPS[-1])
    part.entry["learnt"] = {
        hop: {"status": "seen", "step": STEPS[2], "after": STEPS[1], "by": STEPS[2], "falls": 1}
        for hop in run.task.hop_names
    }
    for number, step in enumerate(STEPS):
        grown(part, step, number / (len(STEPS) - 1), set(circuit_paths(hops)))
    part.entry["tour"] = tour_of(part.entry)
    builder.publish("", complete=True)
    return builder


def described(path: Path, evaluator: Evaluator, null: str) -> dict[str, Any]:
    """A path as circuit.json has it; what silencing it costs is measured."""
    cost = float(evaluator.accounts([Silenced(frozenset({path}), null)])[0].losses.mean())
    return {
        **path.as_dict(),
        "strength": 0.9,
        "removal_loss": 0.4,
        "silenced_loss": cost,
        "hypothesis": "",
        "bits": None,
    }


def grown(part: Any, step: int, share: float, circuit: set[Path]) -> None:
    """The circuit's paths grow; half-way some others are strong, which pass."""
    place = f"{part.identity}/{step}/strengths"
    passing = {path for n, path in enumerate(part.seen.paths) if n % 29 == 0}
    values = [
        share if path in circuit else 0.7 if path in passing and 0 < share < 1 else 0.1 for path in part.seen.paths
    ]
    part.blocks[place] = Block.of(numpy.array(values, numpy.float32))


def page_of_hops(hops: int, folder: File) -> str:
    """The page's address."""
    builder = builder_of(hops, folder / f"run-{hops}")
    builder.build = lambda: builder.bundle  # type: ignore[method-assign]
    export(builder, folder / f"hops-{hops}.html")
    return (folder / f"hops-{hops}.html").as_uri()

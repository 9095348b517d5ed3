"""The page's engine from Python: a case is a model, sequences and changes; Node answers with the engine's own code."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path as File
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from torch import Tensor

from hopscope.circuits.evaluator import AsIs, Change, Hard, Kept, Silenced
from hopscope.circuits.units import Unit
from hopscope.explorer.scoring import scoring
from hopscope.explorer.sequences import bits
from hopscope.models.transformer import Transformer
from hopscope.problem.paths import Path
from hopscope.problem.relations import Relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import Batch, VectorTask
from tests.circuits.frozen import Frozen

EXPLORER = File(__file__).parents[2] / "explorer"


def need_node() -> None:
    """Skips where Node, or what the page is built with, is missing; in CI that is a failure."""
    lacking = None
    if shutil.which("node") is None:
        lacking = "Node 20 is not installed"
    elif not (EXPLORER / "node_modules").is_dir():
        lacking = "the page's build is not installed: npm ci --prefix explorer"
    if lacking and os.environ.get("HOPSCOPE_NO_SKIPS"):
        pytest.fail(lacking)
    if lacking:
        pytest.skip(lacking)


@cache
def commands() -> File:
    """A folder with the engine's commands, bundled once."""
    need_node()
    folder = mkdtemp(prefix="engine-")
    subprocess.run(["node", EXPLORER / "parity.mjs", folder], check=True, cwd=EXPLORER)
    return File(folder)


def printed(command: str, cases: Sequence[dict[str, Any]]) -> Any:
    """What one of the commands prints of some cases."""
    file = commands() / f"cases-{os.getpid()}.json"
    file.write_text(json.dumps(cases))
    done = subprocess.run(["node", commands() / f"{command}.mjs", file], capture_output=True, text=True)
    file.unlink()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask(
    changes: Sequence[dict[str, Any]] = (),
    sizes: Sequence[int] = (),
    paths: Sequence[Path] = (),
    rows: Sequence[int] = (),
    n: int | None = None,
) -> dict[str, Any]:
    """What the engine is asked under changes: losses on so many sequences with strengths of paths, and single rows."""
    asked = {"changes": list(changes), "sizes": list(sizes), "paths": [p.as_dict() for p in paths], "rows": list(rows)}
    return asked if n is None else {**asked, "n": n}


def case(
    model: Transformer, batch: Batch, asks: Sequence[dict[str, Any]], *, half: bool = False, **more: Any
) -> dict[str, Any]:
    """A model, sequences, and what is asked; `half`: weights in float16; `plain`: without WebAssembly."""
    rule = scoring(batch.task)
    assert rule is not None
    return {
        "plain": False,
        "shape": shape(model, batch),
        "scoring": asdict(rule),
        "weights": {name: coded(value.half() if half else value) for name, value in model.state_dict().items()},
        "batch": sequences(batch),
        "asks": list(asks),
        **more,
    }


def answers(*cases: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What the engine answers to cases: of each ask `scores`, `looks` and `times`."""
    return printed("parity", cases)


def shape(model: Transformer, batch: Batch) -> dict[str, Any]:
    """`Shape` of explorer/src/engine/types.ts."""
    found, task = model.architecture, batch.task
    code = found.code(task.inputs_carry_position)
    return {
        "n_layers": found.n_layers,
        "n_heads": found.n_heads,
        "d_model": found.d_model,
        "d_head": found.head_width,
        "d_mlp": found.mlp_width if found.mlp else 0,
        "layer_norm": found.layer_norm,
        "causal": found.causal,
        "attention": {"name": found.rule.name()},
        "positions": {"name": code.name(), **code.as_dict()},
        "tokens": model.b_E is None,
        "d_input": len(model.W_E),
        "d_output": model.W_U.shape[1],
        "n_positions": len(model.mask),
    }


def sequences(batch: Batch) -> dict[str, Any]:
    """`Batch` of explorer/src/engine/types.ts."""
    task = batch.task
    asking = range(batch.inputs.shape[1])[task.query_positions]
    named = {}
    if isinstance(task, VectorTask):
        named = {"candidates": coded(task.candidates(batch.draw)), "asked": coded(task.asked(batch.draw))}
    return {
        "n": len(batch),
        "n_positions": batch.inputs.shape[1],
        "inputs": coded(batch.inputs),
        "queries": {"start": asking.start, "end": asking.stop},
        "targets": coded(batch.targets),
        "roles": list(batch.searched.names),
        "chain": coded(batch.searched.chain, torch.int16),
        **related(batch.searched),
        "ideal_over": task.ideal_over,
        **named,
    }


def related(roles: Roles) -> dict[str, Any]:
    """Relations and what stands in them, where there are any."""
    if not isinstance(roles, Relations):
        return {}
    return {"attended": list(roles.matches), "matches": coded(torch.from_numpy(bits(roles)), torch.uint8)}


def coded(values: Tensor, kind: torch.dtype | None = None) -> dict[str, Any]:
    """An array as JSON: whole numbers as int32, others as they are."""
    if kind is None:
        kind = values.dtype if values.is_floating_point() else torch.int32
    array = values.detach().to(kind).contiguous().numpy()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


# Changes in the engine's words ---------------------------------------------------------------------------------------


def worded(change: Change) -> list[dict[str, Any]]:
    """A change of the circuits' evaluator, in the engine's words."""
    match change:
        case AsIs():
            return []
        case Silenced():
            return [{"kind": "silenced", "units": units(change.units), "null": change.null}]
        case Kept():
            identity = units(change.identity)
            return [{"kind": "kept", "units": units(change.units), "null": change.null, "identity": identity}]
        case Frozen():
            return [{"kind": "frozen", "units": units(change.units), "null": change.null}]
        case Hard():
            paths = [{"path": path.as_dict(), "weight": weight} for path, weight in change.paths.items()]
            return [{"kind": "by hand", "paths": paths, "null": change.null}]
    raise TypeError(f"no words for {change}")


def units(given: Sequence[Unit] | frozenset[Unit]) -> list[dict[str, Any]]:
    """Rows and paths as the engine takes them."""
    return [vars(unit) for unit in sorted(given, key=str)]

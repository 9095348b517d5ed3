"""The steps of a tour through training, whose weights an exported file holds so that the model can run at them."""

from __future__ import annotations

from typing import Any

from hopscope.problem.paths import Path

#: Up to this share of the step at which the first hop is learnt, losses are taken to be on the plateau.
PLATEAU = 0.75
#: The index of the first stop whose weights are held; nothing is learnt before it.
FIRST_RUN = 2


def tour_of(run: dict[str, Any]) -> list[int] | None:
    """The steps of the six stops: start, plateau, pairs join, first hop, last hop, trained.

    Args:
        run: the entry of a run in a manifest (`hopscope.explorer.bundle`), with measured checkpoints.

    Returns:
        Six steps; a file holds the weights of the last four. None without a circuit, or with fewer than two hops.
    """
    steps = [one["step"] for one in run["checkpoints"] if one["state"] == "ready"]
    paths = (run["circuit"] or {}).get("paths", [])
    if not paths or not steps or len(run["task"]["hop_names"]) < 2:
        return None
    learnt = [one["step"] for one in run["learnt"].values() if one["step"] is not None]
    first, last = (min(learnt), max(learnt)) if learnt else (steps[-1], steps[-1])
    plateau = [step for step in steps if step < PLATEAU * first]
    return [
        steps[0],
        plateau[-1] if plateau else steps[0],
        after(steps, pairs_join(run)),
        after(steps, first),
        after(steps, last),
        steps[-1],
    ]


def pairs_join(run: dict[str, Any]) -> float:
    """The step at which a path of the circuit that joins the two tokens of a fact first passes one half."""
    joining = [Path.from_dict(path) for path in run["circuit"]["paths"]]
    joining = [path for path in joining if path.query.startswith("value") and path.key.startswith("key")]
    onsets = [run["onsets"].get(str(path), {"status": "never", "step": None}) for path in joining]
    steps = [0.0 if one["status"] == "already" else one["step"] for one in onsets]
    return min((step for step in steps if step is not None), default=0.0)


def after(steps: list[int], step: float) -> int:
    """The first checkpoint at or after a step, or the last one."""
    return next((one for one in steps if one >= step), steps[-1])

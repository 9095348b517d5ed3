"""Which models the page's own engine can run; all others are computed by Python.

The engine (`explorer/src/engine/`) implements hopscope's `Transformer` with some attention variants and position codes.
It gets the shape of a model, and its parameters under their PyTorch names.
"""

from __future__ import annotations

from hopscope.core import catalogue
from hopscope.explorer.scoring import scoring
from hopscope.models.base import Model
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Task

#: The variants that the engine implements, by file name; `explorer/src/engine/types.ts` has the same list.
ATTENTION = ("softmax", "linear", "kv_shift")
POSITIONS = ("input", "learned", "none", "rotary", "relative")


def fallback(model: Model, task: Task) -> str | None:
    """The reason why the page's engine cannot run a model, as a sentence; None if it can."""
    if type(model) is not Transformer:
        return f"The page computes the project's Transformer alone; this is a {type(model).__name__}."
    shape = model.architecture
    for kind, rule, known in (
        ("attention", shape.rule, ATTENTION),
        ("positions", shape.code(task.inputs_carry_position), POSITIONS),
    ):
        if not ours(kind, rule, known):
            return f"The page does not compute {kind} {rule}; it knows {', '.join(known)}."
    if scoring(task) is None:
        return f"The page knows squared errors and cross-entropies; the losses of {task.name()} are of another kind."
    return None


def ours(kind: str, rule: object, known: tuple[str, ...]) -> bool:
    """Whether a variant has one of these names and is hopscope's own, not a plug-in."""
    return any(type(rule) is catalogue.find(f"models.{kind}", name) for name in known)

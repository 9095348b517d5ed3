"""What the page's own engine computes, and what it is told of a model; all else is computed by Python.

The engine (`explorer/src/engine/`) is the project's `Transformer` with some rules of attention and position codes. It
takes a model by its shape and its parameters under their PyTorch names.
"""

from __future__ import annotations

from hopscope.core import catalogue
from hopscope.explorer.scoring import scoring
from hopscope.models.base import Model
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Task

#: Variants by file name that the engine has; `explorer/src/engine/types.ts` lists the same.
ATTENTION = ("softmax", "linear", "kv_shift")
POSITIONS = ("input", "learned", "none", "rotary", "relative")


def fallback(model: Model, task: Task) -> str | None:
    """Why the page cannot run a model by itself, in a sentence; None: it can."""
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
    """Whether a variant is one of the library's own files of these names."""
    return any(type(rule) is catalogue.find(f"models.{kind}", name) for name in known)

"""hopscope: a laboratory for multi-hop retrieval in transformers.

>>> import hopscope
>>> run = hopscope.load("runs/demo")  # doctest: +SKIP
>>> batch = run.task.sample(64)  # doctest: +SKIP
>>> outputs, cache = run.model(batch.inputs, cache=True)  # doctest: +SKIP

Names are imported when they are first used, so that what needs no PyTorch starts without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hopscope.core.environment import package_version

if TYPE_CHECKING:
    from hopscope.configuration.config import Config, Training
    from hopscope.core.settings import BadInput
    from hopscope.explorer.opening import explore
    from hopscope.live.borrowed import wrap
    from hopscope.live.compare import Comparison, SavedCircuit, compare, load_circuit
    from hopscope.live.emergence import FoundEmergence, find_emergence
    from hopscope.live.find import FoundCircuit, find_circuit
    from hopscope.live.language import FoundHeads, FoundHop, find_heads, find_hop
    from hopscope.models.transformer import Architecture, Cache, Transformer
    from hopscope.problem.oracle import Fact, Problem
    from hopscope.runs.run import Run, load
    from hopscope.tasks.base import Batch, Task
    from hopscope.training.loop import train

__version__ = package_version()

__all__ = [
    "Architecture",
    "BadInput",
    "Batch",
    "Cache",
    "Comparison",
    "Config",
    "Fact",
    "FoundCircuit",
    "FoundEmergence",
    "FoundHeads",
    "FoundHop",
    "Problem",
    "Run",
    "SavedCircuit",
    "Task",
    "Training",
    "Transformer",
    "compare",
    "explore",
    "find_circuit",
    "find_emergence",
    "find_heads",
    "find_hop",
    "load",
    "load_circuit",
    "train",
    "wrap",
]

#: Where each of them lives.
HOMES = {
    "configuration.config": ("Config", "Training"),
    "live.borrowed": ("wrap",),
    "live.compare": ("Comparison", "SavedCircuit", "compare", "load_circuit"),
    "live.emergence": ("FoundEmergence", "find_emergence"),
    "live.find": ("FoundCircuit", "find_circuit"),
    "live.language": ("FoundHeads", "FoundHop", "find_heads", "find_hop"),
    "models.transformer": ("Architecture", "Cache", "Transformer"),
    "problem.oracle": ("Fact", "Problem"),
    "runs.run": ("Run", "load"),
    "core.settings": ("BadInput",),
    "explorer.opening": ("explore",),
    "tasks.base": ("Batch", "Task"),
    "training.loop": ("train",),
}


def __getattr__(name: str) -> Any:
    """A public name, from the module that it lives in."""
    for home, names in HOMES.items():
        if name in names:
            globals()[name] = getattr(import_module(f"hopscope.{home}"), name)
            return globals()[name]
    raise AttributeError(f"module 'hopscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

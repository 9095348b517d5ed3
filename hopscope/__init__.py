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
    from hopscope.configuration.config import Config as Config, Training as Training
    from hopscope.core.settings import BadInput as BadInput
    from hopscope.explorer.opening import explore as explore
    from hopscope.live.borrowed import wrap as wrap
    from hopscope.live.compare import (
        Comparison as Comparison,
        SavedCircuit as SavedCircuit,
        compare as compare,
        load_circuit as load_circuit,
    )
    from hopscope.live.emergence import FoundEmergence as FoundEmergence, find_emergence as find_emergence
    from hopscope.live.find import FoundCircuit as FoundCircuit, find_circuit as find_circuit
    from hopscope.live.language import (
        FoundHeads as FoundHeads,
        FoundHop as FoundHop,
        find_heads as find_heads,
        find_hop as find_hop,
    )
    from hopscope.models.transformer import Architecture as Architecture, Cache as Cache, Transformer as Transformer
    from hopscope.problem.oracle import Fact as Fact, Problem as Problem
    from hopscope.runs.run import Run as Run, load as load
    from hopscope.tasks.base import Batch as Batch, Task as Task
    from hopscope.training.loop import train as train

__version__ = package_version()

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
__all__ = [name for names in HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    """Import a public name, on its first use, from the module that defines it."""
    for home, names in HOMES.items():
        if name in names:
            globals()[name] = getattr(import_module(f"hopscope.{home}"), name)
            return globals()[name]
    raise AttributeError(f"module 'hopscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

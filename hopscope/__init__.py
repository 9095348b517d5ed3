"""hopscope: a laboratory for multi-hop retrieval in transformers.

>>> import hopscope
>>> run = hopscope.load("runs/demo")  # doctest: +SKIP
>>> batch = run.task.sample(64)  # doctest: +SKIP
>>> outputs, cache = run.model(batch.inputs, cache=True)  # doctest: +SKIP
"""

from hopscope.configuration import Config, Training
from hopscope.environment import package_version
from hopscope.models.transformer import Architecture, Cache, Transformer
from hopscope.problem import Fact, Problem
from hopscope.runs import Run, load
from hopscope.settings import BadInput
from hopscope.tasks.base import Batch, Task
from hopscope.training import train

__version__ = package_version()

__all__ = [
    "Architecture",
    "BadInput",
    "Batch",
    "Cache",
    "Config",
    "Fact",
    "Problem",
    "Run",
    "Task",
    "Training",
    "Transformer",
    "load",
    "train",
]

"""Lower bounds of the memory that a run needs, known before anything is written.

They are lower bounds, so that nothing that would fit is refused. A model is built without storage (PyTorch's `meta`
device), so that one of any size is counted in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from hopscope.configuration.config import Config
from hopscope.configuration.freezing import parse_frozen
from hopscope.core.memory import memory_free
from hopscope.core.settings import BadInput
from hopscope.interventions.clamps import parse_clamps
from hopscope.models.base import Shape
from hopscope.models.transformer import Architecture
from hopscope.tasks.base import Task

GIB = 1 << 30
COPIES = 4  # of every weight: itself, its gradient, and two moments of AdamW
KEPT_WIDTHS = 6  # numbers of d_model per layer and position kept for gradients: streams, norms, q, k, v, z
KEPT_PATTERNS = 2  # scores and attention patterns


@dataclass(frozen=True)
class Demand:
    """What a run, or a search for its circuit, needs at least.

    Attributes:
        parameters: number of parameters of the model.
        weights: bytes of the parameters, and in training of their gradients and the optimizer's state.
        activations: bytes of one step's batch, or of the validation set, in the forward pass; for a search, bytes of
            all attention patterns that it keeps.
        examples: bytes of the finite training set, or of the sequences that are searched on.
    """

    parameters: int
    weights: int
    activations: int
    examples: int

    @property
    def memory(self) -> int:
        """Bytes in all."""
        return self.weights + self.activations + self.examples

    def in_words(self) -> str:
        parts = {"weights and optimizer": self.weights, "activations": self.activations, "examples": self.examples}
        listing = ", ".join(f"{value / GIB:.1f} for {name}" for name, value in parts.items() if value >= GIB / 10)
        return f"{gib(self.memory)} of memory{f' ({listing})' if listing else ''}"

    def refuse(self, what: str, mend: str, times: int = 1) -> None:
        """Raise BadInput, with the advice `mend`, if `times` of these at once need more memory than is free."""
        if (free := memory_free()) is not None and times * self.memory > free:
            each = f"{times} times " if times > 1 else ""
            raise BadInput(f"{what} needs at least {each}{self.in_words()}, and {gib(free)} are free; {mend}")


def gib(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / (1 << 20):.1f} MiB"


def parameters_of(config: Config) -> dict[str, int]:
    """The size of each parameter of the configuration's model, by name."""
    with torch.device("meta"):
        model = config.parts["model"].build(config.task)  # type: ignore[attr-defined]
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def demand(config: Config, sizes: dict[str, int] | None = None) -> Demand:
    """What training a configuration needs at least. `sizes` are those of its parameters, if known."""
    shape, training, task = config.model, config.training, config.task
    total = sum((parameters_of(config) if sizes is None else sizes).values())
    here = task.n_positions
    of_layer, read = numbers_of(shape, task)
    forwards = (training.batch * (of_layer * shape.n_layers + read), training.val_size * (2 * of_layer + read))
    examples = training.examples * here * (task.d_input or 2)
    return Demand(total, 4 * COPIES * total, 4 * max(forwards), 4 * examples)


def numbers_of(shape: Shape, task: Task) -> tuple[int, int]:
    """How many numbers a layer keeps per sequence, and how many the model's inputs and outputs have."""
    here = task.n_positions
    mlp = shape.d_model if shape.mlp else 0
    of_layer = here * (KEPT_WIDTHS * shape.d_model + mlp) + KEPT_PATTERNS * shape.n_heads * here**2
    return of_layer, here * (task.d_input or 1) + here * task.d_output


def demand_of_search(shape: Shape, task: Task, sequences: Iterable[int], parameters: int = 0) -> Demand:
    """What a search for a circuit of paths needs at least: it keeps every head's patterns on all sequences."""
    here, together = task.n_positions, sum(sequences)
    patterns = shape.n_layers * shape.n_heads * here**2
    return Demand(parameters, 4 * parameters, 4 * together * patterns, 4 * together * here * (task.d_input or 1))


def demand_of_components(shape: Shape, task: Task, sequences: Iterable[int], parameters: int = 0) -> Demand:
    """What a search for a circuit of components needs at least: it keeps every output and its replacement."""
    sources = 1 + shape.n_layers * (shape.n_heads + shape.mlp)
    numbers = sum(sequences) * task.n_positions
    kept = 2 * numbers * sources * shape.d_model
    return Demand(parameters, 4 * parameters, 4 * kept, 4 * numbers * (task.d_input or 1))


def check_search(shape: Shape, task: Task, sequences: Iterable[int], options: str) -> None:
    """Raise BadInput for sets of sequences that do not fit; `options` names the options that make them smaller."""
    demand_of_search(shape, task, sequences).refuse("this search", f"make {options} smaller")


def check_together(configs: Sequence[Config], at_once: int = 1) -> int:
    """Raise BadInput unless each run fits, and the `at_once` largest together; returns the bytes of the latter.

    Any runs may coincide, so the largest ones are added up.
    """
    kinds = [repr(replace(c, training=c.training.but(seed=0, seed_init=None, seed_data=None))) for c in configs]
    known: dict[str, int] = {}
    for kind, config in zip(kinds, configs, strict=True):
        if kind not in known:
            check(config)
            known[kind] = demand(config).memory
    largest = sorted((known[kind] for kind in kinds), reverse=True)[:at_once]
    if len(largest) > 1 and (free := memory_free()) is not None and sum(largest) > free:
        raise BadInput(
            f"{len(largest)} of these runs at once need at least {gib(sum(largest))} of memory, and {gib(free)} are "
            "free; train fewer at once"
        )
    return sum(largest)


def check(config: Config) -> None:
    """Raise BadInput for a new run that cannot be trained as it says; a stored one may have been.

    It does not fit into memory, freezes or starts weights that the model lacks, asks hops of other layers than it has,
    or has a clamp after its end.
    """
    sizes = parameters_of(config)
    demand(config, sizes).refuse("this run", "make the model, --batch, --val-size or --examples smaller")
    check_frozen(config, list(sizes))
    if isinstance(shape := config.model, Architecture):
        shape.code(config.task.inputs_carry_position).check(shape.own_layers)
    training = config.training
    if training.hop_every:
        check_hops_by_layer(config)
    for clamp in parse_clamps(training.clamps):
        if clamp.kind == "copied" and (training.deep_supervision or training.attention_entropy):
            raise BadInput(f"clamp '{clamp}' replaces the answers, so deep supervision or entropy would train others")
        if clamp.step > config.training.steps > 0:  # one that starts at the last step holds for the report
            raise BadInput(f"clamp '{clamp}' would begin after the end, which is at step {config.training.steps}")


def check_hops_by_layer(config: Config) -> None:
    """Raise BadInput unless the last hop alone is asked, after the last layer: validation and report read that one."""
    every, task, layers = config.training.hop_every, config.task, config.model.n_layers
    if task.asked_hops != slice(-1, None):
        raise BadInput(f"hop-every needs a task that asks the last hop alone, such as retrieval; got {task.name()}")
    if layers != (needed := every * (task.hardest + 1)):
        raise BadInput(f"with hops {task.hardest}, hop-every {every} needs exactly {needed} layers; got {layers}")


def check_frozen(config: Config, names: list[str]) -> None:
    """Raise BadInput for a frozen weight that the model lacks, and if nothing is left to train."""
    frozen, steps = parse_frozen(config.training.frozen), config.training.steps
    for each in frozen:
        if not any(each.holds(name, each.begin) for name in names):
            shown = ", ".join(dict.fromkeys(re.sub(r".*\.", "*.", name) for name in names))
            raise BadInput(f"no weight is called {each.pattern!r}, which is to be frozen; there are {shown}")
        if each.begin >= steps > 0:
            raise BadInput(f"{each.pattern!r} would be frozen when training ends, after {steps} steps")
    config.training.trained(names)

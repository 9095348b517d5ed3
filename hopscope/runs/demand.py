"""What a run asks of the machine, known before anything is written: weights, memory; and whether it can be met.

The numbers are lower bounds, so that nothing is refused that would fit. A model is built without storage (PyTorch's
`meta` device), so that one of any size is counted in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from hopscope.configuration.config import Config
from hopscope.configuration.freezing import parse_frozen
from hopscope.core.memory import memory_free
from hopscope.core.settings import BadInput
from hopscope.interventions.clamps import parse_clamps
from hopscope.models.base import Shape
from hopscope.tasks.base import Task

GIB = 1 << 30
COPIES = 4  # of every weight: itself, its gradient, and two moments of AdamW
KEPT_WIDTHS = 6  # times d_model that a layer keeps of a position for its gradients: streams, norms, q, k, v, z
KEPT_PATTERNS = 2  # scores and patterns


@dataclass(frozen=True)
class Demand:
    """What a run, or a search for its circuit, needs at least.

    Attributes:
        parameters: numbers of the model.
        weights: bytes for them, and in training for their gradients and the optimizer's state.
        activations: bytes that one step's batch, or the validation set, takes in the forward pass; of a search, those
            of all the patterns that it keeps.
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
        told = ", ".join(f"{value / GIB:.1f} for {name}" for name, value in parts.items() if value >= GIB / 10)
        return f"{gib(self.memory)} of memory{f' ({told})' if told else ''}"

    def refuse(self, what: str, mend: str, times: int = 1) -> None:
        """Raise BadInput if so many at once need more memory than is free."""
        if (free := memory_free()) is not None and times * self.memory > free:
            each = f"{times} times " if times > 1 else ""
            raise BadInput(f"{what} needs at least {each}{self.in_words()}, and {gib(free)} are free; {mend}")


def gib(size: int) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / (1 << 20):.1f} MiB"


def parameters_of(config: Config) -> dict[str, int]:
    """How many numbers each parameter of the configuration's model has, by its name."""
    with torch.device("meta"):
        model = config.parts["model"].build(config.task)  # type: ignore[attr-defined]
    return {name: parameter.numel() for name, parameter in model.named_parameters()}


def demand(config: Config, sizes: dict[str, int] | None = None) -> Demand:
    """What training a configuration needs at least."""
    shape, training, task = config.model, config.training, config.task
    total = sum((parameters_of(config) if sizes is None else sizes).values())
    here = task.n_positions
    of_layer, read = numbers_of(shape, task)
    forwards = (training.batch * (of_layer * shape.n_layers + read), training.val_size * (2 * of_layer + read))
    examples = training.examples * here * (task.d_input or 2)
    return Demand(total, 4 * COPIES * total, 4 * max(forwards), 4 * examples)


def numbers_of(shape: Shape, task: Task) -> tuple[int, int]:
    """How many numbers a layer keeps of a sequence, and how many are read and answered."""
    here = task.n_positions
    mlp = shape.d_model if shape.mlp else 0
    of_layer = here * (KEPT_WIDTHS * shape.d_model + mlp) + KEPT_PATTERNS * shape.n_heads * here**2
    return of_layer, here * (task.d_input or 1) + here * task.d_output


def demand_of_search(shape: Shape, task: Task, sequences: Iterable[int], parameters: int = 0) -> Demand:
    """What a search for a circuit needs at least, on sets of so many sequences: it keeps every head's patterns."""
    here, together = task.n_positions, sum(sequences)
    patterns = shape.n_layers * shape.n_heads * here**2
    return Demand(parameters, 4 * parameters, 4 * together * patterns, 4 * together * here * (task.d_input or 1))


def demand_of_components(shape: Shape, task: Task, sequences: Iterable[int], parameters: int = 0) -> Demand:
    """What a search for a circuit of components needs at least: it keeps what every one puts out, and what for it."""
    sources = 1 + shape.n_layers * (shape.n_heads + shape.mlp)
    numbers = sum(sequences) * task.n_positions
    kept = 2 * numbers * sources * shape.d_model
    return Demand(parameters, 4 * parameters, 4 * kept, 4 * numbers * (task.d_input or 1))


def check_search(shape: Shape, task: Task, sequences: Iterable[int], options: str) -> None:
    """Raise BadInput for sets of sequences that do not fit; `options` says which make them smaller."""
    demand_of_search(shape, task, sequences).refuse("this search", f"make {options} smaller")


def check_together(configs: Sequence[Config], at_once: int = 1) -> int:
    """Raise BadInput unless each can be trained, and as many at once as are to be; returns the bytes that they take.

    Which will meet is not known, so that these are the largest.
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
    """Raise BadInput for what cannot be trained as meant: too large, or of weights or steps that there are not."""
    sizes = parameters_of(config)
    demand(config, sizes).refuse("this run", "make the model, --batch, --val-size or --examples smaller")
    check_frozen(config, list(sizes))
    for clamp in parse_clamps(config.training.clamps):
        if clamp.step > config.training.steps > 0:  # at the very end it still holds for the report
            raise BadInput(f"clamp '{clamp}' would begin after the end, which is at step {config.training.steps}")


def check_frozen(config: Config, names: list[str]) -> None:
    """Raise BadInput for a frozen weight that the model lacks, and where nothing is left to train."""
    frozen, steps = parse_frozen(config.training.frozen), config.training.steps
    for one in frozen:
        if not any(one.holds(name, one.begin) for name in names):
            shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
            raise BadInput(f"no weight is called {one.pattern!r}, which is to be frozen; there are {shown}")
        if one.begin >= steps > 0:
            raise BadInput(f"{one.pattern!r} would be frozen when training ends, after {steps} steps")
    lasting = [one for one in frozen if one.begin == 0 and (one.until is None or one.until >= steps)]
    if steps and lasting and all(any(one.holds(name, 0) for one in lasting) for name in names):
        raise BadInput(f"nothing is left to train: {config.training.frozen!r} freezes every weight")

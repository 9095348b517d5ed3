"""A run's configuration: task, architecture, training recipe and seeds, fully resolved, and the hash that names it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hopscope.configuration.freezing import parse_frozen, turns
from hopscope.core import catalogue, outside
from hopscope.core.settings import BadInput, Settings, setting
from hopscope.core.storage import fingerprint
from hopscope.interventions.clamps import check_clamps, parse_clamps
from hopscope.measures.base import check_needs
from hopscope.models.base import Shape
from hopscope.models.transformer import Architecture
from hopscope.tasks.base import Task
from hopscope.tasks.base_sheets import ChainTask


@dataclass(frozen=True)
class Training(Settings):
    """How a model is trained. Defaults: docs/contracts.md and the paper's section 7.1."""

    steps: int = setting(2000, "number of optimizer steps; 0 leaves the model as initialised", low=0)
    batch: int = setting(128, "sequences per step", low=1)
    examples: int = setting(0, "size of a finite training set (paper: 2^20 = 1048576); 0: fresh data every step", low=0)
    lr: float = setting(1e-3, "learning rate, after warm-up and before decay", low=0)
    schedule: str = setting("constant", "shape of the decay at the end", choices=("constant", "linear", "cosine"))
    warmup: int = setting(0, "steps over which the learning rate rises linearly from 0", low=0)
    decay_steps: int | None = setting(
        None, "last steps, over which the learning rate falls to 0; default all after warm-up", low=1
    )
    weight_decay: float = setting(0.1, "the optimizer's weight decay; AdamW's and Muon's is decoupled", low=0)
    decay_on: str = setting("all", "which parameters decay", choices=("all", "matrices"))
    optimizer: str = setting(
        "adamw",
        "update rule, a file of training/optimizers: adamw, sgd(momentum=0.9), muon",
        since="0.2.0",
    )
    beta1: float = setting(0.9, "AdamW's first beta", low=0, high=0.9999999)
    beta2: float = setting(0.999, "AdamW's second beta", low=0, high=0.9999999)
    clip: float | None = setting(None, "greatest gradient norm; default no clipping", low=0)
    dtype: str = setting("float32", "of the matrix products; weights stay float32", choices=("float32", "bfloat16"))
    log_every: int = setting(20, "steps between rows of metrics.jsonl", low=1)
    val_size: int = setting(256, "sequences of the validation set", low=1)
    measures: str = setting("", "measures streamed into metrics.jsonl, separated by commas")
    checkpoints: str = setting("100", "when weights are kept: every k steps (100), or dense then sparse (10:300,100)")
    stop_below: float | None = setting(None, "stop early once every hop's validation loss is below this", low=0)
    stop_accuracy: float | None = setting(
        None,
        "stop early once at least this share (0-1) of validation answers is right; rows then hold the accuracy",
        low=0,
        high=1,
        since="0.2.0",
    )
    stop_flat: float | None = setting(
        None,
        "stop early once the validation loss has fallen by less than this (nats) over a fifth of all steps",
        low=0,
        since="0.2.0",
    )
    clamps: str = setting(
        "",
        "hold a path at its ideal pattern, or remove it, from a step on: 'L1H0 value[1]->key[1] ideal@200', or "
        "off@200; between two steps: ideal@0-200; several are separated by semicolons",
        flag="clamp",
        since="0.1.0",
    )
    deep_supervision: float = setting(
        0.0,
        "weight of the mean loss of the answers read from every earlier layer's residual stream, beside the last one's",
        low=0,
        since="0.2.0",
    )
    hop_every: int = setting(
        0,
        "ask hop h after (h + 1) times so many layers, the last after all, if the task asks the last alone; 0: do not",
        low=0,
        since="0.2.0",
    )
    attention_entropy: float = setting(
        0.0,
        "weight of attention's entropy (nats, mean over all rows of patterns) in the loss: it makes attention sparse",
        low=0,
        since="0.2.0",
    )
    frozen: str = setting(
        "",
        "weights that are not trained, by name, separated by commas; * stands for any part: 'W_E, *.b_O'; "
        "for some updates only: '*.W_QKV@0-200', until the 200th update",
        since="0.1.0",
    )
    seed: int = setting(0, "of initialisation and data", low=0)
    seed_init: int | None = setting(None, "of the initial weights; default the seed", low=0)
    seed_data: int | None = setting(None, "of the training data; default the seed", low=0)
    seed_eval: int = setting(0, "of validation and report data, which share nothing with training", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_schedule(self.checkpoints)
        parse_frozen(self.frozen)
        object.__setattr__(self, "optimizer", str(catalogue.chosen("training.optimizers", self.optimizer)))
        object.__setattr__(self, "clamps", "; ".join(map(str, parse_clamps(self.clamps))))  # the canonical text
        for name in self.measure_names:
            catalogue.find("measures", name)
        if self.examples and self.examples < self.batch:
            raise BadInput(f"examples must be 0 or at least the batch, {self.batch}; got {self.examples}")
        if self.clip == 0:
            raise BadInput("clip must be above 0, because at 0 nothing is learnt; leave it out for no clipping")
        if self.warmup + (self.decay_steps or 0) > self.steps:
            raise BadInput(
                f"warmup and decay-steps together must fit into steps, {self.steps}; got a warmup of {self.warmup}"
                + (f" and {self.decay_steps} decay-steps" if self.decay_steps else "")
            )

    def is_frozen(self, parameter: str, step: int) -> bool:
        """Whether the parameter of this name is frozen in the update after the first `step` updates."""
        return any(frozen.holds(parameter, step) for frozen in parse_frozen(self.frozen))

    def trained(self, parameters: Collection[str]) -> set[str]:
        """Which of the parameters are trained at some step. Raises BadInput if a step would train none."""
        ever: set[str] = set()
        for step in (turn for turn in turns(parse_frozen(self.frozen)) if turn < max(1, self.steps)):
            now = {name for name in parameters if not self.is_frozen(name, step)}
            if not now:
                raise BadInput(f"nothing is left to train at step {step}: {self.frozen!r} freezes every weight")
            ever |= now
        return ever

    @property
    def measure_names(self) -> list[str]:
        """Names of the measures that are logged to metrics.jsonl."""
        return [name.strip() for name in self.measures.split(",") if name.strip()]

    def is_kept(self, step: int) -> bool:
        """Whether the weights after `step` updates are kept; the first and the last always are."""
        if step in (0, self.steps):
            return True
        for every, until in parse_schedule(self.checkpoints):
            if until is None or step <= until:
                return step % every == 0
        return False


def parse_schedule(text: str) -> list[tuple[int, int | None]]:
    """`10:300,100` as [(10, 300), (100, None)]: every 10 steps until 300, then every 100. Raises BadInput."""
    parts = [part.split(":") for part in text.split(",")]
    if not all(len(part) <= 2 and all(n.strip().isdecimal() and int(n) for n in part) for part in parts):
        raise BadInput(f"checkpoints must be such as 100, or 10:300,100 (every 10 until 300, then 100); got {text!r}")
    schedule = [(int(part[0]), int(part[1]) if len(part) == 2 else None) for part in parts]
    ends = [until or math.inf for _, until in schedule]
    if any(end <= before for before, end in pairwise(ends)) or any(
        end < every for (every, _), end in zip(schedule, ends, strict=True)
    ):
        raise BadInput(f"a part of checkpoints keeps nothing: it ends too early or comes too late; got {text!r}")
    return schedule


#: The model of a configuration that names none: at first there was only one.
UNNAMED = "transformer"
#: Settings of a model that choose a variant, and the folders of those variants.
CHOICES = {"attention": "models.attention", "positions": "models.positions"}


def kept_name(folder: str, choice: str | None) -> str | None:
    """A choice, such as `rotary(base=100)`, with the name that its variant has in stored files."""
    if choice is None:
        return None
    name, opening, rest = choice.partition("(")
    return catalogue.on_disk(folder, name) + opening + rest


@dataclass(frozen=True)
class Config:
    """Everything that a run's numbers depend on, given a machine.

    Attributes:
        task: the data and what is asked.
        model: the model's shape.
        training: the training recipe.
        origin: where weights that were not trained here come from; `by` is the method, other entries its inputs.
    """

    task: Task
    model: Shape = field(default_factory=Architecture)
    training: Training = field(default_factory=Training)
    origin: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_clamps(parse_clamps(self.training.clamps), self.task, self.model)
        check_needs(self.training.measure_names, self.task, self.model)
        if self.training.hop_every:
            self.check_hops_by_layer()
        if self.training.attention_entropy:
            self.check_entropy()
        if self.training.examples and self.task.taught_by and self.task.taught_by.changes_difficulty:
            raise BadInput("a curriculum whose batches differ in difficulty needs fresh data; leave examples at 0")

    def check_hops_by_layer(self) -> None:
        """Raise BadInput unless hops can be read off layers; `hopscope.runs.demand` checks how many of both."""
        if not isinstance(self.task, ChainTask) or self.task.taught_by.asks_every_hop or self.training.deep_supervision:
            raise BadInput(
                "hop-every needs a task of chains with a curriculum that asks the last hop alone, such as mixture, and "
                "no deep-supervision"
            )

    def check_entropy(self) -> None:
        """Raise BadInput unless an entropy of attention is defined, and no loss is read off earlier layers."""
        if not (self.model.n_heads and self.model.normalised):
            raise BadInput("attention-entropy needs attention whose rows sum to 1, such as softmax")
        if self.training.hop_every or self.training.deep_supervision:
            raise BadInput("attention-entropy goes with no deep-supervision and no hop-every; leave them at 0")

    @property
    def parts(self) -> dict[str, Settings]:
        """Task, model and training, with every default that depends on another setting resolved."""
        model, training = self.model.resolved(self.task), self.training
        training = training.but(
            seed_init=training.seed if training.seed_init is None else training.seed_init,
            seed_data=training.seed if training.seed_data is None else training.seed_data,
        )
        return {"task": self.task, "model": model, "training": training}

    def as_dict(self) -> dict[str, Any]:
        """The content of `config.json`: fully resolved, so that no value depends on a default that may change."""
        return self.rendered({name: part.as_dict() for name, part in self.parts.items()})

    def rendered(self, values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The parts' values, with the names that variants have in stored files."""
        task = {"name": catalogue.on_disk("tasks", self.task.name()), **values["task"]}
        name = catalogue.on_disk("models", self.model.name())
        model = ({} if name == UNNAMED else {"name": name}) | dict(values["model"])
        for choice in CHOICES.keys() & model.keys():
            model[choice] = kept_name(CHOICES[choice], model[choice])
        return {**values, "task": task, "model": model, **({"origin": dict(self.origin)} if self.origin else {})}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """The inverse of `as_dict`; it also reads what earlier versions wrote. Raises BadInput for an unknown entry."""
        for part in ("task", "model", "training"):
            if not isinstance(values.get(part), Mapping):
                raise BadInput(f"a configuration must have task, model and training; {part} is missing")
        task = dict(values["task"])
        kind: type[Task] = catalogue.find("tasks", str(task.pop("name", "")))
        model = dict(values["model"])
        shape: type[Shape] = catalogue.find("models", str(model.pop("name", UNNAMED)))
        return cls(
            kind.from_stored(task),
            shape.from_stored(model),
            Training.from_stored(values["training"]),
            values.get("origin"),
        )

    @property
    def plugins(self) -> dict[str, str]:
        """The sha256 of files from outside that the run depends on, by name: of task, model, measures, data and so on.

        A configuration holds only their names, so that a file may be edited; each session records the hashes.
        """
        chosen = [catalogue.chosen(CHOICES[name], text) for name, text in self.choices.items()]
        chosen += [catalogue.chosen("training.optimizers", self.training.optimizer), self.task.taught_by]
        used = [type(one).__module__ for one in (self.task, self.model, *chosen)]
        used += [catalogue.module("measures", n).__name__ for n in self.training.measure_names]
        return outside.hashes(used) | dict(self.task.own_files)

    @property
    def choices(self) -> dict[str, str]:
        """The model's settings that choose a variant, by name."""
        values = self.model.as_dict()
        return {name: values[name] for name in CHOICES if values.get(name) is not None}

    @property
    def identity(self) -> str:
        """The run's name: twelve hexadecimal digits of the hash of its configuration."""
        identifying = {name: part.identifying() for name, part in self.parts.items()}
        return fingerprint(self.rendered(identifying))[:12]

    def difference(self, other: Config) -> str | None:
        """A sentence about the first setting in which another configuration differs; None if they are equal."""
        mine, theirs = self.as_dict(), other.as_dict()
        for part in {**mine, **theirs}:
            here_part, there_part = mine.get(part, {}), theirs.get(part, {})
            for name in {**here_part, **there_part}:
                if (here := here_part.get(name)) != (there := there_part.get(name)):
                    return f"{part} {name} is {there} there and {here} here"
        return None

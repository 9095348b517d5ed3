"""One training step: model, optimizer and data, all of which follow from the configuration and the step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.configuration.config import Config, Training
from hopscope.configuration.freezing import parse_frozen, turns
from hopscope.core import catalogue
from hopscope.core.allocator import keep_freed_memory
from hopscope.core.seeds import generator
from hopscope.interventions.clamps import Clamp, answers, held, in_force, parse_clamps
from hopscope.models.base import Cache, Model
from hopscope.tasks.base import Batch
from hopscope.training.optimizers.base import Optimizer


class Data:
    """The training data: one batch for each step, always the same."""

    def __init__(self, config: Config, device: torch.device):
        self.task = config.task.in_training
        self.training = config.training
        self.seed = config.as_dict()["training"]["seed_data"]
        self.device = device
        self.epoch: tuple[int, Tensor] | None = None
        self.examples = self.draw_examples() if self.training.examples else None

    def draw_examples(self) -> Batch:
        """The finite training set (paper: 2^20 or 262k examples), drawn in pieces that fit into memory."""
        total, piece = self.training.examples, 1 << 16
        draws = [
            self.task.draw(min(piece, total - start), generator(self.seed, "examples", start, self.device))
            for start in range(0, total, piece)
        ]
        return Batch(self.task, {name: torch.cat([draw[name] for draw in draws]) for name in draws[0]})

    def batch(self, step: int) -> Batch:
        """The batch of the update that follows `step` others."""
        if self.examples is not None:
            return self.examples.rows(self.shuffled(step))
        task = self.task.stage(step / self.training.steps, generator(self.seed, "difficulty", step))
        return task.sample(self.training.batch, generator(self.seed, "train", step, self.device))

    def shuffled(self, step: int) -> Tensor:
        """Indices of the examples of a step: each epoch has a new order and leaves out an incomplete last batch."""
        per_epoch = self.training.examples // self.training.batch
        epoch, within = divmod(step, per_epoch)
        if self.epoch is None or self.epoch[0] != epoch:
            random = generator(self.seed, "epoch", epoch, self.device)
            self.epoch = epoch, torch.randperm(self.training.examples, generator=random, device=self.device)
        return self.epoch[1][within * self.training.batch : (within + 1) * self.training.batch]


def learning_rate(training: Training, step: int) -> float:
    """The rate of the update that follows `step` others: linear warm-up, constant, then the schedule's decay to 0."""
    rate = training.lr
    if step < training.warmup:
        return rate * (step + 1) / training.warmup
    decay = training.decay_steps or training.steps - training.warmup
    left = training.steps - step  # steps to come, this one included
    if training.schedule == "constant" or left >= decay:
        return rate
    if training.schedule == "linear":
        return rate * left / decay
    return rate * 0.5 * (1 - math.cos(math.pi * left / decay))


def make_optimizer(model: Model, training: Training) -> torch.optim.Optimizer:
    """The optimizer of all parameters that are trained at some step. Raises BadInput if a step would train none."""
    named = dict(model.named_parameters())
    ever = training.trained(named)
    freeze(model, training, 0)
    kind: Optimizer = catalogue.chosen("training.optimizers", training.optimizer)
    return kind.make({name: parameter for name, parameter in named.items() if name in ever}, training)


def freeze(model: Model, training: Training, step: int) -> None:
    """Let gradients flow only to the weights that are trained in the update that follows `step` others."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not training.is_frozen(name, step))


def optimizer_tensors(model: Model, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state by parameter: `exp_avg.W_E`, `exp_avg_sq.W_E`, `step.W_E`, …"""
    return {
        f"{kind}.{name}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def restore_optimizer(model: Model, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load what `optimizer_tensors` returned."""
    for name, parameter in model.named_parameters():
        kinds = {key.partition(".")[0] for key in tensors if key.partition(".")[2] == name}
        optimizer.state[parameter] = {kind: tensors[f"{kind}.{name}"].to(parameter.device) for kind in sorted(kinds)}


def entropy(pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query"]:
    """Of every row, in nats, 0 to log(keys); no gradient flows to keys whose share is 0, as a mask leaves them."""
    share = pattern.float().clamp_min(torch.finfo(torch.float32).tiny)
    return torch.special.entr(share).sum(-1)


class Trainer:
    """A model, its optimizer and its data: all that one training step needs."""

    def __init__(self, config: Config, device: torch.device):
        keep_freed_memory()
        self.config, self.device = config, device
        seed = config.as_dict()["training"]["seed_init"]
        self.model: Model = config.model.build(config.task, generator(seed, "init")).to(device)
        self.optimizer = make_optimizer(self.model, config.training)
        self.data = Data(config, device)
        self.in_turn = config.model.takes_turns

    def thaw(self, step: int) -> None:
        """Freeze and thaw weights before the update that follows `step` others."""
        if len(turns(parse_frozen(self.config.training.frozen))) > 1:
            freeze(self.model, self.config.training, step)

    def clamps(self, step: int) -> tuple[Clamp, ...]:
        """The clamps in force after `step` updates."""
        return in_force(parse_clamps(self.config.training.clamps), step)

    def outputs(self, batch: Batch, clamps: Sequence[Clamp] = ()) -> Tensor:
        """The model's outputs, clamped or not, with matrix products in the training's dtype."""
        with self.products():
            return answers(clamps, self.model, batch)

    def loss(self, batch: Batch, clamps: Sequence[Clamp] = ()) -> Tensor:
        """The loss of a batch, plus under deep supervision the weighted mean loss of earlier layers' answers."""
        weight, task = self.config.training.deep_supervision, batch.task
        if every := self.config.training.hop_every:
            return self.loss_by_layer(batch, clamps, every)
        if share := self.config.training.attention_entropy:
            return self.loss_with_entropy(batch, clamps, share)
        if not weight:
            return task.loss(self.outputs(batch, clamps), batch.targets)
        outputs, early = self.read_off(batch, clamps, range(self.config.model.n_layers - 1))
        losses = [task.loss(each, batch.targets) for each in early]
        loss: Tensor = task.loss(outputs, batch.targets)
        return loss + weight * torch.stack(losses).mean() if losses else loss

    def loss_by_layer(self, batch: Batch, clamps: Sequence[Clamp], every: int) -> Tensor:
        """The mean loss of all hops, where hop k is read off after (k + 1) · `every` layers.

        If all blocks of `every` layers share their weights, each block is thus trained to follow one more hop. The
        first block joins the two tokens of each fact.
        """
        task = batch.task
        targets = task.but(curriculum="implicit").targets(batch.draw).chunk(task.hardest, -1)
        _, found = self.read_off(batch, clamps, [every * (hop + 1) - 1 for hop in range(1, task.hardest + 1)])
        return torch.stack([task.loss(*pair) for pair in zip(found, targets, strict=True)]).mean()

    def loss_with_entropy(self, batch: Batch, clamps: Sequence[Clamp], weight: float) -> Tensor:
        """The loss, plus the weighted mean entropy of attention: of every row, of every head, in every layer."""
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(self.config.model.n_layers)]
        with self.products():
            outputs, cache = self.cached(batch, clamps, names)
        loss: Tensor = batch.task.loss(outputs, batch.targets)
        return loss + weight * torch.stack([entropy(cache[name]).mean() for name in names]).mean()

    def read_off(self, batch: Batch, clamps: Sequence[Clamp], layers: Iterable[int]) -> tuple[Tensor, list[Tensor]]:
        """The model's answers, and the answers read off after some earlier layers."""
        names = [f"blocks.{layer}.hook_resid_post" for layer in layers]
        with self.products():
            outputs, cache = self.cached(batch, clamps, names)
            return outputs, [self.model.read_off(cache[name], batch.task.query_positions) for name in names]

    def cached(self, batch: Batch, clamps: Sequence[Clamp], names: Sequence[str]) -> tuple[Tensor, Cache]:
        """The model's outputs, and activations by name."""
        replace = held(clamps, self.model, batch)
        outputs: Tensor
        outputs, cache = self.model(batch.inputs, at=batch.task.query_positions, replace=replace, cache=names)
        return outputs, cache

    def products(self) -> torch.autocast:
        """Context in which matrix products have the training's dtype."""
        low = self.config.training.dtype == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=low)

    def step(self, step: int) -> Tensor:
        """One update, after `step` others; returns the loss before it."""
        training = self.config.training
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(training, step)
        self.thaw(step)
        batch = self.data.batch(step)
        if self.in_turn:
            self.model.begin_update(step, len(batch), generator(self.data.seed, "update", step, self.device))
        loss = self.loss(batch, self.clamps(step))
        loss.backward()
        if self.in_turn:
            self.model.end_update(step)
        if training.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), training.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

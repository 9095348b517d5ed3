"""Training: one loop, every number of which follows from the configuration, the step and the machine.

A batch is a function of (seed, step), so a run that was killed at any moment and started again ends with the bits
of one that was not. What the loop writes is in `hopscope.runs.run`.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from hopscope.configuration.config import Config, Training
from hopscope.configuration.freezing import parse_frozen, turns
from hopscope.core import catalogue, environment
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.interventions.clamps import Clamp, in_force, parse_clamps, replacements
from hopscope.measures.base import Observation
from hopscope.models.base import Model
from hopscope.runs.evaluation import REPORT_SIZE, evaluate
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope.training.optimizers.base import Optimizer

AVERAGED_STEPS = 100  # the paper's final loss is a mean over the last 100 steps (section 7.1)

#: Steps after which compiling has paid for itself: it costs some 10 s, and saves a share of each step.
COMPILE_PAYS_FLOPS = 1e13
#: Operations of a step above which compiled bfloat16 was faster on a CPU (docs/performance.md).
COMPILE_GAINS_FLOPS = 1e11


#: Why training stops before its end: by SIGINT, by SIGTERM, or because `should_stop` said so.
Reason = Literal["interrupted", "terminated", "stopped"]


class Interrupted(KeyboardInterrupt):
    """Training was stopped from outside, after a checkpoint; the same command goes on.

    Attributes:
        run: which, and at which `step`.
        reason: by whom or what.
        members: how many runs were trained together, `run` the first of them.
    """

    def __init__(self, run: Run, step: int, reason: Reason, members: int = 1):
        among = f", {members} members," if members > 1 else ""
        super().__init__(f"{reason}{among} at step {step}; the same command goes on from there ({run.path})")
        self.run, self.step, self.reason, self.members = run, step, reason, members

    @property
    def asked(self) -> bool:
        """Whether `should_stop` said so, as when a budget is spent; else it was a signal."""
        return self.reason == "stopped"


class Watcher(Protocol):
    """Someone who is told how training goes: a progress bar, a mirror. It never changes the run."""

    def begin(self, config: Config, step: int) -> None: ...
    def stepped(self, step: int) -> None: ...
    def logged(self, row: Mapping[str, Any]) -> None: ...
    def end(self) -> None: ...


class Data:
    """The training data: for every step one batch, the same whenever it is asked for."""

    def __init__(self, config: Config, device: torch.device):
        self.task = config.task
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
        """The batch of the step after `step` updates."""
        if self.examples is not None:
            return self.examples.rows(self.shuffled(step))
        task = self.task.stage(step / self.training.steps, generator(self.seed, "difficulty", step))
        return task.sample(self.training.batch, generator(self.seed, "train", step, self.device))

    def shuffled(self, step: int) -> Tensor:
        """Which examples a step sees: every pass through the set is in a new order; an incomplete batch is left out."""
        per_epoch = self.training.examples // self.training.batch
        epoch, within = divmod(step, per_epoch)
        if self.epoch is None or self.epoch[0] != epoch:
            random = generator(self.seed, "epoch", epoch, self.device)
            self.epoch = epoch, torch.randperm(self.training.examples, generator=random, device=self.device)
        return self.epoch[1][within * self.training.batch : (within + 1) * self.training.batch]


def learning_rate(training: Training, step: int) -> float:
    """The rate of the step after `step` updates: linear warm-up, then constant, then the schedule's decay to 0."""
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
    """The training's optimizer. Parameters that are frozen throughout are left out."""
    stretches = [step for step in turns(parse_frozen(training.frozen)) if step < max(1, training.steps)]
    trained = {step: {n for n, _ in model.named_parameters() if not training.is_frozen(n, step)} for step in stretches}
    for step, names in trained.items():
        if not names:
            raise BadInput(
                f"frozen must leave some weight to train; got {training.frozen!r}, which at step {step} does not"
            )
    ever = set().union(*trained.values())
    parameters = {n: p for n, p in model.named_parameters() if n in ever}
    freeze(model, training, 0)
    kind: Optimizer = catalogue.chosen("training.optimizers", training.optimizer)
    return kind.make(parameters, training)


def freeze(model: Model, training: Training, step: int) -> None:
    """Let gradients go to the weights that are trained in the update after `step` others, and to no more."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not training.is_frozen(name, step))


def optimizer_tensors(model: Model, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state under the parameters' names: `exp_avg.W_E`, `exp_avg_sq.W_E`, `step.W_E`, …"""
    return {
        f"{kind}.{name}": value
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def restore_optimizer(model: Model, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    for name, parameter in model.named_parameters():
        kinds = {key.partition(".")[0] for key in tensors if key.partition(".")[2] == name}
        optimizer.state[parameter] = {kind: tensors[f"{kind}.{name}"].to(parameter.device) for kind in sorted(kinds)}


@dataclass
class Trainer:
    """A model, its optimizer and its data: all that one step of training needs."""

    config: Config
    device: torch.device
    model: Model = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    data: Data = field(init=False)

    def __post_init__(self) -> None:
        seed = self.config.as_dict()["training"]["seed_init"]
        self.model = self.config.model.build(self.config.task, generator(seed, "init")).to(self.device)
        self.optimizer = make_optimizer(self.model, self.config.training)
        self.data = Data(self.config, self.device)

    def compile(self) -> None:
        """Compile what takes the model's time."""
        self.model.compile_parts()

    def thaw(self, step: int) -> None:
        """Freeze and thaw what the training says, before the update after `step` others."""
        if len(turns(parse_frozen(self.config.training.frozen))) > 1:
            freeze(self.model, self.config.training, step)

    def clamps(self, step: int) -> tuple[Clamp, ...]:
        """The clamps that hold after `step` updates."""
        return in_force(parse_clamps(self.config.training.clamps), step)

    def outputs(self, batch: Batch, clamps: Sequence[Clamp] = ()) -> Tensor:
        """The answers of the model, perhaps clamped, with matrix products in the training's dtype."""
        replace = replacements(clamps, batch, self.config.model)
        with self.products():
            return self.model(batch.inputs, at=batch.task.query_positions, replace=replace)

    def loss(self, batch: Batch, clamps: Sequence[Clamp] = ()) -> Tensor:
        """The loss of a batch, and with deep supervision also that of answers read off every earlier layer."""
        weight, task = self.config.training.deep_supervision, batch.task
        if not weight:
            return task.loss(self.outputs(batch, clamps), batch.targets)
        names = [f"blocks.{layer}.hook_resid_post" for layer in range(self.config.model.n_layers - 1)]
        replace = replacements(clamps, batch, self.config.model)
        with self.products():
            outputs, cache = self.model(batch.inputs, at=task.query_positions, replace=replace, cache=names)
            early = [self.model.read_off(cache[name], task.query_positions) for name in names]
        losses = [task.loss(answers, batch.targets) for answers in early]
        loss: Tensor = task.loss(outputs, batch.targets)
        return loss + weight * torch.stack(losses).mean() if losses else loss

    def products(self) -> torch.autocast:
        """Matrix products in the training's dtype."""
        low = self.config.training.dtype == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=low)

    def step(self, step: int) -> Tensor:
        """One update, the one after `step` others; returns the loss before it."""
        training = self.config.training
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(training, step)
        self.thaw(step)
        loss = self.loss(self.data.batch(step), self.clamps(step))
        loss.backward()
        if training.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), training.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def train(
    config: Config,
    folder: Path | str,
    *,
    device: str = "auto",
    threads: int | None = None,
    compile: Literal["auto", "on", "off"] = "auto",
    watchers: tuple[Watcher, ...] = (),
    should_stop: Callable[[], bool] = lambda: False,
    experiment: str | None = None,
) -> Run:
    """Train to the end, from wherever the folder's run stands, and return the finished run.

    Args:
        config: what to train; a folder that holds another configuration is refused.
        folder: where the run is, or shall be.
        device: `auto`, `cpu` or `cuda`.
        threads: CPU threads; they belong to the bits of a run. None: as many as PyTorch takes.
        compile: `auto` compiles where it pays: on a GPU, or for large steps in bfloat16, with enough work to come.
        watchers: told of every step and row.
        should_stop: asked after every step; if true, training saves and raises Interrupted.
        experiment: whose run it is: where its file is from outside, the session records its sha256.

    Raises:
        BadInput: the folder holds another run, or another process writes it, or the loss is no number any more.
        Damaged: no checkpoint in the folder can be trusted.
        CannotSave: the disk is full or may not be written; the previous checkpoint is whole.
        Interrupted: by SIGINT, SIGTERM or `should_stop`, after saving.
    """
    where = environment.choose_device(device)
    run = Run.create(folder, config)
    if run.done:
        run.compare_plugins()
        return run
    if threads is not None:
        torch.set_num_threads(threads)
    with run.writing(), graceful_signals() as caught:
        if run.done:  # another process finished it just before it let go of the lock
            return run
        session = Session(run, config, where, compile, watchers, experiment)
        try:
            session.go(lambda: caught() or ("stopped" if should_stop() else None))
        finally:
            for watcher in watchers:
                watcher.end()
    return Run(folder)


class Session:
    """One stretch of a run's training, from a checkpoint (or nothing) to the end or an interruption."""

    def __init__(
        self,
        run: Run,
        config: Config,
        device: torch.device,
        compile: str,
        watchers: tuple[Watcher, ...],
        experiment: str | None = None,
        **about: Any,
    ) -> None:
        self.run, self.config, self.watchers = run, config, watchers
        self.trainer = Trainer(config, device)
        self.step, self.spent = self.resume()
        self.over = False
        compiled = self.decide_to_compile(compile)
        if compiled:
            self.trainer.compile()
        described = environment.describe(device, compiled, plugins=config.plugins) | about
        run.begin_session(described, self.step, experiment)
        seed, size = config.training.seed_eval, config.training.val_size
        self.validation = config.task.sample(size, generator(seed, "validation", 0, device))
        self.began = time.monotonic()

    def resume(self) -> tuple[int, float]:
        """Restore the newest whole checkpoint; returns its step and the seconds spent until then."""
        checkpoint = self.run.newest()
        self.run.rewind(checkpoint.metrics_bytes if checkpoint else 0, checkpoint and checkpoint.metrics_sha256)
        if checkpoint is None:
            return 0, 0.0
        self.run.forget_after(checkpoint.step)
        self.trainer.model.load_state_dict(checkpoint.model, strict=True)
        restore_optimizer(self.trainer.model, self.trainer.optimizer, checkpoint.optimizer)
        return checkpoint.step, checkpoint.seconds

    def decide_to_compile(self, wish: str) -> bool:
        """Whether to compile; without a compiler training goes on eagerly, and says so in one sentence."""
        training, on_gpu = self.config.training, self.trainer.device.type == "cuda"
        flops = 6 * self.trainer.model.n_parameters * training.batch * self.config.task.n_positions  # of a step
        gains = on_gpu or (training.dtype == "bfloat16" and flops > COMPILE_GAINS_FLOPS)
        pays = gains and flops * training.steps > COMPILE_PAYS_FLOPS  # not of the rest: a resumed run decides alike
        if wish == "off" or (wish == "auto" and not pays):
            return False
        if not on_gpu and not environment.has_compiler():
            print("hopscope: no C++ compiler was found, so training runs uncompiled", file=sys.stderr)
            return False
        return True

    def go(self, interrupted: Callable[[], Reason | None]) -> None:
        """The loop."""
        self.begin()
        while not self.over:
            self.advance(self.trainer.step(self.step))
            if (reason := interrupted()) and not self.over:
                self.save()
                raise Interrupted(self.run, self.step, reason)
        self.run.finish(self.report())

    def begin(self) -> None:
        """Tell the watchers, and keep the model as initialised."""
        for watcher in self.watchers:
            watcher.begin(self.config, self.step)
        if not self.run.steps:
            self.log(None)
            self.save()
        self.over = self.step >= self.config.training.steps or self.solved()

    def advance(self, loss: Tensor) -> None:
        """Take note of an update that was made: a row, a checkpoint, whatever is due; and whether it was the last."""
        training = self.config.training
        self.step += 1
        self.over = self.step == training.steps
        if self.over or self.step % training.log_every == 0:
            self.log(loss)
            self.over |= self.solved()
        if self.over or training.is_kept(self.step):
            self.save()
        for watcher in self.watchers:
            watcher.stepped(self.step)

    @torch.no_grad()
    def log(self, loss: Tensor | None) -> None:
        """Validate and write a row of metrics.jsonl."""
        task, batch, clamps = self.config.task, self.validation, self.trainer.clamps(self.step)
        with torch.compiler.set_stance("force_eager"):
            outputs = self.trainer.outputs(batch, clamps)
            seen = Observation(self.trainer.model, batch, replacements(clamps, batch, self.config.model))
            measured = {n: catalogue.find("measures", n)(seen) for n in self.config.training.measure_names}
        hops = task.hop_losses(outputs, batch.targets).nan_to_num().tolist()
        train_loss, val_loss = None if loss is None else float(loss), float(task.loss(outputs, batch.targets))
        if not math.isfinite(val_loss) or not math.isfinite(train_loss or 0.0):
            raise BadInput(
                f"the loss is no finite number at step {self.step}: training diverged; "
                "choose a smaller --lr, or a --clip"
            )
        row = {
            "step": self.step,
            "train_loss": train_loss,
            "val_loss": val_loss,
            "hop_losses": dict(zip(task.hop_names, hops, strict=True)),
            **({"measures": measured} if measured else {}),
        }
        if self.config.training.stop_accuracy is not None:
            row["accuracy"] = float(task.correct(outputs, batch).float().mean())
        self.run.log(row)
        self.last_row = row
        for watcher in self.watchers:
            watcher.logged(row)

    def solved(self) -> bool:
        """Whether the newest row allows to stop early."""
        bound, right = self.config.training.stop_below, self.config.training.stop_accuracy
        if (bound is None and right is None) or not (rows := self.run.rows):
            return False
        fallen = bound is not None and all(loss < bound for loss in rows[-1]["hop_losses"].values())
        return fallen or (right is not None and rows[-1]["accuracy"] >= right)

    def seconds(self) -> float:
        """Wall time spent on this run, all sessions together."""
        return self.spent + time.monotonic() - self.began

    def save(self) -> None:
        """A checkpoint of this very step, unless it stands already."""
        if self.step not in self.run.steps or self.run.step != self.step:
            trainer = self.trainer
            optimizer = optimizer_tensors(trainer.model, trainer.optimizer)
            self.run.save(self.step, trainer.model.state_dict(), optimizer, self.seconds())

    def report(self) -> dict[str, Any]:
        """Final numbers, on data that neither training nor validation has seen; with clamps also without them."""
        training, clamps = self.config.training, self.trainer.clamps(self.step)
        measured = (self.trainer.model, self.config.task, REPORT_SIZE, training.seed_eval, "report")
        with torch.compiler.set_stance("force_eager"):
            final = evaluate(*measured, clamps)
            if clamps:
                final["unclamped"] = evaluate(*measured)
        last = [r["val_loss"] for r in self.run.rows if r["step"] > self.step - AVERAGED_STEPS]
        return {
            "step": self.step,
            **final,
            "n": REPORT_SIZE,
            "val_loss_last_100": sum(last) / len(last),
            "parameters": self.trainer.model.n_parameters,
            "seconds": round(self.seconds(), 3),
            "identity": self.config.identity,
            "environment": self.run.sessions[-1]["environment"],
        }


@contextmanager
def graceful_signals() -> Iterator[Callable[[], Reason | None]]:
    """While training, SIGINT and SIGTERM ask for a stop after the step at hand; a second one is not waited for."""
    seen: list[Reason] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def note(number: int, _: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append("interrupted" if number == signal.SIGINT else "terminated")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: seen[0] if seen else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""The training loop: every number in it follows from the configuration, the step and the machine.

A batch is a function of (seed, step). So a run that was killed at any moment and started again ends with the same bits
as one that was not. What the loop writes to disk is in `hopscope.runs.run`.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from hopscope.configuration.config import Config
from hopscope.core import environment
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, check_choice
from hopscope.interventions.clamps import held
from hopscope.measures.base import Observation, numbers_of
from hopscope.runs.evaluation import REPORT_SIZE, evaluate
from hopscope.runs.run import Run
from hopscope.training.convergence import is_flat
from hopscope.training.trainer import Trainer, optimizer_tensors, restore_optimizer

COMPILE = ("auto", "on", "off")
AVERAGED_STEPS = 100  # the paper's final loss is a mean over the last 100 steps (section 7.1)

#: Floating-point operations of a run above which compiling pays: it costs some 10 s, and saves a share of each step.
COMPILE_PAYS_FLOPS = 1e13
#: Floating-point operations of a step above which compiled bfloat16 is faster on a CPU (docs/performance.md).
COMPILE_GAINS_FLOPS = 1e11


#: Why training stops early: by SIGINT, by SIGTERM, or because `should_stop` returned true.
Reason = Literal["interrupted", "terminated", "stopped"]


class Interrupted(KeyboardInterrupt):
    """Training was stopped from outside, after a checkpoint or its end; the same command continues it.

    Attributes:
        run: the run, stopped at `step`; it is done if that was its last.
        reason: what stopped it.
        members: how many runs were trained together; `run` is the first of them.
    """

    def __init__(self, run: Run, step: int, reason: Reason, members: int = 1):
        among = f", {members} members," if members > 1 else ""
        then = "training is finished" if run.done else "the same command goes on from there"
        super().__init__(f"{reason}{among} at step {step}; {then} ({run.path})")
        self.run, self.step, self.reason, self.members = run, step, reason, members

    @property
    def asked(self) -> bool:
        """Whether `should_stop` stopped it, as when a budget is spent, rather than a signal."""
        return self.reason == "stopped"


class Watcher(Protocol):
    """Is notified of training's progress, as a progress bar or a mirror is. It never changes the run."""

    def begin(self, config: Config, step: int) -> None: ...
    def stepped(self, step: int) -> None: ...
    def logged(self, row: Mapping[str, Any]) -> None: ...
    def end(self) -> None: ...


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
    """Train to the end, from the newest checkpoint in the folder if there is one, and return the finished run.

    Args:
        config: what to train; a folder that holds another configuration is refused.
        folder: the run's folder; it is made if it is missing.
        device: `auto`, `cpu` or `cuda`.
        threads: CPU threads, on which a run's bits depend. None: PyTorch's default.
        compile: `auto` compiles where it pays: on a GPU, or for large steps in bfloat16, with enough steps to come.
        watchers: notified of every step and every row.
        should_stop: called after every step; if true, training saves a checkpoint and raises Interrupted.
        experiment: the experiment that the run belongs to; if it comes from outside, its sha256 is recorded.

    Raises:
        BadInput: the folder holds another run, another process writes to it, the loss is not finite, or no answer
            counts for `stop_accuracy`.
        Damaged: no checkpoint in the folder is intact.
        CannotSave: the disk is full or cannot be written to; the previous checkpoint is intact.
        Interrupted: by SIGINT, SIGTERM or `should_stop`, after saving; by a signal also if the run is then finished.
    """
    where = environment.choose_device(device)
    environment.check_threads(threads)
    check_choice("compile", compile, COMPILE)
    run = Run.create(folder, config)
    if run.done:
        run.compare_plugins()
        return run
    if threads is not None:
        torch.set_num_threads(threads)
    with run.writing(), graceful_signals() as caught:
        if run.done:  # another process finished it just before it released the lock
            return run
        session = Session(run, config, where, compile, watchers, experiment)
        try:
            session.go(lambda: caught() or ("stopped" if should_stop() else None))
        finally:
            for watcher in watchers:
                watcher.end()
        if reason := caught():  # it came in the last step or later, and is meant for whatever would follow
            raise Interrupted(run, session.step, reason)
    return Run(folder)


class Session:
    """One session of a run's training: from a checkpoint, or from nothing, to the end or an interruption."""

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
        rows = run.rows
        self.last_row: dict[str, Any] | None = next(reversed(rows), None)
        self.losses: dict[int, float] = {row["step"]: row["val_loss"] for row in rows}
        self.over = False
        compiled = self.decide_to_compile(compile)
        if compiled:
            self.trainer.model.compile_parts()
        kernels = self.trainer.model.kernels(config.training.dtype)
        described = environment.describe(device, compiled, kernels, config.plugins) | about
        run.begin_session(described, self.step, experiment)
        seed, size = config.training.seed_eval, config.training.val_size
        self.validation = config.task.sample(size, generator(seed, "validation", 0, device))
        self.began = time.monotonic()

    def resume(self) -> tuple[int, float]:
        """Restore the newest intact checkpoint; returns its step and the seconds spent until then."""
        checkpoint = self.run.newest()
        self.run.rewind(checkpoint.metrics_bytes if checkpoint else 0, checkpoint and checkpoint.metrics_sha256)
        if checkpoint is None:
            return 0, 0.0
        self.run.forget_after(checkpoint.step)
        self.trainer.model.load_state_dict(checkpoint.model, strict=True)
        restore_optimizer(self.trainer.model, self.trainer.optimizer, checkpoint.optimizer)
        return checkpoint.step, checkpoint.seconds

    def decide_to_compile(self, wish: str) -> bool:
        """Whether to compile. Without a C++ compiler training runs uncompiled, after a message on stderr."""
        training, on_gpu = self.config.training, self.trainer.device.type == "cuda"
        flops = 6 * self.trainer.model.n_parameters * training.batch * self.config.task.n_positions  # of a step
        gains = on_gpu or (training.dtype == "bfloat16" and flops > COMPILE_GAINS_FLOPS)
        pays = gains and flops * training.steps > COMPILE_PAYS_FLOPS  # all steps: a resumed run decides alike
        if wish == "off" or (wish == "auto" and not pays):
            return False
        if not on_gpu and environment.cpp_compiler() is None:
            print("hopscope: no C++ compiler was found, so training runs uncompiled", file=sys.stderr)
            return False
        return True

    def go(self, interrupted: Callable[[], Reason | None]) -> None:
        """The training loop."""
        self.begin()
        while not self.over:
            self.advance(self.trainer.step(self.step))
            if (reason := interrupted()) and not self.over:
                self.save()
                raise Interrupted(self.run, self.step, reason)
        self.run.finish(self.report())

    def begin(self) -> None:
        """Notify the watchers, and save the model as initialised if the run is new."""
        for watcher in self.watchers:
            watcher.begin(self.config, self.step)
        if not self.run.steps:
            self.log(None)
            self.save()
        self.over = self.step >= self.config.training.steps or self.solved()

    def advance(self, loss: Tensor) -> None:
        """Record an update: write a row and a checkpoint if they are due, and see whether it was the last."""
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
        """Validate and append a row to metrics.jsonl. Raises BadInput if the loss is not finite."""
        task, batch, clamps = self.config.task, self.validation, self.trainer.clamps(self.step)
        with torch.compiler.set_stance("force_eager"):
            outputs = self.trainer.outputs(batch, clamps)
            seen = Observation(self.trainer.model, batch, held(clamps, self.trainer.model, batch))
            seen.outputs = outputs  # those of the row, under every clamp
            measured = {n: numbers_of(n, seen) for n in self.config.training.measure_names}
        train_loss, val_loss = None if loss is None else float(loss), float(task.loss(outputs, batch.targets))
        if not math.isfinite(val_loss) or not math.isfinite(train_loss or 0.0):
            raise BadInput(
                f"the loss is not a finite number at step {self.step}: training diverged; "
                "choose a smaller --lr, or a --clip"
            )
        row = {
            "step": self.step,
            "train_loss": train_loss,
            "val_loss": val_loss,
            "hop_losses": task.by_hop(task.hop_losses(outputs, batch.targets)),
            **({"measures": measured} if measured else {}),
        }
        if self.config.training.stop_accuracy is not None:
            row["accuracy"] = accuracy = float(task.correct(outputs, batch).float().mean())
            if math.isnan(accuracy):
                raise BadInput("no answer of the validation set counts for --stop-accuracy; choose a larger --val-size")
        self.run.log(row)
        self.last_row, self.losses[self.step] = row, val_loss
        for watcher in self.watchers:
            watcher.logged(row)

    def solved(self) -> bool:
        """Whether the newest row satisfies `stop_below`, `stop_accuracy` or `stop_flat`."""
        training, row = self.config.training, self.last_row
        bound, right = training.stop_below, training.stop_accuracy
        if row is None:
            return False
        fallen = bound is not None and all(loss < bound for loss in row["hop_losses"].values())
        flat = training.stop_flat is not None and is_flat(self.losses, training.steps, training.stop_flat)
        return fallen or flat or (right is not None and row["accuracy"] >= right)

    def seconds(self) -> float:
        """Seconds of wall time spent on this run, in all sessions together."""
        return self.spent + time.monotonic() - self.began

    def save(self) -> None:
        """Save a checkpoint of the current step, unless there is one."""
        if self.step not in self.run.steps or self.run.step != self.step:
            trainer = self.trainer
            optimizer = optimizer_tensors(trainer.model, trainer.optimizer)
            self.run.save(self.step, trainer.model.state_dict(), optimizer, self.seconds())

    def report(self) -> dict[str, Any]:
        """The run's final numbers, on data of neither training nor validation; if clamped, also without clamps."""
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
    """SIGINT and SIGTERM request a stop after the current step; a second signal interrupts at once."""
    received: list[Reason] = []

    def note(number: int, _: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append("interrupted" if number == signal.SIGINT else "terminated")

    with signalled(note):
        yield lambda: received[0] if received else None


@contextmanager
def signalled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Call `handler` on SIGINT and SIGTERM within the context; in other threads than the main one do nothing."""
    heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)

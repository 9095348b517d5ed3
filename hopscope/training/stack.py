"""Many models at once: members of one shape are stacked, and one batched program steps them all.

A small model leaves most of a machine idle. Members may differ in seeds and learning rate. Each draws its own data, has
its own optimizer state, and is an ordinary run in an ordinary folder. Its numbers are those of a run trained alone,
except for the order of summation in a batched matrix product. The idea is `torch.func`'s model ensembling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from hopscope.configuration.config import Config, Training
from hopscope.core import environment
from hopscope.core.settings import BadInput, check_choice
from hopscope.core.storage import Damaged
from hopscope.runs.demand import demand
from hopscope.runs.run import Run
from hopscope.training.loop import COMPILE, Interrupted, Reason, Session, graceful_signals
from hopscope.training.optimizers.base import decaying
from hopscope.training.trainer import Trainer, learning_rate

#: Settings in which members of a stack may differ.
FREE = ("lr", "seed", "seed_init", "seed_data")


def train_many(
    configs: Sequence[Config],
    folders: Sequence[Path | str],
    *,
    device: str = "auto",
    threads: int | None = None,
    compile: Literal["auto", "on", "off"] = "auto",
    should_stop: Callable[[], bool] = lambda: False,
    experiment: str | None = None,
) -> list[Run]:
    """Train all members to the end, from their newest checkpoints, and return the finished runs in the given order.

    Args:
        configs: equal except for learning rate and seeds, and `stackable`.
        folders: each run's folder.
        device: `auto`, `cpu` or `cuda`.
        threads: CPU threads.
        compile: `auto` compiles on a GPU, where launching single kernels would limit the speed.
        should_stop: called after every step; if true, all members are saved and Interrupted is raised.
        experiment: the experiment that the runs belong to, as for `hopscope.train`.

    Raises:
        BadInput: the members cannot be stacked; and what `hopscope.train` raises for a single run.
        Interrupted: by SIGINT, SIGTERM or `should_stop`, after saving all members.
    """
    check(configs, folders)
    where = environment.choose_device(device)
    environment.check_threads(threads)
    check_choice("compile", compile, COMPILE)
    check_stack(configs)
    if threads is not None:
        torch.set_num_threads(threads)
    compiled = compile == "on" or (compile == "auto" and where.type == "cuda")
    runs = [Run.create(folder, config) for folder, config in zip(folders, configs, strict=True)]
    left = [(run, config) for run, config in zip(runs, configs, strict=True) if not run.done]
    with ExitStack() as stack:
        for run, _ in left:
            stack.enter_context(run.writing())
        left = [(run, config) for run, config in left if not run.done]  # another process may have finished one
        caught = stack.enter_context(graceful_signals())
        for abreast in lined_up(left):
            about: dict[str, Any] = {"experiment": experiment, "stacked": len(abreast), "compiled": compiled}
            sessions = [Session(run, config, where, "off", (), **about) for run, config in abreast]
            train_together(sessions, compiled, lambda: caught() or ("stopped" if should_stop() else None))
        if reason := caught():  # in the last step or later
            raise Interrupted(runs[0], runs[0].step, reason, len(runs))
    return [Run(folder) for folder in folders]


def check(configs: Sequence[Config], folders: Sequence[Path | str]) -> None:
    """Raise BadInput unless the members can be stacked."""
    if len({Path(folder).resolve() for folder in folders}) != len(configs):
        raise BadInput(f"every member needs a folder of its own; got {len(configs)} members and {len(folders)} folders")
    shapes = [shape(config) for config in configs]
    for config, other in zip(configs, shapes, strict=True):
        if not stackable(config):
            raise BadInput(
                "a run with frozen weights, clamps, deep supervision, hops by layer, attention's entropy in its loss, "
                "updates in turn, an optimizer that is not adamw, a curriculum that draws difficulties, or a model "
                "that does not say that it stacks cannot be stacked; train it alone"
            )
        for part, values in other.items():
            for name, value in values.items():
                if value != shapes[0][part].get(name):
                    raise BadInput(
                        f"members of a stack may differ in {', '.join(FREE)} alone; {name} is "
                        f"{shapes[0][part].get(name)!r} in one and {value!r} in another"
                    )


def check_stack(configs: Sequence[Config]) -> None:
    """Raise BadInput for members that do not fit into memory together: a stack trains them all at once."""
    if configs:
        demand(configs[0]).refuse("each member of this stack", "stack fewer, or make them smaller", len(configs))


def stackable(config: Config) -> bool:
    """Whether a run can be a member of any stack: its model says that it stacks, and nothing else sets it apart."""
    training = config.training
    within = training.deep_supervision or training.hop_every or training.attention_entropy
    taught = config.task.taught_by
    uneven = taught is not None and taught.changes_difficulty and taught.draws_difficulty  # lengths differ by seed
    alone = training.clamps or training.frozen or within or uneven or config.model.takes_turns
    return training.optimizer == "adamw" and config.model.stacks and not alone


def shape(config: Config) -> dict[str, Any]:
    """The part of a configuration that must be equal in a stack."""
    values = config.as_dict()
    return {**values, "training": {n: v for n, v in values["training"].items() if n not in FREE}}


def lined_up(left: Sequence[tuple[Run, Config]]) -> list[list[tuple[Run, Config]]]:
    """Members in groups that continue from the same step; each group is a stack, trained one after the other.

    A kill between two members' saves leaves some of them one checkpoint ahead; those go back to the
    checkpoint before. No member goes back further than that.
    """
    newest = {run.path: step_of(run) for run, _ in left}
    for run, _ in left:
        before = step_of(run, newest[run.path])
        if before != newest[run.path] and before in newest.values():
            run.forget_after(before)
            newest[run.path] = before
    key = lambda member: newest[member[0].path]  # noqa: E731
    return [list(group) for _, group in groupby(sorted(left, key=key), key=key)]


def step_of(run: Run, before: int | None = None) -> int:
    """The newest step that training can continue from, or the newest one before `before` (`before` if there is none).

    It is −1 for a run without checkpoints. Raises Damaged if there are some and none is intact.
    """
    if before is None:
        return -1 if (newest := run.newest()) is None else newest.step
    for step in reversed([step for step in run.steps if step < before]):
        try:
            return run.checkpoint(step).step
        except Damaged:
            continue
    return before


def train_together(sessions: Sequence[Session], compiled: bool, interrupted: Callable[[], Reason | None]) -> None:
    """Step all members together until each is over; a member that ends early leaves the stack, finished."""
    for session in sessions:
        session.begin()
    while True:
        for session in sessions:
            if session.over and not session.run.done:
                session.run.finish(session.report())
        if not (unfinished := [session for session in sessions if not session.over]):
            return
        stack = Stack([session.trainer for session in unfinished], compiled)
        while not any(session.over for session in unfinished):
            losses = stack.step(unfinished[0].step)
            for session, loss in zip(unfinished, losses, strict=True):
                session.advance(loss)
            if reason := interrupted():
                for session in unfinished:
                    session.save()
                if not all(session.over for session in unfinished):
                    raise Interrupted(unfinished[0].run, unfinished[0].step, reason, len(unfinished))
        stack.release()


class Stack:
    """Trainers whose weights and moments are slices of common tensors, so that one program updates them all.

    Args:
        trainers: of equal shape, at the same step. Until `release`, their parameters are views of the stack.
        compiled: whether to compile the forward pass of all members; on a GPU it is then one CUDA graph.
    """

    def __init__(self, trainers: Sequence[Trainer], compiled: bool = False):
        self.trainers = sorted(trainers, key=lambda trainer: trainer.config.training.lr)
        self.order = [self.trainers.index(trainer) for trainer in trainers]
        self.training: Training = self.trainers[0].config.training
        self.task = self.trainers[0].config.task
        self.skeleton = self.trainers[0].model
        members = [dict(trainer.model.named_parameters()) for trainer in self.trainers]
        self.buffers = dict(self.skeleton.named_buffers())
        self.stacked = {n: torch.stack([m[n].detach() for m in members]).requires_grad_() for n in members[0]}
        for name, whole in self.stacked.items():
            for parameter, part in zip((m[name] for m in members), whole.detach(), strict=True):
                parameter.data = part
        self.optimizer, self.parts = self.make_optimizer()
        self.shared = False
        self.forward = vmap(self.answers)
        if compiled:
            graphs = "reduce-overhead" if self.trainers[0].device.type == "cuda" else "default"
            self.forward = torch.compile(self.forward, mode=graphs)

    def make_optimizer(self) -> tuple[torch.optim.AdamW, list[tuple[str, slice, Tensor]]]:
        """AdamW over slices of members with one learning rate, starting from the members' own moments.

        The update is elementwise, so it is bit-identical to that of each member alone.
        """
        rates = [trainer.config.training.lr for trainer in self.trainers]
        slices = [slice(rates.index(rate), rates.index(rate) + rates.count(rate)) for rate in sorted(set(rates))]
        groups, parts, states = [], [], []
        for members in slices:
            training = self.trainers[members.start].config.training
            own: list[Tensor] = []
            for name, whole in self.stacked.items():
                part = whole.detach()[members].requires_grad_()
                own.append(part)
                parts.append((name, members, part))
                states.append([t.optimizer.state[t.model.get_parameter(name)] for t in self.trainers[members]])
            # The first dimension is the stack's. A group is updated by one kernel.
            groups += [each | {"lr": training.lr, "training": training} for each in decaying(own, training, 2)]
        optimizer = torch.optim.AdamW(groups, betas=(self.training.beta1, self.training.beta2), fused=True)
        for (_, _, part), state in zip(parts, states, strict=True):
            if state[0]:
                moments = {kind: torch.stack([one[kind] for one in state]) for kind in ("exp_avg", "exp_avg_sq")}
                optimizer.state[part] = {"step": state[0]["step"].clone(), **moments}
        return optimizer, parts

    def step(self, step: int) -> list[Tensor]:
        """Update every member after `step` updates; returns the losses before it, in the order of the trainers."""
        batches = [trainer.data.batch(step) for trainer in self.trainers]
        inputs = torch.stack([batch.inputs for batch in batches])
        low = self.training.dtype == "bfloat16"
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=low):
            outputs = self.forward(self.stacked, inputs)
        losses = [batch.task.loss(out, batch.targets) for batch, out in zip(batches, outputs, strict=True)]
        grads = torch.autograd.grad(torch.stack(losses).sum(), list(self.stacked.values()))
        if self.training.clip is not None:
            clip(grads, self.training.clip)
        gradients = dict(zip(self.stacked, grads, strict=True))
        for name, members, part in self.parts:
            part.grad = gradients[name][members].contiguous()  # the fused update ignores strides
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(group["training"], step)
        self.optimizer.step()
        self.share_moments()
        return [losses[place].detach() for place in self.order]

    def answers(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        """One member's outputs; `vmap` maps it over all members."""
        return functional_call(self.skeleton, (parameters, self.buffers), (inputs,), {"at": self.task.query_positions})

    def share_moments(self) -> None:
        """Make the state of each member's optimizer a view of the stacked moments, so that checkpoints hold it."""
        if self.shared:
            return
        for name, members, part in self.parts:
            state = self.optimizer.state[part]
            for place, trainer in enumerate(self.trainers[members]):
                own = trainer.optimizer.state[trainer.model.get_parameter(name)]
                own.update(step=state["step"], exp_avg=state["exp_avg"][place], exp_avg_sq=state["exp_avg_sq"][place])
        self.shared = True

    def release(self) -> None:
        """Give every member copies of its own weights and moments."""
        for trainer in self.trainers:
            for parameter in trainer.model.parameters():
                parameter.data = parameter.data.clone()
                state = trainer.optimizer.state[parameter]
                trainer.optimizer.state[parameter] = {kind: value.clone() for kind, value in state.items()}


def clip(gradients: Sequence[Tensor], greatest: float) -> None:
    """Scale every member's gradient in place so that its norm is at most `greatest`."""
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
    scale = (greatest / (torch.stack(squares).sum(0).sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))

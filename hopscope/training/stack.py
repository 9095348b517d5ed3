"""Many models at once: members of one shape, stacked, whose step is one batched program.

A small model leaves most of a machine idle. Members may differ in seeds and learning rate; each draws its own data, has
its own optimizer state, and is an ordinary run in an ordinary folder, as if it had been trained alone, but for the
order in which a batched matrix product adds up. The stack is the idea of `torch.func`'s model ensembling.
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
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged
from hopscope.runs.demand import demand
from hopscope.runs.run import Run
from hopscope.training.loop import Interrupted, Reason, Session, graceful_signals
from hopscope.training.trainer import Trainer, learning_rate

#: What members of a stack may differ in.
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
    """Train all members to the end, from wherever their folders stand, and return the finished runs in their order.

    Args:
        configs: equal but for learning rate and seeds, without clamps or frozen weights.
        folders: where each run is, or shall be.
        device: `auto`, `cpu` or `cuda`.
        threads: CPU threads.
        compile: `auto` compiles on a GPU, where launching kernels one by one would be the limit.
        should_stop: asked after every step; if true, all members are saved and Interrupted is raised.
        experiment: whose runs they are, as for `hopscope.train`.

    Raises:
        BadInput: the members cannot be stacked, and what `hopscope.train` raises for a single one.
        Interrupted: by SIGINT, SIGTERM or `should_stop`, after saving all members.
    """
    check(configs, folders)
    where = environment.choose_device(device)
    environment.check_threads(threads)
    check_stack(configs)
    if threads is not None:
        torch.set_num_threads(threads)
    compiled = compile == "on" or (compile == "auto" and where.type == "cuda")
    runs = [Run.create(folder, config) for folder, config in zip(folders, configs, strict=True)]
    left = [(run, config) for run, config in zip(runs, configs, strict=True) if not run.done]
    with ExitStack() as stack:
        for run, _ in left:
            stack.enter_context(run.writing())
        left = [(run, config) for run, config in left if not run.done]  # another may have finished one just now
        caught = stack.enter_context(graceful_signals())
        for abreast in lined_up(left):
            about: dict[str, Any] = {"experiment": experiment, "stacked": len(abreast), "compiled": compiled}
            sessions = [Session(run, config, where, "off", (), **about) for run, config in abreast]
            train_together(sessions, compiled, lambda: caught() or ("stopped" if should_stop() else None))
    return [Run(folder) for folder in folders]


def check(configs: Sequence[Config], folders: Sequence[Path | str]) -> None:
    """Raise BadInput unless the members can be stacked."""
    if len(set(map(str, folders))) != len(configs):
        raise BadInput(f"every member needs a folder of its own; got {len(configs)} members and {len(folders)} folders")
    shapes = [shape(config) for config in configs]
    for config, other in zip(configs, shapes, strict=True):
        if not stackable(config):
            raise BadInput(
                "a run with frozen weights, clamps, deep supervision, hops by layer, updates in turn or an optimizer "
                "that is not adamw cannot be stacked; train it alone"
            )
        for part, values in other.items():
            for name, value in values.items():
                if value != shapes[0][part].get(name):
                    raise BadInput(
                        f"members of a stack may differ in {', '.join(FREE)} alone; {name} is "
                        f"{shapes[0][part].get(name)!r} in one and {value!r} in another"
                    )


def check_stack(configs: Sequence[Config]) -> None:
    """Raise BadInput for members that do not fit into memory together: a stack trains all at once."""
    if configs:
        demand(configs[0]).refuse("each member of this stack", "stack fewer, or make them smaller", len(configs))


def stackable(config: Config) -> bool:
    """Whether a run can be a member of a stack at all."""
    training = config.training
    by_layer = training.deep_supervision or training.hop_every
    alone = training.clamps or training.frozen or by_layer or config.model.takes_turns
    return training.optimizer == "adamw" and not alone


def shape(config: Config) -> dict[str, Any]:
    """All of a configuration that must be equal in a stack."""
    values = config.as_dict()
    return {**values, "training": {n: v for n, v in values["training"].items() if n not in FREE}}


def lined_up(left: Sequence[tuple[Run, Config]]) -> list[list[tuple[Run, Config]]]:
    """Members that go on from the same step, together; the others are other stacks, trained after them.

    A kill between two members' saves leaves some one checkpoint ahead of their stack: those are put back by it. More
    than that is never given up for the sake of a common stack.
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
    """The newest step that training can go on from, or the newest earlier than one given (that one if there is none).

    A run that has no checkpoint stands at step −1. Raises Damaged if it has, and none is whole.
    """
    if before is None:
        return -1 if (found := run.newest()) is None else found.step
    for step in reversed([step for step in run.steps if step < before]):
        try:
            return run.checkpoint(step).step
        except Damaged:
            continue
    return before


def train_together(sessions: Sequence[Session], compiled: bool, interrupted: Callable[[], Reason | None]) -> None:
    """Step all members together until each is over; who is done earlier leaves the stack, finished."""
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
    """Trainers whose weights and moments are slices of common tensors, so that one program updates all of them.

    Args:
        trainers: of equal shape, at the same step. While they are stacked their parameters are views of the stack.
        compiled: whether to compile the pass through all members; on a GPU it is then one CUDA graph.
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
        """AdamW over slices of members with one learning rate, beginning with the members' own moments.

        The update is elementwise, so it is bit for bit that of each member alone.
        """
        rates = [trainer.config.training.lr for trainer in self.trainers]
        slices = [slice(rates.index(rate), rates.index(rate) + rates.count(rate)) for rate in sorted(set(rates))]
        groups, parts, states = [], [], []
        for members in slices:
            training = self.trainers[members.start].config.training
            decayed: dict[bool, list[Tensor]] = {True: [], False: []}  # of one group the update is one kernel
            for name, whole in self.stacked.items():
                part = whole.detach()[members].requires_grad_()
                decayed[training.decay_on == "all" or whole.ndim > 2].append(part)  # one dimension is the stack's
                parts.append((name, members, part))
                states.append(
                    [t.optimizer.state[dict(t.model.named_parameters())[name]] for t in self.trainers[members]]
                )
            groups += [
                {"params": few, "weight_decay": training.weight_decay * decays, "lr": training.lr, "training": training}
                for decays, few in decayed.items()
                if few
            ]
        optimizer = torch.optim.AdamW(groups, betas=(self.training.beta1, self.training.beta2), fused=True)
        for (_, _, part), state in zip(parts, states, strict=True):
            if state[0]:
                moments = {kind: torch.stack([one[kind] for one in state]) for kind in ("exp_avg", "exp_avg_sq")}
                optimizer.state[part] = {"step": state[0]["step"].clone(), **moments}
        return optimizer, parts

    def step(self, step: int) -> list[Tensor]:
        """One update of every member, the one after `step` others; returns the losses before it, in the given order."""
        batches = [trainer.data.batch(step) for trainer in self.trainers]
        inputs = torch.stack([batch.inputs for batch in batches])
        low = self.training.dtype == "bfloat16"
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=low):
            outputs = self.forward(self.stacked, inputs)
        losses = [batch.task.loss(out, batch.targets) for batch, out in zip(batches, outputs, strict=True)]
        slopes = torch.autograd.grad(torch.stack(losses).sum(), list(self.stacked.values()))
        if self.training.clip is not None:
            clip(slopes, self.training.clip)
        gradients = dict(zip(self.stacked, slopes, strict=True))
        for name, members, part in self.parts:
            part.grad = gradients[name][members].contiguous()  # the fused update does not look at strides
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(group["training"], step)
        self.optimizer.step()
        self.share_moments()
        return [losses[place].detach() for place in self.order]

    def answers(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        """One member's answers; `vmap` makes it all members'."""
        return functional_call(self.skeleton, (parameters, self.buffers), (inputs,), {"at": self.task.query_positions})

    def share_moments(self) -> None:
        """Let the members' own optimizers hold views of the stacked moments: what a checkpoint keeps."""
        if self.shared:
            return
        for name, members, part in self.parts:
            state = self.optimizer.state[part]
            for place, trainer in enumerate(self.trainers[members]):
                own = trainer.optimizer.state[trainer.model.get_parameter(name)]
                own.update(step=state["step"], exp_avg=state["exp_avg"][place], exp_avg_sq=state["exp_avg_sq"][place])
        self.shared = True

    def release(self) -> None:
        """Give every member its own copy again."""
        for trainer in self.trainers:
            for parameter in trainer.model.parameters():
                parameter.data = parameter.data.clone()
                state = trainer.optimizer.state[parameter]
                trainer.optimizer.state[parameter] = {kind: value.clone() for kind, value in state.items()}


def clip(gradients: Sequence[Tensor], greatest: float) -> None:
    """Scale every member's gradient, in place, to at most this norm."""
    squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
    scale = (greatest / (torch.stack(squares).sum(0).sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))

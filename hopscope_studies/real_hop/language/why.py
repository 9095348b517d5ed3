"""Why a model does not do two hops: is the first hop's answer at the query, is it in time, and would it be read?

Four measurements on the same facts (Biran et al., 2024, "Hopping too late", from which the last one is taken):

- *At the query*: probes and the logit lens (nostalgebraist, 2020) for x_1 and for the answer, layer by layer.
- *In time*: x_1's own stream, from a prompt that asks about x_1, is patched in at the query before each layer. Up to
  some layer the model then gives the right answer. That layer is the deadline for the first hop.
- *Read*: back-patching, in which the stream at the query after some layer is put in again before an earlier one, so
  that the layers in between are run twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput, Settings, setting
from hopscope.formulations.base import Formulation
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Layout
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import estimate
from hopscope.language.readings.base import Watch
from hopscope_studies.real_hop.language.asks import Asks, asks_of
from hopscope_studies.real_hop.language.machine import Machine

RIDGE = 1.0  # ridge strength, relative to the mean variance of a feature
POINTS = 15  # most layers at which something is patched in
GRID = 8  # layers of back-patching, as sources and as targets
CONTROLS = 10  # random sources of back-patching, and shufflings of the probes' labels


@dataclass(frozen=True)
class WhyStudy(Settings):
    """The extent of the measurements."""

    count: int = setting(
        48, "draws of facts, each asked about every chain; half to choose on, half to judge", low=8, high=2000
    )
    seed: int = setting(0, "of the facts and of everything random", low=0)


@dataclass(frozen=True)
class Two:
    """The same facts asked about x_0, two hops from the answer, and about x_1, one hop from it.

    Attributes:
        far: the model on the former questions.
        near: the model on the latter; each row has the same chain.
        bridge: the tokens that x_1 may be, as values in the facts; row candidate.
        which: the index of the right one; shape (row).
    """

    far: Machine
    near: Machine
    bridge: Tensor
    which: Tensor


def two_of(lens: Lens, far: Asks, near: Asks) -> Two:
    """Both sets of asks. Raises BadInput if their shapes differ."""
    if far.suffix.shape != near.suffix.shape or not torch.equal(far.prefix, near.prefix):
        raise BadInput("questions about x_0 and about x_1 differ in length in this model; choose equations")
    ids = far.ids
    tokens = torch.tensor(
        [
            next(int(ids[row, at]) for role, chain, at in held if role == "value[1]" and chain == asked_of(held))
            for row, held in enumerate(far.held)
        ]
    )
    bridge = tokens.unflatten(0, (-1, far.per_draw)).repeat_interleave(far.per_draw, 0)
    which = torch.arange(far.per_draw).repeat(len(far.prefix))
    return Two(Machine(lens, far), Machine(lens, near), bridge, which)


def asked_of(held: Sequence[tuple[str, int, int]]) -> int:
    """The chain that a row asks about."""
    return next(chain for role, chain, _ in held if role == "answer")


def why(opened: Opened, formulation: Formulation, layout: Layout, settings: WhyStudy, watch: Watch) -> dict[str, Any]:
    """All measurements, as in circuit.json. Raises BadInput for a model or questions that do not fit."""
    lens, half = Lens(opened), settings.count // 2
    watch(f"writing {settings.count} draws of facts, asked about x_0 and about x_1")
    far, near = (asks_of(lens.tokenizer, formulation, layout, settings.seed, settings.count, step) for step in (0, 1))
    choose, judge = (two_of(lens, far.part(*ends), near.part(*ends)) for ends in ((0, half), (half, settings.count)))
    watch("probes and the logit lens, layer by layer")
    found = {
        "asks": {"names": list(far.names), "tokens": list(far.tokens), "per_draw": far.per_draw},
        "answers": {"two_hops": answered(judge.far), "one_hop": answered(judge.near)},
        "lens": lens_rows(judge),
        "probes": probe_rows(choose, judge, settings.seed),
    }
    watch("handing in the first hop's answer, layer by layer")
    found["handed_in"] = handed_in(judge)
    watch("back-patching")
    return {**found, "back_patching": back_patching(choose, judge, settings.seed, watch)}


def answered(machine: Machine, logits: Tensor | None = None) -> dict[str, Any]:
    """The metric and the accuracy."""
    asks, logits = machine.asks, machine.clean.logits if logits is None else logits
    right = asks.by_draw((logits.argmax(1) == asks.right).float())
    return {"metric": estimate(asks.by_draw(asks.difference(logits))), "accuracy": estimate(right)}


# There ----------------------------------------------------------------------------------------------------------


def lens_rows(two: Two) -> list[dict[str, Any]]:
    """After every layer, at every token: the logit of x_1, and of the answer, minus the other candidates' mean."""
    machine, rows = two.far, []
    model = machine.lens.model
    aims = {"x_1": (two.bridge, two.which), "answer": (machine.asks.choices, machine.asks.right)}
    for layer, stream in enumerate(machine.clean.streams):
        with torch.no_grad():
            normed = model.model.norm(stream)
        for name, (candidates, which) in aims.items():
            logits = torch.einsum("rpd,rcd->rpc", normed, model.lm_head.weight[candidates])
            right = logits.gather(2, which[:, None, None].expand(-1, logits.shape[1], 1))[..., 0]
            margin = right - (logits.sum(2) - right) / (logits.shape[2] - 1)
            for position, token in enumerate(machine.asks.names):
                value = estimate(machine.asks.by_draw(margin[:, position]))
                rows.append({"what": name, "layer": layer, "token": token, **value})
    return rows


def probe_rows(train: Two, test: Two, seed: int) -> list[dict[str, Any]]:
    """The accuracy of ridge probes for x_1 and for the answer, at query and answer; and with shuffled labels.

    Classes are tokens, so a probe can generalise over facts.
    """
    rows = []
    first, last = 0, train.far.size - 1
    for what in ("x_1", "answer"):
        labels = [classes(two, what) for two in (train, test)]
        for position in (first, last):
            for layer in range(train.far.n_layers + 1):
                features = [two.far.clean.streams[layer][:, position] for two in (train, test)]
                right = ridge(features[0], labels[0], features[1]) == labels[1]
                guesses = []
                for draw in range(CONTROLS):
                    generator = torch.Generator().manual_seed(seed + 400 + draw)
                    shuffled = labels[0][torch.randperm(len(labels[0]), generator=generator)]
                    guesses.append(float((ridge(features[0], shuffled, features[1]) == labels[1]).float().mean()))
                value = estimate(test.far.asks.by_draw(right.float()))
                token = train.far.asks.names[position]
                rows.append({"what": what, "layer": layer, "token": token, **value, "shuffled": max(guesses)})
    return rows


def classes(two: Two, what: str) -> Tensor:
    """The token of x_1, or of the answer, for every row."""
    if what == "x_1":
        return two.bridge.gather(1, two.which[:, None])[:, 0]
    return two.far.asks.choices.gather(1, two.far.asks.right[:, None])[:, 0]


def ridge(x: Tensor, labels: Tensor, new: Tensor) -> Tensor:
    """Labels of new rows by ridge regression onto one-hot classes, in the dual form, because rows are few."""
    names = labels.unique()
    y = (labels[:, None] == names).float()
    centre, middle = x.mean(0), y.mean(0)
    scale = x.std(0).clamp(min=1e-6)
    a, b = (x - centre) / scale, (new - centre) / scale
    inner = a @ a.T + RIDGE * a.shape[1] * torch.eye(len(a))
    return names[(b @ a.T @ torch.linalg.solve(inner, y - middle) + middle).argmax(1)]


# In time --------------------------------------------------------------------------------------------------------


def handed_in(two: Two) -> list[dict[str, Any]]:
    """The answers if, before some layer, the stream at the query is replaced by that of the question about x_1."""
    rows = []
    for layer in range(0, two.far.n_layers, -(-two.far.n_layers // POINTS)):
        stream = two.far.clean.streams[layer].clone()
        stream[:, 0] = two.near.clean.streams[layer][:, 0]
        rows.append({"layer": layer, **answered(two.far, two.far.onward(stream, layer))})
    return rows


# Read -----------------------------------------------------------------------------------------------------------


def back_patching(choose: Two, judge: Two, seed: int, watch: Watch) -> dict[str, Any]:
    """The best pair of layers on one half of the facts, judged on the other, against streams of other facts."""
    n, step = choose.far.n_layers, -(-choose.far.n_layers // GRID)
    cells = []
    for to in range(0, 2 * n // 3, step):
        for source in range(to + step, n, step):
            watch(f"back-patching from behind layer {source - 1} to before layer {to}")
            logits = patched_back(choose.far, source, to, torch.arange(len(choose.far.asks)))
            cells.append({"from": source, "to": to, **answered(choose.far, logits)})
    best = max(cells, key=lambda cell: cell["metric"]["mean"])
    machine, random = judge.far, []
    for draw in range(CONTROLS):
        order = torch.randperm(len(machine.asks), generator=torch.Generator().manual_seed(seed + 500 + draw))
        logits = patched_back(machine, best["from"], best["to"], order)
        random.append(answered(machine, logits)["metric"]["mean"])
    logits = patched_back(machine, best["from"], best["to"], torch.arange(len(machine.asks)))
    return {
        "cells": cells,
        "best": {"from": best["from"], "to": best["to"]},
        "judged": answered(machine, logits),
        "other_rows": random,
    }


def patched_back(machine: Machine, source: int, to: int, rows: Tensor) -> Tensor:
    """The choices' logits if the query's stream before layer `to` is replaced by some rows' before a later layer."""
    stream = machine.clean.streams[to].clone()
    stream[:, 0] = machine.clean.streams[source][rows, 0]
    return machine.onward(stream, to)

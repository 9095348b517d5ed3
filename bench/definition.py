"""Models that fooled the definition of a circuit, drawn at random, and what must be said of each.

    python -m bench.definition --each 20 --others 2 --seed 0 --json bench/definition.json

Of `bench.adversaries` the circuits are found by trying. Here that is not enough: a route that the model never takes
suffices as well as the one that it takes. So each kind says by construction what must be told: which verdict, which
rows an accepted circuit must have, which paths it may not have, and what the words must or may not say. An accepted
circuit must also be minimal by trying (`bench.exhaustive`).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path as Files
from typing import Any, Literal

import torch
from torch import Tensor

from bench.adversaries import STRONG, Adversary, Drawn, Frame, frame
from bench.exhaustive import Trier, Units
from bench.hand_made import SHARP, Maker
from bench.verdicts import OURS, clocked, sets_of_others, table
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import discover
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.units import Row, row_of
from hopscope.circuits.words import paragraph
from hopscope.core.environment import code_version
from hopscope.models.base import Tap
from hopscope.models.base_layers import LayerNorm
from hopscope.problem.factsheet import Draw
from hopscope.problem.paths import Path
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.induction import Induction

Said = Literal["right", "wrong", "missed"]
REFUSED = ("partial", "none")


@dataclass(frozen=True)
class Truth:
    """What must be said of a model.

    Attributes:
        verdicts: of which one must be given.
        rows: that an accepted circuit must have, whole or by a path.
        asleep: paths that no accepted circuit may have.
        only: if given, all paths that may be told.
        says: words that must be among those on the circuit.
        never: words that may not.
        untrue: rules that may not be told, each of a row.
    """

    verdicts: tuple[str, ...] = ("circuit",)
    rows: frozenset[Row] = frozenset()
    asleep: frozenset[Path] = frozenset()
    only: frozenset[Path] | None = None
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    untrue: frozenset[tuple[Row, str]] = frozenset()


@dataclass(frozen=True)
class Posed(Adversary):
    """An adversary of which it is known what must be said.

    Attributes:
        truth: what must be said.
    """

    truth: Truth = Truth()


def posed(seed: int, kind: str, number: int) -> Posed:
    """One model; it depends on nothing but these three."""
    name = f"{seed}/{kind}/{number}"
    (model, task, size, about), truth = KINDS[kind](random.Random(name), number)
    return Posed(name, kind, model.eval(), task, size, {"task": f"{task.name()} {task.as_dict()}", **about}, truth)


def judged(made: Posed, circuit: Circuit, by_trying: bool = True) -> tuple[Said, str]:
    """Whether a circuit is told rightly, and if not, why; *wrong* only where what is no circuit is accepted.

    Args:
        made: a model.
        circuit: what the search says of it.
        by_trying: also try whether an accepted circuit is minimal, which takes longest.
    """
    if circuit.verdict == "circuit":
        identity = circuit.protocol["identity"] if by_trying else None
        if why := false(made, circuit.units, identity):
            return "wrong", why
    why = unsaid(made, circuit)
    return ("missed", why) if why else ("right", "")


def unsaid(made: Posed, circuit: Circuit) -> str:
    """What should be said of a model and is not, or the other way round; empty if nothing."""
    truth = made.truth
    if circuit.verdict not in truth.verdicts:
        return f"{circuit.verdict}, not {' or '.join(truth.verdicts)}: {circuit.reason}"
    words = paragraph(circuit, made.task)
    for text in truth.says:
        if text not in words:
            return f"it is not said: {text}: {words}"
    for text in truth.never:
        if text in words:
            return f"it is said: {text}"
    for found in circuit.paths:
        if (row_of(found.path), found.hypothesis) in truth.untrue:
            return f"{found.path} is said to be {found.hypothesis}"
        if truth.only is not None and found.path not in truth.only:
            return f"{found.path} is told, which the model does not use"
    return ""


def judged_set(made: Posed, units: Units | None) -> Said:
    """The same of a set of a method that has no words: None, where it has found none, is right of what has none."""
    if units is None:
        return "missed" if "circuit" in made.truth.verdicts else "right"
    return "wrong" if false(made, units, ()) else "right"


def false(made: Posed, units: Units, identity: Collection[str] | None) -> str:
    """Why an accepted set is no circuit; empty if it is one.

    Args:
        made: a model.
        units: accepted as its circuit.
        identity: rows whose null is to attend to oneself; None: nothing is tried.
    """
    truth = made.truth
    if "circuit" not in truth.verdicts:
        return "there is no circuit to accept"
    if lacking := truth.rows - {*map(row_of, units)}:
        return f"it lacks {', '.join(map(str, sorted(lacking)))}"
    if dormant := truth.asleep & units:
        return f"the model never uses {', '.join(map(str, sorted(dormant)))}"
    if identity is not None and not minimal(made, units, identity):
        return "by trying it does not suffice, or a part of it does"
    return ""


def minimal(made: Posed, units: Units, identity: Collection[str]) -> bool:
    """Whether a set suffices and no part of it does, by trying; single removals come first, and settle most."""
    rows = Evaluator(made.model, made.task.sample(64, 1)).ground.rows
    trier = Trier(made.model, made.task, identity=frozenset(row for row in rows if str(row) in identity))
    spare = any(trier.suffice([units - {unit}]) for unit in sorted(units, key=str))  # ends with the first
    return not spare and trier.minimal(units)


Made = tuple[Drawn, Truth]
QUERY, VALUE = "query", "value[1]"


def small_induction(draw: random.Random) -> Induction:
    length = draw.choice([8, 10, 12])
    return Induction(length=length, d_vocab=2 * length)


def joiner(at: Frame) -> Row:
    """The row of the head that a frame has taken to say who stands before."""
    shape = at.made.model.architecture
    every = {(layer, head) for layer in range(shape.n_layers) for head in range(shape.n_heads)}
    [(layer, head)] = every - at.free
    return Row(layer, head, VALUE)


def blank(draw: random.Random, task: Induction, parts: dict[str, int], layers: int, heads: int) -> Frame:
    """A model in the making in which no head has anything to do yet."""
    made = Maker(layers, heads, {**parts, "scratch": 6}, task=task)
    free = {(layer, head) for layer in range(layers) for head in range(heads)}
    return Frame(made, [], layers - 1, 0, free, draw)


# Routes that the model does not take -----------------------------------------------------------------------------


def dormant(draw: random.Random, number: int) -> Made:
    """A last head would bring every answer, but others keep it looking elsewhere; one to three heads do bring them.

    In turn: those who keep it asleep say always the same, so that it sleeps while they are at their average; or they
    say which token stands first, to which it then looks, and at their average it wakes.
    """
    task, readers, guards = small_induction(draw), draw.choice([1, 2, 3]), draw.choice([1, 2, 3])
    parts = {"flag": 1, "said": task.d_vocab}
    at = frame(draw, task, readers=max(readers, guards + 1), after=1, parts=parts)
    made, join = at.made, joiner(at)
    rows = {join} | {share_answer(at, reader, readers) for reader in range(readers)}
    asleep = 5 * SHARP / guards  # just more than what leads to the answer and what keeps from the first token
    tell, itself = torch.zeros(made.n, 1), torch.zeros(1, made.n)
    tell[0], itself[0, -1] = 1.0, asleep
    for _ in range(guards):
        said = made.move("token", "said") if number % 2 else ("place", "flag", tell)
        made.head(join.layer, at.take(join.layer), [made.place(0)], [said])
    away = made.same("said", "token", asleep) if number % 2 else ("flag", "place", itself)
    last = made.model.architecture.n_layers - 1
    head = at.take(last)
    made.head(last, head, [*at.finds, away], [at.answer(STRONG / 2)])
    truth = Truth(rows=frozenset(rows), asleep=frozenset([Path(last, head, QUERY, VALUE)]))
    return at.done(0, readers=readers, guards=guards), truth


def share_answer(at: Frame, reader: int, readers: int) -> Row:
    """A head that brings every so many-th answer; its row."""
    part = torch.diag((torch.arange(at.made.v) % readers == reader).float() * 2 * STRONG)
    head = at.take(at.layer)
    at.made.head(at.layer, head, at.finds, [("token", "out", part)])
    return Row(at.layer, head, QUERY)


# Nulls that do what a head does ----------------------------------------------------------------------------------


def null_does_it(draw: random.Random, number: int) -> Made:
    """A head that is needed attends just as a null does, so that a null in its place changes nothing.

    In turn: evenly, and where its average first holds the query's token the answer stands; or to itself, and the
    reader brings what it has copied there.
    """
    return (even_head if number % 2 else copy_of_itself)(draw)


def even_head(draw: random.Random) -> Made:
    """The first layer says what has stood so far, evenly; the reader finds where the query's token is new in it."""
    task = small_induction(draw)
    layers, heads = draw.choice([2, 3]), draw.choice([1, 2])
    at = blank(draw, task, {"bag": task.d_vocab}, layers, heads)
    made, first = at.made, draw.choice(range(layers - 1))
    head, reader = at.take(first), at.take(layers - 1)
    made.head(first, head, [], [made.move("token", "bag")])
    steep = 14.0 * task.length * (task.length + 1)
    new = [made.same("token", "bag", steep), made.same("token", "token", -3 * steep)]
    made.head(layers - 1, reader, [*new, made.place(0, -3 * steep)], [at.answer()])
    return at.done(0), Truth(rows=frozenset([Row(first, head, VALUE), Row(layers - 1, reader, QUERY)]))


def copy_of_itself(draw: random.Random) -> Made:
    """A head of the first layer copies each token where it stands; the reader brings the copy."""
    task = small_induction(draw)
    at = frame(draw, task, readers=2, parts={"said": task.d_vocab})
    made, join = at.made, joiner(at)
    copier, reader = at.take(join.layer), at.take(at.layer)
    made.head(join.layer, copier, [("place", "place", SHARP * torch.eye(made.n))], [made.move("token", "said")])
    made.head(at.layer, reader, at.finds, [made.move("said", "out", STRONG)])
    rows = {join, Row(join.layer, copier, VALUE), Row(at.layer, reader, QUERY)}
    return at.done(0), Truth(rows=frozenset(rows))


@dataclass(frozen=True)
class CopyFirst(Induction):
    """The first token is the answer, whatever the query is."""

    def targets(self, draw: Draw) -> Tensor:
        return draw["tokens"][:, :1, None]

    def roles(self, draw: Draw) -> Roles:
        return standing(self, draw, {"query": self.length, "key[1]": 0})


def standing(task: Induction, draw: Draw, places: dict[str, int], only: dict[str, Tensor] | None = None) -> Roles:
    """Roles of fixed places, some of them only in some sequences."""
    chain = torch.full((len(draw["tokens"]), len(places), task.n_positions), ABSENT)
    for role, (name, place) in enumerate(places.items()):
        there = (only or {}).get(name, torch.ones(len(chain), dtype=torch.bool))
        chain[there, role, place] = 0
    return Roles(tuple(places), chain)


def write_at_first(draw: random.Random, number: int) -> Made:
    """Position 0 sees itself alone, so that whatever a head writes there no null takes away."""
    length = draw.choice([8, 10, 12])
    task = CopyFirst(length=length, d_vocab=2 * length)
    layers, heads = draw.choice([2, 3]), draw.choice([2, 3])
    at = blank(draw, task, {"said": task.d_vocab}, layers, heads)
    made, first, last = at.made, draw.choice(range(layers - 1)), layers - 1
    writer, reader = at.take(first), at.take(last)
    made.head(first, writer, [("place", "place", SHARP * torch.eye(made.n))], [made.move("token", "said")])
    made.head(last, reader, [made.place(0)], [made.move("said", "out", STRONG)])
    made.head(last, at.take(last), [], [made.move("said", "out", -STRONG)])  # or even heads would favour the first
    return at.done(0), Truth(rows=frozenset([Row(first, writer, "key[1]"), Row(last, reader, QUERY)]))


def rests_on_itself(draw: random.Random, number: int) -> Made:
    """Heads that attend to themselves do no harm; were they to attend evenly, they would forbid every answer."""
    task, resting = small_induction(draw), draw.choice([1, 2, 3])
    at = frame(draw, task, readers=resting + 1)
    made, join = at.made, joiner(at)
    reader = at.take(at.layer)
    made.head(at.layer, reader, at.finds, [at.answer()])
    forbids = [made.move("token", "out", -2 * STRONG * made.n / resting)]
    for _ in range(resting):
        layer = draw.choice([join.layer, at.layer])
        layer = layer if any(layer == free for free, _ in at.free) else at.layer
        made.head(layer, at.take(layer), [("place", "place", SHARP * torch.eye(made.n))], forbids)
    return at.done(0, resting=resting), Truth(rows=frozenset([join, Row(at.layer, reader, QUERY)]))


# Rules that pass, and are not followed ---------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedRepeat(Induction):
    """The query's token stands at one place always, so that who looks so far back needs no token."""

    place: int = 0

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        found = super().draw(n, generator)
        return {**found, "place": torch.full_like(found["place"], self.place)}


@dataclass(frozen=True)
class MostlyLast(Induction):
    """The answer nearly always stands right before the query."""

    rare: float = 0.02

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        found = super().draw(n, generator)
        usual = torch.rand(n, 1, generator=generator) >= self.rare
        return {**found, "place": torch.where(usual, self.length - 2, found["place"])}


def imposter(draw: random.Random, number: int) -> Made:
    """In turn: a head looks so many back by position alone, which is no induction head; or it follows the token, and
    the answer is nearly always one position back."""
    return (follows_token if number % 2 else by_position)(draw)


def by_position(draw: random.Random) -> Made:
    """One layer attends so many positions back."""
    length = draw.choice([8, 10, 12])
    task = FixedRepeat(length=length, d_vocab=2 * length, place=draw.choice(range(length - 2)))
    layers = draw.choice([1, 1, 2])
    at = blank(draw, task, {}, layers, draw.choice([1, 2]))
    made, layer = at.made, draw.choice(range(layers))
    head = at.take(layer)
    back = ("place", "place", SHARP * torch.eye(made.n).roll(task.place + 1 - length, 1).tril())
    made.head(layer, head, [back], [at.answer()])
    return at.done(0), Truth(rows=frozenset([Row(layer, head, QUERY)]), never=("an induction head",))


def follows_token(draw: random.Random) -> Made:
    """The textbook's two layers, not loud: that the query looks one back would pass."""
    length = draw.choice([8, 10, 12])
    task = MostlyLast(length=length, d_vocab=2 * length)
    at = frame(draw, task)
    head = at.take(at.layer)
    at.made.head(at.layer, head, at.finds, [at.answer(7.0)])
    reader = Row(at.layer, head, QUERY)
    return at.done(0), Truth(rows=frozenset([reader]), untrue=frozenset([(reader, "previous position")]))


# Rows with several targets ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TwoTasks(Induction):
    """The query's token says which of two places holds the answer; their roles are there always, or in turn."""

    one: int = 0
    other: int = 1
    apart: bool = True

    def inputs(self, draw: Draw) -> Tensor:
        return torch.cat([draw["tokens"] + 2, self.which(draw)], 1)  # tokens 0 and 1 say which

    def which(self, draw: Draw) -> Tensor:
        return draw["place"] % 2

    def targets(self, draw: Draw) -> Tensor:
        places = torch.where(self.which(draw) == 0, self.one, self.other)
        return (draw["tokens"].gather(1, places) + 2)[:, None]

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        found = super().draw(n, generator)
        few = torch.rand(n, self.d_vocab - 2, generator=generator).argsort(-1)[:, : self.length]
        return {**found, "tokens": few}

    def roles(self, draw: Draw) -> Roles:
        which = self.which(draw)[:, 0]
        only = {"key[1]": which == 0, "key[2]": which == 1} if self.apart else None
        return standing(self, draw, {"query": self.length, "key[1]": self.one, "key[2]": self.other}, only)


def two_tasks(draw: random.Random, number: int) -> Made:
    """One head does two tasks. In turn: a role tells them apart; or only the query's token does, which by hand no
    row can say, so that the verdict names that test."""
    apart = number % 2 == 0
    length = 2 * draw.choice([4, 5]) + 1
    one, other = draw.sample(range(length), 2)
    task = TwoTasks(length=length, d_vocab=length + 6, one=one, other=other, apart=apart)
    layers = draw.choice([1, 2])
    at = blank(draw, task, {}, layers, draw.choice([1, 2]))
    made, layer = at.made, draw.choice(range(layers))
    head, looks = at.take(layer), torch.zeros(made.v, made.n)
    looks[0, one] = looks[1, other] = SHARP
    made.head(layer, head, [("token", "place", looks)], [at.answer()])
    if apart:
        return at.done(0), Truth(rows=frozenset([Row(layer, head, QUERY)]))
    return at.done(0), Truth(REFUSED, says=("with every pattern set by hand",))


@dataclass(frozen=True)
class Either(Induction):
    """What followed the query's token, if that stood before; else the first token."""

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        tokens = torch.rand(n, self.d_vocab, generator=generator).argsort(-1)[:, : self.length + 1]
        place = torch.randint(1, self.length - 1, (n, 1), generator=generator)
        stands = torch.rand(n, 1, generator=generator) < 0.5
        return {"tokens": tokens[:, :-1], "other": tokens[:, -1:], "place": place, "stands": stands}

    def inputs(self, draw: Draw) -> Tensor:
        query = torch.where(draw["stands"], draw["tokens"].gather(1, draw["place"]), draw["other"])
        return torch.cat([draw["tokens"], query], 1)

    def targets(self, draw: Draw) -> Tensor:
        after = draw["tokens"].gather(1, draw["place"] + 1)
        return torch.where(draw["stands"], after, draw["tokens"][:, :1])[:, None]

    def roles(self, draw: Draw) -> Roles:
        chain = torch.full((len(draw["place"]), 4, self.n_positions), ABSENT)
        chain[:, 0, -1] = 0
        there = draw["stands"][:, 0].nonzero()[:, 0]
        for role in (1, 2):
            chain[there, role, draw["place"][there, 0] + role - 1] = 0
        chain[:, 3, 0] = 0
        return Roles((QUERY, "key[1]", VALUE, "key[2]"), chain)


def role_dependent(draw: random.Random, number: int) -> Made:
    """The reader looks for one role where that is, else for another, and is not loud."""
    length = draw.choice([8, 10, 12])
    task = Either(length=length, d_vocab=2 * length)
    at = frame(draw, task)
    made, join, head = at.made, joiner(at), at.take(at.layer)
    made.head(at.layer, head, [at.finds[0], made.place(0, SHARP / 4)], [at.answer(draw.choice([8.0, 12.0, STRONG]))])
    return at.done(0), Truth(rows=frozenset([join, Row(at.layer, head, QUERY)]))


class ModularSum(CopyFirst):
    """The sum of the first two tokens, modulo the number of tokens."""

    def targets(self, draw: Draw) -> Tensor:
        return (draw["tokens"][:, :2].sum(1, keepdim=True) % self.d_vocab)[:, None]

    def roles(self, draw: Draw) -> Roles:
        return standing(self, draw, {"query": self.length, "key[1]": 0, "key[2]": 1})


def modular_sum(draw: random.Random, number: int) -> Made:
    """Two heads bring a token each, and an MLP adds them up: a neuron for every pair."""
    task = ModularSum(length=draw.choice([4, 5]), d_vocab=draw.choice([6, 7, 8]))
    v, layers = task.d_vocab or 0, draw.choice([1, 2])
    made = Maker(layers, draw.choice([2, 3]), {"first": v, "second": v, "scratch": 6}, task=task, neurons=v * v)
    heads = made.model.architecture.n_heads
    at = Frame(made, [], layers - 1, 0, {(i, h) for i in range(layers) for h in range(heads)}, draw)
    layer = draw.choice(range(layers))
    rows = set()
    for place, part in enumerate(("first", "second")):
        rows.add(Row(layer, head := at.take(layer), QUERY))
        made.head(layer, head, [made.place(place)], [made.move("token", part)])
    add(made, layers - 1)
    return at.done(0), Truth(rows=frozenset(rows))


def add(made: Maker, layer: int, steep: float = 40.0) -> None:
    """Neurons that answer to one pair of tokens each, and write its sum."""
    mlp, v = made.model.blocks[layer].mlp, made.v
    for first in range(v):
        for second in range(v):
            neuron = first * v + second
            mlp.W_in.data[[made.at["first"].start + first, made.at["second"].start + second], neuron] = steep
            mlp.b_in.data[neuron] = -1.5 * steep
            mlp.W_out.data[neuron, made.at["out"].start + (first + second) % v] = 2 * STRONG / steep


# Shapes that a search must not stumble over ----------------------------------------------------------------------


class RMSNorm(LayerNorm):
    """Root mean square normalisation with scale `w` (Zhang & Sennrich, 2019)."""

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        normalized = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return (normalized if tap is None else tap("ln_final.hook_normalized", normalized)) * self.w


def rms_norm(draw: random.Random, number: int) -> Made:
    """The textbook's induction with all that is read normalised."""
    at = frame(draw, small_induction(draw))
    made, join, head = at.made, joiner(at), at.take(at.layer)
    made.head(at.layer, head, at.finds, [at.answer()])
    at.free.clear()  # noise, though nothing reads it, would be most of what is normalised
    drawn, width = at.done(0), made.model.architecture.d_model
    for block in made.model.blocks:
        block.ln1 = scaled(width, (2 / width) ** 0.5)  # two parts of the stream are 1, and nothing else
    made.model.ln_final = scaled(width, STRONG / width**0.5)
    return drawn, Truth(rows=frozenset([join, Row(at.layer, head, QUERY)]))


def scaled(width: int, by: float) -> RMSNorm:
    norm = RMSNorm(width)
    norm.w.data.fill_(by)
    return norm


def tied(draw: random.Random, number: int) -> Made:
    """The unembedding is the embedding's transpose: the answer is written over the query's own token."""
    at = frame(draw, small_induction(draw))
    made, join, head = at.made, joiner(at), at.take(at.layer)
    made.head(at.layer, head, at.finds, [made.move("token", "token", draw.choice([STRONG, 3 * STRONG]))])
    made.model.W_U.data = made.model.W_E.data.T.clone()
    return at.done(0), Truth(rows=frozenset([join, Row(at.layer, head, QUERY)]))


# Attention where no role is --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BehindSink(Induction):
    """Induction behind a first token that is always the same, which has a role or none."""

    named: bool = False

    @property
    def n_positions(self) -> int:
        return self.length + 2

    def inputs(self, draw: Draw) -> Tensor:
        return torch.cat([torch.zeros_like(draw["place"]), super().inputs(draw) + 1], 1)

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        found = super().draw(n, generator)
        few = torch.rand(n, self.d_vocab - 1, generator=generator).argsort(-1)[:, : self.length]
        return {**found, "tokens": few}

    def targets(self, draw: Draw) -> Tensor:
        return super().targets(draw) + 1

    def roles(self, draw: Draw) -> Roles:
        there = super().roles(draw)
        chain = there.chain.roll(1, -1)  # the query, which is last in any case, stays
        chain[:, 0] = there.chain[:, 0]
        first = torch.full_like(chain[:, :1], ABSENT)
        first[:, :, 0] = 0
        return Roles((*there.names, "sink"), torch.cat([chain, first], 1)) if self.named else Roles(there.names, chain)


def sink(draw: random.Random, number: int) -> Made:
    """Most of the reader's attention falls on a token from which nothing is moved.

    In turn: that token has no role, so that a role for it must be asked for; or it has one, and is in the circuit.
    """
    length, share = draw.choice([8, 10, 12]), (0.89, 0.92, 0.95)[number // 2 % 3]
    task = BehindSink(length=length, d_vocab=2 * length, named=number % 2 == 1)
    at = frame(draw, task)
    made, join, head = at.made, joiner(at), at.take(at.layer)
    match = at.finds[0]
    most = float(match[2].max()) + math.log(share / (1 - share))
    moves = torch.eye(made.v) * STRONG / (1 - share)
    moves[0] = 0
    made.head(at.layer, head, [match, made.place(0, most)], [("token", "out", moves)])
    rows = frozenset([join, Row(at.layer, head, QUERY)])
    truth = Truth(rows=rows) if task.named else Truth(REFUSED, says=("without a role", "at position 0"))
    return at.done(0, share=share), truth


@dataclass(frozen=True)
class Unnamed(Induction):
    """Induction where the answer's position has no role."""

    def roles(self, draw: Draw) -> Roles:
        there = super().roles(draw)
        return Roles(there.names[:2], there.chain[:, :2])


def unnamed(draw: random.Random, number: int) -> Made:
    """The textbook's induction, searched without the role at which it looks: that role is what must be asked for."""
    length = draw.choice([8, 10, 12])
    at = frame(draw, Unnamed(length=length, d_vocab=2 * length))
    at.read([at.answer()])
    return at.done(0), Truth(REFUSED, says=("without a role",))


# What is not learnt ----------------------------------------------------------------------------------------------


def half_solved(draw: random.Random, number: int) -> Made:
    """Two thirds of the tokens are answered; of heads that look there and write nothing nothing is to be told."""
    idle = draw.choice([1, 2])
    at = frame(draw, small_induction(draw), readers=1 + idle)
    made, join, head = at.made, joiner(at), at.take(at.layer)
    known = torch.diag((torch.arange(made.v) % 3 > 0).float() * STRONG / 4)
    made.head(at.layer, head, at.finds, [("token", "out", known)])
    for _ in range(idle):
        at.read([])
    used = [Path(join.layer, join.head, VALUE, "key[1]"), Path(at.layer, head, QUERY, VALUE)]
    return at.done(0, idle=idle), Truth(("none",), only=frozenset(used), says=("has not solved its task",))


Kind = Callable[[random.Random, int], Made]
KINDS: dict[str, Kind] = {
    "dormant": dormant,
    "null does the work": null_does_it,
    "write at position 0": write_at_first,
    "rests on itself": rests_on_itself,
    "positional imposter": imposter,
    "two tasks": two_tasks,
    "role-dependent targets": role_dependent,
    "modular sum": modular_sum,
    "RMSNorm": rms_norm,
    "tied embeddings": tied,
    "sink": sink,
    "unnamed": unnamed,
    "half solved": half_solved,
}


# The benchmark ---------------------------------------------------------------------------------------------------

Scored = dict[str, Any]  # of one model: name, kind, method, said, why, seconds of the processor


def scored(made: Posed, others: bool) -> list[Scored]:
    """What ours says of a model, and every baseline if asked for, each with its time."""
    circuit, seconds = clocked(lambda: discover(made.model, made.task))
    said, why = judged(made, circuit)
    found = [(OURS, said, why, seconds)]
    if others:
        sets = sets_of_others(made.model, made.task)
        found += [(method, judged_set(made, units), "", took) for method, units, took in sets]
    about = {"name": made.name, "kind": made.kind}
    return [about | {"method": m, "said": s, "why": w, "seconds": t} for m, s, w, t in found]


def by_kind(scores: Sequence[Scored]) -> str:
    """Ours: how many of each kind are told rightly, wrongly, and not as they should."""
    rows = []
    for kind in dict.fromkeys(one["kind"] for one in scores):
        ours = [one for one in scores if one["kind"] == kind and one["method"] == OURS]
        seconds = statistics.median(one["seconds"] for one in ours)
        rows.append([kind, str(len(ours)), *counted(ours), f"{seconds:.1f}"])
    return table(("kind", "models", "told rightly", "missed", "wrong", "seconds"), rows)


def by_method(scores: Sequence[Scored]) -> str:
    """All methods, on the models on which all ran; of the baselines a set that is a circuit counts as told rightly."""
    both = {one["name"] for one in scores if one["method"] != OURS}
    some = [one for one in scores if one["name"] in both]
    rows = []
    for method in dict.fromkeys(one["method"] for one in some):
        theirs = [one for one in some if one["method"] == method]
        seconds = statistics.fmean(one["seconds"] for one in theirs)
        rows.append([method, str(len(theirs)), *counted(theirs), f"{seconds:.2f}"])
    return table(("method", "models", "told rightly", "missed", "wrong", "seconds"), rows)


def counted(scores: Sequence[Scored]) -> list[str]:
    said = [one["said"] for one in scores]
    return [str(said.count(word)) for word in ("right", "missed", "wrong")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--each", type=int, default=20, help="models of each kind (20)")
    parser.add_argument("--others", type=int, default=2, help="of each kind, how many baselines see (2)")
    parser.add_argument("--seed", type=int, default=0, help="of everything (0)")
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    scores: list[Scored] = []
    for number in range(options.each):
        for kind in KINDS:
            scores += scored(posed(options.seed, kind, number), number < options.others)
            ours = next(one for one in reversed(scores) if one["method"] == OURS)
            print(f"{ours['name']}: {ours['said']} {ours['why']}".strip(), flush=True)
            if options.json:
                about = {"hopscope": code_version(), "seed": options.seed, "each": options.each}
                Files(options.json).write_text(json.dumps(about | {"scores": scores}, separators=(",", ":")) + "\n")
    print(f"\n{by_kind(scores)}\n\n{by_method(scores)}")


if __name__ == "__main__":
    main()

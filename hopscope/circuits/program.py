"""A circuit as a program: some lines of plain Python that select by rule, read, carry and answer.

Paths say between which roles attention goes; roles are told by who knows the answer. A program has none. Of every path
it finds the simplest rule by which a position can tell where to look: how far back, beside what an earlier step found,
or where something that is held there equals something that is held here. What a position holds is its own symbol, and
whatever it read before. A rule counts only if it leads where the path leads in every sequence on which it is looked
for; the program is then tried on others (`hopscope.circuits.program_trial`). After D-RASP (arXiv:2602.08857), which
compiles length-generalising decoders; ours begins with validated circuits.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hopscope.circuits.units import Ground
from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.tasks.base import NOT_ASKED, Batch, VectorTask

OWN = "own"  # the register of a position's symbol
FEW = 4  # different places of a role, from which on their parity is no chance (ours)
PARITIES = ("p % 2 == 1", "p % 2 == 0")
Registers = dict[str, list[Any]]

HEAD = '''"""{title}"""


def latest(places, holds):
    """The last of some places of which something holds, or None."""
    return max((q for q in places if holds(q)), default=None)


def read(register, places):
    """What stands in a register at each of some places."""
    return [None if q is None else register[q] for q in places]


def program(own):
    """The answers at every position, and where each step looks; `own` has a symbol for each position."""
    every = range(len(own))
'''


@dataclass(frozen=True)
class Rows:
    """Sequences as a program sees them.

    Attributes:
        own: symbol numbers, by row and position.
        queries: where answers are read off.
        answers: the right ones, by row, query and hop; None where nothing is asked.
        ground: which entries of a pattern a path is.
    """

    own: list[list[int]]
    queries: list[int]
    answers: list[list[list[int | None]]]
    ground: Ground


def rows_of(batch: Batch, ground: Ground) -> Rows:
    """Sequences of tokens, or of vectors by the nearest symbol. Raises BadInput for any other."""
    task, inputs, targets = batch.task, batch.inputs, batch.targets
    if isinstance(task, VectorTask):
        inputs = torch.cdist(inputs[..., : task.d_symbol].float(), task.candidates(batch.draw).float()).argmin(-1)
        targets = task.asked(batch.draw)
    if inputs.is_floating_point() or inputs.ndim != 2 or targets.is_floating_point():
        raise BadInput("a program reads and answers symbols, and these sequences or answers are no symbols")
    queries = list(range(inputs.shape[1])[task.query_positions])
    asked = targets.reshape(len(batch), len(queries), -1).tolist()
    answers = [[[None if one == NOT_ASKED else one for one in hops] for hops in row] for row in asked]
    return Rows(inputs.tolist(), queries, answers, ground)


@dataclass(frozen=True)
class Rule:
    """Where a position looks: the last place before it of which a condition holds.

    Attributes:
        text: the condition, of places p (here) and q (there), in Python.
        key, query, offset: `key[q] == query[p]`; without a query q is that many places back or, with one and no key,
            behind what `query` found.
    """

    text: str
    key: str = ""
    query: str = ""
    offset: int = 0

    def look(self, held: Registers, p: int, places: Sequence[int]) -> int | None:
        """The place that it finds among some."""
        if self.key:
            wanted, there = held[self.query][p], held[self.key]
            return max((q for q in places if there[q] is not None and there[q] == wanted), default=None)
        begin = held[self.query][p] if self.query else p
        found = None if begin is None else begin + self.offset
        return found if found in places else None


def rules(registers: Sequence[str], places: Sequence[str]) -> Iterator[Rule]:
    """All rules over some registers, simple ones first."""
    for back in (1, 2):
        yield Rule(f"q == p - {back}", offset=-back)
    for query, key in sorted(itertools.product(registers, registers), key=lambda two: sum(map(len, two))):
        yield Rule(f"None != {key}[q] == {query}[p]", key, query)
    for query, by in itertools.product(places, (1, -1)):
        yield Rule(f"q {'-' if by > 0 else '+'} 1 == {query}[p]", query=query, offset=by)


@dataclass(frozen=True)
class Step:
    """One path of a program; paths that say the same are one.

    Attributes:
        paths: which.
        name: of the register that holds where it looks.
        rule: by which.
        where: a condition on p, the positions that look; empty: all.
        carried: registers that it may read.
    """

    paths: tuple[Path, ...]
    name: str
    rule: Rule
    where: str
    carried: tuple[str, ...]

    def run(self, held: Registers, n: int, causal: bool) -> Registers:
        """What it adds to what a sequence's positions hold."""
        looks = [self.rule.look(held, p, around(p, n, causal)) if self.asks(p) else None for p in range(n)]
        read = lambda register: [None if q is None else held[register][q] for q in looks]  # noqa: E731
        return {self.name: looks, **{f"{self.name}_{register}": read(register) for register in self.carried}}

    def asks(self, p: int) -> bool:
        return not self.where or p % 2 == (self.where == PARITIES[0])


def around(p: int, n: int, causal: bool) -> Sequence[int]:
    """The places that a position may look at, itself left out."""
    return range(p) if causal else [q for q in range(n) if q != p]


@dataclass(frozen=True)
class Program:
    """Steps, and which registers hold the answers, hop by hop; `print` shows the code.

    Attributes:
        steps: in the order of layers.
        answers: a register for each hop.
        title: what it does and how it stood its trial, for the docstring.
        causal: whether positions see only earlier ones.
    """

    steps: tuple[Step, ...]
    answers: tuple[str, ...]
    causal: bool = True
    title: str = ""
    trials: tuple[Any, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return HEAD.format(title=self.title or "A circuit as a program.") + "".join(f"    {x}\n" for x in self.lines())

    def lines(self) -> list[str]:
        """The body: each step looks, and reads what is used of what it finds."""
        used, lines = {*self.answers}, list[str]()
        for step in self.steps:
            used |= {step.rule.key, step.rule.query}
        names = {step.name for step in self.steps}
        while more := {origin for name in used if (origin := name.partition("_")[2])} - used - names:
            used |= more
        for step in self.steps:
            several = "range(p)" if self.causal else "[q for q in every if q != p]"
            looks = f"latest({several}, lambda q: {step.rule.text})"
            looks += f" if {step.where} else None" if step.where else ""
            lines += [f"# {', '.join(map(str, step.paths))}", f"{step.name} = [{looks} for p in every]"]
            read = [register for register in step.carried if f"{step.name}_{register}" in used]
            lines += [f"{step.name}_{register} = read({register}, {step.name})" for register in read]
        looked = ", ".join(f"{str(step.paths[0])!r}: {step.name}" for step in self.steps)
        return [*lines, f"looks = {{{looked}}}", f"return [{', '.join(self.answers)}], looks"]

    def run(self, own: Sequence[int]) -> Registers:
        """All that the positions of a sequence hold in the end."""
        held: Registers = {OWN: list(own)}
        for step in self.steps:
            held |= step.run(held, len(own), self.causal)
        return held


def written(paths: Sequence[Path], rows: Rows) -> Program:
    """The program of a circuit's paths.

    Args:
        paths: of the circuit.
        rows: on which rules are looked for: some dozens, so that none fits by chance.

    Raises:
        BadInput: a path follows no rule that a program has, or no position comes to hold the answer.
    """
    causal = rows.ground.architecture.causal
    held: list[Registers] = [{OWN: own} for own in rows.own]
    steps: list[Step] = []
    for _, group in itertools.groupby(sorted(paths), key=lambda path: path.layer):
        known = tuple(name for name in held[0] if name not in {step.name for step in steps})
        found = tuple(step.name for step in steps)
        layer = []
        for alike in same(list(group)):
            entries = rows.ground.entries(alike[0]).cpu()
            name = string.ascii_lowercase[len(steps) + len(layer)]
            where = parity(entries)
            rule = next((one for one in rules(known, found) if leads(one, entries, held, causal)), None)
            if rule is None:
                raise BadInput(
                    f"no rule of a program says where {alike[0]} looks: it is at no fixed distance, and nothing that "
                    "positions hold there equals what is held here"
                )
            layer.append(Step(tuple(alike), name, rule, where, known))
        added = [{} for _ in held] if not layer else [merged(layer, one, causal) for one in held]
        held = [one | more for one, more in zip(held, added, strict=True)]
        steps += layer
    return Program(tuple(steps), answered(rows, held, steps), causal)


def same(paths: Sequence[Path]) -> list[list[Path]]:
    """Paths of one layer, together where they lead between the same roles."""
    kinds: dict[tuple[str, str, str], list[Path]] = {}
    for path in paths:
        kinds.setdefault((path.query, path.key, path.chain), []).append(path)
    return list(kinds.values())


def merged(steps: Sequence[Step], held: Registers, causal: bool) -> Registers:
    """What the steps of one layer add, none of which reads another's."""
    return {name: value for step in steps for name, value in step.run(held, len(held[OWN]), causal).items()}


def parity(entries: Tensor) -> str:
    """The condition on attending positions: odd or even ones where there are several and all are; else nothing."""
    places = {int(place) for place in entries.any(-1).nonzero()[:, 1].tolist()}
    parities = {place % 2 for place in places}
    return PARITIES[0 if parities == {1} else 1] if len(places) >= FEW and len(parities) == 1 else ""


def leads(rule: Rule, entries: Tensor, held: Sequence[Registers], causal: bool) -> bool:
    """Whether a rule looks where the path leads, in every sequence, from every position that attends along it."""
    for row, p in entries.any(-1).nonzero().tolist():
        place = rule.look(held[row], p, around(p, entries.shape[1], causal))
        if place is None or not bool(entries[row, p, place]):
            return False
    return True


def answered(rows: Rows, held: Sequence[Registers], steps: Sequence[Step]) -> tuple[str, ...]:
    """Of every hop the register that holds its answers. Raises BadInput where none does."""
    names = sorted((name for name in held[0] if name not in {step.name for step in steps}), key=len)
    found = []
    for hop in range(len(rows.answers[0][0])):
        right = lambda name, hop=hop: all(  # noqa: E731
            held[row][name][p] == rows.answers[row][i][hop]
            for row in range(len(held))
            for i, p in enumerate(rows.queries)
            if rows.answers[row][i][hop] is not None
        )
        name = next(filter(right, names), None)
        if name is None:
            raise BadInput(f"no query comes to hold the answer of hop {hop + 1}: the circuit's paths do not bring it")
        found.append(name)
    return tuple(found)

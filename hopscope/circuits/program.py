"""A circuit as a program: plain Python in which positions look up others by rules, copy what they find, and answer.

Paths lead between roles, and roles can only be assigned by someone who knows the answer. A program uses no roles. For
every path, the simplest rule is found by which a position can compute where to look: a fixed distance back, next to
what an earlier step found, or where a symbol held there, or just before, equals one held here. A position holds its own
symbol and what it has read in earlier steps. A rule is accepted only if it leads where the path leads in all sequences
of a set; the program is then tested on other sequences (`hopscope.circuits.program_trial`). The idea comes from D-RASP
(arXiv:2602.08857), which compiles length-generalising decoders; ours starts from validated circuits.
"""

from __future__ import annotations

import itertools
import re
import string
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from hopscope.circuits.units import Ground
from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.tasks.base import NOT_ASKED, Batch, VectorTask

OWN = "own"  # the register of a position's symbol
LETTERS = [letter for letter in string.ascii_lowercase if letter not in "pq"]
WIDTH = 100  # columns
LEAST_PLACES = 3  # different places that attend for their common parity to count as a condition (ours)
Registers = dict[str, list[Any]]
code_of = cache(partial(compile, filename="<program>", mode="eval"))  # an expression of a program, compiled

HEAD = '''"""{title}"""


def latest(places, holds):
    """The last of some places of which something holds, or None."""
    return max((q for q in places if holds(q)), default=None)


def read(register, places):
    """What stands in a register at each of some places."""
    return [None if q is None else register[q] for q in places]


def program(own):
    """Of each hop the answers, and of each step the places that it looks at, position by position.

    `own` has the symbol of every position.
    """
    every = range(len(own))
'''


@dataclass(frozen=True)
class Rows:
    """Sequences as a program reads them.

    Attributes:
        own: symbol numbers, by row and position.
        queries: the positions at which answers are read.
        answers: the right answers by row, query and hop; None where nothing is asked.
        ground: maps paths to entries of patterns; None if the roles of positions are unknown.
    """

    own: list[list[int]]
    queries: list[int]
    answers: list[list[list[int | None]]]
    ground: Ground | None = None

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor, queries: slice, ground: Ground | None = None) -> Rows:
        """Rows from tokens (row, position) and their targets. Raises BadInput if either are not symbols."""
        if inputs.is_floating_point() or inputs.ndim != 2 or targets.is_floating_point():
            raise BadInput("a program reads and answers symbols, and these sequences or answers are no symbols")
        places = list(range(inputs.shape[1])[queries])
        asked = targets.reshape(len(inputs), len(places), -1).tolist()
        answers = [[[None if one == NOT_ASKED else one for one in hops] for hops in row] for row in asked]
        return cls(inputs.tolist(), places, answers, ground)


def rows_of(batch: Batch, ground: Ground) -> Rows:
    """A batch as rows; vectors become the number of the nearest symbol. Raises BadInput for anything but symbols.

    Undefined answers are not asked for, just as they do not count for accuracy.
    """
    task, inputs, targets = batch.task, batch.inputs, batch.targets
    targets = targets.masked_fill(targets == getattr(task, "undefined", NOT_ASKED), NOT_ASKED)
    if isinstance(task, VectorTask):
        inputs = torch.cdist(inputs[..., : task.d_symbol].float(), task.candidates(batch.draw).float()).argmin(-1)
        targets = task.asked(batch.draw)
    return Rows.of(inputs, targets, task.query_positions, ground)


@dataclass(frozen=True)
class Rule:
    """A rule for where a position looks: the last visible position that satisfies a condition.

    Attributes:
        text: the condition as a Python expression on positions p (looking) and q (looked at) and on what they hold.
        itself: whether q may be p.
    """

    text: str
    itself: bool = False

    def looks(self, causal: bool) -> str:
        """The Python expression that gives the position looked at, or None, for p."""
        before = "range(p + 1)" if self.itself else "range(p)"
        every = "every" if self.itself else "[q for q in every if q != p]"
        return f"latest({before if causal else every}, lambda q: {self.text})"


def rules(registers: Sequence[str], places: Sequence[str], there: str) -> Iterator[Rule]:
    """All rules over some registers, simple ones first; `there` is a condition on q that is added in later rules."""
    yield from (Rule(f"q == p - {back}") for back in (1, 2))
    pairs = sorted(itertools.product(registers, registers), key=lambda two: sum(map(len, two)))
    matches = [f"None != {key}[q] == {query}[p]" for query, key in pairs]
    yield from map(Rule, matches)
    yield from (Rule(f"q {sign} 1 == {place}[p]") for place, sign in itertools.product(places, "-+"))
    yield from (Rule(f"{there} and {match}") for match in matches if there)
    yield Rule("q == 0")
    yield from (Rule(match, itself=True) for match in matches)
    yield from (Rule(f"q > 0 and None != {key}[q - 1] == {query}[p]") for query, key in pairs)


@dataclass(frozen=True)
class Step:
    """One step of a program: a path, or several paths with the same rule.

    Attributes:
        paths: these paths.
        name: the register that stores where each position looks.
        rule: the rule for where to look.
        where: a condition on the positions p that look; empty if all do.
        carried: registers that the step may copy.
    """

    paths: tuple[Path, ...]
    name: str
    rule: Rule
    where: str
    carried: tuple[str, ...]

    def looks(self, causal: bool) -> list[str]:
        """The comprehension that gives all positions looked at, in parts between which a line may break."""
        return [self.rule.looks(causal), *([f"if {self.where} else None"] if self.where else []), "for p in every"]

    def run(self, held: Registers, causal: bool) -> Registers:
        """The registers that the step adds, for one sequence."""
        looks = run(f"[{' '.join(self.looks(causal))}]", held)
        return {self.name: looks, **{f"{self.name}_{name}": TOOLS["read"](held[name], looks) for name in self.carried}}


#: What a program's text calls.
TOOLS: dict[str, Any] = {}
exec(HEAD.format(title="").rpartition("def program")[0], TOOLS)


def run(text: str, held: Registers) -> Any:
    """The value of a program's expression, given the registers of a sequence."""
    return eval(code_of(text), {**TOOLS, **held, "every": range(len(held[OWN]))})


@dataclass(frozen=True)
class Program:
    """A program: its steps, and the register that holds the answer to each hop; `print` shows the code.

    Attributes:
        steps: in the order of layers.
        answers: the register for each hop.
        causal: whether positions see only earlier ones.
        title: its docstring.
    """

    steps: tuple[Step, ...]
    answers: tuple[str, ...]
    causal: bool = True
    title: str = "A circuit as a program."

    def __str__(self) -> str:
        title = self.title.replace("\\", "\\\\").replace('"', '\\"')  # it names roles, and is no code
        return HEAD.format(title=title) + "".join(f"    {x}\n" for x in self.lines())

    def lines(self) -> list[str]:
        """The lines of the function's body: each step finds where to look, then copies the needed registers."""
        lines, used = [], self.used()
        for step in self.steps:
            said = textwrap.wrap(", ".join(map(str, step.paths)), WIDTH - 8)
            looks = step.looks(self.causal)
            whole = f"{step.name} = [{' '.join(looks)}]"
            apart = [f"{step.name} = [", *(f"    {part}" for part in looks), "]"]
            lines += [*(f"# {line}" for line in said), *([whole] if len(whole) <= WIDTH - 4 else apart)]
            read = [register for register in step.carried if f"{step.name}_{register}" in used]
            lines += [f"{step.name}_{register} = read({register}, {step.name})" for register in read]
        looked = ", ".join(step.name for step in self.steps)
        return [*lines, f"return [{', '.join(self.answers)}], [{looked}]"]

    def used(self) -> set[str]:
        """The registers that are answers, or that answers or later steps depend on."""
        used = {*self.answers, *(word for step in self.steps for word in re.findall(r"\w+", step.rule.text))}
        carried = {f"{step.name}_{register}": register for step in self.steps for register in step.carried}
        while more := {carried[name] for name in used if name in carried} - used:
            used |= more
        return used


def written(paths: Sequence[Path], rows: Rows, ground: Ground) -> Program:
    """The program of a circuit's paths.

    Args:
        paths: the circuit's paths; those from a position to itself are left out, because they copy nothing new.
        rows: the sequences that rules must fit; there should be hundreds, so that no rule fits by chance and rare cases
            occur.
        ground: maps paths to entries of patterns, for the same sequences.

    Raises:
        BadInput: no rule fits a path, or no register holds an answer in the end.
    """
    causal = ground.architecture.causal
    held: list[Registers] = [{OWN: own} for own in rows.own]
    steps: list[Step] = []
    paths = sorted(path for path in paths if leads_away(path, ground))
    for _, group in itertools.groupby(paths, key=lambda path: path.layer):
        known = tuple(name for name in held[0] if name not in {step.name for step in steps})
        alike: dict[Rule, list[Path]] = {}
        for path in group:
            rule = rule_of(path, paths, ground, held, known, [step.name for step in steps])
            alike.setdefault(rule, []).append(path)
        layer = [
            Step(tuple(some), called(number), rule, parity(entries_of(some, ground).any(-1), "p", LEAST_PLACES), known)
            for number, (rule, some) in enumerate(alike.items(), len(steps))
        ]
        held = [one | merged(layer, one, causal) for one in held]
        steps += layer
    return Program(tuple(steps), answered(rows, held, steps), causal)


def called(number: int) -> str:
    """The name of a step's register: a, b, …, then aa, bb, …; p and q are reserved for positions."""
    rounds, letter = divmod(number, len(LETTERS))
    return LETTERS[letter] * (1 + rounds)


def leads_away(path: Path, ground: Ground) -> bool:
    """Whether a path leads from some position to a different one."""
    entries = ground.entries(path)
    return bool((entries & ~torch.eye(entries.shape[-1], dtype=torch.bool, device=entries.device)).any())


def rule_of(
    path: Path,
    paths: Sequence[Path],
    ground: Ground,
    held: Sequence[Registers],
    known: Sequence[str],
    places: Sequence[str],
) -> Rule:
    """The simplest rule that looks where a path leads.

    A path may cover only part of what its head does: for a position of no chain, every key belongs to another chain. So
    if no rule fits the path alone, a rule is sought for the path together with those that differ only in the chain.
    Raises BadInput if none fits.
    """
    alike = [one for one in paths if replace(one, chain=path.chain) == path]
    for some in ([path], alike):
        entries = entries_of(some, ground)
        there = parity(entries.any(1), "q", 2)
        for rule in rules(known, places, there):
            if leads(rule, entries, held, ground.architecture.causal):
                return rule
    raise BadInput(
        f"no rule of a program says where {path} looks: it is at no fixed distance, and nothing that positions "
        "hold there equals what is held here"
    )


def entries_of(paths: Sequence[Path], ground: Ground) -> Tensor:
    """The union of the entries of some paths."""
    return torch.stack([ground.entries(path) for path in paths]).any(0).cpu()


def merged(steps: Sequence[Step], held: Registers, causal: bool) -> Registers:
    """The registers that the steps of one layer add; no step reads what another step of its layer adds."""
    return {name: value for step in steps for name, value in step.run(held, causal).items()}


def parity(holders: Tensor, name: str, least: int) -> str:
    """The condition that a position has the common parity of all holders; empty if there is none.

    Args:
        holders: a mask (row, position).
        name: the variable for the position.
        least: the least number of different positions for which the condition is given.
    """
    places = {int(place) for place in holders.nonzero()[:, 1].tolist()}
    parities = {place % 2 for place in places}
    return f"{name} % 2 == {min(parities)}" if len(places) >= least and len(parities) == 1 else ""


def leads(rule: Rule, entries: Tensor, held: Sequence[Registers], causal: bool) -> bool:
    """Whether a rule looks where the path leads, in every sequence and from every attending position."""
    attend = itertools.groupby(entries.any(-1).nonzero().tolist(), key=lambda at: at[0])
    for row, attending in attend:
        look = run(f"lambda p: {rule.looks(causal)}", held[row])
        if not all((place := look(p)) is not None and bool(entries[row, p, place]) for _, p in attending):
            return False
    return True


def answered(rows: Rows, held: Sequence[Registers], steps: Sequence[Step]) -> tuple[str, ...]:
    """For every hop, the register that holds its answers. Raises BadInput if there is none."""
    names = sorted((name for name in held[0] if name not in {step.name for step in steps}), key=len)
    found = []
    for hop in range(len(rows.answers[0][0])):
        right = lambda name, hop=hop: all(  # noqa: E731
            held[row][name][p] == rows.answers[row][i][hop]
            for row in range(len(held))
            for i, p in enumerate(rows.queries)
            if rows.answers[row][i][hop] is not None
        )
        if (name := next(filter(right, names), None)) is None:
            raise BadInput(f"no query comes to hold the answer of hop {hop + 1}: the circuit's paths do not bring it")
        found.append(name)
    return tuple(found)

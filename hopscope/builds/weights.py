"""From a plan to weights: what each head matches, copies and computes becomes the matrices of a Transformer.

A head scores a symbol k, held by the attended position, against the symbol q that the attending position looks for, by
2β q·k − β‖k‖² = β‖q‖² − β‖q − k‖². This is greatest where they are equal, whatever their norms. (A plain dot product
prefers symbols of large norm: of 16 Gaussian ones in 4 dimensions it picks a wrong one in 44 % of cases.) ‖k‖² is
computed by the MLP of the layer in which k arrives, so no symbol can be looked up in layer 0. Places are scored by the
cosines of their distance. A role that is to be attended to adds `ROLE` to the score, which outweighs a match elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.builds.plan import OWN, Head, HeadPlan, Match, Plan, Slot
from hopscope.builds.stream import OPEN, SHARP, Arc, Form, Gate, Gates, Neurons, Registers, dense

BETA = 100.0  # per squared distance between symbols: two closer than about 0.2 may be confused
PLACE = 40.0  # how much higher the right place is scored than any other
ROLE = 40.0  # added to the score of the role to be attended to
FLAG = 0.8  # share of attention on a role above which a twin counts as attending to it


@dataclass(frozen=True)
class Sheet:
    """What the weights need to know about a task.

    Attributes:
        d_symbol: numbers per symbol.
        unit: whether symbols are one-hot, so of norm 1.
        roles: the role of each position of the sequence.
        speeds: frequencies of the position code, in radians per position, fastest first.
        roles_known: whether the stream holds each position's role from the start (in a position embedding).
    """

    d_symbol: int
    unit: bool
    roles: Sequence[str]
    speeds: Sequence[float]
    roles_known: bool

    @property
    def names(self) -> list[str]:
        """Every role once, in order of position."""
        return sorted(set(self.roles), key=self.roles.index)


def register(slot: Slot) -> str:
    """The name of a slot's register: `symbol`, or `symbol via L1H0` …"""
    return " via ".join([slot.kind, *(f"L{layer}H{head}" for layer, head in slot.address)])


class Assembler:
    """Assembles a model: registers, then the MLPs and heads of all layers.

    Args:
        plan: what to build.
        sheet: what the weights need to know about the task.
        n_layers: layers of the transformer.
        twins: for each doubled head of the plan, the head of its twin, in the same layer.
    """

    def __init__(self, plan: Plan, sheet: Sheet, n_layers: int, twins: dict[Head, Head]):
        self.plan, self.sheet, self.n_layers, self.twins = plan, sheet, n_layers, twins
        self.at = Registers()
        self.neurons = [Neurons() for _ in range(n_layers)]
        self.allocate()
        self.arc = Arc(self.at[register(Slot("place", OWN))], len(sheet.roles), sheet.speeds[-1])
        self.tell_roles()
        self.prepare_keys()
        self.gate_queries()
        for head, twin in twins.items():
            self.join(plan.heads[head], twin)

    # Registers -----------------------------------------------------------------------------------------------

    def width(self, slot: Slot) -> int:
        return self.sheet.d_symbol if slot.kind == "symbol" else 2 * len(self.sheet.speeds)

    def allocate(self) -> None:
        """Reserve dimensions for tokens, places, roles and all copies; for twins, for both copies and their union."""
        for slot in (Slot("symbol", OWN), Slot("place", OWN), *self.plan.slots):
            self.at.add(register(slot), self.width(slot))
        self.at.add("role", len(self.sheet.names))
        for head in self.twins:
            for source in self.plan.heads[head].copies:
                for which in ("first", "second"):
                    self.at.add(f"{which} {register(source.copied_by(head))}", self.width(source))
            for which in ("first", "second"):
                self.at.add(f"{which} flags of L{head[0]}H{head[1]}", len(self.sheet.names))

    def dims(self, slot: Slot) -> range:
        return self.at[register(slot)]

    def role(self, name: str) -> int:
        """The dimension that is 1 at positions of a role, and 0 elsewhere."""
        return self.at["role"][self.sheet.names.index(name)]

    # MLPs ----------------------------------------------------------------------------------------------------

    def tell_roles(self) -> None:
        """In layer 0, compute the role of each position from its code, unless the stream holds it already."""
        if self.sheet.roles_known:
            return
        roles = self.sheet.roles
        self.neurons[0].shift({self.role(roles[0]): 1.0})
        for t in range(1, len(roles)):
            if roles[t] != roles[t - 1]:
                change = {self.role(roles[t - 1]): -1.0, self.role(roles[t]): 1.0}
                self.neurons[0].step(self.arc.from_on(t, SHARP), change)

    def prepare_keys(self) -> None:
        """Prepare symbols for matching where they arrive: their squared norm or, if they are one-hot, their peak.

        A sum of many one-hot symbols, as uniform attention copies it, still counts how often each occurred, which would
        leak facts. So components that are not nearly 1 are set to 0.
        """
        keys = {match.key for plan in self.plan.heads.values() for match in plan.matches.values()}
        for slot in sorted(keys):
            if slot.kind != "symbol" or (self.sheet.unit and not slot.address):
                continue
            neurons = self.neurons[self.arrives(slot)]
            if not self.sheet.unit:
                [square] = self.at.add(f"length of {register(slot)}", 1)
                neurons.square(self.dims(slot), square)
                continue
            for here, there in zip(
                self.dims(slot), self.at.add(f"peak of {register(slot)}", self.width(slot)), strict=True
            ):
                neurons.step(Gate({here: 4.0}, -3.0).times(2 * SHARP), {there: 1.0})

    def offered(self, slot: Slot) -> range:
        """The register in which a head reads what it matches."""
        peak = f"peak of {register(slot)}"
        return self.at[peak] if peak in self.at else self.dims(slot)

    def arrives(self, slot: Slot) -> int:
        """The first layer whose MLP can read a slot; an MLP itself makes the union of twins."""
        if not slot.address:
            return 0
        head = slot.address[0]
        return head[0] + (head in self.twins)

    def gate_queries(self) -> None:
        """If roles of one head match differently, give each match a register that is 0 at the other roles."""
        for plan in self.plan.heads.values():
            kinds = plan.kinds()
            if len(kinds) == 1:
                continue
            for match, roles in kinds.items():
                wanted = self.at.add(self.sought(plan, match), self.width(match.query))
                others = [role for role in plan.matches if role not in roles]
                layer = plan.head[0] - 1
                self.neurons[layer].pass_through(self.dims(match.query), wanted, self.gates(layer, roles, others))

    def sought(self, plan: HeadPlan, match: Match) -> str:
        """The name of the register that holds what a head looks for by a match."""
        if len(plan.kinds()) == 1:
            return register(match.query)
        layer, head = plan.head
        return f"sought by L{layer}H{head} no. {list(plan.kinds()).index(match)}"

    def gates(self, layer: int, on: Sequence[str], off: Sequence[str]) -> Gates:
        """Gates that are open at some roles and closed at others; layer 0 may have to recognise roles by position."""
        if layer > 0 or self.sheet.roles_known:
            return [(1.0, Gate({self.role(role): 2 * OPEN for role in on}, -OPEN))]
        return self.arc.chosen([True if role in on else False if role in off else None for role in self.sheet.roles])

    def join(self, plan: HeadPlan, twin: Head) -> None:
        """Join what a head and its twin copied: from both, or from the one that attended to the intended role.

        Each also copies the role that it attended to as a flag; under uniform attention the flag stays below `FLAG`.
        """
        layer, head = plan.head
        first, second = (self.at[f"{which} flags of L{layer}H{head}"] for which in ("first", "second"))
        for role, target in plan.targets.items():
            a, b = (flags[self.sheet.names.index(target)] for flags in (first, second))
            for form, bias, halves in (
                ({a: 1.0, b: 1.0}, -1 - FLAG - 0.1, {"first": 0.5, "second": 0.5}),
                ({a: 1.0, b: -1.0}, -(1 - FLAG) / 2, {"first": 1.0}),
                ({a: -1.0, b: 1.0}, -(1 - FLAG) / 2, {"second": 1.0}),
            ):
                gate = self.only_at(role, Gate(form, bias).times(2 * OPEN / (1 - FLAG)))
                for source in plan.copies:
                    copied = register(source.copied_by(plan.head))
                    for which, share in halves.items():
                        self.neurons[layer].pass_through(
                            self.at[f"{which} {copied}"], self.at[copied], [(1.0, gate)], share
                        )

    def only_at(self, role: str, gate: Gate) -> Gate:
        """The given gate at positions of this role; closed at all others."""
        shut = 2 * (abs(gate.bias) + sum(map(abs, gate.form.values())) + OPEN)
        return Gate({**gate.form, self.role(role): shut}, gate.bias - shut)

    # Heads ---------------------------------------------------------------------------------------------------

    def query_key(self, plan: HeadPlan) -> tuple[list[Form], list[float], list[Form]]:
        """Linear forms of queries and keys, and the queries' biases; a score is the sum of their products."""
        queries: list[Form] = []
        biases: list[float] = []
        keys: list[Form] = []

        def row(query: Form, key: Form, bias: float = 0.0) -> None:
            queries.append(query)
            keys.append(key)
            biases.append(bias)

        kinds = plan.kinds()
        for match, roles in kinds.items():
            sought, offered = self.at[self.sought(plan, match)], self.offered(match.key)
            if match.key.kind == "place":
                for query, key in zip(self.turned(sought, match.shift), offered, strict=True):
                    row(query, {key: 1.0})
                continue
            for here, there in zip(sought, offered, strict=True):
                row({here: 2 * BETA}, {there: 1.0})
            if not self.sheet.unit:
                length = self.at[f"length of {register(match.key)}"][0]
                only = len(kinds) == 1
                row({} if only else {self.role(r): -BETA for r in roles}, {length: 1.0}, -BETA if only else 0.0)
        if plan.head[0] > 0 or self.sheet.roles_known:
            for target in sorted(set(plan.targets.values())):
                attending = {self.role(r): ROLE for r, t in plan.targets.items() if t == target}
                row(attending, {self.role(target): 1.0})
        return queries, biases, keys

    def turned(self, code: range, shift: int) -> list[Form]:
        """A place's code, rotated by `shift` positions and scaled so that the right place wins by `PLACE`."""
        half = len(code) // 2
        scale = PLACE / place_gap(self.sheet.speeds, len(self.sheet.roles))
        cosines, sines = [], []
        for i, speed in enumerate(self.sheet.speeds):
            c, s = scale * math.cos(speed * shift), scale * math.sin(speed * shift)
            cosines.append({code[i]: c, code[half + i]: -s})
            sines.append({code[i]: s, code[half + i]: c})
        return cosines + sines

    def value_output(self, plan: HeadPlan, which: str = "") -> tuple[list[Form], list[Form]]:
        """Linear forms that values read, and those that the output writes; `which` names one of two twins."""
        reads: list[Form] = []
        writes: list[Form] = []
        for source in sorted(plan.copies):
            copied = f"{which}{register(source.copied_by(plan.head))}"
            for here, there in zip(self.dims(source), self.at[copied], strict=True):
                reads.append({here: 1.0})
                writes.append({there: 1.0})
        if which:
            layer, head = plan.head
            for here, there in zip(self.at["role"], self.at[f"{which}flags of L{layer}H{head}"], strict=True):
                reads.append({here: 1.0})
                writes.append({there: 1.0})
        return reads, writes

    def head_weights(self) -> dict[Head, dict[str, Tensor]]:
        """W_Q, W_K, W_V (d_model, ·), b_Q (·) and W_O (·, d_model) of every head in use, each of minimal width."""
        weights = {}
        for head, plan in self.plan.heads.items():
            queries, biases, keys = self.query_key(plan)
            for where, which in (
                ((head, "first "), (self.twins[head], "second ")) if head in self.twins else ((head, ""),)
            ):
                reads, writes = self.value_output(plan, which)
                width = self.at.width
                weights[where] = {
                    "W_Q": dense(queries, width).T,
                    "b_Q": torch.tensor(biases, dtype=torch.double),
                    "W_K": dense(keys, width).T,
                    "W_V": dense(reads, width).T,
                    "W_O": dense(writes, width),
                }
        return weights


def place_gap(speeds: Sequence[float], n_positions: int) -> float:
    """The smallest drop in a sum of cosines, one per frequency, when a distance of 0 becomes any other."""
    distances = torch.arange(1, n_positions + 1, dtype=torch.double)
    turns = distances[:, None] * torch.tensor(speeds, dtype=torch.double)
    return float((1 - turns.cos()).sum(-1).min())

"""From a schedule to a plan: what every role holds when, by which shared piece each path finds its target, and what
each head must carry.

What attention copies it adds to a place of its own in the residual stream, so a thing is known by the way it came: its
*address*, the heads that copied it, last one first. `((2, 0), (0, 0))` is the token of the position that the position
to which I attended in layer 2 had attended to in layer 0. An address means the same at every role; what stands there
for a role follows from the schedule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path, place_of, role_name

Head = tuple[int, int]  # layer, head
Address = tuple[Head, ...]
OWN: Address = ()


@dataclass(frozen=True, order=True)
class Slot:
    """A place in the residual stream: a copied `symbol`, or the copied code of a `place` in the sequence."""

    kind: str
    address: Address

    def copied_by(self, head: Head) -> Slot:
        return Slot(self.kind, (head, *self.address))


@dataclass(frozen=True, order=True)
class Match:
    """How a path finds its target: what the attending position holds in `query`, the attended one holds in `key`.

    For symbols they are equal; for places the target's is `shift` further on in the sequence.
    """

    query: Slot
    key: Slot
    shift: int = 0


@dataclass
class HeadPlan:
    """What one head does: for every attending role its match and the attended role; and the slots that it copies."""

    head: Head
    matches: dict[str, Match] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    copies: set[Slot] = field(default_factory=set)

    def kinds(self) -> dict[Match, list[str]]:
        """The different matches, each with the roles that attend by it."""
        found = defaultdict(list)
        for role, match in self.matches.items():
            found[match].append(role)
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Plan:
    """A schedule with everything that its weights need to know."""

    heads: dict[Head, HeadPlan]
    answers: dict[int, Slot]  # hop -> where the query holds it in the end

    @property
    def slots(self) -> list[Slot]:
        """All slots that some head writes."""
        return sorted({slot.copied_by(head) for head, plan in self.heads.items() for slot in plan.copies})


#: What a role holds: for each symbol x_k, and each fact k's place (with which of its tokens), the best slot.
Holding = dict[tuple[str, int], tuple[Slot, int]]


def start(role: str) -> Holding:
    """A position holds its token, and where it stands: fact k's place, 0 at its first token, 1 at its second."""
    place = place_of(role)
    held: Holding = {("symbol", place // 2): (Slot("symbol", OWN), 0)}
    if place:
        held["place", (place + 1) // 2] = (Slot("place", OWN), 1 - place % 2)
    return held


def make_plan(schedule: Iterable[Path], hops: int, asked: Sequence[int]) -> Plan:
    """Work out a schedule for plain chains of D hops, of which the hops `asked` are to be answered.

    Raises:
        BadInput: a path attends without a shared piece, by its symbol in layer 0 already, or to two roles at once; or
            the query does not come to hold what is asked.
    """
    roles = [role_name(place) for place in range(2 * hops + 1)]
    held = {role: start(role) for role in roles}
    heads: dict[Head, HeadPlan] = {}
    by_layer = defaultdict(list)
    for path in schedule:
        by_layer[path.layer].append(path)
    for layer in sorted(by_layer):
        before = {role: dict(pieces) for role, pieces in held.items()}
        for path in by_layer[layer]:
            plan = heads.setdefault((layer, path.head), HeadPlan((layer, path.head)))
            if path.query in plan.matches:
                raise BadInput(f"a head attends from one role to one role; {path} is the second from {path.query}")
            plan.matches[path.query] = find_match(path, before)
            plan.targets[path.query] = path.key
            take(held[path.query], before[path.key], plan.head)
    answers = {}
    for hop in asked:
        if ("symbol", hop) not in held["query"]:
            raise BadInput(f"by this schedule the query does not come to hold x_{hop}")
        answers[hop] = held["query"]["symbol", hop][0]
    demand(heads, answers.values())
    return Plan(heads, answers)


def find_match(path: Path, before: dict[str, Holding]) -> Match:
    """The piece by which a path finds its target: a shared symbol if there is one, else a shared place."""
    mine, theirs = before[path.query], before[path.key]
    shared = [piece for piece in mine if piece in theirs]
    if not shared:
        raise BadInput(f"{path} attends without a shared piece of information (assumption 1 of theorem 1)")
    matches = []
    for piece in shared:
        (query, query_token), (key, key_token) = mine[piece], theirs[piece]
        cost = (piece[0] == "place", len(query.address) + len(key.address))
        matches.append((cost, Match(query, key, key_token - query_token)))
    _, best = min(matches)
    if best.query.kind == "symbol" and path.layer == 0:
        raise BadInput(
            f"{path} finds its target by its symbol, which layer 0 cannot: symbols differ in length, and only an MLP "
            "can tell by how much; begin with a layer that attends by position"
        )
    return best


def take(mine: Holding, theirs: Holding, head: Head) -> None:
    """Receive all that the other holds; of a thing held already the shorter way stays."""
    for piece, (slot, token) in theirs.items():
        copied = slot.copied_by(head)
        if piece not in mine or len(copied.address) < len(mine[piece][0].address):
            mine[piece] = copied, token


def demand(heads: dict[Head, HeadPlan], answers: Iterable[Slot]) -> None:
    """Tell every head what to copy: what is answered, what is matched, and what others copy from there."""
    open_slots = list(answers)
    for plan in heads.values():
        for match in plan.matches.values():
            open_slots += [match.query, match.key]
    while open_slots:
        slot = open_slots.pop()
        if slot.address:
            head, *rest = slot.address
            source = Slot(slot.kind, tuple(rest))
            heads[head].copies.add(source)
            open_slots.append(source)

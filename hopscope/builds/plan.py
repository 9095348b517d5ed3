"""From a schedule to a plan: what each role holds after each layer, how each path finds its target, and what each head
must copy.

What a head copies is added to a register of its own in the residual stream. So what is copied is identified by its
route, its *address*: the heads that copied it, last one first. For example, `((2, 0), (0, 0))` is a
token that was copied twice: in layer 0 by the position that I attend to in layer 2, and in layer 2 from there to me. An
address means the same at every role; which token it is at a role follows from the schedule.
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
    """A register of the residual stream: a copied `symbol`, or the copied code of a `place` in the sequence."""

    kind: str
    address: Address

    def copied_by(self, head: Head) -> Slot:
        return Slot(self.kind, (head, *self.address))


@dataclass(frozen=True, order=True)
class Match:
    """How a path finds its target: slot `query` of the attending position matches slot `key` of the attended one.

    Symbols must be equal; the target's place is `shift` positions later in the sequence.
    """

    query: Slot
    key: Slot
    shift: int = 0


@dataclass
class HeadPlan:
    """One head's task: for every attending role its match and the role attended to; and the slots that it copies."""

    head: Head
    matches: dict[str, Match] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    copies: set[Slot] = field(default_factory=set)

    def kinds(self) -> dict[Match, list[str]]:
        """The distinct matches, each with the roles that attend by it."""
        roles_of = defaultdict(list)
        for role, match in self.matches.items():
            roles_of[match].append(role)
        return dict(sorted(roles_of.items()))


@dataclass(frozen=True)
class Plan:
    """A schedule with everything that its weights need to know."""

    heads: dict[Head, HeadPlan]
    answers: dict[int, Slot]  # for each hop the slot in which the query holds it at the end

    @property
    def slots(self) -> list[Slot]:
        """All slots that heads write."""
        return sorted({slot.copied_by(head) for head, plan in self.heads.items() for slot in plan.copies})


#: What a role holds: the nearest slot of each symbol x_k and of each fact k's place, and which of its tokens.
Holding = dict[tuple[str, int], tuple[Slot, int]]


def start(role: str) -> Holding:
    """What a position holds at first: its token, and the place of its fact (0 at the first token, 1 at the second)."""
    place = place_of(role)
    held: Holding = {("symbol", place // 2): (Slot("symbol", OWN), 0)}
    if place:
        held["place", (place + 1) // 2] = (Slot("place", OWN), 1 - place % 2)
    return held


def make_plan(schedule: Iterable[Path], hops: int, asked: Sequence[int]) -> Plan:
    """The plan of a schedule for plain chains of D hops, of which the hops `asked` are answered.

    Raises:
        BadInput: a path attends without a shared piece, by symbol already in layer 0, or to two roles at once; or the
            query does not come to hold what is asked.
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
    """Add to `mine` all that the attended position holds; for a piece that it holds too, keep the shorter route."""
    for piece, (slot, token) in theirs.items():
        copied = slot.copied_by(head)
        if piece not in mine or len(copied.address) < len(mine[piece][0].address):
            mine[piece] = copied, token


def demand(heads: dict[Head, HeadPlan], answers: Iterable[Slot]) -> None:
    """Make every head copy what is needed: the answers, the matched slots, and what later heads copy from there."""
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

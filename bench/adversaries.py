"""Models made to flatter or to fool circuit discovery, drawn at random: builds of every kind, and what is no circuit.

Each is known by its seed, its kind and its number alone, so that any of them can be made again. Nothing here says which
circuits a build has: that is found by trying (`bench.exhaustive`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench.controls import of_another
from bench.hand_made import SHARP, Maker, Match, Move
from hopscope.builds.build import UNUSED, Build, build
from hopscope.builds.idle import rotate
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.roles import Roles
from hopscope.tasks.base import Batch, Task, TokenTask
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.tasks.two_hop import TwoHop
from hopscope_studies.birth.tasks.trigger_bigrams import TriggerBigrams

TRIES = 20  # settings drawn for one build, until they can be built
STRONG = 20.0  # logits of an answer


@dataclass(frozen=True)
class Adversary:
    """A model, the task on which it is searched, and how it can be made again.

    Attributes:
        name: seed/kind/number.
        kind: of adversary.
        model: searched in.
        task: searched on.
        size: units of the circuit that was meant; 0: whatever there is, it must not be accepted.
        about: further settings, for people.
    """

    name: str
    kind: str
    model: Model
    task: Task
    size: int
    about: dict[str, Any] = field(default_factory=dict)


def adversary(seed: int, kind: str, number: int) -> Adversary:
    """One adversary; it depends on nothing but these three."""
    name = f"{seed}/{kind}/{number}"
    model, task, size, about = KINDS[kind](random.Random(name), number)
    return Adversary(name, kind, model.eval(), task, size, {"task": f"{task.name()} {task.as_dict()}", **about})


def named(name: str) -> Adversary:
    """One adversary by its name, seed/kind/number."""
    seed, kind, number = name.rsplit("/", 2)
    return adversary(int(seed), kind, int(number))


Drawn = tuple[Model, Task, int, dict[str, Any]]

# Schedules, as `hopscope build` compiles them --------------------------------------------------------------------


def scheduled(draw: random.Random, kind: type[Retrieval] | type[SymbolicRetrieval]) -> Drawn:
    """A build of one or two hops: small enough for every set of rows to be tried."""
    for _ in range(TRIES):
        hops, heads = draw.choice([(1, 1), (1, 2), (1, 2), (1, 3), (2, 1)])
        order = draw.choice(["nearest_first", "deepest_first"])
        chains = draw.choice([3, 4])
        task = kind(
            n_hops=hops,
            n_chains=chains,
            order=order,
            **({"position_base": 100.0} if kind is Retrieval else {"d_vocab": 24}),
        )
        settings = Build(
            algorithm=draw.choice(catalogue.names("theory.algorithms")),
            merging=draw.choice(["query", "chain"]),
            heads=heads,
            layers=draw.choice([None, 3]) if hops == 1 else None,
            spread=draw.random() < 0.3,
            twins=draw.choice([0, 1]) if heads > 1 else 0,
            unused=draw.choice(UNUSED),
            extra_mlp=draw.choice([0, 16]),
            rotate=draw.random() < 0.5,
            seed=draw.randint(0, 9999),
        )
        try:
            built = build(task, settings)
        except BadInput:
            continue
        size = len(built.truth["circuits"]["uniform"][0])
        return built.model, task, size, settings.as_dict()
    raise RuntimeError(f"{TRIES} settings in a row cannot be built")


# Tokens, by hand -------------------------------------------------------------------------------------------------


@dataclass
class Frame:
    """A model in the making whose last step, from the query to its answer, is still to be made.

    Attributes:
        made: all before that.
        finds: by what the answer is found.
        layer: in which it is to be read.
        size: paths so far.
        free: heads that have nothing to do yet.
        draw: of all further choices.
    """

    made: Maker
    finds: list[Match]
    layer: int
    size: int
    free: set[tuple[int, int]]
    draw: random.Random

    def take(self, layer: int) -> int:
        """A head of a layer that has nothing to do yet."""
        head = self.draw.choice(sorted(head for at, head in self.free if at == layer))
        self.free.discard((layer, head))
        return head

    def read(self, moves: list[Move], layer: int | None = None, further: list[Match] | None = None) -> None:
        """Let a head attend to the answer and move something."""
        layer = self.layer if layer is None else layer
        self.made.head(layer, self.take(layer), [*self.finds, *(further or [])], moves)

    def answer(self, by: float = STRONG) -> Move:
        """The token attended to, into the answer."""
        return self.made.move("token", "out", by)

    def done(self, size: int, **about: Any) -> Drawn:
        """The model, with noise in heads that have nothing to do, and turned about, or not."""
        made, draw = self.made, self.draw
        noisy, turned = draw.random() < 0.5, draw.random() < 0.3
        numbers = torch.Generator().manual_seed(draw.randint(0, 1 << 30))
        if noisy:
            for layer, head in sorted(self.free):
                noise(made, layer, head, numbers)
        if turned:
            state = {name: value.double() for name, value in made.model.state_dict().items()}
            rotate(state, made.model.architecture.head_width, numbers)
            made.model.load_state_dict({name: value.float() for name, value in state.items()})
        shape = made.model.architecture
        about |= {"layers": shape.n_layers, "heads": shape.n_heads, "noisy": noisy, "turned": turned}
        return made.model, made.task, self.size + size, about


def noise(made: Maker, layer: int, head: int, numbers: torch.Generator) -> None:
    """A head that attends sharply to what it pleases, and writes where nothing reads."""
    attention = made.model.blocks[layer].attn
    for which in range(3):
        attention.W_QKV.data[which, head] = torch.randn(attention.W_QKV.shape[2:], generator=numbers) / 4
    attention.W_O.data[head, :, made.at["scratch"]] = torch.randn(
        attention.W_O.shape[1], made.at["scratch"].stop - made.at["scratch"].start, generator=numbers
    )


def task_of_tokens(draw: random.Random, number: int) -> TokenTask:
    """Tasks whose last step is to find what a token stands before; in turn, that of many tokens less often."""
    which = 2 if number % 10 == 4 else number % 2
    if which == 0:
        length = draw.choice([8, 10, 12])
        return Induction(length=length, d_vocab=length + draw.choice([2, 6]))
    if which == 1:
        return TwoHop(n_pairs=draw.choice([4, 5]), n_chains=2, d_vocab=12)
    return TriggerBigrams(length=draw.choice([12, 14]), n_triggers=3)


def frame(
    draw: random.Random,
    task: TokenTask,
    readers: int = 1,
    after: int = 0,
    joins: str = "token",
    tables: bool = False,
    parts: Mapping[str, int] = {},
) -> Frame:
    """The textbook's induction, up to the last step: who stands before; for two hops what follows the query, too.

    Args:
        draw: of all choices.
        task: induction, triggers, or two hops.
        readers: heads at least, so that there is room for so many in one layer.
        after: layers after the one that reads.
        joins: what the first layer copies, or would.
        tables: whether there are MLPs, and what is found goes through one.
        parts: further parts of the stream and their widths.
    """
    two = isinstance(task, TwoHop)
    needed = 2 + two
    layers = needed + (0 if after or readers > 2 or two else draw.choice([0, 0, 1]))
    chosen = sorted(draw.sample(range(layers), needed))
    heads = max(readers, draw.choice([1, 1, 2] if after or two else [1, 2]))
    named = ("before", *(["found"] if two else []), *(["raw", "seen"] if tables else []))
    held = {**dict.fromkeys(named, task.d_vocab or 0), **parts}
    neurons = 2 * (task.d_vocab or 0) if tables else 0
    width = 2 * ((task.d_vocab or 0) + task.n_positions)
    made = Maker(layers + after, heads, {**held, "scratch": 6}, task=task, neurons=neurons, d_head=width)
    free = {(layer, head) for layer in range(layers + after) for head in range(heads)}
    found = Frame(made, [], chosen[-1], needed - 1, free, draw)
    sharp = draw.choice([30.0, SHARP, 60.0])
    made.head(chosen[0], found.take(chosen[0]), [made.previous()], [made.move(joins, "raw" if tables else "before")])
    if tables:
        made.table(chosen[0], "raw", "before")
    odd = [made.places(range(1, made.n - 1, 2))] if two else [made.not_first()]
    if two:
        first = [made.same("token", "before", sharp), *odd]
        made.head(chosen[1], found.take(chosen[1]), first, [made.move("token", "found")])
    found.finds = [made.same("found" if two else "token", "before", sharp), *odd]
    return found


def textbook(draw: random.Random, task: TokenTask) -> Drawn:
    """Nothing but what it takes, heads that are idle, and noise."""
    at = frame(draw, task)
    at.read([at.answer()])
    return at.done(1)


def hops(draw: random.Random, number: int) -> Drawn:
    """hop_k with k = 0 or 1: an MLP chooses between the own letter and what was found, by the number of hops."""
    task = HopK(length=draw.choice([8, 10]), n_letters=draw.choice([3, 4]), n_hops=1)
    extra = draw.choice([0, 0, 1])
    first = draw.choice(range(1 + extra))
    second = draw.choice(range(first + 1, 2 + extra))
    parts = {"before": task.d_vocab, "count": task.d_vocab, "found": task.d_vocab, "scratch": 6}
    made = Maker(2 + extra, draw.choice([2, 2, 3]), parts, task=task, neurons=2 * task.d_vocab)
    heads = made.model.architecture.n_heads
    at = Frame(made, [], second, 3, {(i, h) for i in range(2 + extra) for h in range(heads)}, draw)
    zero, one = task.n_letters + 1, task.n_letters + 2  # the tokens that say how many hops
    made.head(first, at.take(first), [made.previous()], [made.move("token", "before")])
    made.head(first, at.take(first), [made.place(0)], [made.move("token", "count")])
    found = torch.eye(task.d_vocab)
    found[[zero, one]] = 0.0  # who finds nothing rests on the number of hops, which stands for ~
    found[[zero, one], task.undefined] = 1.0
    recent = ("place", "place", torch.linspace(0, 12, made.n).repeat(made.n, 1))
    rest = made.place(0, 26.0)
    matches = [made.same("token", "before"), recent, rest, made.not_itself()]
    made.head(second, at.take(second), matches, [("token", "found", found)])
    made.table(second, "found", "out", STRONG, ("count", one))
    made.table(second, "token", "out", STRONG, ("count", zero))
    return at.done(1)


def self_repair(draw: random.Random, number: int) -> Drawn:
    """Two that answer, in different layers: the second shuns tokens that the first has written, and seems idle."""
    at = frame(draw, task_of_tokens(draw, number), after=1)
    at.read([at.answer(2 * STRONG)])
    shuns = at.made.same("out", "token", -draw.choice([2.0, 3.0]))
    at.read([at.answer()], at.layer + 1, [shuns])
    return at.done(1)


def cancelling(draw: random.Random, number: int) -> Drawn:
    """Heads of one layer that attend alike, and write the answer and its opposite."""
    task = task_of_tokens(draw, number)
    pairs = [(30, -10), (-10, 25), (20, -5), (4, 3)]
    three = [(20, -20, 20), (20, 20, -20), (12, -5, 9), (20, 15, -5), (3.5, 3.5, -0.5)]
    strengths = draw.choice(pairs if isinstance(task, TwoHop) else [*pairs, *three])
    at = frame(draw, task, readers=len(strengths))
    for strength in strengths:
        at.read([at.answer(strength)])
    return at.done(2 if max(strengths) < 5 else 1, strengths=strengths)


def split_answer(draw: random.Random, number: int) -> Drawn:
    """Two heads attend alike: one writes half of the tokens, very loudly, the other the others."""
    at = frame(draw, task_of_tokens(draw, number), readers=2)
    loud = draw.choice([20.0, 100.0, 750.0])
    half = torch.tensor([draw.random() < 0.5 for _ in range(at.made.v)])
    for chosen, strength in ((half, loud), (~half, STRONG)):
        at.read([("token", "out", torch.diag(chosen.float() * strength))])
    return at.done(2, loud=loud)


def decoys(draw: random.Random, number: int) -> Drawn:
    """Heads that attend just where the answer is, and write nothing, or where nothing reads."""
    n = draw.choice([1, 2])
    at = frame(draw, task_of_tokens(draw, number), readers=1 + n, after=draw.choice([0, 1]))
    last = at.made.model.architecture.n_layers - 1
    at.read([at.answer()])
    for _ in range(n):
        layer = draw.choice([at.layer, last])
        nowhere = torch.zeros(at.made.v, 6)
        nowhere[:6, :6] = torch.eye(6)
        at.read(draw.choice([[], [("token", "scratch", nowhere)]]), layer)
    return at.done(1, decoys=n)


def composed_by_mlp(draw: random.Random, number: int) -> Drawn:
    """What heads copy is of no use until an MLP has turned it into what others read."""
    at = frame(draw, task_of_tokens(draw, number), tables=True)
    at.read([at.made.move("token", "seen")])
    at.made.table(at.layer, "seen", "out", STRONG)
    return at.done(1 + isinstance(at.made.task, TwoHop))  # what even attention gives no MLP takes for a token


def suppressor(draw: random.Random, number: int) -> Drawn:
    """The reader brings the answer and, louder, the token before it; a second head unsays that."""
    task = task_of_tokens(draw, number)
    at = frame(draw, task, readers=2)
    made, own = at.made, "found" if isinstance(task, TwoHop) else "token"
    too_much = draw.choice([25.0, 30.0])
    at.read([at.answer(), made.move("before", "out", too_much)])
    again = [made.same(own, "token"), made.not_itself()]
    made.head(at.layer, at.take(at.layer), again, [made.move("token", "out", -draw.choice([1.0, 1.3]) * too_much)])
    return at.done(2)


def crowd(draw: random.Random, number: int) -> Drawn:
    """Whoever does not say what stood before it, but looks everywhere, draws the reader away: so all must say it.

    That the first position was looked at is what draws; the second position, and those that hold the query's own
    token, are forgiven.
    """
    length = draw.choice([8, 10, 12])
    task = Induction(length=length, d_vocab=length + draw.choice([2, 6]))
    heads = draw.choice([1, 2])
    made = Maker(2, heads, {"before": task.d_vocab, "looked": task.n_positions, "scratch": 6}, task=task)
    at = Frame(made, [], 1, 2, {(layer, head) for layer in range(2) for head in range(heads)}, draw)
    draws = torch.zeros(made.n, made.n)
    by = draw.choice([15, 20]) * SHARP
    draws[:, 0] = by
    forgiven = [made.place(0, -2 * by), made.place(1, -by), made.place(made.n - 1, -2 * by)]
    own = made.same("token", "token", -by)
    made.head(0, at.take(0), [made.previous()], [made.move("token", "before"), made.move("place", "looked")])
    at.finds = [made.same("token", "before"), ("place", "looked", draws), *forgiven, own]
    at.read([at.answer()])
    return at.done(1)


def hub(draw: random.Random, number: int) -> Drawn:
    """The answer goes through a position that holds no role: no set of paths can say so.

    In turn: without a mask the first position finds where the answer is and tells the query; or what stood before is
    copied one position further, and the query reads it there.
    """
    length = draw.choice([8, 10, 12])
    task = Induction(length=length, d_vocab=length + draw.choice([2, 6]))
    return (told if number % 2 else relayed)(draw, task)


def told(draw: random.Random, task: Induction) -> Drawn:
    """The first position finds where the answer is and tells the query, which reads it."""
    parts = {"before": task.d_vocab, "asked": task.d_vocab, "found": task.n_positions, "told": task.n_positions}
    heads = draw.choice([1, 2])
    made = Maker(5, heads, {**parts, "scratch": 6}, causal=False, task=task)
    at = Frame(made, [], 4, 0, {(layer, head) for layer in range(5) for head in range(heads)}, draw)
    last = made.n - 1
    made.head(0, at.take(0), [made.previous()], [made.move("token", "before")])
    made.head(1, at.take(1), [made.only_from(0, made.place(last))], [made.move("token", "asked")])
    made.head(2, at.take(2), [made.same("asked", "before", 12.0), made.not_first()], [made.move("place", "found")])
    made.head(3, at.take(3), [made.only_from(last, made.place(0))], [made.move("found", "told")])
    made.head(4, at.take(4), [made.same("told", "place", 5.0)], [made.move("token", "out", STRONG)])
    return at.done(0)


def relayed(draw: random.Random, task: Induction) -> Drawn:
    """Each position holds the two tokens before it; the query reads the nearer where the farther is its own."""
    parts = {"before": task.d_vocab, "farther": task.d_vocab, "scratch": 6}
    made = Maker(2, 2, parts, task=task)
    at = Frame(made, [], 1, 0, {(layer, head) for layer in range(2) for head in range(2)}, draw)
    two_back = ("place", "place", SHARP * torch.eye(made.n).roll(-2, 1).tril(-2))
    made.head(0, at.take(0), [made.previous()], [made.move("token", "before")])
    made.head(0, at.take(0), [two_back], [made.move("token", "farther")])
    places = made.places(range(2, made.n), 3 * SHARP)
    made.head(1, at.take(1), [made.same("token", "farther"), places], [made.move("before", "out", STRONG)])
    return at.done(0)


# What is no circuit ----------------------------------------------------------------------------------------------

#: Every task in which circuits are searched, small.
SMALL_TASKS: dict[str, dict[str, Any]] = {
    "automaton_strings": {},
    "causal_sequences": {},
    "conditional_retrieval": {"n_chains": 3, "order": "nearest_first", "position_base": 100.0},
    "factual_recall": {"length": 16},
    "hop_k": {"length": 10, "n_hops": 1},
    "induction": {"length": 10, "d_vocab": 16},
    "item_labels": {},
    "k_fold": {},
    "linear_regression": {},
    "noisy_bigram": {"length": 16},
    "repeated_segment": {"length": 20},
    "retrieval": {"n_hops": 2, "order": "nearest_first", "position_base": 100.0},
    "self_generated": {},
    "symbolic_retrieval": {"n_hops": 1, "d_vocab": 24, "order": "nearest_first"},
    "trigger_bigrams": {"length": 24, "n_triggers": 3},
    "two_hop": {"n_pairs": 4, "n_chains": 2, "d_vocab": 12},
}
LEARNT = ("retrieval", "symbolic_retrieval", "induction", "hop_k", "two_hop", "item_labels", "repeated_segment")
LEARNT += ("trigger_bigrams", "k_fold", "conditional_retrieval")  # answers can be known by heart


#: What shapes had before their defaults changed: the adversaries stay who they were.
EARLIER = {"mlp": True, "positions": None}


def small_task(name: str) -> Task:
    task: Task = catalogue.find("tasks", name)(**SMALL_TASKS[name])
    return task


def fresh(draw: random.Random, task: Task, **shape: Any) -> Transformer:
    """A transformer as it begins."""
    layers, heads = draw.choice([(2, 1), (2, 2), (3, 1)])
    chosen = {"n_layers": layers, "n_heads": heads, "d_model": draw.choice([16, 32, 64]), **EARLIER, **shape}
    architecture = Architecture(**chosen, init=draw.choice(["early_layers", "fan_in", "gpt2"]))
    return Transformer.for_task(architecture, task, generator(draw.randint(0, 1 << 30), "init"))


def untrained(draw: random.Random, number: int) -> Drawn:
    """A model that never saw anything, of every task in turn."""
    task = small_task(list(SMALL_TASKS)[number % len(SMALL_TASKS)])
    return fresh(draw, task), task, 0, {}


def memorised(draw: random.Random, number: int) -> Drawn:
    """A model that knows a dozen sequences by heart, and no others."""
    task = small_task(LEARNT[number % len(LEARNT)])
    model = fresh(draw, task, d_model=48)
    known = task.sample(draw.choice([8, 12]), draw.randint(0, 1 << 30))
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    right = 0.0
    for _ in range(30):
        for _ in range(10):
            outputs = model(known.inputs, at=task.query_positions)
            loss = task.loss(outputs, known.targets)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        right = float(task.correct(outputs.detach(), known).float().mean())
        if right == 1.0 and float(loss.detach()) < 0.05:
            break
    return model, task, 0, {"known by heart": right}


SOLVED = ("retrieval", "symbolic_retrieval", "induction", "two_hop", "trigger_bigrams", "hop_k")
SHUFFLED = ("weights", "targets", "roles")


def shuffled(draw: random.Random, number: int) -> Drawn:
    """A build that solves its task, with one thing shuffled: its weights, the targets, or the roles of positions."""
    model, task, _, about = KINDS[SOLVED[number % len(SOLVED)]](draw, draw.choice(range(1000)))
    what = SHUFFLED[number // len(SOLVED) % len(SHUFFLED)]
    if what == "weights":
        numbers = torch.Generator().manual_seed(draw.randint(0, 1 << 30))
        for parameter in model.parameters():
            order = torch.randperm(parameter.numel(), generator=numbers)
            parameter.data = parameter.data.flatten()[order].view_as(parameter)
    else:
        task = lying(task, what)
    return model, task, 0, {**about, "shuffled": what}


def lying(task: Task, what: str) -> Task:
    """The same task, in which every sequence has the targets, or the roles, of another."""
    kind = type(task)

    def targets(self: Task, draw: Any) -> Tensor:
        return kind.targets(self, draw).roll(1, 0)

    def searched_roles(self: Task, batch: Batch) -> Roles:
        return of_another(kind.searched_roles(self, batch))

    changed = {"targets": targets} if what == "targets" else {"searched_roles": searched_roles}
    liar = type(f"Lying{kind.__name__}", (kind,), {"__module__": kind.__module__, "__doc__": kind.__doc__, **changed})
    lied: Task = liar(**{name: getattr(task, name) for name in task.as_dict() if name != "name"})
    return lied


Kind = Callable[[random.Random, int], Drawn]

#: Builds, whose circuits are known by trying.
BUILDS: dict[str, Kind] = {
    "retrieval": lambda draw, number: scheduled(draw, Retrieval),
    "symbolic_retrieval": lambda draw, number: scheduled(draw, SymbolicRetrieval),
    "induction": lambda draw, number: textbook(draw, task_of_tokens(draw, 0)),
    "two_hop": lambda draw, number: textbook(draw, task_of_tokens(draw, 1)),
    "trigger_bigrams": lambda draw, number: textbook(draw, task_of_tokens(draw, 4)),
    "hop_k": hops,
    "self-repair": self_repair,
    "cancelling": cancelling,
    "split answer": split_answer,
    "decoys": decoys,
    "composed by MLP": composed_by_mlp,
    "suppressor": suppressor,
    "crowd": crowd,
    "hub": hub,
}
#: Models of which nothing may be accepted.
CONTROLS: dict[str, Kind] = {"untrained": untrained, "memorised": memorised, "shuffled": shuffled}
KINDS = BUILDS | CONTROLS

"""Transformers for tasks of tokens whose weights are written by hand: adversaries of circuit discovery.

The stream has a part for each thing that a position holds: its token, its place, and whatever heads copy. There is no
LayerNorm, and an MLP only where one is asked for, so that each head does what its two lines say: what it matches, and
what it moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.base import TokenTask
from hopscope.tasks.induction import Induction

TASK = Induction(length=12, d_vocab=24)
SHARP = 40.0
STEEP = 40.0  # slope of neurons that tell 0 from 1

#: (part of the attending position, part of the attended one, which of theirs each of mine looks for)
Match = tuple[str, str, Tensor]
#: (part read, part written to, how)
Move = tuple[str, str, Tensor]


class Maker:
    """A model in the making. Parts are `token`, `place`, those that are named, and `out`, which is read off.

    Args:
        layers: number of layers.
        heads: per layer.
        parts: further parts of the stream and their widths.
        causal: whether positions see only what came before.
        task: whose model it is.
        neurons: of each layer's MLP; 0: there is none.
        d_head: width of heads; by default more than enough.
    """

    def __init__(
        self,
        layers: int,
        heads: int = 1,
        parts: Mapping[str, int] = {},
        causal: bool = True,
        task: TokenTask = TASK,
        neurons: int = 0,
        d_head: int | None = None,
    ):
        self.task, self.n, self.v = task, task.n_positions, task.d_vocab or 0
        widths = {"token": self.v, "place": self.n, "out": self.v, **parts}
        self.at, start = {}, 0
        for name, width in widths.items():
            self.at[name] = slice(start, start + width)
            start += width
        shape = Architecture(
            n_layers=layers,
            n_heads=heads,
            d_model=start,
            d_head=d_head or start + 40,
            layer_norm=False,
            mlp=neurons > 0,
            d_mlp=neurons or None,
            causal=causal,
            init="early_layers",
            positions=None,
        )
        self.model = Transformer.for_task(shape, task)
        for parameter in self.model.parameters():
            parameter.data.zero_()
        self.model.W_E.data[:, self.at["token"]] = torch.eye(self.v)
        self.model.W_pos.data[:, self.at["place"]] = torch.eye(self.n)
        self.model.W_U.data[self.at["out"]] = torch.eye(self.v)

    def head(self, layer: int, head: int, matches: Sequence[Match], moves: Sequence[Move]) -> None:
        """Scores are sums over matches; what is moved is added to what stands there."""
        attention = self.model.blocks[layer].attn
        scale, row = self.model.architecture.head_width**0.5, 0
        for mine, theirs, how in matches:
            width = how.shape[1]
            attention.W_QKV.data[0, head, self.at[mine], row : row + width] = how * scale
            attention.W_QKV.data[1, head, self.at[theirs], row : row + width] = torch.eye(width)
            row += width
        row = 0
        for source, target, how in moves:
            width = how.shape[1]
            attention.W_QKV.data[2, head, self.at[source], row : row + width] += how
            attention.W_O.data[head, row : row + width, self.at[target]] = torch.eye(width)
            row += width

    def table(self, layer: int, source: str, target: str, by: float = 1.0, flag: tuple[str, int] | None = None) -> None:
        """Neurons that write what a part says clearly into another; with a flag, where that is set.

        A neuron answers to one entry: gelu(c (x − 1/2)) is 0 up to a half, and c/2 at 1. They are put behind those that
        the layer has.
        """
        mlp, n = self.model.blocks[layer].mlp, self.at[source].stop - self.at[source].start
        first = int(mlp.W_in.data.abs().sum(0).gt(0).sum())
        own = range(first, first + n)
        mlp.W_in.data[range(self.at[source].start, self.at[source].stop), own] = STEEP
        mlp.b_in.data[own.start : own.stop] = -STEEP / 2
        mlp.W_out.data[own, range(self.at[target].start, self.at[target].start + n)] = 2 * by / STEEP
        if flag:
            part, index = flag
            mlp.W_in.data[self.at[part].start + index, own.start : own.stop] += STEEP
            mlp.b_in.data[own.start : own.stop] -= STEEP

    def previous(self, sharp: float = SHARP) -> Match:
        """Attend one place back; the first position has none, and sees itself."""
        return "place", "place", sharp * torch.eye(self.n).roll(-1, 1).tril(-1)

    def place(self, place: int, sharp: float = SHARP) -> Match:
        """From wherever, attend to one place."""
        how = torch.zeros(self.n, self.n)
        how[:, place] = sharp
        return "place", "place", how

    def not_first(self, sharp: float = SHARP) -> Match:
        """From wherever, leave the first position alone."""
        return self.place(0, -3 * sharp)

    def only_from(self, place: int, match: Match) -> Match:
        """A match by place, from one place alone."""
        mine, theirs, how = match
        mask = torch.zeros(len(how), 1)
        mask[place] = 1
        return mine, theirs, how * mask

    def places(self, chosen: Sequence[int], sharp: float = SHARP) -> Match:
        """From wherever, attend to some places rather than to others."""
        how = torch.zeros(self.n, self.n)
        how[:, list(chosen)] = sharp
        return "place", "place", how

    def not_itself(self, sharp: float = SHARP) -> Match:
        """From wherever, leave oneself alone."""
        return "place", "place", -3 * sharp * torch.eye(self.n)

    def same(self, mine: str, theirs: str, sharp: float = SHARP) -> Match:
        """Attend to where their part is what mine is."""
        return mine, theirs, sharp * torch.eye(self.at[mine].stop - self.at[mine].start)

    def move(self, source: str, target: str, by: float = 1.0) -> Move:
        """Copy a part into another."""
        return source, target, by * torch.eye(self.at[source].stop - self.at[source].start)


def copiers(*strengths: float) -> Maker:
    """The textbook's two layers: who stands before; then what followed the same token.

    Each head of layer 1 attends to the answer and writes it, so strongly; a negative one forbids it.
    """
    made = Maker(2, len(strengths), {"before": TASK.d_vocab})
    made.head(0, 0, [made.previous()], [made.move("token", "before")])
    for head, strength in enumerate(strengths):
        answer = [made.same("token", "before"), made.not_first()]
        made.head(1, head, answer, [made.move("token", "out", strength)])
    return made


def split_answer() -> Maker:
    """Two heads of layer 1 attend alike: one writes half of the tokens, very loudly, the other writes the others."""
    made = copiers(0.0, 0.0)
    for head, strength in enumerate((750.0, 20.0)):
        half = torch.diag((torch.arange(made.v) % 2 == head).float() * strength)
        made.head(1, head, [made.same("token", "before"), made.not_first()], [("token", "out", half)])
    return made


def hub() -> Maker:
    """Without a mask: the first position, of no role, finds where the answer is and tells the query, which reads it."""
    parts = {"before": TASK.d_vocab, "asked": TASK.d_vocab, "found": TASK.n_positions, "told": TASK.n_positions}
    made = Maker(5, 1, parts, causal=False)
    last = made.n - 1
    made.head(0, 0, [made.previous()], [made.move("token", "before")])
    made.head(1, 0, [made.only_from(0, made.place(last))], [made.move("token", "asked")])
    made.head(2, 0, [made.same("asked", "before", 12.0), made.not_first()], [made.move("place", "found")])
    made.head(3, 0, [made.only_from(last, made.place(0))], [made.move("found", "told")])
    made.head(4, 0, [made.same("told", "place", 5.0)], [made.move("token", "out", 20.0)])
    return made


def backup() -> Maker:
    """Two copiers, of layers 1 and 2: the second shuns tokens that the first has written, so that it seems idle."""
    made = Maker(3, 1, {"before": TASK.d_vocab})
    answer = [made.same("token", "before"), made.not_first()]
    made.head(0, 0, [made.previous()], [made.move("token", "before")])
    made.head(1, 0, answer, [made.move("token", "out", 40.0)])
    made.head(2, 0, [*answer, made.same("out", "token", -2.0)], [made.move("token", "out", 20.0)])
    return made


def suppressor() -> Maker:
    """The copier brings the answer and, louder, the token before it, the query's own; a second head unsays that."""
    made = Maker(2, 2, {"before": TASK.d_vocab})
    made.head(0, 0, [made.previous()], [made.move("token", "before")])
    made.head(
        1,
        0,
        [made.same("token", "before"), made.not_first()],
        [made.move("token", "out", 20.0), made.move("before", "out", 30.0)],
    )
    made.head(
        1, 1, [made.same("token", "token"), made.place(made.n - 1, -3 * SHARP)], [made.move("token", "out", -40.0)]
    )
    return made


def crowd() -> Maker:
    """Whoever does not say what stood before it, but looks everywhere, draws the reader away: so all must say it.

    That the first position was looked at is what draws; the second position, and those that hold the query's own
    token, are forgiven, so that among the roles only `value[1]` must attend.
    """
    made = Maker(2, 1, {"before": TASK.d_vocab, "looked": TASK.n_positions})
    draws = torch.zeros(made.n, made.n)
    draws[:, 0] = 15 * SHARP
    forgiven = [made.place(0, -30 * SHARP), made.place(1, -15 * SHARP), made.place(made.n - 1, -30 * SHARP)]
    own = made.same("token", "token", -15 * SHARP)
    made.head(0, 0, [made.previous()], [made.move("token", "before"), made.move("place", "looked")])
    answer = [made.same("token", "before"), ("place", "looked", draws), *forgiven, own]
    made.head(1, 0, answer, [made.move("token", "out", 20.0)])
    return made

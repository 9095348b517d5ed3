"""Items and labels: pairs of an item and its label, then an item whose label is asked (Chan et al., arXiv:2205.05055).

These are the few-shot sequences of Singh et al. (ICML 2024, arXiv:2404.07129, section 3), with labels drawn anew for
every sequence, and of Reddy (ICLR 2024, arXiv:2312.03002, section 2), with fixed labels of classes, so that answers are
in the context or in the weights.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.problem.symbols import points
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer, TokenTask

#: Two items of one class have a smaller squared distance than this, of two classes a larger one (brute force, ours).
NEAR = 0.5
MOST_SETS = 20_000  # largest number of sets of labels of which some may be withheld


@dataclass(frozen=True)
class ItemLabels(TokenTask):
    """N pairs of an item and its label, then an item, whose label is asked.

    ```
    item c  label 3   item a  label 1  |  item c   ->  3
    ```

    An item is the vector of its class, with optional noise; a class is a point of norm about 1. A sequence has N / B
    classes, each B times, in random order. The answer is a label's number.
    """

    n_classes: int = setting(50, "number of classes, C of Singh et al., K of Reddy", low=2, high=1 << 20)
    n_labels: int = setting(5, "L, number of labels", low=2, high=4096)
    n_pairs: int = setting(2, "N, pairs of item and label before the query", low=1, high=1024)
    burst: int = setting(1, "B, how often each class of a sequence occurs before the query", low=1, high=1024)
    d_item: int = setting(64, "numbers of an item", low=2, high=4096)
    noise: float = setting(0.0, "ε: an item is (class + ε η) / √(1 + ε²), with η of a class's norm", low=0)
    labelling: str = setting(
        "context",
        "context, the labels of a sequence's classes are drawn with it; class, class k has label k mod L",
        choices=("context", "class"),
    )
    distinct: bool = setting(True, "whether the classes of a sequence have different labels")
    withheld: int = setting(0, "sets of N / B labels that never occur together in training (Singh et al.: 2)", low=0)
    sets: str = setting("trained", "which sets of labels sequences have", choices=("trained", "withheld"))
    bursty: float = setting(1.0, "p_B, share of sequences that have the query; others are random", low=0, high=1)
    fresh: float = setting(0.0, "p_C, share of sequences with new classes and labels of their own", low=0, high=1)
    zipf: float = setting(0.0, "α: class k is drawn in proportion to k^−α", low=0)
    absent: bool = setting(False, "whether the query's class never occurs in the context: a test of the weights")
    flipped: bool = setting(False, "whether all labels of a sequence are shifted by one: a test of the context")
    asked: str = setting("last", "last, the query alone; all, every item whose label is known", choices=("last", "all"))
    label_code: str = setting(
        "one_hot", "one_hot, in numbers of their own; vector, points as classes are", choices=("one_hot", "vector")
    )
    position_code: str = setting(
        "none", "none; one_hot, inputs carry their place in numbers of their own", choices=("none", "one_hot")
    )
    n_places: int = setting(0, "places of that code, of which a sequence begins at a random one; 0: as many as it has")
    world: int = setting(0, "seed of classes, of labels' vectors, and of which sets are withheld", low=0)

    d_vocab = None
    hop_names = ("label",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_pairs % self.burst:
            raise BadInput(f"pairs must be a multiple of the burst, {self.burst}; got {self.n_pairs}")
        if self.n_kinds + self.absent > self.n_classes:
            raise BadInput(f"classes must be at least {self.n_kinds + self.absent}; got {self.n_classes}")
        if self.distinct and self.n_kinds > self.n_labels:
            raise BadInput(f"labels must be at least {self.n_kinds}, for they differ; got {self.n_labels}")
        if self.distinct and self.by_class and self.n_classes % self.n_labels:
            raise BadInput(f"classes must be a multiple of labels, {self.n_labels}; got {self.n_classes}")
        if self.n_places and self.n_places < self.n_positions:
            raise BadInput(f"places must be 0 or at least {self.n_positions}; got {self.n_places}")
        self.check_rules()

    def check_rules(self) -> None:
        """Raise BadInput for settings that contradict each other."""
        if not self.by_class and (self.absent or self.bursty < 1):
            raise BadInput("labels drawn with the sequence are known from it alone; leave absent off and bursty at 1")
        if self.zipf and self.by_class and self.distinct:
            raise BadInput("classes whose labels must differ are drawn evenly; leave zipf at 0, or distinct off")
        if self.absent and (self.flipped or self.fresh):
            raise BadInput("what the weights know is asked of old classes with old labels; leave flipped and fresh out")
        if (self.withheld or self.sets == "withheld") and (self.by_class or not self.distinct):
            raise BadInput("sets of labels can be withheld where they are drawn with the sequence and differ")
        if self.withheld:
            n_sets = math.comb(self.n_labels, self.n_kinds)
            if not self.withheld < n_sets <= MOST_SETS:
                raise BadInput(f"of {n_sets} sets of labels {self.withheld} cannot be withheld")
        elif self.sets == "withheld":
            raise BadInput("no sets of labels are withheld; set withheld above 0")

    # Sizes ---------------------------------------------------------------------------------------------------

    @property
    def by_class(self) -> bool:
        """Whether classes have fixed labels."""
        return self.labelling == "class"

    @property
    def n_kinds(self) -> int:
        """The number of different classes in a bursty sequence: N / B."""
        return self.n_pairs // self.burst

    @property
    def n_logits(self) -> int:
        return self.n_labels

    @property
    def n_positions(self) -> int:
        return 2 * self.n_pairs + 1

    @property
    def query_positions(self) -> slice:
        return slice(-1, None) if self.asked == "last" else slice(0, None, 2)

    @property
    def inputs_carry_position(self) -> bool:  # type: ignore[override]
        """Whether each input carries its position."""
        return self.position_code == "one_hot"

    @property
    def code_width(self) -> int:
        """Numbers of the position code; 0 without one."""
        return (self.n_places or self.n_positions) if self.inputs_carry_position else 0

    @property
    def d_input(self) -> int:  # type: ignore[override]
        """The position code, if there is one; the item's or the label's vector; one-hot labels, if used."""
        return self.code_width + self.d_item + (self.n_labels if self.label_code == "one_hot" else 0)

    # The world: shared by all sequences ----------------------------------------------------------------------

    @cached_property
    def classes(self) -> Float[Tensor, "class d_item"]:
        """The classes' points, N(0, 1/D) in every direction."""
        return points("classes", self.n_classes, self.d_item, self.world)

    @cached_property
    def label_vectors(self) -> Float[Tensor, "label width"]:
        """The labels' vectors, which follow the position code."""
        if self.label_code == "one_hot":
            return torch.cat([torch.zeros(self.n_labels, self.d_item), torch.eye(self.n_labels)], 1)
        return points("labels", self.n_labels, self.d_item, self.world)

    @cached_property
    def label_sets(self) -> Int[Tensor, "set kind"]:
        """The sets of labels that may occur together."""
        every = torch.tensor(list(itertools.combinations(range(self.n_labels), self.n_kinds)))
        order = torch.randperm(len(every), generator=generator(self.world, "withheld"))
        return every[order[: self.withheld] if self.sets == "withheld" else order[self.withheld :]]

    # Drawing -------------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """`classes` and `labels` of the pairs and of the query, which is last; `items`, vectors; `start`, a place.

        New classes of a sequence are numbered after the old ones.
        """
        device, random = generator.device, generator
        kinds, labels = self.draw_kinds(n, random)
        dealt = torch.rand(n, self.n_pairs, generator=random, device=device).argsort(-1) % self.n_kinds
        wanted = torch.randint(self.n_kinds, (n, 1), generator=random, device=device)
        at = torch.cat([dealt, torch.full_like(wanted, self.n_kinds) if self.absent else wanted], 1)
        drawn, named = kinds.gather(1, at), labels.gather(1, at)
        if self.bursty < 1:
            loose = torch.rand(n, 1, generator=random, device=device) >= self.bursty
            others = self.draw_classes((n, self.n_pairs + 1), random)
            drawn, named = torch.where(loose, others, drawn), torch.where(loose, others % self.n_labels, named)
        room = (self.n_places or self.n_positions) - self.n_positions + 1
        start = torch.randint(room, (n, 1), generator=random, device=device)
        named = (named + 1) % self.n_labels if self.flipped else named
        return {"classes": drawn, "labels": named, "items": self.draw_items(drawn, random), "start": start}

    def draw_kinds(
        self, n: int, random: torch.Generator
    ) -> tuple[Int[Tensor, "batch kind"], Int[Tensor, "batch kind"]]:
        """The different classes of each sequence, and their labels; one more if the query's class is absent."""
        device, count = random.device, self.n_kinds + self.absent
        labels = self.draw_labels(n, count, random)
        if not self.by_class:
            kinds = self.draw_different(n, count, random)
        elif self.distinct and count <= self.n_labels:
            of_label = self.n_classes // self.n_labels
            kinds = labels + self.n_labels * torch.randint(of_label, labels.shape, generator=random, device=device)
        else:
            kinds = self.draw_different(n, count, random)
            labels = kinds % self.n_labels
        if self.fresh:
            new = torch.rand(n, 1, generator=random, device=device) < self.fresh
            numbers = self.n_classes + torch.arange(count, device=device)
            own = (
                labels if self.distinct else torch.randint(self.n_labels, labels.shape, generator=random, device=device)
            )
            kinds, labels = torch.where(new, numbers, kinds), torch.where(new, own, labels)
        return kinds, labels

    def draw_labels(self, n: int, count: int, random: torch.Generator) -> Int[Tensor, "batch kind"]:
        """Labels for the classes of each sequence."""
        device = random.device
        if not self.distinct or count > self.n_labels:
            return torch.randint(self.n_labels, (n, count), generator=random, device=device)
        if not self.withheld:
            return torch.rand(n, self.n_labels, generator=random, device=device).argsort(-1)[:, :count]
        sets = self.label_sets.to(device)
        chosen = sets[torch.randint(len(sets), (n,), generator=random, device=device)]
        return chosen.gather(1, torch.rand(n, count, generator=random, device=device).argsort(-1))

    def draw_classes(self, shape: tuple[int, int], random: torch.Generator) -> Int[Tensor, "batch place"]:
        """Classes drawn with replacement, each by its share."""
        chosen = torch.multinomial(self.shares.to(random.device), math.prod(shape), replacement=True, generator=random)
        return chosen.view(shape)

    def draw_different(self, n: int, count: int, random: torch.Generator) -> Int[Tensor, "batch kind"]:
        """Different classes, drawn by their shares: the largest ln share + Gumbel noise (Yellott, 1977)."""
        even = torch.rand(n, self.n_classes, generator=random, device=random.device)
        if not self.zipf:  # Gumbel noise is increasing in the uniform draw, so the order is the same
            return even.topk(count).indices
        return (self.shares.to(random.device).log() - (-even.log()).log()).topk(count).indices

    @cached_property
    def shares(self) -> Float[Tensor, "class"]:
        """The probability of each class: k^−α, normalised."""
        weights = torch.arange(1, self.n_classes + 1, dtype=torch.float64) ** -self.zipf
        return (weights / weights.sum()).float()

    def draw_items(self, drawn: Int[Tensor, "batch place"], random: torch.Generator) -> Float[Tensor, "batch place d"]:
        """The items' vectors: the class's point, which is drawn here for a new class, plus noise."""
        device = random.device
        items = self.classes.to(device)[drawn.clamp(max=self.n_classes - 1)]
        if self.fresh:
            count = self.n_kinds + self.absent
            new = torch.randn(len(drawn), count, self.d_item, generator=random, device=device) / math.sqrt(self.d_item)
            index = (drawn - self.n_classes).clamp(min=0)[..., None].expand(-1, -1, self.d_item)
            items = torch.where((drawn >= self.n_classes)[..., None], new.gather(1, index), items)
        if self.noise:
            spread = torch.randn(items.shape, generator=random, device=device) / math.sqrt(self.d_item)
            items = (items + self.noise * spread) / math.sqrt(1 + self.noise**2)
        return items

    # Rendering -----------------------------------------------------------------------------------------------

    def inputs(self, draw: Draw) -> Float[Tensor, "batch position d_input"]:
        labels = self.label_vectors.to(draw["items"].device)[draw["labels"][:, :-1]]
        items = F.pad(draw["items"], (0, labels.shape[-1] - self.d_item))
        pairs = torch.stack([items[:, :-1], labels], 2).flatten(1, 2)
        shown = torch.cat([pairs, items[:, -1:]], 1)
        if not self.inputs_carry_position:
            return shown
        places = draw["start"] + torch.arange(self.n_positions, device=shown.device)
        return torch.cat([F.one_hot(places, self.code_width).to(shown.dtype), shown], -1)

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        if self.asked == "last":
            return draw["labels"][:, -1:, None]
        of_class = (draw["classes"] < self.n_classes) & (self.by_class and not self.flipped)
        return torch.where(of_class | self.shown_before(draw), draw["labels"], NOT_ASKED)[..., None]

    def shown(self, batch: Batch) -> Int[Tensor, "batch position"]:
        labels = batch.draw["labels"][:, :-1]
        return F.pad(torch.stack([torch.full_like(labels, NOT_ASKED), labels], 2).flatten(1), (0, 1), value=NOT_ASKED)

    def shown_before(self, draw: Draw) -> Bool[Tensor, "batch place"]:
        """Whether an item's class occurred before it."""
        same = draw["classes"][:, :, None] == draw["classes"][:, None, :]
        return same.tril(-1).any(-1)

    def roles(self, draw: Draw) -> Roles:
        """The query's class is chain 0; the others are numbered by their first occurrence."""
        drawn = draw["classes"]
        first = (drawn[:, :, None] == drawn[:, None, :]).int().argmax(-1) + 1
        chain = torch.where(drawn == drawn[:, -1:], 0, first)
        held = torch.full((len(drawn), 3, self.n_positions), ABSENT, device=drawn.device)
        held[:, 0, 0 if self.asked == "all" else -1 :: 2] = chain if self.asked == "all" else 0
        held[:, 1, :-1:2] = held[:, 2, 1::2] = chain[:, :-1]
        return Roles(("query", "key[1]", "value[1]"), held)

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for every pair; the label that followed the query's class is asked."""
        kinds, labels = ([str(x) for x in draw[name][row].tolist()] for name in ("classes", "labels"))
        facts = [Fact((f"c{kind}",), f"l{label}") for kind, label in zip(kinds, labels, strict=True)][:-1]
        known = facts if kinds[-1] in kinds[:-1] else [*facts, Fact((f"c{kinds[-1]}",), f"l{labels[-1]}")]
        queries = kinds if self.asked == "all" else kinds[-1:]
        return Problem(tuple(dict.fromkeys(known)), tuple(f"c{kind}" for kind in queries))

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {f"l{label}": torch.tensor(label) for label in range(self.n_labels)}

    def brute_force(self, inputs: list[Any]) -> list[list[BestAnswer]]:
        """The label after the nearest earlier item, if that is near; else the label of the nearest known class."""
        rows = numpy.asarray(inputs, dtype=numpy.float64)[:, self.code_width :]
        items, marks = rows[::2, : self.d_item], rows[1::2]
        far = numpy.square(marks[:, None] - self.label_vectors.double().numpy()).sum(-1)
        labels = [int(row.argmin()) for row in far]
        asked = range(len(items)) if self.asked == "all" else [len(items) - 1]
        return [[self.best(items[:place], labels, items[place])] for place in asked]

    def best(self, earlier: numpy.ndarray, labels: list[int], item: numpy.ndarray) -> int | None:
        """The best answer for one item."""
        far = numpy.square(earlier - item).sum(-1)
        if len(far) and far.min() < NEAR:
            return labels[int(far.argmin())]
        if not self.by_class or self.flipped:
            return None
        far = numpy.square(self.classes.double().numpy() / math.sqrt(1 + self.noise**2) - item).sum(-1)
        return int(far.argmin()) % self.n_labels if far.min() < NEAR else None

    # Losses --------------------------------------------------------------------------------------------------

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all labels equally likely; a label of the context, by its frequency there; a solved task."""
        alike = [self.same_label(others) for others in range(self.n_kinds)]
        among = sum(share * math.log(self.n_kinds / (1 + others)) for others, share in enumerate(alike))
        whole = math.log(self.n_labels)
        return {"any label": whole, "any label of the context": min(whole, among), "solved": 0.0}

    def same_label(self, others: int) -> float:
        """Probability (0–1) that `others` of a sequence's other classes have the query's label."""
        if self.distinct:
            return float(others == 0)
        n, p = self.n_kinds - 1, 1 / self.n_labels
        return math.comb(n, others) * p**others * (1 - p) ** (n - others)

    @property
    def learnt_below(self) -> float:
        """0.4 of the loss of picking any label of the context (Singh et al., section 5: 0.4 ln 2)."""
        return 0.4 * self.baselines["any label of the context"] or super().learnt_below

"""The circuits of a small model, by trying every set: what discovery is held to.

Nothing of discovery's search is used, nor its evaluator while sets of rows are tried: patterns are replaced by one
tensor of what is kept. A set of units suffices if its loss is below the task's threshold, and as many answers are right
as the task asks, in all four ways (docs/circuits.md): its rows whole, live; its paths, live; its paths, live, all other
heads at their average; all patterns by hand. Nulls are uniform, but for the rows that a search says are identity. A set
is minimal if no proper subset suffices, nor one that has rows whole in place of paths. Every set of rows up to a size
is tried live; and in those that pass every set of paths on which their rows put at least 2 % of their attention, in the
model as it is or while all other rows are null; and a row whole where no path has half of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator, Hard, Kept
from hopscope.circuits.units import NO_ROLE, Row, Unit, row_of
from hopscope.interventions.patterns import null
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

Units = frozenset[Unit]
STAGES = (2, 4, 8, 16, 32, 128)  # sequences, after which a set that is surely over the threshold is given up
DOUBT = 1e-3  # greatest probability that it is not, at each
ERRORS = 3.0  # standard errors over the threshold that are as sure, of this many sequences
MANY = 16
SURE = 2048  # sequences that decide on what is left
TOGETHER = 512  # sequences in one forward pass
WORK = 2e6  # numbers of the stream: sizes beyond that of the circuit that was meant are tried, if it takes no more
MOST = 0.5  # share of a row's attention, below which no path stands for it
MEANS = 4096  # sequences over which heads are averaged
SEEN = 0.02  # share of a row's attention that makes a path worth trying


@dataclass(frozen=True)
class Truth:
    """What trying came to.

    Attributes:
        circuits: all minimal ones up to the size.
        size: units of the largest sets that were tried.
        sets: how many sets of rows were.
        clear: the least ratio by which the loss of a circuit is below the threshold.
    """

    circuits: list[Units]
    size: int
    sets: int
    clear: float


class Trier:
    """A model on sequences, and whether sets of units suffice."""

    def __init__(self, model: Model, task: Task, seed: int = 0, identity: frozenset[Row] = frozenset()):
        self.model, self.task, self.identity = model, task, identity
        self.batches = [task.sample(n, 1000 + seed + n) for n in STAGES]
        self.labs = [Evaluator(model, batch) for batch in self.batches]
        self.ground = self.labs[-1].ground
        self.roles = self.ground.query_roles
        whole, nothing = (lab_losses(self.labs[-1], [Kept(frozenset(self.ground.rows)), Kept(frozenset())])).tolist()
        self.model_loss, self.threshold = whole, task.circuit_threshold(whole, nothing)
        #: Of paths by hand; one that is asleep in the model as it is (a backup) has some weight, too.
        self.weights = {path: max(share, SEEN) for path, share in self.labs[-1].strengths.items()}
        self.known: dict[Units, bool] = {}
        self.margin = 0.0
        self.names = [f"blocks.{layer}.attn.hook_z" for layer in range(model.architecture.n_layers)]
        with torch.no_grad():
            _, cache = model(task.sample(MEANS, 998).inputs, cache=self.names)
        self.means = [cache[name].mean(0) for name in self.names]

    # Rows ----------------------------------------------------------------------------------------------------

    def rows_alive(self, sets: Sequence[frozenset[Row]]) -> list[frozenset[Row]]:
        """The sets of rows that suffice live."""
        left = list(sets)
        for stage in range(len(STAGES)):
            stay = ~over(self.row_losses(left, stage), self.threshold)
            left = list(itertools.compress(left, stay.tolist()))
        return left

    @torch.no_grad()
    def row_losses(self, sets: Sequence[frozenset[Row]], stage: int) -> Tensor:
        """Of every sequence, live, all other rows uniform (set, sequence)."""
        batch, shape = self.batches[stage], self.model.architecture
        ground = self.labs[stage].ground
        held = torch.stack([ground.holders(role) for role in self.roles], 1).float()  # batch role position
        shown = torch.stack([null("uniform", ground.sees), null("identity", ground.sees)])
        place = {role: i for i, role in enumerate(self.roles)}
        alone = torch.zeros(shape.n_layers, shape.n_heads, len(self.roles))
        for row in self.identity:
            alone[row.layer, row.head, place[row.query]] = 1.0
        per = max(1, TOGETHER // len(batch))
        found: list[Tensor] = [torch.empty(0, len(batch))]
        single = torch.vmap(lambda output, target: self.task.loss(output[None], target[None]))
        for start in range(0, len(sets), per):
            some = sets[start : start + per]
            kept = torch.zeros(len(some), shape.n_layers, shape.n_heads, len(self.roles))
            for i, rows in enumerate(some):
                for row in rows:
                    kept[i, row.layer, row.head, place[row.query]] = 1.0

            def mixed(layer: int, actual: Tensor, kept: Tensor = kept) -> Tensor:
                own = torch.einsum("shr,brq->sbhq", kept[:, layer], held) > 0
                itself = torch.einsum("hr,brq->bhq", alone[layer], held) > 0
                idle = torch.where(itself[..., None], shown[1], shown[0]).repeat(len(kept), 1, 1, 1)
                return torch.where(own.flatten(0, 1)[..., None], actual, idle)

            replace = {
                f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: mixed(layer, actual)
                for layer in range(shape.n_layers)
            }
            inputs = batch.inputs.repeat(len(some), *[1] * (batch.inputs.ndim - 1))
            outputs = self.model(inputs, replace=replace, at=self.task.query_positions)
            targets = batch.targets.repeat(len(some), *[1] * (batch.targets.ndim - 1))
            found.append(single(outputs, targets).unflatten(0, (len(some), -1)))
        return torch.cat(found)

    # Paths ---------------------------------------------------------------------------------------------------

    def suffice(self, sets: Iterable[Units]) -> list[Units]:
        """The sets of units that suffice."""
        sets = list(dict.fromkeys(sets))
        left = [units for units in sets if units not in self.known]
        self.known |= dict.fromkeys(left, False)
        rows = set(self.rows_alive(list(dict.fromkeys(frozenset(map(row_of, units)) for units in left))))
        left = [units for units in left if frozenset(map(row_of, units)) in rows]
        worst: dict[Units, float] = {}
        for lab in self.labs:
            three = self.path_losses(lab, left)
            stay = ~torch.stack([over(losses, self.threshold) for losses in three]).any(0)
            worst = dict(zip(left, torch.stack([x.mean(1) for x in three]).amax(0).tolist(), strict=True))
            left = list(itertools.compress(left, stay.tolist()))
        sure = {units for units in left if self.fits(units)}
        self.margin = max([self.margin, *(worst[units] / self.threshold for units in sure)])
        self.known |= dict.fromkeys(sure, True)
        return [units for units in sets if self.known[units]]

    def path_losses(self, lab: Evaluator, sets: Sequence[Units]) -> list[Tensor]:
        """Of every sequence, live, by hand, and live at averages, each (set, sequence)."""
        if not sets:
            return [torch.empty(0, len(lab.batch))] * 3
        losses = lab.sequence_losses([*map(self.kept, sets), *map(self.by_hand, sets)])
        average = torch.stack([lab.losses_of(self.at_average(lab, units)) for units in sets])
        return [losses[: len(sets)], losses[len(sets) :], average]

    def kept(self, units: Iterable[Unit]) -> Kept:
        return Kept(frozenset(units), identity=self.identity)

    def by_hand(self, units: Iterable[Unit]) -> Hard:
        weights = {u: self.weights[u] for u in units if isinstance(u, Path)}
        alike = [frozenset(path for path in weights if row_of(path) == row) for row in {*map(row_of, weights)}]
        where = {some: shares for paths in alike for some, shares in self.labs[-1].shares(paths, SEEN).items()}
        return Hard(weights, identity=self.identity, where=where)

    @torch.no_grad()
    def at_average(self, lab: Evaluator, units: Units) -> Tensor:
        """Answers with the units live, and every head at its average wherever it has none."""
        kept, live = (
            self.kept(units),
            [torch.zeros(lab.batch.inputs.shape[:2] + mean.shape[1:2]) for mean in self.means],
        )
        for row in map(row_of, units):
            live[row.layer][:, :, row.head] += lab.ground.holders(row.query)
        replace = {
            f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: kept.pattern(layer, actual, lab.ground)
            for layer in range(len(live))
        }
        replace |= {
            name: lambda z, at=at, mean=mean: torch.where(at[..., None] > 0, z, mean)
            for name, at, mean in zip(self.names, live, self.means, strict=True)
        }
        return self.model(lab.batch.inputs, replace=replace, at=self.task.query_positions)

    @cached_property
    def many(self) -> Evaluator:
        """The sequences that decide on what may suffice."""
        return Evaluator(self.model, self.task.sample(SURE, 999))

    @cached_property
    def accuracy(self) -> float:
        """The share of right answers that is asked for, on many sequences."""
        shares = [self.shares([change])[0] for change in (Kept(frozenset(self.ground.rows)), Kept(frozenset()))]
        return self.task.circuit_accuracy(*shares)

    def shares(self, changes: Sequence[Kept | Hard]) -> list[float]:
        """Of right answers, on many sequences."""
        return [float(self.many.hits_of(outputs).float().mean()) for outputs in self.many.outputs(changes)]

    def fits(self, units: Units) -> bool:
        """Whether the greatest of the four losses of a set, and the least of its accuracies, do on many sequences."""
        changes = [self.kept(map(row_of, units)), self.kept(units), self.by_hand(units)]
        for outputs in (*(self.many.outputs([change])[0] for change in changes), self.at_average(self.many, units)):
            right = float(self.many.hits_of(outputs).float().mean())
            if not float(self.many.losses_of(outputs).mean()) < self.threshold or right < self.accuracy:
                return False
        return True

    def minimal(self, units: Units) -> bool:
        """Whether a set suffices and no proper subset does; of large ones, all removals of up to three are tried."""
        least = 0 if len(units) <= 12 else len(units) - 3
        subsets = [frozenset(c) for n in range(least, len(units)) for c in itertools.combinations(sorted_(units), n)]
        return bool(self.suffice([units])) and not self.suffice(subsets)


def over(losses: Tensor, threshold: float) -> Tensor:
    """Which sets are surely over the threshold, by the losses of some sequences (set, sequence).

    A loss is not negative, so if its mean is below the threshold at most one sequence in c loses c times as much
    (Markov). More that do are chance, of a probability that is a binomial's. So errors that are rare and large are not
    taken for frequent ones, whatever the losses' distribution.
    """
    limits = torch.tensor(limits_of(losses.shape[1]), dtype=losses.dtype) * threshold
    surely = (losses.sort(1, descending=True).values >= limits).any(1)
    if losses.shape[1] < MANY or not len(losses):
        return surely
    return surely | (losses.mean(1) - ERRORS * losses.std(1) / math.sqrt(losses.shape[1]) >= threshold)


@cache
def limits_of(n: int) -> list[float]:
    """For k = 1 … n: how many times the threshold k of n sequences may lose, each, before that is no chance."""
    found = []
    for k in range(1, n + 1):
        low, high = 0.0, 1.0
        for _ in range(40):
            share = (low + high) / 2
            tail = sum(math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k, n + 1))
            low, high = (share, high) if tail <= DOUBT / n else (low, share)
        found.append(1 / low)
    return found


def lab_losses(lab: Evaluator, changes: Sequence[Kept | Hard]) -> Tensor:
    return torch.stack([loss.mean() for loss in lab.sequence_losses(changes)])


def sorted_(units: Iterable[Unit]) -> list[Unit]:
    return sorted(units, key=str)


def all_circuits(trier: Trier, meant: int) -> Truth:
    """Every minimal circuit up to the size of the one that was meant, or one more if there are few enough sets."""
    rows = trier.ground.rows
    sets = [sum(math.comb(len(rows), n) for n in range(size + 1)) for size in range(len(rows) + 1)]
    shape = trier.model.architecture
    per_set = shape.n_layers * shape.d_model * trier.task.n_positions
    size = min(max([meant, *(n for n, number in enumerate(sets) if number * per_set <= WORK)]), meant + 1, len(rows))
    groups = [frozenset(chosen) for n in range(1, size + 1) for chosen in itertools.combinations(rows, n)]
    alive = sorted(trier.rows_alive(groups), key=len)
    found: list[Units] = []
    for n in range(1, size + 1):
        candidates = [units for group in alive if len(group) <= n for units in choices(trier, group, n)]
        candidates = [units for units in dict.fromkeys(candidates) if not any(one <= units for one in found)]
        found += trier.suffice(candidates)
    found = [one for one in found if not any(names_less(other, one) for other in found)]
    return Truth(found, size, len(groups), trier.margin)


def share(trier: Trier, path: Path, patterns: Sequence[Tensor]) -> float:
    """The attention that a path gets, in the model as it is or as patterns have it."""
    return max(trier.labs[-1].strengths[path], trier.labs[-2].attention(path, patterns))


def names_less(one: Units, other: Units) -> bool:
    """Whether one has whole rows in the place of paths of the other, and no more."""
    mine, theirs = ({unit for unit in units if isinstance(unit, Path)} for units in (one, other))
    return one != other and mine < theirs and {*map(row_of, one)} == {*map(row_of, other)}


def choices(trier: Trier, rows: frozenset[Row], n: int) -> list[Units]:
    """Sets of n units of some rows, at least one of each."""
    lab = trier.labs[-2]
    patterns = lab.patterns_under(trier.kept(rows))
    pools: list[list[Unit]] = []
    for row in sorted(rows):
        paths = [path for path in trier.ground.paths_in(row) if row.query != NO_ROLE]
        sharp = any(share(trier, path, patterns) >= MOST for path in paths)
        pools.append([path for path in paths if share(trier, path, patterns) >= SEEN] + ([] if sharp else [row]))
    if n == len(rows):
        return [frozenset(chosen) for chosen in itertools.product(*pools)]
    every = [frozenset(chosen) for chosen in itertools.combinations(list(itertools.chain(*pools)), n)]
    return [chosen for chosen in every if len(set(map(row_of, chosen))) == len(rows)]

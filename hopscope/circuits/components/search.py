"""A smallest set of edges, or of heads and MLPs, that preserves a model's answers: the search and its validation.

1. Every unit is cut alone (path patching), which ranks them; EAP and EAP-IG rank them, too, by gradients.
2. The shortest prefix of the measured ranking under the task's threshold is found by bisection; QuickXplain then
   reduces it to a minimal set, until no single unit can be removed. This is ACDC's criterion, with a bound on the loss
   in place of τ.
3. The verdict comes from fresh sequences: the model must have solved its task and be worse with everything cut, and the
   circuit's loss must be under the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from hopscope.circuits.components.attribution import STEPS, eap, eap_ig
from hopscope.circuits.components.circuit import SIGNED, ComponentCircuit
from hopscope.circuits.components.curve import Curve, grid_sizes
from hopscope.circuits.components.graph import Edge, Wiring, ends
from hopscope.circuits.components.patching import ACTIVATION_NULLS, Patching
from hopscope.circuits.losses import Account, Loss, Share, pooled
from hopscope.circuits.search import minimal, shortest
from hopscope.circuits.verdict import Demands, Trial, on_trial, short, unsolved
from hopscope.core.seeds import generator
from hopscope.core.settings import Settings, setting
from hopscope.models.base import Model
from hopscope.tasks.base import Task

CHUNK = 64  # sequences that are run together on other data than the search's
SELECTION = 256  # sequences on which the set that the search found is checked
TIGHTER = (1.0, 0.6, 0.3)  # shares of the threshold that the search allows in turn, until the check passes
POINTS = 24  # steps between the sizes at which a curve is measured, in addition to MIB's sizes
MORE = 7  # times the report's sequences: reported on in addition if an interval contains its threshold (ours)
SIGNS: dict[str, Callable[[float], float]] = {"": abs, SIGNED: float}  # by name's ending, what units are ranked by
Watch = Callable[[str], None]
Units = frozenset[str]


@dataclass(frozen=True)
class Components(Settings):
    """Settings of the search for a circuit of components."""

    unit: str = setting(
        "edges", "what is kept or cut: edges between components, or heads and MLPs", choices=("edges", "nodes")
    )
    null: str = setting("resample", "what a unit that is cut carries", choices=tuple(ACTIVATION_NULLS))
    discovery: int = setting(64, "sequences to search on", low=8)
    report: int = setting(512, "sequences for the reported numbers", low=8)
    seed: int = setting(0, "of both sets", low=0)


def find_components(
    model: Model, task: Task, settings: Components | None = None, watch: Watch = lambda _: None
) -> ComponentCircuit:
    """Find a model's circuit of components.

    Args:
        model: a model whose layers can be run separately.
        task: the task to find the circuit for; the model need not have been trained on it.
        settings: unit, null, sizes, seed.
        watch: called with a description of each step of the search.

    Raises:
        BadInput: the model's edges cannot be patched.
    """
    return Hunt(model, task, settings or Components(), watch).solve()


def units_of(wiring: Wiring, unit: str) -> tuple[dict[str, frozenset[Edge]], frozenset[Edge]]:
    """The edges of each unit, by the unit's name, and the edges that are always kept."""
    if unit == "edges":
        return {edge: frozenset([edge]) for edge in wiring.edges}, frozenset()
    by_source = {node: frozenset(edge for edge in wiring.edges if ends(edge)[0] == node) for node in wiring.sources}
    return {node: edges for node, edges in by_source.items() if node != "input"}, by_source["input"]


class Hunt:
    """One search for a circuit of components."""

    def __init__(self, model: Model, task: Task, settings: Components, watch: Watch):
        self.model, self.task, self.settings, self.watch = model, task, settings, watch
        self.lab = self.patching("discovery", settings.discovery)[0]
        self.units, self.always = units_of(self.lab.wiring, settings.unit)
        whole, nothing = self.lab.accounts([self.edges(self.units), self.always])
        self.whole, self.nothing = float(whole.losses.mean()), float(nothing.losses.mean())
        demands = Demands.of(task, whole, nothing)
        self.threshold, self.demand = demands.loss, demands.accuracy
        self.lossless = Share.of(whole.hits).mean
        self.tighten(1.0)

    def tighten(self, share: float) -> None:
        """Set the bounds of the search.

        The loss may rise to this share of the threshold. The accuracy may fall by half of this share of the fall that
        the task allows (ours).
        """
        self.bound = self.threshold - (1 - share) * abs(self.threshold)
        self.accuracy = self.lossless - share * max(0.0, self.lossless - self.demand) / 2
        self.known: dict[Units, bool] = {}

    def patching(self, purpose: str, n: int, size: int | None = None) -> list[Patching]:
        """The model on sequences drawn for a purpose, in chunks of `size` sequences or somewhat more."""
        batch = self.task.sample(n, generator(self.settings.seed, f"components {purpose}", 0, self.model.device))
        count = max(1, n // (size or n))
        parts = [batch.rows(slice(i * n // count, (i + 1) * n // count)) for i in range(count)]
        return [Patching(self.model, part, self.settings.null) for part in parts]

    def edges(self, chosen: Iterable[str]) -> frozenset[Edge]:
        """The edges that are kept if some units are kept."""
        return reduce(frozenset.union, (self.units[unit] for unit in chosen), self.always)

    def without_each(self, units: Units) -> dict[str, Loss]:
        """For each of some units, the loss with all the others of them kept."""
        return self.lab.alone({unit: self.edges(units - {unit}) for unit in self.units if unit in units})

    def passes(self, chosen: Units) -> bool:
        """Whether with this set the loss, including its interval, is below the bound, and enough answers are right."""
        if chosen not in self.known:
            [account] = self.lab.accounts([self.edges(chosen)])
            right = Share.of(account.hits).mean
            self.known[chosen] = Loss.of(account.losses).high < self.bound and right >= self.accuracy
        return self.known[chosen]

    # Stages --------------------------------------------------------------------------------------------------

    def solve(self) -> ComponentCircuit:
        """Run all stages. A model that has not solved its task gets rankings and curves, but no circuit."""
        every = frozenset(self.units)
        self.watch(f"cutting each of {len(every)} {self.settings.unit}")
        effects = {unit: loss.mean - self.whole for unit, loss in self.without_each(every).items()}
        ranking = sorted(effects, key=lambda unit: (-effects[unit], unit))
        self.watch("looking for the fewest that keep the answers")
        kept = self.chosen(ranking)
        removals = self.removals(kept)
        scores = {name: self.by_unit(found) for name, found in (("EAP", eap(self.lab)), ("EAP-IG", eap_ig(self.lab)))}
        self.watch("measuring faithfulness over sizes")
        curves = {
            f"{name}{sign}": self.curve(sorted(values, key=lambda unit: (-by(values[unit]), unit)), len(kept))
            for name, values in ({"patching": effects} | scores).items()
            for sign, by in SIGNS.items()
        }
        ordered = tuple(sorted(kept, key=lambda unit: (-removals[unit], unit)))
        return self.report(ordered, effects=effects, scores=scores, removals=removals, curves=curves)

    def chosen(self, ranking: Sequence[str]) -> Units:
        """A minimal set. While it fails on the sequences of the check, the search is repeated with stricter bounds."""
        found: Units = frozenset()
        for share in TIGHTER:
            self.tighten(share)
            if not self.passes(frozenset(self.units)):
                break
            found = self.smallest(ranking)
            [account] = self.accounts([self.edges(found)], "selection", SELECTION)
            if Loss.of(account.losses).high < self.threshold and Share.of(account.hits).low >= self.demand:
                break
        return found

    def by_unit(self, scores: Mapping[Edge, float]) -> dict[str, float]:
        return {unit: sum(scores[edge] for edge in edges) for unit, edges in self.units.items()}

    def smallest(self, ranking: Sequence[str]) -> Units:
        """A set below the bound from which no single unit can be left out."""
        chosen = minimal(ranking[: shortest(ranking, self.passes)], self.passes)
        while (spared := self.spared(chosen, ranking)) is not None:
            chosen -= {spared}
        return chosen

    def spared(self, chosen: Units, ranking: Sequence[str]) -> str | None:
        """The lowest-ranked unit without which the others still pass; None if there is none."""
        candidates = (unit for unit in reversed(ranking) if unit in chosen)
        return next((unit for unit in candidates if self.passes(chosen - {unit})), None)

    def removals(self, kept: Units) -> dict[str, float]:
        """By how much the circuit's loss rises without each unit."""
        base, without = self.lab.loss(self.edges(kept)), self.without_each(kept)
        return {unit: loss.mean - base.mean for unit, loss in without.items()}

    def curve(self, ranking: Sequence[str], size: int) -> Curve:
        """The losses with the first k units of a ranking kept, for several k."""
        n = len(ranking)
        steps = [round(n ** (i / POINTS)) for i in range(POINTS + 1)]
        sizes = sorted({0, size, n, *steps, *grid_sizes(n)})
        losses = self.lab.losses([self.edges(ranking[:k]) for k in sizes])
        return Curve(tuple(loss.mean for loss in losses), self.whole, self.nothing, tuple(sizes))

    # The report ----------------------------------------------------------------------------------------------

    def report(self, kept: tuple[str, ...], **measured: Any) -> ComponentCircuit:
        """Validate the kept units on fresh sequences; return the circuit with verdict and measurements."""
        self.watch("validating on fresh sequences")
        s = self.settings
        sets = {"model": self.edges(self.units), "circuit": self.edges(kept), "null": self.always}
        rounds = ("report", s.report), ("report, more", MORE * s.report)
        trial = on_trial(self.task, sets, (partial(self.accounts, purpose=name, n=n) for name, n in rounds))
        verdict, reason = judged(trial, len(kept), s.unit)
        found = {"units": len(self.units), "EAP-IG steps": STEPS, "reported": trial.losses["model"].n}
        return ComponentCircuit(
            unit=s.unit,
            kept=kept,
            edges=self.edges(kept),
            **trial.judged,
            verdict=verdict,
            reason=reason,
            protocol=s.as_dict() | found | {"forwards": round(self.lab.forwards)},
            **measured,
        )

    def accounts(self, sets: Sequence[frozenset[Edge]], purpose: str, n: int) -> list[Account]:
        """The accounts of sets of edges on other sequences."""
        parts = [part.accounts(sets) for part in self.patching(purpose, n, CHUNK)]
        return [reduce(pooled, column) for column in zip(*parts, strict=True)]


def judged(trial: Trial, size: int, unit: str) -> tuple[str, str]:
    """The verdict, `circuit` or `none`, and its reason in one sentence."""
    if not trial.passes("model"):
        return "none", f"{unsolved(trial)}; {Task.unsolved_advice}"
    if trial.gap.low <= 0:
        return "none", f"with all {unit} cut the model is no worse by more than chance; try another --null"
    if not size:
        return "none", f"no set of {unit} was found; try another --null, or more sequences (--discovery)"
    if not trial.fits():
        return "none", f"on fresh sequences {short(trial, 'circuit')}; search on more (--discovery)"
    loss = trial.losses["circuit"].mean
    return "circuit", f"with all other {unit} cut the loss is {loss:.3g}, below {trial.demands.loss:.3g}"

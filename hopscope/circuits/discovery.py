"""Discovery: the paper's appendix E as an algorithm, from a model to a validated circuit with its proof log.

1. Heads, then rows of useful heads, are made null, each alone, to see what it costs (appendix E, steps 1 and 2).
2. *Carriers*: a minimal set of rows whose patterns, as the model has them, keep the loss under the threshold while all
   other rows are null. The paper's author replaced heads one after the other; single and joint replacements differ,
   so we search jointly. Of each row the paths that matter; then all patterns by hand, at once (appendix E, step 5).
3. *Supports*: a minimal set of earlier rows with which the carriers still find their targets, all else being null, now
   with heads that compute their patterns from what they then see. A head that only tells another where to attend is
   not missed while patterns are set by hand, but nothing works without it.
4. *Company*: where that circuit fails live (its paths as computed, all else null), further paths with which it works:
   rows that carry nothing still move the stream in which others find their targets.
5. For every row the simplest hypothesis under which carriers carry and supports support (appendix E, steps 3 and 4).
6. Every path of the result is left out once (appendix E, step 6), and asked for what feeds it (`certificates`).

Where the patterns by hand fail, the search begins anew with a tighter bound, which leaves more rows in. Other minimal
sets are looked for at every stage. The search uses one set of sequences, the check of 2 another, and all reported
numbers a third.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hopscope.circuits.certificates import Supply, certify
from hopscope.circuits.circuit import Circuit, Found
from hopscope.circuits.evaluator import NULLS, AsIs, Change, Evaluator, Frozen, Hard, Kept, Loss, Silenced
from hopscope.circuits.gates import Gates
from hopscope.circuits.hypotheses import Hypothesis, hypotheses
from hopscope.circuits.search import all_minimal, minimal
from hopscope.circuits.units import NO_ROLE, Row, Unit, row_of
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, Settings, setting
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

TIGHTER = (1.0, 0.6, 0.3)  # shares of the threshold, tried in turn as bounds of the search
FOUND = 0.5  # a path finds its target if it keeps half its attention; the paper's threshold of emergence (section 9.1)
STILL = 0.8  # and still finds it under a hypothesis about another row if it keeps this share of what it had (ours)
COMPANY = 12  # most paths that are added so that the circuit works live
PROMISING = 12  # of those by whose gate the loss falls most steeply, so many are tried exactly
CERTIFIED = 64  # sequences for certificates
Watch = Callable[[str], None]


@dataclass(frozen=True)
class Discovery(Settings):
    """How a circuit is looked for."""

    null: str = setting("uniform", "what heads without a task attend to", choices=NULLS)
    discovery: int = setting(64, "sequences to search and to choose hypotheses on", low=8)
    selection: int = setting(128, "sequences to check what the search found on", low=8)
    report: int = setting(512, "sequences for the reported numbers", low=8)
    alternatives: int = setting(8, "most circuits to look for", low=1)
    seed: int = setting(0, "of all three sets", low=0)


def discover(model: Model, task: Task, settings: Discovery | None = None, watch: Watch = lambda _: None) -> Circuit:
    """Find the circuit of a model.

    Args:
        model: attention-based, trained on the task or not.
        task: whose positions have roles.
        settings: data sizes, null, seed; by default all at their defaults.
        watch: told in words what is being done.

    Returns:
        The circuit; its verdict is `none` where no set of hypotheses keeps the loss under the task's threshold.

    Raises:
        BadInput: the model has no attention.
    """
    if not model.architecture.n_layers * model.architecture.n_heads:
        raise BadInput(f"{model.architecture.name()} has no attention, so there is no circuit of heads to search for")
    return Detective(model, task, settings or Discovery(), watch).solve()


class Detective:
    """One search: three data sets, a log, and the stages."""

    def __init__(self, model: Model, task: Task, settings: Discovery, watch: Watch):
        self.model, self.task, self.settings, self.watch = model, task, settings, watch
        self.log: list[dict[str, Any]] = []
        self.began = time.monotonic()
        self.data = self.evaluator("discovery", settings.discovery)
        self.selection = self.evaluator("selection", settings.selection)
        self.report = self.evaluator("report", settings.report)
        self.strengths = self.data.strengths
        self.effects: dict[frozenset[Row], float] = {}
        self.identity: frozenset[Row] = frozenset()
        self.whole, nothing = self.data.losses([AsIs(), self.kept(())])
        self.threshold = task.circuit_threshold(self.whole.mean, nothing.mean)

    def evaluator(self, purpose: str, n: int) -> Evaluator:
        random = generator(self.settings.seed, f"circuit {purpose}", 0, self.model.device)
        return Evaluator(self.model, self.task.sample(n, random))

    def kept(self, units: Iterable[Unit], **rows: Any) -> Kept:
        return Kept(frozenset(units), self.settings.null, self.identity, **rows)

    def frozen(self, units: Iterable[Unit], **rows: Any) -> Frozen:
        return Frozen(frozenset(units), self.data.patterns, self.settings.null, **rows)

    def by_hand(self, units: Iterable[Unit]) -> Hard:
        """All patterns by hand: a path's row is ideal; several of one row share it as they do in the model."""
        return Hard({u: self.strengths[u] for u in units if isinstance(u, Path)}, self.settings.null)

    def write(self, stage: str, about: Any, hypothesis: str, loss: Loss | None, verdict: str, **more: Any) -> None:
        """A line of the proof log."""
        numbers = asdict(loss) if loss else {}
        self.log.append(
            {"stage": stage, "unit": about, "hypothesis": hypothesis, **numbers, "verdict": verdict, **more}
        )

    # Stages --------------------------------------------------------------------------------------------------

    def solve(self) -> Circuit:
        """All stages; on a model that has not solved its task the search runs too, and is not accepted."""
        bounds = [self.threshold * share for share in TIGHTER]
        if self.whole.mean >= self.threshold:
            self.write("0 model", "all heads", "as is", self.whole, "rejected: above the threshold as it is")
            bounds = [self.whole.mean * 1.05 + 1e-3]  # to see what it does use
        for bound in bounds:
            row_sets, complete = self.find_carriers(bound)
            carriers = [units for rows in row_sets if (units := self.find_paths(rows, bound))]
            if carriers:
                break
        if not carriers:
            return self.conclude([], {}, [], complete)
        carriers = sorted(dict.fromkeys(carriers), key=lambda units: (len(units), sorted(map(str, units))))
        supports, supported = self.find_supports(carriers[0])
        core = carriers[0] | self.name(supports[0])
        company = self.find_company(core)
        chosen = sorted(core | company, key=str)
        rules = self.choose_hypotheses(carriers[0], chosen, max(bound, self.threshold))
        alternatives = [self.name(map(row_of, c)) | self.name(s) | company for c in carriers for s in supports]
        if company:
            alternatives = [paths for paths in alternatives if self.works(paths)]
        return self.conclude(chosen, rules, alternatives, complete and supported)

    def find_carriers(self, bound: float) -> tuple[list[frozenset[Row]], bool]:
        """Minimal sets of rows that carry the answers: of few heads, fewest rows and least loss first."""
        self.watch("looking for the rows that carry the answers")
        known: dict[frozenset[Row], bool] = {}

        def passes(rows: frozenset[Row]) -> bool:
            if rows not in known:
                loss = self.data.loss(self.frozen(rows))
                known[rows] = loss.mean < bound
                words = "accepted" if known[rows] else "rejected"
                self.write("2 carriers", sorted(map(str, rows)), "frozen, all else null", loss, words, bound=bound)
            return known[rows]

        rows = self.data.ground.rows
        if not passes(frozenset(rows)):
            return [], True
        found, complete = all_minimal(rows, passes, self.settings.alternatives, self.minimal_rows)
        losses = self.selection.losses([Frozen(s, self.selection.patterns, self.settings.null) for s in found])
        ranked = sorted(zip(found, losses, strict=True), key=lambda pair: (len(pair[0]), pair[1].mean))
        return [rows for rows, _ in ranked], complete

    def minimal_rows(self, rows: Sequence[Row], passes: Callable[[frozenset[Row]], bool]) -> frozenset[Row]:
        """A minimal set of rows, of few heads."""
        heads: dict[tuple[int, int], frozenset[Row]] = {}
        for row in rows:
            heads[row.layer, row.head] = heads.get((row.layer, row.head), frozenset()) | {row}
        ranked = self.ranked(list(heads.values()))
        useful = minimal(ranked, lambda groups: passes(frozenset[Row]().union(*groups)))
        in_use = sorted(frozenset[Row]().union(*useful))
        single = self.ranked([frozenset([row]) for row in in_use])
        return minimal([row for group in single for row in group], passes)

    def ranked(self, groups: Sequence[frozenset[Row]]) -> list[frozenset[Row]]:
        """Groups of rows by what silencing each alone costs, most first; of what costs the same, the sharper first."""
        unknown = [group for group in groups if group not in self.effects]
        losses = self.data.losses([Silenced(group, self.settings.null) for group in unknown])
        for group, loss in zip(unknown, losses, strict=True):
            verdict = "accepted alone" if loss.mean < self.threshold else "rejected"
            self.write("1 single", sorted(map(str, group)), f"unused: {self.settings.null}", loss, verdict)
            self.effects[group] = loss.mean
        return sorted(groups, key=lambda g: (-self.effects[g], -max(map(self.sharpness, g)), sorted(map(str, g))))

    def sharpness(self, row: Row) -> float:
        """The share of the row's attention on its strongest path."""
        return max((self.strengths[path] for path in self.data.ground.paths_in(row)), default=0.0)

    def find_paths(self, rows: frozenset[Row], bound: float) -> frozenset[Unit]:
        """A minimal set of paths in some rows that suffices by hand; empty if there is none.

        The strongest path of each row, if they do; else whichever do with the model's own shares. Rows without a role
        stay whole.
        """
        self.watch("looking for the paths in them")
        whole: frozenset[Unit] = frozenset(row for row in rows if row.query == NO_ROLE)
        strongest = self.name(rows)
        if not self.by_hand_passes(strongest, bound):
            paths = [path for row in rows - whole for path in self.data.ground.paths_in(row)]
            paths.sort(key=lambda path: (path not in strongest, -self.strengths[path], str(path)))
            frozen = lambda chosen: self.data.loss(self.frozen(chosen | whole)).mean < bound  # noqa: E731
            strongest = minimal(paths, frozen) if frozen(frozenset(paths)) else frozenset()
            if not strongest or not self.by_hand_passes(strongest, bound):
                return frozenset()
        effects = {path: self.effects.get(frozenset([row_of(path)]), 0.0) for path in strongest}
        ordered = sorted(strongest, key=lambda path: (-effects[path], str(path)))
        fewer = minimal(ordered, lambda chosen: self.by_hand_passes(chosen, bound))
        loss = self.selection.loss(self.by_hand(fewer))
        fits = loss.mean < max(bound, self.threshold)
        self.write("2 by hand", sorted(map(str, fewer)), "all by hand", loss, said(fits), data="selection")
        return whole | fewer if fits else frozenset()

    def by_hand_passes(self, paths: frozenset[Path], bound: float) -> bool:
        """Whether some paths suffice with all patterns by hand, on discovery data."""
        loss = self.data.loss(self.by_hand(paths))
        self.write("2 by hand", sorted(map(str, paths)), "all by hand", loss, said(loss.mean < bound), bound=bound)
        return loss.mean < bound

    def find_supports(self, carriers: frozenset[Unit]) -> tuple[list[frozenset[Row]], bool]:
        """Minimal sets of further rows with which the carriers find their targets, all else being null."""
        self.watch("looking for what tells them where to attend")
        last = max(unit.layer for unit in carriers)
        own = {row_of(unit) for unit in carriers}
        rows = [row for row in self.data.ground.rows if row.layer < last and row not in own]
        self.choose_nulls(rows)
        known: dict[frozenset[Row], bool] = {}

        def passes(chosen: frozenset[Row]) -> bool:
            if chosen not in known:
                lowest = self.least_attention(carriers, self.kept(chosen | own))
                known[chosen] = lowest >= FOUND
                names = sorted(map(str, chosen))
                self.write("3 supports", names, "live, all else null", None, said(known[chosen]), attention=lowest)
            return known[chosen]

        ordered = self.ranked([frozenset([row]) for row in rows])
        everyone = [row for group in ordered for row in group]
        if not passes(frozenset(everyone)):
            return [frozenset(everyone)], False
        return all_minimal(everyone, passes, self.settings.alternatives)

    def choose_nulls(self, rows: Sequence[Row]) -> None:
        """Rows that do less harm attending to themselves than evenly are null so (appendix E: uniform or identity)."""
        if self.settings.null != "uniform":
            return
        even = self.ranked([frozenset([row]) for row in rows])
        harmful = [group for group in even if self.effects[group] >= self.threshold]
        losses = self.data.losses([Silenced(group, "identity") for group in harmful])
        for group, loss in zip(harmful, losses, strict=True):
            unused = loss.mean < self.threshold
            self.write("1 single", sorted(map(str, group)), "unused: identity", loss, said(unused) + " alone")
            self.identity |= group if unused else frozenset()

    def least_attention(self, units: Iterable[Unit], change: Change) -> float:
        """How much of its attention on its target the worst path of a set keeps, 0–1."""
        patterns = self.data.patterns_under(change)
        paths = [unit for unit in units if isinstance(unit, Path)]
        kept = [self.data.attention(p, patterns) / max(self.strengths[p], 1e-9) for p in paths]
        return min(kept, default=1.0)

    def find_company(self, core: frozenset[Unit]) -> frozenset[Path]:
        """Further paths with which a circuit works live; none if it does without, or if they are not found.

        They are added one by one: of the paths by whose gate the loss falls most steeply, that which helps most. Then
        those that have become superfluous are left out again.
        """
        added: list[Path] = []
        whole = self.whole.mean < self.threshold
        if not core or not whole or self.works(core):
            return frozenset()
        self.watch("looking for what the paths need to work by themselves")
        while len(added) < COMPANY and not self.works(core | set(added)):
            added.append(self.most_helpful(core | set(added)))
        if not self.works(core | set(added)):
            return frozenset()
        company = minimal(added, lambda paths: self.works(core | paths))
        loss = self.selection.loss(self.by_hand(core | company))
        fits = loss.mean < self.threshold
        self.write("4 company", sorted(map(str, company)), "all by hand", loss, said(fits), data="selection")
        return company if fits else frozenset()

    def works(self, units: frozenset[Unit]) -> bool:
        """Whether a circuit is under the threshold live, on discovery and on selection data."""
        for name, data in (("discovery", self.data), ("selection", self.selection)):
            loss = data.loss(self.kept(units))
            passes = loss.mean < self.threshold
            self.write("4 company", sorted(map(str, units)), "live, all else null", loss, said(passes), data=name)
            if not passes:
                return False
        return True

    def most_helpful(self, units: frozenset[Unit]) -> Path:
        """The path whose addition lowers the live loss most, among those that promise to."""
        gates = Gates(self.data, self.settings.null, "spread", identity=self.identity)
        _, slopes = gates.gradient(gates.at([unit for unit in units if isinstance(unit, Path)]))
        self.data.forwards += 1
        steepness = gates.by_path(slopes)
        promising = sorted((p for p in steepness if p not in units), key=lambda p: (steepness[p], p))[:PROMISING]
        losses = self.data.losses([self.kept(units | {path}) for path in promising])
        return min(zip(promising, losses, strict=True), key=lambda pair: (pair[1].mean, pair[0]))[0]

    def choose_hypotheses(
        self, carriers: frozenset[Unit], units: Sequence[Unit], bound: float
    ) -> dict[Row, Hypothesis]:
        """For every row the simplest hypothesis under which answers are still carried, and targets still found."""
        self.watch("choosing the simplest hypotheses")
        rows = frozenset(row_of(unit) for unit in units)
        attended = self.least_attention(units, self.kept(rows))
        found = {row: self.simplest(row, carriers, units, bound, attended) for row in sorted(rows)}
        return {row: rule for row, rule in found.items() if rule is not None}

    def simplest(
        self, row: Row, carriers: frozenset[Unit], units: Sequence[Unit], bound: float, attended: float
    ) -> Hypothesis | None:
        """The simplest hypothesis of one row that passes both tests: the answers by hand, the attention of others."""
        proposed = hypotheses(row, self.data.ground, self.strengths)
        patterns = [{row: rule.pattern(self.data.ground)} for rule in proposed]
        others = [unit for unit in units if row_of(unit) != row]
        by_hand = {u: self.strengths[u] for u in carriers if u in others and isinstance(u, Path)}
        losses = self.data.losses([Hard(by_hand, self.settings.null, rows=given) for given in patterns])
        for rule, loss, given in zip(proposed, losses, patterns, strict=True):
            attention = math.nan
            if loss.mean < bound:
                attention = self.least_attention(others, self.kept(map(row_of, others), rows=given))
            found = attention >= STILL * attended
            kept = None if math.isnan(attention) else attention
            self.write("5 hypothesis", str(row), rule.name, loss, said(found), bits=rule.bits, attention=kept)
            if found:
                return rule
        return None

    # The report ----------------------------------------------------------------------------------------------

    def name(self, rows: Iterable[Row]) -> frozenset[Path]:
        """Each row's strongest path."""
        ground = self.data.ground
        return frozenset(
            max(ground.paths_in(row), key=lambda path: self.strengths[path]) for row in rows if row.query != NO_ROLE
        )

    def conclude(
        self, units: Sequence[Unit], rules: dict[Row, Hypothesis], alternatives: list[frozenset[Path]], complete: bool
    ) -> Circuit:
        """Everything once more on report data, and the verdict."""
        self.watch("validating on fresh data")
        paths = [unit for unit in units if isinstance(unit, Path)]
        changes: dict[str, Change] = {
            "model": AsIs(),
            "circuit": self.by_hand(units),
            "live": self.kept(units),
            "null": Hard(null=self.settings.null),
        }
        losses = dict(zip(changes, self.report.losses(changes.values()), strict=True))
        accepted, words = self.judge(losses, rules, units)
        return Circuit(
            paths=self.measured(paths, units, rules),
            rows=tuple(unit for unit in units if isinstance(unit, Row)),
            losses=losses,
            hop_losses={name: self.report.hop_losses(change) for name, change in changes.items()},
            verdict="circuit" if accepted else "none",
            reason=words,
            threshold=self.threshold,
            alternatives=tuple(dict.fromkeys([frozenset(paths), *alternatives])) if paths else (),
            complete=complete,
            supplies=self.certificates(units) if paths else (),
            protocol=self.protocol(),
            log=self.log,
        )

    def measured(self, paths: Sequence[Path], units: Sequence[Unit], rules: dict[Row, Hypothesis]) -> tuple[Found, ...]:
        """Every path with its strength, its hypothesis, and what leaving it out costs."""
        left_out = self.report.losses(self.kept(u for u in units if u != path) for path in paths)
        silenced = self.report.losses(Silenced(frozenset([path]), self.settings.null) for path in paths)
        found = []
        for path, removal, alone in zip(paths, left_out, silenced, strict=True):
            rule = rules.get(row_of(path))
            needed = "needed" if removal.mean >= self.threshold else "not needed"
            self.write("6 necessity", str(path), "left out of the circuit", removal, needed, data="report")
            name, bits = (rule.name, rule.bits) if rule else ("no hypothesis fits", None)
            found.append(Found(path, self.report.strengths[path], name, bits, removal.mean, alone.mean))
        return tuple(found)

    def certificates(self, units: Sequence[Unit]) -> tuple[Supply, ...]:
        """Why each path attends where it does, on a part of the report data."""
        self.watch("asking what feeds each path")
        some = Evaluator(self.model, self.report.batch.rows(slice(0, CERTIFIED)))
        return tuple(certify(some, units, self.settings.null, self.identity))

    def judge(self, losses: dict[str, Loss], rules: dict[Row, Hypothesis], units: Sequence[Unit]) -> tuple[bool, str]:
        """Whether the circuit is accepted, and why (not), in one sentence."""
        bound, loss = self.threshold, losses["circuit"].mean
        if losses["model"].mean >= bound:
            return False, f"the model itself is at {losses['model'].mean:.3g}, not below the threshold of {bound:.3g}"
        if any(isinstance(unit, Row) for unit in units):
            return False, "positions without a role are needed, which no path names"
        if loss >= bound:
            return False, f"with all patterns by hand the loss is {loss:.3g}, not below {bound:.3g}"
        live = losses["live"].mean
        also = f"{'and' if live < bound else 'but'} {live:.3g} as computed, all else null"
        return True, f"with all patterns by hand the loss is {loss:.3g}, below {bound:.3g}, {also}"

    def protocol(self) -> dict[str, Any]:
        """All that the numbers depend on."""
        return {
            **self.settings.as_dict(),
            "threshold": self.threshold,
            "criterion": "mean loss; supports: every carrier keeps half its attention; company: live loss",
            "identity": sorted(map(str, self.identity)),
            "forwards": {
                "discovery": self.data.forwards,
                "selection": self.selection.forwards,
                "report": self.report.forwards,
            },
            "seconds": round(time.monotonic() - self.began, 2),
        }


def said(passed: bool) -> str:
    return "accepted" if passed else "rejected"

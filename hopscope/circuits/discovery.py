"""Discovery: the paper's appendix E as an algorithm, from a model to a validated circuit with its proof log.

1. Every head, then every row of the useful heads, is made null alone, to see what it costs (appendix E, steps 1 and 2).
2. A minimal set of rows suffices while all others are null, what is kept staying live; other such sets are looked for.
   (The paper's author replaced heads one after the other; single and joint replacements differ, so we search jointly.)
3. Of each row the paths that matter; then the simplest hypothesis that keeps the loss under the threshold (steps 3, 4).
4. All patterns are replaced at once, by the hypotheses and null (step 5). Where that fails the next simplest are tried.
5. Every path of the result is left out once (step 6).

Steps 1 to 3 and the proposals of 4 use one set of sequences, the choice among them another, reported numbers a third.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hopscope.circuits.circuit import Circuit, Found
from hopscope.circuits.evaluator import NULLS, AsIs, Change, Evaluator, Hard, Kept, Loss, Silenced
from hopscope.circuits.hypotheses import Hypothesis, hypotheses
from hopscope.circuits.search import all_minimal, minimal
from hopscope.circuits.units import NO_ROLE, Row, Unit, row_of
from hopscope.models.transformer import Transformer
from hopscope.paths import Path
from hopscope.seeds import generator
from hopscope.settings import Settings, setting
from hopscope.tasks.base import Task

Watch = Callable[[str], None]


@dataclass(frozen=True)
class Discovery(Settings):
    """How a circuit is looked for."""

    null: str = setting("uniform", "what heads without a task attend to", choices=NULLS)
    discovery: int = setting(64, "sequences to search on", low=8)
    selection: int = setting(128, "sequences to choose among hypotheses on", low=8)
    report: int = setting(512, "sequences for the reported numbers", low=8)
    alternatives: int = setting(8, "most circuits to look for", low=1)
    seed: int = setting(0, "of all three sets", low=0)


def discover(
    model: Transformer, task: Task, settings: Discovery = Discovery(), watch: Watch = lambda _: None
) -> Circuit:
    """Find the circuit of a model.

    Args:
        model: attention-based, trained on the task or not.
        task: whose positions have roles.
        settings: data sizes, null, seed.
        watch: told in words what is being done.

    Returns:
        The circuit; its verdict is `none` where no set of hypotheses keeps the loss under the task's threshold.
    """
    return Detective(model, task, settings, watch).solve()


class Detective:
    """One search: three data sets, a log, and the stages."""

    def __init__(self, model: Transformer, task: Task, settings: Discovery, watch: Watch):
        self.model, self.task, self.settings, self.watch = model, task, settings, watch
        self.log: list[dict[str, Any]] = []
        self.began = time.monotonic()
        self.discovery = self.evaluator("discovery", settings.discovery)
        self.selection = self.evaluator("selection", settings.selection)
        self.report = self.evaluator("report", settings.report)
        self.whole, self.nothing = self.discovery.losses([AsIs(), self.kept(())])
        self.threshold = task.circuit_threshold(self.whole.mean, self.nothing.mean)
        self.strengths = self.discovery.strengths()
        self.effects: dict[frozenset[Row], float] = {}

    def evaluator(self, purpose: str, n: int) -> Evaluator:
        random = generator(self.settings.seed, f"circuit {purpose}", 0, self.model.device)
        return Evaluator(self.model, self.task.sample(n, random))

    def kept(self, units: Iterable[Unit], **rows: Any) -> Kept:
        return Kept(frozenset(units), self.settings.null, **rows)

    def write(self, stage: str, about: Any, hypothesis: str, loss: Loss, verdict: str, **more: Any) -> None:
        """A line of the proof log."""
        self.log.append(
            {"stage": stage, "unit": about, "hypothesis": hypothesis, **asdict(loss), "verdict": verdict, **more}
        )

    # Stages --------------------------------------------------------------------------------------------------

    def solve(self) -> Circuit:
        """All stages; on a model that has not solved its task the search runs too, and is not accepted."""
        solved = self.whole.mean < self.threshold
        if not solved:
            self.write("model", "all heads", "as is", self.whole, "fails: above the threshold as it is")
            bound = self.whole.mean * 1.05 + 1e-3  # to see what it does use
        else:
            bound = self.threshold
        row_sets, complete = self.find_rows(bound)
        if not row_sets:
            return self.conclude([], {}, [], complete)
        row_sets = self.preferred(row_sets)
        units = self.find_paths(row_sets[0], bound)
        chosen = self.choose_hypotheses(units, bound)
        return self.conclude(units, chosen, [self.name(rows) for rows in row_sets], complete)

    def find_rows(self, bound: float) -> tuple[list[frozenset[Row]], bool]:
        """Minimal sets of rows that suffice: in a minimal set of heads first, then in their rows."""
        self.watch("looking for heads and rows that suffice together")
        passes = self.tester("2 together", bound)
        rows = self.discovery.ground.rows
        if not passes(frozenset(rows)):
            return [], True
        return all_minimal(rows, passes, self.settings.alternatives, self.minimal_rows)

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
        losses = self.discovery.losses([Silenced(group, self.settings.null) for group in unknown])
        for group, loss in zip(unknown, losses, strict=True):
            verdict = "accepted alone" if loss.mean < self.threshold else "rejected"
            self.write("1 single", sorted(map(str, group)), f"unused: {self.settings.null}", loss, verdict)
            self.effects[group] = loss.mean
        return sorted(groups, key=lambda g: (-self.effects[g], -max(map(self.sharpness, g)), sorted(map(str, g))))

    def preferred(self, sets: list[frozenset[Row]]) -> list[frozenset[Row]]:
        """Smallest first; among equals that of the least loss, on selection data."""
        losses = self.selection.losses([self.kept(rows) for rows in sets])
        ranked = sorted(zip(sets, losses, strict=True), key=lambda pair: (len(pair[0]), pair[1].mean))
        return [rows for rows, _ in ranked]

    def sharpness(self, row: Row) -> float:
        """The share of the row's attention on its strongest path."""
        return max((self.strengths[path] for path in self.discovery.ground.paths_in(row)), default=0.0)

    def tester(self, stage: str, bound: float) -> Callable[[frozenset[Any]], bool]:
        """A test that sets of units suffice, remembered and logged."""
        known: dict[frozenset[Unit], bool] = {}

        def passes(units: frozenset[Unit]) -> bool:
            if units not in known:
                loss = self.discovery.loss(self.kept(units))
                known[units] = loss.mean < bound
                words = "accepted" if known[units] else "rejected"
                self.write(stage, sorted(map(str, units)), "live, all else null", loss, words)
            return known[units]

        return passes

    def find_paths(self, rows: Iterable[Row], bound: float) -> list[Unit]:
        """Of every row the paths that matter: the strongest if that suffices. Rows without a role stay whole."""
        self.watch("looking for the paths in them")
        passes = self.tester("3 paths", bound)
        whole: frozenset[Unit] = frozenset(row for row in rows if row.query == NO_ROLE)
        strongest = self.name(rows)
        if passes(whole | strongest):
            return sorted(whole | strongest, key=str)
        paths = [path for row in rows if row not in whole for path in self.discovery.ground.paths_in(row)]
        paths.sort(key=lambda path: (path not in strongest, -self.strengths[path]))
        if not passes(whole | frozenset(paths)):
            return sorted(rows, key=str)
        return sorted([*whole, *minimal(paths, lambda chosen: passes(chosen | whole))], key=str)

    def choose_hypotheses(self, units: Sequence[Unit], bound: float) -> dict[Row, Hypothesis]:
        """For each row the simplest hypothesis that suffices alone, the others live; then all together, by hand."""
        self.watch("choosing the simplest hypotheses")
        rows = sorted({row_of(unit) for unit in units})
        options = {row: self.acceptable(row, units, bound) for row in rows}
        chosen = {row: found[0] for row, found in options.items() if found}
        while len(chosen) == len(rows):
            loss = self.selection.loss(self.by_hand(self.selection, chosen))
            names = {str(row): hypothesis.name for row, hypothesis in chosen.items()}
            joint = loss.mean < bound
            self.write(
                "5 joint", names, "all rows by hand", loss, "accepted" if joint else "rejected", data="selection"
            )
            if joint:
                return chosen
            better = self.next_simplest(chosen, options)
            if better is None:
                break
            chosen = better
        return chosen

    def acceptable(self, row: Row, units: Sequence[Unit], bound: float) -> list[Hypothesis]:
        """The hypotheses of a row under which the loss stays below the bound, simplest first."""
        data = self.discovery
        proposed = hypotheses(row, data.ground, self.strengths)
        others = [unit for unit in units if row_of(unit) != row]
        changes = [self.kept(others, rows={row: h.pattern(data.ground)}) for h in proposed]
        found: list[Hypothesis] = []
        for hypothesis, loss in zip(proposed, data.losses(changes), strict=True):
            fits = loss.mean < bound
            words = "rejected" if not fits else "accepted" if not found else "suffices, but is less simple"
            self.write("4 row", str(row), hypothesis.name, loss, words, bits=hypothesis.bits)
            found += [hypothesis] if fits else []
        return found

    def next_simplest(
        self, chosen: dict[Row, Hypothesis], options: dict[Row, list[Hypothesis]]
    ) -> dict[Row, Hypothesis] | None:
        """The choice with one row's hypothesis exchanged for its next; of all such the one with the least loss."""
        nexts = []
        for row, hypothesis in chosen.items():
            later = options[row][options[row].index(hypothesis) + 1 :]
            if later:
                nexts.append({**chosen, row: later[0]})
        if not nexts:
            return None
        losses = self.selection.losses([self.by_hand(self.selection, choice) for choice in nexts])
        return min(zip(losses, nexts, strict=True), key=lambda pair: pair[0].mean)[1]

    def by_hand(self, data: Evaluator, chosen: dict[Row, Hypothesis], without: Row | None = None) -> Change:
        """All patterns replaced: the chosen rows by their hypotheses, all else null."""
        rows = {row: h.pattern(data.ground) for row, h in chosen.items() if row != without}
        return Hard(null=self.settings.null, rows=rows)

    # The report ----------------------------------------------------------------------------------------------

    def name(self, rows: Iterable[Row]) -> frozenset[Path]:
        """Each row's strongest path."""
        ground = self.discovery.ground
        return frozenset(
            max(ground.paths_in(row), key=lambda path: self.strengths[path]) for row in rows if row.query != NO_ROLE
        )

    def conclude(
        self,
        units: Sequence[Unit],
        chosen: dict[Row, Hypothesis],
        alternatives: list[frozenset[Path]],
        complete: bool,
    ) -> Circuit:
        """Everything once more on report data, and the verdict."""
        self.watch("validating on fresh data")
        paths = [unit for unit in units if isinstance(unit, Path)]
        explained = bool(units) and len(chosen) == len({row_of(unit) for unit in units})
        names = ["model", "live", "null", *(["circuit"] if explained else [])]
        changes: list[Change] = [AsIs(), self.kept(units), self.kept(())]
        changes += [self.by_hand(self.report, chosen)] if explained else []
        losses = dict(zip(names, self.report.losses(changes), strict=True))
        losses.setdefault("circuit", losses["null"])
        hops = {name: self.report.hop_losses(change) for name, change in zip(names, changes, strict=True)}
        removals = self.report.losses(self.kept(u for u in units if u != path) for path in paths)
        silenced = self.report.losses(Silenced(frozenset([path]), self.settings.null) for path in paths)
        found = tuple(
            Found(path, self.strengths[path], rule.name, rule.bits, removal.mean, alone.mean)
            for path, removal, alone in zip(paths, removals, silenced, strict=True)
            for rule in [chosen.get(row_of(path), Hypothesis("none fits", 0.0, lambda ground: ground.sees))]
        )
        for path, loss in zip(paths, removals, strict=True):
            needed = loss.mean >= self.threshold
            self.write("6 necessity", str(path), "left out", loss, "needed" if needed else "not needed", data="report")
        accepted, words = self.judge(losses, explained)
        return Circuit(
            paths=found,
            rows=tuple(unit for unit in units if isinstance(unit, Row)),
            losses=losses,
            hop_losses=hops,
            verdict="circuit" if accepted else "none",
            reason=words,
            threshold=self.threshold,
            alternatives=(frozenset(paths), *alternatives[1:]) if paths else (),
            complete=complete,
            protocol=self.protocol(),
            log=self.log,
        )

    def judge(self, losses: dict[str, Loss], explained: bool) -> tuple[bool, str]:
        """Whether the circuit is accepted, and why (not), in one sentence."""
        bound = self.threshold
        if losses["model"].mean >= bound:
            return False, f"the model itself is at {losses['model'].mean:.3g}, not below the threshold of {bound:.3g}"
        if not explained:
            return False, "for some row no hypothesis keeps the loss under the threshold"
        if losses["circuit"].mean >= bound:
            return False, f"with all patterns by hand the loss is {losses['circuit'].mean:.3g}, not below {bound:.3g}"
        if losses["live"].mean >= bound:
            return False, f"with all else null the loss is {losses['live'].mean:.3g}, not below {bound:.3g}"
        return True, f"with all patterns by hand the loss is {losses['circuit'].mean:.3g}, below {bound:.3g}"

    def protocol(self) -> dict[str, Any]:
        """All that the numbers depend on."""
        return {
            **self.settings.as_dict(),
            "threshold": self.threshold,
            "criterion": "mean loss over all hops, on each data set",
            "forwards": {
                "discovery": self.discovery.forwards,
                "selection": self.selection.forwards,
                "report": self.report.forwards,
            },
            "seconds": round(time.monotonic() - self.began, 2),
        }

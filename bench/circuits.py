"""Our circuits beside other people's: same model, same sequences, same unit, same evaluator, same threshold.

    python -m bench.circuits [RUN ...] [--draws 10] [--json FILE]        (`make bench-circuits`)

Without run folders it takes the packaged run's model, which comes with the package, or trains it. Every method searches
on the same sequences and gives its smallest circuit whose loss, live, is under the task's threshold there; each
baseline is swept over its own threshold, price or size. What is reported is measured on fresh sequences, live and by
hand (docs/circuits.md has the words). Cost is that of the search: forward and backward passes over the search's
sequences. For ours it is told twice: until the circuit is known, and with all that no baseline does: hypotheses,
necessity, certificates, validation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path as Files
from typing import Any

import torch

from bench import metrics
from bench.baselines import BASELINES
from bench.baselines.base import Cost, Proposal, smallest
from bench.metrics import Paths, Yardstick
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.components.curve import Curve
from hopscope.circuits.discovery import Discovery, found_by
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.exam import Exam
from hopscope.circuits.judging.stability import likeness
from hopscope.configuration.presets import recipe
from hopscope.core.environment import code_version
from hopscope.core.seeds import generator
from hopscope.problem.paths import Path
from hopscope.runs.run import Run, load
from hopscope.training.loop import train

DEMO = Files(__file__).parents[1] / "hopscope" / "assets" / "packaged"
SEARCH, REPORT = Discovery().discovery, Discovery().report  # sequences, as our search has them
READABLE = 12  # paths: up to here completeness and minimality are measured
SUBSETS_ON = 64  # sequences, of the fresh ones
OURS = "hopscope"
FASTER = 10  # times than the ACDC sweep: the aim


@dataclass(frozen=True)
class Entry:
    """One method on one model.

    Attributes:
        method: which, and which variant.
        circuit: its smallest under the threshold on the search's sequences; None if it has none.
        hand: size of its smallest circuit by hand, which needs no path that only tells others where to attend.
        live: loss of the circuit on fresh sequences, its paths as computed, all else null.
        by_hand: loss with all patterns by hand.
        curve: live losses of every prefix of its order.
        metrics: others, by name.
        stability: mean Jaccard similarity of circuits from different sequences, and how many of them there are.
        cost: of the search.
        about: settings, and further costs.
    """

    method: str
    circuit: Paths | None
    hand: int | None
    live: float
    by_hand: float
    curve: Curve
    metrics: Mapping[str, Any]
    cost: Cost
    about: Mapping[str, Any]
    stability: tuple[float, int] = (math.nan, 0)
    hops: Mapping[str, float] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        return None if self.circuit is None else len(self.circuit)

    def as_dict(self) -> dict[str, Any]:
        paths = None if self.circuit is None else sorted(map(str, self.circuit))
        plain = {k: v for k, v in self.__dict__.items() if k not in ("circuit", "curve", "cost", "stability")}
        areas = dict(zip(("CPR", "CMD"), metrics.exact(self.curve), strict=True))
        grid = dict(zip(("CPR", "CMD"), self.curve.on_grid(), strict=True))
        log = dict(zip(("CPR", "CMD"), metrics.on_log_axis(self.curve), strict=True))
        cost = {"cost": asdict(self.cost), "stability": self.stability[0], "draws": self.stability[1]}
        return {**plain, "size": self.size, "paths": paths, **cost, "exact": areas, "MIB grid": grid, "log axis": log}


class Contest:
    """All methods on one model.

    Args:
        run: the model, and its task.
        draws: how many sets of sequences stability is taken over.
    """

    def __init__(self, run: Run, draws: int):
        self.run, self.draws, self.model = run, draws, run.model
        self.fresh = Evaluator(self.model, run.task.sample(REPORT, generator(0, "circuit bench")))
        self.live, self.hand = Yardstick(self.fresh), Yardstick(self.fresh, "by hand")
        first = self.lab(0)
        self.threshold = run.task.circuit_threshold(first.model, first.nothing)

    def lab(self, seed: int) -> Yardstick:
        """The sequences that our own search uses with this seed."""
        batch = self.run.task.sample(SEARCH, generator(seed, "circuit discovery", 0, self.model.device))
        return Yardstick(Evaluator(self.model, batch))

    def entries(self) -> list[Entry]:
        """Ours first, then the baselines."""
        return [self.ours(), *(entry for name in BASELINES for entry in self.baseline(name))]

    # Ours ------------------------------------------------------------------------------------------------------

    def ours(self) -> Entry:
        """Discovery with all its defaults."""
        tell(f"{OURS}: searching")
        circuit, early, whole = self.discover(0)
        mine = frozenset(found.path for found in circuit.paths)
        removal = {found.path: found.removal_loss for found in circuit.paths}
        strengths = self.fresh.strengths  # the rest of the order, for CPR and CMD: what is not in the circuit
        order = sorted(strengths, key=lambda p: (-removal.get(p, -math.inf), -strengths[p], p))
        hand = len(self.carriers(mine)) if circuit.accepted else None
        about = {"verdict": circuit.verdict, "reason": circuit.reason, "whole": asdict(whole)}
        about["order"] = "the circuit's paths by what leaving them out costs, then all others by attention"
        entry = self.entry(OURS, mine if circuit.accepted else None, hand, order, early, about)
        others = [self.paths(seed) for seed in range(1, self.draws)]
        return replace(entry, stability=(likeness([mine, *others]), self.draws))

    def discover(self, seed: int) -> tuple[Circuit, Cost, Cost]:
        """A circuit, its cost until it was known, and the cost of everything. In forwards over the search's set."""
        began, known = time.monotonic(), [Cost()]

        def watch(words: str) -> None:
            if words.startswith("validating"):
                known[0] = Cost(spent(exam), 0.0, round(time.monotonic() - began, 3))

        exam = Exam(self.model, self.run.task, Discovery(seed=seed), watch)
        circuit = found_by(exam)
        return circuit, known[0], Cost(spent(exam), 0.0, round(time.monotonic() - began, 3))

    def paths(self, seed: int) -> Paths:
        tell(f"{OURS}: draw {seed + 1} of {self.draws}")
        return frozenset(found.path for found in self.discover(seed)[0].paths)

    def carriers(self, circuit: Paths) -> Paths:
        """What is left of a circuit when nothing more can go while all patterns are set by hand."""
        lab = Yardstick(self.lab(0).evaluator, "by hand")
        for path in sorted(circuit):
            if lab.losses([circuit - {path}])[0] < self.threshold:
                circuit = circuit - {path}
        return circuit

    # Baselines -------------------------------------------------------------------------------------------------

    def baseline(self, name: str) -> list[Entry]:
        """A baseline's variants; of those that are one sweep, the price or threshold with the smallest circuit."""
        tell(f"{name}: searching")
        lab = self.lab(0)
        proposals = BASELINES[name](lab, 0)
        least = [smallest(proposal, lab, self.threshold) for proposal in proposals]
        total = sum([p.cost for p in proposals] + [found.cost for found in least], Cost())
        chosen = list(zip(proposals, least, strict=True))
        if name in SWEPT:
            chosen = [min(chosen, key=lambda pair: (size_of(pair[1].circuit), pair[1].loss))]
        entries = []
        for proposal, found in chosen:
            by_hand = Yardstick(lab.evaluator, "by hand")
            hand = smallest(proposal, by_hand, self.threshold).circuit
            size = None if hand is None else len(hand)
            entry = self.entry(proposal.name, found.circuit, size, proposal.order, total, proposal.about)
            entries.append(replace(entry, stability=self.stability(name, proposal, found.circuit)))
        return entries

    def stability(self, name: str, proposal: Proposal, first: Paths | None) -> tuple[float, int]:
        """Agreement of smallest circuits from different sequences."""
        circuits = [] if first is None else [first]
        for seed in range(1, self.draws):
            tell(f"{proposal.name}: draw {seed + 1} of {self.draws}")
            lab, again = self.lab(seed), SWEPT.get(name, lambda _: {})
            for other in BASELINES[name](lab, seed, **again(proposal)):
                if other.name == proposal.name:
                    found = smallest(other, lab, self.threshold).circuit
                    circuits += [] if found is None else [found]
        return likeness(circuits), len(circuits)

    # All -------------------------------------------------------------------------------------------------------

    def entry(
        self,
        method: str,
        circuit: Paths | None,
        hand: int | None,
        order: Sequence[Path],
        cost: Cost,
        about: Mapping[str, Any],
    ) -> Entry:
        """Everything about a circuit on fresh sequences; the curve is on the search's, for it takes many forwards."""
        tell(f"{method}: measuring")
        curve = metrics.curve(self.lab(0), order)
        if circuit is None:
            return Entry(method, None, hand, math.nan, math.nan, curve, {}, cost, about)
        [live], [by_hand] = self.live.losses([circuit]), self.hand.losses([circuit])
        [account] = self.fresh.accounts([self.live.change(circuit)])
        return Entry(
            method, circuit, hand, live, by_hand, curve, self.scores(circuit), cost, about, hops=account.hop_losses
        )

    def scores(self, circuit: Paths) -> dict[str, Any]:
        """The field's other metrics, live, with their protocol; those that try many subsets for small circuits only."""
        lab = self.live
        found = [metrics.normalised_faithfulness(lab, circuit), metrics.ioi_faithfulness(lab, circuit)]
        found += [metrics.complement_faithfulness(lab, circuit), metrics.same_symbol(lab, circuit)]
        found += [metrics.distance_to_model(lab, circuit)]
        if len(circuit) <= READABLE:
            lab = Yardstick(Evaluator(self.model, self.fresh.batch.rows(slice(0, SUBSETS_ON))))
            found += [metrics.random_completeness(lab, circuit), metrics.greedy_completeness(lab, circuit, budget=4)]
            worth = metrics.minimality(lab, circuit, budget=8).values()
            found += [min(worth, key=lambda score: score.value)] if worth else []
        return {score.name: score.as_dict() for score in found}


#: Baselines that are swept over one knob, and how only the chosen setting is run on other sequences.
SWEPT: dict[str, Callable[[Proposal], dict[str, Any]]] = {
    "learned_masks": lambda proposal: {"prices": (proposal.about["price"],)},
    "acdc": lambda proposal: {},
}


def spent(exam: Exam) -> float:
    """Forwards of a search, in passes over the search's sequences; larger sets count for more."""
    sequences = sum(
        e.forwards * len(e.batch) for e in (exam.data, exam.selection, exam.report, *itertools.chain(*exam.joint))
    )
    return round(sequences / len(exam.data.batch), 1)


def size_of(circuit: Paths | None) -> float:
    return math.inf if circuit is None else len(circuit)


def tell(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


# Tables ----------------------------------------------------------------------------------------------------------

HEADINGS = (
    *("method", "paths", "loss live", "by hand", "hops", "paths by hand", "CPR", "CMD", "stability"),
    *("forwards", "backwards", "seconds"),
)


def render(entries: Sequence[Entry]) -> str:
    """A table in Markdown."""
    rows = [HEADINGS, ["---"] * len(HEADINGS), *map(cells, entries)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cells(entry: Entry) -> list[str]:
    cpr, cmd = metrics.exact(entry.curve)
    return [
        entry.method,
        "none" if entry.size is None else str(entry.size),
        f"{entry.live:.4f}",
        f"{entry.by_hand:.4f}",
        " ".join(f"{loss:.4f}" for loss in entry.hops.values()),
        "none" if entry.hand is None else str(entry.hand),
        f"{cpr:.3f}",
        f"{cmd:.3f}",
        f"{entry.stability[0]:.2f} ({entry.stability[1]})",
        f"{entry.cost.forwards:.0f}",
        f"{entry.cost.backwards:.0f}",
        f"{entry.cost.seconds:.1f}",
    ]


def verdicts(entries: Sequence[Entry], threshold: float) -> list[str]:
    """What the aims of the project ask, and by how much they are met or missed."""
    ours, others = entries[0], entries[1:]
    if ours.size is None:
        return [f"{OURS}: no circuit ({ours.about['reason']})."]
    least = min(others, key=lambda e: (size_of(e.circuit), e.live))
    acdc = next(e for e in others if e.method.startswith("ACDC"))
    rivals = [e for e in others if e.size is not None and e.size <= ours.size]
    best = min(rivals, key=lambda e: e.live, default=None)
    quick, whole = ours.cost, Cost(**ours.about["whole"])
    alone = acdc.about["forwards_alone"]
    faith = f"{best.live:.4f} ({best.method})" if best else "none is so small"
    by_hand = min((e.hand for e in others if e.hand), default=None)
    passes = lambda loss: f"{'under' if loss < threshold else 'not under'} the threshold"  # noqa: E731
    each = 1e3 * acdc.cost.seconds / acdc.cost.forwards
    return [
        f"Size: ours {ours.size}; the smallest baseline's {least.size} ({least.method}).",
        f"Size by hand: ours {ours.hand}; the smallest baseline's {by_hand}.",
        f"Ours is at {ours.live:.4f} live ({passes(ours.live)}) and at {ours.by_hand:.4f} by hand "
        f"({passes(ours.by_hand)}), which is the paper's test and the one by which discovery accepts.",
        f"Loss live: ours {ours.live:.4f}; the least of any baseline that is no larger: {faith}.",
        f"ACDC, ten thresholds: {acdc.cost.seconds:.1f} s and {acdc.cost.forwards:.0f} forwards as we run it (shared "
        f"between thresholds, whole layers not computed again; {each:.0f} ms each); {alone} forwards as published.",
        f"Ours until the circuit is known: {quick.seconds:.1f} s and {quick.forwards:.0f} forwards, so "
        f"{acdc.cost.seconds / quick.seconds:.1f} times faster than the shared sweep, and {alone / quick.forwards:.1f} "
        f"times fewer forwards than the published one (aim: {FASTER}). With hypotheses, necessity, certificates and "
        f"validation: {whole.seconds:.1f} s and {whole.forwards:.0f} forwards.",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run folders (the packaged run's model)")
    parser.add_argument("--draws", type=int, default=10, help="sets of sequences for stability (10)")
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    options = parser.parse_args(arguments)
    report: dict[str, Any] = {"hopscope": code_version(), "threads": torch.get_num_threads(), "runs": {}}
    report["load_before"] = os.getloadavg()[0]
    for run in chosen(options.runs):
        contest = Contest(run, options.draws)
        entries = contest.entries()
        said = verdicts(entries, contest.threshold)
        print(f"\n{heading(contest)}\n\n{render(entries)}\n")
        print("\n".join(f"- {sentence}" for sentence in said), flush=True)
        rows = [entry.as_dict() for entry in entries]
        report["runs"][str(run.path)] = {"about": heading(contest), "methods": rows, "verdicts": said}
    if options.json:
        Files(options.json).write_text(json.dumps(report, indent=1, default=str) + "\n")


def chosen(folders: Sequence[str]) -> list[Run]:
    """The runs asked for; else the packaged demo; else one is trained."""
    if folders:
        return [load(folder) for folder in folders]
    if (DEMO / "DONE").exists():
        return [load(DEMO)]
    tell("training the packaged run's model")
    return [train(recipe("packaged").config(seed=0), Files(tempfile.mkdtemp()) / "demo")]


def heading(contest: Contest) -> str:
    a, task = contest.model.architecture, contest.run.task
    shape = f"{a.n_layers} layers of {a.n_heads} head(s), {len(contest.fresh.ground.paths)} paths"
    losses = f"model {contest.live.model:.4f}, null {contest.live.nothing:.4f}, threshold {contest.threshold:.3g}"
    return (
        f"{task.name()} {task.as_dict()}, {shape}. Losses on {REPORT} fresh sequences: {losses}. Search, CPR and CMD "
        f"(exact, live) on {SEARCH} sequences; null: uniform."
    )


if __name__ == "__main__":
    main()

"""Circuit discovery against adversaries: what is found, what is true, and who would have fallen for it.

    python -m bench.verdicts --each 20 --controls 60 --seed 0 --json bench/verdicts.json     (`make bench-verdicts`)
    python -m bench.verdicts --replay '0/self-repair/4'                                       (one model, in words)

Builds of fourteen kinds (`bench.adversaries`) are searched, then their circuits are found by trying all sets
(`bench.exhaustive`); models that never learnt their task, know it by heart, or are shuffled, must not be accepted.
On some of each kind the methods of `bench/baselines` run in turn with ours. Times are of the
processor.

A verdict is *wrong* where `circuit` is said of a set of paths that is no minimal circuit, or of a model that has none.
A baseline has no verdict; it says `circuit` where some set that it proposes is below the task's threshold, live.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path as Files
from typing import Any, cast

import torch

from bench.adversaries import BUILDS, CONTROLS, KINDS, Adversary, adversary, named
from bench.baselines import BASELINES
from bench.baselines.base import smallest
from bench.exhaustive import Trier, Truth, Units, all_circuits
from bench.metrics import Paths, Yardstick
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.units import Unit
from hopscope.core.environment import code_version
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

OURS = "hopscope"
TRIED_UP_TO = 2  # units: of builds that should have no circuit, all sets up to this size are tried, or one more
STEPS = 40  # of learned masks; models are so small that more change nothing
REPLAY = "python -m bench.verdicts --replay"


@dataclass(frozen=True)
class Score:
    """What one method said of one model.

    Attributes:
        method: ours, or a baseline and which variant.
        said: the verdict; of baselines `circuit` or `none`.
        size: units of what it found.
        distance: structural Hamming distance to the nearest true circuit; None where one of the two has none.
        shared: units that both have.
        true_size: units of the nearest true circuit.
        seconds: of the processor.
    """

    method: str
    said: str
    size: int
    distance: int | None
    shared: int
    true_size: int
    seconds: float

    @property
    def wrong(self) -> bool:
        """Whether it accepted what is no circuit."""
        return self.said == "circuit" and self.distance != 0


@dataclass(frozen=True)
class Outcome:
    """One model."""

    name: str
    kind: str
    about: dict[str, Any]
    circuits: int
    tried: int
    scores: list[Score]
    completeness: str = ""
    listed: int = 0
    untrue: int = 0
    missing: int = 0
    reason: str = ""
    truth_seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> Score:
        return self.scores[0]

    @property
    def solvable(self) -> bool:
        """Whether there is any circuit to find."""
        return self.circuits > 0

    @property
    def hit(self) -> bool:
        """A true circuit was accepted; or nothing was, and there was nothing."""
        return self.ours.distance == 0 if self.ours.said == "circuit" else not self.solvable


def clocked(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the processor's seconds."""
    began = time.process_time()
    return work(), round(time.process_time() - began, 3)


def score(method: str, said: str, mine: Units, truths: Collection[Units], seconds: float) -> Score:
    """Against the nearest true circuit."""
    if not truths or not mine:
        return Score(method, said, len(mine), None, 0, min(map(len, truths), default=0), seconds)
    true = min(truths, key=lambda one: (len(mine ^ one), sorted(map(str, one))))
    return Score(method, said, len(mine), len(mine ^ true), len(mine & true), len(true), seconds)


def examine(made: Adversary, baselines: bool = False, settings: Discovery | None = None) -> Outcome:
    """Search, then try everything, then compare."""
    try:
        circuit, seconds = clocked(lambda: discover(made.model, made.task, settings))
    except BadInput as refusal:
        ours = Score(OURS, "none", 0, None, 0, 0, 0.0)
        return Outcome(made.name, made.kind, made.about, 0, 0, [ours], reason=str(refusal))
    if made.kind in CONTROLS:
        truths, tried, took, trier = [], 0, 0.0, None
    else:
        trier = trier_for(made, circuit)
        truth, took = clocked(lambda: truth_of(trier, made, circuit))
        truths, tried = truth.circuits, truth.size
    mine = circuit.units
    scores = [score(OURS, circuit.verdict, mine, truths, seconds)]
    if baselines:
        scores += list(those_of_others(made, truths))
    listed = [one.units for one in circuit.listed] if circuit.accepted else []
    return Outcome(
        made.name,
        made.kind,
        made.about,
        len(truths),
        tried,
        scores,
        circuit.completeness.claim,
        len(listed),
        len(set(listed) - set(truths)),
        sum(one not in listed and len(one) <= max(map(len, listed), default=0) for one in truths),
        circuit.reason,
        took,
        details(mine, truths) if scores[0].wrong or (truths and scores[0].said != "circuit") else {},
    )


def trier_for(made: Adversary, circuit: Circuit) -> Trier:
    """Who tries all sets, with the nulls that the search chose."""
    rows = Evaluator(made.model, made.task.sample(64, 1)).ground.rows
    idle = frozenset(row for row in rows if str(row) in circuit.protocol["identity"])
    return Trier(made.model, made.task, identity=idle)


def truth_of(trier: Trier, made: Adversary, circuit: Circuit) -> Truth:
    """All circuits up to a size; others that were listed are tried one by one, with all that they contain."""
    truth = all_circuits(trier, made.size or TRIED_UP_TO)
    listed = dict.fromkeys(one.units for one in circuit.listed)
    others = [one for one in listed if one not in truth.circuits and trier.minimal(one)]
    return Truth(truth.circuits + others, truth.size, truth.sets, truth.clear)


def details(mine: Units, truths: Sequence[Units]) -> dict[str, Any]:
    """For people who look into it."""
    return {"found": sorted(map(str, mine)), "true": [sorted(map(str, one)) for one in truths[:4]]}


def those_of_others(made: Adversary, truths: Collection[Units]) -> Iterable[Score]:
    """What each baseline finds, against the nearest true circuit, of which rows without a role are left to them all."""
    truths = [frozenset(unit for unit in one if isinstance(unit, Path)) for one in truths]
    for method, found, seconds in sets_of_others(made.model, made.task):
        mine = frozenset[Unit](found or ())
        yield score(method, "none" if found is None else "circuit", mine, truths, seconds)


def sets_of_others(model: Model, task: Task) -> Iterable[tuple[str, Paths | None, float]]:
    """Each baseline's smallest set below the task's threshold, live, on sequences as ours has them; and its seconds.

    Rows of positions without a role are left to them all, for they cannot name them.
    """
    for name, work in BASELINES.items():
        random = generator(0, "circuit discovery", 0, "cpu")
        lab = Yardstick(Evaluator(model, task.sample(Discovery().discovery, random)))
        threshold = task.circuit_threshold(lab.model, lab.nothing)
        more = {"steps": STEPS} if name == "learned_masks" else {}
        proposals, seconds = clocked(lambda work=work, lab=lab, more=more: work(lab, 0, **more))
        found = []
        for proposal in proposals:
            least, further = clocked(
                lambda proposal=proposal, lab=lab, threshold=threshold: smallest(proposal, lab, threshold)
            )
            seconds += further
            found.append((proposal.name.split(" (price")[0], least))
        swept = {method for method, _ in found}
        for method in sorted(swept):  # of one sweep the smallest counts
            sets = [least.circuit for name, least in found if name == method and least.circuit is not None]
            least_set = min(sets, key=lambda one: (len(one), sorted(one)), default=None)
            yield method, least_set, round(seconds / len(swept), 3)


# Tables ----------------------------------------------------------------------------------------------------------


def grouped(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        kinds[outcome.kind].append(outcome)
    return dict(kinds)


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}" if whole else "–"


def by_kind(outcomes: Sequence[Outcome]) -> str:
    """Ours, a row for each kind."""
    head = ("kind", "models", "solvable", "`circuit`", "wrong", "SHD 0", "precision", "recall", "complete", "seconds")
    kinds = grouped(outcomes)
    builds = [outcome for outcome in outcomes if outcome.kind in BUILDS]
    rows = [row_of_kind(kind, some) for kind, some in kinds.items()]
    if builds:
        rows.insert(len([kind for kind in kinds if kind in BUILDS]), row_of_kind("**all builds**", builds))
    return table(head, rows)


def row_of_kind(kind: str, some: Sequence[Outcome]) -> list[str]:
    solvable = [outcome for outcome in some if outcome.solvable]
    said = [outcome.ours for outcome in some if outcome.ours.said == "circuit"]
    control = kind in CONTROLS
    complete = sum(outcome.completeness in ("proven", "searched") for outcome in solvable)
    return [
        kind,
        str(len(some)),
        "–" if control else str(len(solvable)),
        str(len(said)),
        str(sum(one.wrong for one in said)),
        "–" if control else share(sum(outcome.hit for outcome in some), len(some)),
        ratio(said, "size"),
        ratio([outcome.ours for outcome in solvable], "true_size"),
        share(complete, len(solvable)),
        f"{statistics.median(outcome.ours.seconds for outcome in some):.1f}",
    ]


def ratio(scores: Sequence[Score], of: str) -> str:
    """Precision where `of` is the size of what was found, recall where it is that of the true circuit."""
    total = sum(getattr(one, of) for one in scores)
    return f"{sum(one.shared for one in scores if one.said == 'circuit') / total:.3f}" if total else "–"


def by_method(outcomes: Sequence[Outcome]) -> str:
    """All methods, on the models on which all ran."""
    head = ("method", "`circuit`", "wrong", "SHD 0", "mean SHD", "precision", "recall", "accepted controls", "seconds")
    both = [outcome for outcome in outcomes if len(outcome.scores) > 1]
    methods = list(dict.fromkeys(one.method for outcome in both for one in outcome.scores))
    rows = []
    for method in methods:
        pairs = [(o, one) for o in both for one in o.scores if one.method == method]
        builds = [(o, one) for o, one in pairs if o.kind in BUILDS]
        said = [one for _, one in builds if one.said == "circuit"]
        right = sum(
            one.distance == 0 and one.said == "circuit" if o.solvable else one.said != "circuit" for o, one in builds
        )
        controls = [one for o, one in pairs if o.kind in CONTROLS]
        distances = [one.distance for one in said if one.distance is not None]
        rows.append(
            [
                method,
                share(len(said), len(builds)),
                str(sum(one.wrong for one in said)),
                share(right, len(builds)),
                f"{statistics.fmean(distances):.1f}" if distances else "–",
                ratio(said, "size"),
                ratio([one for o, one in builds if o.solvable], "true_size"),
                share(sum(one.said == "circuit" for one in controls), len(controls)),
                f"{sum(one.seconds for _, one in pairs) / max(1, len(pairs)):.2f}",
            ]
        )
    return table(head, rows)


def wrong_by_kind(outcomes: Sequence[Outcome]) -> str:
    """Wrong verdicts of each method in each kind, where all ran."""
    both = grouped(outcome for outcome in outcomes if len(outcome.scores) > 1)
    methods = list(dict.fromkeys(one.method for some in both.values() for o in some for one in o.scores))
    rows = []
    for kind, some in both.items():
        wrong = {m: sum(one.wrong for o in some for one in o.scores if one.method == m) for m in methods}
        rows.append([f"{kind} ({len(some)})", *(str(wrong[method]) for method in methods)])
    return table(("kind", *methods), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def aims(outcomes: Sequence[Outcome]) -> list[tuple[str, bool]]:
    """What was aimed at, in numbers, and whether it holds."""
    builds = [outcome for outcome in outcomes if outcome.kind in BUILDS]
    solvable = [outcome for outcome in builds if outcome.solvable]
    controls = grouped(outcome for outcome in outcomes if outcome.kind in CONTROLS)
    wrong = [outcome.name for outcome in outcomes if outcome.ours.wrong]
    kinds = {kind: sum(o.hit for o in some) / len(some) for kind, some in grouped(builds).items()}
    said = sum(outcome.ours.said == "circuit" for outcome in solvable)
    claimed = sum(outcome.completeness in ("proven", "searched") for outcome in solvable)
    hits = sum(outcome.hit for outcome in builds)
    found = [(f"wrong `circuit`: {len(wrong)} of {len(outcomes)} {' '.join(wrong)}".strip(), not wrong)]
    if builds:
        worst = min(kinds, key=lambda kind: kinds[kind])
        found += [
            (f"SHD 0 (aim: 95 %): {hits} of {len(builds)}", hits >= 0.95 * len(builds)),
            (f"in each kind (80 %): least {kinds[worst]:.0%}, {worst}", kinds[worst] >= 0.8),
            (f"`circuit` for solvable builds (90 %): {said} of {len(solvable)}", said >= 0.9 * len(solvable)),
            (f"completeness (80 %): {claimed} of {len(solvable)}", claimed >= 0.8 * len(solvable)),
        ]
    for kind, some in controls.items():
        accepted = sum(outcome.ours.said == "circuit" for outcome in some)
        found.append((f"{kind} accepted: {accepted} of {len(some)}", not accepted))
    return found


def line(outcome: Outcome) -> str:
    """One model for people."""
    ours = outcome.ours
    verdict = "WRONG" if ours.wrong else "hit" if outcome.kind in CONTROLS or outcome.hit else "miss"
    told = (
        f"{outcome.name}: {verdict}, {ours.said}; {outcome.circuits} circuits of up to {outcome.tried} units by trying"
    )
    lists = f"; {outcome.untrue} untrue and {outcome.missing} missing alternatives" if ours.said == "circuit" else ""
    text = f"{told}{lists}; {outcome.completeness}; {ours.seconds:.1f} s"
    return text if not outcome.details else f"{text}\n    {outcome.reason}\n    {json.dumps(outcome.details)}"


def report(outcomes: Sequence[Outcome]) -> str:
    parts = [by_kind(outcomes)]
    if any(len(outcome.scores) > 1 for outcome in outcomes):
        parts += [by_method(outcomes), wrong_by_kind(outcomes)]
    parts.append("\n".join(f"- {text}: {'holds' if met else 'FAILS'}" for text, met in aims(outcomes)))
    return "\n\n".join(parts)


def interleaved(each: int, controls: int) -> list[tuple[str, int]]:
    """All kinds in turn, so that whatever else the machine does falls on all alike."""
    wanted = {**dict.fromkeys(BUILDS, each), **dict.fromkeys(CONTROLS, controls)}
    return [(kind, i) for i in range(max(wanted.values())) for kind, n in wanted.items() if i < n]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--each", type=int, default=20, help="builds of each kind (20)")
    parser.add_argument("--controls", type=int, default=60, help="models of each kind that is no circuit (60)")
    parser.add_argument("--others", type=int, default=2, help="of each kind, how many baselines see (2)")
    parser.add_argument("--seed", type=int, default=0, help="of everything (0)")
    parser.add_argument("--replay", metavar="NAME", help="only this one, seed/kind/number")
    parser.add_argument("--kinds", metavar="A,B", help="only these")
    parser.add_argument("--workers", type=int, default=1, help="models at a time, one thread each (1)")
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    parser.add_argument("--tables", metavar="FILE", help="only the tables of what was written there")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.tables:
        print(report(stored(Files(options.tables))))
        return
    if options.replay:
        print(line(examine(named(options.replay))))
        return
    print(f"seed {options.seed}; any of these again: {REPLAY} NAME", flush=True)
    chosen = options.kinds.split(",") if options.kinds else KINDS
    wanted = [(kind, i) for kind, i in interleaved(options.each, options.controls) if kind in chosen]
    jobs = [(options.seed, kind, i, i < options.others) for kind, i in wanted]
    outcomes, seconds = [], 0.0
    with ProcessPoolExecutor(options.workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for outcome, took in pool.map(examined, jobs):
            outcomes.append(outcome)
            seconds += took
            print(line(outcome), flush=True)
            if options.json:
                write(options.json, options, outcomes, seconds)
    print(f"\n{report(outcomes)}\n\n{seconds:.0f} s of the processor", file=sys.stdout)


def examined(job: tuple[int, str, int, bool]) -> tuple[Outcome, float]:
    """One of the models, and the processor's seconds for it."""
    seed, kind, number, baselines = job
    return cast(tuple[Outcome, float], clocked(lambda: examine(adversary(seed, kind, number), baselines)))


def stored(file: Files) -> list[Outcome]:
    """What `write` wrote."""
    models = json.loads(file.read_text())["models"]
    return [
        Outcome(
            **{"about": {}, "circuits": 0, "tried": 0, **one, "scores": [Score(**score) for score in one["scores"]]}
        )
        for one in models
    ]


def write(file: str, options: argparse.Namespace, outcomes: Sequence[Outcome], seconds: float) -> None:
    """Everything, as it stands."""
    about = {"hopscope": code_version(), "seed": options.seed, "each": options.each, "controls": options.controls}
    models = [{k: v for k, v in asdict(o).items() if v not in ({}, "")} for o in outcomes]
    said = [{"aim": text, "holds": met} for text, met in aims(outcomes)]
    Files(file).write_text(
        json.dumps({**about, "seconds": round(seconds), "aims": said, "models": models}, separators=(",", ":")) + "\n"
    )


if __name__ == "__main__":
    main()

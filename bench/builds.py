"""Circuit discovery on hand-built models, whose circuits are known: how often is the truth found?

    python -m bench.builds --n 100 --seed 0            (part of `make bench-circuits`)

Models are drawn at run time: one to four hops, every algorithm and merging, both orders, one to three heads, idle
layers, paths dealt out over heads, twins, dead and noisy heads, noise in MLPs, random rotations. Discovery is given
model and task alone. Then the truth is opened: the structural Hamming distance (SHD) to the nearest true minimal
circuit, and whether all true circuits, which differ where heads have twins, were found. For every miss the losses of
both circuits are told, live and by hand, and what follows from them.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path as Files
from typing import Any

from bench.metrics import Paths, Yardstick, nearest, shd
from hopscope.builds.build import UNUSED, Build, Built, build, plan_schedule
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.evaluator import Evaluator, Kept
from hopscope.circuits.judging.truths import verified
from hopscope.circuits.units import row_of
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.tasks.retrieval import Retrieval

TRIES = 20  # settings drawn for one model, until they can be built
JUDGED_ON = 256  # sequences behind the losses that explain a miss


@dataclass(frozen=True)
class Outcome:
    """One model: what it is, and what was found in it."""

    number: int
    task: dict[str, Any]
    build: dict[str, Any]
    paths: int
    verdict: str
    distance: int
    true_circuits: int
    found_circuits: int
    all_found: bool
    complete: bool
    forwards: int
    seconds: float
    explanation: dict[str, Any] = field(default_factory=dict)

    @property
    def hit(self) -> bool:
        """A true minimal circuit, and accepted."""
        return self.distance == 0 and self.verdict == "circuit"


def models(n: int, seed: int, hops: int = 4) -> Iterator[Built]:
    """n models with at most so many hops."""
    return (model(number, seed, hops) for number in range(n))


def model(number: int, seed: int, hops: int = 4) -> Built:
    """One model; it depends on seed and number, not on those before it."""
    return one_model(random.Random(f"{seed}/{number}"), hops)


def one_model(draw: random.Random, hops: int) -> Built:
    """Settings are drawn until they can be built: not every algorithm has room for a twin."""
    for _ in range(TRIES):
        task = Retrieval(
            n_hops=draw.randint(1, hops), order=draw.choice(["nearest_first", "deepest_first"]), position_base=100.0
        )
        try:
            return build(task, settings(task, draw))
        except BadInput:
            continue
    raise RuntimeError(f"{TRIES} settings in a row cannot be built")


def settings(task: Retrieval, draw: random.Random) -> Build:
    """A random build for a task. Raises BadInput where the algorithm cannot merge so."""
    heads, extra = draw.choice([1, 1, 2, 3]), draw.choice([0, 0, 1, 3])
    algorithm = draw.choice(catalogue.names("theory.algorithms"))
    merging = draw.choice(["query", "chain"])
    plan = plan_schedule(task, Build(algorithm=algorithm, merging=merging))
    return Build(
        algorithm=algorithm,
        merging=merging,
        heads=heads,
        layers=max(path.layer for path in plan) + 1 + extra,
        spread=draw.random() < 0.3,
        twins=draw.choice([0, 1]) if heads > 1 and extra else 0,
        unused=draw.choice(UNUSED),
        extra_mlp=draw.choice([0, 32]),
        rotate=draw.random() < 0.5,
        seed=draw.randint(0, 9999),
    )


def examine(number: int, built: Built, discovery: Discovery | None = None) -> Outcome:
    """Search without the truth, then compare with it."""
    began = time.monotonic()
    circuit = discover(built.model, built.config.task, discovery)
    seconds = time.monotonic() - began
    truth = verified(built.model, built.config.task, built.truth)
    truths = [frozenset(map(Path.from_dict, paths)) for paths in truth["circuits"]["uniform"]]
    mine = frozenset(found.path for found in circuit.paths)
    true = nearest(mine, truths)
    missed = shd(mine, true) > 0 or not circuit.accepted
    return Outcome(
        number,
        built.config.task.as_dict(),
        {name: value for name, value in built.config.origin.items() if name != "by"},
        len(Evaluator(built.model, built.config.task.sample(1)).ground.paths),
        circuit.verdict,
        shd(mine, true),
        len(truths),
        len(circuit.alternatives),
        set(circuit.alternatives) == set(truths),
        circuit.completeness.claim != "not claimed",
        sum(circuit.protocol["forwards"].values()),
        round(seconds, 2),
        explain(built, circuit, mine, true) if missed else {},
    )


def explain(built: Built, circuit: Circuit, mine: Paths, true: Paths) -> dict[str, Any]:
    """Losses of both circuits on fresh sequences, and what they say about who is wrong."""
    evaluator = Evaluator(built.model, built.config.task.sample(JUDGED_ON, 1))
    losses = {}
    for criterion in ("live", "by hand"):
        ours, theirs = Yardstick(evaluator, criterion).losses([mine, true])  # type: ignore[arg-type]
        losses[criterion] = {"found": round(ours, 4), "true": round(theirs, 4)}
    whole = evaluator.losses(Kept(frozenset(map(row_of, paths))) for paths in (mine, true))
    losses["rows"] = {name: round(loss.mean, 4) for name, loss in zip(("found", "true"), whole, strict=True)}
    bound = circuit.threshold
    found, known = (max(pair[who] for pair in losses.values()) for who in ("found", "true"))
    if known >= bound:
        words = "the true circuit itself is above the threshold: the truth is wrong, or the build too faint"
    elif found < bound and mine < true:
        words = "fewer paths than the truth suffice: the truth is not minimal"
    elif found < bound and mine > true:
        words = "the truth and more: the search did not minimise"
    elif found < bound:
        words = "another circuit that suffices: the truth lists too few, or the search is not minimal"
    else:
        words = "what was found does not suffice: the search is wrong"
    return {
        "reason": circuit.reason,
        "extra": sorted(map(str, mine - true)),
        "missing": sorted(map(str, true - mine)),
        "losses": losses,
        "words": words,
    }


def line(outcome: Outcome) -> str:
    """One model for people."""
    b, task = outcome.build, outcome.task
    kind = f"D={task['n_hops']} {task['order']} {b['algorithm']}/{b['merging']} {b['layers']}×{b['heads']}"
    words = [w for w in ("spread", "twins", "extra_mlp", "rotate") if b[w]]
    said = "hit " if outcome.hit else f"MISS (SHD {outcome.distance}, {outcome.verdict})"
    every = "" if outcome.all_found else f"; {outcome.found_circuits} circuits for {outcome.true_circuits} true ones"
    about = f"{kind} {b['unused']} {' '.join(words)} seed {b['seed']}"
    text = f"{outcome.number:3d} {said} {outcome.seconds:5.1f} s, {outcome.forwards:4d} forwards  {about}{every}"
    return text if outcome.hit else f"{text}\n    {json.dumps(outcome.explanation, ensure_ascii=False)}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """All models in a sentence or two."""
    n, hits = len(outcomes), sum(o.hit for o in outcomes)
    seconds = sorted(o.seconds for o in outcomes)
    every = sum(o.all_found for o in outcomes)
    return (
        f"{hits} of {n} circuits are a true minimal circuit (SHD 0); all true circuits were found, and no other, in "
        f"{every}. Seconds per model: median {seconds[n // 2]:.1f}, greatest {seconds[-1]:.1f}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", type=int, default=100, help="models (100)")
    parser.add_argument("--seed", type=int, default=0, help="of the models (0)")
    parser.add_argument("--hops", type=int, default=4, help="at most so many (4)")
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    options = parser.parse_args(arguments)
    print(f"{options.n} models, seed {options.seed}, up to {options.hops} hops")
    outcomes = []
    for number, built in enumerate(models(options.n, options.seed, options.hops)):
        outcomes.append(examine(number, built))
        print(line(outcomes[-1]), flush=True)
    print("\n" + summary(outcomes))
    if options.json:
        report = {"n": options.n, "seed": options.seed, "hops": options.hops, "models": list(map(asdict, outcomes))}
        Files(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

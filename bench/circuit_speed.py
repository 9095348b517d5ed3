"""How long our search takes beside the ACDC sweep, on the same sequences, in turn, in seconds of the processor.

    python -m bench.circuit_speed [RUN ...] [--rounds 3] [--json FILE]

Each round searches, until the circuit is known, and with hypotheses, necessity, certificates and validation; then it
sweeps ACDC (ten thresholds, then its smallest circuit under the task's threshold). `live` and `acdc_live` are both
circuits' losses on the same fresh sequences. `acdc_as_few` is that of the sweep's first paths, as many as ours has. One
thread, so that what else the machine does costs either alike. The file keeps what was measured before, of other
versions too: docs/circuits_benchmark.md tells the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path as Files
from typing import Any

import torch

from bench.baselines.acdc import acdc
from bench.baselines.base import smallest
from bench.circuits import chosen
from bench.metrics import Yardstick
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.evaluator import Evaluator, Kept
from hopscope.core.environment import code_version
from hopscope.core.seeds import generator
from hopscope.runs.run import Run


def swept(run: Run, few: int) -> dict[str, Any]:
    """ACDC on the sequences of our search; and what so few paths of its order come to."""
    random = generator(0, "circuit discovery", 0, run.model.device)
    lab = Yardstick(Evaluator(run.model, run.task.sample(Discovery().discovery, random)))
    began = time.process_time()
    [proposal] = acdc(lab)
    least = smallest(proposal, lab, run.task.circuit_threshold(lab.model, lab.nothing))
    about: dict[str, Any] = {"acdc": round(time.process_time() - began, 2), "acdc_paths": None, "acdc_loss": least.loss}
    if least.circuit is None:
        return about
    fresh = Evaluator(
        run.model, run.task.sample(Discovery().report, generator(0, "circuit report", 0, run.model.device))
    )
    sets = least.circuit, frozenset(proposal.order[:few])
    live, as_few = (loss.mean for loss in fresh.losses(map(Kept, sets)))
    return about | {"acdc_paths": len(least.circuit), "acdc_live": live, "acdc_as_few": as_few}


def searched(run: Run) -> dict[str, Any]:
    """Our search with its defaults."""
    began, known = time.process_time(), [0.0]

    def watch(words: str) -> None:
        if words.startswith("validating"):
            known[0] = time.process_time() - began

    circuit = discover(run.model, run.task, Discovery(), watch)
    took = {"known": round(known[0], 2), "whole": round(time.process_time() - began, 2)}
    return took | {"paths": len(circuit.paths), "live": circuit.losses["live"].mean, "verdict": circuit.verdict}


def told(rounds: Sequence[dict[str, Any]]) -> str:
    """Medians over rounds; ratios are medians of each round's."""
    middle = {name: statistics.median(one[name] for one in rounds) for name in ("acdc", "known", "whole")}
    ratio = [statistics.median(one["acdc"] / one[name] for one in rounds) for name in ("known", "whole")]
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in middle.items())
    return f"{seconds}; ACDC's time is {ratio[0]:.1f} times that until the circuit is known, {ratio[1]:.1f} the whole"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run folders (the packaged run's model)")
    parser.add_argument("--rounds", type=int, default=3, help="of each model (3)")
    parser.add_argument("--json", metavar="FILE", help="also add everything to what is here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for run in chosen(options.runs):
        rounds: list[dict[str, Any]] = []
        for _ in range(options.rounds):
            ours = searched(run)
            rounds.append(swept(run, ours["paths"]) | ours)
        print(f"{run.task.name()} {run.model.architecture.n_layers} layers: {told(rounds)}", flush=True)
        if options.json:
            file = Files(options.json)
            about = {"hopscope": code_version(), "model": run.path.name, "rounds": rounds}
            stored = json.loads(file.read_text()) if file.exists() else []
            file.write_text(json.dumps([*stored, about], indent=1) + "\n")


if __name__ == "__main__":
    main()

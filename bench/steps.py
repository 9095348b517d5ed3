"""Training steps per second, ours against its peers, and each one's share of what the machine can multiply.

    python -m bench.steps --peers-python .venv-peers/bin/python        (`make bench`; `make peers` builds that one)

Every contender trains the same model on the same task, with the same AdamW, drawing a fresh batch at every step with
the same code (bench/work.py). Each is a process of its own that compiles and warms up first; that time is stated
apart. Then come the rounds, interleaved: in each, every contender in turn makes steps for some seconds while all
others sleep, and so does a matrix product, whose speed is the peak. So whatever slows the machine for a while slows
all alike, and ratios are formed within a round before their median is taken. Who sleeps holds little memory, so all
ten fit into 24 GiB even at the paper's size. With `--threads 1` seconds are those of the processor (of all of a
contender's threads): they can be compared on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from bench.work import SIZES, Work
from hopscope.core.environment import code_version

ROOT = Path(__file__).parents[1]
BUSY = 0.5  # load average of the last minute above which others take a share of the cores


@dataclass(frozen=True)
class Contender:
    """Who trains, and how; `module` is a file of bench/contenders."""

    name: str
    module: str
    dtype: str = "float32"
    compiled: bool = False

    @property
    def ours(self) -> bool:
        """Whether it runs in the project's environment; peers have theirs."""
        return self.module in ("ours", "gemm")

    @property
    def is_peer(self) -> bool:
        """Whether it competes for the title that ratios refer to: the fastest float32 peer."""
        return not self.ours and self.dtype == "float32"


GEMM = Contender("GEMM peak", "gemm")
CONTENDERS = (
    Contender("hopscope", "ours"),
    Contender("hopscope compiled", "ours", compiled=True),
    Contender("hopscope bfloat16", "ours", "bfloat16"),
    Contender("hopscope bfloat16 compiled", "ours", "bfloat16", compiled=True),
    Contender("PyTorch", "pytorch"),
    Contender("PyTorch compiled", "pytorch", compiled=True),
    Contender("PyTorch bfloat16 compiled", "pytorch", "bfloat16", compiled=True),
    Contender("TransformerLens", "transformer_lens"),
    Contender("x-transformers", "x_transformers"),
    Contender("JAX", "jax_jit"),
)


class Absent(Exception):
    """A contender cannot take part; the message says why."""


class Worker:
    """A contender's process, which waits on its pipe between rounds."""

    def __init__(self, contender: Contender, python: str, size: str, threads: int, scratch: Path):
        self.contender = contender
        self.log = scratch / f"{contender.module}-{contender.dtype}-{contender.compiled}.log"
        command = [python, "-m", "bench.worker", contender.module, "--size", size, "--dtype", contender.dtype]
        command += ["--threads", str(threads), *(["--compiled"] if contender.compiled else [])]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(threads, scratch / self.log.stem),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("w"),
            text=True,
        )
        self.ready = self.answer()
        if "missing" in self.ready:
            self.close()
            raise Absent(f"{self.ready['missing']} is not installed in {python}")

    def answer(self) -> dict[str, Any]:
        line = pipe(self.process.stdout).readline()
        if not line:
            words = self.log.read_text().strip().split("\n")[-1]
            raise Absent(f"it stopped with exit code {self.process.wait()}: {words}")
        return json.loads(line)

    def go(self, steps: int) -> dict[str, Any]:
        """One timed round. Raises Absent if the process is gone, as one that the system killed for memory."""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"steps": steps}), file=pipe(self.process.stdin), flush=True)
        return self.answer()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe(self.process.stdin).close()
        self.process.wait()


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def environment(threads: int, cache: Path) -> dict[str, str]:
    """Equal threads for all, and an empty cache of compiled code, so that compiling takes as long as the first time."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "TOKENIZERS_PARALLELISM": "false",
    }


@dataclass
class Result:
    """What one contender reached: steps per second by round, or why there is nothing."""

    contender: Contender
    absent: str = ""
    ready: dict[str, Any] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    sizes = list(SIZES) if options.size == "all" else [options.size]
    report = {"machine": machine(options.threads), "rounds": options.rounds, "sizes": {}}
    print(describe(report["machine"], options.rounds))
    if report["machine"]["load_before"] > BUSY:
        print("The machine was busy before the start: the figures below are not to be trusted.")
    for size in sizes:
        results, peaks = measure(SIZES[size], options)
        print(f"\n{SIZES[size]}\n{render(SIZES[size], results, peaks)}", flush=True)
        report["sizes"][size] = as_dict(SIZES[size], results, peaks)
        if options.json:  # after each size, for a larger one may not fit into memory
            Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--size", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (5)")
    parser.add_argument("--seconds-per-round", type=float, default=2.5, help="of each contender (2.5)")
    parser.add_argument("--threads", type=int, default=cores, help=f"CPU threads of each contender ({cores})")
    parser.add_argument("--peers-python", default=".venv-peers/bin/python", help="Python that has the peers")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="contenders, or parts of their names")
    parser.add_argument("--json", metavar="FILE", help="also write everything that was measured here")
    return parser.parse_args(arguments)


def chosen(only: Sequence[str]) -> list[Contender]:
    """The contenders whose name, or part of it, was given; an exact name means that one alone."""
    exact = [c for c in CONTENDERS if c.name in only]
    return exact or [c for c in CONTENDERS if not only or any(part.lower() in c.name.lower() for part in only)]


def measure(work: Work, options: argparse.Namespace) -> tuple[list[Result], list[dict[str, float]]]:
    """All rounds of one size: a result for every contender, and the peaks by round and dtype."""
    with tempfile.TemporaryDirectory() as scratch:
        workers: list[Worker] = []
        try:
            gemm = enlist(workers, Result(GEMM), work, options, Path(scratch))
            results = [Result(contender) for contender in chosen(options.only)]
            teams = [(result, enlist(workers, result, work, options, Path(scratch))) for result in results]
            peaks = [one_round(number, gemm, teams, options) for number in range(options.rounds)]
        finally:
            for worker in workers:
                worker.close()
    return results, peaks


def enlist(
    workers: list[Worker], result: Result, work: Work, options: argparse.Namespace, scratch: Path
) -> Worker | None:
    """Start a contender and wait until it is warm; None, with the reason noted, if it cannot take part."""
    contender = result.contender
    progress(f"{work.name}: warming up {contender.name}")
    python = sys.executable if contender.ours else options.peers_python
    try:
        worker = Worker(contender, python, work.name, options.threads, scratch)
    except FileNotFoundError:
        result.absent = f"there is no {python}; `make peers` builds it"
    except Absent as reason:
        result.absent = str(reason)
    else:
        result.ready = worker.ready
        workers.append(worker)
        return worker
    return None


def one_round(
    number: int, gemm: Worker | None, teams: list[tuple[Result, Worker | None]], options: argparse.Namespace
) -> dict[str, float]:
    """Everyone in turn, one at a time; returns the peaks."""
    assert gemm is not None, "the project's own environment lacks PyTorch"
    peaks = gemm.go(1)["result"]
    for result, worker in teams:
        if worker is not None and not result.absent:
            progress(f"round {number + 1} of {options.rounds}: {result.contender.name}")
            rate = result.rates[-1] if result.rates else 1 / worker.ready["step_seconds"]
            steps = max(1, round(options.seconds_per_round * rate))
            try:
                result.last = worker.go(steps)
            except Absent as reason:
                result.absent = f"after {number} rounds {reason}"
                continue
            result.rates.append(steps / result.last["seconds"])
    return peaks


def progress(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def machine(threads: int) -> dict[str, Any]:
    """Where, and with what, the figures were taken."""
    model = platform.processor() or platform.machine()
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().split("\n") if "model name" in line]
        model = names[0] if names else model
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": threads,
        "load_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "hopscope": code_version(),
    }


def describe(where: dict[str, Any], rounds: int) -> str:
    return (
        f"{where['date']}, {where['cpu']}, {where['cores']} cores, {where['threads']} threads each, {rounds} rounds, "
        f"interleaved; load before the start {where['load_before']:.2f}; hopscope {where['hopscope']}"
    )


def fastest_peer(results: list[Result]) -> Result | None:
    """The float32 peer with the highest median: what ratios refer to."""
    peers = [result for result in results if result.contender.is_peer and result.rates]
    return max(peers, key=lambda result: result.rate, default=None)


def share_of_peak(work: Work, result: Result, peaks: list[dict[str, float]]) -> float:
    """Median over rounds of the contender's floating-point operations as a fraction of its dtype's peak."""
    dtype = result.contender.dtype
    return statistics.median(rate * work.flops / peak[dtype] for rate, peak in zip(result.rates, peaks, strict=True))


def ratio(result: Result, to: Result) -> float:
    """Median over rounds of the ratio within the round."""
    return statistics.median(mine / theirs for mine, theirs in zip(result.rates, to.rates, strict=True))


HEADINGS = ("contender", "steps/s", "min–max", "of peak", "ratio", "peak MiB", "of it libraries", "warm-up s")


def render(work: Work, results: list[Result], peaks: list[dict[str, float]]) -> str:
    """A table in Markdown, and beneath it what its columns refer to."""
    best = fastest_peer(results)
    rows = [HEADINGS, ["---"] * len(HEADINGS), *(cells(work, result, peaks, best) for result in results)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\n{peak_line(peaks)}\n{ratio_line(best)}"


def cells(work: Work, result: Result, peaks: list[dict[str, float]], best: Result | None) -> list[str]:
    if not result.rates:
        return [result.contender.name, result.absent, *[""] * (len(HEADINGS) - 2)]
    return [
        result.contender.name,
        f"{result.rate:.2f}",
        f"{min(result.rates):.2f}–{max(result.rates):.2f}",
        f"{share_of_peak(work, result, peaks):.0%} {result.contender.dtype}",
        f"{ratio(result, best):.2f}" if best else "–",
        f"{result.last['peak_mb']:.0f}",
        f"{result.ready['libraries_mb']:.0f}",
        f"{result.ready['warmup_seconds']:.1f}",
    ]


def peak_line(peaks: list[dict[str, float]]) -> str:
    rates = {dtype: sorted(peak[dtype] / 1e9 for peak in peaks) for dtype in ("float32", "bfloat16")}
    words = [f"{dtype} {statistics.median(r):.0f} GFLOP/s ({r[0]:.0f}–{r[-1]:.0f})" for dtype, r in rates.items()]
    return f"GEMM peak, measured in every round: {', '.join(words)}."


def ratio_line(best: Result | None) -> str:
    if best is None:
        return "No float32 peer took part, so there are no ratios."
    return f"Ratios are to the fastest float32 peer, {best.contender.name}: medians of the ratios within each round."


def as_dict(work: Work, results: list[Result], peaks: list[dict[str, float]]) -> dict[str, Any]:
    """Everything that was measured, for `--json`."""
    best = fastest_peer(results)
    rows = []
    for result in results:
        row: dict[str, Any] = {"name": result.contender.name, "dtype": result.contender.dtype}
        if result.rates:
            row |= {"steps_per_second": result.rate, "by_round": result.rates, **result.ready, **result.last}
            row |= {"share_of_peak": share_of_peak(work, result, peaks), "ratio": ratio(result, best) if best else None}
        rows.append(row | ({"absent": result.absent} if result.absent else {}))
    return {
        "work": str(work),
        "flops_per_step": work.flops,
        "fastest_float32_peer": best.contender.name if best else None,
        "gemm_peak_flops": peaks,
        "contenders": rows,
    }


if __name__ == "__main__":
    main()

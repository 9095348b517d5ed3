"""One contender in a process of its own: it warms up, then makes timed steps whenever it is told to.

It reads a line of JSON from stdin for every round, `{"steps": 12}`, and answers with one on stdout:
`{"seconds": 1.9, "peak_mb": 700, "result": 0.98}`. Its first line is `{"ready": …}` or `{"missing": "jax"}`.
Every round begins with a step that is not timed. A large contender hands back what it freed before it sleeps, for all
of them together may need more memory than there is, and this step takes it again.
Everything else that it, or a library, prints goes to stderr.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TextIO

LARGE_MB = 1024  # of all ten contenders: none is larger at the demo's size, all are at the paper's


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--size", required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=3)
    options = parser.parse_args()
    answers = private_stdout()
    hold_to(options.threads)
    try:
        step = contender(options)
    except ModuleNotFoundError as missing:
        say(answers, missing=missing.name)
        return
    serve(step, options, answers)


def private_stdout() -> TextIO:
    """The pipe to the parent; file descriptor 1 becomes stderr, so that nobody else writes into it."""
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return pipe


def say(answers: TextIO, **answer: Any) -> None:
    print(json.dumps(answer), file=answers, flush=True)


def hold_to(threads: int) -> None:
    """Give PyTorch, and whatever sizes itself by the cores it may use (XLA), the same number of threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import torch

    torch.set_num_threads(threads)


def clock_for(threads: int) -> Callable[[], float]:
    """Seconds on the wall; of one thread, those of the processor, which others on the machine do not stretch."""
    return time.process_time if threads == 1 else time.perf_counter


def contender(options: argparse.Namespace) -> Callable[[int], Any]:
    module = importlib.import_module(f"bench.contenders.{options.module}")
    from bench.work import SIZES

    return module.make(SIZES[options.size], options.dtype, options.compiled)


def peak_mb() -> float:
    """The most memory that this process has held, in MiB, its libraries included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def versions() -> dict[str, str]:
    """Of the packages at work."""
    names = {"torch": "torch", "jax": "jax", "transformer_lens": "transformer-lens", "x_transformers": "x-transformers"}
    return {name: version(name) for module, name in names.items() if module in sys.modules}


def hand_back() -> None:
    """Give the system what a large process freed but kept, where the C library is glibc: see malloc_trim(3).

    A small one keeps it, as in a real run: memory that is taken again may not lie in huge pages.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None and peak_mb() > LARGE_MB:
        trim(0)


def serve(step: Callable[[int], Any], options: argparse.Namespace, answers: TextIO) -> None:
    """Warm up, then time the steps that are asked for, until stdin ends."""
    import torch

    libraries_mb, start = peak_mb(), time.perf_counter()
    for index in range(options.warmup):
        before = time.perf_counter()
        step(index)
    step_seconds, warmup = time.perf_counter() - before, time.perf_counter() - start
    ready = {"warmup_seconds": warmup, "step_seconds": step_seconds, "libraries_mb": libraries_mb}
    say(answers, ready=True, threads=torch.get_num_threads(), versions=versions(), **ready)
    done, clock = options.warmup, clock_for(options.threads)
    hand_back()
    for line in sys.stdin:
        steps = json.loads(line)["steps"]
        step(done)
        done += 1
        start = clock()
        for index in range(done, done + steps):
            result = step(index)
        seconds = clock() - start
        done += steps
        hand_back()
        say(answers, seconds=seconds, peak_mb=peak_mb(), result=result)


if __name__ == "__main__":
    main()

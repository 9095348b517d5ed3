"""What the heads and the circuit of a real model's hop cost: measured on models that are here, computed for others.

    python -m bench.language_costs [MODEL ...] [--threads 2] [--json FILE]

A study is a number of passes through the model on questions of a length. Only ACDC's number grows with the model, for
it tries every node. So the cost of another model is that of a measured one, by phase, times the ratio of the operations
of a pass, and for ACDC also times the ratio of nodes. That a larger model's products come nearer to the processor's
limit is not counted. Memory is the weights in float32 and what was measured beyond them, in proportion to layers and
width.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from hopscope.core import catalogue
from hopscope.core.environment import code_version
from hopscope.core.storage import write_json
from hopscope.core.wording import duration
from hopscope.formulations.base import of_one_hop
from hopscope.language.checkpoints import Opened, open_model
from hopscope.live.language import Found, FoundHeads, FoundHop, read

ROW = 48  # tokens of a question, in the code layout; the vocabulary is read off once in so many
ACDC = "ACDC"


@dataclass(frozen=True)
class Size:
    """What a model's cost depends on; all of them share a key and value among heads, and have a gated MLP."""

    layers: int
    width: int
    mlp: int
    heads: int
    shared: int
    head_width: int
    vocabulary: int

    @classmethod
    def of(cls, config: Any) -> Size:
        """The size of a model of transformers."""
        return cls(
            *(config.num_hidden_layers, config.hidden_size, config.intermediate_size, config.num_attention_heads),
            *(config.num_key_value_heads, config.head_dim, config.vocab_size),
        )

    @property
    def in_layers(self) -> int:
        """Weights in the layers."""
        attention = self.width * self.head_width * 2 * (self.heads + self.shared)
        return self.layers * (attention + 3 * self.width * self.mlp)

    @property
    def weights(self) -> int:
        """All weights, embedding and unembedding tied."""
        return self.in_layers + self.width * self.vocabulary

    @property
    def operations(self) -> float:
        """Operations per token of a pass."""
        return 2 * (self.in_layers + self.width * self.vocabulary / ROW)

    @property
    def nodes(self) -> int:
        """Heads and MLPs."""
        return self.layers * (self.heads + 1)


#: As their configuration files on the hub say (Llama Team, 2024, arXiv:2407.21783, for the last one).
OTHERS = {
    "SmolLM2-135M": Size(30, 576, 1536, 9, 3, 64, 49152),
    "Gemma-3-270M": Size(18, 640, 2048, 4, 1, 256, 262144),
    "Llama-3.2-1B": Size(16, 2048, 8192, 32, 8, 64, 128256),
    "Llama-3.1-8B": Size(32, 4096, 14336, 32, 8, 128, 128256),
}


def measured(name: str, threads: int) -> dict[str, Any]:
    """Both studies on one model, with their defaults."""
    began = time.monotonic()
    opened = open_model(name, threads=threads)
    found = {"model": name, "size": vars(Size.of(opened.model.config)), "opening": time.monotonic() - began}
    return found | {"circuit": timed(opened, FoundHop), "heads": timed(opened, FoundHeads)} | {"peak_bytes": peak()}


def peak() -> int:
    """The most memory that this process has had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def timed(opened: Opened, found: type[Found]) -> dict[str, float]:
    """Seconds of a study by phase, as the clock and as the processor count them."""
    moments: list[tuple[str, float, float]] = []
    watch = lambda words: moments.append((words.split(";")[-1].strip(), time.monotonic(), time.process_time()))  # noqa: E731
    read(found, opened, of_one_hop("equations"), catalogue.find("language.layouts", "code")(), None, watch)
    watch("end")
    phases: dict[str, float] = {}
    for (words, start, _), (_, end, _) in pairwise(moments):
        phases[words] = phases.get(words, 0.0) + end - start
    return {**phases, "whole": moments[-1][1] - moments[0][1], "processor": moments[-1][2] - moments[0][2]}


def computed(size: Size, known: dict[str, Any]) -> dict[str, float]:
    """Seconds and bytes of a model, from one that was measured."""
    base = Size(**known["size"])
    pass_, nodes = size.operations / base.operations, size.nodes / base.nodes
    acdc = sum(seconds for phase, seconds in known["circuit"].items() if phase.startswith(ACDC))
    beyond = known["peak_bytes"] - 4 * base.weights
    streams = size.layers * size.width / (base.layers * base.width)
    return {
        "heads": pass_ * known["heads"]["whole"],
        "circuit": pass_ * (known["circuit"]["whole"] - acdc) + pass_ * nodes * acdc,
        "circuit_without_acdc": pass_ * (known["circuit"]["whole"] - acdc),
        "bytes": 4 * size.weights + streams * beyond,
    }


def table(report: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        "| model | weights | memory | `heads` | `heads --circuit` | of which without ACDC |",
        "|---|---|---|---|---|---|",
    ]
    by_name = {one["model"]: one for one in report["measured"]}
    for name, one in by_name.items():
        acdc = sum(seconds for phase, seconds in one["circuit"].items() if phase.startswith(ACDC))
        whole = one["circuit"]["whole"]
        lines.append(
            row(f"{name}, measured", Size(**one["size"]), one["peak_bytes"], one["heads"]["whole"], whole, whole - acdc)
        )
    for name, size in OTHERS.items():
        if vars(size) in [one["size"] for one in by_name.values()]:
            continue
        one = report["computed"][name]
        lines.append(
            row(f"{name}, computed", size, *(one[key] for key in ("bytes", "heads", "circuit", "circuit_without_acdc")))
        )
    return "\n".join(lines)


def row(name: str, size: Size, memory: float, *seconds: float) -> str:
    """One model."""
    return (
        f"| {name} | {size.weights / 1e6:.0f} M | {memory / 2**30:.1f} GiB | "
        + " | ".join(map(duration, seconds))
        + " |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, measure, compute, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "model", nargs="*", default=["smollm2"], help="models to measure; the first one is computed from"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write everything here")
    given = parser.parse_args(arguments)
    found = [measured(name, given.threads) for name in given.model]
    report = {
        "code": code_version(),
        "threads": given.threads,
        "torch": torch.__version__,
        "measured": found,
        "computed": {name: computed(size, found[0]) for name, size in OTHERS.items()},
    }
    print(table(report))
    if given.json:
        write_json(given.json, json.loads(json.dumps(report)))


if __name__ == "__main__":
    main()

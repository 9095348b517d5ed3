"""`hopscope lm heads`: find the heads of a language model that do one hop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from hopscope.cli.given import refuse_beside
from hopscope.cli.options import (
    as_json,
    console,
    out_option,
    pick,
    print_json,
    progress,
    say,
    threads_option,
)
from hopscope.core import catalogue
from hopscope.core.places import check_out
from hopscope.core.settings import BadInput
from hopscope.core.terminal import Narrator
from hopscope.formulations.base import of_one_hop

#: PyTorch's threads wait for each other actively, which on shared cores is slower than a single thread. This must be
#: set before PyTorch is loaded.
PATIENCE = {"OMP_WAIT_POLICY": "PASSIVE"}


@click.command("heads")
@click.option(
    "--model", default="smollm2", show_default=True, help="smollm2, gemma3-270m, a folder, *.gguf or org/name."
)
@click.option("--formulation", default="equations", show_default=True, help="The wording of the questions.")
@click.option("--hops", type=int, help="Hops from the query to the answer, D; default 1, or the formulation's own.")
@click.option("--chains", type=int, help="Chains to choose from, N; default the formulation's own.")
@click.option("--layout", default="code", show_default=True, help="How a question is presented to the model.")
@click.option(
    "--count",
    type=int,
    help="Questions, default 200: a third each for finding, selecting and testing. With --circuit draws of facts, each "
    "asked about every chain, default 48: half for searching, half for testing. With --needles needles, each at five "
    "depths, default 12: half for selecting, half for testing.",
)
@click.option("--seed", default=0, show_default=True, help="Of the questions and of everything random.")
@click.option("--tests", default=40, show_default=True, help="Sets of heads that the search for a minimal set may try.")
@click.option(
    "--circuit",
    is_flag=True,
    help="Find the circuit of the hop in heads, MLPs and edges, token by token, and compare it with baselines; with "
    "--hops 2, say why a model that does one hop fails at two.",
)
@click.option(
    "--needles",
    is_flag=True,
    help="Find the heads that copy an answer out of a long text: their retrieval scores, and what masking them costs.",
)
@threads_option("Of PyTorch; default 2, or 1 on a machine with one core.")
@out_option("Where to; default heads/MODEL.")
@progress
@as_json
def command(circuit: bool, needles: bool, out: Path | None, as_json: bool, **given: Any) -> None:
    """Find the heads of a language model that do one hop, and write heads.json, table.csv and pictures.

    First the standard head scores (induction, previous token, duplicate token) and the effect of removing the top
    induction heads. Then, if the model answers one hop above chance, its role paths, a minimal set of heads and which
    head reads which (docs/heads.md). With --circuit: circuit.json and a picture of the circuit instead
    (docs/hop_circuit.md). With --needles: retrieval.json, table.csv and a picture of all scores, without questions.
    """
    check_of_use(circuit, needles)
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    wording = of_one_hop(given["formulation"], given["hops"], given["chains"])
    layout = catalogue.find("language.layouts", given["layout"])()
    if out is not None and out.exists() and not out.is_dir():
        raise BadInput(f"--out must be a folder, and {out} is a file; choose another")
    if out is not None:
        check_out(out, tables=True)
    from hopscope.language.checkpoints import open_model
    from hopscope.live.language import FoundHeads, FoundHop, FoundNeedles, read, reading_of

    kind = FoundNeedles if needles else FoundHop if circuit else FoundHeads
    settings = pick(reading_of(kind).settings, given)
    with Narrator() as watch:
        watch(f"opening {given['model']}")
        opened = open_model(given["model"], threads=given["threads"] or min(2, os.cpu_count() or 1))
        found = read(kind, opened, wording, layout, settings, watch)
        name = opened.name if kind is FoundHeads else f"{opened.name}-{kind.kind}"
        files = found.save(out or Path("heads") / name)
    if as_json:
        print_json(found.report)
        return
    console().print(str(found), markup=False, soft_wrap=True)
    say("".join(f"{file}\n" for file in files), nl=False)


def check_of_use(circuit: bool, needles: bool) -> None:
    """Raise BadInput for two studies at once, and for options that have no effect on the chosen one."""
    if circuit and needles:
        raise BadInput("--circuit and --needles are two studies; choose one of them")
    if circuit:
        refuse_beside("has no effect with --circuit", "tests")
    if needles:
        refuse_beside("has no effect with --needles", "formulation", "hops", "chains", "layout", "tests")

"""`hopscope heads`: what the heads of a real model do, and which of them do one hop."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli.options import as_json, console, few_enough, print_json, say
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.core.storage import clear_errors, enlist, listed, unlist, write_file, write_json
from hopscope.core.terminal import Narrator

if TYPE_CHECKING:
    from hopscope.formulations.base import Formulation
    from hopscope.language.heads.study import Study

#: PyTorch's threads wait for each other busily, which on shared cores is slower than one thread alone. This must be
#: said before PyTorch is loaded.
PATIENCE = {"OMP_WAIT_POLICY": "PASSIVE"}
SHOWN = 12  # paths and connections that are printed; heads.json has all


@click.command("heads")
@click.option(
    "--model", default="smollm2", show_default=True, help="smollm2, gemma3-270m, a folder, *.gguf or org/name."
)
@click.option("--formulation", default="equations", show_default=True, help="The questions' wording.")
@click.option("--hops", type=int, help="Hops from what is asked to the answer, D; default 1, or the wording's own.")
@click.option("--chains", type=int, help="Chains to choose from, N; default the wording's own.")
@click.option("--layout", default="code", show_default=True, help="How a question is put to the model.")
@click.option(
    "--count",
    type=int,
    help="Questions: for finding, choosing and judging a third each; default 200. With --circuit draws of facts, each "
    "asked about every chain, for searching and judging a half each; default 48. With --needles needles, each at five "
    "depths, for choosing and judging a half each; default 12.",
)
@click.option("--seed", default=0, show_default=True, help="Of the questions and of everything random.")
@click.option("--tests", default=40, show_default=True, help="Sets of heads that the search for a minimal one may try.")
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
@click.option(
    "--threads",
    type=click.IntRange(1),
    callback=few_enough,
    help="Of PyTorch; default 2, or 1 on a machine with one core.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where to; default heads/MODEL.")
@as_json
def command(
    model: str,
    formulation: str,
    hops: int | None,
    chains: int | None,
    layout: str,
    count: int | None,
    seed: int,
    tests: int,
    circuit: bool,
    needles: bool,
    threads: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find the heads of a language model that do one hop, and write heads.json, table.csv and pictures.

    First the field's scores (induction, previous token, duplicate token) and what removing the top induction heads
    does. Then, if the model answers the hop above chance, its role paths, a minimal set of heads and which head
    reads which (docs/heads.md). With --circuit: circuit.json and a picture of the circuit instead
    (docs/hop_circuit.md). With --needles: retrieval.json, table.csv and a picture of all scores. The question is then
    not asked.
    """
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    wording = worded(formulation, hops, chains)
    arrangement = catalogue.find("language.layouts", layout)()
    from hopscope.language.checkpoints import open_model
    from hopscope.language.heads.hop import HeadStudy
    from hopscope.language.heads.study import study

    if out is not None and out.exists() and not out.is_dir():
        raise BadInput(f"--out must be a folder, and {out} is a file; choose another")
    if circuit and needles:
        raise BadInput("--circuit and --needles are two studies; ask for one of them")
    if needles:
        from hopscope.cli.language_retrieval import run_needles

        run_needles(model, count, seed, threads, out, as_json)
        return
    if circuit:
        from hopscope.cli.language_circuit import run_circuit

        run_circuit(model, wording, arrangement, count, seed, threads, out, as_json)
        return
    settings = HeadStudy(count=200 if count is None else count, seed=seed, tests=tests)
    with Narrator() as watch:
        watch(f"opening {model}")
        opened = open_model(model, threads=threads or min(2, os.cpu_count() or 1))
        made = study(opened, wording, arrangement, settings, watch)
        files = write(made, out or Path("heads") / opened.name)
    if as_json:
        print_json(made.report)
    else:
        tell(made.report)
        say("".join(f"{file}\n" for file in files), nl=False)


def worded(name: str, hops: int | None, chains: int | None) -> Formulation:
    """The formulation as it is asked for; of one hop where nothing is said and its wording allows it."""
    kind = catalogue.find("formulations", name)
    given: dict[str, int] = {} if chains is None else {"n_chains": chains}
    if hops is not None:
        return kind(n_hops=hops, **given)
    try:
        return kind(n_hops=1, **given)
    except BadInput:
        return kind(**given)


def write(made: Study, folder: Path) -> list[Path]:
    """heads.json, table.csv and the pictures, each wholly or not at all."""
    from pandas import DataFrame

    from hopscope.drawing.heads import head_maps, role_maps, stacking_diagram
    from hopscope.drawing.style import save

    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    table, report = DataFrame(made.rows()), made.report
    unlist(folder, listed(folder))
    write_json(folder / "heads.json", report)
    write_file(folder / "table.csv", table.to_csv(index=False, float_format="%.6g").encode())
    files = [folder / "heads.json", folder / "table.csv", *save(head_maps(table, report["model"]), folder / "scores")]
    if report.get("heads"):
        files += save(role_maps(report["heads"], report["hop"]["roles"], report["model"]), folder / "roles")
        files += save(stacking_diagram(report), folder / "stacking")
    enlist(folder, [file.name for file in files])
    return files


def tell(report: Mapping[str, Any]) -> None:
    """The report for people."""
    out = console()
    for line in (*score_lines(report), *hop_lines(report)):
        out.print(line, markup=False, soft_wrap=True)


def score_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The field's scores, and the ablation."""
    scores, ablation = report["scores"], report["ablation"]
    yield f"{report['model']}: attention on {scores['sequences']} sequences of repeated random tokens, 0-1"
    for name, heads in scores["top"].items():
        yield f"  {name.replace('_', ' '):16}" + "  ".join(f"{row['head']} {row['score']:.3f}" for row in heads)
    random = ablation["without_random"]
    yield f"loss on the repeat (nats): {ablation['loss']:.2f}"
    size, each = len(ablation["top"]), ", ".join(f"{loss:.2f}" for loss in random)
    yield f"  without the top {size} induction heads: {ablation['without_top']:.2f}"
    yield f"  without {size} random heads: {ablation['median_random']:.2f} in the median (draws: {each})"
    yield ""


def hop_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Accuracy; then the paths, the set and its stack, if the hop is done at all."""
    hop, asked = report["hop"], report["protocol"]["formulation"]
    yield (
        f"{asked['name']}, {asked['n_hops']} hop{'s' * (asked['n_hops'] > 1)}: {hop['accuracy']:.3f} right "
        f"({hop['low']:.3f} to {hop['high']:.3f}, n = {hop['n']}), chance {hop['chance']:.3f}"
    )
    if not hop["above_chance"]:
        yield "not above chance: there is no hop here whose heads could be found, so the analysis stops"
        return
    yield from path_lines(report)
    yield from set_lines(report)


def path_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The paths that the answer needs most."""
    yield "\npaths whose knock-out harms the answer most (log-odds, nats, 95 %):"
    for row in report["paths"][:SHOWN]:
        control = f"; shuffled chains {row['shuffled']['mean']:+.3f}" if row["shuffled"] else ""
        yield (
            f"  {row['path']:38} {interval(row['knocked_out'])}  by hand {row['by_hand']['mean']:+.3f}"
            f"  attention {row['strength']:.2f}{control}"
        )


def set_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The minimal set, its controls, and what stacks on what."""
    found, depth = report["minimal"], report["depth"]
    if not found["size"]:
        yield f"\nno set of heads was found that keeps {found['level']:.0%} of the metric; try more --tests"
        return
    kind = "minimal" if found["finished"] else "smallest found (the tests ran out)"
    yield f"\n{kind} set: {found['size']} of {found['of']} heads; others at their mean pattern"
    for head in (head for head in report["heads"] if head["minimal"]):
        control = head["shuffled_strength"]
        yield f"  {head['path']:38} attention {head['strength']:.2f}, with shuffled chains {control:.2f}"
    yield f"metric kept on unseen questions: {share(found['set'])}"
    yield f"  by all heads but these: {share(found['without_set'])}"
    yield "  by random sets of the same size: " + ", ".join(f"{r['faithfulness']:.2f}" for r in found["random_sets"])
    yield "\nwhat stacks on what (effect of cutting the connection):"
    for row in report["stacking"]["cut"][:SHOWN]:
        yield f"  {row['sender']} → {row['receiver']} {row['part']:6} {interval(row['cut'])}"
    stack, least = " → ".join(depth["stack"]) or "none", depth["min_layers"]
    yield f"longest stack: {stack}" + (f"; theory asks for at least {least} layers" if least else "")


def interval(value: Mapping[str, float]) -> str:
    return f"{value['mean']:+.3f} ({value['low']:+.3f} to {value['high']:+.3f})"


def share(value: Mapping[str, float]) -> str:
    return f"{value['faithfulness']:.2f} ({value['low']:.2f} to {value['high']:.2f})"

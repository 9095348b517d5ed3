"""`hopscope heads --circuit`: the circuit of a language model's hop, in words, as tables and as a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopscope.cli.options import console, print_json, say
from hopscope.core.settings import BadInput
from hopscope.core.storage import clear_errors, enlist, listed, unlist, write_json
from hopscope.core.terminal import Narrator

if TYPE_CHECKING:
    from hopscope.drawing.language_circuit import Shown
    from hopscope.formulations.base import Formulation
    from hopscope.language.layouts.base import Layout


def run_circuit(
    model: str,
    formulation: Formulation,
    layout: Layout,
    count: int | None,
    seed: int,
    threads: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find, store, draw, tell; of two hops that the model does not do, tell why."""
    from hopscope.language.checkpoints import open_model
    from hopscope.language.circuit.study import CircuitStudy, circuit_study
    from hopscope.language.circuit.why import WhyStudy, why

    draws = CircuitStudy().count if count is None else count
    settings, further = CircuitStudy(count=draws, seed=seed), WhyStudy(count=draws, seed=seed)
    with Narrator() as watch:
        watch(f"opening {model}")
        opened = open_model(model, threads=threads or min(2, os.cpu_count() or 1))
        report = circuit_study(opened, formulation, layout, settings, watch)
        if "nodes" not in report and formulation.n_hops == 2:
            report["why"] = why(opened, formulation, layout, further, watch)
        files = store(report, out or Path("heads") / f"{opened.name}-circuit")
    if as_json:
        print_json(report)
        return
    for line in lines(report):
        console().print(line, markup=False, soft_wrap=True)
    say("".join(f"{file}\n" for file in files), nl=False)


def store(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """circuit.json and the picture, each wholly or not at all. Raises BadInput, CannotSave."""
    from hopscope.drawing.language_circuit import hop_circuit
    from hopscope.drawing.style import save

    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out must be a folder, and {folder} is a file; choose another")
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    unlist(folder, listed(folder))
    write_json(folder / "circuit.json", report)
    files = [folder / "circuit.json"]
    if "places" in report:
        seen = shown(report)
        title = f"{report['model']}: one hop by {len(seen.places)} places and {len(seen.edges)} edges"
        files += save(hop_circuit(seen, title), folder / "circuit")
    enlist(folder, [file.name for file in files])
    return files


def shown(report: Mapping[str, Any]) -> Shown:
    """What the picture shows of a report."""
    from hopscope.drawing.language_circuit import Shown
    from hopscope.language.circuit.portrait import looked_at

    asks, edges = report["asks"], [(*edge["ends"], edge["score"]) for edge in report["edges"]]
    return Shown(
        [one["place"] for one in report["places"]],
        edges,
        dict(zip(asks["names"], map(repr, asks["tokens"]), strict=True)),
        {one["place"]: seen for one in report["places"] if (seen := looked_at(one)[1])},
        asks["facts"].rpartition("\n")[0],
    ).on_the_way()


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report for people."""
    answers, accuracy = report["answers"], report["answers"]["accuracy"]
    yield (
        f"{report['model']}: {accuracy['mean']:.3f} right ({accuracy['low']:.3f} to {accuracy['high']:.3f}), chance "
        f"{answers['chance']:.3f}; logit of the right answer minus the paired question's {told(answers['metric'])}"
    )
    if "why" in report:
        yield from why_lines(report["why"])
    elif "nodes" not in report:
        yield "the question does not move the answer: there is no hop here whose circuit could be found"
    else:
        yield from circuit_lines(report)


def circuit_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The circuit in words, and the tables."""
    yield ""
    yield from report["words"]
    yield "\nshares of the metric on other facts: kept by these alone, and lost without them (95 %)"
    for unit, found in report["judged"].items():
        lost = f"  lost {told(found['lost'])}" if "lost" in found else ""
        yield f"  {found['size']:4} {unit:24} kept {told(found['kept'])}{lost}"
    yield "  random nodes, as many: kept " + ", ".join(f"{one['kept']['mean']:.2f}" for one in report["random"])
    yield "  random edges, as many: kept " + ", ".join(f"{value:.2f}" for value in report["random_edges"])
    yield "\nby other methods, in nodes:"
    for row in report["table"]:
        yield (
            f"  {row['method']:30} {row['size']:4} nodes, {row['shared']} of ours  kept {told(row['kept'])}"
            f"  lost {told(row['lost'])}"
        )
    against = report["against"]
    yield f"\nwithout the nodes that work against it ({', '.join(against['nodes'])}): {told(against['without'])}"
    yield f"without as many random ones: {', '.join(f'{value:.2f}' for value in against['random'])}"


def why_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Why two hops fail."""
    for name, answer in found["answers"].items():
        yield f"{name.replace('_', ' ')}: metric {told(answer['metric'])}, right {told(answer['accuracy'])}"
    yield "\nmetric with the first hop's answer patched in at the query, before layer:"
    yield "  " + "  ".join(f"{one['layer']}: {one['metric']['mean']:.2f}" for one in found["handed_in"])
    for what in ("x_1", "answer"):
        for token in ("query", "answer"):
            rows = [one for one in found["probes"] if one["what"] == what and one["token"].startswith(token)]
            if rows:
                best = max(rows, key=lambda one: float(one["mean"]))
                yield (
                    f"probe for {what} at the {token}: at best {told(best)}, after layer {best['layer'] - 1}; "
                    f"with shuffled labels up to {best['shuffled']:.2f}"
                )
    back = found["back_patching"]
    yield (
        f"back-patching from before layer {back['best']['from']} to before layer {back['best']['to']}: metric "
        f"{told(back['judged']['metric'])}; from other rows {', '.join(f'{x:.2f}' for x in back['other_rows'])}"
    )


def told(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.2f} ({value['low']:.2f} to {value['high']:.2f})"

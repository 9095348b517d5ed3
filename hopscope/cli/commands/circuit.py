"""`hopscope circuit DIR`: find and validate the circuit of a model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.circuits.components.search import Components, find_components
from hopscope.circuits.discovery import Discovery
from hopscope.circuits.report import FIRST_PART
from hopscope.circuits.text_drawing import drawing, wiring
from hopscope.circuits.words import RULES, remarks
from hopscope.cli.given import refuse_beside
from hopscope.cli.options import (
    PATH,
    Brief,
    as_json,
    console,
    dry_run,
    free_words,
    out_option,
    pick,
    print_json,
    progress,
    run_folder,
    say,
    say_unverified,
    setting_options,
    show_page,
    tell_files,
)
from hopscope.core.memory import memory_free
from hopscope.core.places import check_out
from hopscope.core.storage import make_folder, write_file
from hopscope.core.terminal import Narrator, tinted
from hopscope.core.wording import duration
from hopscope.runs.demand import Demand, check_search, demand_of_components, demand_of_search
from hopscope.runs.run import Run, load, place_for

if TYPE_CHECKING:
    from hopscope.circuits.circuit import Circuit
    from hopscope.circuits.components.circuit import ComponentCircuit
    from hopscope.circuits.losses import Loss
    from hopscope.drawing.circuit_report import Investigation
    from hopscope.models.base import Model

Demanded = Callable[..., Demand]
SIZES = "--discovery, --selection or --report"


@click.command(
    "circuit",
    cls=Brief,
    common=("step", "unit", "seeds", "null", "out", "program", "dry_run", "open_it", "progress", "as_json"),
    help="Find the attention paths that the model in DIR needs, validate them, and write circuit.json with its proof "
    "log, hypotheses.jsonl (the paper's appendix E, automated).",
)
@run_folder
@click.option("--step", type=int, help="Which checkpoint to search; default the newest.")
@click.option(
    "--unit",
    type=click.Choice(["paths", "edges", "nodes"]),
    default="paths",
    show_default=True,
    help="What the circuit consists of: attention paths; edges between components (which output feeds which input, "
    "patched); or heads and MLPs.",
)
@setting_options(Discovery, "null")
@click.option(
    "--null",
    metavar="NULL",
    help="What replaces what is removed: for a path's attention uniform (default), identity or resample; for what an "
    "edge or node carries resample (default), mean or zero.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Search with this many seeds, from --seed on, and say whether they agree (only for paths).",
)
@out_option("Where to write; default DIR itself (for packaged, packaged-circuit).")
@click.option(
    "--program",
    type=PATH,
    metavar="FILE",
    help="Write the circuit as a Python program, tried on fresh and on larger sequences (only for paths).",
)
@dry_run
@click.option("--open", "open_it", is_flag=True, help="Open the page of attention in a browser.")
@progress
@as_json
def command(
    folder: Path,
    step: int | None,
    out: Path | None,
    dry_run: bool,
    open_it: bool,
    as_json: bool,
    unit: str,
    seeds: int,
    program: Path | None,
    **given: Any,
) -> None:
    """Search, store, draw and print."""
    if unit != "paths":
        alone = {setting.name for setting in fields(Discovery)} - {setting.name for setting in fields(Components)}
        refuse_beside("is for --unit paths", "seeds", "open_it", "program", *sorted(alone))
        run_components(folder, step, out, dry_run, as_json, {**given, "unit": unit})
        return
    settings, source, place = pick(Discovery, given), load(folder), out or place_for(folder, "circuit")
    check_out(place, source.path)
    if dry_run:
        check_search(source.config.model, source.task, settings.sizes, SIZES)
        estimate(source, demand_of_search, settings.sizes, step, as_json)
        return
    say_unverified([source.path])
    with Narrator("loading") as watch:
        from hopscope.core.allocator import keep_freed_memory
        from hopscope.drawing.circuit_report import investigate

        keep_freed_memory()  # the next pass asks for as much; who searches in a process of their own decides there
        found = investigate(source, place, settings, step=step, seeds=seeds, watch=watch)
    if as_json:
        print_json(as_value(found))
    else:
        tell(source, found)
    if program:
        write_program(program, source, source.model if step is None else source.at(step), found.circuit)
    if open_it:
        show_page(next(file for files, _ in found.files for file in files if file.suffix == ".html"))


def write_program(file: Path, source: Run, model: Model, circuit: Circuit) -> None:
    """Write the circuit as a program, and print how often it agrees with the model. Raises BadInput, CannotSave."""
    from hopscope.circuits.program_trial import program_for, unsaid

    tried = program_for([found.path for found in circuit.paths], model, source.task)
    make_folder(file.parent)
    write_file(file, str(replace(tried, unsaid=unsaid(circuit))).encode())
    say(f"{file}\n    the circuit as a program, which agrees with:")
    for one in tried.trials:
        say(f"    {one}")


def as_value(found: Investigation) -> dict[str, Any]:
    """For JSON: the content of circuit.json, the minimum of layers by theory, and the circuit in words."""
    stable = {"stability": found.stability.as_dict()} if found.stability else {}
    return {**stable, **found.circuit.as_dict(), "min_layers": found.least, "words": found.words}


def estimate(source: Run, demand_of: Demanded, sizes: Sequence[int], step: int | None, as_json: bool) -> None:
    """Print the memory that the search needs at least, and the time of one pass of all sequences; write nothing."""
    model, task = source.model if step is None else source.at(step), source.task
    needed = demand_of(source.config.model, task, sizes, model.n_parameters)
    batch = task.sample(MEASURED, 0)
    began = time.perf_counter()
    model(batch.inputs, at=task.query_positions)
    each = (time.perf_counter() - began) * sum(sizes) / MEASURED
    if as_json:
        print_json({"memory_bytes": needed.memory, "memory_free_bytes": memory_free(), "pass_seconds": round(each, 3)})
        return
    say(f"memory: at least {needed.in_words()}{free_words()}")
    say(f"time: {duration(each)} for one pass of all sequences; a search takes some hundred, more in deep models")


def run_components(
    folder: Path, step: int | None, out: Path | None, dry_run: bool, as_json: bool, given: dict[str, Any]
) -> None:
    """Search for a circuit of edges, or of heads and MLPs."""
    from hopscope.circuits.components.patching import Patching
    from hopscope.drawing.components import store_components

    source, place = load(folder), out or place_for(folder, "circuit")
    check_out(place, source.path)
    settings = pick(Components, given)
    sizes = [settings.discovery, settings.report]
    needed = demand_of_components(source.config.model, source.task, sizes)
    needed.refuse("this search", "make --discovery or --report smaller")
    model = source.model if step is None else source.at(step)
    if dry_run:
        Patching(model, source.task.sample(2, 0), settings.null)  # raises if this model's edges cannot be cut
        estimate(source, demand_of_components, sizes, step, as_json)
        return
    say_unverified([source.path])
    with Narrator() as watch:
        found = find_components(model, source.task, settings, watch)
        found = replace(found, protocol={**found.protocol, **source.told_of(step)})
        files = store_components(found, model.architecture, place)
    if as_json:
        print_json(found.as_dict())
    else:
        tell_components(found)
        console().print()
        tell_files(files)


def tell_components(found: ComponentCircuit) -> None:
    """Print the verdict, the circuit layer by layer, and the numbers of the units that are kept."""
    out = console()
    count = f"{len(found.kept)} of {len(found.effects)} {found.unit}"
    tell_verdict(found.verdict, f"{count}; {found.reason}", wiring(found.unit, found.kept, out.width))
    out.print(f"\ncut alone  EAP-IG  circuit without it  {found.unit[:-1]}")
    for unit in found.kept:
        effect, score, removal = found.effects[unit], found.scores["EAP-IG"][unit], found.removals[unit]
        out.print(f"{effect:+9.3f} {score:+7.3f} {removal:+19.3f}  {unit}")
    tell_losses(found.losses, {"model": "the full model", "circuit": "all else cut", "null": "everything cut"})
    out.print()
    for name, curve in found.curves.items():
        cpr, cmd = ("undefined" if math.isnan(area) else f"{area:.3f}" for area in curve.on_grid())
        out.print(f"ranked by {name}: CPR {cpr}, CMD {cmd}")


def tell(source: Run, found: Investigation) -> None:
    """Print the verdict, a drawing of the circuit, its numbers, further remarks, and the files written."""
    circuit, out = found.circuit, console()
    units = circuit.units
    tell_verdict(circuit.verdict, circuit.reason, drawing(units, out.width))
    tests = [test for test in TESTS if any(test in one.removals for one in circuit.paths)]
    if circuit.paths:
        out.print("\n           loss of the circuit without it")
        out.print(f"attention  {''.join(f'{TESTS[test]:<14}' for test in tests)}path")
    for one in circuit.paths:
        rule = f" ({one.hypothesis})" if one.hypothesis in RULES else ""
        without = "".join(f"{one.removals[test]:<14.3f}" for test in tests)
        out.print(f"{one.strength:9.2f}  {without}{one.path}{rule}")
    tell_losses(circuit.losses, LOSSES)
    n, about = circuit.losses["model"].n, circuit.protocol
    out.print(f"\nOn {n} fresh sequences; without a path on {FIRST_PART}, or on all if near the threshold.", end=" ")
    out.print(f"Null {about['null']}, search seed {about['seed']}.")
    out.print("\n" + " ".join(remarks(circuit, source.task, found.least)))
    if stable := found.stability:
        share = f"{stable.agree:.0%} of pairs of {len(stable.seeds)} seeds agree up to listed alternatives"
        out.print(f"stability: {share}; Jaccard {stable.jaccard:.2f}")
    out.print()
    tell_files(found.files)


def tell_verdict(verdict: str, reason: str, drawn: str) -> None:
    """Print the verdict with its reason, and the drawing."""
    out = console()
    out.print(tinted(f"verdict: {verdict}", "bold"), f": {reason}.", sep="")
    out.print(f"\n{drawn}" if drawn else "", no_wrap=True, crop=False)


def tell_losses(losses: Mapping[str, Loss], words: Mapping[str, str]) -> None:
    """Print each measured loss with its interval and the condition under which it was measured."""
    out = console()
    out.print("\n  loss  (95 %)")
    for name, said in words.items():
        if loss := losses.get(name):
            out.print(f"{loss.mean:6.4f}  ({loss.low:.4f} to {loss.high:.4f})  {said}")


MEASURED = 64  # sequences of the pass that is timed
TESTS = {"circuit": "by hand", "live": "as computed", "rows": "whole rows", "average": "mean-ablated"}
LOSSES = {
    "model": "full model",
    "circuit": "every pattern set by hand",
    "live": "circuit as computed, all else null",
    "rows": "circuit as computed with whole rows, all else null",
    "average": "circuit as computed, all other heads mean-ablated",
    "null": "every head null",
}

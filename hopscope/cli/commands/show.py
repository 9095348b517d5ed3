"""`hopscope show DIR`: a summary of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from rich.table import Table

from hopscope.circuits.text_drawing import drawing
from hopscope.circuits.units import Row, Unit
from hopscope.cli.options import UNVERIFIED, as_json, console, print_json, run_folder, say
from hopscope.configuration.config import Config
from hopscope.core.terminal import tinted
from hopscope.core.wording import count, duration
from hopscope.emergence.record import stored_paths
from hopscope.models.transformer import Architecture
from hopscope.runs.collapse import collapse
from hopscope.runs.generation import generate as write
from hopscope.runs.run import Run, load
from hopscope.tasks.base import Task

FOUND = "circuit.json"
VERIFIED = "the small ones match manifest.json ('hopscope verify' also checks weights and files that were added later)"


@click.command("show")
@run_folder
@click.option(
    "--generate", type=click.IntRange(1), metavar="N", help="Instead: N characters that a model of text writes, plain."
)
@click.option("--prompt", default="\n", help="With --generate: what it writes on; default a new line.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="With --generate: which text.")
@as_json
def command(folder: Path, generate: int | None, prompt: str, seed: int, as_json: bool) -> None:
    """Summarise the run in DIR: its task and settings, its progress, and its losses."""
    run = load(folder)
    if generate:
        say(write(run, generate, prompt, seed))
    elif as_json:
        print_json(run.summary())
    else:
        describe(run, circuit=True)


def describe(run: Run, circuit: bool = False) -> None:
    """Print what a run learnt, with `circuit` its stored circuit, then losses and settings."""
    summary, task, out = run.summary(), run.task, console()
    drawn = stored_circuit(run, out.width) if circuit and (run.path / FOUND).is_file() else ""
    out.print(tinted(f"{run.path}: {learnt(summary['hop_losses'] or {}, task)}", "bold"))
    if fallen := collapse(run):
        out.print(tinted(f"{fallen}", "bold"))
    if drawn:
        out.print(f"\n{drawn}\n", no_wrap=True, crop=False)
    state = "done" if summary["done"] else f"not done, of {run.config.training.steps} steps"
    if summary["hop_losses"]:
        out.print(hop_table(run, summary))
        out.print("baselines: " + ", ".join(f"{value:.3g} {name}" for name, value in task.baselines.items()))
    out.print(f"{task.name()}  {run.config.identity}")
    took = [duration(summary["seconds"])] if summary["seconds"] is not None else []
    out.print(", ".join([f"step {summary['step']} ({state})", f"{summary['parameters']:,} parameters", *took]))
    if run.done:
        out.print(f"files: {VERIFIED if summary['verified'] else f'unverified ({UNVERIFIED})'}")
    if not summary["bit_exact"]:
        out.print(f"not bit-exact: it was resumed under other {', '.join(sorted(run.changed))} (sessions.jsonl)")
    print_settings(run.config)


def learnt(losses: Mapping[str, float | None], task: Task) -> str:
    """The hops by verdict, such as `solved: x1, x2; not learnt: x3`; their number if there are more than five."""
    hops: dict[str, list[str]] = {}
    for hop, loss in losses.items():
        hops.setdefault(verdict(loss, task), []).append(hop)
    said = (f"{word}: {', '.join(some) if len(some) < 6 else count(len(some), 'hop')}" for word, some in hops.items())
    return "; ".join(said) or "no losses yet"


def stored_circuit(run: Run, width: int) -> str:
    """The verdict and drawing of the circuit that `hopscope circuit` wrote. Raises Damaged."""
    found = run.finding(FOUND)
    units: list[Unit] = [*stored_paths(found, str(run.path / FOUND))]
    units += map(Row.parse, found.get("unnamed_rows", []))
    return "\n\n".join(filter(None, [f"its circuit: {found.get('verdict', 'unknown')}", drawing(units, width)]))


def print_settings(config: Config) -> None:
    """Print task, model, and training or the origin of the weights; a default that depends on others is resolved."""
    values = config.as_dict()
    if isinstance(config.model, Architecture):
        values["model"]["positions"] = str(config.model.code(config.task.inputs_carry_position))
    for part in ("task", "model", "origin" if config.origin else "training"):
        console().print(tinted(part, "dim"), f" {settings(values[part])}")


def settings(values: dict[str, object]) -> str:
    """Settings and their values on one line; empty values are left out."""
    return "  ".join(f"{name} {value}" for name, value in values.items() if value is not None and value != "")


def hop_table(run: Run, summary: dict) -> Table:
    """Each hop's partial loss, verdict and accuracy; the loss is missing if no sequence has the hop as a target."""
    task = run.task
    source = "on fresh data" if run.report else "on validation data"
    table = Table(title=f"partial losses {source}", title_justify="left", box=None, pad_edge=False)
    for column in ("hop", "loss", "", "right symbol"):
        table.add_column(column, justify="left" if column in ("hop", "") else "right")
    accuracies = summary["accuracy"] or []
    for index, (hop, loss) in enumerate(summary["hop_losses"].items()):
        accuracy = f"{accuracies[index]:.1%}" if index < len(accuracies) else ""
        table.add_row(hop, "" if loss is None else f"{loss:.4f}", verdict(loss, task), accuracy)
    return table


def verdict(loss: float | None, task: Task) -> str:
    """`solved`, `learnt` or `not learnt`, by the task's thresholds; `not asked` without a loss."""
    if loss is None:
        return "not asked"
    return "solved" if loss < task.solved_below else "learnt" if loss < task.learnt_below else "not learnt"

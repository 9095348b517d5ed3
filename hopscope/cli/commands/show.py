"""`hopscope show DIR`: a run in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.table import Table

from hopscope.circuits.text_drawing import drawing
from hopscope.circuits.units import Row, Unit
from hopscope.cli.options import UNVERIFIED, as_json, console, print_json, run_folder
from hopscope.configuration.config import Config
from hopscope.core.settings import BadInput
from hopscope.core.terminal import tinted
from hopscope.core.wording import count, duration
from hopscope.emergence.record import stored_paths
from hopscope.models.transformer import Architecture
from hopscope.runs.collapse import collapse
from hopscope.runs.further import further
from hopscope.runs.run import Run, load
from hopscope.tasks.base import Task

FOUND = "circuit.json"
VERIFIED = (
    "its own small ones as listed in manifest.json ('hopscope verify' also reads the weights and what was found later)"
)


@click.command("show")
@run_folder
@click.option("--hops", type=click.IntRange(1, 256), help="Ask for 1 to so many hops instead, more than in training.")
@click.option("--loops", type=click.IntRange(1, 1024), help="With --hops: how often layers run; default as trained.")
@click.option("--chains", type=click.IntRange(1, 256), help="With --hops: of so many chains; default as trained.")
@as_json
def command(folder: Path, hops: int | None, loops: int | None, chains: int | None, as_json: bool) -> None:
    """Summarise the run in DIR: what it is, how far it got, how well it does."""
    run = load(folder)
    if hops is None and (loops or chains):
        raise BadInput("--loops and --chains go with --hops")
    if hops is not None:
        times = loops or int(getattr(run.config.model, "loops", 1))
        rows = list(further(run.model, run.task, range(1, hops + 1), [times], chains or 0))
        print_json(rows) if as_json else console().print(further_table(rows))
    elif as_json:
        print_json(run.summary())
    else:
        describe(run, circuit=True)


def describe(run: Run, circuit: bool = False) -> None:
    """A run for people: what it learnt, its circuit if one was found and is asked for, then losses and settings."""
    summary, task, out = run.summary(), run.task, console()
    drawn = stored_circuit(run, out.width) if circuit and (run.path / FOUND).is_file() else ""
    out.print(tinted(f"{run.path}: {learnt(summary['hop_losses'], task)}", "bold"))
    if fallen := collapse(run):
        out.print(tinted(f"{fallen}", "bold"))
    if drawn:
        out.print(f"\n{drawn}\n", no_wrap=True, crop=False)
    state = "done" if summary["done"] else f"not done: {run.config.training.steps} steps were asked for"
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


def further_table(rows: Sequence[Mapping[str, float]]) -> Table:
    """Accuracy by hops asked, with its interval."""
    table = Table(title=f"{rows[0]['chains']} chains, layers run {count(int(rows[0]['loops']), 'time')}", box=None)
    for column in ("hops", "right symbol", "95 % interval"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(str(row["hops"]), f"{row['accuracy']:.1%}", f"{row['low']:.1%} to {row['high']:.1%}")
    return table


def learnt(losses: Mapping[str, float | None], task: Task) -> str:
    """`solved: x1, x2`, or also what is learnt and what is not; of many hops how many."""
    hops: dict[str, list[str]] = {}
    for hop, loss in losses.items():
        hops.setdefault(verdict(loss, task), []).append(hop)
    said = (f"{word}: {', '.join(some) if len(some) < 6 else count(len(some), 'hop')}" for word, some in hops.items())
    return "; ".join(said) or "no losses yet"


def stored_circuit(run: Run, width: int) -> str:
    """The circuit that `hopscope circuit` wrote, with its verdict. Raises Damaged."""
    found = run.finding(FOUND)
    units: list[Unit] = [*stored_paths(found, str(run.path / FOUND))]
    units += map(Row.parse, found.get("unnamed_rows", []))
    return "\n\n".join(filter(None, [f"its circuit: {found.get('verdict', 'unknown')}", drawing(units, width)]))


def print_settings(config: Config) -> None:
    """Task, model and training, or where the weights come from; what a default depends on is worked out."""
    values = config.as_dict()
    if isinstance(config.model, Architecture):
        values["model"]["positions"] = str(config.model.code(config.task.inputs_carry_position))
    for part in ("task", "model", "origin" if config.origin else "training"):
        console().print(tinted(part, "dim"), f" {settings(values[part])}")


def settings(values: dict[str, object]) -> str:
    return "  ".join(f"{name} {value}" for name, value in values.items() if value is not None and value != "")


def hop_table(run: Run, summary: dict) -> Table:
    """Each hop's loss, and what it means; a hop that no sequence asked for has none."""
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
    """What a hop's loss means."""
    if loss is None:
        return "not asked"
    return "solved" if loss < task.solved_below else "learnt" if loss < task.learnt_below else "not learnt"

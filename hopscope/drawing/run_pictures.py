"""The pictures of one run, made by `hopscope draw`: its problem, its curves, its attention."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path as Files

import torch
from matplotlib.figure import Figure

from hopscope.core.storage import enlist, make_folder, parse_json, unlist
from hopscope.drawing.attention_maps import attention_maps, mean_role_attention
from hopscope.drawing.curves import hop_curves
from hopscope.drawing.flow_diagram import MOST_HOPS, flow_diagram
from hopscope.drawing.problem_diagram import problem_diagram
from hopscope.drawing.style import save
from hopscope.measures.base import observe
from hopscope.problem.paths import Path
from hopscope.problem.shapes import parse_order
from hopscope.runs.integrity import damage_of_rows
from hopscope.runs.run import Run

SEED = 0
AVERAGED = 256  # sequences for mean attention; the paper averages 32 (section 9.1)


Watch = Callable[[str], None]


def pictures(run: Run, watch: Watch = lambda _: None) -> Iterator[tuple[str, str, Figure]]:
    """Each picture's name, what it shows, and the figure; `watch` is called with what is drawn next."""
    task = run.task
    watch("drawing the problem")
    batch = task.sample(AVERAGED, SEED, device=run.model.device)
    yield "problem", "one instance: facts, chains, queries and the hops of one query", problem_diagram(batch.problem(0))
    if len(run.rows) > 1:
        watch("drawing its curves")
        words = "the loss of each hop over training, beside its baselines"
        yield "curves", words, hop_curves(run.metrics, task.hop_names, task.baselines)
    if schedule := schedule_of(run):
        words = "the schedule it was built from: who attends to whom, and how far each position then reaches"
        yield "schedule", words, schedule
    if not run.config.model.n_layers * run.config.model.n_heads:  # no attention to draw
        return
    watch("drawing attention")
    seen = observe(run.model, batch)
    layers = [seen.cache["pattern", layer] for layer in range(run.model.architecture.n_layers)]
    one = torch.stack([pattern[0] for pattern in layers])
    title = f"{task.name()}, step {run.step}"
    yield "attention", "every head's attention on that instance", attention_maps(one, batch.roles.labels(0), title)
    watch("drawing attention from role to role")
    strengths = torch.stack([batch.roles.strengths(pattern) for pattern in layers])
    words = f"mean attention from role to role over {AVERAGED} sequences: the paths that heads use"
    yield "role_attention", words, mean_role_attention(strengths, batch.roles.names, batch.roles.attended)


def schedule_of(run: Run) -> Figure | None:
    """The information flow of a build's schedule; None for other runs, and for chains too long to draw."""
    truth = run.path / "truth.json"
    order = parse_order(getattr(run.task, "order", "shuffled"), hops := getattr(run.task, "n_hops", 1))
    if not truth.is_file() or order is None or hops > MOST_HOPS:
        return None
    paths = [Path.from_dict(path) for path in parse_json(truth, run.read("truth.json"))["schedule"]]
    return flow_diagram(paths, hops, order=order, causal=run.config.model.causal)


def draw(run: Run, folder: Files, watch: Watch = lambda _: None) -> list[tuple[list[Files], str]]:
    """Write all pictures of a run as SVG and PNG; returns each picture's files with what it shows.

    They are listed in the manifest of their folder, or of the run if that folder is in it. If rows are missing or
    altered a warning says so, because curves are then incomplete. Raises Damaged, before anything is written, if the
    run does not match its manifest.
    """
    rows = run.rows
    if damage := damage_of_rows(run):
        words = "the curves show what is left of them" if len(rows) > 1 else "too few are left to draw curves"
        warnings.warn(f"{damage}; {words}", stacklevel=2)
    figures = list(pictures(run, watch))  # before anything is written: what they need may be damaged
    make_folder(folder)
    home = run.path if folder.parent == run.path else folder
    drawn = []
    for name, words, figure in figures:
        unlist(home, [str((folder / f"{name}.{kind}").relative_to(home)) for kind in ("svg", "png")])
        drawn.append((save(figure, folder / name), words))
    enlist(home, [str(file.relative_to(home)) for files, _ in drawn for file in files])
    return drawn

"""Integrity: whether files on disk are what was written, by a folder's manifest and by a run's own consistency.

For a run more is checked than its manifest lists: its rows parse and their steps rise, its checkpoints belong to it and
saw exactly these rows, and their tensors have the shapes of its model. So a run without a manifest, which is still in
training or older than manifests, is checked as far as possible. A file in no manifest is `unverified`, not a fault.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from hopscope.core.places import DONE, TABLE, Kind, inside, kind_of
from hopscope.core.settings import BadInput
from hopscope.core.storage import MANIFEST, Damaged, enlist, listed, parse_lines, read_checked
from hopscope.core.wording import shape
from hopscope.runs.reading import check_seen
from hopscope.runs.run import OWN, Run

State = Literal["whole", "unverified", "unfinished", "damaged"]
REDRAW, CIRCUIT, EMERGE, EXPORT = (
    f"'hopscope {words}' makes it anew" for words in ("report --redraw", "circuit", "emerge", "export")
)
COPY = "restore it from a copy, or"
#: What to do about a damaged file: by its own name, or its folder's within the run; else by the kind of folder.
ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("claims.json", "figure.svg", "figure.png"), REDRAW),
    **dict.fromkeys(("circuit.json", "edges.json", "nodes.json", "hypotheses.jsonl"), CIRCUIT),
    **dict.fromkeys(("emergence.json", "emergence.csv"), EMERGE),
    **dict.fromkeys(("transformer-lens", "neuronpedia"), EXPORT),
    "pictures": "'hopscope draw', 'circuit' or 'emerge' makes it anew",
    MANIFEST: f"{COPY} delete it and take the files as they are, unverified",
    "run": f"{COPY} delete the folder and make the run again",
    "work": f"{COPY} delete the folder and reproduce its experiment again",
    "results": f"{COPY} delete the folder and reproduce the experiment again",
    "files": f"{COPY} make it anew",
}
FINDINGS = ("circuit.json", "edges.json", "nodes.json")  # these state which run they are of
Watch = Callable[[int], None]


@dataclass(frozen=True)
class Checked:
    """The result of checking a folder.

    Attributes:
        folder: the folder that was checked.
        kind: `run`, `work` (an experiment without training), `results`, or `files` (any other folder with a manifest).
        state: `whole`; `unverified` if files that matter are in no manifest; `unfinished`; or `damaged`.
        files: how many files were read and found intact.
        unverified: names of files that are in no manifest.
        faults: one sentence per damaged file: what is wrong, what was expected, and what to do.
    """

    folder: Path
    kind: Kind
    state: State
    files: int
    unverified: tuple[str, ...]
    faults: tuple[str, ...]


def folders_in(path: Path) -> list[Path]:
    """The folders to check: this one, or those in it. Raises BadInput if there are none."""
    if kind_of(path) is not None:
        return [path]
    if not (folders := inside(path)):
        raise BadInput(f"{path} holds nothing to verify: it is not a run, not results, and not a folder of either")
    return folders


def is_unverified(folder: Path) -> bool:
    """Whether a finished folder's main files are in no manifest. Raises Damaged for an altered manifest."""
    kind = kind_of(folder)
    if kind == "results":
        return any(name not in listed(folder) for name in (TABLE, "claims.json") if (folder / name).exists())
    if kind in ("run", "work") and (folder / DONE).is_file():
        return "config.json" not in listed(folder) if kind == "run" else bool(there_in(folder)) and not listed(folder)
    return False


def vouch(folder: Path) -> None:
    """Write the manifest of a finished folder that has none, from its present files. Raises CannotSave, Damaged."""
    if kind_of(folder) == "run":
        Run(folder).seal()
    elif names := there_in(folder):
        enlist(folder, names)


def there_in(folder: Path) -> list[str]:
    """The files of a folder that a manifest would list; of a checkpoint only the checkpoint's own manifest."""
    paths = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    tensors = {path for path in shown if path.parts[0] == "checkpoints" and path.name != MANIFEST}
    return [str(path) for path in shown if path not in tensors and str(path) not in (MANIFEST, DONE)]


# Checking --------------------------------------------------------------------------------------------------------


def check(folder: Path, watch: Watch = lambda _: None, *, partial: bool = False) -> Checked:
    """Read all files of a folder and check them.

    Args:
        folder: a run, an experiment's work or results, or any other folder with a manifest.
        watch: called with the number of bytes read, after each file.
        partial: whether it is part of a run, without some of its checkpoints and of the findings about it.
    """
    kind = kind_of(folder) or "files"
    run = Run(folder) if kind == "run" else None
    unfinished = run is not None and not run.done
    faults: dict[Path, str] = {}
    reported: set[str] = set()
    files = 0
    for path, damage in [
        *damages(folder, unfinished, watch, partial),
        *(damages_of_run(run, watch, partial=partial) if run else ()),
    ]:
        files += damage is None
        if damage is not None and path not in faults and str(damage) not in reported:
            reported.add(str(damage))  # a damaged manifest is met again with each file that it lists
            name = path.relative_to(folder)
            faults[path] = f"{damage}; {ADVICE.get(name.parts[0]) or ADVICE[kind]}"
    state: State = "damaged" if faults else "unfinished" if unfinished else "whole"
    if state == "whole" and is_unverified(folder):
        state = "unverified"
    return Checked(folder, kind, state, files, tuple(unlisted(folder)), tuple(faults.values()))


def unlisted(folder: Path) -> list[str]:
    """Names of files that are in no manifest."""
    try:
        names = listed(folder)
    except Damaged:
        return []
    return [name for name in there_in(folder) if name not in names]


Damages = Iterator[tuple[Path, Damaged | None]]


def damages(folder: Path, unfinished: bool, watch: Watch, partial: bool) -> Damages:
    """Each file in the manifest with its damage, or None; of an unfinished run without the files it still writes.

    The manifests of checkpoints are checked with the run, not here.
    """
    try:
        names = listed(folder)
    except Damaged as damage:
        yield folder / MANIFEST, damage
        return
    for name, expected in names.items():
        own = name in OWN or name.startswith("checkpoints/")
        if (unfinished and own) or (partial and name not in OWN and not (folder / name).exists()):
            continue
        yield folder / name, found_by(lambda: read_checked(folder / name, expected))  # noqa: B023 (called at once)
        watch(expected["bytes"])


def found_by(look: Callable[[], object]) -> Damaged | None:
    """The BadInput that a call raises, as Damaged; None if it raises none."""
    try:
        look()
    except BadInput as fault:
        return Damaged(str(fault))
    return None


def damages_of_run(
    run: Run, watch: Watch = lambda _: None, *, steps: Sequence[int] | None = None, partial: bool = False
) -> Damages:
    """What is wrong with a run beyond its manifest: first its small files, then its checkpoints.

    `steps` limits the checkpoints that are checked. In a part of a run no checkpoint needs to be resumable.
    """
    if (damage := found_by(lambda: run.config)) is not None:
        yield run.path / "config.json", damage
        return
    looks: dict[str, Callable[[], object]] = {
        "metrics.jsonl": lambda: check_rows(run),
        "sessions.jsonl": lambda: run.sessions,
        "report.json": lambda: run.report,
        **{name: functools.partial(run.finding, name) for name in FINDINGS if (run.path / name).exists()},
    }
    for name, look in looks.items():
        if (damage := found_by(look)) is not None:
            yield run.path / name, damage
    goes_on = run.done or partial or any((run.folder(step) / "optimizer.safetensors").exists() for step in run.steps)
    for step in run.steps if steps is None else steps:
        yield from damages_of_checkpoint(run, step, watch, needed=not goes_on and step == run.step)


def damage_of_rows(run: Run) -> Damaged | None:
    """What is wrong with a run's rows: in themselves, or compared with what its newest checkpoint saw."""
    return found_by(lambda: check_rows(run)) or (found_by(lambda: check_course(run, run.step)) if run.steps else None)


def check_rows(run: Run) -> None:
    """Raise Damaged unless a run's rows can be ones: rising steps, each with its losses."""
    path, before = run.path / "metrics.jsonl", -1
    for number, row in enumerate(parse_lines(path, run.read(path.name)), 1):
        step, hops = row.get("step"), row.get("hop_losses")
        losses = [row.get("val_loss"), *(hops.values() if isinstance(hops, dict) else [None])]
        if type(step) is not int or not all(isinstance(loss, int | float) for loss in losses):
            raise Damaged(f"{path} is altered: its line {number} is not a row of a run")
        if step <= before:
            raise Damaged(
                f"{path} is altered: its line {number} is of step {step}, though the one before is of {before}"
            )
        before = step


def damages_of_checkpoint(run: Run, step: int, watch: Watch = lambda _: None, *, needed: bool = False) -> Damages:
    """What is wrong with a checkpoint: its model, its optimizer (required if `needed`), the rows that it saw."""
    folder = run.folder(step)
    for name in ("model", "optimizer"):
        path = folder / f"{name}.safetensors"
        if name == "model" or path.exists() or needed:
            yield path, found_by(lambda: check_tensors(run, step, name))  # noqa: B023 (called at once)
            watch(path.stat().st_size if path.exists() else 0)
    if (damage := found_by(lambda: check_course(run, step))) is not None:
        yield run.path / "metrics.jsonl", damage


def check_tensors(run: Run, step: int, name: str) -> None:
    """Raise Damaged unless a checkpoint's tensors are as written, and the model's have the right shapes."""
    _, [tensors] = run.stored(step, name)
    if name == "model" and (misfit := first_misfit(run, tensors)):
        raise Damaged(f"{run.folder(step)} holds the weights of another model: {misfit}")


def first_misfit(run: Run, tensors: Mapping[str, Tensor]) -> str | None:
    """The first tensor whose shape is not that of the run's model, in words; None if all fit."""
    try:
        with torch.device("meta"):
            wanted = run.config.model.build(run.task).state_dict()
    except RuntimeError:  # some models compute when they are built
        wanted = run.config.model.build(run.task).state_dict()
    for name in sorted({*wanted, *tensors}):
        ours, theirs = (shape(named[name].shape) if name in named else "absent" for named in (wanted, tensors))
        if ours != theirs:
            return f"{name} should be {ours}, and is {theirs}"
    return None


def check_course(run: Run, step: int) -> None:
    """Raise Damaged unless the run's rows begin with those that the checkpoint saw."""
    about = run.stored(step)[0]
    path = run.path / "metrics.jsonl"
    data = run.read(path.name)
    if path.exists() or not run.done:  # else it was sealed without its rows, as a row of the board is
        by = f"the checkpoint of step {step}"
        check_seen(path, data, about.get("metrics_bytes"), about.get("metrics_sha256"), by)

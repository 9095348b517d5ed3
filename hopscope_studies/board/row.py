"""A row of the board: a trained model of the retrieval problem, kept as a run with its last weights alone.

    hopscope_studies/board/rows/NAME/
      config.json, sessions.jsonl, report.json     as the run had them
      checkpoints/step_…/model.safetensors         its last weights, in float16
      manifest.json, DONE

All rows answer one problem: four chains of Gaussian symbols (Musat, ICLR 2025, section 6). The dimension of the symbols
is a column. The loss of a guess does not depend on it, but symbols of more dimensions are easier to tell apart.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import safetensors.torch

from hopscope.core.settings import BadInput, Settings, flag_of
from hopscope.core.storage import listed, make_folder, read_manifest, write_folder
from hopscope.experiments.priors import NONE, prior_of
from hopscope.models.transformer import Architecture, default_positions
from hopscope.runs.reading import vouching
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory import depth, shifted

#: Where the committed rows are.
ROWS = Path(__file__).parent / "rows"
#: The board counts a hop once its loss on fresh sequences is below this (0.75 is a guess). This is stricter than the
#: task's own threshold for a learnt hop, 0.5, which `hopscope show` uses.
LEARNT = 0.1
#: The problem of every row; what else a task of retrieval can set is part of the recipe.
PROBLEM = {"n_chains": 4}
#: Settings that help a model to learn its hops, by column, each with the values (without settings) that are no help.
#: Of any other value, also one of an outsider's file, it is not known that it is none. `Row.aids` adds `prior_of`.
AIDS: dict[str, dict[str, tuple[str, ...]]] = {
    "curriculum": {"curriculum": (NONE,), "hop_every": ("0",), "deep_supervision": ("0.0",)},
    "prior": {
        "attention": ("softmax", "linear", "switch_head", "h_minus_one"),
        "positions": ("None", "input", "learned", "none", "rotary", "relative"),
        "position_code": ("token",),
        "look_back": ("0.0",),
        "clamps": ("",),
    },
}
LARGEST = 2_000_000  # bytes of a row's weights
CARRIED = ("config.json", "sessions.jsonl", "report.json")


@dataclass(frozen=True)
class Row:
    """A row of the board.

    Attributes:
        run: the trained model, with its recipe and report.
    """

    run: Run

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.run.path.name

    @property
    def task(self) -> Retrieval:
        """The problem that it was trained on."""
        return cast(Retrieval, self.run.task)

    @property
    def architecture(self) -> Architecture:
        """Its shape. `n_layers` are the layers that are run; of them `own_layers` have weights of their own."""
        return cast(Architecture, self.run.config.model)

    @cached_property
    def hop_losses(self) -> dict[str, float]:
        """The losses by hop in its run's report."""
        assert self.run.report is not None
        losses: dict[str, float] = self.run.report["hop_losses"]
        return losses

    @property
    def sequences(self) -> int:
        """Sequences seen in training; one that is seen twice counts twice."""
        return self.run.step * self.run.config.training.batch

    def as_dict(self, losses: Mapping[str, float] | None = None) -> dict[str, Any]:
        """The row's columns on the board.

        Args:
            losses: by hop, measured anew; by default those of the run's report.
        """
        losses = losses or self.hop_losses
        shape, hops = self.architecture, hops_learnt(losses)
        return {
            "row": self.name,
            "hops": hops,
            "asked": self.task.n_hops,
            "layers": shape.n_layers,
            "least": self.least_layers(hops),
            "loops": shape.loops,
            "heads": shape.n_heads,
            "parameters": self.run.model.n_parameters,
            "sequences": self.sequences,
            "seconds": round(read_manifest(self.run.folder(self.run.step))["seconds"]),
            "loss": max(losses.values()),
            "d_symbol": self.task.d_symbol,
            "order": self.task.order,
            "attention": shape.attention,
            "curriculum": self.aids("curriculum"),
            "prior": self.aids("prior"),
            "seed": self.run.config.training.seed,
        }

    def aids(self, column: str) -> str:
        """What helped the model to learn its hops, in words; `none` if nothing did.

        Args:
            column: `curriculum`: what training asks beside the last hop after the last layer. `prior`: what the model
                has of attention to the previous position, or of any other path, before it learns it.
        """
        config = self.run.config
        values = self.task.as_dict() | self.architecture.as_dict() | config.training.as_dict()
        chosen = {name: str(values[name]) for name in AIDS[column]}
        found = [n for n, value in chosen.items() if value.partition("(")[0] not in AIDS[column][n]]
        words = [chosen[name] if name == column else f"{name} {chosen[name]}" for name in found]
        bias = prior_of(config) if column == "prior" else NONE
        return "; ".join([*([bias] if bias != NONE else []), *words]) or NONE

    def command(self) -> str:
        """The command that trains it, with every setting that differs from the defaults of `hopscope train`."""
        config = self.run.config
        shape = self.architecture.but(positions=self.architecture.positions or default_positions(True))
        words = [word for part in (config.task, shape, config.training) for word in options(part)]
        return shlex.join(["hopscope", "train", config.task.name(), *words])

    def least_layers(self, hops: int) -> int | None:
        """The fewest layers that any transformer of its attention, mask, order and number of heads needs for some hops.

        See docs/theory.md, which has proofs for softmax attention and for KV shift; with KV shift the number is that
        of many heads, which one head may exceed if facts come in an order of their own. 0 hops need no layer. None: no
        bound is known.
        """
        mask: depth.Mask = "causal" if self.architecture.causal else "none"
        heads: depth.Heads = "one" if self.architecture.n_heads == 1 else "many"
        known = {
            "softmax": lambda: depth.minimum_depth(hops, mask, heads, self.task.order).min_layers,
            "kv_shift": lambda: shifted.minimum_depth(hops, mask, "many", self.task.order),
        }
        name = self.architecture.rule.name()
        return None if name not in known else known[name]() if hops else 0


def options(settings: Settings) -> Iterator[str]:
    """Settings that differ from their defaults, as words of the command line."""
    usual = type(settings)()
    for field in fields(settings):
        value, flag = getattr(settings, field.name), flag_of(field)
        if value == getattr(usual, field.name):
            continue
        yield from [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]


def hops_learnt(losses: Mapping[str, float]) -> int:
    """The number of the last hop up to which all asked hops are learnt; 0 if the first asked hop is not.

    Args:
        losses: by hop, `x1` the nearest; without a curriculum there is only the last.
    """
    learnt = 0
    for hop, loss in losses.items():
        if not loss < LEARNT:
            break
        learnt = int(hop.removeprefix("x"))
    return learnt


def rows_in(folder: Path = ROWS) -> list[Row]:
    """The rows in a folder, by name. Raises BadInput if it has none, or a folder that does not belong on the board."""
    found = [row_of(Run(path)) for path in sorted(folder.glob("[!.]*/"))]
    if not found:
        raise BadInput(f"there are no rows in {folder}; they come with a checkout of hopscope, not with the package")
    return found


def row_of(run: Run) -> Row:
    """A run as a row.

    Raises:
        BadInput: it is no run, is not finished, does not answer the board's problem, has files that no manifest lists,
            or reports losses that no model can have.
    """
    task, model = run.task, run.config.model
    if not run.done:
        raise BadInput(f"{run.path} is not finished; a row is a finished run: train it to its end first")
    if run.config.origin is not None:
        raise BadInput(f"{run.path} holds weights that were not trained here; a row is a trained model")
    values = task.as_dict() if type(task) is Retrieval else {}  # a task of an outsider's file may pose less
    if wrong := {name: values.get(name) for name, value in PROBLEM.items() if values.get(name) != value}:
        got = ", ".join(f"{name} {value}" for name, value in wrong.items()) if values else f"the task {task.name()}"
        raise BadInput(f"{run.path} answers another problem than the board's, retrieval with 4 chains; it has {got}")
    if not isinstance(model, Architecture):
        raise BadInput(
            f"{run.path} is no transformer, so its layers cannot be compared; the board has none of its kind"
        )
    check_report(run)
    return Row(run)


def check_report(run: Run) -> None:
    """Raise BadInput unless manifests list what a row is made of, and its report has possible losses for its hops."""
    names, asked = listed(run.path), run.task.hop_names
    if bare := [name for name in (*CARRIED, vouching(run.folder(run.step))) if name not in names]:
        raise BadInput(
            f"{run.path / bare[0]} is in no manifest, which a row must have to be trusted; restore the folder from a "
            "copy or, if you trained the run, write its manifest by 'hopscope verify --write'"
        )
    losses = (run.report or {}).get("hop_losses", {})
    if (*losses,) != asked or not all(loss is not None and loss >= run.task.floor for loss in losses.values()):
        raise BadInput(
            f"{run.path / 'report.json'} must state a loss of at least {run.task.floor:g} for each hop asked "
            f"({', '.join(asked)}), in this order; restore it from a copy"
        )


def add(run: Run, name: str, folder: Path = ROWS) -> Row:
    """Put a finished run on the board: its recipe, its report and its last weights, in float16.

    Raises:
        BadInput: it does not belong there, it needs a file that is not in the checkout, its weights are larger than
            2 MB, or its name is not allowed or taken.
        CannotSave: the folder cannot be written to.
    """
    row_of(run)
    place = folder / name
    if not name.isidentifier():
        raise BadInput(f"a row is named by letters, digits and underscores; got {name!r}")
    if place.exists():
        raise BadInput(f"there is a row {name} already; choose another name")
    if files := run.config.plugins:
        raise BadInput(
            f"{run.path} needs {', '.join(files)} of a folder of yours; copy it to {ROWS.parent}, and add the row "
            "without --with, so that others can run it"
        )
    _, [weights] = run.stored(run.step, "model")
    data = safetensors.torch.save({key: value.half() for key, value in weights.items()})
    if len(data) > LARGEST:
        raise BadInput(f"the weights of {run.path} take {len(data) / 1e6:.1f} MB in float16; a row may have 2 MB")
    make_folder(place / "checkpoints")
    for file in CARRIED:
        shutil.copy(run.path / file, place / file)
    manifest = read_manifest(run.folder(run.step))
    about = {key: value for key, value in manifest.items() if key != "files"}
    write_folder(place / "checkpoints" / run.folder(run.step).name, {"model.safetensors": data}, about)
    Run(place).seal()
    return Row(Run(place))

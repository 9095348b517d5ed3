"""`hopscope.find_emergence`: when each path of a circuit appeared in training that somebody else did."""

from __future__ import annotations

import copy
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as Files
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from hopscope.circuits.evaluator import NULLS
from hopscope.core.settings import BadInput
from hopscope.core.storage import make_folder, write_file, write_json
from hopscope.emergence.record import LEAST, measured
from hopscope.live.borrowed import Borrowed, borrowed
from hopscope.live.find import FoundCircuit, beside, find_circuit
from hopscope.models.base import at_rest
from hopscope.problem.paths import Path

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from hopscope.emergence.track import Emergence

NAME = "the model"


def find_emergence(
    checkpoints: Mapping[int, Any],
    inputs: Tensor,
    targets: Tensor,
    *,
    model: nn.Module | None = None,
    found: FoundCircuit | None = None,
    paths: Sequence[Path | str] = (),
    n: int = 256,
    seed: int = 0,
    null: str = "uniform",
    watch: Callable[[str], None] = lambda _: None,
    **about: Any,
) -> FoundEmergence:
    """Follow the paths of a model's circuit over its checkpoints, as `hopscope emerge` does for a run.

    Args:
        checkpoints: by training step, three or more: models, or state dictionaries of `model`.
        inputs: as `find_circuit` takes them.
        targets: as `find_circuit` takes them.
        model: into a copy of which state dictionaries are loaded; it is left as it is.
        found: what `find_circuit` found of the last checkpoint on these data; by default it is found now.
        paths: which to follow, `L1H0 query->next` or so; by default the circuit's.
        n: rows on which paths are measured, of those that the search may see.
        seed: of the rows and of the bootstrap.
        null: what a silenced path's attention goes to: `uniform`, `identity` or `resample`.
        watch: told in words what is being done.
        about: further arguments of `find_circuit`.

    Raises:
        BadInput: checkpoints do not fit, or there is no path to follow; and as `find_circuit` does.
    """
    from hopscope.emergence.track import SAMPLES, told  # here, so that nothing else loads a library of tables

    models = Checkpoints(checkpoints, model, inputs)
    if null not in NULLS:
        raise BadInput(f"null must be one of {', '.join(NULLS)}; got {null!r}")
    given = [Path.parse(path) if isinstance(path, str) else path for path in paths]
    for path in given:
        models.at(models.steps[-1]).architecture.check_head(path.layer, path.head, f"path '{path}'")
    found = found or find_circuit(models.at(models.steps[-1]), inputs, targets, watch=watch, **about)
    chosen = list(dict.fromkeys(given)) or sorted(part.path for part in found.circuit.paths)
    if not chosen:
        raise BadInput(f"the last checkpoint has no circuit whose paths could be followed; name some ({found.reason})")
    with beside(found.task.data.inputs.device):
        record = measured(NAME, models.steps, models.at, found.task.sample(n, seed), chosen, null, watch)
    protocol = {"sequences": record.n, "seed": seed, "null": null, "samples": SAMPLES}
    return FoundEmergence(told(record, chosen, found.task, NAME, "", protocol), found)


class Checkpoints:
    """Somebody's models by training step, wrapped when they are asked for.

    Args:
        given: models, or state dictionaries.
        model: for state dictionaries.
        inputs: some rows that they read.

    Raises:
        BadInput: there are too few, steps are no whole numbers, or weights are given without a model.
    """

    def __init__(self, given: Mapping[int, Any], model: nn.Module | None, inputs: Tensor):
        if not isinstance(given, Mapping) or not all(type(step) is int and step >= 0 for step in given):
            raise BadInput("checkpoints must be a dictionary from training steps, whole numbers, to models or weights")
        if len(given) < LEAST:
            raise BadInput(f"emergence needs at least {LEAST} checkpoints; got {len(given)}")
        for step, one in given.items():
            if isinstance(one, Mapping) and model is None:
                raise BadInput(f"the checkpoint of step {step} is weights; give the model that they are of by model=")
            if not isinstance(one, Mapping | nn.Module):
                raise BadInput(f"the checkpoint of step {step} must be a model or weights; got a {type(one).__name__}")
        self.given, self.inputs, self.steps = given, inputs, sorted(given)
        self.copy = copy.deepcopy(model)

    def at(self, step: int) -> Borrowed:
        """The model of a step, without dropout. Raises BadInput where weights are not of the model."""
        one = self.given[step]
        if not isinstance(one, nn.Module):
            assert self.copy is not None
            try:
                self.copy.load_state_dict(one)
            except (RuntimeError, TypeError) as error:
                words = str(error).strip().splitlines()[-1].strip()  # which names a tensor
                raise BadInput(f"the weights of step {step} are not of a {type(self.copy).__name__}: {words}") from None
            one = self.copy
        return Resting(borrowed(one, self.inputs))


class Resting(Borrowed):
    """A model that is at rest for each pass, whatever mode its owner left it in."""

    def forward(self, inputs: Tensor, **how: Any) -> Any:  # type: ignore[override]
        with at_rest(self.inner):
            return self.inner(inputs, **how)


@dataclass(frozen=True)
class FoundEmergence:
    """What was found; `print` tells it, a notebook shows it.

    Attributes:
        emergence: paths, curves and onsets, as of a run (`hopscope.emergence.track`).
        found: the circuit whose paths they are.
    """

    emergence: Emergence = field(repr=False)
    found: FoundCircuit = field(repr=False)

    def __str__(self) -> str:
        from hopscope.emergence.words import lines

        return "\n".join(lines(self.emergence))

    def table(self) -> DataFrame:
        """One row per path and step (`Emergence.table`)."""
        return self.emergence.table()

    def figure(self) -> Figure:
        """Onsets of all paths, their attention over training, and the loss."""
        from hopscope.drawing.emergence import emergence_curves

        return emergence_curves(self.emergence)

    def _repr_html_(self) -> str:
        from hopscope.drawing.style import rendered

        picture = rendered(self.figure(), "svg").decode()
        return f"<pre>{html.escape(str(self))}</pre>{picture[max(picture.find('<svg'), 0) :]}"

    def save(self, folder: Files | str) -> list[Files]:
        """Write emergence.csv, emergence.json, words.txt and the picture. Raises CannotSave."""
        from hopscope.drawing.style import save

        folder = Files(folder)
        make_folder(folder)
        files = [folder / name for name in ("emergence.csv", "emergence.json", "words.txt")]
        write_file(files[0], self.table().to_csv(index=False).encode())
        write_json(files[1], {"runs": [self.emergence.as_dict()]})
        write_file(files[2], f"{self}\n".encode())
        return [*files, *save(self.figure(), folder / "emergence")]

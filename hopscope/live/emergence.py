"""`hopscope.find_emergence`: when each path of a circuit appeared in training that was done elsewhere."""

from __future__ import annotations

import copy
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as Files
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from hopscope.circuits.changes import NULLS
from hopscope.core.settings import BadInput, check_choice
from hopscope.core.storage import make_folder, write_file, write_json
from hopscope.emergence.record import LEAST, measured
from hopscope.live.borrowed import Borrowed, wrap
from hopscope.live.find import FoundCircuit, beside, find_circuit
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
        inputs: as for `find_circuit`.
        targets: as for `find_circuit`.
        model: the model of state dictionaries, which are loaded into a copy of it.
        found: the result of `find_circuit` for the last checkpoint on the same data; by default it is made here.
        paths: the paths to follow, such as `L1H0 query->next`; by default those of the circuit.
        n: number of rows on which paths are measured, from the rows of the search.
        seed: of the rows and of the bootstrap.
        null: what replaces the attention of a silenced path: `uniform`, `identity` or `resample`.
        watch: called with a description of each stage.
        about: further arguments of `find_circuit`.

    Raises:
        BadInput: checkpoints do not fit, or there is no path to follow; and as `find_circuit`.
    """
    from hopscope.emergence.track import SAMPLES, told  # here, because it imports pandas

    models = Checkpoints(checkpoints, model, inputs)
    if found is not None and not isinstance(found, FoundCircuit):
        raise BadInput(f"found must be what find_circuit returned; got a {type(found).__name__}")
    if n < 1 or seed < 0:
        raise BadInput(f"n must be at least 1, and seed at least 0; got {n} and {seed}")
    check_choice("null", null, NULLS)
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
    """The caller's models by training step, each wrapped when it is needed.

    Args:
        given: models, or state dictionaries.
        model: the model of state dictionaries.
        inputs: some rows of inputs.

    Raises:
        BadInput: there are too few, steps are not whole numbers, or weights are given without a model.
    """

    def __init__(self, given: Mapping[int, Any], model: nn.Module | None, inputs: Tensor):
        if not isinstance(given, Mapping) or not all(type(step) is int and step >= 0 for step in given):
            raise BadInput("checkpoints must be a dictionary from training steps, whole numbers, to models or weights")
        if len(given) < LEAST:
            raise BadInput(f"emergence needs at least {LEAST} checkpoints; got {len(given)}")
        for step, one in given.items():
            if isinstance(one, Mapping) and model is None:
                raise BadInput(f"the checkpoint of step {step} is a state dictionary; give its model by model=")
            if not isinstance(one, Mapping | nn.Module):
                raise BadInput(f"the checkpoint of step {step} must be a model or weights; got a {type(one).__name__}")
        self.given, self.inputs, self.steps = given, inputs, sorted(given)
        self.copy = copy.deepcopy(model)

    def at(self, step: int) -> Borrowed:
        """The model of a step. Raises BadInput if its weights do not fit the model."""
        one = self.given[step]
        if not isinstance(one, nn.Module):
            assert self.copy is not None
            try:
                self.copy.load_state_dict(one)
            except (RuntimeError, TypeError) as error:
                words = str(error).strip().splitlines()[-1].strip()  # the last line names a tensor
                raise BadInput(f"the weights of step {step} are not of a {type(self.copy).__name__}: {words}") from None
            one = self.copy
        return wrap(one, self.inputs)


@dataclass(frozen=True)
class FoundEmergence:
    """Onsets of a circuit's paths; `print` lists them, and a notebook also shows a picture.

    Attributes:
        emergence: paths, curves and onsets (`hopscope.emergence.track`).
        found: the circuit whose paths were followed.
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

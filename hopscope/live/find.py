"""`hopscope.find_circuit`: the circuit of a model that was trained elsewhere, on the caller's data."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path as Files
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.text_drawing import drawing
from hopscope.circuits.words import RULES, paragraph
from hopscope.core.settings import BadInput
from hopscope.core.storage import write_file
from hopscope.live.borrowed import Borrowed, wrap
from hopscope.live.checks import (
    Naming,
    check_classes,
    check_floor,
    check_losses,
    check_patterns,
    check_tensors,
    correct_of,
    first_outputs,
    loss_of,
    roles_of,
    sizes,
)
from hopscope.live.example import Example
from hopscope.live.given import Data, Given, Measure, shaped, slice_of
from hopscope.models.base import Shape, at_rest
from hopscope.problem.relations import PLACES, WORDS
from hopscope.problem.roles import Roles
from hopscope.tasks.base import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hopscope.circuits.program_trial import Tried


def find_circuit(
    model: Any,
    inputs: Tensor,
    targets: Tensor,
    *,
    loss: Measure | None = None,
    correct: Measure | None = None,
    at: int | slice = -1,
    roles: Naming | Roles | None = None,
    floor: float = 0.0,
    best_accuracy: float = 1.0,
    settings: Discovery | None = None,
    names: Sequence[str] | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> FoundCircuit:
    """Find the circuit of a model on your data.

    The model is neither trained nor changed: its training modes are restored, and hooks are removed.

    Args:
        model: a module that attends by `softmax` or `scaled_dot_product_attention` of PyTorch, as those of
            transformers do; a `HookedTransformer` or `TransformerBridge`; or an implementation of
            `hopscope.models.base.Model`. Called with `inputs` alone, it returns logits (row, position, output).
        inputs: tokens (int, row position) or features (float, row position feature); at least 256 rows. 2048 are
            enough for most models; more are used where a set of paths is close to its threshold. Rows are divided:
            reported numbers are from rows that the search did not see.
        targets: the right answers, in the form that the loss takes; one row for each row of inputs.
        loss: a differentiable function of outputs and targets that returns the mean over rows as a tensor without
            dimensions; by default cross-entropy for whole numbers, and mean squared error for others.
        correct: a function of outputs and targets that returns which answers are right, as bools; by default the
            likeliest output for whole numbers, and for others a squared error below half the targets' variance.
        at: the position of the answer, or a slice of positions. For a position the loss gets outputs (row, output),
            for a slice (row, position, output).
        roles: a function of a row (a list of numbers) that returns the roles of its positions: by the name of a role, a
            position, or a list whose i-th entry is the position, or positions, that hold the role in chain i. Positions
            of answers without a role are `query`. Without this function paths are described by relations, such as `−1`
            and `after-same-token` (`hopscope.problem.relations`).
        floor: the loss of a perfect model.
        best_accuracy: the share of right answers of a perfect model, above 0 and at most 1.
        settings: sizes, seed and null of the search.
        names: the names of tokens in the picture.
        watch: called with a description of each stage.

    Returns:
        The circuit with its verdict, words and picture.

    Raises:
        BadInput: an argument does not fit; the message says which.
    """
    check_tensors(inputs, targets, at)
    check_floor(floor, best_accuracy)
    names = None if names is None else [*map(str, names)]
    check_names(names, inputs)
    settings, lent = sizes(settings, len(inputs)), wrap(model, inputs)
    with at_rest(model), beside(lent.device):
        inputs, targets = inputs.to(lent.device), targets.to(lent.device)
        answers = first_outputs(lent, inputs, slice_of(at))
        lent.check_cache(inputs[:2])
        check_patterns(lent, inputs[: len(answers)], slice_of(at), answers)
        some = shaped(answers, at), targets[: len(answers)]
        check_classes(some[0], targets, strict=loss is None)
        rule, right = loss_of(loss, *some), correct_of(correct, *some, targets)
        data = Data(inputs, targets, at, rule, right, roles_of(roles, inputs, slice_of(at)), floor, best_accuracy)
        check_losses(lent, inputs, targets, at, rule)
        task = Given(data, answers, settings)
        if not task.constant > floor:
            unbounded = (
                "; a loss without a minimum, such as one of log-probabilities that need not sum to 1, must take logits"
            )
            words = f"floor must be below the loss of the best constant answer, {task.constant:.4g}; got {floor}"
            raise BadInput(words + unbounded * (task.constant < 0))
        circuit = discover(lent, task, settings, watch)
        return FoundCircuit(circuit, words_of(circuit, task), task, lent.architecture, names, lent)


def check_names(names: Sequence[str] | None, inputs: Tensor) -> None:
    """Raise BadInput unless every token has a name."""
    if names is not None and not inputs.is_floating_point() and len(names) <= (most := int(inputs.max())):
        raise BadInput(f"names must name all {most + 1} tokens; got {len(names)}")


def beside(device: torch.device) -> AbstractContextManager[Any]:
    """A context in which new tensors are made on the model's device."""
    return nullcontext() if device.type == "cpu" else device


@dataclass(frozen=True)
class FoundCircuit:
    """A circuit with its description; a notebook shows verdict, words and picture.

    Attributes:
        circuit: paths, losses, alternatives, proof log.
        words: a paragraph that describes them.
        task: the caller's data as a task.
        shape: the shape of the model.
        names: the names of tokens.
        model: the model, in its adapter.
    """

    circuit: Circuit
    words: str
    task: Given = field(repr=False)
    shape: Shape = field(repr=False)
    names: Sequence[str] | None = field(repr=False, default=None)
    model: Borrowed | None = field(repr=False, default=None)

    @property
    def verdict(self) -> str:
        """`circuit`, `partial` or `none`."""
        return self.circuit.verdict

    @property
    def reason(self) -> str:
        """The reason for the verdict in words, and what to try."""
        return self.circuit.reason

    def __str__(self) -> str:
        units = self.circuit.units
        return "\n\n".join(filter(None, [f"verdict: {self.verdict} ({self.reason})", drawing(units), self.words]))

    def diagram(self, title: str = "") -> Figure:
        """The circuit's paths drawn on one of the given rows. Raises BadInput if there is no path."""
        from hopscope.drawing.circuit_diagram import circuit_diagram  # here, so that a search loads no plotting library

        if not self.circuit.paths:
            raise BadInput(f"there is no path to draw: {self.reason}")
        shown = Example.of(self.circuit, self.task, self.shape.causal, self.names)
        return circuit_diagram(
            shown.every([found.path for found in self.circuit.paths]),
            shown.roles,
            shown.symbols,
            strengths=shown.values({found.path: found.strength for found in self.circuit.paths}),
            removal=shown.values({found.path: found.removal_loss for found in self.circuit.paths}),
            interchangeable=shown.every(self.circuit.interchangeable),
            n_layers=self.shape.n_layers,
            title=title,
        )

    def program(self, **further: tuple[Tensor, Tensor]) -> Tried:
        """The circuit as a Python program, with its agreement with the model on rows that the search has not seen.

        Args:
            further: larger inputs and targets by name, such as `longer=(inputs, targets)`, to try the program on.

        Raises:
            BadInput: there is no circuit, inputs are not symbols, or no program reproduces the circuit.
        """
        from hopscope.circuits.program import Rows
        from hopscope.circuits.program_trial import TRIED_ON, WRITTEN_ON, program_of, unsaid

        assert self.model is not None
        places, rows = self.task.query_positions, self.task.deck.whole
        batches = [Batch(self.task, {"row": rows[of][:n]}) for of, n in (("search", WRITTEN_ON), ("report", TRIED_ON))]
        with at_rest(self.model), beside(self.task.data.inputs.device):
            more = {name: Rows.of(inputs, targets, places) for name, (inputs, targets) in further.items()}
            paths = [part.path for part in self.circuit.paths]
            tried = program_of(paths, self.model, (batches[0], batches[1]), more)
        return replace(tried, unsaid=unsaid(self.circuit))

    def _repr_html_(self) -> str:
        from hopscope.drawing.style import rendered

        said = f"<p><b>verdict: {html.escape(self.verdict)}</b>: {html.escape(self.reason)}</p>"
        words = f"<p>{html.escape(self.words)}</p>"
        picture = rendered(self.diagram(), "svg").decode() if self.circuit.paths else ""
        return said + words + picture[max(picture.find("<svg"), 0) :]

    def save(self, folder: Files | str) -> list[Files]:
        """Write circuit.json, hypotheses.jsonl, words.txt and, if there are paths, their picture. Raises CannotSave."""
        from hopscope.drawing.style import save

        folder = Files(folder)
        files = self.circuit.save(folder)
        write_file(folder / "words.txt", f"{self}\n".encode())
        pictures = save(self.diagram(), folder / "circuit") if self.circuit.paths else []
        return [*files, folder / "words.txt", *pictures]


# In words --------------------------------------------------------------------------------------------------------


def words_of(circuit: Circuit, task: Given) -> str:
    """The circuit as a paragraph; relations are spelled out, and roles have the names that the caller gave them."""
    words = paragraph(circuit, task)
    if task.data.roles is not None:
        return ROLE.sub(lambda match: f"“{match[1]}”", words)
    for rule in RULES.values():
        words = words.replace(f", {rule}", "")  # the relation says the same
    return ROLE.sub(lambda match: (PLACES | WORDS).get(match[1], match[0]), words)


ROLE = re.compile(r"the positions of role ([^\s,;.)]+)")

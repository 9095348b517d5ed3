"""`hopscope.find_circuit`: the circuit of a model trained elsewhere, by its owner's loop on its owner's task."""

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
from hopscope.live.borrowed import Borrowed, borrowed
from hopscope.live.checks import (
    Naming,
    check_classes,
    check_floor,
    check_patterns,
    check_tensors,
    correct_of,
    loss_of,
    roles_of,
    sizes,
    tried,
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

    Nothing is trained, changed or left behind: parts in training mode are put back into it, hooks are taken off.

    Args:
        model: a module that attends by `softmax` or `scaled_dot_product_attention` of PyTorch, as those of
            transformers do; a `HookedTransformer` or `TransformerBridge`; or one that keeps the contract of
            `hopscope.models.base.Model`. Called with `inputs` alone, it puts out logits (row, position, output).
        inputs: tokens (int, row position) or features (float, row position feature); 256 rows or more. 2048
            do for most models; more are used where something is close to its threshold. Rows are divided: no number
            that is reported is from a row on which the search went.
        targets: the right answers, in whatever form the loss wants; one row for each row of inputs.
        loss: of outputs and targets, the mean over rows as a tensor without dimensions; by default cross-entropy
            for whole numbers and mean squared error for others. It must be differentiable.
        correct: of outputs and targets, which answers are right, as bools; by default the likeliest output for whole
            numbers, and for others a squared error below half the targets' variance.
        at: where answers are read off. Of a position, the loss sees outputs (row, output); of a slice (row, position,
            output).
        roles: a function of a row (a list of numbers) that says what its positions are for: by the role's name a
            position, or a list whose i-th entry is the position, or positions, that hold the role in chain i. Positions
            of answers without a role are `query`. Without the function paths lead by relations, such as `−1` and
            `after-same-token` (`hopscope.problem.relations`).
        floor: the least loss that a perfect model reaches.
        best_accuracy: the share of right answers that it reaches.
        settings: sizes, seed and null of the search.
        names: what tokens are called in the picture.
        watch: told in words what is being done.

    Returns:
        The circuit with its verdict, words and picture.

    Raises:
        BadInput: something does not fit; the sentence says what.
    """
    check_tensors(inputs, targets, at)
    check_floor(floor, best_accuracy)
    check_names(names, inputs)
    settings, lent = sizes(settings, len(inputs)), borrowed(model, inputs)
    with at_rest(model), beside(lent.device):
        inputs, targets = inputs.to(lent.device), targets.to(lent.device)
        answers = tried(lent, inputs, slice_of(at))
        lent.check_cache(inputs[:2])
        check_patterns(lent, inputs[: len(answers)], slice_of(at), answers)
        some = shaped(answers, at), targets[: len(answers)]
        check_classes(some[0], targets, strict=loss is None)
        rule, right = loss_of(loss, *some), correct_of(correct, *some, targets)
        data = Data(inputs, targets, at, rule, right, roles_of(roles, inputs, slice_of(at)), floor, best_accuracy)
        task = Given(data, answers, settings)
        if not task.constant > floor:
            least = "; one that knows no least, as of log-probabilities that need not sum to 1, wants logits instead"
            words = f"floor must be below the loss of the best constant answer, {task.constant:.4g}; got {floor}"
            raise BadInput(words + least * (task.constant < 0))
        circuit = discover(lent, task, settings, watch)
        return FoundCircuit(circuit, words_of(circuit, task), task, lent.architecture, names, lent)


def check_names(names: Sequence[str] | None, inputs: Tensor) -> None:
    """Whether all tokens have a name. Raises BadInput."""
    if names is not None and not inputs.is_floating_point() and len(names) <= (most := int(inputs.max())):
        raise BadInput(f"names must be of all {most + 1} tokens; got {len(names)}")


def beside(device: torch.device) -> AbstractContextManager[Any]:
    """Where the search makes its own tensors: with the model."""
    return nullcontext() if device.type == "cpu" else device


@dataclass(frozen=True)
class FoundCircuit:
    """A circuit with all that is said of it; a notebook shows verdict, words and picture.

    Attributes:
        circuit: paths, losses, alternatives, proof log.
        words: the same in a paragraph.
        task: what it is a circuit for.
        shape: of the model.
        names: what tokens are called.
        model: whose it is.
    """

    circuit: Circuit
    words: str
    task: Given = field(repr=False)
    shape: Shape = field(repr=False)
    names: Sequence[str] | None = field(repr=False, default=None)
    model: Borrowed | None = field(repr=False, default=None)

    @property
    def verdict(self) -> str:
        """`circuit`, or what it falls short of."""
        return self.circuit.verdict

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        return self.circuit.reason

    def __str__(self) -> str:
        units = self.circuit.units
        return "\n\n".join(filter(None, [f"verdict: {self.verdict} ({self.reason})", drawing(units), self.words]))

    def diagram(self, title: str = "") -> Figure:
        """Who attends to whom, on one of the given rows. Raises BadInput where there is no path to draw."""
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
        """The circuit as some lines of Python, tried on rows that the search has not seen; `print` shows both.

        Args:
            further: larger rows with their targets, by what they are called, such as `longer=(inputs, targets)`.

        Raises:
            BadInput: there is no circuit, its sequences are no symbols, or no program does what it does.
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

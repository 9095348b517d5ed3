"""What all measures of the workbench share: the model under study, linear maps read off it, and the result."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as Files
from typing import TYPE_CHECKING, Any

import torch
from pandas import DataFrame
from torch import Tensor

from hopscope.circuits.losses import Loss
from hopscope.core.settings import BadInput
from hopscope.core.storage import make_folder, write_file
from hopscope.core.wording import kind, one_line
from hopscope.live.borrowed import Borrowed, wrap
from hopscope.live.checks import check_at
from hopscope.live.given import shaped, slice_of
from hopscope.models.base import at_rest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Gives a number for each row of outputs, (row, output).
Metric = Callable[[Tensor], Tensor]
#: Right answers and those whose logits are subtracted, an output's number for each row.
Pair = tuple[Tensor, Tensor]
STRANGE = 1e-3  # relative error up to which a map counts as linear but for its scale (ours)
LARGE = 1e3  # length of the vectors on which maps are measured, which makes the epsilon of norms negligible
#: The reason why an activation is not accessible in a model whose stream is known.
HEADS = "its products must be of two tensors, head by head, as those of matmul; those of einsum are not"
LACKING = {
    "hook_resid_mid": "its MLPs read what its attention reads (parallel layers)",
    **dict.fromkeys(("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z"), HEADS),
}
CHUNK = 256  # rows in a pass that measures a map


@dataclass(frozen=True)
class Shown:
    """A measure's table and picture; `print` gives a summary in words, a notebook shows all three.

    Attributes:
        name: the name of the measure, also used for its files.
        words: a summary.
        table: every number; a mean over rows with its 95 % interval.
        draw: makes the picture.
    """

    name: str
    words: str
    table: DataFrame = field(repr=False)
    draw: Callable[[], Figure] = field(repr=False)

    def __str__(self) -> str:
        return self.words

    def picture(self) -> Figure:
        """The picture."""
        return self.draw()

    def save(self, folder: Files | str) -> list[Files]:
        """Write the table (.csv), the words (.txt) and the picture (.svg, .png). Raises CannotSave."""
        from hopscope.drawing.style import save  # here, so that nothing loads a plotting library before it draws

        folder = Files(folder)
        make_folder(folder)
        table, words = folder / f"{self.name}.csv", folder / f"{self.name}.txt"
        write_file(table, self.table.to_csv(index=False).encode())
        write_file(words, f"{self.words}\n".encode())
        return [table, words, *save(self.picture(), folder / self.name)]

    def _repr_html_(self) -> str:
        from hopscope.drawing.style import rendered

        picture = rendered(self.picture(), "svg").decode()
        table = self.table.to_html(index=False, max_rows=20, float_format="{:.3g}".format)
        return f"<p>{html.escape(self.words)}</p>{picture[max(picture.find('<svg'), 0) :]}{table}"


class Subject:
    """The model under study, with inputs and the position of the answer.

    Args:
        model: in its adapter.
        inputs: some rows.
        at: the position of the answer.
        metric: of its outputs; or a pair of answers, whose logits are subtracted.

    Raises:
        BadInput: an argument does not fit.
    """

    def __init__(self, model: Borrowed, inputs: Tensor, at: int, metric: Metric | Pair | None = None):
        if inputs.ndim < 2 or len(inputs) < 2:
            raise BadInput("inputs must be a tensor of two rows or more, (row, position) or (row, position, feature)")
        check_at(at, inputs.shape[1])
        self.model, self.at = model, at % inputs.shape[1]
        self.inputs = inputs.to(model.device)
        self.metric = difference(*metric) if isinstance(metric, tuple) else metric
        self.n_layers, self.n_heads = model.architecture.n_layers, model.architecture.n_heads

    def same(self, inputs: Tensor) -> Subject:
        """The same model on other inputs of the same shape. Raises BadInput."""
        if not isinstance(inputs, Tensor) or inputs.shape != self.inputs.shape or inputs.dtype != self.inputs.dtype:
            raise BadInput("clean and corrupt inputs must be tensors of the same shape and dtype, paired row by row")
        return Subject(self.model, inputs, self.at, self.metric)

    def has(self, short: str) -> bool:
        """Whether every layer offers an activation."""
        return {f"blocks.{layer}.{short}" for layer in range(self.n_layers)} <= {*self.model.activation_names}

    def needs(self, *shorts: str) -> None:
        """Raise BadInput for an activation that some layer does not offer."""
        for short in shorts:
            if not self.has(short):
                why = LACKING.get(short) or getattr(self.model.inner, "unstreamed", "")
                kind = type(getattr(self.model.inner, "inner", self.model.inner)).__name__
                what = "residual streams" if "attn.hook" not in short else "queries, keys and values of single heads"
                raise BadInput(
                    f"{what} of a {kind} are not accessible (blocks.0.{short})" + (f": {why}" if why else "")
                )

    @torch.no_grad()
    def outputs(self, replace: Mapping[str, Any] | None = None) -> Tensor:
        """Outputs at the answer's position under replacements, (row, output)."""
        found: Tensor = self.model(self.inputs, replace=replace, at=slice_of(self.at))
        return shaped(found, self.at)

    def values(self, replace: Mapping[str, Any] | None = None) -> Tensor:
        """The metric of every row under replacements, (row). Raises BadInput unless it is a finite number."""
        return self.measured(self.outputs(replace))

    def measured(self, outputs: Tensor) -> Tensor:
        """The metric of outputs, (row). Raises BadInput unless it is a finite number for each row."""
        try:
            found = self.metric(outputs)  # type: ignore[misc]
        except Exception as error:  # the caller's function may raise anything
            raise BadInput(f"the metric fails on outputs of shape {tuple(outputs.shape)}: {one_line(error)}") from None
        if not isinstance(found, Tensor) or found.shape != outputs.shape[:1] or not bool(found.isfinite().all()):
            raise BadInput(f"the metric must be a finite number for each of the {len(outputs)} rows; got {kind(found)}")
        return found.detach().float()

    @torch.no_grad()
    def activations(self, *names: str) -> Mapping[str, Tensor]:
        """Activations by name."""
        return self.model(self.inputs, cache=list(names))[1]

    @torch.no_grad()
    def under(self, vectors: Tensor, given: str, *read: str) -> list[Tensor]:
        """Activations, or outputs, at the answer's position when another activation is replaced by given vectors.

        Args:
            vectors: (n, ...), each in the shape of the activation at one position; used at every position.
            given: the name of the activation to replace.
            read: names of activations to return, each (n, ...); without any, the outputs (n, output).
        """
        found: list[list[Tensor]] = []
        for some in vectors.split(CHUNK):
            n, positions = len(some), self.inputs.shape[1]
            rows = self.inputs[:1].expand(n, *self.inputs.shape[1:])
            whole = some[:, None].expand(n, positions, *some.shape[1:])
            answers, cache = self.model(rows, replace={given: whole}, cache=list(read), at=slice_of(self.at))
            found.append([cache[name][:, self.at] for name in read] or [answers[:, 0]])
        return [torch.cat(parts) for parts in zip(*found, strict=True)]


@contextmanager
def studied(model: Any, inputs: Tensor, at: int, metric: Metric | Pair | None = None) -> Iterator[Subject]:
    """Any model as the subject of a measure, without dropout for a while. Raises BadInput as `Subject`."""
    lent = wrap(model, inputs)
    with at_rest(lent):
        yield Subject(lent, inputs, at, metric)


class Folded:
    """A map that is linear but for the scale of a norm, y = s(x) x W + b, with the norm folded into W.

    It is measured without access to weights. The zero vector gives the bias. Vectors of equal length along each axis
    give the rows of W up to a common factor. This holds for RMS norm, for layer norm (W is then centred), and without a
    norm.

    Args:
        ask: applies the map to any number of vectors, (n, width).
        width: of the vectors.
        like: a tensor with the device and dtype of the vectors.
    """

    def __init__(self, ask: Callable[[Tensor], Tensor], width: int, like: Tensor):
        units = torch.cat([torch.zeros(1, width), LARGE * torch.eye(width)]).to(like)
        found = ask(units).float()
        self.bias, self.weight = found[0], found[1:] - found[0]

    def scale(self, x: Tensor, y: Tensor) -> Tensor | None:
        """The scale s of each vector x, given y; None if the map does not have this form."""
        linear, wanted = x.float() @ self.weight.flatten(1), (y.float() - self.bias).flatten(1)
        scale = (wanted * linear).sum(-1) / linear.square().sum(-1).clamp(min=1e-30)
        missed = (wanted - scale[:, None] * linear).norm(dim=-1)
        return scale if bool((missed <= STRANGE * wanted.norm(dim=-1).clamp(min=1e-6)).all()) else None


def difference(right: Tensor, wrong: Tensor) -> Metric:
    """The logit of the right answer minus that of another, for each row."""
    return lambda outputs: picked(outputs, right) - picked(outputs, wrong)


def picked(outputs: Tensor, answers: Tensor) -> Tensor:
    """Each row's output of a given number, (row). Raises BadInput for a number that is out of range."""
    if not isinstance(answers, Tensor) or answers.is_floating_point() or answers.shape != outputs.shape[:1]:
        raise BadInput(f"answers must be an output's number for each of the {len(outputs)} rows")
    if int(answers.min()) < 0 or int(answers.max()) >= outputs.shape[-1]:
        raise BadInput(f"answers must be numbers of the {outputs.shape[-1]} outputs; got {int(answers.max())}")
    return outputs.gather(-1, answers.to(outputs.device)[:, None])[:, 0]


def mean_of(values: Tensor) -> dict[str, float]:
    """A mean over rows and its 95 % interval, as columns of a table."""
    found = Loss.of(values)
    return {"mean": found.mean, "low": found.low, "high": found.high}


def component_picture(table: DataFrame, column: str, label: str, title: str) -> Figure:
    """A grid of a table's numbers by layer and component."""
    from hopscope.drawing.grid import grids

    wide = table.pivot_table(index="layer", columns="part", values=column, sort=False)
    columns = sorted(wide.columns, key=lambda part: (part.rstrip("0123456789") != "h", len(part), part))
    rows = [f"layer {layer}" if layer >= 0 else "before" for layer in wide.index]
    return grids({"": wide[columns].to_numpy(float)}, rows, columns, label, title=title)


def largest(table: DataFrame, column: str, name: str = "node", n: int = 3) -> str:
    """The largest numbers of a table, in words."""
    order = table[column].abs().sort_values(ascending=False, kind="stable").index[:n]
    return ", ".join(f"{table.loc[i, name]} {table.loc[i, column]:.3g}" for i in order)

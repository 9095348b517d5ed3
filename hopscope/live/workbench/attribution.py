"""Direct logit attribution, part by part, and the logit lens, layer by layer.

The last stream is the sum of the embedding and the outputs of all heads and MLPs (Elhage et al., 2021). Logits are
linear in it if the scale of each row's final norm is held fixed. So the contributions of all parts to a difference of
logits add up to this difference. The lens applies the unembedding to earlier streams (nostalgebraist, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch
import torch.nn.functional as F
from pandas import DataFrame
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.live.example import token_names
from hopscope.live.workbench.base import Folded, Shown, Subject, component_picture, largest, mean_of, picked, studied

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHOLE = "whole attention"


def attribution(model: Any, inputs: Tensor, right: Tensor, wrong: Tensor | None = None, *, at: int = -1) -> Shown:
    """Direct logit attribution: the contribution of each part of the model to the difference of two logits.

    Args:
        model: as for `hopscope.wrap`.
        inputs: some rows.
        right: the number of an output, for each row.
        wrong: of another, whose logit is subtracted; by default the mean of all outputs is subtracted.
        at: the position of the answer.

    Returns:
        A row for each part: node, layer (−1: the embedding), part, mean (nats), low, high (95 %). `bias` of a layer is
        the bias of its attention output; of layer −1 it is that of the unembedding. The means add up to the difference.
        If a layer's heads are not accessible, its attention is one part.

    Raises:
        BadInput: an argument does not fit, the model has no stream, or its logits are not linear in the last one.
    """
    with studied(model, inputs, at) as subject:
        subject.needs("hook_resid_pre", "hook_attn_out", "hook_resid_post")
        outputs, last = subject.outputs().float(), f"blocks.{subject.n_layers - 1}.hook_resid_post"
        stream = subject.activations(last)[last][:, subject.at]
        whole = picked(outputs, right) - (outputs.mean(-1) if wrong is None else picked(outputs, wrong))
        read = Folded(lambda x: subject.under(x, last)[0], stream.shape[-1], stream)
        scale = read.scale(stream, outputs)
        if scale is None:
            raise BadInput(
                "the logits are not linear in the last stream with the norm's scale held fixed (capped logits are an "
                "example), so they cannot be attributed to parts"
            )
        along, rest = towards(read.weight.T, right, wrong), towards(read.bias, right, wrong)
        rows = [
            {"node": node, "layer": layer, "part": part, **mean_of((added.float() * along).sum(-1) * scale)}
            for node, layer, part, added in parts(subject)
        ]
        rows.insert(1, {"node": "bias", "layer": -1, "part": "bias", **mean_of(rest)})
    return shown_parts(rows, float(whole.mean()))


def towards(columns: Tensor, right: Tensor, wrong: Tensor | None) -> Tensor:
    """For each row the column of the right output minus that of the wrong one, (row, ...), from (output, ...)."""
    return columns[right] - (columns.mean(0) if wrong is None else columns[wrong])


def parts(subject: Subject) -> list[tuple[str, int, str, Tensor]]:
    """All that is added to the stream at the answer's position: node, layer, part, and the vectors (row, width)."""
    first = "blocks.0.hook_resid_pre"
    found = [("embedding", -1, "stream", subject.activations(first)[first][:, subject.at])]
    for layer in range(subject.n_layers):
        found += heads_of(subject, layer)
        if subject.has("hook_mlp_out"):
            mlp = f"blocks.{layer}.hook_mlp_out"
            found.append((f"m{layer}", layer, "MLP", subject.activations(mlp)[mlp][:, subject.at]))
    return found


def heads_of(subject: Subject, layer: int) -> list[tuple[str, int, str, Tensor]]:
    """The outputs of a layer's heads and its bias; one output for all heads if they are not accessible."""
    names = [f"blocks.{layer}.hook_attn_out", f"blocks.{layer}.attn.hook_z"]
    found = subject.activations(*(name for name in names if name in subject.model.activation_names))
    added = found[names[0]][:, subject.at]
    if names[1] in found:
        z = found[names[1]][:, subject.at]  # row head d_head
        write = written(subject, layer, z)
        scale = write.scale(z.flatten(1), added)
        if scale is not None:
            weight = write.weight.unflatten(0, z.shape[1:])
            each = scale[:, None, None] * torch.einsum("rhd,hdm->rhm", z.float(), weight)
            heads = [(f"a{layer}.h{head}", layer, f"h{head}", each[:, head]) for head in range(subject.n_heads)]
            return [*heads, (f"bias {layer}", layer, "bias", write.bias.expand_as(added))]
    return [(f"a{layer}", layer, WHOLE, added)]


def written(subject: Subject, layer: int, z: Tensor) -> Folded:
    """The map from the z of a layer's heads, (row, head, d_head), to the output of its attention."""
    names = f"blocks.{layer}.attn.hook_z", f"blocks.{layer}.hook_attn_out"
    ask = lambda x: subject.under(x.unflatten(-1, z.shape[1:]), *names)[0]  # noqa: E731
    return Folded(ask, z[0].numel(), z)


def shown_parts(rows: list[dict[str, Any]], whole: float) -> Shown:
    """The result from the rows of its table, and the mean difference of logits."""
    table = DataFrame(rows)
    total = float(table["mean"].sum())
    words = f"The logits differ by {whole:.4g} on average; the parts add up to {total:.4g}. Largest: " + largest(
        table, "mean"
    )
    draw = lambda: component_picture(table, "mean", "difference of logits", "what each part adds")  # noqa: E731
    return Shown("attribution", words, table, draw)


# The lens --------------------------------------------------------------------------------------------------------


def lens(model: Any, inputs: Tensor, right: Tensor, *, at: int = -1, names: Sequence[str] | None = None) -> Shown:
    """The logit lens: the answer at every position if an earlier stream is used as the last one.

    Args:
        model: as for `hopscope.wrap`.
        inputs: some rows.
        right: the number of the right output for each row; or the right numbers (float, row output).
        at: the position of the answer.
        names: the names of outputs in the picture.

    Returns:
        A row for each stream (0: before all layers) and position: stream, position, score (mean probability of the
        right output, or mean squared error), low, high (95 %), accuracy, likeliest (output of the first row).

    Raises:
        BadInput: an argument does not fit, or the model has no stream.
    """
    with studied(model, inputs, at) as subject:
        subject.needs("hook_resid_pre", "hook_resid_post")
        last = f"blocks.{subject.n_layers - 1}.hook_resid_post"
        streams = [*(f"blocks.{layer}.hook_resid_pre" for layer in range(subject.n_layers)), last]
        cache, right, rows = subject.activations(*streams), torch.as_tensor(right).to(subject.inputs.device), []
        for number, name in enumerate(streams):
            with torch.no_grad():
                outputs = subject.model(subject.inputs, replace={last: cache[name]}).float()
            offset = subject.inputs.shape[1] - outputs.shape[1]  # a model may have outputs at its last position alone
            for place in range(outputs.shape[1]):
                rows.append({"stream": number, "position": place + offset, **read(outputs[:, place], right)})
    return shown_streams(rows, subject.at, right.is_floating_point(), token_names(subject.inputs[0], names), names)


def read(outputs: Tensor, right: Tensor) -> dict[str, Any]:
    """Score, accuracy and likeliest output, given the right answers. Raises BadInput for a wrong shape."""
    if right.is_floating_point():
        if right.shape != outputs.shape:
            raise BadInput(f"right answers must be of shape {tuple(outputs.shape)}; got {tuple(right.shape)}")
        return mean_of(F.mse_loss(outputs, right, reduction="none").mean(-1)) | {"accuracy": numpy.nan, "likeliest": -1}
    found = mean_of(picked(outputs.softmax(-1), right))
    likeliest = outputs.argmax(-1)
    return {**found, "accuracy": float((likeliest == right).float().mean()), "likeliest": int(likeliest[0])}


def shown_streams(
    rows: list[dict[str, Any]], at: int, numbers: bool, symbols: Sequence[str], names: Sequence[str] | None
) -> Shown:
    """The result from the rows of its table."""
    table = DataFrame(rows).rename(columns={"mean": "score"})
    label = "mean squared error" if numbers else "probability of the right answer"

    def draw() -> Figure:
        from hopscope.drawing.grid import grids

        wide = table.pivot_table(index="stream", columns="position", values="score")[::-1]
        best = table.pivot_table(index="stream", columns="position", values="likeliest", aggfunc="first")[::-1]
        texts = [token_names(torch.tensor(row), names) for row in best.to_numpy(int).tolist()]
        held = [f"{place} {symbols[place]}" if symbols else str(place) for place in map(int, wide.columns)]
        caption = "" if numbers else "Written: the likeliest output of the first row. Stream 0 is before all layers."
        down = [f"stream {stream}" for stream in wide.index]
        given = {"": wide.to_numpy(float)}
        return grids(given, down, held, label, texts=None if numbers else texts, title="logit lens", caption=caption)

    here = table[table["position"] == at]
    scores = ", ".join(f"{row.stream}: {row.score:.3g}" for row in here.itertuples())
    return Shown("lens", f"At position {at}, {label} by stream: {scores}.", table, draw)

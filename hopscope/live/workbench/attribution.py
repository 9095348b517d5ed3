"""What the stream says of the answer: part by part (direct logit attribution), and layer by layer (the logit lens).

The last stream is the sum of the embedding and of all that heads and MLPs add (Elhage et al., 2021). With the scale of
each row's final norm held, logits are linear in it. So the parts' shares of a difference of logits add up to it. The
lens reads answers off earlier streams, as if they were the last (nostalgebraist, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.live.borrowed import borrowed
from hopscope.live.example import called
from hopscope.live.workbench.base import Asked, Folded, Shown, component_picture, largest, mean_of, picked
from hopscope.models.base import at_rest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHOLE = "whole attention"


def attribution(model: Any, inputs: Tensor, right: Tensor, wrong: Tensor | None = None, *, at: int = -1) -> Shown:
    """Direct logit attribution: what each part of the model adds to the difference of two logits.

    Args:
        model: as `hopscope.wrap` takes it.
        inputs: some rows.
        right: the number of an output, for each row.
        wrong: of another, whose logit is subtracted; by default the mean of all outputs is.
        at: the position that answers.

    Returns:
        A row for each part: node, layer (−1: the embedding), part, mean (nats), low, high. `bias` of a layer is what
        its attention adds whatever heads say; that of layer −1 is the unembedding's. Their means add up to the
        difference. Where a layer's heads cannot be told apart, its attention is one part.

    Raises:
        BadInput: something does not fit, the model has no stream, or its logits are not linear in the last one.
    """
    lent = borrowed(model, inputs)
    with at_rest(lent):
        asked = Asked(lent, inputs, at)
        asked.needs("hook_resid_pre", "hook_attn_out", "hook_resid_post")
        outputs, last = asked.outputs().float(), f"blocks.{asked.n_layers - 1}.hook_resid_post"
        stream = asked.activations(last)[last][:, asked.at]
        whole = picked(outputs, right) - (outputs.mean(-1) if wrong is None else picked(outputs, wrong))
        read = Folded(lambda x: asked.tried(x, last)[0], stream.shape[-1], stream)
        scale = read.scale(stream, outputs)
        if scale is None:
            raise BadInput(
                "the logits are no linear map of the last stream, its norm's scale held (they are capped, say), so "
                "they are no sum of what parts add"
            )
        along, rest = towards(read.weight.T, right, wrong), towards(read.bias, right, wrong)
        rows = [
            {"node": node, "layer": layer, "part": part, **mean_of((added.float() * along).sum(-1) * scale)}
            for node, layer, part, added in parts(asked)
        ]
        rows.insert(1, {"node": "bias", "layer": -1, "part": "bias", **mean_of(rest)})
    return shown_parts(rows, float(whole.mean()))


def towards(columns: Tensor, right: Tensor, wrong: Tensor | None) -> Tensor:
    """For each row a difference of columns, (row, ...), of outputs' (output, ...)."""
    return columns[right] - (columns.mean(0) if wrong is None else columns[wrong])


def parts(asked: Asked) -> list[tuple[str, int, str, Tensor]]:
    """All that is added to the stream at the position that answers: node, layer, part, (row, width)."""
    first = "blocks.0.hook_resid_pre"
    found = [("embedding", -1, "stream", asked.activations(first)[first][:, asked.at])]
    for layer in range(asked.n_layers):
        found += heads_of(asked, layer)
        if asked.has("hook_mlp_out"):
            mlp = f"blocks.{layer}.hook_mlp_out"
            found.append((f"m{layer}", layer, "MLP", asked.activations(mlp)[mlp][:, asked.at]))
    return found


def heads_of(asked: Asked, layer: int) -> list[tuple[str, int, str, Tensor]]:
    """What the heads of a layer add, and its bias; the whole where they cannot be told apart."""
    names = [f"blocks.{layer}.hook_attn_out", f"blocks.{layer}.attn.hook_z"]
    found = asked.activations(*(name for name in names if name in asked.model.activation_names))
    added = found[names[0]][:, asked.at]
    if names[1] in found:
        z = found[names[1]][:, asked.at]  # row head d_head
        write = written(asked, layer, z)
        scale = write.scale(z.flatten(1), added)
        if scale is not None:
            weight = write.weight.unflatten(0, z.shape[1:])
            each = scale[:, None, None] * torch.einsum("rhd,hdm->rhm", z.float(), weight)
            heads = [(f"a{layer}.h{head}", layer, f"h{head}", each[:, head]) for head in range(asked.n_heads)]
            return [*heads, (f"bias {layer}", layer, "bias", write.bias.expand_as(added))]
    return [(f"a{layer}", layer, WHOLE, added)]


def written(asked: Asked, layer: int, z: Tensor) -> Folded:
    """What a layer's attention adds of what its heads say, (row, head, d_head)."""
    names = f"blocks.{layer}.attn.hook_z", f"blocks.{layer}.hook_attn_out"
    ask = lambda x: asked.tried(x.unflatten(-1, z.shape[1:]), *names)[0]  # noqa: E731
    return Folded(ask, z[0].numel(), z)


def shown_parts(rows: list[dict[str, Any]], whole: float) -> Shown:
    from pandas import DataFrame

    table = DataFrame(rows)
    total = float(table["mean"].sum())
    words = f"The logits differ by {whole:.4g} on average; the parts add up to {total:.4g}. Most: " + largest(
        table, "mean"
    )
    draw = lambda: component_picture(table, "mean", "difference of logits", "what each part adds")  # noqa: E731
    return Shown("attribution", words, table, draw)


# The lens --------------------------------------------------------------------------------------------------------


def lens(model: Any, inputs: Tensor, right: Tensor, *, at: int = -1, names: Sequence[str] | None = None) -> Shown:
    """The logit lens: what would be answered if an earlier stream were the last, at every position.

    Args:
        model: as `hopscope.wrap` takes it.
        inputs: some rows.
        right: the number of the right output for each row; or the right numbers (float, row output).
        at: the position that answers.
        names: what outputs are called in the picture.

    Returns:
        A row for each stream (0: before all layers) and position: stream, position, score (mean probability of the
        right output, or mean squared error), low, high, accuracy, likeliest (of the first row).

    Raises:
        BadInput: something does not fit, or the model has no stream.
    """
    lent = borrowed(model, inputs)
    with at_rest(lent):
        asked = Asked(lent, inputs, at)
        asked.needs("hook_resid_pre", "hook_resid_post")
        last = f"blocks.{asked.n_layers - 1}.hook_resid_post"
        streams = [*(f"blocks.{layer}.hook_resid_pre" for layer in range(asked.n_layers)), last]
        cache, right, rows = asked.activations(*streams), right.to(asked.inputs.device), []
        for number, name in enumerate(streams):
            with torch.no_grad():
                outputs = lent(asked.inputs, replace={last: cache[name]}).float()
            offset = asked.inputs.shape[1] - outputs.shape[1]  # a model may answer at its last position alone
            for place in range(outputs.shape[1]):
                rows.append({"stream": number, "position": place + offset, **read(outputs[:, place], right)})
    return shown_streams(rows, asked.at, right.is_floating_point(), called(asked.inputs[0], names), names)


def read(outputs: Tensor, right: Tensor) -> dict[str, Any]:
    """What answers tell of the right ones."""
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
    from pandas import DataFrame

    table = DataFrame(rows).rename(columns={"mean": "score"})
    label = "mean squared error" if numbers else "probability of the right answer"

    def draw() -> Figure:
        from hopscope.drawing.grid import grids

        wide = table.pivot_table(index="stream", columns="position", values="score")[::-1]
        best = table.pivot_table(index="stream", columns="position", values="likeliest", aggfunc="first")[::-1]
        texts = [called(torch.tensor(row), names) for row in best.to_numpy(int).tolist()]
        held = [f"{place} {symbols[place]}" if symbols else str(place) for place in map(int, wide.columns)]
        caption = "" if numbers else "Written: the likeliest output of the first row. Stream 0 is before all layers."
        down = [f"stream {stream}" for stream in wide.index]
        given = {"": wide.to_numpy(float)}
        return grids(given, down, held, label, texts=None if numbers else texts, title="logit lens", caption=caption)

    here = table[table["position"] == at]
    told = ", ".join(f"{row.stream}: {row.score:.3g}" for row in here.itertuples())
    return Shown("lens", f"At position {at}, {label} by stream: {told}.", table, draw)

"""The output of each part of a model at the last token, and its contribution to a logit.

Direct logit attribution (Elhage et al., 2021; nostalgebraist, 2020): the last stream is the sum of the embedding, the
heads' outputs and the MLPs' outputs. With the final norm's scale fixed for each prompt, logits are linear in it. So the
parts' shares of any difference of logits add up to that difference exactly. Everything before the last token is cached,
and only that token is run again when heads are changed there.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.language.lens.ablation import Head, by_layer
from hopscope.language.lens.attention import CLOSE, Edit, Lens, passed_over
from hopscope_studies.recall_mechanisms.prompts import Asks


@dataclass(frozen=True)
class Wrote:
    """The outputs of all parts at the last token.

    Attributes:
        z: each head's input to the output projection; shape (fact, layer, head, d_head).
        looks: each head's attention to the subject; shape (fact, layer, head).
        mlps: each MLP's output; shape (fact, layer, d_model).
        streams: the stream before each layer and after the last; shape (fact, layer, d_model).
    """

    z: Tensor
    looks: Tensor
    mlps: Tensor
    streams: Tensor

    def upto(self, layer: int) -> Wrote:
        """The same outputs, for the layers before `layer`."""
        return Wrote(self.z[:, :layer], self.looks[:, :layer], self.mlps[:, :layer], self.streams[:, :layer])

    def then(self, later: Wrote) -> Wrote:
        """These layers followed by others."""
        names = ("z", "looks", "mlps", "streams")
        return Wrote(*(torch.cat([getattr(self, name), getattr(later, name)], 1) for name in names))


@dataclass(frozen=True)
class Shares:
    """The contributions of the parts to a logit, or to a difference of logits.

    Attributes:
        embedding: fact.
        heads: fact layer head.
        mlps: fact layer.
    """

    embedding: Tensor
    heads: Tensor
    mlps: Tensor

    @property
    def layers(self) -> Tensor:
        """The contributions of whole layers; shape (fact, layer)."""
        return self.heads.sum(2) + self.mlps

    @property
    def total(self) -> Tensor:
        """The sum of all contributions; shape (fact)."""
        return self.embedding + self.layers.sum(1)


class Watch(Edit):
    """Records heads' inputs to the output projection at the last token, and their attention to the subject."""

    def __init__(self, inner: Edit, subject_at: int):
        self.inner, self.subject_at = inner, subject_at
        self.looks: list[Tensor] = []
        self.z: list[Tensor] = []

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        self.looks.append(pattern[:, :, -1, self.subject_at])
        return pattern

    def output(self, layer: int, z: Tensor) -> Tensor:
        z = self.inner.output(layer, z)
        self.z.append(z[:, -1])
        return z


class Instead(Edit):
    """Replaces the inputs of some heads to the output projection at the last token.

    Args:
        heads: the heads that are changed.
        z: their new inputs; shape (fact, layer, head, d_head).
    """

    def __init__(self, heads: Collection[Head], z: Tensor):
        self.by_layer, self.z = by_layer(heads), z
        self.first = min(self.by_layer, default=0)

    def output(self, layer: int, z: Tensor) -> Tensor:
        if layer not in self.by_layer:
            return z
        gone, z = self.by_layer[layer], z.clone()
        z[:, -1, gone] = self.z[:, layer, gone]
        return z


class Recall:
    """A model on one batch of prompts. Raises BadInput for a model whose parts do not add up.

    Args:
        lens: the model.
        asks: the prompts.
    """

    def __init__(self, lens: Lens, asks: Asks):
        if lens.norms_behind:
            raise BadInput(f"{lens.name} normalises what heads add together; choose a model built like Llama")
        self.lens, self.asks = lens, asks
        with torch.no_grad():
            self.before = lens.model(asks.ids[:, :-1], use_cache=True, logits_to_keep=1).past_key_values
            self.wrote = self.run()
            whole = lens.model(asks.ids[:1], logits_to_keep=1).logits[:, -1]
            if float((whole - self.logits(self.wrote.streams[:1, -1])).abs().max()) > CLOSE:
                raise BadInput(f"{lens.name} computes in a way of its own; choose a model built like Llama")

    @torch.no_grad()
    def run(self, edit: Edit | None = None) -> Wrote:
        """Run the last token, as it is or with heads changed; layers before the first change are not run again."""
        watch, model = Watch(edit or Edit(), self.asks.subject_at), self.lens.model.model
        start = watch.inner.first
        streams: list[Tensor] = []
        mlps: list[Tensor] = []
        hooks = [
            part.register_forward_pre_hook(lambda _, args: streams.append(args[0][:, -1]))
            for part in [*self.lens.layers[start:], model.norm]
        ]
        hooks += [
            layer.mlp.register_forward_hook(lambda _, args, out: mlps.append(out[:, -1])) for layer in self.lens.layers
        ]
        try:
            with passed_over(self.lens.layers, start):
                model(
                    inputs_embeds=self.wrote.streams[:, start : start + 1] if start else self.embedded,
                    past_key_values=copy.deepcopy(self.before),
                    hopscope_edit=watch,
                )
        finally:
            for hook in hooks:
                hook.remove()
        made = Wrote(*(torch.stack(some, 1) for some in (watch.z, watch.looks, mlps, streams)))
        return self.wrote.upto(start).then(made) if start else made

    @property
    def embedded(self) -> Tensor:
        """The last token's embedding; shape (fact, 1, d_model)."""
        return self.lens.embed(self.asks.ids[:, -1:])

    # Logits ----------------------------------------------------------------------------------------------------

    def logits(self, stream: Tensor) -> Tensor:
        """The logits of all tokens, as if a stream were the final one; shape (…, token)."""
        read: Tensor = self.lens.model.lm_head(self.lens.model.model.norm(stream))
        return read

    def folded(self, stream: Tensor) -> Tensor:
        """The factor by which the final norm multiplies a stream; shape (fact, d_model)."""
        norm = self.lens.model.model.norm
        scale: Tensor = norm.weight * (stream.square().mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()
        return scale

    def shares(self, wrote: Wrote, direction: Tensor) -> Shares:
        """The parts' contributions along a direction of the normalised stream, (d_model) or (fact, d_model)."""
        along = self.folded(wrote.streams[:, -1]) * direction
        heads = [self.head_shares(layer, wrote.z[:, layer], along) for layer in range(self.lens.n_layers)]
        return Shares(
            torch.einsum("fd,fd->f", wrote.streams[:, 0], along),
            torch.stack(heads, 1),
            torch.einsum("fld,fd->fl", wrote.mlps, along),
        )

    def head_shares(self, layer: int, z: Tensor, along: Tensor) -> Tensor:
        """The contributions of one layer's heads; shape (fact, head)."""
        read = along @ self.lens.layers[layer].self_attn.o_proj.weight
        return torch.einsum("fhd,fhd->fh", z, read.unflatten(1, (z.shape[1], -1)))

    def written(self, heads: Collection[Head]) -> Tensor:
        """The outputs of some heads to the stream; shape (fact, head, d_model)."""
        found = []
        for layer, head in heads:
            z = self.wrote.z[:, layer, head]
            columns = slice(head * z.shape[1], (head + 1) * z.shape[1])
            found.append(z @ self.lens.layers[layer].self_attn.o_proj.weight[:, columns].T)
        return torch.stack(found, 1) if found else self.wrote.mlps[:, :0]

    # Directions: rows of the unembedding, each minus a mean ----------------------------------------------------

    @property
    def unembedding(self) -> Tensor:
        """The unembedding; shape (token, d_model)."""
        weight: Tensor = self.lens.model.lm_head.weight
        return weight

    def among(self, tokens: Tensor, others: Tensor) -> Tensor:
        """Each token minus the mean of the others; shape (fact, d_model)."""
        rows = self.unembedding[others]
        there = (others[None] == tokens[:, None]).any(1, keepdim=True)
        own = self.unembedding[tokens]
        rest = (rows.sum(0) - own * there) / (len(others) - there.to(own.dtype))
        return own - rest

    @property
    def answer_among_its_kind(self) -> Tensor:
        """The answer minus the relation's other answers: what is known about the subject."""
        return self.among(self.asks.answers, self.asks.choices)

    @property
    def subject_among_its_kind(self) -> Tensor:
        """The subject minus the relation's other subjects: the topic."""
        return self.among(self.asks.subjects, self.asks.topics)

    @property
    def answer(self) -> Tensor:
        """The answer minus the mean of all tokens."""
        return self.unembedding[self.asks.answers] - self.unembedding.mean(0)

    def apart(self, written: Tensor) -> Tensor:
        """The components along subject and answer, fitted jointly because these are not orthogonal; and their cosine.

        Args:
            written: fact d_model.

        Returns:
            by least squares, as multiples of directions of length 1; fact 3.
        """
        subject, answer = (self.unit(rows) for rows in (self.subject_among_its_kind, self.answer_among_its_kind))
        a, b, cosine = ((x * y).sum(1) for x, y in ((written, subject), (written, answer), (subject, answer)))
        return torch.stack([a - cosine * b, b - cosine * a, cosine * (1 - cosine**2)], 1) / (1 - cosine**2)[:, None]

    def unit(self, rows: Tensor) -> Tensor:
        """Unembedding rows as directions of the stream with length 1; shape (fact, d_model)."""
        return torch.nn.functional.normalize(self.lens.model.model.norm.weight * rows, dim=1)

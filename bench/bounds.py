"""Bounds of what a model does on a region of embeddings, while its attention is changed.

They hold for transformers with softmax attention, with or without MLPs, with RMSNorm or no norm at all. What happens to
regions is in `bench.zonotopes`; what becomes of patterns is left to the change itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.definition import RMSNorm
from bench.zonotopes import Interval, Zonotope, affine, box, gelu, padded, rms_scale, softmax, weighted
from hopscope.circuits.evaluator import Evaluator, Hard, Kept
from hopscope.core.settings import BadInput
from hopscope.models.attention.softmax import Softmax
from hopscope.models.base_layers import AttentionLayer, LayerNorm
from hopscope.tasks.base import NOT_ASKED, Batch, VectorTask

Change = Kept | Hard
EPS = 1e-6  # of RMSNorm


class Bounds:
    """What a model can do on a region of the embeddings of one sequence, under a change of its attention.

    Args:
        lab: the model, in float64, and the sequence.
        change: a circuit by hand, or live.

    Raises:
        BadInput: the model has a norm, a rule of attention or a position code that is not bounded here.
    """

    def __init__(self, lab: Evaluator, change: Change):
        self.lab, self.change, self.model = lab, change, lab.model
        attention = [layer.attn for layer in self.model.layers]
        if any(isinstance(part, LayerNorm) and not isinstance(part, RMSNorm) for part in self.model.modules()):
            raise BadInput("of norms RMSNorm alone is bounded here; the model has LayerNorm")
        if any(type(each.rule) is not Softmax or each.code.turns() for each in attention):
            raise BadInput("of attention softmax without rotary positions alone is bounded here")

    def margins(self, region: Zonotope) -> Float[Tensor, "rival"]:
        """By how much the right answer is at least ahead of each other, wherever in the region."""
        *_, last = self.streams(region)
        read = normalised(self.model.ln_final, last[:, self.lab.batch.task.query_positions])
        normals, offsets = rivals(self.lab.batch)
        sums = torch.einsum("gqo,kqo->gk", affine(read, self.model.W_U, self.model.b_U), normals)
        return sums[0] - sums[1:].abs().sum(0) + offsets

    def streams(self, region: Zonotope) -> Iterator[Zonotope]:
        """What holds the stream before each layer, and after the last."""
        yield region
        for layer, block in enumerate(self.model.layers):
            region = self.attended(region, normalised(block.ln1, region), layer, block.attn)
            if block.mlp is not None:
                region = transformed(region, normalised(block.ln2, region), block.mlp)
            yield region

    def attended(self, stream: Zonotope, x: Zonotope, layer: int, attention: AttentionLayer) -> Zonotope:
        """The stream with what a layer's heads add to it, given what they read."""
        low, high = self.patterns(x, layer, attention)
        new, errors = padded(stream, len(x)), []
        new[0] += attention.b_O
        for head, weight, bias in zip(range(len(low)), attention.W_V, attention.b_QKV[2], strict=True):
            moved = weight.any(0) | bias.bool()  # of made heads few dimensions carry anything
            sums, more = weighted((low[head], high[head]), affine(x, weight[:, moved], bias[moved]))
            new += sums @ attention.W_O[head, moved]
            errors.append(more @ attention.W_O[head, moved])
        return torch.cat([new, *errors])

    def patterns(self, x: Zonotope, layer: int, attention: AttentionLayer) -> Interval:
        """Bounds of a layer's patterns as changed, (head, query, key) each.

        A change leaves an entry as computed, or gives it a share of what computed ones leave. So the changes of the
        lower bounds and of the upper ones are bounds, one or the other.
        """
        heads, n = len(attention.W_Q), x.shape[1]
        ends = x.new_zeros(1, heads, n, n), x.new_ones(1, heads, n, n)
        zeros, ones = (self.change.pattern(layer, end, self.lab.ground)[0] for end in ends)
        computed = (zeros != ones).any(-1)
        allowed = attention.code.bias(attention.positions, self.model.mask[:n, :n])
        for head in computed.any(-1).nonzero()[:, 0].tolist():
            at = computed[head].nonzero()[:, 0]
            bounds = softmax(*queries_and_keys(x, at, attention, head), allowed[at])
            for end, bound in zip(ends, bounds, strict=True):
                end[0, head, at] = bound
        changed = [self.change.pattern(layer, end, self.lab.ground)[0].to(x.dtype).clamp(0, 1) for end in ends]
        return torch.minimum(*changed), torch.maximum(*changed)


def queries_and_keys(x: Zonotope, at: Tensor, attention: AttentionLayer, head: int) -> tuple[Zonotope, Zonotope]:
    """A head's queries at some positions, divided by the root of its width, and its keys at all."""
    q = affine(x[:, at], attention.W_Q[head], attention.b_QKV[0, head])
    asked = q.flatten(0, 1).any(0)  # of made heads few dimensions say anything
    k = affine(x, attention.W_K[head][:, asked], attention.b_QKV[1, head][asked])
    return q[..., asked] * q.shape[-1] ** -0.5, k


def normalised(norm: nn.Module | None, x: Zonotope) -> Zonotope:
    """What an RMSNorm makes of what it reads; without norm, the same."""
    if not isinstance(norm, RMSNorm):
        return x
    low, high = rms_scale(x, EPS)
    return torch.cat(weighted((torch.diag(low), torch.diag(high)), x)) * norm.w


def transformed(stream: Zonotope, x: Zonotope, mlp: nn.Module) -> Zonotope:
    """The stream with what an MLP adds to it, given what it reads."""
    line, error = gelu(affine(x, mlp.W_in, mlp.b_in))
    return torch.cat([padded(stream, len(x)) + affine(line, mlp.W_out, mlp.b_out), box(error) @ mlp.W_out])


def rivals(batch: Batch) -> tuple[Float[Tensor, "rival query output"], Float[Tensor, "rival"]]:
    """Margins of a sequence's right answers over each other, as normals and offsets of linear functions of outputs.

    Between tokens a margin is the difference of logits. Of vectors the nearest symbol is the answer: it is half the
    difference of squared distances.
    """
    task, found = batch.task, []
    if isinstance(task, VectorTask):
        symbols, right = task.candidates(batch.draw)[0].double(), task.asked(batch.draw)[0]
    else:
        symbols, right = torch.eye(task.n_logits).double(), batch.targets[0]
    parts = task.d_output // symbols.shape[1]  # one for each hop, or one for all
    for query, hop in (right != NOT_ASKED).nonzero().tolist():
        answer = symbols[right[query, hop]]
        others = symbols[torch.arange(len(symbols)) != right[query, hop]]
        normals = symbols.new_zeros(len(others), len(right), parts, symbols.shape[1])
        normals[:, query, hop % parts] = answer - others
        found.append((normals.flatten(2), (others.square().sum(-1) - answer.square().sum()) / 2))
    return torch.cat([normals for normals, _ in found]), torch.cat([offsets for _, offsets in found])

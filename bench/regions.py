"""Proofs that circuits of hand-built models suffice on whole regions of embeddings, not on samples alone.

    python -m bench.regions --each 5 --seed 0 --json bench/regions.json

All but a circuit's paths is null, by hand or live. The right answer is proven to be the model's wherever the stream
before the first layer is in a region: the ball of a radius, in the maximum norm, around the embeddings of a sequence;
or the embeddings of all sequences that have the same tokens where the query's chain is, and any others elsewhere.
Bounds are those of `bench.zonotopes`. After Hadad, Katz and Bassan (2026, arXiv 2602.16823), who ask the same of
circuits of vision models. Beside each proven radius stands one at which an attack finds a wrong answer: the true radius
is between the two.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as Files
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.adversaries import BUILDS, Adversary, adversary
from bench.definition import KINDS as OF_DEFINITION
from bench.definition import RMSNorm, posed
from bench.exhaustive import Trier
from bench.verdicts import table
from bench.zonotopes import Interval, Zonotope, affine, ball, box, gelu, padded, rms_scale, softmax, weighted
from hopscope.circuits.discovery import discover
from hopscope.circuits.evaluator import Evaluator, Hard, Kept
from hopscope.circuits.units import Row
from hopscope.core.environment import code_version
from hopscope.core.settings import BadInput
from hopscope.models.attention.softmax import Softmax
from hopscope.models.base import Model
from hopscope.models.base_layers import AttentionLayer, LayerNorm
from hopscope.tasks.base import NOT_ASKED, Batch, VectorTask

Embeddings = Float[Tensor, "position d_model"]
Change = Kept | Hard

SLACK = 1e-6  # margin from which on an answer is proven: rounding, some 1e-12 of the numbers, is not bounded
SEQUENCES = 4  # of each model
HALVINGS = 7  # of what is left between a radius that holds and one that does not
STEPS = 4  # of an attack, at each radius
SOFTER = (1.0, 0.1)  # factors on scores by which an attack's gradient sees attention that is saturated
MOST = 100.0  # radius up to which attacks are tried
EPS = 1e-6  # of RMSNorm
STREAM = "blocks.0.hook_resid_pre"


# Bounds of a model -----------------------------------------------------------------------------------------------


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
        for head in range(len(low)):
            said = attention.W_V[head] @ attention.W_O[head], attention.b_QKV[2, head] @ attention.W_O[head]
            if said[0].any() or said[1].any():
                sums, more = weighted((low[head], high[head]), affine(x, *said))
                new += sums
                errors.append(more)
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
        allowed = attention.allowed(self.model.mask[:n, :n], None)
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
    return torch.cat([padded(stream, len(x)) + affine(line, mlp.W_out, mlp.b_out), box(error @ mlp.W_out.abs())])


def rivals(batch: Batch) -> tuple[Float[Tensor, "rival query output"], Float[Tensor, "rival"]]:
    """Margins of a sequence's right answers over each other, as normals and offsets of linear functions of outputs.

    Between tokens a margin is the difference of logits. Of vectors the nearest symbol is the answer: it is half the
    difference of squared distances.
    """
    task, found = batch.task, []
    hops, queries = len(task.hop_names), batch.targets.shape[1]
    if isinstance(task, VectorTask):
        symbols, right = task.candidates(batch.draw)[0].double(), task.asked(batch.draw)[0]
    else:
        symbols, right = torch.eye(task.d_output // hops).double(), batch.targets[0]
    for query, hop in (right != NOT_ASKED).nonzero().tolist():
        answer = symbols[right[query, hop]]
        others = symbols[torch.arange(len(symbols)) != right[query, hop]]
        normals = symbols.new_zeros(len(others), queries, hops, symbols.shape[1])
        normals[:, query, hop] = answer - others
        found.append((normals.flatten(2), (others.square().sum(-1) - answer.square().sum()) / 2))
    return torch.cat([normals for normals, _ in found]), torch.cat([offsets for _, offsets in found])


# Regions and attacks ---------------------------------------------------------------------------------------------


def laboratory(model: Model, batch: Batch, row: int) -> tuple[Evaluator, Embeddings]:
    """A model in float64 with one sequence, and that sequence's embeddings."""
    one = batch.rows(slice(row, row + 1))
    if one.inputs.is_floating_point():
        one.inputs = one.inputs.double()
    lab = Evaluator(copy.deepcopy(model).double().requires_grad_(False), one)
    return lab, lab.model(one.inputs, cache=[STREAM])[1][STREAM][0]


def fillings(lab: Evaluator, centre: Embeddings) -> Zonotope | None:
    """All sequences that differ from one where the query's chain is not; None if it is everywhere.

    There any tokens may stand that are not in the chain: sums of their embeddings, with weights between 0 and 1.
    """
    tokens, model = lab.batch.inputs[0], lab.model
    chain = (lab.ground.roles.chain[0] >= 0).any(0)
    if tokens.is_floating_point() or bool(chain.all()):
        return None
    others = [token for token in range(len(model.W_E)) if token not in tokens[chain].tolist()]
    region, halves = [centre.clone()[None]], model.W_E[others] / 2
    for position in (~chain).nonzero()[:, 0].tolist():
        region[0][0, position] += halves.sum(0) - model.W_E[tokens[position]]
        region.append(centre.new_zeros(len(others), *centre.shape))
        region[-1][:, position] = halves
    return torch.cat(region)


def margins_at(lab: Evaluator, change: Change, stream: Embeddings, softer: float = 1.0) -> Float[Tensor, "rival"]:
    """The margins with another stream before the first layer, by the library's forward pass.

    Args:
        lab: the model and a sequence.
        change: of its attention.
        stream: before the first layer.
        softer: factor on all scores.
    """

    def changed(layer: int, actual: Tensor) -> Tensor:
        soft = actual if softer == 1.0 else (softer * actual.clamp(min=1e-300).log()).softmax(-1)
        return change.pattern(layer, soft, lab.ground)

    replace = {
        f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: changed(layer, actual) for layer in lab.layers
    }
    normals, offsets = rivals(lab.batch)
    at = lab.batch.task.query_positions
    outputs = lab.model(lab.batch.inputs, replace={STREAM: stream[None], **replace}, at=at)[0]
    return (normals * outputs).sum((1, 2)) + offsets


def descent(lab: Evaluator, change: Change, stream: Embeddings, softer: float = 1.0) -> tuple[float, Embeddings]:
    """The least margin somewhere, and its gradient."""
    stream = stream.detach().requires_grad_()
    margins = margins_at(lab, change, stream, softer)
    least = margins[margins.argmin()]
    return float(least.detach()), torch.autograd.grad(least, stream)[0]


def breaks(lab: Evaluator, change: Change, centre: Embeddings, radius: float) -> bool:
    """Whether steps along the gradient's sign (Madry et al., 2018) find a wrong answer within a radius.

    The gradient hardly sees attention that is saturated. So there is a second start, which sees scores as smaller.
    """
    for softer in SOFTER[: 1 if isinstance(change, Hard) else None]:
        stream = centre
        for _ in range(STEPS):
            _, gradient = descent(lab, change, stream, softer)
            stream = centre + (stream - radius * gradient.sign() - centre).clamp(-radius, radius)
            if float(margins_at(lab, change, stream).min()) <= 0:
                return True
    return False


def attacked(lab: Evaluator, change: Change, centre: Embeddings) -> float:
    """About the smallest radius at which an attack succeeds; `MOST` if none does below."""
    margin, gradient = descent(lab, change, centre)
    high = max(1e-3, 1.001 * margin / float(gradient.abs().sum().clamp(min=1e-9)))
    while high < MOST and not breaks(lab, change, centre, high):
        high *= 2
    return min(MOST, halved(lambda radius: not breaks(lab, change, centre, radius), high)[1])


def halved(holds: Callable[[float], bool], high: float) -> tuple[float, float]:
    """A number at which something holds, or 0, and a larger one at which it does not, near each other."""
    low = 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


# The program -----------------------------------------------------------------------------------------------------


def examined(lab: Evaluator, centre: Embeddings, change: Change) -> dict[str, Any]:
    """Of one sequence: the proven radius (None: no proof even at 0), the attacked one, and whether others are proven.

    The last is None where the query's chain is everywhere.
    """
    bounds, others = Bounds(lab, change), fillings(lab, centre)

    def holds(region: Zonotope) -> bool:
        return bool((bounds.margins(region) >= SLACK).all())

    if not holds(ball(centre, 0.0)):
        return {"proven": None, "attacked": None, "others": None}
    broken = attacked(lab, change, centre)
    radius, _ = halved(lambda radius: holds(ball(centre, radius)), broken)
    return {"proven": radius, "attacked": broken, "others": None if others is None else holds(others)}


def changes_of(made: Adversary, units: frozenset, identity: Sequence[str]) -> dict[str, Change]:
    """A circuit by hand and live, with the nulls that the search chose."""
    trier = Trier(made.model, made.task, identity=frozenset(map(Row.parse, identity)))
    return {"by hand": trier.by_hand(units), "live": trier.kept(units)}


def proofs(made: Adversary, seed: int) -> list[dict[str, Any]]:
    """What is proven of the circuit that the search finds in a model; nothing if it finds none."""
    circuit = discover(made.model, made.task)
    if circuit.verdict != "circuit":
        return []
    batch, found = made.task.sample(SEQUENCES, 100 + seed), []
    for test, change in changes_of(made, circuit.units, circuit.protocol["identity"]).items():
        for row in range(SEQUENCES):
            about = {"name": made.name, "kind": made.kind, "test": test, "sequence": row}
            found.append(about | examined(*laboratory(made.model, batch, row), change))
    return found


def by_kind(found: Sequence[dict[str, Any]]) -> str:
    """Medians over the sequences of each kind of model."""
    rows = []
    for kind in dict.fromkeys(one["kind"] for one in found):
        row = [kind, str(len({one["name"] for one in found if one["kind"] == kind}))]
        for test in ("by hand", "live"):
            some = [one for one in found if (one["kind"], one["test"]) == (kind, test)]
            held = [one for one in some if one["proven"]]
            row.append(f"{len(held)} of {len(some)}")
            row += [f"{statistics.median(one[name] for one in held):.3f}" if held else "–" for name in RADII]
            others = [one["others"] for one in some if one["others"] is not None]
            row.append(f"{sum(others)} of {len(others)}" if others else "–")
        rows.append(row)
    columns = ("proven", "radius", "attacked", "others")
    names = (f"{test}: {column}" for test in ("by hand", "live") for column in columns)
    return table(("kind", "models", *names), rows)


RADII = ("proven", "attacked")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--each", type=int, default=5, help="models of each kind (5)")
    parser.add_argument("--seed", type=int, default=0, help="of everything (0)")
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    began, found = time.process_time(), []
    for number in range(options.each):
        for made in (f(options.seed, kind, number) for f, kinds in DRAWN for kind in kinds):
            found += (new := proofs(made, options.seed))
            radii = [f"{one['test']} {one['proven']} < {one['attacked']}" for one in new]
            print(f"{made.name}: {'; '.join(radii) or 'no circuit'}", flush=True)
    print(by_kind(found))


DRAWN = ((adversary, BUILDS), (posed, OF_DEFINITION))


if __name__ == "__main__":
    main()

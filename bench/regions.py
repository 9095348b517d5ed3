"""Proofs that circuits of hand-built models suffice on whole regions of embeddings, not on samples alone.

    python -m bench.regions --each 5 --seed 0 --json bench/regions.json
    python -m bench.regions --every 0/induction/1                          (every sequence of one model's task)

All but a circuit's paths is null, by hand or live. The right answer is proven to be the model's wherever the stream
before the first layer is in a region: the ball of a radius, in the maximum norm, around the embeddings of a sequence;
or the embeddings of all sequences that have the same tokens in the chains that are asked, and any others elsewhere.
Bounds are those of `bench.bounds`. After Hadad, Katz and Bassan (2026, arXiv 2602.16823), who ask the same of
circuits of vision models. Beside each proven radius stands one at which an attack finds a wrong answer: the true radius
is between the two.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path as Files
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from bench.adversaries import BUILDS, Adversary, adversary
from bench.bounds import Bounds, Change, rivals
from bench.definition import KINDS as OF_DEFINITION, posed
from bench.exhaustive import Trier
from bench.verdicts import table
from bench.zonotopes import Zonotope, ball
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import discover
from hopscope.circuits.evaluator import Evaluator, Hard
from hopscope.circuits.units import Row
from hopscope.core.environment import code_version
from hopscope.models.base import Model
from hopscope.tasks.base import NOT_ASKED, Batch
from hopscope.tasks.induction import Induction

Embeddings = Float[Tensor, "position d_model"]
Found = dict[str, Any]  # of one sequence: name, kind, test, proven, attacked, others

SLACK = 1e-6  # margin from which on an answer is proven: rounding, some 1e-12 of the numbers, is not bounded
SEQUENCES = 2  # of each model
NEAR = 0.03  # share of a radius up to which it is looked for
STEPS = 6  # of an attack, at each radius
SOFTER = (1.0, 0.1)  # factors on scores by which an attack's gradient sees attention that is saturated
MOST = 100.0  # radius up to which attacks are tried
STREAM = "blocks.0.hook_resid_pre"
DRAWN = {**dict.fromkeys(BUILDS, adversary), **dict.fromkeys(OF_DEFINITION, posed)}  # who draws each kind
COLUMNS = ("proven", "radius", "attacked", "others")


# Regions and attacks ---------------------------------------------------------------------------------------------


def laboratory(model: Model, batch: Batch, row: int) -> tuple[Evaluator, Embeddings]:
    """A model in float64 with one sequence, and that sequence's embeddings."""
    one = batch.rows(slice(row, row + 1))
    if one.inputs.is_floating_point():
        one.inputs = one.inputs.double()
    lab = Evaluator(copy.deepcopy(model).double().requires_grad_(False), one)
    return lab, lab.model(one.inputs, cache=[STREAM])[1][STREAM][0]


def fillings(lab: Evaluator, centre: Embeddings) -> Zonotope | None:
    """All sequences that differ from one where none of its chains is; None if they are everywhere.

    There any tokens may stand that are in no chain: sums of their embeddings, with weights between 0 and 1.
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


def every_chain(task: Induction) -> Batch:
    """A sequence for every place, token and answer that induction can ask: all its sequences are fillings of these."""
    tokens, places = [], []
    for place, pair in itertools.product(range(task.length - 1), itertools.permutations(range(task.d_vocab), 2)):
        others = [token for token in range(task.d_vocab) if token not in pair][: task.length - 2]
        tokens.append([*others[:place], *pair, *others[place:]])
        places.append([place])
    return Batch(task, {"tokens": torch.tensor(tokens), "place": torch.tensor(places)})


def chains_proven(model: Model, task: Induction, change: Change) -> tuple[int, int]:
    """Of how many chains all fillings are proven, and how many there are; if all, every sequence of the task is."""
    batch, proven = every_chain(task), 0
    for row in range(len(batch)):
        lab, centre = laboratory(model, batch, row)
        region = fillings(lab, centre)
        proven += right(Bounds(lab, change), ball(centre, 0.0) if region is None else region)
    return proven, len(batch)


def right(bounds: Bounds, region: Zonotope) -> bool:
    """Whether the right answer is proven all over a region."""
    return bool((bounds.margins(region) >= SLACK).all())


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
    low, least = 0.0, high / 1000
    while high - low > NEAR * high and high > least:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


# The program -----------------------------------------------------------------------------------------------------


def examined(lab: Evaluator, centre: Embeddings, change: Change) -> Found:
    """Of one sequence: the proven radius (None: no proof even at 0), the attacked one, and whether others are proven.

    The last is None where chains are everywhere.
    """
    bounds, others = Bounds(lab, change), fillings(lab, centre)
    if not right(bounds, ball(centre, 0.0)):
        return {"proven": None, "attacked": None, "others": None}
    broken = attacked(lab, change, centre)
    radius, _ = halved(lambda radius: right(bounds, ball(centre, radius)), broken)
    return {"proven": radius, "attacked": broken, "others": None if others is None else right(bounds, others)}


def changes_of(made: Adversary, circuit: Circuit) -> dict[str, Change]:
    """A circuit by hand and live, with the nulls that the search chose."""
    trier = Trier(made.model, made.task, identity=frozenset(map(Row.parse, circuit.protocol["identity"])))
    return {"by hand": trier.by_hand(circuit.units), "live": trier.kept(circuit.units)}


def proofs(made: Adversary, seed: int) -> list[Found]:
    """What is proven of the circuit that the search finds in a model; nothing if it finds none."""
    circuit = discover(made.model, made.task)
    if circuit.verdict != "circuit":
        return []
    batch, found = made.task.sample(SEQUENCES, 100 + seed), list[Found]()
    for test, change in changes_of(made, circuit).items():
        labs = [laboratory(made.model, batch, row) for row in asked(batch)]
        found += [{"name": made.name, "kind": made.kind, "test": test} | examined(*lab, change) for lab in labs]
    return found


def asked(batch: Batch) -> list[int]:
    """The sequences in which anything is asked."""
    return [row for row, targets in enumerate(batch.targets) if bool((targets != NOT_ASKED).any())]


def by_kind(found: Sequence[Found]) -> str:
    """Of each kind of model how many sequences are proven, and medians over these."""
    rows = []
    for kind in dict.fromkeys(one["kind"] for one in found):
        here = [one for one in found if one["kind"] == kind]
        cells = [told([one for one in here if one["test"] == test]) for test in ("by hand", "live")]
        rows.append([kind, str(len({one["name"] for one in here})), *cells[0], *cells[1]])
    return table(("kind", "models", *(f"{test}: {name}" for test in ("by hand", "live") for name in COLUMNS)), rows)


def told(some: Sequence[Found]) -> list[str]:
    """Cells of the table, for one kind and test."""
    held = [one for one in some if one["proven"]]
    others = [one["others"] for one in some if one["others"] is not None]
    radii = [f"{statistics.median(one[name] for one in held):.2g}" if held else "–" for name in ("proven", "attacked")]
    return [f"{len(held)} of {len(some)}", *radii, f"{sum(others)} of {len(others)}" if others else "–"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--each", type=int, default=5, help="models of each kind (5)")
    parser.add_argument("--seed", type=int, default=0, help="of everything (0)")
    parser.add_argument("--json", metavar="FILE", help="also write everything here")
    parser.add_argument("--every", metavar="NAME", help="instead, all chains of a model of induction, live")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.every:
        seed, kind, number = options.every.split("/")
        made = DRAWN[kind](int(seed), kind, int(number))
        live = changes_of(made, discover(made.model, made.task))["live"]
        print("{} of {} chains are proven with all their fillings".format(*chains_proven(made.model, made.task, live)))
        return
    found, without = list[Found](), list[str]()
    for number, kind in itertools.product(range(options.each), DRAWN):
        made = DRAWN[kind](options.seed, kind, number)
        new = proofs(made, options.seed)
        found += new
        without += [] if new else [made.name]
        radii = (f"{one['test']} {one['proven']} of {one['attacked']}" for one in new)
        print(f"{made.name}: {', '.join(radii) or 'no circuit'}", flush=True)
        if options.json:
            about = {"hopscope": code_version(), "seed": options.seed, "each": options.each, "no circuit": without}
            Files(options.json).write_text(json.dumps(about | {"sequences": found}, separators=(",", ":")) + "\n")
    print(f"\n{by_kind(found)}")


if __name__ == "__main__":
    main()

"""Measurements of paths over training, at every checkpoint, on one set of sequences.

At every checkpoint: the attention on each path (Musat, ICLR 2025, section 9.1 and appendix D), the effect of silencing
it, and the loss of every hop. Attention and effects are kept per sequence, so that intervals are paired and one
bootstrap serves all of them. For a run that logged the measure `attention_on_path` during training, the means can be
read instead, at every logged step; there is then nothing per sequence, and no effect of silencing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.evaluator import AsIs, Evaluator, Silenced
from hopscope.circuits.units import Ground
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged
from hopscope.emergence.onset import PASSES, Array
from hopscope.models.base import Model, at_rest
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch

LEAST = 3  # checkpoints needed to follow anything
CHUNK = 64  # sequences per evaluator
MEASURE = "attention_on_path"
Watch = Callable[[str], None]
Kind = tuple[str, str, str]  # query role, key role, chain


@dataclass(frozen=True)
class Record:
    """The measurements of one run.

    Attributes:
        source: `checkpoints` or `streamed`.
        steps: increasing, at least three.
        attention: summed over the query positions of each sequence, (path, sequence, step).
        positions: the number of these positions, (path, sequence); streamed means count as one sequence of one.
        hops: losses by hop, (hop, step); NaN where no sequence asks it.
        effects: increase of each sequence's loss when a path is silenced, (path, sequence, step); None if streamed.
        hop_effects: increase of each asked hop's loss at the last step, (path, hop); None if streamed.
        chance: mean attention on each path in heads with uniform attention, (path); None if streamed.
    """

    source: str
    steps: list[int]
    attention: Array
    positions: Array
    hops: Array
    effects: Array | None = None
    hop_effects: Array | None = None
    chance: Array | None = None

    @property
    def n(self) -> int:
        """The number of sequences."""
        return self.attention.shape[1]

    def strength(self, path: int) -> Array:
        """Mean attention (0–1) on one path, over its query positions in all sequences, (step)."""
        return self.attention[path].sum(0) / self.positions[path].sum()

    def resampled(self, path: int, weights: Array) -> Array:
        """`strength` over resampled sequences, (sample, step); `weights` come from `resamples`.

        Sequences are weighted by their query positions, of which some may have more than others.
        """
        return weights @ self.attention[path] / (weights @ self.positions[path])[:, None].clip(1e-12)


# From checkpoints ------------------------------------------------------------------------------------------------


def recorded(run: Run, paths: Sequence[Path], n: int, seed: int, null: str, watch: Watch) -> Record:
    """Measure paths at every checkpoint, on n sequences of a seed; `null` is the pattern of silenced rows.

    Raises:
        BadInput: the run was not trained, has too few checkpoints, or lacks a path.
        Damaged: a checkpoint was altered.
    """
    return measured(str(run.path), trained_steps(run), run.at, run.task.sample(n, seed), paths, null, watch)


def measured(
    name: str,
    steps: list[int],
    at: Callable[[int], Model],
    batch: Batch,
    paths: Sequence[Path],
    null: str,
    watch: Watch,
) -> Record:
    """As `recorded`, for any models by step, on given sequences."""
    parts = []
    for index, step in enumerate(steps):
        watch(f"{name}: measuring step {step}, checkpoint {index + 1} of {len(steps)}")
        model = at(step)
        with at_rest(model):
            parts.append(at_checkpoint(model, batch, paths, null))
    positions = parts[0][1]
    attention, effects, hops = (torch.stack([part[i] for part in parts], -1).double().cpu().numpy() for i in (0, 2, 3))
    hop_effects = (hops[1:, :, -1] - hops[0, :, -1])[:, ~numpy.isnan(hops[0, :, -1])]
    chance = even_attention(Ground(batch, model.architecture), paths)
    return Record(
        "checkpoints", steps, attention, positions.double().cpu().numpy(), hops[0], effects, hop_effects, chance
    )


def even_attention(ground: Ground, paths: Sequence[Path]) -> Array:
    """Mean share of uniform attention on each path, over query positions that see a target, (path)."""
    chance = []
    for path in paths:
        mask = ground.entries(path)
        shares = mask.sum(-1) / ground.sees.sum(-1)
        chance.append(float(shares[mask.any(-1)].double().mean()))
    return numpy.array(chance)


def trained_steps(run: Run) -> list[int]:
    """The steps of a trained run's checkpoints. Raises BadInput if it was not trained, or there are too few."""
    check_trained(run)
    if len(run.steps) < LEAST:
        raise BadInput(
            f"{run.path} has weights of {len(run.steps)} steps, and emergence needs at least {LEAST}: train with more, "
            "such as --checkpoints 20"
        )
    return run.steps


def at_checkpoint(
    model: Model, batch: Batch, paths: Sequence[Path], null: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention and query positions (path, sequence), effects (path, sequence), losses by hop (1 + path, hop)."""
    task, targets = batch.task, batch.targets
    evaluators = [Evaluator(model, batch.rows(slice(i, i + CHUNK))) for i in range(0, len(batch), CHUNK)]
    attended = [attention(evaluator, paths) for evaluator in evaluators]
    sums, counts = (torch.cat(values, 1) for values in zip(*attended, strict=True))
    for path, count in zip(paths, counts, strict=True):
        if not count.any():
            raise BadInput(f"path '{path}': no {path.query} sees a {path.key} of {path.chain} chain in this task")
    changes = [AsIs(), *(Silenced(frozenset([path]), null) for path in paths)]
    outputs = torch.cat([evaluator.outputs(changes) for evaluator in evaluators], 1)
    single = torch.vmap(lambda output, target: task.loss(output[None], target[None]))
    losses = torch.stack([single(answers, targets) for answers in outputs])
    hops = torch.stack([task.hop_losses(answers, targets) for answers in outputs])
    return sums, counts, losses[1:] - losses[0], hops


def attention(evaluator: Evaluator, paths: Sequence[Path]) -> tuple[Tensor, Tensor]:
    """Attention on each path, summed over query positions that see a target, and their number, (path, sequence).

    Raises BadInput for a path that the model or the task lacks.
    """
    roles = evaluator.ground.roles
    names = list(dict.fromkeys((*roles.names, *roles.attended)))
    sums, counts = [], []
    for path in paths:
        evaluator.model.architecture.check_head(path.layer, path.head, f"path '{path}'")
        for role, known in ((path.query, names), (path.key, roles.attended)):
            if role not in known:
                raise BadInput(f"path '{path}': there is no role {role!r} here; the task has {', '.join(known)}")
        mask = evaluator.ground.entries(path)
        sums.append((evaluator.patterns[path.layer][:, path.head] * mask).sum((-2, -1)))
        counts.append(mask.any(-1).sum(-1))
    return torch.stack(sums), torch.stack(counts)


def check_trained(run: Run) -> None:
    """Raise BadInput for a run that was not trained here."""
    if run.config.origin is not None:
        how = {"build": "built by hand", "import": "imported"}.get(str(run.config.origin.get("by")), "made elsewhere")
        raise BadInput(f"{run.path} was {how}: it has no training in which paths could emerge")


# From what was streamed ------------------------------------------------------------------------------------------


def streamed(run: Run, paths: Sequence[Path]) -> Record:
    """Paths as the measure `attention_on_path` logged them during training, at every logged step.

    For a clamped run these are the clamped patterns.

    Raises:
        BadInput: the run was not trained, logged too little, or never logged a path.
    """
    rows = streamed_rows(run)
    seen = {name for _, strengths in rows for name in strengths}
    for path in paths:
        if str(path) not in seen:
            raise BadInput(f"path '{path}': {run.path} measured no such path while it trained")
    attended = [[[float(strengths.get(str(path), 0.0)) for _, strengths in rows]] for path in paths]
    hops = [[float(row["hop_losses"].get(hop, numpy.nan)) for row, _ in rows] for hop in run.task.hop_names]
    steps = [int(row["step"]) for row, _ in rows]
    return Record("streamed", steps, numpy.array(attended), numpy.ones((len(paths), 1)), numpy.array(hops))


def streamed_rows(run: Run) -> list[tuple[dict[str, Any], dict[str, float]]]:
    """The logged rows with strengths of paths, and the strengths. Raises BadInput if there are fewer than three."""
    check_trained(run)
    rows = [(row, row["measures"][MEASURE]) for row in run.rows if MEASURE in row.get("measures", {})]
    if len(rows) < LEAST:
        raise BadInput(
            f"{run.path} streamed {MEASURE} at {len(rows)} steps, and emergence needs at least {LEAST}: leave out "
            f"--streamed to measure its checkpoints, or train with --measures {MEASURE}"
        )
    return rows


# Which paths -----------------------------------------------------------------------------------------------------


def circuit_paths(run: Run, watch: Watch) -> list[Path]:
    """The paths of the run's circuit, in layer order: read from circuit.json, or searched for now.

    If no circuit was accepted, because the model has not solved its task, these are the paths that it uses.

    Raises:
        BadInput: there are none.
        Damaged: circuit.json was altered.
    """
    stored = run.path / "circuit.json"
    if stored.is_file():
        paths = stored_paths(run.finding(stored.name), str(stored))
    else:
        watch(f"{run.path}: looking for its circuit")
        circuit: Circuit = discover(run.model, run.task, Discovery(), watch)
        paths = [part.path for part in circuit.paths]
    if not paths:
        raise BadInput(f"{run.path} has no circuit whose paths could be followed; name some with --path, or use --all")
    return sorted(paths)


def stored_paths(stored: Any, name: str) -> list[Path]:
    """The paths in the value of a circuit.json. Raises Damaged."""
    try:
        return [Path.from_dict(values) for values in stored["paths"]]
    except (TypeError, KeyError, AttributeError, BadInput) as error:
        raise Damaged(f"{name} is altered: it holds no list of paths") from error


def strong_paths(run: Run, *, was_streamed: bool = False) -> list[Path]:
    """All paths whose final mean attention exceeds `PASSES`, in layer order. Raises BadInput if there are none."""
    final = final_strengths(run, was_streamed=was_streamed)
    strong = sorted(path for path, strength in final.items() if strength > PASSES)
    if not strong:
        raise BadInput(f"{run.path} ends with no path whose mean attention is above {PASSES:g}")
    return strong


def final_strengths(run: Run, *, was_streamed: bool = False) -> dict[Path, float]:
    """Every path's mean attention (0–1) in the newest model, on `CHUNK` sequences; or in the last logged row."""
    if was_streamed:
        return {Path.parse(name): strength for name, strength in streamed_rows(run)[-1][1].items()}
    return Evaluator(run.model, run.task.sample(CHUNK, 0)).strengths


def completed(run: Run, paths: Sequence[Path], kinds: Collection[Kind], *, was_streamed: bool = False) -> list[Path]:
    """A run's paths, with the strongest path of every kind (query role, key role, chain) that is missing.

    A path that never emerged is in no circuit of its run. Adding it makes the run count as one in which it did not
    emerge, instead of one without information.
    """
    missing = set(kinds) - {(path.query, path.key, path.chain) for path in paths}
    if not missing:
        return list(paths)
    final = final_strengths(run, was_streamed=was_streamed)
    of_kind = {kind: [path for path in final if (path.query, path.key, path.chain) == kind] for kind in missing}
    return sorted([*paths, *(max(those, key=lambda path: (final[path], path)) for those in of_kind.values() if those)])

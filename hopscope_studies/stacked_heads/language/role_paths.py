"""Attention from role to role in a real model: its strength, its attribution by gradient, and its exact effect.

A path is a head, an attending role, an attended role and whether both are of one chain (`hopscope.problem.paths`). The
metric is the log-odds of the right answer against the other acceptable ones, in nats. An effect is the metric with the
path edited minus the metric without, so a path that the answer needs has a negative effect. To knock out a path is to
mask its scores; the attention that is left on the row is scaled to sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.interventions.patterns import prescribed, visible
from hopscope.language.lens.attention import Edit, Lens
from hopscope.language.lens.prompts import Prompts
from hopscope.problem.paths import RELATIONS, Path, Relation
from hopscope.problem.roles import Roles

BATCH = 16
TINY = 1e-6


@dataclass(frozen=True)
class Looked:
    """The measurements of one forward pass over every prompt.

    Attributes:
        strengths: mean attention on paths (layer, relation, head, query_role, key_role), NaN where there is none.
        control: the same where the facts' chains are shuffled.
        odds: the metric; shape (prompt).
        correct: whether the right answer is the likeliest acceptable one; shape (prompt).
        top: the position that each head attends to most where the answer is due; shape (prompt, layer, head).
    """

    strengths: Tensor
    control: Tensor
    odds: Tensor
    correct: Tensor
    top: Tensor


class Look(Edit):
    """Records the strength of every path, with both labellings of the roles, and the most attended position."""

    def __init__(self, roles: Roles, control: Roles):
        self.roles, self.other = roles, control
        self.strengths: list[Tensor] = []
        self.control: list[Tensor] = []
        self.top: list[Tensor] = []

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        self.strengths.append(self.roles.strengths(pattern))
        self.control.append(self.other.strengths(pattern))
        self.top.append(pattern[:, :, -1].argmax(-1))
        return pattern


def look(lens: Lens, prompts: Prompts, control: Roles) -> Looked:
    """One forward pass over all prompts, without gradients.

    Args:
        lens: the model.
        prompts: the prompts.
        control: the roles of the same positions with the chains shuffled.
    """
    strengths, shuffled, odds, correct, top = [], [], [], [], []
    with torch.no_grad():
        for start in range(0, len(prompts), BATCH):
            batch = prompts.part(start, start + BATCH)
            seen = Look(batch.roles, Roles(control.names, control.chain[start : start + BATCH]))
            logits = lens.run(lens.embed(batch.ids), seen)
            strengths.append(torch.stack(seen.strengths) * len(batch))
            shuffled.append(torch.stack(seen.control) * len(batch))
            odds.append(batch.log_odds(logits))
            correct.append(batch.correct(logits))
            top.append(torch.stack(seen.top, 1))
    means = [torch.stack(found).sum(0) / len(prompts) for found in (strengths, shuffled)]
    # If there is no path, a rounding error divided by a count of 0 may have given infinity instead of NaN.
    means = [mean.masked_fill(mean.isinf(), torch.nan) for mean in means]
    return Looked(means[0], means[1], torch.cat(odds), torch.cat(correct), torch.cat(top))


def retrieval_scores(looked: Looked, prompts: Prompts) -> tuple[Tensor, int]:
    """How often a head attends most to the token that it copies when the right answer is produced (Wu et al., 2024).

    This is the last token of the last value of the chain that is asked about. Returns layer head, 0–1, and the number
    of prompts that were answered correctly.
    """
    roles = prompts.roles
    last = max((n for n in roles.names if n.startswith("value")), key=lambda name: (len(name), name))
    asked = roles.chain[:, roles.index("answer"), -1]
    place = (roles.chain[:, roles.index(last)] == asked[:, None]).float().argmax(1)
    hits = looked.top == place[:, None, None]
    return hits[looked.correct].float().mean(0), int(looked.correct.sum())


# By gradient


class Traced(Edit):
    """Records patterns, outputs, queries, keys and values, with their gradients after a backward pass."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Tensor]] = {"q": [], "k": [], "v": [], "pattern": [], "z": []}

    def keep(self, name: str, tensor: Tensor) -> Tensor:
        if tensor.requires_grad:
            tensor.retain_grad()
        self.kept[name].append(tensor)
        return tensor

    def inputs(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.keep("q", q), self.keep("k", k), self.keep("v", v)

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        return self.keep("pattern", pattern)

    def output(self, layer: int, z: Tensor) -> Tensor:
        return self.keep("z", z)


def trace(lens: Lens, batch: Prompts) -> Traced:
    """A forward and a backward pass; gradients are those of the metric's sum over the batch."""
    seen = Traced()
    with torch.enable_grad():
        logits = lens.run(lens.embed(batch.ids).requires_grad_(), seen)
        batch.log_odds(logits).sum().backward()
    return seen


def attributions(lens: Lens, prompts: Prompts, patterns: Tensor) -> tuple[Tensor, Tensor]:
    """First-order effects: of each head at its mean pattern, and of each path knocked out.

    Args:
        lens: the model.
        prompts: the prompts over which effects are averaged.
        patterns: the mean patterns; shape (layer, head, query, key).

    Returns:
        layer head; and layer relation head query_role key_role (NaN where there is no such path).
    """
    heads = torch.zeros(lens.n_layers, lens.n_heads)
    n_roles = len(prompts.roles.names)
    paths = torch.zeros(lens.n_layers, len(RELATIONS), lens.n_heads, n_roles, n_roles)
    for batch in prompts.batches(BATCH):
        kept = trace(lens, batch).kept
        with torch.no_grad():
            for layer in range(lens.n_layers):
                pattern = kept["pattern"][layer]
                slope = gradient(pattern)
                heads[layer] += ((patterns[layer] - pattern) * slope).sum((0, 2, 3))
                paths[layer] += path_attributions(pattern, slope, batch.roles)
    return heads / len(prompts), paths / len(prompts)


def gradient(tensor: Tensor) -> Tensor:
    """A tensor's gradient; zero if the metric does not depend on it."""
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


def path_attributions(pattern: Tensor, slope: Tensor, roles: Roles) -> Tensor:
    """Σ (pattern without the path − pattern) · slope over the batch; shape (relation, head, query_role, key_role)."""
    found = torch.full((len(RELATIONS), pattern.shape[1], len(roles.names), len(roles.names)), torch.nan)
    worth = pattern * slope  # batch head query key
    whole = worth.sum(-1, keepdim=True)
    sees = visible(pattern.shape[-1], causal=True)
    for relation, query, key in all_pairs(roles):
        mask = roles.pairs(roles.names[query], roles.names[key], relation) & sees
        if not mask.any():
            continue
        rows = mask.any(0).any(-1)  # positions that hold the role in any prompt
        on = mask[:, None, rows].to(pattern.dtype)
        share = (pattern[:, :, rows] * on).sum(-1)
        lost = (worth[:, :, rows] * on).sum(-1)
        rest = whole[:, :, rows, 0] - lost
        can = share < 1 - TINY
        change = torch.where(can, -lost + share / (1 - share).clamp(min=TINY) * rest, 0)
        found[RELATIONS.index(relation), :, query, key] = change.sum((0, 2))
    return found


def all_pairs(roles: Roles) -> Iterator[tuple[Relation, int, int]]:
    """Every relation with every pair of roles, by index."""
    for relation in RELATIONS:
        for query in range(len(roles.names)):
            for key in range(len(roles.names)):
                yield relation, query, key


def ranked(effects: Tensor, roles: Roles, most: int) -> list[tuple[Path, float]]:
    """The paths with the greatest effects of either sign, the greatest first."""
    flat = effects.nan_to_num(0).flatten()
    best = flat.abs().topk(min(most, len(flat))).indices
    found = []
    for index in best.tolist():
        layer, relation, head, query, key = (int(i) for i in torch.unravel_index(torch.tensor(index), effects.shape))
        path = Path(layer, head, roles.names[query], roles.names[key], RELATIONS[relation])
        found.append((path, float(flat[index])))
    return found


# Exactly


class KnockOut(Edit):
    """Paths masked: no attention on them, and the rest of each row scaled to sum to 1.

    A row that attends to nothing else is left as it is.
    """

    def __init__(self, paths: Iterable[Path], roles: Roles):
        self.paths, self.roles = tuple(paths), roles
        self.first = min((path.layer for path in self.paths), default=0)

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        here = [path for path in self.paths if path.layer == layer]
        if not here:
            return pattern
        kept = torch.ones_like(pattern)
        for path in here:
            kept[:, path.head] *= ~self.roles.pairs(path.query, path.key, path.chain)
        left = (pattern * kept).sum(-1, keepdim=True)
        return torch.where(left > TINY, pattern * kept / left.clamp(min=TINY), pattern)


class ByHand(Edit):
    """Ideal paths: the rows of a path's attending role have all their attention on its attended role."""

    def __init__(self, paths: Iterable[Path], roles: Roles):
        self.paths, self.roles = tuple(paths), roles
        self.first = min((path.layer for path in self.paths), default=0)

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        here = [path for path in self.paths if path.layer == layer]
        return prescribed(pattern, here, self.roles, visible(pattern.shape[-1], causal=True)) if here else pattern


@dataclass(frozen=True)
class Base:
    """Prompts with the residual stream before every layer, so an edit is computed only from its layer on."""

    prompts: Prompts
    streams: list[Tensor]
    odds: Tensor

    def odds_with(self, lens: Lens, edit: Edit) -> Tensor:
        """The metric under an edit; shape (prompt)."""
        with torch.no_grad():
            return self.prompts.log_odds(lens.run(self.streams[edit.first], edit, start=edit.first))


def base(lens: Lens, prompts: Prompts) -> Base:
    """The unchanged model on some prompts."""
    with torch.no_grad():
        streams, logits = lens.streams(prompts.ids)
    return Base(prompts, streams, prompts.log_odds(logits))


@dataclass(frozen=True)
class Means:
    """The averages of heads over prompts of one length, position by position.

    Attributes:
        patterns: layer head query key.
        outputs: layer position head d_head.
    """

    patterns: Tensor
    outputs: Tensor


def means_of(lens: Lens, prompts: Prompts) -> Means:
    """The mean pattern and the mean output of every head."""
    totals: list[list[Tensor]] = [[], []]
    with torch.no_grad():
        for batch in prompts.batches(BATCH):
            seen = Traced()
            lens.run(lens.embed(batch.ids), seen)
            for total, name in zip(totals, ("pattern", "z"), strict=True):
                total.append(torch.stack([found.sum(0) for found in seen.kept[name]]))
    patterns, outputs = (torch.stack(total).sum(0) / len(prompts) for total in totals)
    return Means(patterns, outputs)

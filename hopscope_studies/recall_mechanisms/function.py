"""The MLP that applies the function, such as country to capital: chosen on one half of the groups, judged on the other.

It is the MLP that adds most to the answer against other answers of its relation. Its output is then explained by
regression (`regression`), with the answers of other subjects as a control.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.language.lens.ablation import Head, short
from hopscope.language.lens.estimates import Number
from hopscope_studies.recall_mechanisms.known import Prompts
from hopscope_studies.recall_mechanisms.parts import Recall
from hopscope_studies.recall_mechanisms.regression import Design, each
from hopscope_studies.recall_mechanisms.topic import DRAWS

SUBJECT, ANSWER, REST = "subject", "answer", "rest of the stream"


def function(prompts: Prompts, topic: Sequence[Head], seed: int) -> dict[str, Any]:
    """All measurements of the function in one model."""
    added = prompts.fact.mlps
    layer = int(added[prompts.first].mean(0).argmax())
    before = [head for head in topic if head[0] <= layer]
    made = design(prompts, layer, before)
    return {
        "layer": layer,
        "mlps": [prompts.judged(one) for one in added.T],
        "mixed": [
            prompts.judged(prompts.gather(partial(of_others, layer=layer, seed=100 * seed + draw)))["mean"]
            for draw in range(DRAWS)
        ],
        "regression": regression(made, before, seed),
        "intercept": intercept(prompts, made),
    }


def of_others(one: Recall, layer: int, seed: int) -> Tensor:
    """An MLP's addition to the answer of another subject of the sentence; shape (fact)."""
    order = torch.randperm(len(one.asks.groups), generator=generator(seed, "mixed answers"))
    other = torch.empty_like(order)
    other[order] = order.roll(1)
    along = one.folded(one.wrote.streams[:, -1]) * one.answer_among_its_kind[other]
    return torch.einsum("fd,fd->f", one.wrote.mlps[:, layer], along)


def design(prompts: Prompts, layer: int, heads: Sequence[Head]) -> Design:
    """The regression of an MLP's output on subject, answer, topic heads and other inputs; fitted on the first half."""
    names = [SUBJECT, ANSWER, *(short(head) for head in heads), REST]
    return Design(
        names,
        prompts.gather(lambda one: vectors(one, layer, heads)),
        prompts.gather(lambda one: one.wrote.mlps[:, layer]),
        prompts.batches,
        prompts.first,
        prompts.groups,
    )


def vectors(one: Recall, layer: int, heads: Sequence[Head]) -> Tensor:
    """Directions of length 1, the heads' outputs, and the rest of the stream before an MLP; (fact, vector, d_model)."""
    units = [one.unit(row) for row in (one.subject_among_its_kind, one.answer_among_its_kind)]
    written = one.written(heads)
    rest = one.wrote.streams[:, layer + 1] - one.wrote.mlps[:, layer] - written.sum(1)
    return torch.cat([torch.stack(units, 1), written, rest[:, None]], 1)


def regression(made: Design, heads: Sequence[Head], seed: int) -> dict[str, Any]:
    """The variation explained on the other half, by which vectors, and with facts shuffled."""
    names = [name for name in made.names if name != ANSWER]
    read = made.only(names)
    return {
        "read": read.explained(),
        "read_mixed": each(read, names, lambda one: one.explained(), DRAWS, seed),
        "all": made.explained(),
        "gain": made.gain(ANSWER),
        "gain_mixed": each(made, [ANSWER], lambda one: one.gain(ANSWER), DRAWS, seed),
        "numbers": {name: made.number(name) for name in (SUBJECT, ANSWER, REST)},
        "answer_mixed": each(made, [ANSWER], lambda one: one.number(ANSWER), DRAWS, seed),
        "heads": {short(head): made.number(short(head)) for head in heads},
    }


def intercept(prompts: Prompts, made: Design) -> Number:
    """The intercept's addition to answers that were not fitted, minus that to answers of other relations."""
    every = torch.cat([one.asks.choices for one in prompts.recalls]).unique()
    return prompts.judged((prompts.gather(lambda one: of_its_kind(one, every)) * made.intercepts()).sum(1))


def of_its_kind(one: Recall, every: Tensor) -> Tensor:
    """The answer minus the mean answer of other relations, with the final norm of its prompt; shape (fact, d_model)."""
    others = every[~torch.isin(every, one.asks.choices)]
    rest = one.unembedding[others].mean(0) if len(others) else one.unembedding.mean(0)
    return one.folded(one.wrote.streams[:, -1]) * (one.unembedding[one.asks.answers] - rest)

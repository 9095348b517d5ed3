"""What heads, MLPs and layers add to what is known about a subject, and the model's answer after each layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hopscope.language.lens.estimates import mean_of, over_needles
from hopscope_studies.recall_mechanisms.known import Prompts, ratio
from hopscope_studies.recall_mechanisms.parts import Recall


def of_parts(prompts: Prompts) -> dict[str, Any]:
    """What is known about the subject, in nats, and the parts that heads, MLPs and the embedding add."""
    fact = prompts.fact
    rows = torch.stack([fact.total, fact.embedding, fact.heads.sum((1, 2)), fact.mlps.sum(1)], 1)
    names = ("total", "embedding", "heads", "mlps")
    relations = [prompts.recalls[number].asks.relation for number in prompts.batches.tolist()]
    return {
        "nats": {name: prompts.all(rows[:, i]) for i, name in enumerate(names)},
        "share": {name: prompts.all(rows, ratio(i)) for i, name in enumerate(names) if i},
        "layers": [prompts.all(one) for one in fact.layers.T],
        "mlps": [prompts.all(one) for one in fact.mlps.T],
        "relations": {
            name: of_relation(prompts, rows, torch.tensor([one == name for one in relations]))
            for name in dict.fromkeys(relations)
        },
    }


def of_relation(prompts: Prompts, rows: Tensor, some: Tensor) -> dict[str, Any]:
    """One relation: the MLPs' share, and the last layer's addition to the answer."""
    groups = prompts.groups_where(some)
    return {
        "prompts": len(groups),
        "mlps": over_needles(ratio(3), rows[some], groups),
        "last_layer": mean_of(prompts.answer.layers[some, -1], groups),
    }


PARTS = ("relation", "subject")


def by_layer(prompts: Prompts) -> dict[str, Any]:
    """Both parts of an answer, as read out after every layer (logit lens, with the final norm).

    The parts are those of the toy study of facts. The relation's part is the relation whose answers together are the
    most probable, with the loss −ln of their probability. The subject's part is the answer among them, with the loss
    −ln of its share. The choices are the answers of all relations. Relations with more answers are not more probable
    for it.
    """
    relations = {one.asks.relation: one.asks.choices for one in prompts.recalls}
    costs, right = prompts.gather(lambda one: parts_of(one, relations)).unbind(1)
    answers = float(prompts.gather(n_answers).mean())
    chances = [1 / len(relations), 1 / answers]

    def known(means: Tensor) -> Tensor:
        return first(means > (1 + torch.tensor(chances)) / 2)

    def halved(means: Tensor) -> Tensor:
        return first(means < -torch.tensor(chances).log() / 2)

    return {
        "loss": {name: [prompts.all(one) for one in costs[:, :, i].T] for i, name in enumerate(PARTS)},
        "right": {name: [prompts.all(one) for one in right[:, :, i].T] for i, name in enumerate(PARTS)},
        "chance": dict(zip(PARTS, chances, strict=True)),
        "known": {name: prompts.all(right, partial(of_part, known, i)) for i, name in enumerate(PARTS)},
        "halved": {name: prompts.all(costs, partial(of_part, halved, i)) for i, name in enumerate(PARTS)},
        "subject_later": prompts.all(costs, lambda means: halved(means)[:, 1] - halved(means)[:, 0]),
    }


def of_part(of: Callable[[Tensor], Tensor], part: int, means: Tensor) -> Tensor:
    """A statistic of one part."""
    return of(means)[:, part]


def parts_of(one: Recall, relations: dict[str, Tensor]) -> Tensor:
    """Losses of both parts, and whether they are right, for every fact of a sentence; shape (fact, 2, layer, part)."""
    logits = read(one, relations)
    sizes = torch.tensor([float(len(some)) for some in relations.values()])
    blocks = torch.stack([some.logsumexp(-1) for some in logits.values()], -1) - sizes.log()
    own = list(relations).index(one.asks.relation)
    place = (one.asks.choices[None] == one.asks.answers[:, None]).double().argmax(1)
    there = logits[one.asks.relation]
    chosen = there.log_softmax(-1)[torch.arange(len(place)), :, place]
    right = torch.stack([blocks.argmax(-1) == own, there.argmax(-1) == place[:, None]], -1)
    costs = -torch.stack([blocks.log_softmax(-1)[..., own], chosen], -1)
    return torch.stack([costs, right.to(costs.dtype)], 1)


def read(one: Recall, relations: dict[str, Tensor]) -> dict[str, Tensor]:
    """The logits of each relation's answers after every layer; shape (fact, layer, answer)."""
    normed = one.lens.model.model.norm(one.wrote.streams)
    return {name: normed @ one.unembedding[tokens].T for name, tokens in relations.items()}


def n_answers(one: Recall) -> Tensor:
    """The number of answers of each fact's relation."""
    return torch.full((len(one.asks.groups),), float(len(one.asks.choices)))


def first(there: Tensor) -> Tensor:
    """The first layer after which a condition holds, or the number of layers if it never does.

    Args:
        there: … layer part.
    """
    return torch.where(there.any(-2), there.double().argmax(-2), there.shape[-2]).double()

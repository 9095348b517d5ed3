"""What the measures of recall and of association share: log-probabilities of two answers to every question.

One is the answer given by the context. The other is the likeliest answer regardless of the context: a task's
`global_answer` if it has one, or else the commonest target of the batch. If symbols are vectors, outputs are read as
symbols with standard normal noise. They then give a distribution over the sequence's symbols and the zero vector, which
is the symbols' mean and the best constant answer.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.measures.base import Observation
from hopscope.tasks.base import NOT_ASKED, TokenTask, VectorTask

#: Log-probabilities (nats) of the context's answer and of the global one, one per question and hop that is asked.
Answers = tuple[Float[Tensor, "answer"], Float[Tensor, "answer"]]


def answers(seen: Observation) -> Answers:
    """The log-probabilities of both answers to all questions of a batch."""
    if isinstance(seen.task, TokenTask):
        return of_tokens(seen, seen.task)
    assert isinstance(seen.task, VectorTask)
    return of_vectors(seen, seen.task)


def of_tokens(seen: Observation, task: TokenTask) -> Answers:
    """The answers' log-probabilities from the softmax of the logits."""
    recalled = task.recalled(seen.batch.draw)  # batch query hop
    asked = recalled != NOT_ASKED
    token = int(recalled[asked].mode().values) if task.global_answer is None else task.global_answer
    chances = task.logits(seen.outputs).log_softmax(-1).expand(*recalled.shape, -1)
    right = chances.gather(-1, recalled.clamp(min=0)[..., None])[..., 0]
    return right[asked], chances[..., token][asked]


def of_vectors(seen: Observation, task: VectorTask) -> Answers:
    """The answers' log-probabilities from the distances to the sequence's symbols and to zero."""
    symbols = task.candidates(seen.batch.draw)
    symbols = torch.cat([symbols, torch.zeros_like(symbols[:, :1])], 1)
    guesses = seen.outputs.float().unflatten(-1, (-1, task.d_symbol))  # batch query hop d_symbol
    distances = torch.cdist(guesses.flatten(1, 2), symbols).unflatten(1, guesses.shape[1:3])
    chances = (-0.5 * distances.square()).log_softmax(-1)
    right = chances.gather(-1, task.asked(seen.batch.draw)[..., None])[..., 0]
    return right.flatten(), chances[..., -1].flatten()

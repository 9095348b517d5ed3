"""More hops than trained: the accuracy of a finished run on longer chains, when its layers run more often (ours).

A model that is asked only for the last hop gives one answer whatever the chain's length, so it can be tested on longer
chains. Answers within a sequence are dependent, so intervals are over sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from hopscope.core.intervals import wilson_of_mean
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, check_range
from hopscope.models.base import Model
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Task
from hopscope.tasks.base_sheets import ChainTask


def further(
    model: Model, task: Task, hops: Iterable[int], loops: Iterable[int], chains: int = 0, n: int = 256, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Accuracy by number of hops and number of loops, on fresh sequences that are the same for all numbers of loops.

    Args:
        model: a transformer that was trained on the task.
        task: a task of chains that asks only the last hop, such as `retrieval` under the curriculum `mixture`.
        hops: numbers of hops to test; they may exceed those of training.
        loops: how often the layers run; 1 is the normal pass of a model without loops.
        chains: number of chains; 0: as in training.
        n: number of sequences.
        seed: of the sequences.

    Yields:
        `{hops, loops, chains, accuracy, low, high, n}`, the 95 % Wilson interval between low and high.

    Raises:
        BadInput: the model is no transformer, or of a task of other sizes; the task asks other hops than the last; n or
            a number of loops is below 1.
    """
    if not isinstance(model, Transformer) or not isinstance(task, ChainTask) or task.asked_hops != slice(-1, None):
        raise BadInput(
            "more hops are asked of a transformer whose task of chains asks the last hop alone, such as retrieval "
            "under the curriculum mixture"
        )
    sizes = (model.b_E is None, len(model.W_E), model.W_U.shape[1])
    if sizes != (task.d_input is None, task.d_input or task.d_vocab, task.d_output):
        raise BadInput(f"the model was made for another task than {task.name()}, of other sizes; give its run's task")
    check_range("n", n, {"low": 1})
    loops = list(loops)
    for asked in hops:
        posed = task.at(asked).but(n_chains=chains or task.n_chains)
        batch = posed.sample(n, generator(seed, "further", asked, model.device))
        for times in loops:
            longer = model.looped(times, n_positions=posed.n_positions)
            with torch.no_grad():
                right = posed.correct(longer(batch.inputs, at=posed.query_positions), batch)
            shares = right[:, -1].view(n, -1).float().mean(1).tolist()
            low, high = wilson_of_mean(shares)
            found = {"accuracy": sum(shares) / n, "low": low, "high": high, "n": n}
            yield {"hops": asked, "loops": times, "chains": posed.n_chains, **found}

"""More hops than trained: the accuracy of a finished run on longer chains, when its layers run more often (ours).

A model that is asked for the last hop alone puts out one answer, whatever the chain's length, so it can be asked for
any. Answers of one sequence depend on each other: intervals count sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from hopscope.core.intervals import wilson_of_mean
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Task
from hopscope.tasks.base_sheets import ChainTask


def further(
    model: Model, task: Task, hops: Iterable[int], loops: Iterable[int], chains: int = 0, n: int = 256, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Accuracy by hops asked and loops run, on fresh sequences, the same for all loops.

    Args:
        model: trained on the task.
        task: of chains, with a curriculum that asks the last hop alone.
        hops: how many the chains have, all of which are followed; more than in training, too.
        loops: how many times the layers run; of a model without loops 1 is what it was trained with.
        chains: how many there are; 0: as many as in training.
        n: sequences.
        seed: of the sequences.

    Yields:
        `{hops, loops, chains, accuracy, low, high, n}`, the 95 % Wilson interval between low and high.

    Raises:
        BadInput: a model without looped depth, or a task whose answers are as many as its hops.
    """
    if not isinstance(model, Transformer) or not isinstance(task, ChainTask) or task.taught_by.asks_every_hop:
        raise BadInput(
            "more hops are asked of a transformer whose task of chains has a curriculum that asks the last hop alone, "
            "such as mixture"
        )
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

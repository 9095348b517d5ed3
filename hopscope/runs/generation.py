"""Text that a model writes: one character at a time, sampled from its predictions."""

from __future__ import annotations

import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.runs.run import Run
from hopscope.tasks.text import Text


@torch.no_grad()
def generate(run: Run, n: int, prompt: str = "\n", seed: int = 0) -> str:
    """The prompt and n further characters, sampled from the run's newest model at temperature 1.

    Args:
        run: a run of the task `text`.
        n: number of further characters.
        prompt: at least one character; the model sees only the last ones, as many as in training.
        seed: equal seeds give equal texts.

    Raises:
        BadInput: the run is of another task, or the prompt is empty or has a character that its text lacks.
    """
    task, model = run.task, run.model
    if not isinstance(task, Text):
        raise BadInput(f"{run.path} is of the task {task.name()}; text is written by runs of the task text")
    if not prompt:
        raise BadInput("a prompt must have at least one character")
    tokens, random = task.encode(prompt), generator(seed, "generation")
    for _ in range(n):
        law = model(tokens[None, -task.length :], at=slice(-1, None))[0, 0].double().softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(law, 1, generator=random)])
    return task.decode(tokens)

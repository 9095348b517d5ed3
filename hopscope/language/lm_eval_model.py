"""A model for EleutherAI's lm-evaluation-harness that asks a server as `hopscope lm evaluate` does.

    python -m hopscope.language.lm_eval_model run --model hopscope --model_args base_url=http://127.0.0.1:8080/v1 \\
        --include_path FOLDER --tasks hopscope

lm-eval's own clients fail if a server refuses a field. They treat an answer that was cut off as complete, and content
in parts as an empty text. This client handles all of these as hopscope does, so that a server gets the same score in
both. It needs lm-eval and hopscope in one environment.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import lm_eval.models  # noqa: F401 - lm-eval does not load its own models once another one is registered
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from hopscope.core.settings import BadInput
from hopscope.language.agreement import checked
from hopscope.language.backends.base import Sampling, Unreachable
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.layouts.base import Rendered
from hopscope.language.protocols.base import text_in
from hopscope.language.turns import Habits


@register_model("hopscope")
class Asked(LM):
    """A model behind an OpenAI-compatible endpoint, for the tasks that `hopscope lm ask --export` writes.

    Args:
        base_url: the address before /chat/completions.
        model: the model's name there; may be omitted if the server lists only one.
        chat: whether texts are requested as chat; log-likelihoods never are.
        omit: names of fields that are never sent, separated by blanks.
        **its: lm-eval's settings of batches and devices, which have no effect.
    """

    def __init__(self, base_url: str, model: str = "", chat: bool = True, omit: str = "", **its: Any):
        super().__init__()
        if alien := sorted(its.keys() - {"batch_size", "max_batch_size", "device"}):
            raise BadInput(f"--model_args are base_url, model, chat and omit; got {alien[0]!r}")
        self.endpoint, self.chat, self.habits = Endpoint(base_url, model, omit=omit.split()), chat, Habits()

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Generated texts without their thoughts; a text that was cut off is empty.

        Raises:
            BadInput: all texts of a task were cut off.
            Unreachable: the server did not answer.
        """
        asked, how = zip(*(self.as_ours(*arguments) for arguments in arguments_of(requests)), strict=True)
        answers = [text.said for text in self.endpoint.generate(asked, how)]
        self.habits.note(answers)
        for task in dict.fromkeys(request.task_name for request in requests):
            of_task = Habits()
            of_task.note([said for said, request in zip(answers, requests, strict=True) if request.task_name == task])
            of_task.check(self.endpoint.model, accepted=of_task.n)
        return [text_in(answer) for answer in answers]

    def as_ours(self, text: str, how: Mapping[str, Any]) -> tuple[Rendered, Sampling]:
        """A request for a text, with the settings of the exported tasks."""
        return Rendered(text, self.chat, (), (), tuple(how["until"])), Sampling(0.0, how["max_gen_toks"], 0)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """The log-likelihood (nats) of each complete answer, and whether it is the most likely one to its question.

        Raises:
            BadInput: the server cannot score, or its texts contradict its scores.
            Unreachable: the server did not answer.
        """
        asked = [
            Rendered(text, False, tuple(answer for _, answer in answers), ())
            for text, answers in groupby(arguments_of(requests), key=lambda arguments: arguments[0])
        ]
        all_scores = self.endpoint.log_likelihoods(asked)
        for index, (request, scores) in enumerate(zip(asked, all_scores, strict=True)):
            checked(self.endpoint, request, scores, index)
        return [(score, score == max(scores)) for scores in all_scores for score in scores]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        raise BadInput("hopscope scores answers, not whole texts; use one of lm-eval's own models")

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval keeps with its results: the endpoint's identity, and how the texts ended."""
        left_out = self.endpoint.fields.left_out
        return {"hopscope": {**self.endpoint.identity, **self.habits.row, "left_out": left_out}}


def arguments_of(requests: Sequence[Instance]) -> list[tuple[Any, ...]]:
    """The arguments of requests. Raises BadInput for tasks that are not ours, which may use scores in other ways."""
    for request in requests:
        if not str(request.task_name).startswith("hopscope_"):
            raise BadInput(
                f"the model hopscope answers tasks that `hopscope lm ask --export` wrote; got {request.task_name}, for "
                "which lm-eval has models of its own"
            )
    return [request.args for request in requests]


def main(arguments: Sequence[str]) -> int:
    """The command `lm_eval` with the model `hopscope`; errors are one sentence and exit code 2."""
    sys.argv[1:] = arguments
    try:
        cli_evaluate()
    except (BadInput, Unreachable) as error:
        sys.stderr.write(f"hopscope: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

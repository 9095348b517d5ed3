"""Check on the first questions of every evaluation that a model's scores agree with the text that it generates.

They disagree if a token is appended to every scored prompt (trlx #287), if a chat template is applied to only one of
the two, or if a server makes up its log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.language.backends.base import Backend, Sampling
from hopscope.language.layouts.base import Rendered
from hopscope.language.protocols.log_likelihood import flaw_of
from hopscope.language.turns import Completion

AGREEING = 2  # questions on which scores are compared with text
ROUNDING = 0.05  # nats by which a server's scores may differ by rounding or batching (ours)


def checked(backend: Backend, request: Rendered, scores: Sequence[float], number: int) -> dict[str, Any]:
    """Check the scores of question `number` before they are kept, the first ones against text, as `agreed`.

    Raises:
        BadInput: they cannot be log-likelihoods, or text contradicts them.
    """
    if flaw := flaw_of(scores):
        raise BadInput(
            f"{backend.model}: the scores of question {number}'s answers {flaw}; score generated text instead "
            "(--protocol greedy_lenient)"
        )
    return agreed(backend, request, scores) if number < AGREEING else {}


def agreed(backend: Backend, request: Rendered, scores: Sequence[float]) -> dict[str, Any]:
    """Compare a model's greedy text with its scores, and return the beginning of the text for the record.

    The first token of a greedy text is at least as likely as any answer, because an answer is at most as likely as its
    own first token. The text may start another answer than the most likely one, but not with a less likely token. If it
    does, the question was not presented in the same way for scores and for text. If the first token is blank, the
    second one is used, and only compared with answers above 1/2. Nothing is compared if the text starts no answer, or
    was sampled because the server does not accept `temperature`.

    Raises:
        BadInput: text and scores contradict each other.
    """
    best = max(range(len(scores)), key=scores.__getitem__)
    likeliest = request.choices[best].strip()
    try:
        written, n_tokens = beginning(backend, request)
        text = written.strip()
        begun = [choice.strip() for choice in request.choices if text and choice.strip().startswith(text)]
        drawn = "temperature" in written.left_out
        if not begun or likeliest in begun or drawn or (n_tokens > 1 and scores[best] < log(0.5)):
            return {"text": str(written)}
        blanks = request.choices[best].removesuffix(request.choices[best].lstrip())
        spelt = [backend.log_likelihoods([replace(request, choices=(s,))])[0][0] for s in {str(written), blanks + text}]
    except BadInput:  # some backends can score and cannot generate
        return {}
    if max(spelt) < scores[best] - ROUNDING:
        raise BadInput(
            f"{backend.model} scores {likeliest!r} with probability {exp(scores[best]):.2f} and begins its text with "
            f"{text!r}, of probability {exp(max(spelt)):.2f}, which no model does: scores or texts are wrong; choose "
            "another layout or server"
        )
    return {"text": str(written)}


def beginning(backend: Backend, request: Rendered) -> tuple[Completion, int]:
    """The first token of a greedy text, or the first two if it is blank, and the number of tokens."""
    one = backend.generate([request], [Sampling(0.0, 1, 0)])[0]
    return (one, 1) if one.strip() else (backend.generate([request], [Sampling(0.0, 2, 0)])[0], 2)

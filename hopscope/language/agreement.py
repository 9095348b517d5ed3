"""Whether a model's scores and its texts are of the same question: checked on the first ones of every evaluation.

They part where a token is set behind every prompt that is scored (trlx #287), where a chat template is put around one
of the two, or where a server makes up its log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.language.backends.base import Backend, Sampling
from hopscope.language.layouts.base import Rendered
from hopscope.language.turns import Completion

AGREEING = 2  # questions of which scores are held against text
ROUNDING = 0.05  # nats by which servers may round, or compute a token otherwise in another batch (ours)


def agreed(backend: Backend, request: Rendered, scores: Sequence[float]) -> dict[str, Any]:
    """How a model begins its text to a question that it has scored, for the record.

    Of a text that is written greedily no token is likelier than the first, so that no answer is either: all its tokens
    together are at most as likely as its own first one. Raises BadInput where the text begins another answer than the
    likeliest, by a token that is scored below it: then questions are not put in the same way as scores and as text.
    Behind a token of blanks the second one is taken, and held against answers above 1/2 alone, which no other path can
    outdo. What begins no answer, as a sentence does, says nothing; nor does what was drawn, without `temperature`.
    """
    best = max(range(len(scores)), key=scores.__getitem__)
    likeliest = request.choices[best].strip()
    try:
        written, n_tokens = beginning(backend, request)
        text = written.strip()
        begun = [choice.strip() for choice in request.choices if text and choice.strip().startswith(text)]
        drawn = isinstance(written, Completion) and "temperature" in written.left_out
        if not begun or likeliest in begun or drawn or (n_tokens > 1 and scores[best] < log(0.5)):
            return {"text": str(written)}
        blanks = request.choices[best].removesuffix(request.choices[best].lstrip())
        spelt = [backend.log_likelihoods([replace(request, choices=(s,))])[0][0] for s in {str(written), blanks + text}]
    except (BadInput, NotImplementedError):  # what can be scored need not be written
        return {}
    if max(spelt) < scores[best] - ROUNDING:
        raise BadInput(
            f"{backend.model} scores {likeliest!r} with probability {exp(scores[best]):.2f} and begins its text with "
            f"{text!r}, of probability {exp(max(spelt)):.2f}, which no model does: scores or texts are wrong; choose "
            "another layout or server"
        )
    return {"text": str(written)}


def beginning(backend: Backend, request: Rendered) -> tuple[str, int]:
    """The first token of a greedy text, or the first two where that is blank; and how many."""
    one = backend.generate([request], [Sampling(0.0, 1, 0)])[0]
    return (one, 1) if one.strip() else (backend.generate([request], [Sampling(0.0, 2, 0)])[0], 2)

"""Whether a model's scores and its texts are of the same question: checked on the first ones of every evaluation.

They part where a token is set behind every prompt that is scored (trlx #287), where a chat template is put around one
of the two, or where a server makes up its log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.language.backends.base import Backend, Sampling
from hopscope.language.layouts.base import Rendered

AGREEING = 2  # questions of which scores are held against text


def agreed(backend: Backend, request: Rendered, scores: Sequence[float]) -> dict[str, Any]:
    """What the model writes to a question that it has scored, for the record.

    An answer that is given whole with a probability above 1/2 is how the likeliest text begins. Raises BadInput where
    the text begins with another answer: then questions are not put in the same way as scores and as text.
    """
    answers = [choice.strip() for choice in request.choices]
    likeliest = answers[max(range(len(scores)), key=scores.__getitem__)]
    try:
        limit = max(map(len, request.choices)) + 1
        text = str(backend.generate([request], [Sampling(0.0, limit, 0)])[0]).strip()
    except (BadInput, NotImplementedError):  # what can be scored need not be written
        return {}
    begins = sorted((answer for answer in answers if text.startswith(answer)), key=len)
    if max(scores) > log(0.5) + 1e-3 and begins and likeliest not in begins:
        raise BadInput(
            f"{backend.model} scores {likeliest!r} with probability {exp(max(scores)):.2f} and writes {text!r} to the "
            "same question, which no model does: scores or texts are wrong; choose another layout or server"
        )
    return {"text": text}

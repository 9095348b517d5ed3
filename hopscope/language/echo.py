"""Parse the responses of OpenAI-compatible servers: texts, and the log-probabilities of a given text.

Every parser takes the request's body and the response's JSON, and raises `Fault` for an invalid response.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from hopscope.language.backends.base import given_whole
from hopscope.language.server import Fault, WrongForm
from hopscope.language.turns import Completion, completion

#: The probe: a text, a likely continuation and an absurd one.
KNOWN, LIKELY, ABSURD = "Monday, Tuesday, Wednesday, Thursday,", " Friday", " xylophone"


class NoEcho(Fault):
    """The response does not hold the log-probabilities of the prompt, as `echo` requests."""


@dataclass(frozen=True)
class Echo:
    """A text as a server cuts it into tokens.

    Attributes:
        ends: where each token ends within the text.
        log_probs: each token's log-probability given all before it; None for the first token if nothing precedes it.
    """

    ends: tuple[int, ...]
    log_probs: tuple[float | None, ...]


def first_choice(answer: Any) -> Mapping[str, Any]:
    """The first choice of a response. Raises Fault if there is none."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if not isinstance(choices, Sequence) or not choices or not isinstance(choices[0], Mapping):
        raise Fault("an answer without choices")
    return choices[0]


def echo_or_flaw(body: Mapping[str, Any], answer: Any) -> Echo | NoEcho:
    """The prompt's own tokens, or the error as a value, so that a probe is not retried like a passing fault."""
    try:
        return echo_of(body, answer)
    except NoEcho as flaw:
        return flaw


def text_of(body: Mapping[str, Any], answer: Any) -> Completion:
    """The generated text.

    Raises Fault for `content: null`, and for reasoning without content unless the token limit was reached.
    """
    choice = first_choice(answer)
    holder = choice.get("message") if "messages" in body else choice
    if not isinstance(holder, Mapping):
        raise WrongForm("an answer without a message")
    text, inner = joined(holder.get("content" if "messages" in body else "text"))
    thoughts = holder.get("reasoning_content") or holder.get("reasoning") or inner
    thoughts = thoughts if isinstance(thoughts, str) else str(thoughts)
    reason = choice.get("finish_reason")
    if reason == "length" and thoughts and not text:
        return Completion("", reason, thoughts)
    if text is None or (text == "" and thoughts):
        raise Fault("content: null" if text is None else "reasoning, but no content", empty=True)
    return completion(text, reason if isinstance(reason, str) else "", thoughts)


def joined(content: Any) -> tuple[str | None, str]:
    """Content as one text, and the thoughts in it. Some servers send a list of typed parts."""
    if content is None or isinstance(content, str):
        return content, ""
    if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
        raise WrongForm("content that is neither a text nor a list of parts")
    texts = [part["text"] for part in content if isinstance(part.get("text"), str)]
    inner = [str(part["thinking"]) for part in content if part.get("thinking")]
    return "".join(texts), "\n".join(inner)


def echo_of(body: Mapping[str, Any], answer: Any) -> Echo:
    """The prompt's own tokens with their log-probabilities. Raises NoEcho, which says what was returned instead."""
    text, logprobs = body["prompt"], first_choice(answer).get("logprobs")
    if not isinstance(logprobs, Mapping):
        raise NoEcho("it returned no log-probabilities")
    tokens, log_probs = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if tokens is None and isinstance(content := logprobs.get("content"), Sequence):  # the format of chat
        entries = [entry if isinstance(entry, Mapping) else {} for entry in content]
        tokens, log_probs = [one.get("token") for one in entries], [one.get("logprob") for one in entries]
    if not all_strings(tokens) or not isinstance(log_probs, Sequence) or len(tokens) != len(log_probs):
        raise NoEcho("it returned log-probabilities without their tokens")
    for start in (0, 1):  # a token for the text's beginning, such as <s>, may come first
        ends = list(itertools.takewhile(lambda end: end <= len(text), itertools.accumulate(map(len, tokens[start:]))))
        if ends and "".join(tokens[start : start + len(ends)]) == text:
            return Echo(tuple(ends), finite(log_probs[: start + len(ends)])[start:])
    returned = "".join(tokens)
    if text in returned or returned.startswith(text[:8]):
        raise NoEcho("it returned tokens that do not make up the text")
    raise NoEcho(f"it ignored `echo` and returned only {returned[:40]!r}")


def all_strings(tokens: Any) -> TypeGuard[Sequence[str]]:
    return isinstance(tokens, Sequence) and bool(tokens) and all(isinstance(token, str) for token in tokens)


def finite(log_probs: Sequence[Any]) -> tuple[float | None, ...]:
    """Log-probabilities, checked to be finite and at most 0; the first may be missing. Raises NoEcho."""
    for value in log_probs if log_probs[0] is not None else log_probs[1:]:
        if not is_log_prob(value):
            raise NoEcho(f"it returned {value!r} as a log-probability")
    return tuple(log_probs)


def continuations(text: str, choices: Sequence[str], echoes: Sequence[Echo]) -> list[float]:
    """The log-likelihood (nats) of the choice after `text` in each echo.

    It is the sum over all tokens after the last token boundary that all echoes share. Usually that is the end of the
    text. If a token spans it, this token is counted with every choice. The order of choices is then still right, but
    all probabilities are too small by the factor of the text's last characters.
    """
    shared = {0, *echoes[0].ends}.intersection(*({0, *echo.ends} for echo in echoes))
    boundary = max(end for end in shared if end <= len(text))
    whole = [text + choice for choice in choices]
    tokens = [[w[a:b] for a, b in itertools.pairwise((0, *echo.ends))] for w, echo in zip(whole, echoes, strict=True)]
    return given_whole([after(echo, boundary) for echo in echoes], tokens)


def after(echo: Echo, boundary: int) -> float:
    """The summed log-probability of all tokens that end after position `boundary`. Raises NoEcho if one is missing."""
    values = [value for end, value in zip(echo.ends, echo.log_probs, strict=True) if end > boundary]
    if any(value is None for value in values):
        raise NoEcho("it returned no log-probability for the text's first token")
    return math.fsum(value for value in values if value is not None)


def flaw_of(likely: Echo | NoEcho, absurd: Echo | NoEcho) -> str:
    """The reason why the probe's echoes cannot be a model's log-probabilities; empty if there is none."""
    if isinstance(likely, NoEcho) or isinstance(absurd, NoEcho):
        return str(likely if isinstance(likely, NoEcho) else absurd)
    if len(values := {value for value in (*likely.log_probs, *absurd.log_probs) if value is not None}) < 2:
        return f"it gave every token the same log-probability {values}"
    try:
        good, bad = continuations(KNOWN, [LIKELY, ABSURD], [likely, absurd])
    except NoEcho as flaw:
        return str(flaw)
    return "" if abs(good - bad) > 1e-6 else f"it scored {LIKELY!r} and {ABSURD!r} as equally likely after {KNOWN!r}"


def alternatives(body: Mapping[str, Any], answer: Any) -> dict[str, float]:
    """The most likely first tokens with their log-probabilities, from either format; {} if there are none.

    Raises Fault for values that are not log-probabilities.
    """
    logprobs = first_choice(answer).get("logprobs")
    if not isinstance(logprobs, Mapping):
        return {}
    if "content" in logprobs and logprobs["content"] is not None:
        entries = first_of(first_of(logprobs["content"], Mapping).get("top_logprobs"), Mapping, every=True)
        pairs = [(entry.get("token"), entry.get("logprob")) for entry in entries]
    else:
        pairs = list(first_of(logprobs.get("top_logprobs"), Mapping).items())
    if not all(isinstance(token, str) and is_log_prob(value) for token, value in pairs):
        raise Fault("log-probabilities that are none")
    return {token: float(value) for token, value in reversed(pairs)}  # the first of equal tokens wins


def first_of(held: Any, kind: type, every: bool = False) -> Any:
    """The first element of a list of `kind`, or with `every` the list; empty if there is none. Else raises Fault."""
    if held is None or held == []:
        return [] if every else {}
    if not isinstance(held, list) or not all(isinstance(one, kind | None) for one in held):
        raise Fault("log-probabilities that are none")
    return held if every else held[0] or {}


def is_log_prob(value: Any) -> bool:
    """Whether a value may be a log-probability: a finite number of at most 0, with a margin for rounding."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value <= 1e-3

"""Extract the answer from a model's text, without its reasoning and without text after the end of its turn.

Reasoning models put thoughts before the answer, some servers leave them in the text (lm-eval #3145), and a chat
template may open them in the prompt, so that a text holds their end alone. A turn's end that is not the end of text is
written as text by servers that do not know it (lighteval #196).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hopscope.core.settings import BadInput

log = logging.getLogger("hopscope")

#: How thoughts begin and end: DeepSeek and Qwen, others alike, Mistral, Kimi, gpt-oss.
THOUGHTS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}
#: How turns end: ChatML, Llama 3, Gemma, Phi, gpt-oss, Llama 2, GPT-2.
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|return|>", "</s>", "<|endoftext|>")


class Completion(str):
    """A text that a model wrote, as its answer is read from it.

    Attributes:
        thoughts: what it wrote before the answer; a text whose thoughts do not end is empty.
        finish_reason: why it ended, in the words of the OpenAI protocol: `stop`, `length`; empty if not known.
        left_out: names of fields that were asked for, and that the server would not take.
    """

    thoughts: str
    finish_reason: str
    left_out: tuple[str, ...] = ()

    def __new__(cls, text: str, finish_reason: str = "", thoughts: str = "") -> Completion:
        made = super().__new__(cls, text)
        made.finish_reason, made.thoughts = finish_reason, thoughts
        return made

    @property
    def said(self) -> dict[str, str | list[str]]:
        """As a record keeps it: what is not known, or did not happen, is left out."""
        more: dict[str, str | list[str]] = {
            "finish_reason": self.finish_reason,
            "thoughts": self.thoughts,
            "left_out": list(self.left_out),
        }
        return {"text": str(self)} | {name: value for name, value in more.items() if value}


def completion(text: str, finish_reason: str = "", thoughts: str = "", stop: Sequence[str] = ()) -> Completion:
    """The answer in a text: behind its thoughts, before the turn's end and the first stop text.

    >>> said = completion("<think>1 or 2?</think>2<|im_end|>")
    >>> str(said), said.thoughts
    ('2', '1 or 2?')
    """
    inner, answer = apart(text)
    whole = cut(answer, (*stop, *TURN_ENDS))
    reason = "stop" if whole != answer and finish_reason == "length" else finish_reason
    return Completion(whole, reason, thoughts or inner)


def said_of(text: str) -> dict[str, Any]:
    """A text as a record keeps it, with how it came about where the backend says so."""
    return text.said if isinstance(text, Completion) else {"text": text}


def apart(text: str) -> tuple[str, str]:
    """The reasoning in a text, and the answer after it; reasoning that does not end takes the rest of the text."""
    for begin, end in THOUGHTS.items():
        if end in text:
            inner, _, answer = text.rpartition(end)
            return inner.replace(begin, "", 1).strip(), answer.lstrip()
    for begin in THOUGHTS:
        if begin in text:
            answer, _, inner = text.partition(begin)
            return inner.strip() or begin, answer.strip()
    return "", text


def cut_off(said: Mapping[str, Any]) -> bool:
    """Whether an answer came to no end: the limit of tokens was reached, or all of it is thoughts."""
    return said.get("finish_reason") == "length" or (bool(said.get("thoughts")) and not said["text"])


class Habits:
    """Counts over an evaluation of how a model's texts ended and what they contain."""

    def __init__(self) -> None:
        self.n = self.unfinished = self.thought = 0
        self.finish_reasons: Counter[str] = Counter()
        self.left_out: set[str] = set()
        self.first = ""

    def note(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """The answers to one question more."""
        for said in answers:
            reason, thoughts = said.get("finish_reason", ""), said.get("thoughts", "")
            self.first = self.first or str(said.get("text", ""))
            self.n += 1
            self.unfinished += cut_off(said)
            self.thought += bool(thoughts)
            self.finish_reasons.update([reason] if reason else [])
            self.left_out.update(said.get("left_out", ()))

    @property
    def row(self) -> dict[str, Any]:
        """As columns of a table."""
        reasons = json.dumps(dict(sorted(self.finish_reasons.items())))
        left_out = json.dumps(sorted(self.left_out))
        return {"finish_reasons": reasons, "thoughts": self.thought, "cut_off": self.unfinished, "left_out": left_out}

    def check(self, model: str, accepted: int) -> None:
        """Warn of texts of which none was read as an answer. Raises BadInput where none came to its end."""
        within = " in their thoughts" if self.thought else ""
        if self.n and self.unfinished == self.n:
            raise BadInput(
                f"all {self.n} answers of {model} were cut off{within} before they ended; raise --max-tokens, or score "
                "by --protocol log_likelihood"
            )
        if self.n and not accepted:
            log.warning(
                "%s: none of %d answers has the form that is asked for; the first is %r%s; --protocol greedy_lenient "
                "reads answers in sentences", model, self.n, self.first[:80],
                f", and {self.unfinished} were cut off{within}" if self.unfinished else "",
            )  # fmt: skip
        elif self.unfinished:
            log.warning("%s: %d of %d answers were cut off%s, and count as none; raise --max-tokens", model,
                        self.unfinished, self.n, within)  # fmt: skip


def cut(text: str, stop: Sequence[str]) -> str:
    """The text before its first stop text; some servers keep it, others do not know `stop`."""
    return text[: min((at for at in map(text.find, stop) if at >= 0), default=len(text))]

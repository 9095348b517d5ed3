"""Extract the answer from a model's text, without its reasoning and without text after the end of its turn.

Reasoning models write thoughts before the answer. Some servers leave them in the text (lm-eval #3145). A chat template
may open them in the prompt, so that a text only contains their end. A token that ends the turn but not the text is
written out as text by servers that do not know it (lighteval #196).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hopscope.core.settings import BadInput

log = logging.getLogger("hopscope")

#: Tags that open and close thoughts: DeepSeek and Qwen, similar models, Mistral, Kimi, gpt-oss.
THOUGHTS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}
#: Texts that end a turn: ChatML, Llama 3, Gemma, Phi, gpt-oss, Llama 2, GPT-2.
TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|return|>", "</s>", "<|endoftext|>")


class Completion(str):
    """The answer in a text that a model generated.

    Attributes:
        thoughts: the reasoning before the answer; if it does not end, the answer is empty.
        finish_reason: why the text ended, as in the OpenAI protocol: `stop` or `length`; empty if unknown.
        left_out: names of request fields that the server refused.
    """

    thoughts: str
    finish_reason: str
    left_out: tuple[str, ...] = ()

    def __new__(cls, text: str, finish_reason: str = "", thoughts: str = "") -> Completion:
        made = super().__new__(cls, text)
        made.finish_reason, made.thoughts = finish_reason, thoughts
        return made

    @property
    def said(self) -> dict[str, Any]:
        """The entry of a record: `text`, and the attributes that are not empty."""
        more = {"finish_reason": self.finish_reason, "thoughts": self.thoughts, "left_out": list(self.left_out)}
        return {"text": str(self)} | {name: value for name, value in more.items() if value}


def completion(text: str, finish_reason: str = "", thoughts: str = "", stop: Sequence[str] = ()) -> Completion:
    """The answer in a text: after its thoughts, before the end of the turn and the first stop text.

    >>> said = completion("<think>1 or 2?</think>2<|im_end|>")
    >>> str(said), said.thoughts
    ('2', '1 or 2?')
    """
    inner, answer = apart(text)
    whole = cut(answer, (*stop, *TURN_ENDS))
    reason = "stop" if whole != answer and finish_reason == "length" else finish_reason
    return Completion(whole, reason, thoughts or inner)


def apart(text: str) -> tuple[str, str]:
    """The reasoning in a text, and the answer after it. Reasoning that does not end takes the rest of the text."""
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
    """Whether an answer was cut off: it reached the token limit, or consists only of thoughts."""
    return said.get("finish_reason") == "length" or (bool(said.get("thoughts")) and not said["text"])


class Habits:
    """Counts over an evaluation: how a model's texts ended, and what they contain."""

    def __init__(self) -> None:
        self.n = self.unfinished = self.thought = 0
        self.finish_reasons: Counter[str] = Counter()
        self.left_out: set[str] = set()
        self.first = ""

    def note(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Count the answers to a further question."""
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
        """The counts as columns of a table."""
        reasons = json.dumps(dict(sorted(self.finish_reasons.items())))
        left_out = json.dumps(sorted(self.left_out))
        return {"finish_reasons": reasons, "thoughts": self.thought, "cut_off": self.unfinished, "left_out": left_out}

    def check(self, model: str, accepted: int, lenient: bool = False) -> None:
        """Warn if no text is acceptable, or some were cut off. Raises BadInput if all were cut off."""
        within = " in their thoughts" if self.thought else ""
        if self.n and self.unfinished == self.n:
            raise BadInput(
                f"all {self.n} answers of {model} were cut off{within} before they ended; raise --max-tokens, or score "
                "by --protocol log_likelihood"
            )
        if self.n and not accepted:
            log.warning(
                "%s: none of %d answers has the form that is asked for; the first is %r%s; --protocol %s",
                model, self.n, self.first[:80],
                f", and {self.unfinished} were cut off{within}" if self.unfinished else "",
                "log_likelihood scores the answers instead" if lenient else "greedy_lenient reads answers in sentences",
            )  # fmt: skip
        elif self.unfinished:
            log.warning("%s: %d of %d answers were cut off%s, and count as none; raise --max-tokens", model,
                        self.unfinished, self.n, within)  # fmt: skip


def cut(text: str, stop: Sequence[str]) -> str:
    """The text before its first stop text, because some servers include it, and others ignore `stop`."""
    return text[: min((at for at in map(text.find, stop) if at >= 0), default=len(text))]

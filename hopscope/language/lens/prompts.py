"""Questions as tokens with roles: characters are mapped to tokens, and every token of a fact has a role.

The roles are those of the spans (`hopscope.formulations.base`). The last token of a span holds its role, because a
causal model has seen the whole span there. Three more roles cover the other tokens of facts, through which information
can be passed on: `link[k]`, the other tokens between the key and the end of the value of fact k; `end[k]`, those after
it on its line; `ask`, those of the closing line. `answer` is the last position, where the answer is predicted; like
`query` and `ask` it belongs to the queried chain.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.formulations.base import Formulation, Question, Span, shifted
from hopscope.language.layouts.base import Layout, Rendered, in_template
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles

SOUNDED = 16  # questions that determine the most common length
DRAWS = 20  # questions drawn at most for each that is kept


@dataclass(frozen=True)
class Prompts:
    """Questions of equal length in tokens, so that no padding is needed.

    Attributes:
        ids: tokens; shape (batch, position).
        roles: of the positions.
        choices: the first tokens at which the acceptable answers differ; shape (batch, choice).
        right: index of the right choice; shape (batch).
        indices: the questions' numbers under their seed.
        tokens: the first question's tokens as text, for display.
    """

    ids: Tensor
    roles: Roles
    choices: Tensor
    right: Tensor
    indices: tuple[int, ...]
    tokens: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, end: int) -> Prompts:
        """The questions from `start` to `end`, exclusive."""
        rows = slice(start, end)
        roles = Roles(self.roles.names, self.roles.chain[rows])
        return Prompts(self.ids[rows], roles, self.choices[rows], self.right[rows], self.indices[rows], self.tokens)

    def batches(self, size: int) -> Iterator[Prompts]:
        """All questions in batches."""
        for start in range(0, len(self), size):
            yield self.part(start, start + size)

    def log_odds(self, logits: Tensor) -> Tensor:
        """log p(right) − log p(any other acceptable answer), in nats, from logits at the last position; (batch)."""
        chosen = logits.gather(1, self.choices)
        right = torch.nn.functional.one_hot(self.right, chosen.shape[1]).bool()
        return chosen[right] - chosen.masked_fill(right, -torch.inf).logsumexp(1)

    def correct(self, logits: Tensor) -> Tensor:
        """Whether the right answer is the most likely acceptable one, from logits at the last position; (batch)."""
        return logits.gather(1, self.choices).argmax(1) == self.right

    def shuffled(self, seed: int) -> Prompts:
        """A control: in every question, chains are permuted among the facts, separately for each role.

        Two positions with the same chain label then belong to the same chain only with probability 1/N.
        """
        generator = torch.Generator().manual_seed(seed)
        chain, n_chains = self.roles.chain.clone(), int(self.roles.chain.max()) + 1
        facts = [i for i, name in enumerate(self.roles.names) if "[" in name]
        for row in range(len(self)):
            for role in facts:
                order = torch.randperm(n_chains, generator=generator)
                numbers = chain[row, role]
                chain[row, role] = torch.where(numbers >= 0, order[numbers.clamp(min=0)], numbers)
        return replace(self, roles=Roles(self.roles.names, chain))


@dataclass(frozen=True)
class Encoded:
    """One question as tokens."""

    ids: list[int]
    choices: list[int]
    held: list[tuple[str, int, int]]  # role, chain, position
    tokens: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of tokens and the number of choices."""
        return len(self.ids), len(self.choices)


def prompts_of(tokenizer: Any, formulation: Formulation, layout: Layout, seed: int, count: int) -> Prompts:
    """The first `count` questions of the most common length whose answers differ in one token.

    Raises BadInput if there are too few such questions.
    """
    made = encodings(tokenizer, formulation, layout, seed, DRAWS * count)
    nothing = f"the answers of {formulation.name()} begin with the same token in this model; choose another"
    return gather(of_one_shape(made, lambda one: one[2].shape, count, nothing))


Some = TypeVar("Some")


def of_one_shape(made: Iterator[Some], shape: Callable[[Some], Any], count: int, nothing: str) -> list[Some]:
    """The first `count` items of the shape that is most common among the first `SOUNDED`.

    Raises BadInput if there are too few, or, with the message `nothing`, if there are none.
    """
    sounded = list(itertools.islice(made, SOUNDED))
    if not sounded:
        raise BadInput(nothing)
    [(common, _)] = Counter(map(shape, sounded)).most_common(1)
    alike = (one for one in itertools.chain(sounded, made) if shape(one) == common)
    kept = list(itertools.islice(alike, count))
    if len(kept) < count:
        raise BadInput(
            f"only {len(kept)} of {DRAWS * count} questions have the most common length in tokens; choose a smaller "
            "--count"
        )
    return kept


def encodings(
    tokenizer: Any, formulation: Formulation, layout: Layout, seed: int, most: int
) -> Iterator[tuple[int, Question, Encoded]]:
    """Questions that can be encoded, with their numbers."""
    for index in range(most):
        question = formulation.question(seed, index)
        if encoded := encode(tokenizer, question, layout.render(formulation, question)):
            yield index, question, encoded


def encode(tokenizer: Any, question: Question, rendered: Rendered) -> Encoded | None:
    """A question's tokens up to the first token in which its answers differ; None if two answers share that token."""
    text, spans = rendered.text, rendered.spans
    if rendered.chat:
        whole = in_template(tokenizer, text)
        spans, text = shifted(spans, whole.index(text)), whole
    full = [
        tokenizer(text + choice, return_offsets_mapping=True, add_special_tokens=not rendered.chat)
        for choice in rendered.choices
    ]
    ids = [one["input_ids"] for one in full]
    shared = 0
    while all(len(one) > shared + 1 for one in ids) and len({one[shared] for one in ids}) == 1:
        shared += 1
    choices = [one[shared] for one in ids]
    if len(set(choices)) < len(choices):
        return None
    offsets = full[0]["offset_mapping"][:shared]
    held = roles_at(text, offsets, spans, question.asked)
    return Encoded(ids[0][:shared], choices, held, [tokenizer.decode(token) for token in ids[0][:shared]])


def roles_at(
    text: str, offsets: Sequence[tuple[int, int]], spans: Sequence[Span], asked: int
) -> list[tuple[str, int, int]]:
    """(role, chain, position) of every token with a role; the last position only has the role `answer`."""
    last = len(offsets) - 1
    held, taken = [("answer", asked, last)], {last}
    for span in spans:
        over = [i for i, (start, end) in enumerate(offsets) if start < span.end and end > span.start]
        if over and over[-1] not in taken:
            held.append((span.role, NO_CHAIN if span.chain is None else span.chain, over[-1]))
            taken.add(over[-1])
    facts = [span for span in spans if "[" in span.role]
    close = max((span.end for span in facts), default=0)
    for i, (start, end) in enumerate(offsets):
        if i in taken or start == end:
            continue
        line = [span for span in facts if "\n" not in text[min(span.start, start) : max(span.end, start)]]
        if line:
            held += [(*role, i) for role in [within(line, start)] if role]
        elif start >= close:
            held.append(("ask", asked, i))
    return held


def within(line: Sequence[Span], start: int) -> tuple[str, int] | None:
    """The role of a token on a fact's line, by its first character; None before the fact's first symbol."""
    step = "".join(re.findall(r"\[(\d+)", max(line, key=lambda span: span.role.startswith("value")).role)[:1])
    chain = NO_CHAIN if line[-1].chain is None else line[-1].chain
    if start < min(span.start for span in line):
        return None
    return (f"end[{step}]" if start >= max(span.end for span in line) else f"link[{step}]"), chain


def gather(questions: Sequence[tuple[int, Question, Encoded]]) -> Prompts:
    """Encoded questions of one length as tensors."""
    first = questions[0][2]
    names = sorted({role for _, _, encoded in questions for role, _, _ in encoded.held}, key=reading_order)
    chain = torch.full((len(questions), len(names), len(first.ids)), ABSENT)
    for row, (_, _, encoded) in enumerate(questions):
        for role, number, position in encoded.held:
            chain[row, names.index(role), position] = number
    return Prompts(
        torch.tensor([encoded.ids for _, _, encoded in questions]),
        Roles(tuple(names), chain),
        torch.tensor([encoded.choices for _, _, encoded in questions]),
        torch.tensor([question.acceptable.index(question.answer) for _, question, _ in questions]),
        tuple(index for index, _, _ in questions),
        tuple(first.tokens),
    )


def reading_order(role: str) -> tuple[int, str, int]:
    """A sort key: key, link, value and end of each fact, fact by fact; then query, ask, answer."""
    kind, _, number = role.partition("[")
    order = ("key", "link", "value", "end", "query", "ask", "answer")
    return (0, number, order.index(kind)) if number else (1, "", order.index(kind))

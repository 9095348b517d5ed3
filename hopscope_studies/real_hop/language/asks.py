"""The same facts, asked about every chain: pairs of prompts that differ only in the question.

The other member of a pair is the counterfactual of activation patching (Vig et al., 2020; Zhang & Nanda, 2024). Facts,
wording and length are the same, so any difference between the two runs is due to the question. Every ask of a draw of
facts serves in both roles, so a model's bias for an answer, or for a place among the facts, cancels. The tokens up to
the query are the same and are run once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.formulations.base import Formulation, Question, Span
from hopscope.language.layouts.base import Layout
from hopscope.language.lens.prompts import DRAWS, Encoded, encode, of_one_shape


@dataclass(frozen=True)
class Asks:
    """Draws of facts, each asked about several chains. Rows are the asks of the first draw, then of the second, ….

    Attributes:
        prefix: the tokens before the first one that differs between asks; shape (draw, position).
        suffix: the tokens from there on; shape (row, position).
        choices: the tokens that distinguish the acceptable answers; shape (row, choice).
        right: the index of the right one; shape (row).
        other: the row that a row is paired with, which asks about another chain of the same facts; shape (row).
        names: the names of the suffix's positions: `query`, `ask`, `answer`, numbered if there are several.
        tokens: the first row's suffix as text.
        held: the roles of every row as (role, chain, position in the whole prompt).
        chains: the symbols x_0 … x_D of the chain that each row asks about, as the prompt writes them.
    """

    prefix: Tensor
    suffix: Tensor
    choices: Tensor
    right: Tensor
    other: Tensor
    names: tuple[str, ...]
    tokens: tuple[str, ...]
    held: tuple[tuple[tuple[str, int, int], ...], ...]
    chains: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.suffix)

    @property
    def per_draw(self) -> int:
        """The number of asks of the same facts."""
        return len(self.suffix) // len(self.prefix)

    @property
    def ids(self) -> Tensor:
        """Whole prompts; shape (row, position)."""
        return torch.cat([self.prefix.repeat_interleave(self.per_draw, 0), self.suffix], 1)

    def part(self, start: int, end: int) -> Asks:
        """A range of the draws."""
        rows = slice(start * self.per_draw, end * self.per_draw)
        return replace(
            self,
            prefix=self.prefix[start:end],
            suffix=self.suffix[rows],
            choices=self.choices[rows],
            right=self.right[rows],
            other=self.other[rows] - rows.start,
            held=self.held[rows],
            chains=self.chains[rows],
        )

    def difference(self, logits: Tensor) -> Tensor:
        """Logit of the right answer minus that of the paired row's, in nats, given the choices' logits; shape (row)."""
        chosen = torch.arange(len(self))
        return logits[chosen, self.right] - logits[chosen, self.right[self.other]]

    def by_draw(self, values: Tensor) -> Tensor:
        """The mean over the asks of every draw; draws are independent of each other, and asks of one draw are not."""
        return values.unflatten(0, (-1, self.per_draw)).mean(1)


def asks_of(
    tokenizer: Any, formulation: Formulation, layout: Layout, seed: int, count: int, from_step: int = 0
) -> Asks:
    """`count` draws of facts with the commonest shape in tokens. Raises BadInput if there are too few.

    Args:
        tokenizer: the model's tokenizer.
        formulation: draws the facts.
        layout: how a question is asked.
        seed: the seed of the facts.
        count: the number of draws.
        from_step: ask about x_1 or a later symbol of every chain instead of x_0, so that fewer hops remain.
    """
    made = (
        found
        for index in range(DRAWS * count)
        if (found := encoded(tokenizer, formulation, layout, formulation.question(seed, index), from_step))
    )
    nothing = f"{formulation.name()} cannot be asked about another chain in prompts of one length"
    return gather(of_one_shape(made, shape, count, nothing))


Ask = tuple[Question, Encoded]


def encoded(tokenizer: Any, formulation: Formulation, layout: Layout, question: Question, from_step: int) -> list[Ask]:
    """A question asked about every chain, as tokens: the largest set of asks of equal length; [] if fewer than two."""
    found = []
    for chain in range(formulation.n_chains):  # type: ignore[attr-defined]
        asked = about(question, chain, from_step)
        if one := encode(tokenizer, asked, layout.render(formulation, asked)):
            found.append((asked, one))
    lengths = Counter(one.shape for _, one in found)
    best = max(lengths, key=lambda shape: (lengths[shape], shape), default=None)
    same = [(asked, one) for asked, one in found if one.shape == best]
    return same if len(same) > 1 else []


def about(question: Question, chain: int, from_step: int = 0) -> Question:
    """The same facts, asked about another chain, or about a later symbol of a chain.

    Raises BadInput if a step of a chain is more than one symbol, as in f(i), or is not found by the oracle.
    """
    own = [span for span in question.statement_spans if span.chain == chain]
    first = [span for span in own if span.role == f"key[{from_step + 1}]"]
    last = [span for span in own if span.role.startswith("value[") and span.role > f"value[{from_step}]"]
    if len(first) != 1 or len([span for span in question.stem_spans if span.role == "query"]) != 1:
        raise BadInput(
            f"{question.formulation} does not ask about one symbol; choose equations, lives_with or kingdoms"
        )
    written = [question.facts[span.start : span.end] for span in (*first, *sorted(last, key=lambda span: span.role))]
    rounds = question.problem.hops(written[0])
    answers = [one for one in question.acceptable if rounds and one in rounds[-1]]
    if len(answers) != 1:
        raise BadInput(f"{question.formulation} does not write what is asked about as its facts do; choose another")
    ask, ask_spans = rewritten(question.ask, question.ask_spans, written[0], chain)
    stem, stem_spans = rewritten(question.stem, question.stem_spans, written[0], chain)
    return replace(
        question,
        ask=ask,
        ask_spans=ask_spans,
        stem=stem,
        stem_spans=stem_spans,
        asked=chain,
        answer=answers[0],
        chain=tuple(written),
    )


def rewritten(text: str, spans: tuple[Span, ...], symbol: str, chain: int) -> tuple[str, tuple[Span, ...]]:
    """A text with another symbol for its query, and its spans."""
    [query] = [span for span in spans if span.role == "query"]
    longer = len(symbol) - (query.end - query.start)
    moved = []
    for span in spans:
        start = span.start + longer * (span.start >= query.end)
        moved.append(Span(start, span.end + longer * (span.end >= query.end), span.role, chain))
    return text[: query.start] + symbol + text[query.end :], tuple(moved)


def shape(found: list[Ask]) -> tuple[int, tuple[int, int], int]:
    """The number of asks, their shape in tokens, and the number of shared tokens."""
    return len(found), found[0][1].shape, shared(found)


def shared(found: list[Ask]) -> int:
    """The number of tokens before the first that differs between asks."""
    columns = zip(*(one.ids for _, one in found), strict=True)
    return next(i for i, column in enumerate(columns) if len(set(column)) > 1)


def gather(found: list[list[Ask]]) -> Asks:
    """Asks of one shape as tensors; the asks of a draw are paired in a circle, at a distance that varies by draw."""
    start, per_draw = shared(found[0]), len(found[0])
    rows = [one for draw in found for one in draw]
    other = []
    for number in range(len(found)):
        step = 1 + number % (per_draw - 1)
        other += [number * per_draw + (ask + step) % per_draw for ask in range(per_draw)]
    ids = torch.tensor([one.ids for _, one in rows])
    return Asks(
        ids[::per_draw, :start],
        ids[:, start:],
        torch.tensor([one.choices for _, one in rows]),
        torch.tensor([question.acceptable.index(question.answer) for question, _ in rows]),
        torch.tensor(other),
        places(rows[0][1], start),
        tuple(rows[0][1].tokens[start:]),
        tuple(tuple(one.held) for _, one in rows),
        tuple(question.chain for question, _ in rows),
    )


def places(one: Encoded, start: int) -> tuple[str, ...]:
    """The names of the positions from a token on."""
    roles = {position: role for role, _, position in one.held}
    last = len(one.ids) - 1
    plain = ["answer" if i == last else roles.get(i, "ask") for i in range(start, last + 1)]
    many, seen, names = Counter(plain), Counter[str](), []
    for name in plain:
        seen[name] += 1
        names.append(f"{name} {seen[name]}" if many[name] > 1 else name)
    return tuple(names)

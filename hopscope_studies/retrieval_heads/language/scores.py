"""The retrieval score of every head (Wu et al., 2024, arXiv:2404.15574, section 2), forced and free.

While an answer is generated, a head *hits* a token of the needle if the position that it attends to most, from the last
token so far, is in the needle, and the token there is the next one generated. Its score is the share of the needle's
tokens that it hits, 0–1. *Forced* scores are with the answer given token by token, and *free* ones with the model's own
answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hopscope.language.lens.attention import Edit, Lens, Seen
from hopscope_studies.retrieval_heads.language.needles import Ask

LONGEST = 24  # most tokens that are generated (paper: 50)
ENOUGH = 0.5  # ROUGE-1 recall above which the paper counts an answer


def looked(seen: Seen) -> Tensor:
    """The position that each head attends to most, in a pass over a single sequence; shape (layer, head, query)."""
    return torch.cat([pattern.argmax(-1) for pattern in seen.patterns])


def hit_places(top: Tensor, written: Sequence[int], ids: Tensor, place: slice) -> Tensor:
    """The tokens of the needle that each head hits.

    Args:
        top: the position that a head attends to most from the token before each generated one; (layer, head, step).
        written: the generated tokens; step.
        ids: the prompt's tokens; position.
        place: the needle's positions in the prompt.

    Returns:
        Layer head place, True for a hit; a token that is hit twice counts once.
    """
    needle, said = ids[place], torch.tensor(list(written))
    offset = top - place.start
    inside = (offset >= 0) & (offset < len(needle))
    there = needle[offset.clamp(0, len(needle) - 1)]
    hit = inside & (there == said)
    return torch.stack([(hit & (offset == k)).any(-1) for k in range(len(needle))], -1)


def score(hit: Tensor) -> Tensor:
    """The share of the needle's tokens that are hit; shape (layer, head)."""
    return hit.float().mean(-1)


@dataclass(frozen=True)
class Begun:
    """A prompt that has been read except for its last token.

    Attributes:
        lens: the model.
        cache: keys and values.
        last: the last token.
        size: the number of tokens before it.
    """

    lens: Lens
    cache: Any
    last: int
    size: int

    @classmethod
    def of(cls, lens: Lens, ids: Tensor) -> Begun:
        """Read a prompt (position) into a cache that, unlike one of a sliding window, keeps all tokens."""
        from transformers import DynamicCache

        cache = DynamicCache()
        lens.model(ids[None, :-1], past_key_values=cache, use_cache=True, logits_to_keep=1)
        return cls(lens, cache, int(ids[-1]), len(ids) - 1)

    def run(self, more: Tensor, edit: Edit | None = None, cache: Any = None) -> Tensor:
        """The logits after each of further tokens, (batch, position, token); a cache, if given, grows by them."""
        cache = self.rows(len(more)) if cache is None else cache
        past = cache.get_seq_length()
        mask = torch.ones(len(more), past + more.shape[1], dtype=torch.long)
        positions = torch.arange(past, past + more.shape[1])[None].expand(len(more), -1)
        out = self.lens.model(
            more,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            hopscope_edit=edit,
        )
        return out.logits.float()  # type: ignore[no-any-return]

    def rows(self, n: int) -> Any:
        """A copy of the cache for n sequences."""
        from transformers import DynamicCache

        twin = DynamicCache()
        for number, layer in enumerate(self.cache.layers):
            twin.update(layer.keys.expand(n, -1, -1, -1), layer.values.expand(n, -1, -1, -1), number)
        return twin


def forced(begun: Begun, stem: Sequence[int], answer: Sequence[int], edit: Edit | None = None, n: int = 1) -> Tensor:
    """The mean log-probability (nats) of an answer's tokens, given one by one after a stem; one number per row of n."""
    given = torch.tensor([[begun.last, *stem, *answer[:-1]]]).expand(n, -1)
    chances = begun.run(given, edit)[:, len(stem) :].log_softmax(-1)
    return chances.gather(2, torch.tensor([list(answer)]).expand(n, -1)[..., None])[..., 0].mean(1)


def free(begun: Begun, ends: set[int], edit: Edit | None = None, n: int = 1) -> list[list[int]]:
    """The model's own greedy answer in each of n rows, up to an end token, which is left out, or `LONGEST` tokens."""
    cache, said = begun.rows(n), torch.full((n, 1), begun.last)
    written: list[list[int]] = [[] for _ in range(n)]
    for _ in range(LONGEST):
        said = begun.run(said, edit, cache)[:, -1].argmax(-1, keepdim=True)
        for row, token in zip(written, said[:, 0].tolist(), strict=True):
            row.append(token)
        if all(any(token in ends for token in row) for row in written):
            break
    return [upto(row, ends) for row in written]


def upto(tokens: Sequence[int], ends: set[int]) -> list[int]:
    """The tokens before the first end token."""
    return list(tokens[: next((i for i, token in enumerate(tokens) if token in ends), len(tokens))])


def ends_of(tokenizer: Any, model: Any) -> set[int]:
    """The tokens that end an answer: the model's own end tokens, and those with a newline or a full stop."""
    config = getattr(model.generation_config, "eos_token_id", None)
    known = {*(config if isinstance(config, list) else [config]), tokenizer.eos_token_id} - {None}
    marks = {i for i in range(len(tokenizer)) if (text := tokenizer.decode([i])).strip() == "." or "\n" in text}
    return known | marks


class Read(NamedTuple):
    """One question, with the forced and the free answer.

    Attributes:
        forced: the score with the answer given; shape (layer, head).
        free: the score with the model's own answer; shape (layer, head).
        log_p: mean log-probability of the answer's tokens (nats), a single number.
        recall: ROUGE-1 recall of the model's own answer, 0–1, a single number.
    """

    forced: Tensor
    free: Tensor
    log_p: Tensor
    recall: Tensor


def read(begun: Begun, ask: Ask, ends: set[int]) -> Read:
    """Record attention while the answer is given to a question and while the model generates its own."""
    seen = Seen()
    (log_p,) = forced(begun, ask.stem, ask.answer, seen)
    by_force = score(hit_places(looked(seen)[..., len(ask.stem) :], ask.answer, ask.ids, ask.place))
    (written,) = free(begun, ends)
    by_itself = torch.zeros_like(by_force)
    if written:  # run again at once, because recording does not change the answer
        seen = Seen()
        begun.run(torch.tensor([[begun.last, *written[:-1]]]), seen)
        by_itself = score(hit_places(looked(seen), written, ask.ids, ask.place))
    said = begun.lens.tokenizer.decode(written)
    return Read(by_force, by_itself, log_p, torch.tensor(recall(ask.words, said)))


def recall(words: str, said: str) -> float:
    """ROUGE-1 recall: the share of the reference words that occur, counted with repetition, without stemming."""
    wanted, found = (Counter(re.findall(r"\w+", text.lower())) for text in (words, said))
    return sum((wanted & found).values()) / wanted.total() if wanted else 0.0

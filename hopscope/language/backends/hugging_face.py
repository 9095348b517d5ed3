"""A Hugging Face model in this process: log-likelihoods of answers, and text by greedy or seeded sampling.

Prompts of a batch are padded on the left, with explicit positions and mask, so that results do not depend on the rest
of the batch. Without explicit positions, scores in bfloat16 are off by a tenth of a nat (lm-eval #704). A prompt is
computed once for all of its answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.language.backends.base import Backend, Sampling, given_whole
from hopscope.language.builds import by_length, context, keeps_attention_alone
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Rendered, in_template
from hopscope.language.turns import THOUGHTS, Completion, completion

#: Continuations that are scored at once; each needs a copy of its prompt's keys and values.
ROWS = 32
WITH_ANSWER = "a question with its answer"
STOPS = 24  # tokens at the end of a text that are searched for stop texts


class Scored(NamedTuple):
    """A request as tokens: the prefix that all answers share, and the continuation of each."""

    prefix: list[int]
    continuations: list[list[int]]


class Writer:
    """One completion while it is generated: its tokens, and its own random generator, independent of the batch."""

    def __init__(self, request: Rendered, how: Sampling):
        self.request, self.how = request, how
        self.dice = torch.Generator().manual_seed(how.seed)
        self.tokens: list[int] = []
        self.at_work = True
        self.finish_reason = "stop"


class HuggingFace(Backend):
    """A causal language model in this process.

    Args:
        opened: from `hopscope.language.checkpoints.open_model`.
        batch: requests per forward pass.
    """

    def __init__(self, opened: Opened, batch: int = 16):
        self.network, self.tokenizer, self.opened = opened.model, opened.tokenizer, opened
        self.model, self.batch = opened.name, batch
        pad = self.tokenizer.pad_token_id
        self.pad = pad if pad is not None else self.tokenizer.eos_token_id or 0
        ends = self.network.generation_config.eos_token_id if self.network.generation_config else None
        ends = ends if isinstance(ends, list) else [ends]
        self.ends = {end for end in [*ends, self.tokenizer.eos_token_id, turn_end(self.tokenizer)] if end is not None}
        self.thinks = single_tokens(self.tokenizer, [tag for pair in THOUGHTS.items() for tag in pair])
        self.appended = appended(self.tokenizer)
        self.context = context(self.network.config.get_text_config())
        self.alone = by_length(self.network.config.get_text_config()) or not keeps_attention_alone(self.network)
        self.reading = reading(self.tokenizer, self.ends)

    @property
    def identity(self) -> dict[str, str | int]:
        return {**self.opened.identity, "reading": self.reading}

    @property
    def has_chat_template(self) -> bool:
        return self.tokenizer.chat_template is not None

    # Tokens --------------------------------------------------------------------------------------------------

    def text(self, request: Rendered) -> str:
        """The text of a request, in the chat template if the request has `chat`."""
        return in_template(self.tokenizer, request.text) if request.chat else request.text

    def tokens(self, text: str, request: Rendered) -> list[int]:
        """A text's tokens, without those that the tokenizer appends. A chat template has its own start token."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=not request.chat)["input_ids"]
        n = len(self.appended)
        return ids[:-n] if n and not request.chat and ids[-n:] == self.appended else ids

    def scored(self, request: Rendered) -> Scored:
        """Prompt and answers as tokens.

        Prompt and answer are tokenised together, as in a document. If a token spans their boundary, all answers are
        scored from the last token boundary that they share with the prompt. Their order is then right, and all their
        probabilities are too small by the same factor, that of the prompt's last characters.
        """
        text = self.text(request)
        whole = [self.tokens(text + choice, request) for choice in request.choices]
        prompt = self.tokens(text, request)
        shared = 0
        while shared < len(prompt) and all(len(ids) > shared + 1 and ids[shared] == prompt[shared] for ids in whole):
            shared += 1
        return Scored(prompt[:shared], [ids[shared:] for ids in whole])

    def padded(self, sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens, mask and positions, padded on the left."""
        longest = max(map(len, sequences))
        ids = torch.tensor([[self.pad] * (longest - len(s)) + list(s) for s in sequences])
        mask = torch.tensor([[0] * (longest - len(s)) + [1] * len(s) for s in sequences])
        return ids, mask, (mask.cumsum(1) - 1).clamp(min=0)

    def sorted_batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Batches of indices of requests, the longest requests first."""
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        for start in range(0, len(order), self.batch):
            yield order[start : start + self.batch]

    # Log-likelihoods -----------------------------------------------------------------------------------------

    def check_lengths(self, lengths: Sequence[int], what: str) -> None:
        """Raise BadInput if a text is longer than the model's context, even if the model would accept it."""
        if self.context is not None and max(lengths) > self.context:
            raise BadInput(
                f"{self.model} reads at most {self.context:,} tokens, and {what} takes {max(lengths):,}; ask fewer "
                "hops or chains, or another layout"
            )

    def n_tokens(self, request: Rendered) -> int:
        return len(self.tokens(self.text(request), request))

    def check_length(self, request: Rendered, max_tokens: int | None) -> None:
        if max_tokens is None:
            self.check_scored([self.scored(request)])
        else:
            self.check_lengths([self.n_tokens(request) + max_tokens], WITH_ANSWER)

    def check_scored(self, scored: Sequence[Scored]) -> None:
        """Raise BadInput if a prompt with one of its answers is longer than the model's context."""
        self.check_lengths([len(one.prefix) + max(map(len, one.continuations)) for one in scored], "a question")

    @torch.no_grad()
    def log_likelihoods(self, requests: Sequence[Rendered]) -> list[list[float]]:
        scored = [self.scored(request) for request in requests]
        self.check_scored(scored)
        scores: dict[int, list[float]] = {}
        for batch in self.sorted_batches([len(one.prefix) for one in scored]):
            scores.update(zip(batch, self.scores([scored[i] for i in batch]), strict=True))
        return [scores[i] for i in range(len(requests))]

    def scores(self, batch: Sequence[Scored]) -> list[list[float]]:
        """Log-likelihoods of one batch: one pass over the prompts, then passes over answers of several tokens."""
        if self.alone:
            return [self.scores_alone(one) for one in batch]
        ids, mask, positions = self.padded([one.prefix for one in batch])
        deeper = any(len(answer) > 1 for one in batch for answer in one.continuations)
        out = self.network(ids, attention_mask=mask, position_ids=positions, use_cache=deeper, logits_to_keep=1)
        first = self.log_probs(out.logits[:, -1])
        totals = [[float(first[row, answer[0]]) for answer in one.continuations] for row, one in enumerate(batch)]
        keys = [(row, tuple(answer[:-1])) for row, one in enumerate(batch) for answer in one.continuations]
        longer = list(dict.fromkeys(key for key in keys if key[1]))  # answers often differ only in their last token
        after: dict[tuple[int, tuple[int, ...]], Tensor] = {}
        for start in range(0, len(longer), ROWS):
            some = longer[start : start + ROWS]
            after.update(zip(some, self.behind(some, out.past_key_values, mask), strict=True))
        for row, one in enumerate(batch):
            for number, answer in enumerate(one.continuations):
                if len(answer) > 1:
                    rows = after[row, tuple(answer[:-1])]
                    totals[row][number] += sum(float(rows[i, token]) for i, token in enumerate(answer[1:]))
        return [given_whole(some, one.continuations) for some, one in zip(totals, batch, strict=True)]

    def scores_alone(self, one: Scored) -> list[float]:
        """Log-likelihoods of one request, with a separate pass for every answer."""
        totals = []
        for answer in one.continuations:
            rows = self.log_probs(self.logits([*one.prefix, *answer[:-1]])[len(one.prefix) - 1 :])
            totals.append(sum(float(rows[i, token]) for i, token in enumerate(answer)))
        return given_whole(totals, one.continuations)

    def logits(self, tokens: list[int]) -> Tensor:
        """The logits at each token of a single text, without batch, padding or cache."""
        for part in self.network.modules():  # dynamic rotary codes keep the length of the longest text so far
            for name in [name for name in vars(part) if name.endswith("max_seq_len_cached")]:
                setattr(part, name, 0)
        return self.network(torch.tensor([tokens]), use_cache=False).logits[0]

    def log_probs(self, logits: Tensor) -> Tensor:
        """Log-probabilities over the vocabulary. Raises BadInput for logits that are NaN."""
        log_probs = logits.float().log_softmax(-1)
        if bool(log_probs.isnan().any()):
            dtype = str(self.network.dtype).removeprefix("torch.")
            cause = "its weights are damaged"
            if dtype != "float32":
                cause += ", or the format is too small for them; try --dtype float32"
            raise BadInput(f"{self.model} computes logits that are NaN in {dtype}: {cause}")
        return log_probs

    def behind(self, some: Sequence[tuple[int, tuple[int, ...]]], cache: Any, mask: Tensor) -> list[Tensor]:
        """Log-probabilities at each token of continuations of prompts; for each, (token, vocabulary).

        `some` has pairs of a prompt's row and a continuation; `cache` and `mask` are those of the prompts.
        """
        rows = torch.tensor([row for row, _ in some])
        longest = max(len(tokens) for _, tokens in some)
        ids = torch.tensor([[*tokens, *[self.pad] * (longest - len(tokens))] for _, tokens in some])
        seen = mask[rows]
        positions = seen.sum(1, keepdim=True) + torch.arange(longest)
        whole = torch.cat([seen, torch.ones_like(ids)], 1)  # padding comes last, so that no token attends to it
        twin = copied(cache, rows)
        out = self.network(ids, attention_mask=whole, position_ids=positions, past_key_values=twin, use_cache=True)
        return [self.log_probs(logits[: len(tokens)]) for logits, (_, tokens) in zip(out.logits, some, strict=True)]

    # Text ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def generate(self, requests: Sequence[Rendered], sampling: Sequence[Sampling]) -> list[Completion]:
        prompts = [self.tokens(self.text(request), request) for request in requests]
        longest = [len(prompt) + how.max_tokens for prompt, how in zip(prompts, sampling, strict=True)]
        self.check_lengths(longest, WITH_ANSWER)
        completions: dict[int, Completion] = {}
        for batch in self.sorted_batches(list(map(len, prompts))):
            texts = self.written([(prompts[i], requests[i], sampling[i]) for i in batch])
            completions.update(zip(batch, texts, strict=True))
        return [completions[i] for i in range(len(requests))]

    def written(self, batch: Sequence[tuple[list[int], Rendered, Sampling]]) -> list[Completion]:
        """Completions of one batch, generated token by token until all have ended."""
        writers = [Writer(request, how) for _, request, how in batch]
        if self.alone:
            for writer, (prompt, _, _) in zip(writers, batch, strict=True):
                while writer.at_work:
                    self.write(writer, self.logits([*prompt, *writer.tokens])[-1].float())
            return [self.read(writer) for writer in writers]
        ids, mask, positions = self.padded([prompt for prompt, _, _ in batch])
        cache: Any = None
        while any(writer.at_work for writer in writers):
            state = {"attention_mask": mask, "position_ids": positions, "past_key_values": cache, "use_cache": True}
            out = self.network(ids, **state, logits_to_keep=1)
            cache = out.past_key_values
            for writer, logits in zip(writers, out.logits[:, -1].float(), strict=True):
                if writer.at_work:
                    self.write(writer, logits)
            ids = torch.tensor([[writer.tokens[-1]] for writer in writers])
            mask = torch.cat([mask, torch.ones_like(ids)], 1)
            positions = positions[:, -1:] + 1
        return [self.read(writer) for writer in writers]

    def write(self, writer: Writer, logits: Tensor) -> None:
        """Generate one token, and note whether it was the last."""
        self.log_probs(logits)  # raises BadInput for NaN
        token = drawn(logits, writer.how.temperature, writer.dice)
        writer.tokens.append(token)
        full = len(writer.tokens) == writer.how.max_tokens
        ended = token in self.ends or self.stopped(writer.tokens, writer.request.stop)
        writer.at_work, writer.finish_reason = not (full or ended), "stop" if ended else "length"

    def stopped(self, tokens: Sequence[int], stop: Sequence[str]) -> bool:
        """Whether the last tokens contain a stop text."""
        if not stop:
            return False
        tail = self.tokenizer.decode(tokens[-STOPS:], skip_special_tokens=True)
        return any(text in tail for text in stop)

    def read(self, writer: Writer) -> Completion:
        """A writer's tokens as text, without end tokens and without reasoning, which the prompt may have opened."""
        tokens = [token for token in writer.tokens if token not in self.ends]
        thinks = any(token in self.thinks for token in tokens)  # tags may be special tokens, which would be skipped
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=not thinks)
        begun = next((tag for tag in THOUGHTS if self.text(writer.request).rstrip().endswith(tag)), "")
        return completion(begun + text, writer.finish_reason, stop=writer.request.stop)


def appended(tokenizer: Any) -> list[int]:
    """The tokens that a tokenizer appends to every text, such as an end token (trlx #287)."""
    bare, with_more = (tokenizer("a", add_special_tokens=more)["input_ids"] for more in (False, True))
    ends = [at + len(bare) for at in range(len(with_more)) if bare and with_more[at : at + len(bare)] == bare]
    return list(with_more[ends[0] :]) if ends else []


def turn_end(tokenizer: Any) -> int | None:
    """The special token that ends an assistant's turn in the chat template, which may differ from the end of text.

    None if there is no such token, or the template raises an error (lighteval #196).
    """
    if tokenizer.chat_template is None:
        return None
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "xyz"}]
    try:
        whole: str = tokenizer.apply_chat_template(said, tokenize=False)
    except Exception:  # a template may raise anything
        return None
    ids = tokenizer(whole.rpartition("xyz")[2], add_special_tokens=False)["input_ids"]
    return next((token for token in ids[:2] if token in tokenizer.all_special_ids), None)


def single_tokens(tokenizer: Any, texts: Sequence[str]) -> set[int]:
    """The token numbers of those texts that are single tokens."""
    known = tokenizer.get_vocab()
    return {known[text] for text in texts if text in known}


def reading(tokenizer: Any, ends: set[int]) -> str:
    """A hash of vocabulary, merges, chat template and end tokens. Folders with equal weights may differ in these.

    The template is also applied to a word, because some insert the current date.
    """
    fast = getattr(tokenizer, "backend_tokenizer", None)
    words = fast.to_str() if fast is not None else sorted(tokenizer.get_vocab().items())
    template = tokenizer.chat_template
    tried = "" if template is None else in_template(tokenizer, "a")
    text = json.dumps([words, template, tried, sorted(ends)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def drawn(logits: Tensor, temperature: float, dice: torch.Generator) -> int:
    """The next token: the likeliest at temperature 0, otherwise sampled with this completion's own generator."""
    if temperature == 0:
        return int(logits.argmax())
    chances = (logits.double() / temperature).softmax(-1)
    return int(torch.multinomial(chances, 1, generator=dice))


def copied(cache: Any, rows: Tensor) -> Any:
    """A copy of given rows of a cache of keys and values.

    The state of layers is copied, too, because a layer with a sliding window has read more tokens than it keeps.
    """
    twin = copy(cache)
    twin.layers = [copy(layer) for layer in cache.layers]
    twin.batch_select_indices(rows)
    return twin

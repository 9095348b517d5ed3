"""The work of `noisy_bigram` besides training: samples in the simplified model, and a truncated language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.core.storage import read_json, write_json
from hopscope.experiments.work import Stopped, Work
from hopscope.interventions.truncation import Laser
from hopscope_studies.noisy_bigram.theory.associations import OneStep

ROWS = "rows.json"
Row = dict[str, Any]

#: Prompts for a real model: the talk's first, then others of the same form, for the spread (ours).
PROMPTS = {
    "Madrid": " Spain",
    "Paris": " France",
    "Berlin": " Germany",
    "Rome": " Italy",
    "Tokyo": " Japan",
    "Moscow": " Russia",
    "Cairo": " Egypt",
    "Beijing": " China",
    "Lisbon": " Portugal",
    "Athens": " Greece",
}
GLOBAL = " the"


@dataclass(frozen=True)
class Sampled(Work):
    """One gradient step of the simplified model on growing sets of sequences, for one size of vocabulary."""

    label, file = "sampled", ROWS

    n_tokens: int = setting(64, "N")
    length: int = setting(8, "T, tokens of the context")
    alpha: float = setting(0.5, "how often noise follows")
    trials: int = setting(16, "independent sets of sequences, which are averaged over")
    most: int = setting(4096, "sequences in the greatest set")
    seed: int = setting(0, "of the sequences")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        found: list[list[Row]] = []
        for trial in range(self.trials):
            if should_stop():
                raise Stopped
            found.append(list(self.trial(generator(self.seed, "sampled", trial))))
        rows = [
            {name: sum(row[name] for row in same) / len(same) for name in same[0]} for same in zip(*found, strict=True)
        ]
        write_json(folder / ROWS, rows)

    def about(self) -> Row:
        settings = {name: getattr(self, name) for name in ("n_tokens", "length", "alpha", "trials")}
        return {"seed": self.seed, "kind": "samples", **settings}

    def trial(self, random: torch.Generator) -> Iterator[Row]:
        """Errors and recall after 1, 2, 4, … sequences."""
        n, exact = self.n_tokens, tables(OneStep(self.n_tokens, self.length, self.alpha))
        nexts, pairs = torch.zeros(n + 1), torch.zeros(n + 1, n)
        seen = 0
        for power in range(int(math.log2(self.most)) + 1):
            context, target = self.sequences(2**power - seen, random)
            seen = 2**power
            nexts += torch.bincount(target, minlength=n + 1)
            both = (target[:, None] * n + context).flatten()
            pairs += torch.bincount(both, minlength=(n + 1) * n).view(n + 1, n) / self.length
            yield {"samples": seen, **self.judged(nexts / seen, pairs / seen, exact)}

    def sequences(
        self, count: int, random: torch.Generator
    ) -> tuple[Int[Tensor, "sequence token"], Int[Tensor, "sequence"]]:
        """Contexts and next tokens; the first token is the correct one, because places do not matter yet."""
        context = torch.randint(self.n_tokens, (count, self.length), generator=random)
        noisy = torch.rand(count, generator=random) < self.alpha
        return context, torch.where(noisy, self.n_tokens, context[:, 0])

    def judged(self, nexts: Tensor, pairs: Tensor, exact: tuple[Tensor, Tensor]) -> dict[str, float]:
        """Relative squared errors of the step with these means, and the shares of tokens that it recalls.

        `*_noise`: τ is the likeliest output for the trigger, and for each token attended to. `attention_copy`: of all
        outputs but τ the likeliest for a token attended to is that token.
        """
        n = self.n_tokens
        step = nexts - 1 / (n + 1), pairs - pairs.sum(0) / (n + 1)
        errors = [
            float((one - true).square().sum() / true.square().sum()) for one, true in zip(step, exact, strict=True)
        ]
        return {
            "feed_forward_error": errors[0],
            "attention_error": errors[1],
            "feed_forward_noise": float(step[0].argmax() == n),
            "attention_noise": float((step[1].argmax(0) == n).float().mean()),
            "attention_copy": float((step[1][:n].argmax(0) == torch.arange(n)).float().mean()),
        }


def tables(theory: OneStep) -> tuple[Float[Tensor, "output"], Float[Tensor, "output token"]]:
    """g and G as tensors, noise last."""
    n = theory.n_tokens
    (tau, other), (tau_attended, apart, own) = theory.feed_forward, theory.attention
    attention = torch.full((n + 1, n), apart)
    attention[:n].fill_diagonal_(own)
    attention[n] = tau_attended
    return torch.tensor([other] * n + [tau]), attention


@dataclass(frozen=True)
class Truncated(Work):
    """A language model's next token after "Madrid is located in", by layer and kept share of its feed-forward rank."""

    label, file = "truncated", ROWS

    model: str = setting("smollm2", "which")
    shares: str = setting("0,0.01,0.05,0.2", "of the rank that are kept, separated by commas")
    prompts: int = setting(10, "cities asked about, Madrid first", low=1, high=len(PROMPTS))

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        path, shares = folder / ROWS, [float(share) for share in self.shares.split(",")]
        try:
            asked = Asked(self.model, self.prompts)
        except BadInput as error:
            write_json(path, [{"skipped": str(error)}])
            return
        rows: list[Row] = read_json(path) if path.is_file() else []
        for layers in asked.choices:
            if any(row["layers"] == named(layers) for row in rows):
                continue
            if should_stop():
                raise Stopped
            rows += asked.truncated(layers, shares if len(layers) == 1 else [0.0 if layers else 1.0])
            write_json(path, rows)

    def about(self) -> Row:
        return {"seed": 0, "kind": "language"}


def named(layers: list[int]) -> str:
    """`none`, `27`, or `27-29`."""
    if not layers:
        return "none"
    return str(layers[0]) if len(layers) == 1 else f"{layers[0]}-{layers[-1]}"


class Asked:
    """A language model in this process, and the prompts as its tokens. Raises BadInput if it is not installed."""

    def __init__(self, model: str, count: int):
        from hopscope.language.checkpoints import open_model

        opened = open_model(model)
        self.network, read = opened.model, opened.tokenizer
        self.cities = list(PROMPTS)[:count]
        tokens = [read(f"{city} is located in", add_special_tokens=False)["input_ids"] for city in self.cities]
        self.last = torch.tensor([len(ids) - 1 for ids in tokens])
        longest = max(map(len, tokens))
        # Padding is on the right, where a causal model does not see it from the last token.
        self.ids = torch.tensor([[*ids, *[ids[-1]] * (longest - len(ids))] for ids in tokens])
        first = lambda word: read(word, add_special_tokens=False)["input_ids"][0]  # noqa: E731
        self.correct = torch.tensor([first(PROMPTS[city]) for city in self.cities])
        self.noise = torch.full_like(self.correct, first(GLOBAL))
        layers = Laser(self.network).layers
        #: Layers that are truncated together: none, each alone, and each with all that follow.
        self.choices = [[], *([layer] for layer in layers), *(layers[i:] for i in range(len(layers) - 1))]

    def truncated(self, layers: list[int], shares: list[float]) -> list[Row]:
        """Rows for one choice of layers: probability and rank (1: the likeliest) of both answers."""
        laser, rows = Laser(self.network), []
        for share in shares:
            with laser(layers, share):
                chances = self.chances()
            for row, city in enumerate(self.cities):
                about = {"layers": named(layers), "first": min(layers, default=-1), "share": share, "prompt": city}
                for answer, token in (("correct", self.correct[row]), ("noise", self.noise[row])):
                    about[answer] = float(chances[row, token])
                    about[f"{answer}_rank"] = 1 + int((chances[row] > chances[row, token]).sum())
                rows.append(about)
        return rows

    @torch.no_grad()
    def chances(self) -> Float[Tensor, "prompt token"]:
        """The probabilities of the next token after each prompt."""
        logits = self.network(self.ids, use_cache=False).logits
        return logits[torch.arange(len(self.last)), self.last].float().softmax(-1)

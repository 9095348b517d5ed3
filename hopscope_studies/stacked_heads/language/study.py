"""The heads of one model, from standard scores to the heads that do one hop, for `hopscope lm heads`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor

from hopscope.core.intervals import wilson
from hopscope.formulations.base import Formulation
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Layout
from hopscope.language.lens.ablation import Ablate, random_heads, short, top_heads
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import estimate
from hopscope.language.lens.prompts import Prompts, prompts_of
from hopscope.language.lens.scores import LAGS, SEQUENCES, WARMING, head_scores, loss_on_repeat, repeated_tokens
from hopscope.language.readings.base import Watch
from hopscope_studies.stacked_heads.language.hop import HeadStudy, Hop
from hopscope_studies.stacked_heads.language.minimal import LEVEL
from hopscope_studies.stacked_heads.language.role_paths import look, retrieval_scores

SCORES = ("induction", "previous_token", "duplicate_token")
ABLATED, RANDOM_DRAWS = 8, 7


@dataclass
class Study:
    """The measurements of a model so far; `report` is the content of heads.json.

    Attributes:
        lens: the model.
        settings: the extent of the measurements.
        watch: receives a line of text on progress.
        table: for each column a value per head.
    """

    lens: Lens
    settings: HeadStudy
    watch: Watch
    report: dict[str, Any] = field(default_factory=dict)
    table: dict[str, Tensor] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """One row per head, for table.csv."""
        return [
            {"layer": layer, "head": head, **{name: float(values[layer, head]) for name, values in self.table.items()}}
            for layer, head in self.lens.heads
        ]


def study(opened: Opened, formulation: Formulation, layout: Layout, settings: HeadStudy, watch: Watch) -> Study:
    """Measure the heads' scores, then the paths and the minimal set for one hop, if the model can do it.

    Raises BadInput for a model or questions that do not fit.
    """
    began = time.monotonic()
    lens = Lens(opened)
    made = Study(lens, settings, watch)
    made.report = {
        **opened.about,
        "protocol": {
            **settings.as_dict(),
            "formulation": {"name": formulation.name(), **formulation.as_dict()},
            "layout": {"name": layout.name(), **layout.as_dict()},
            "metric": "log p(right) - log p(any other acceptable answer), nats",
            "head_null": "its mean pattern over the discovery questions, place by place",
            "connection_null": "the sender's mean output over the discovery questions, place by place",
            "path_knock_out": "scores masked, the rest of the row scaled to sum to 1",
            "level": LEVEL,
        },
    }
    watch("scoring heads on repeated random tokens")
    measure_scores(made)
    watch(f"writing {settings.count} questions")
    prompts = prompts_of(lens.tokenizer, formulation, layout, settings.seed, settings.count)
    measure_hop(made, prompts, formulation)
    made.report["seconds"] = round(time.monotonic() - began, 1)
    return made


# Repeated random tokens


def measure_scores(made: Study) -> None:
    """Standard scores of heads, and the effect of ablating the top induction heads."""
    lens, seed = made.lens, made.settings.seed
    tokens = repeated_tokens(lens, seed)
    scores, loss = head_scores(lens, tokens)
    made.table |= {name: scores[name] for name in SCORES}
    tops = {name: top_heads(scores[name], ABLATED) for name in SCORES}
    made.report["scores"] = {
        "sequences": SEQUENCES,
        "tokens": list(tokens.shape),
        "top": {n: [{"head": short(h), "score": float(scores[n][h])} for h in heads] for n, heads in tops.items()},
        "lags": list(LAGS),
        "lag_curves": {short(h): scores["lag"][h].tolist() for h in tops["induction"]},
    }
    made.watch("taking the top induction heads out, and random ones")
    others = [head for head in lens.heads if not any(head in heads for heads in tops.values())]
    draws = [random_heads(others, ABLATED, seed + draw) for draw in range(RANDOM_DRAWS)]
    with torch.no_grad():
        without = loss_on_repeat(lens, tokens, Ablate(tops["induction"]))
        losses = [loss_on_repeat(lens, tokens, Ablate(heads)) for heads in draws]
    made.report["ablation"] = {
        "loss": loss,
        "without_top": without,
        "top": [short(head) for head in tops["induction"]],
        "without_random": losses,
        "median_random": median(losses),
        "random": [[short(head) for head in heads] for heads in draws],
        "first_tokens_left_out": WARMING,
    }


# One hop


def measure_hop(made: Study, prompts: Prompts, formulation: Formulation) -> None:
    """Accuracy, role → role attention and retrieval scores; if the hop is done above chance, also its heads."""
    settings = made.settings
    made.watch(f"looking at role → role attention over {len(prompts)} questions")
    looked = look(made.lens, prompts, prompts.shuffled(settings.seed).roles)
    retrieval, accepted = retrieval_scores(looked, prompts)
    made.table["retrieval"] = retrieval
    hits, n = int(looked.correct.sum()), len(prompts)
    low, high = wilson(hits, n)
    best = top_heads(retrieval, ABLATED) if accepted else []
    made.report["hop"] = {
        "n": n,
        "accuracy": hits / n,
        "low": low,
        "high": high,
        "chance": formulation.chance,
        "above_chance": low > formulation.chance,
        "log_odds": estimate(looked.odds),
        "tokens": list(prompts.tokens),
        "token_roles": prompts.roles.labels(0),
        "roles": list(prompts.roles.names),
        "retrieval": {
            "answered_rightly": accepted,
            "top": [{"head": short(head), "score": float(retrieval[head])} for head in best],
        },
    }
    if low > formulation.chance:
        hop = Hop(made.lens, prompts, looked, settings, formulation.n_hops, made.watch)
        made.report |= hop.measure()
        made.table |= hop.table

"""One model and the facts that it has memorised: all measurements, as in recall.json.

Groups of facts are halved. Topic heads, answer heads and the MLP that applies the function are chosen on the first half
and judged on the second. Intervals resample groups. Only prompts count for which the right word is the model's
likeliest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import Settings, setting
from hopscope.language.checkpoints import Opened
from hopscope.language.lens.attention import Lens
from hopscope.language.readings.base import Watch
from hopscope_studies.recall_mechanisms.function import function
from hopscope_studies.recall_mechanisms.instead import replaced
from hopscope_studies.recall_mechanisms.known import counted
from hopscope_studies.recall_mechanisms.last_layer import last_layer
from hopscope_studies.recall_mechanisms.layers import by_layer, of_parts
from hopscope_studies.recall_mechanisms.prompts import asks_of
from hopscope_studies.recall_mechanisms.topic import sets_of, topic
from hopscope_studies.recall_mechanisms.words import RELATIONS


@dataclass(frozen=True)
class Trial(Settings):
    """The extent of the measurements."""

    relations: str = setting(" ".join(RELATIONS), "kinds of facts, by name")
    count: int = setting(0, "facts of each kind at most; 0: all", low=0)
    seed: int = setting(0, "of halves, random heads and mixed facts", low=0)
    known: bool = setting(True, "only prompts that are answered right count")
    brief: bool = setting(False, "no head is changed")


def trial(opened: Opened, settings: Trial, say: Watch) -> dict[str, Any]:
    """All measurements. Raises BadInput for a model or relations that do not fit."""
    began = time.monotonic()
    lens = Lens(opened)
    asks = [one for name in settings.relations.split() for one in asks_of(opened.tokenizer, name, settings.count)]
    say(f"reading {sum(len(one.groups) for one in asks)} prompts, {len(asks)} sentences")
    prompts, known = counted(lens, asks, settings.seed, not settings.known)
    sets = sets_of(lens, prompts, settings.seed)
    say(f"{len(prompts.groups)} of these count; regression and the last layer")
    report = {
        **opened.about,
        "protocol": protocol(settings),
        "known": known,
        "prompts": [int(prompts.first.sum()), int((~prompts.first).sum())],
        "parts": of_parts(prompts),
        "lens": by_layer(prompts),
        "topic": topic(prompts, sets),
        "function": function(prompts, sets["topic"], settings.seed),
        "last_layer": last_layer(prompts, settings.seed),
    }
    if not settings.brief:
        say(f"putting other outputs in the place of {len(sets)} sets of heads")
        report["instead"] = replaced(lens, prompts, sets)
    return report | {"seconds": round(time.monotonic() - began, 1)}


def protocol(settings: Trial) -> dict[str, Any]:
    """Everything that the numbers depend on besides the model."""
    return {
        **settings.as_dict(),
        "halves": "of groups: a country with its capital and language, a word",
        "heads": "chosen on the first half, at the token that asks",
        "intervals": "95 %, groups drawn anew",
    }

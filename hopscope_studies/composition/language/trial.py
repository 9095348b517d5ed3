"""Measurements of one language model: its copying with and without some heads, and the bridges between its heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from hopscope.core.settings import Settings, setting
from hopscope.experiments.reports import Row, row
from hopscope.language.checkpoints import Opened
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.scores import WARMING, head_scores, repeated_tokens
from hopscope_studies.composition.language.bridges import RANKS, bridge_rows
from hopscope_studies.composition.language.cutting import cut_rows, plain, repeats, sets_of

LENGTH = 25  # tokens of a copy; the last 15 count
#: Distances from a query to the key that it should find, over which W_QK is averaged; in our sequences it is 24.
DISTANCES = range(LENGTH // 2, LENGTH + LENGTH // 2)


@dataclass(frozen=True)
class Trial(Settings):
    """Settings: how much is measured."""

    count: int = setting(24, "sequences, a half each for choosing and judging", low=4)
    seed: int = setting(0, "of tokens and random heads", low=0)
    brief: bool = setting(False, "one size of random sets, and no plain text")
    weights_alone: bool = setting(False, "bridges alone; no head is cut")


def rows_of(opened: Opened, settings: Trial, ranks: Sequence[int] = RANKS) -> Iterator[Row]:
    """All rows, with bridges at these ranks. Raises BadInput for a model that is not built like Llama."""
    lens = Lens(opened)
    with torch.no_grad():
        tokens = repeated_tokens(lens, settings.seed, settings.count, LENGTH)
        choosing, judging = tokens.split(settings.count // 2)
        scores, _ = head_scores(lens, choosing, LENGTH)
        induction, previous = scores["induction"], scores["previous_token"]
        yield row("asks", "sequences", settings.count)
        yield row("asks", "tokens that count", (LENGTH - WARMING) * len(judging))
        yield from bridge_rows(lens, induction, previous, DISTANCES, ranks, settings.seed)
        if settings.weights_alone:
            return
        sets = sets_of(lens, induction, previous, settings.seed, settings.brief)
        yield from cut_rows(repeats(lens, judging), sets, None if settings.brief else plain(lens))

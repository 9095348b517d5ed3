"""Features by the positions that they read, and how many kinds a head has (Kissane et al., 2024, arXiv:2406.17759).

An autoencoder is trained on a planted layer whose heads have known roles in a task like indirect object identification,
then on two layers of SmolLM2-135M. A feature's kind is the kind of source position that raises its input most.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pandas import DataFrame

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import of
from hopscope.experiments.work import Work
from hopscope_studies.attention_saes.claims import CONTROL, about_known, told
from hopscope_studies.attention_saes.experiments.attention_saes import table as table
from hopscope_studies.attention_saes.figure import sources_figure
from hopscope_studies.attention_saes.measured import SourceKinds

figure = sources_figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 400, "paper": 7200}
SEEDS = {"quick": (1, 1), "cpu": (5, 3), "paper": (8, 5)}  # of planted layers, and of SmolLM2's autoencoders
PLANTED: dict[str, Any] = {"model": "by_hand", "expansion": 4.0, "l1": 2.0}
QUICK: dict[str, Any] = {"train": 64, "steps": 10}  # of a planted layer
FULL: dict[str, Any] = {"train": 2048, "steps": 1000}
READ: dict[str, dict[str, Any]] = {  # of SmolLM2
    "quick": {},
    "cpu": {"layers": "6,18", "train": 96, "held": 40},
    "paper": {"layers": "6,12,18,24", "expansion": 4.0, "steps": 2000, "train": 480, "held": 160},
}
SEVERAL = 1.2  # effective kinds: about one feature in ten is of another kind (ours)
MOST = 0.9  # share of heads (paper)
FAMILY = 0.02  # share of features (ours)


def runs(scale: str) -> Iterator[Work]:
    """Planted layers, and layers of SmolLM2; at `paper` with larger autoencoders of more text."""
    quick, (hand, language) = scale == "quick", SEEDS[scale]
    yield from (SourceKinds(seed=seed, **PLANTED, **(QUICK if quick else FULL)) for seed in range(hand))
    yield from (SourceKinds("made_up" if quick else "smollm2", seed=seed, **READ[scale]) for seed in range(language))


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about a planted layer, and about layers of a language model."""
    hand, language = (table[table.part == part] for part in ("by hand", "language"))
    yield from about_known(hand)
    claim, ends = partial(told, Evidence(hand, CONTROL)), partial(of, hand, "number of kinds", other="own")
    right, what = of(hand, "right kind", other="own"), "share of recovered features"
    yield claim("kinds_are_told", right, what, at_least=0.9)
    one = [high for head in range(4) for high in ends(f"H{head}", "high")]
    also = [bound("upper end of other heads' kinds", one, below=SEVERAL)]
    yield claim("two_tasks_are_told", ends("H4", "low"), "lower end of kinds", also=also, above=SEVERAL)
    copies = [v for name in ("copy", "after a copy") for v in of(table, "share", name, other="another's")]
    yield told(Evidence(table, CONTROL), "no_copies_in_another_sequence", copies, "share of features", at_most=0.05)
    yield from about_layers(language)


def about_layers(table: DataFrame) -> Iterator[Claim]:
    """Claims about layers of a language model."""
    claim, share = partial(told, Evidence(table, "4.1", source="paper")), partial(of, table, "share", other="own")
    several = (of(table, "number of kinds", column="low", other="own") > SEVERAL).groupby(level=0).sum()
    heads = of(table, "owned", other="own").groupby(level=0).size()
    yield claim("most_heads_do_several_things", several / heads, "share of heads", at_least=MOST)
    claim, above = partial(told, Evidence(table, CONTROL)), "difference of mean kinds"
    yield claim("heads_specialise", of(table, "specialised", other="own"), above, above=0)
    gained = of(table, "mean kinds", other="own") - of(table, "mean kinds", other="untrained")
    yield claim("more_kinds_than_before_training", gained, above, above=0)
    claim, after = partial(told, Evidence(table, "3.2")), "after a copy"
    apart = share(after, "low", step=18) - share(after, "high", step=6)
    yield claim("induction_features_come_late", apart, "lower end minus upper end", above=0)
    least = [low for name in (after, "near", "far") for low in share(name, "low", step=18)]
    yield claim("three_families_in_layer_18", least, "lower end of the share", at_least=FAMILY)

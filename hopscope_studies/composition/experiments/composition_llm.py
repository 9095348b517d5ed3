"""Composition in a real language model: induction heads cut, and the subspaces that two heads share.

After Song, Xu and Zhong (2024, arXiv:2408.09503, section 4; code JiajunSong629/ood-generalization-via-composition). In
SmolLM2-135M, induction heads are chosen on one half of repeated random segments and ablated on the other, next to
random heads. From the weights we compute how much the directions that previous-token heads write overlap with those
that induction heads read at keys, next to random heads and random rotations. As controls, a hand-set model has exactly
one bridge, and an untrained model has none. The committed table of the toy models is compared too.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.reports import table_of
from hopscope.experiments.work import Finished, Work
from hopscope_studies.composition.language.claims import claims as claims
from hopscope_studies.composition.language.figure import figure as figure
from hopscope_studies.composition.language.measured import Bridges, ToyBridges

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 300, "paper": 7200}
SEEDS = {"quick": 2, "cpu": 2, "paper": 8}
FULL = {"quick": 1, "cpu": 1, "paper": 8}  # seeds of which all is measured
COUNT = {"quick": 4, "cpu": 24, "paper": 100}
MODEL = {"quick": "made_up", "cpu": "smollm2", "paper": "smollm2"}


def runs(scale: str) -> Iterator[Work]:
    """The language model with several seeds, the two controls, and the toy models."""
    quick, count, model = scale == "quick", COUNT[scale], MODEL[scale]
    for seed in range(SEEDS[scale]):
        yield Bridges(model, count=count, seed=seed, brief=seed >= FULL[scale])
    yield Bridges(model, trained=False, count=4, brief=True)
    yield Bridges("made_up_by_hand" if quick else "by_hand", count=4, brief=True)
    yield ToyBridges("made_up") if quick else ToyBridges()


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, model, part, kind, name, other, step, value, low, high. `part` is the purpose of the
    run: language, untrained, by hand, toy. `step` is the rank of subspaces.
    """
    return table_of(runs, digits=6)

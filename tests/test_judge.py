"""Claims: those of every committed table are judged today as they were, and `judge` against sums done by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hopscope.experiments.base import SCALES, experiment, judged, table_in

RESULTS = Path(__file__).parent.parent / "results"
COMMITTED = sorted(path.parent for path in RESULTS.glob("*/claims.json"))

#: What no change of code may change; words (sentence, section, threshold) may become better.
KEPT = ("id", "scale", "number", "spread", "n", "seeds", "verdict", "runs", "version")


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_committed_tables_are_judged_as_they_were(folder: Path):
    source, table = experiment(folder.name), table_in(folder)
    scales = [scale for scale in SCALES if (table.scale == scale).any()]
    found = [row for scale in scales for row in judged(source, table[table.scale == scale], scale)]
    committed = json.loads((folder / "claims.json").read_text())
    assert len(committed) == len(found)
    for then, now in zip(committed, found, strict=True):
        assert {name: now[name] for name in KEPT} == {name: then[name] for name in KEPT}

"""Tables of quantities: what is at the end of a run, also where that is unknown."""

from __future__ import annotations

import math

from pandas import DataFrame

from hopscope.experiments.quantities import Quantities


def test_an_unknown_end_is_not_an_earlier_value():
    """Seed 1 ends undefined, as an accuracy over no answers does; its 0.9 of step 10 is no value at the end."""
    rows = [(1, 10, 0.9), (0, 20, 0.2), (0, 10, 0.3), (1, 20, math.nan)]
    table = DataFrame(rows, columns=["seed", "step", "value"]).assign(run="a", kind="plain", quantity="accuracy")
    ends = Quantities(table, "7").of("plain", "accuracy")
    assert ends.index.tolist() == [0, 1] and ends[0] == 0.2 and math.isnan(ends[1])
    assert Quantities(table, "7").of("plain", "loss").empty

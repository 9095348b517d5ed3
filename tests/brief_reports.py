"""Short final measurements of runs, apart from `small_runs`, which an environment without pytest imports, too."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def brief_reports():
    """The final numbers of a run on 256 sequences instead of 4,096, for tests that do not ask how exact they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopscope.training.loop.REPORT_SIZE", 256)
        patch.setattr("hopscope.runs.from_weights.REPORT_SIZE", 256)
        yield

"""What contract tests share: models are reported on few sequences, for no number of theirs is read."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def brief_reports():
    """The final numbers of a run on 256 sequences instead of 4,096."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopscope.training.loop.REPORT_SIZE", 256)
        yield

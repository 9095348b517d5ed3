"""What contract tests share: few sequences in reports, and pictures drawn once, for neither is looked at."""

from __future__ import annotations

import pytest

from tests.pictures import drawn_once  # noqa: F401


@pytest.fixture(scope="module", autouse=True)
def brief_reports():
    """The final numbers of a run on 256 sequences instead of 4,096."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopscope.training.loop.REPORT_SIZE", 256)
        yield

"""What contract tests share: few sequences in reports, pictures drawn and not written, and variants looked up once."""

import functools

import pytest

from hopscope.core import catalogue
from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401


@pytest.fixture(scope="module", autouse=True)
def found_once():
    """Ten thousand configurations look for their variants a hundred thousand times; no file comes or goes meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "find", functools.cache(catalogue.find))
        yield

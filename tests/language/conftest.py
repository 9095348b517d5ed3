"""What tests of language models share: servers here speak plain HTTP, so certificates are read once."""

from __future__ import annotations

import functools
import ssl

import pytest


@pytest.fixture(scope="module", autouse=True)
def certificates_read_once():
    """A client reads all of the system's, a fortieth of a second, before it knows what it is to reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield

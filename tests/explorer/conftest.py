"""A small run to explore, and a cache of its own for every test."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hopscope import Run
from hopscope.explorer.building import Builder
from tests.small_runs import trained


@pytest.fixture(scope="session")
def once(tmp_path_factory) -> Path:
    """A run of four checkpoints (0, 4, 8, 12), trained once."""
    return trained(tmp_path_factory.mktemp("explorer") / "run").path


@pytest.fixture(scope="session")
def searched(once, tmp_path_factory) -> Path:
    """A cache with its circuit and emergence, which take seconds to find."""
    cache, before = tmp_path_factory.mktemp("searched"), os.environ.get("HOPSCOPE_CACHE")
    os.environ["HOPSCOPE_CACHE"] = str(cache)
    try:
        Builder([once]).build()
    finally:
        os.environ.pop("HOPSCOPE_CACHE")
        os.environ |= {"HOPSCOPE_CACHE": before} if before else {}
    for measured in cache.glob("explorer/checkpoint-*"):
        shutil.rmtree(measured)
    return cache


@pytest.fixture(autouse=True)
def own_cache(searched, tmp_path, monkeypatch) -> Path:
    """Nothing that a test measures is found by another."""
    shutil.copytree(searched, tmp_path / "cache")
    monkeypatch.setenv("HOPSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small(once, tmp_path) -> Run:
    """A copy of it, which a test may damage."""
    return Run(shutil.copytree(once, tmp_path / "run"))

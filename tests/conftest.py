"""What all tests share: one thread, no progress bars, and shapes checked at run time (see pyproject.toml)."""

from __future__ import annotations

import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _default_threads():
    """Training may set the number of threads; the next test begins with one."""
    yield
    torch.set_num_threads(1)


warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

"""Random generators, each named by a seed, a purpose and an index.

The training data of step 700 come from `generator(seed, "train", 700)`, whether the run was interrupted or not. So a
resumed run is bit-identical without any generator state on disk, and no two purposes share random numbers. The library
never uses PyTorch's global generator.
"""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, purpose: str, index: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator on `device`; equal arguments give equal numbers (on one kind of device)."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{index}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)

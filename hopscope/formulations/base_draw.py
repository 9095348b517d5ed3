"""Random numbers for questions, from SHAKE-256, so that a question's bytes depend on no library's generator.

Python guarantees that `random.Random(seed).random()` is the same in every version, but not `shuffle` or `sample`. A
question needs a few dozen small numbers, so they are read from one long hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from hopscope.core.settings import BadInput

#: Raised by one whenever a change here or in a formulation changes any question's bytes; part of every hash.
VERSION = 1
#: No question uses more than 1,000 of these 2048 bits, so probabilities are uniform to within 2^-1000.
N_BYTES = 256


class Draw:
    """The random numbers of one question: digits of a long hash, each read in the base that is needed."""

    def __init__(self, name: str, settings: Mapping[str, Any], seed: int, index: int):
        if seed < 0 or index < 0:
            raise BadInput(f"seed and index of a question must be 0 or more; got {seed} and {index}")
        text = json.dumps([VERSION, name, dict(settings), seed, index])
        self.left = int.from_bytes(hashlib.shake_256(text.encode()).digest(N_BYTES), "big")

    def below(self, n: int) -> int:
        """A number from 0 to n − 1."""
        self.left, digit = divmod(self.left, n)
        return digit

    def permutation(self, n: int) -> list[int]:
        """The numbers from 0 to n − 1 in random order, all orders equally likely (Fisher and Yates)."""
        order = list(range(n))
        for last in range(n - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order

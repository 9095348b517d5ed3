"""The retrieval problem with only some hops asked (ours, after Musat, ICLR 2025, section 7)."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.core.settings import BadInput, setting
from hopscope.tasks.retrieval import Retrieval


@dataclass(frozen=True)
class SomeHops(Retrieval):
    """`retrieval` with hops `first` to `last` asked. The sequences are the same, whatever is asked.

    All hops together are the implicit curriculum; the last hop alone is training without a curriculum.
    """

    first: int = setting(1, "the first hop that is asked", low=1, high=256)
    last: int = setting(2, "the last hop that is asked; at most hops", low=1, high=256)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first <= self.last <= self.n_hops:
            raise BadInput(f"first and last must be in order, and at most {self.n_hops}; got {self.first}, {self.last}")
        if self.taught_by.changes_difficulty:
            raise BadInput(f"some_hops asks for the same hops throughout; curriculum {self.curriculum} does not")

    @property
    def asked_hops(self) -> slice:
        return slice(self.first - 1, self.last)

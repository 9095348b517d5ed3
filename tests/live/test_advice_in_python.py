"""What `find_circuit` says where its owner named too little: in the words of Python, and what to name."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from hopscope import find_circuit
from tests.live.test_find_circuit import SMALL, drawn, induction_by_hand


def test_a_position_that_was_not_named_is_suggested():
    """An induction head whose owner names the query alone: it looks behind where its own token stands."""
    roles = lambda row: {"query": len(row) - 1}  # noqa: E731
    found = find_circuit(induction_by_hand(), *drawn(512), roles=roles, settings=SMALL)
    assert found.verdict != "circuit"
    assert "of it right after positions with the same symbol)" in found.reason
    assert found.reason.endswith("try roles for these positions")  # and nothing that would not help


class Itself(nn.Module):
    """Its answer is the token that stands there, so nothing depends on its heads."""

    def __init__(self):
        super().__init__()
        self.inner = induction_by_hand()

    def forward(self, tokens):
        logits = self.inner(tokens)
        return logits + 1e4 * F.one_hot(tokens, logits.shape[-1])


def test_settings_are_python_s():
    inputs, _ = drawn(512)
    found = find_circuit(Itself(), inputs, inputs[:, -1], settings=SMALL)
    assert found.verdict == "none" and "attention has no loss to explain" in found.reason
    assert "settings=Discovery(null=...)" in found.reason and "--" not in found.reason
    assert "--" not in found.words

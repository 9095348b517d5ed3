"""What `find_circuit` says where its owner named too little: in the words of Python, and what to name."""

from __future__ import annotations

from hopscope import find_circuit
from tests.live.test_find_circuit import SMALL, drawn, induction_by_hand


def test_a_position_that_was_not_named_is_suggested_and_settings_are_python_s():
    """An induction head whose owner names the query alone: it looks behind where its own token stands."""
    roles = lambda row: {"query": len(row) - 1}  # noqa: E731
    found = find_circuit(induction_by_hand(), *drawn(512), roles=roles, settings=SMALL)
    assert found.verdict != "circuit"
    assert "of it right after positions with the same symbol)" in found.reason
    assert "settings=Discovery(null=...)" in found.reason and "--" not in found.reason
    assert "--" not in found.words

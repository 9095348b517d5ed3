"""JSON within bounds, and text that no terminal obeys."""

from __future__ import annotations

import json
import math
import unicodedata

import pytest
from hypothesis import given, strategies as st

from hopscope.core import strangers
from hopscope.core.strangers import DEEPEST, json_of, misfit, visible

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_it_reads_what_pythons_own_reader_reads(value):
    text = json.dumps(value)
    assert json_of(text) == json_of(text.encode()) == json.loads(text) == value


NONE = ["", "{", "[1,]", "NaN", "[Infinity]", "-Infinity", "1e999", b"\xff\xfe"]
BEYOND = [
    "9" * 41,
    "9" * 5_000,
    "[" * 200_000,
    "[" * (DEEPEST + 2) + "]" * (DEEPEST + 2),
    '{"a":' * 99 + "1" + "}" * 99,
]


@pytest.mark.parametrize("text", [*NONE, *BEYOND], ids=range(13))
def test_what_is_no_json_or_beyond_bounds_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        json_of(text)


def test_more_lists_than_memory_is_for_are_not_made(monkeypatch):
    """32 MiB of empty lists take two gigabytes. They are counted before any is made."""
    monkeypatch.setattr(strangers, "MOST_PARTS", 1000)
    assert len(json_of("[" + ",".join(["[]"] * 999) + "]")) == 999
    monkeypatch.setattr(strangers.json, "loads", lambda *_, **__: pytest.fail("it was read"))
    for text in ("[" + ",".join(["[]"] * 1000) + "]", b"[" + b",".join([b"{}"] * 1000) + b"]"):
        with pytest.raises(ValueError, match="more lists and objects"):
            json_of(text)


def test_servers_may_send_infinities():
    assert json_of("[-Infinity, 1e999]", infinities=True) == [-math.inf, math.inf]


def test_the_deepest_that_is_read():
    text = "[" * DEEPEST + "]" * DEEPEST
    assert json_of(text) == json.loads(text)


@given(st.text(st.characters(codec=None)))
def test_nothing_is_left_that_a_terminal_obeys(text):
    shown = visible(text)
    assert all(unicodedata.category(sign) not in ("Cc", "Cf", "Cs") for sign in shown)
    if all(unicodedata.category(sign)[0] in "LNPS" for sign in text):
        assert shown == text


def test_what_is_shown():
    assert visible("\x1b[31mred\x07 caf\u00e9 \u202egpj\n") == "\\x1b[31mred\\x07 caf\u00e9 \\u202egpj\\n"


SHAPE = {"a": int, "b?": (float, int, None), "c": [{"d": str}], "e": {str: [int]}}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": 1, "c": [], "e": {}}, None),
        ({"a": 1, "b": None, "c": [{"d": ""}], "e": {"x?": [1]}, "more": {}}, None),
        ({"a": True, "c": [], "e": {}}, "a"),
        ({"a": 1, "b": "x", "c": [], "e": {}}, "b"),
        ({"c": [], "e": {}}, "a"),
        ({"a": 1, "c": [{"d": ""}, {}], "e": {}}, "c[1].d"),
        ({"a": 1, "c": [], "e": {"x": [1, "y"]}}, "e.x[1]"),
        ({"a": 1, "c": {}, "e": {}}, "c"),
        ([], "it"),
    ],
)
def test_the_first_place_that_is_not_of_a_shape_is_named(value, where):
    assert misfit(value, SHAPE, "it" if where == "it" else "") == where


@given(PLAIN)
def test_any_value_fits_or_is_named(value):
    assert misfit(value, SHAPE, "it") is None or misfit(value, SHAPE, "it")
    assert misfit(value, object, "it") is None

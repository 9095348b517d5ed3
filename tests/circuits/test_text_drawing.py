"""Circuits in characters: against drawings made by hand, and read back arrow by arrow."""

from __future__ import annotations

import itertools
import re

import pytest

from hopscope.circuits.text_drawing import drawing, wiring
from hopscope.circuits.units import Row
from hopscope.problem.paths import Path, role_name
from hopscope.theory.depth import minimum_depth

TWO_HOPS = ["L0H0 value[1]->key[1]", "L0H0 value[2]->key[2]", "L1H0 query->value[1]", "L3H0 query->value[2]"]


def made(*texts: str) -> list[Path]:
    return [Path.parse(text) for text in texts]


def picture(text: str) -> list[str]:
    """A drawing without how it is read."""
    return text.split("\n\n")[0].split("\n")


def test_two_hops_as_drawn_by_hand():
    assert picture(drawing(made(*TWO_HOPS))) == [
        "layer 3                                                   ├─H0─────────▶│",
        "layer 1                       ├─H0────────────────────────┼────────────▶│",
        "layer 0         ├─H0─────────▶│             ├─H0─────────▶│             │",
        "             key[1]       value[1]       key[2]       value[2]        query",
    ]


def test_all_that_a_head_can_do():
    """Backwards, to other chains, at its own role, to its own role in other chains, and a whole row."""
    paths = made(
        "L0H1 key[1]->value[1]", "L0H2 query->key[1] (other)", "L1H0 query->query", "L2H10 query->query (other)"
    )
    text = drawing([*paths, Row(1, 3, "(none)")], 60)
    assert picture(text) == [
        "layer 2                                            @┄H10",
        "layer 1        #H3                                 @H0",
        "layer 0        │           ├┄H2┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶│",
        "               │           │◀───────H1─┤           │",
        "            (none)      key[1]     value[1]      query",
    ]
    assert "other chains" in text and "its own role" in text and "whole row" in text
    assert "other chains" not in drawing(made(*TWO_HOPS))


def read_back(text: str) -> set[tuple[int, int, str, str]]:
    """Layer, head, attending and attended role of every arrow, by what stands in which column."""
    lines = picture(text)
    names = list(itertools.takewhile(lambda line: not re.search("[├@◀]", line), reversed(lines)))
    at = {m.start() + len(m[0]) // 2: m[0] for line in names for m in re.finditer(r"[^\s│]+", line)}
    found, layer = set(), None
    for line in lines[: -len(names)]:
        layer = int(number[1]) if (number := re.match(r"layer (\d+)", line)) else layer
        for arrow in re.finditer(r"├[─┄]H(\d+)[─┼┄]*▶│|│◀[─┼┄]*H(\d+)[─┄]┤", line):
            left, right = at[arrow.start()], at[arrow.end() - 1]
            query, key = (right, left) if arrow[1] else (left, right)
            found.add((layer, int(arrow[1] or arrow[2]), query, key))
    return found


@pytest.mark.parametrize("hops", range(1, 6))
@pytest.mark.parametrize("heads", ["one", "many"])
def test_pointer_doubling_reads_back(hops, heads):
    schedule = minimum_depth(hops, "causal", heads, "deepest_first").schedule
    text = drawing(schedule)
    assert read_back(text) == {(path.layer, path.head, path.query, path.key) for path in schedule}
    assert max(map(len, text.splitlines())) <= 80


def test_no_arrow_is_over_another():
    """Every path between seven roles, forwards and backwards, in one layer."""
    roles = [role_name(place) for place in range(7)]
    every = [Path(0, 0, query, key) for query in roles for key in roles if query != key]
    assert read_back(drawing(every)) == {(0, 0, path.query, path.key) for path in every}


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("hops", [2, 7, 30])
def test_no_line_is_too_long_and_no_word_is_broken(hops, width):
    text = drawing(minimum_depth(hops, "causal", "one", "nearest_first").schedule, width)
    assert max(map(len, text.splitlines())) <= width
    assert set(re.findall(r"\S*\[\S*", text.replace("→", " ").replace(",", ""))) <= {
        role_name(place) for place in range(2 * hops + 1)
    }


def test_what_is_too_wide_to_be_drawn_is_listed():
    text = drawing(minimum_depth(7, "causal", "one", "nearest_first").schedule)
    assert text.splitlines()[:2] == ["layer 3  H0 query→value[7]", "layer 2  H0 value[7]→value[5], H0 query→value[3]"]
    assert "and 4 more" in drawing(minimum_depth(20, "causal", "one", "nearest_first").schedule)


def test_wide_names_stand_on_several_lines_or_are_listed_whole():
    born, person = "the_city_in_which_it_was_born", "the_name_of_the_person"
    text = drawing(made(f"L0H0 {born}->{person}", f"L1H0 query->{born}"))
    assert born in text and person in text and max(map(len, text.splitlines())) <= 80
    long = "x" * 90
    assert drawing(made(f"L0H0 query->{long}")) == f"layer 0  H0 query→{long}"


def test_nothing_is_an_empty_drawing():
    assert drawing([]) == ""


def test_components_from_the_logits_down():
    edges = ["input->a0.h1<k>", "a0.h1->a10.h0<k>", "m0->a10.h0<k>", "input->m0", "a10.h0->logits", "m0->logits"]
    assert wiring("edges", edges).splitlines() == [
        "         logits ← m0, a10.h0",
        "layer 10 a10.h0<k> ← a0.h1, m0",
        "layer 0  a0.h1<k> ← input",
        "         m0 ← input",
    ]
    assert wiring("nodes", ["a10.h0", "m0", "a0.h1"]).splitlines() == ["layer 10 a10.h0", "layer 0  a0.h1, m0"]
    many = wiring("edges", [f"a{layer}.h{head}->logits" for layer in range(9) for head in range(9)])
    assert max(map(len, many.splitlines())) <= 80 and many.count(".h") == 81

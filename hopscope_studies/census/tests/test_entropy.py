"""Tests of how much a factor explains, in cases whose answer is known."""

from __future__ import annotations

import math
import random

import pytest

from hopscope_studies.census.entropy import entropy, explained, shared

ALIKE = [0] * 40


def test_entropy_of_a_fair_coin_and_of_certainty():
    assert entropy("hhtt") == pytest.approx(4 * math.log(2))
    assert entropy("hhhh") == 0


def test_information_is_symmetric():
    generator = random.Random(0)
    one, other = ([generator.randrange(3) for _ in range(40)] for _ in range(2))
    parts = [list(range(40))]
    assert shared(one, other, parts) == pytest.approx(shared(other, one, parts))


def test_what_decides_explains_all():
    factor = ["a", "b"] * 20
    found = explained([value.upper() for value in factor], factor, ALIKE)
    assert found is not None
    assert found.share == pytest.approx(1)
    assert found.chance == 1 / 1000


def test_what_is_drawn_apart_explains_nothing():
    generator = random.Random(1)
    found = [
        explained([generator.randrange(3) for _ in range(40)], [generator.randrange(2) for _ in range(40)], ALIKE, seed)
        for seed in range(12)
    ]
    assert sum(one.share for one in found if one) / len(found) == pytest.approx(0, abs=0.05)
    assert sum(one.chance < 0.05 for one in found if one) <= 2


def test_a_factor_that_is_only_a_confounder_s_shadow_explains_nothing():
    """The label depends on z, and the factor correlates with z; given z the factor explains nothing."""
    z = [0] * 20 + [1] * 20
    factor = [*[0] * 15, *[1] * 5, *[0] * 5, *[1] * 15]
    noise = [0, 1] * 20
    labels = list(zip(z, noise, strict=True))
    alone, given = explained(labels, factor, ALIKE), explained(labels, factor, z)
    assert alone is not None
    assert given is not None
    assert alone.chance < 0.05 < given.chance


def test_nothing_uncertain_nothing_told():
    assert explained("aaaa", "abab", [0] * 4) is None
    assert explained("abab", "aaaa", [0] * 4) is None

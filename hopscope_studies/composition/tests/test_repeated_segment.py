"""Tests of repeated segments: what is pasted where, Bayes' rule against enumeration, roles, other distributions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
import torch

from hopscope.core.settings import BadInput
from hopscope.tasks.base import NOT_ASKED
from hopscope.tasks.repeated_segment import RepeatedSegment

TINY = RepeatedSegment(length=6, d_vocab=3, shortest=2, longest=2, skipped=1, frequencies="uniform")


@pytest.mark.parametrize("task", [RepeatedSegment(), RepeatedSegment(pool=5), RepeatedSegment(asked="all")])
def test_the_second_copy_repeats_the_first(task):
    batch = task.sample(3000, 1)
    for tokens, (first, second), n in zip(
        batch.inputs.tolist(), batch.draw["starts"].tolist(), batch.draw["lengths"].tolist(), strict=True
    ):
        assert tokens[first : first + n] == tokens[second : second + n]
        assert first >= 0 and first + n <= second and second + n <= task.length
        assert task.shortest <= n <= task.longest


def test_every_placement_is_as_likely():
    """For two copies of a two-token segment, all pairs of start positions are equally frequent."""
    starts = Counter(map(tuple, TINY.sample(2000, 0).draw["starts"].tolist()))
    assert starts == {(0, 3): 2000}  # room of 6 − 4 = 2 has one pair of different places
    wider = TINY.but(length=8)
    starts = Counter(map(tuple, wider.sample(6000, 0).draw["starts"].tolist()))
    assert len(starts) == math.comb(4, 2)
    assert all(abs(count - 1000) < 4 * math.sqrt(1000 * 5 / 6) for count in starts.values())


def by_enumeration(task: RepeatedSegment, prefix: list[int], asked: bool) -> dict[int, float]:
    """P(next | prefix) by enumeration of all sequences with their probabilities."""
    p = task.probabilities.tolist()
    weights: Counter[int] = Counter()
    for first, second, n in task.placements.tolist():
        free = [t for t in range(task.length) if not second <= t < second + n]
        prior = 1 / math.comb(task.length - 2 * n, 2)
        if asked and not second + task.skipped <= len(prefix) < second + n:
            continue
        for drawn in product(range(task.d_vocab), repeat=len(free)):
            tokens = dict(zip(free, drawn, strict=True))
            tokens |= {second + k: tokens[first + k] for k in range(n)}
            if all(tokens[t] == token for t, token in enumerate(prefix)):
                weights[tokens[len(prefix)]] += prior * math.prod(p[token] for token in drawn)
    return {token: weight / weights.total() for token, weight in weights.items()}


@pytest.mark.parametrize("asked", ["copy", "all"])
def test_the_oracle_is_bayes_rule_by_enumeration(asked):
    task = RepeatedSegment(length=7, d_vocab=5, shortest=2, longest=2, skipped=1, frequencies="two_level", asked=asked)
    tokens = task.sample(1, 4).inputs[0].tolist()
    found = task.brute_force(tokens)
    for place in (3, 4, 5):
        expected = by_enumeration(task, tokens[: place + 1], asked == "copy")
        if not expected:  # nothing is ever asked there
            continue
        for best in found[place]:
            assert {t: w for t, w in best.items() if w > 1e-15} == pytest.approx(expected, abs=1e-12)


def test_the_oracle_sees_no_later_token():
    task = RepeatedSegment(length=20, d_vocab=8, shortest=4, longest=6)
    tokens = task.sample(1, 0).inputs[0].tolist()
    changed = [*tokens[:12], *[(token + 1) % 8 for token in tokens[12:]]]
    assert task.brute_force(tokens)[:12] == task.brute_force(changed)[:12]


def test_pools_hold_as_many_segments_as_they_say():
    task = RepeatedSegment(pool=5)
    draw = task.sample(500, 2).draw
    seen = {
        tuple(tokens[first : first + n])
        for tokens, (first, _), n in zip(
            draw["tokens"].tolist(), draw["starts"].tolist(), draw["lengths"].tolist(), strict=True
        )
    }
    assert len(seen) == 5
    half = task.but(pool_share=0.5).sample(2000, 2).draw
    rows = zip(half["tokens"].tolist(), half["starts"].tolist(), half["lengths"].tolist(), strict=True)
    known = sum(tuple(tokens[first : first + n]) in seen for tokens, (first, _), n in rows)
    assert abs(known - 1000) < 4 * math.sqrt(500)


@pytest.mark.parametrize("frequencies", ["uniform", "zipf", "two_level"])
def test_tokens_come_as_often_as_they_should(frequencies):
    task = RepeatedSegment(frequencies=frequencies, d_vocab=8)
    counts = torch.bincount(task.sample(4000, 0).inputs.flatten(), minlength=8).double()
    shares = counts / counts.sum()
    assert float(task.probabilities.sum()) == pytest.approx(1)
    assert float((shares - task.probabilities).abs().max()) < 0.01


def test_roles_lead_from_the_query_to_what_follows():
    batch = RepeatedSegment().sample(200, 5)
    wanted = batch.roles.pairs("query", "value[1]", "same")
    row, query, value = wanted.nonzero(as_tuple=True)
    asked = batch.targets[..., 0] != NOT_ASKED
    assert len(row) == int(asked.sum())
    assert torch.equal(batch.inputs[row, value], batch.targets[row, query, 0])
    key = batch.roles.pairs("value[1]", "key[1]", "same").nonzero(as_tuple=True)
    assert torch.equal(key[1], key[2] + 1)


def test_other_kinds_of_sequences_fit_the_same_model():
    task = RepeatedSegment()
    other = task.but(frequencies="uniform", shortest=12, longest=12)
    assert (other.n_positions, other.d_vocab, other.d_output) == (task.n_positions, task.d_vocab, task.d_output)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"longest": 5}, "longest must be at least shortest"),
        ({"skipped": 6}, "skipped must be below shortest"),
        ({"longest": 16}, "to hold two copies"),
        ({"frequencies": "two_level", "d_vocab": 4}, "above 4"),
    ],
)
def test_what_cannot_be_is_refused(wrong, words):
    with pytest.raises(BadInput, match=words):
        RepeatedSegment(**wrong)

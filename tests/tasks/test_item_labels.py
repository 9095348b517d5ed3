"""Item–label sequences: a brute force over thousands, shares by counting, floors by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from hopscope.core.settings import BadInput
from hopscope.tasks.base import NOT_ASKED
from hopscope.tasks.item_labels import ItemLabels
from tests.contracts.test_every_task import assert_targets_are_the_oracles

SINGH = ItemLabels(withheld=2)
REDDY = ItemLabels(
    n_classes=64,
    n_labels=16,
    n_pairs=4,
    d_item=32,
    noise=0.1,
    labelling="class",
    distinct=False,
    label_code="vector",
    position_code="one_hot",
    n_places=17,
)
VARIANTS = {
    "labels of the sequence": SINGH,
    "withheld": SINGH.but(sets="withheld"),
    "every item asked": ItemLabels(n_pairs=6, burst=2, asked="all"),
    "labels of the class": REDDY,
    "every class asked": REDDY.but(asked="all", burst=2),
    "every new class asked": REDDY.but(fresh=1.0, asked="all", burst=2),
    "some new, all asked": REDDY.but(fresh=0.5, asked="all", burst=2),
    "flipped, all asked": REDDY.but(flipped=True, asked="all", burst=2),
    "new classes": REDDY.but(fresh=1.0),
    "some new": REDDY.but(fresh=0.5, burst=2),
    "random contexts": REDDY.but(bursty=0.25),
    "absent": REDDY.but(absent=True),
    "flipped": REDDY.but(flipped=True),
    "different labels": REDDY.but(distinct=True),
    "as many labels as pairs": REDDY.but(distinct=True, n_labels=4, n_classes=64),
    "frequent classes": REDDY.but(zipf=1.0),
}


@pytest.mark.parametrize("task", VARIANTS.values(), ids=VARIANTS)
def test_targets_are_the_brute_forces_over_thousands(task):
    assert_targets_are_the_oracles(task, n=500, seed=11)


def drawn(task: ItemLabels, n: int = 2000):
    draw = task.draw(n, torch.Generator().manual_seed(5))
    return draw["classes"], draw["labels"]


def test_bursts_are_as_long_as_said_and_the_query_is_evenly_any_of_them():
    classes, _ = drawn(ItemLabels(n_pairs=6, burst=3))
    counts = {tuple(sorted(Counter(row[:-1]).values())) for row in classes.tolist()}
    assert counts == {(3, 3)}
    places = (classes[:, :-1] == classes[:, -1:]).float().mean(0)
    assert torch.allclose(places, torch.full((6,), 0.5), atol=0.05)


def test_labels_of_one_class_agree_and_those_of_others_differ():
    classes, labels = drawn(SINGH)
    alike = classes[:, :, None] == classes[:, None, :]
    assert torch.equal(alike, labels[:, :, None] == labels[:, None, :])


def test_withheld_pairs_of_labels_are_two_of_the_ten_and_never_trained():
    """Singh et al.: 8 pairs for training, in both orders, 2 held out."""
    seen = {which: {tuple(sorted(set(row))) for row in drawn(SINGH.but(sets=which))[1].tolist()} for which in CHOICES}
    assert (len(seen["trained"]), len(seen["withheld"])) == (8, 2)
    assert not seen["trained"] & seen["withheld"]


CHOICES = ("trained", "withheld")


def test_where_the_query_is():
    """Absent it never stands before; at random as often as chance has it."""
    absent, _ = drawn(REDDY.but(absent=True))
    assert not (absent[:, :-1] == absent[:, -1:]).any()
    loose, labels = drawn(REDDY.but(bursty=0.0), n=8000)
    share = (loose[:, :-1] == loose[:, -1:]).any(1).float().mean()
    assert float(share) == pytest.approx(1 - (1 - 1 / 64) ** 4, abs=0.01)
    assert torch.equal(labels, loose % 16)


def test_frequent_classes_follow_the_power_law():
    classes, _ = drawn(REDDY.but(zipf=1.5, bursty=0.0), n=20_000)
    counts = torch.bincount(classes.flatten(), minlength=64) / classes.numel()
    weights = torch.arange(1, 65) ** -1.5
    assert torch.allclose(counts, weights / weights.sum(), atol=0.005)


def test_new_classes_are_new_every_time_and_old_ones_never():
    old, new = REDDY.sample(50, 1), REDDY.but(fresh=1.0).sample(50, 1)
    table = REDDY.classes

    def far(batch):
        return torch.cdist(batch.draw["items"].flatten(0, 1) * math.sqrt(1.01), table).amin(-1)

    assert far(old).max() < 0.3 < far(new).min()
    assert (new.draw["classes"] >= 64).all()


def test_flipped_labels_are_one_further():
    _, plain = drawn(REDDY)
    classes, flipped = drawn(REDDY.but(flipped=True))
    assert torch.equal(flipped, (classes + 1) % 16) and not torch.equal(flipped, plain)


def test_noise_keeps_the_length():
    lengths = REDDY.but(noise=0.5).sample(500).draw["items"].square().sum(-1)
    assert float(lengths.mean()) == pytest.approx(1.0, abs=0.05)


def test_only_what_is_known_is_asked():
    batch = ItemLabels(n_pairs=4, burst=2, asked="all").sample(100)
    first = batch.draw["classes"][:, :, None] == batch.draw["classes"][:, None, :]
    known = first.tril(-1).any(-1)
    assert torch.equal(batch.targets[..., 0] != NOT_ASKED, known)
    assert not known[:, 0].any() and known[:, -1].all()


def test_floors():
    """ln 5 and ln 2 of Singh et al.; of labels that may repeat the expectation, by counting all of them."""
    assert list(SINGH.baselines.values()) == pytest.approx([math.log(5), math.log(2), 0])
    assert SINGH.learnt_below == pytest.approx(0.4 * math.log(2))
    task = REDDY.but(n_labels=4, n_pairs=2)
    by_counting = sum(math.log(2 / (1 + (other == 0))) for other in range(4)) / 4
    assert task.baselines["any label of the context"] == pytest.approx(by_counting)
    full = REDDY.but(distinct=True, n_labels=4)
    assert full.baselines["any label"] == full.baselines["any label of the context"] == pytest.approx(math.log(4))


def test_places_of_the_code_are_in_a_row():
    batch = REDDY.sample(200)
    places = batch.inputs[..., :17].argmax(-1)
    assert torch.equal(places - places[:, :1], torch.arange(9).expand(200, 9))
    assert len(places[:, 0].unique()) == 9


def test_roles_name_the_pair_of_the_query():
    batch = ItemLabels(n_pairs=4, burst=2).sample(300)
    right = batch.roles.pairs("query", "value[1]", "same")[:, -1]
    assert (right.sum(-1) == 2).all()
    shown = batch.task.shown(batch)
    assert (shown[right].view(300, 2) == batch.targets[:, 0]).all()
    assert (shown[:, ::2] == NOT_ASKED).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_pairs": 3, "burst": 2}, "pairs must be a multiple of the burst, 2; got 3"),
        ({"n_classes": 2, "n_pairs": 3}, "classes must be at least 3; got 2"),
        ({"n_labels": 2, "n_pairs": 3}, "labels must be at least 3, for they differ; got 2"),
        ({"labelling": "class", "n_classes": 51}, "classes must be a multiple of labels, 5; got 51"),
        ({"absent": True}, "known from it alone"),
        ({"bursty": 0.5}, "known from it alone"),
        ({"labelling": "class", "absent": True, "fresh": 0.5}, "asked of old classes"),
        ({"labelling": "class", "zipf": 1.0}, "drawn evenly"),
        ({"withheld": 10}, "of 10 sets of labels 10 cannot be withheld"),
        ({"sets": "withheld"}, "set withheld above 0"),
        ({"labelling": "class", "withheld": 1}, "sets of labels can be withheld where"),
        ({"n_places": 4}, "places must be 0 or at least 5; got 4"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_in_one_sentence(settings, words):
    with pytest.raises(BadInput) as told:
        ItemLabels(**settings)
    assert words in str(told.value) and "\n" not in str(told.value)

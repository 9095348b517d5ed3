"""Tests of `hidden_rules`: prompts against a script and closed forms, cut heads against a twin, claims on tables."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from pandas import DataFrame

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import torch

from hopscope.core.settings import BadInput
from hopscope.experiments.results import claim_ids
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.by_hand import one_per_word
from hopscope_studies.composition.claims import SENTENCES
from hopscope_studies.composition.experiments import hidden_rules
from hopscope_studies.composition.hidden.claims import pooled
from hopscope_studies.composition.hidden.measured import SCRIPT, HiddenRules, encoded, right_without, sets_of
from hopscope_studies.composition.hidden.prompts import CHANCE, FORMS, KINDS, Prompt, followed, prompt
from hopscope_studies.composition.tests.made_up import hidden
from tests.language import of_models

# Prompts


@pytest.mark.parametrize("kind", KINDS)
def test_the_rule_gives_the_answer_and_nothing_of_it_is_left_when_shuffled(kind):
    """A script that reads the text alone is always right; if shuffled, with the exact probability of a guess."""
    n = 2000
    shares = {}
    for form in FORMS:
        asked = [prompt(kind, form, 3, index) for index in range(n)]
        assert all(one.answer in one.choices and len(set(one.choices)) == round(1 / CHANCE[kind]) for one in asked)
        shares[form] = sum(followed(kind, one) == one.answer for one in asked) / n
    assert shares["familiar"] == shares["replaced"] == 1
    assert shares["shuffled"] == pytest.approx(CHANCE[kind], abs=4 * (CHANCE[kind] * (1 - CHANCE[kind]) / n) ** 0.5)


@pytest.mark.parametrize("kind", ["names", "labels", "pairs"])
def test_replacing_changes_the_answers_alone(kind):
    for index in range(20):
        plain, replaced = (prompt(kind, form, 0, index) for form in ("familiar", "replaced"))
        one, other = (re.split(r"([\s.:]+)", some.text) for some in (plain, replaced))
        changed = {(a, b) for a, b in zip(one, other, strict=True) if a != b}
        assert len(changed) == len({a for a, _ in changed}) == len({b for _, b in changed})
        assert {a for a, _ in changed} == {*plain.choices} and {b for _, b in changed} == {*replaced.choices}
        assert dict(changed)[plain.answer] == replaced.answer


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_is_fixed_and_its_place_says_nothing(kind):
    assert prompt(kind, "replaced", 1, 5) == prompt(kind, "replaced", 1, 5) != prompt(kind, "replaced", 2, 5)
    places = [one.choices.index(one.answer) for one in (prompt(kind, "replaced", 0, index) for index in range(600))]
    shares = [places.count(place) / 600 for place in range(round(1 / CHANCE[kind]))]
    assert shares == pytest.approx([CHANCE[kind]] * len(shares), abs=0.085)


# Cutting


@pytest.fixture(scope="module")
def lens() -> Lens:
    """A random model in which each word of the prompts is one token."""
    texts = [prompt(kind, form, 0, index) for kind in KINDS for form in FORMS for index in range(40)]
    words = {word for one in texts for word in re.findall(r"\w+|[^\w\s]", " ".join([one.text, *one.choices]))}
    return of_models.random_lens(one_per_word(["<unk>", "<s>", "\n", *sorted(words)], "<s>"))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_without_heads_are_those_of_a_model_without_their_weights(lens, kind):
    heads = [(0, 1), (2, 3)]
    twin = copy.deepcopy(lens.model)
    for layer, head in heads:
        twin.model.layers[layer].self_attn.o_proj.weight[:, 6 * head : 6 * head + 6] = 0
    asked = [prompt(kind, "replaced", 0, index) for index in range(40)]
    found = dict(right_without(lens, asked, 1, {"nothing": [], "some": heads}))
    for name, model in (("nothing", lens.model), ("some", twin)):
        for one, right in zip(asked, found[name], strict=True):
            ids = lens.tokenizer("<s>" + one.text, add_special_tokens=False, return_tensors="pt")["input_ids"]
            logits = model(ids).logits[0, -1]
            likeliest = max(one.choices, key=lambda c: float(logits[lens.tokenizer.convert_tokens_to_ids(c)]))
            assert right == (likeliest == one.answer)
    assert found["nothing"] != found["some"]


def test_random_sets_are_as_large_and_share_no_head_with_the_chosen(lens):
    scores = torch.zeros(3, 4)
    scores[1, 2], scores[2, 0], scores[2, 3] = 0.9, 0.8, 0.7
    sets = sets_of(lens, scores, 4)
    assert sets["nothing"] == [] and sets["induction"] == [(1, 2), (2, 0), (2, 3)]
    for name in ("random 0", "random 1", "same layers 0", "same layers 1"):
        assert len(set(sets[name])) == 3 and not {*sets[name]} & {*sets["induction"]}
    assert sorted(layer for layer, _ in sets["same layers 0"]) == [1, 2, 2]


def test_a_model_that_splits_words_is_refused(lens):
    with pytest.raises(BadInput, match="each word is one token"):
        encoded(lens, [Prompt("One: a", "two words", ("two words", "a"))], 1)


# Claims


def rows(**made: float) -> DataFrame:
    """A table of five seeds with made-up answers, and the script's own."""
    found: list[dict[str, Any]] = []
    for seed in range(5):
        about = {"version": "v", "seed": seed}
        found += [{"run": f"m{seed}", **about, "model": "m", "part": "language", **row} for row in hidden(**made)]
        script = HiddenRules(SCRIPT, 60, seed)
        found += [{"run": f"s{seed}", **about, **script.about(), **row} for row in script.report()["rows"]]
    return DataFrame(found)


def verdicts(table: DataFrame) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in hidden_rules.claims(table)}


def test_all_hold_where_rules_need_the_heads_alone():
    found = verdicts(rows())
    assert list(found) == claim_ids("hidden_rules") and set(found) == set(SENTENCES["hidden_rules"])
    assert {id for id, verdict in found.items() if verdict != "holds"} == set()


def test_each_fails_where_it_is_not_so():
    found = verdicts(rows(induction=0.5, random=0.5, capitals=0.2, shuffled=0.6))
    assert {id for id, verdict in found.items() if verdict == "holds"} == {"rules_are_found", "the_script_knows"}


def test_without_any_rule_found_nothing_is_said_of_heads():
    table = rows()
    asked = (table.part == "language") & (table.form == "replaced")
    table.loc[asked, "right"] = (24 * table.chance[asked]).round()
    found = verdicts(table)
    assert found["rules_are_found"] == "fails" and found["cutting_costs_more_than_random"] == "undecided"


def test_random_sets_count_their_prompts_once():
    found = pooled(rows()[lambda table: table.part == "language"])
    assert found.loc["pairs", "replaced", "random"].n == 120 == found.loc["pairs", "replaced", "nothing"].n
    both = found.loc["pairs", "replaced", "random"]
    assert both.share == pytest.approx(both.right / 240) and both.low < both.share < both.high

"""Tests that the presets agree with the paper, setting by setting, or that a setting is marked as open."""

from __future__ import annotations

import dataclasses

import pytest

from hopscope import Architecture, Training
from hopscope.configuration.presets import AS_WRITTEN, OPEN, PAPER, PRIOR, RECIPES, deepest, recipe
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.stacked_heads.recipe import Said, page, settings, value_in

PARTS = {"task": Retrieval, "model": Architecture, "training": Training}


def test_every_setting_has_a_statement_of_the_paper_or_is_open():
    """Every setting of a configuration has an entry, so a setting added later must get one."""
    fields = {(part, field.name) for part, kind in PARTS.items() for field in dataclasses.fields(kind)}
    listed = [(said.part, said.name) for said in settings()]
    assert len(listed) == len(set(listed)) and set(listed) == fields
    for said in settings():
        assert bool(said.says) != bool(said.open) and bool(said.says) == bool(said.section)
        assert (said.value is not None) == bool(said.says), said


@pytest.mark.parametrize("said", settings(), ids=lambda said: f"{said.part}.{said.name}")
def test_the_presets_are_as_written(said: Said):
    assert said.differing() == {}


@pytest.mark.parametrize("preset", PAPER)
def test_no_preset_of_the_paper_has_what_is_ours(preset):
    """RoPE's base, GPT-2's weights and no prior are checked in the built model, not only in its settings."""
    config = recipe(preset).config()
    assert (config.task.position_base, config.model.init) == (10_000.0, "gpt2")
    assert config.model.positions == "input" != PRIOR and config.model.look_back == 0
    assert not [
        name for name, _ in config.model.build(config.task).named_parameters() if name.endswith(("beta", "W_pos"))
    ]


def test_both_orders_are_there_and_differ_in_nothing_else():
    assert set(PAPER) == {*AS_WRITTEN, *(f"{name}_deepest" for name in AS_WRITTEN)}
    for name in AS_WRITTEN:
        near, deep = recipe(name).config(), recipe(f"{name}_deepest").config()
        assert (near.task.order, deep.task.order) == ("nearest_first", "deepest_first")
        assert near.task.but(order="deepest_first") == deep.task
        assert (near.model, near.training) == (deep.model, deep.training)


def test_what_is_open_is_said_to_be_and_the_presets_say_what_they_take():
    """Presets state the values of open settings themselves, so a changed default cannot change them."""
    stated = {(said.part, said.name) for said in settings() if said.says}
    for part, values in OPEN.items():
        for name, value in values.items():
            assert (part, name) not in stated
            for preset in PAPER:
                assert getattr(RECIPES[preset], part)[name] == value == value_in(preset, part, name)


def test_a_preset_that_is_set_otherwise_is_told(monkeypatch):
    other = RECIPES["transformer_d"]._replace(task={**RECIPES["transformer_d"].task, "position_base": 100.0})
    monkeypatch.setitem(RECIPES, "transformer_d", other)
    (row,) = [line for line in page().splitlines() if "`position_base`" in line]
    assert row.endswith("| **no**: `transformer_d` has 100, not 10,000 |")
    assert "10,000 (`figure_4`," in row and "100 (`transformer_d`)" in row


def test_the_page_has_a_row_for_every_setting():
    rows = page().splitlines()[2:]
    assert len(rows) == len(settings()) and all(row.count(" | ") == 4 for row in rows)
    assert "**no**" not in page()
    (order,) = [row for row in rows if "`order`" in row]
    assert "nearest_first (`figure_4`" in order and "deepest_first (`figure_4_deepest`" in order and "| open |" in order


def test_deepest_says_so():
    assert deepest(RECIPES["transformer_d"]).summary.endswith("; deepest facts first")

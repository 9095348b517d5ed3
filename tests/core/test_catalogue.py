"""What stands in a folder is found by its name; tests/test_additions.py adds to each."""

from __future__ import annotations

import pytest

from hopscope.core import catalogue
from hopscope.core.settings import BadInput


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(BadInput, match="did you mean 'retrieval'"):
        catalogue.find("tasks", "retreival")
    with pytest.raises(BadInput, match="choose one of"):
        catalogue.find("tasks", "zzz")


def test_a_variants_setting_is_given_once():
    assert catalogue.chosen("models.positions", "rotary(base=100)").base == 100
    with pytest.raises(BadInput, match="must be given once"):
        catalogue.chosen("models.positions", "rotary(base=100, base=200)")


def test_a_folder_that_is_not_there_offers_nothing():
    assert catalogue.names("no_such_folder") == []


def test_what_stands_in_a_study_is_found_like_what_stands_in_the_library():
    assert "trigger_bigrams" in catalogue.names("tasks")
    assert catalogue.find("tasks", "trigger_bigrams").__module__ == "hopscope.studies.birth.tasks.trigger_bigrams"
    assert catalogue.find("measures", "part_loss").__module__ == "hopscope.studies.facts.measures.part_loss"


def test_files_of_a_frame_are_no_variants():
    assert {"fig4", "birth"} <= set(catalogue.names("experiments"))
    assert not {"capacity", "variants", "circuit_tables"} & set(catalogue.names("experiments"))


def test_a_name_in_two_places_is_refused(monkeypatch, tmp_path):
    library = catalogue.Root("lab", tmp_path)
    for folder in ("tasks", "studies/one/tasks", "studies/one"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "__init__.py").touch()
    for folder in ("tasks", "studies/one/tasks"):
        (tmp_path / folder / "recall.py").touch()
    monkeypatch.setattr(catalogue, "LIBRARY", library)
    with pytest.raises(BadInput, match=r"'recall' both in lab\.tasks and in lab\.studies\.one\.tasks; rename one"):
        catalogue.names("tasks")
    (tmp_path / "tasks" / "recall.py").unlink()
    assert catalogue.names("tasks") == ["recall"]

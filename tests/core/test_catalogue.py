"""What stands in a folder is found by its name; tests/test_additions.py adds to each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hopscope.core import catalogue, outside
from hopscope.core.settings import BadInput
from hopscope.experiments.overview import studies_markdown
from hopscope.experiments.results import all_claims, rooms

#: What takes long to copy.
LARGE = shutil.ignore_patterns("tests", "table.csv", "*.svg", "manifest.json", "__pycache__")


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
    assert catalogue.find("tasks", "trigger_bigrams").__module__ == "hopscope_studies.birth.tasks.trigger_bigrams"
    assert catalogue.find("measures", "part_loss").__module__ == "hopscope_studies.facts.measures.part_loss"


def test_files_of_a_frame_are_no_variants():
    assert {"fig4", "birth"} <= set(catalogue.names("experiments"))
    assert not {"quantities", "variants", "circuit_tables"} & set(catalogue.names("experiments"))


def test_a_name_in_two_places_is_refused(monkeypatch, tmp_path):
    for folder in ("lab/tasks", "studies/one/tasks", "studies/one/experiments"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("lab/tasks", "studies/one/tasks"):
        (tmp_path / folder / "recall.py").touch()
    monkeypatch.setattr(catalogue, "LIBRARY", catalogue.Root("lab", tmp_path / "lab"))
    monkeypatch.setattr(outside, "ours", lambda: {"rooms": tmp_path / "studies"})
    with pytest.raises(BadInput, match=r"'recall' both in lab\.tasks and in rooms\.one\.tasks; rename one"):
        catalogue.names("tasks")
    (tmp_path / "lab" / "tasks" / "recall.py").unlink()
    assert catalogue.names("tasks") == ["recall"]


def test_a_study_is_a_folder_with_experiments_or_one_in_studies(tmp_path):
    for folder in ("one/experiments", "two/tasks", "studies/three/tasks", "_hidden/experiments", "no-name/experiments"):
        (tmp_path / folder).mkdir(parents=True)
    found = catalogue.Root("lab", tmp_path, outside=True).studies()
    assert [(root.package, root.outside) for root in found] == [("lab.one", True), ("lab.studies.three", True)]
    own = catalogue.Root(
        outside.package_of(tmp_path), tmp_path, outside=True
    )  # may hold tests/experiments, or anything
    assert [root.path.name for root in own.studies()] == ["three"]


def test_a_bare_checkout_finds_the_studies_beside_it(monkeypatch):
    """Without the metadata of an installed package, or with those of before there were studies beside it."""
    expected = outside.ours()
    monkeypatch.setattr(outside, "entry_points", lambda group: [])
    assert outside.ours.__wrapped__() == expected


def test_our_own_studies_named_as_a_folder_are_not_somebodys(monkeypatch):
    monkeypatch.setenv(outside.VARIABLE, str(outside.ours()["hopscope_studies"]))
    assert outside.places() == outside.packages()


def test_our_studies_come_by_an_entry_point_and_are_nobodys_own():
    """Errors in them are ours, and their code is in our version, so that a session need not list their files."""
    assert list(outside.ours()) == ["hopscope_studies"] and "hopscope_studies" not in outside.packages()
    assert not outside.is_outside("hopscope_studies.birth.tasks.trigger_bigrams")
    assert catalogue.hashes("tasks", "trigger_bigrams") == {}


def test_a_study_that_is_removed_is_gone_everywhere(monkeypatch, tmp_path):
    """Its folder is all there is of it: nothing else names it."""
    copy = Path(shutil.copytree(outside.ours()["hopscope_studies"], tmp_path / "studies", ignore=LARGE))
    monkeypatch.setattr(outside, "ours", lambda: {"hopscope_studies": copy})
    before = {kind: set(catalogue.names(kind)) for kind in ("experiments", "tasks", "measures", "reports")}
    shutil.rmtree(copy / "birth")
    gone = {kind: before[kind] - set(catalogue.names(kind)) for kind in before}
    assert gone["experiments"] == {"birth"} and "trigger_bigrams" in gone["tasks"]
    claims = all_claims(*rooms())
    assert claims and "birth" not in {row["experiment"] for row in claims}
    assert "birth" not in studies_markdown(claims, "{}")

"""Where results are: in their studies; what was elsewhere once says where it went."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from pandas import DataFrame

from hopscope.cli import main
from hopscope.cli.commands import report
from hopscope.core import catalogue
from hopscope.core.places import is_installed
from hopscope.experiments.judging import judge
from hopscope.experiments.results import all_claims, claim_ids, judged, results_in, room, rooms, today

ROOT = Path(__file__).parents[2]


def test_an_experiments_room_is_in_its_study():
    assert room("fig2") == ROOT / "hopscope_studies" / "stacked_heads" / "results"
    assert room("fig2") in rooms() and len(rooms()) == 1 + len(catalogue.plugins()) + len(catalogue.studies())


def test_what_is_installed_is_no_place_for_what_a_person_makes(monkeypatch):
    study = catalogue.Root("hopscope_studies.birth", Path("/venv/lib/python3.11/site-packages/hopscope_studies/birth"))
    assert is_installed(study.path) and not is_installed(ROOT)
    monkeypatch.setattr(catalogue, "home", lambda *_: study)
    assert room("birth") == Path("results")


def test_ids_of_claims_are_those_of_the_study_s_results_and_none_before_it_has_any(monkeypatch, tmp_path):
    committed = json.loads((room("curricula") / "curricula" / "claims.json").read_text())
    assert claim_ids("curricula") == list(dict.fromkeys(row["id"] for row in committed)) != []
    monkeypatch.setattr(catalogue, "home", lambda *_: catalogue.Root("new", tmp_path))
    assert claim_ids("curricula") == []


def test_two_claims_with_one_id_are_refused():
    rows = DataFrame({"run": ["a"], "seed": [0], "version": ["v"]})
    twice = lambda table: [judge("same", "It is.", 1.0, section="1", rows=table, above=0)] * 2  # noqa: E731
    with pytest.raises(TypeError, match="two claims with the id same; each needs its own"):
        list(judged(SimpleNamespace(__name__="study", claims=twice), rows, "cpu"))


def test_results_of_a_study_of_studies_and_of_a_folder_are_found_alike(tmp_path):
    studies = ROOT / "hopscope_studies"
    names = [folder.name for folder in results_in(studies / "k_hop")]
    assert names == ["easy_to_hard", "hop_k_depth", "k_hop"]
    assert [folder.name for folder in results_in(studies / "k_hop" / "results")] == names
    assert {*names} < {folder.name for folder in results_in(studies)}
    mine = Path(shutil.copytree(studies / "k_hop" / "results" / "k_hop", tmp_path / "k_hop"))
    found = {folder.name: folder for folder in results_in(tmp_path, studies)}
    assert found["k_hop"] == mine and found["easy_to_hard"].is_relative_to(studies)


def test_what_an_installed_package_brings_is_not_redrawn(tmp_path, monkeypatch, capsys):
    """It comes without tables, and is no place to write to."""
    theirs = tmp_path / "site-packages" / "results" / "k_hop"
    theirs.mkdir(parents=True)
    shutil.copy(room("k_hop") / "k_hop" / "claims.json", theirs)
    mine = Path(shutil.copytree(room("fig2") / "fig2", tmp_path / "mine" / "fig2"))
    (mine / "figure.svg").unlink()
    monkeypatch.setattr(report, "rooms", lambda: [theirs.parent, mine.parent])
    assert main(["report", "--redraw", "--json"]) == 0, capsys.readouterr().err
    found = {row["experiment"] for row in json.loads(capsys.readouterr().out)}
    assert found == {"fig2", "k_hop"} and (mine / "figure.svg").is_file()
    assert [path.name for path in theirs.iterdir()] == ["claims.json"]


def test_reports_are_of_all_studies_unless_results_are_named(capsys):
    assert main(["report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == all_claims(ROOT / "hopscope_studies")


@pytest.mark.parametrize("command", ["verify {}", "report --results {}", "explore packaged --results {}"])
@pytest.mark.parametrize("place", ["results", "results/fig2"])
def test_an_old_path_says_where_things_went(command, place, capsys):
    assert main(command.format(place).split()) == 2
    went = ROOT / "hopscope_studies" / ("stacked_heads/results/fig2" if "fig2" in place else "")
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"there is no folder {place}: " in err and str(went) in err


def test_an_old_path_in_a_setting_is_followed(tmp_path, monkeypatch):
    """It is part of an identity, and cannot change; a folder that is there comes first."""
    assert today(Path("results/facts")) == room("facts") / "facts"
    assert today(Path("results/heads_smollm2")) == Path("results/heads_smollm2")
    monkeypatch.chdir(tmp_path)
    Path("results/facts").mkdir(parents=True)
    assert today(Path("results/facts")) == Path("results/facts")

"""What draws and makes pages: as JSON, opened in a browser if one says so, and honest about rows that are missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hopscope.circuits.discovery import Discovery
from hopscope.cli import main
from hopscope.cli.commands import demo, explore
from hopscope.experiments.results import room
from hopscope.runs.run import Run
from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401
from tests.small_runs import trained

SEARCH = ["--discovery", "8", "--selection", "8", "--report", "8"]
#: A trained run of one hop, whose circuit is found in no time.
SOLVED = Path(__file__).parents[1] / "data" / "runs_0_1" / "solved"


@pytest.fixture
def browser(monkeypatch):
    """Addresses that were opened."""
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: not seen.append(address))
    return seen


def test_draw_as_json_names_every_file_and_what_it_shows(tmp_path, capsys):
    run = trained(tmp_path / "run")
    assert main(["draw", str(run.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["run"] == str(run.path)
    files = [Path(file) for picture in found["pictures"] for file in picture["files"]]
    assert {*files} == {*(run.path / "pictures").iterdir()} and all(picture["shows"] for picture in found["pictures"])


def cut(run):
    lines = (run.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run.path / "metrics.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]))


def a_digit(run):
    text = (run.path / "metrics.jsonl").read_text()
    at = text.index('"val_loss": ') + 14
    (run.path / "metrics.jsonl").write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])


@pytest.fixture
def no_pictures(monkeypatch):
    """Files with nothing in them, in the place of pictures: of these nothing is asked but what is said."""

    def save(figure, stem):
        files = [stem.with_suffix(f".{kind}") for kind in ("svg", "png")]
        for file in files:
            file.touch()
        return files

    monkeypatch.setattr("hopscope.drawing.run_pictures.save", save)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.filterwarnings("always:.*the curves show")
@pytest.mark.parametrize("damage", [cut, a_digit])
@pytest.mark.parametrize("state", ["unfinished", "without a manifest"])
def test_half_a_curve_of_damaged_metrics_is_said(damage, state, tmp_path, capsys):
    """Of a finished run with a manifest nothing is drawn at all (test_corruption)."""
    run = trained(tmp_path / "run")
    (run.path / "manifest.json").unlink()
    if state == "unfinished":
        (run.path / "DONE").unlink()
    assert main(["draw", str(run.path), "--out", str(tmp_path / "whole")]) == 0
    assert "warning" not in capsys.readouterr().err
    damage(run)
    assert main(["draw", str(run.path)]) == 0
    said = capsys.readouterr().err
    assert "metrics.jsonl is " in said and "the curves show what is left of them" in said


def test_nothing_is_drawn_of_what_is_not_as_its_manifest_lists_it(tmp_path, capsys):
    run = trained(tmp_path / "run")
    cut(run)
    assert main(["draw", str(run.path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("metrics.jsonl") == 1 and "the curves" not in said and not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("always:.*too few")
def test_where_no_curve_is_left_none_is_promised(tmp_path, capsys):
    run = trained(tmp_path / "run")
    (run.path / "manifest.json").unlink()
    (run.path / "metrics.jsonl").write_bytes((run.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)[0])
    assert main(["draw", str(run.path), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert "too few are left to draw curves" in said and "show what is left" not in said
    assert not (tmp_path / "out" / "curves.svg").exists()


def test_the_demo_as_json(tmp_path, monkeypatch, capsys, browser):
    """Its parts alone are tried here: training it takes a minute, and each part has tests of its own."""

    def given(_, out, **__):
        return Run(shutil.copytree(SOLVED, out))

    def investigated(run):
        from hopscope.drawing.circuit_report import investigate

        return investigate(run, run.path, Discovery(discovery=8, selection=8, report=8))

    def exported(run, _, report):
        (run.path / explore.PAGE).write_text("")
        report("exported")

    monkeypatch.setattr(demo, "train", given)
    monkeypatch.setattr(demo, "investigated", investigated)
    monkeypatch.setattr(explore, "export_into", exported)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--json", "--open"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["run"] == str(out) and found["done"] and found["page"] == str(out / "explorer.html")
    assert found["circuit"]["verdict"] == json.loads((out / "circuit.json").read_text())["verdict"]
    assert {Path(file).name for one in found["pictures"] for file in one["files"]} >= {"curves.svg", "attention.png"}
    assert browser == [(out / "explorer.html").as_uri()]


def test_the_report_is_opened_if_one_says_so(tmp_path, capsys, browser, monkeypatch):
    shutil.copytree(room("curriculum") / "curriculum", tmp_path / "results" / "curriculum")
    where = ["report", "--results", str(tmp_path / "results")]
    page = tmp_path / "page.html"
    assert main([*where, "--open"]) == 2 and "--html FILE" in capsys.readouterr().err
    assert main([*where, "--html", str(page)]) == 0 and browser == []
    assert main([*where, "--html", str(page), "--open"]) == 0 and browser == [page.as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert main([*where, "--html", str(page), "--open"]) == 0
    assert "no browser was found" in capsys.readouterr().err


def test_a_circuits_page_and_an_exported_one_are_opened_too(tmp_path, capsys, browser, monkeypatch):
    line = ["circuit", str(shutil.copytree(SOLVED, tmp_path / "run")), *SEARCH, "--out", str(tmp_path / "found")]
    assert main([*line, "--open"]) == 0
    assert browser == [(tmp_path / "found" / "pictures" / "attention.html").as_uri()]
    monkeypatch.setattr(explore, "export_runs", lambda *_, **__: None)
    assert main(["explore", "packaged", "--export", str(tmp_path / "page.html")]) == 0 and len(browser) == 1
    assert main(["explore", "packaged", "--export", str(tmp_path / "page.html"), "--open"]) == 0
    assert browser[1:] == [(tmp_path / "page.html").as_uri()]

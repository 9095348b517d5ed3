"""`hopscope explore`: what it writes, what it serves, and what it says of bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar

import pytest

from hopscope.cli import main
from hopscope.experiments.results import all_claims, room
from hopscope.explorer.building import Builder
from hopscope.explorer.claims import paper_of, texts_of
from tests.small_runs import trained


def exported(path) -> dict:
    """The manifest in a file."""
    (found,) = re.findall(r'<script type="application/json" id="bundle">(.*?)</script>', path.read_text("utf-8"))
    return json.loads(found)


def test_export_writes_one_file_and_names_it(small, tmp_path, capsys):
    file = tmp_path / "page.html"
    assert main(["explore", str(small.path), "--export", str(file), "--weights", "4,12", "--progress"]) == 0
    said = capsys.readouterr()
    assert re.fullmatch(rf"{re.escape(str(file))}: \d+\.\d MB, opens offline\n", said.out)
    assert "measuring step 12, checkpoint 1 of 4" in said.err
    (run,) = exported(file)["runs"]
    assert [c["step"] for c in run["checkpoints"] if c["weights"]] == [4, 12]
    assert exported(file)["blocks"][run["checkpoints"][1]["weights"]]["dtype"] == "float16"


def test_what_is_wrong_with_a_run_is_said(small, tmp_path, capsys):
    (small.folder(8) / "model.safetensors").unlink()
    assert main(["explore", str(small.path), "--export", str(tmp_path / "page.html")]) == 0
    assert re.search(r"hopscope: warning: .*step_00000008/model\.safetensors is missing", capsys.readouterr().err)


def test_the_demo_is_called_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Builder(["packaged"]).bundle.manifest["runs"][0]["name"] == "packaged"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say which runs to explore, such as 'hopscope explore packaged'"),
        (["nosuch"], "nosuch is not a run folder"),
        (["RUN", "RUN"], "are the same run"),
        (
            ["RUN", "--export", "page.html", "--weights", "some"],
            "weights must be tour, last, all, or steps such as 0,160",
        ),
        (["RUN", "--export", "page.html", "--weights", "5"], "has no checkpoint of step 5; it has 0, 4, 8, 12"),
        (["RUN", "--results", "nosuch"], "there is no folder nosuch"),
        (["RUN", "--port", "99999"], "it must be from 0 to 65535; got 99999"),
        (["RUN", "--export", "no/such/page.html"], "could not write no/such/page.html: there is no folder no/such"),
        (["RUN", "--export", "."], "could not write .: it is a folder"),
    ],
)
def test_bad_input_gets_one_sentence(small, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hopscope.explorer.part.Part.wants_circuit", False)
    assert main(["explore", *(str(small.path) if word == "RUN" else word for word in arguments)]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert said in sentence and sentence.startswith("hopscope: ")
    assert not (tmp_path / "page.html").exists()


# Several runs, and claims ----------------------------------------------------------------------------------------


def test_several_runs_are_in_one_page(small, tmp_path):
    other = trained(tmp_path / "other", seed=1)
    file = tmp_path / "page.html"
    assert main(["explore", str(small.path), str(other.path), "--export", str(file)]) == 0
    runs = exported(file)["runs"]
    assert [run["identity"] for run in runs] == [small.config.identity, other.config.identity]
    assert [run["config"]["seed"] for run in runs] == [0, 1]
    inputs = [exported(file)["blocks"][run["batch"]["inputs"]]["sha256"] for run in runs]
    assert inputs[0] == inputs[1]  # of one task and one seed: losses of the two can be compared


def test_claims_of_results_come_with_their_tables_and_commands():
    from pathlib import Path

    results = Path(__file__).parents[2] / "hopscope_studies"
    builder = Builder([], results=results)
    claims, rows = builder.bundle.manifest["claims"], all_claims(results)
    assert [(c["experiment"], c["id"], c["verdict"], c["number"]) for c in claims] == [
        (r["experiment"], r["id"], r["verdict"], r["number"]) for r in rows
    ]
    for claim in claims:
        assert claim["command"] == f"hopscope reproduce {claim['experiment']} --scale {claim['scale']}"
        assert claim["about"] and claim["runs"]
        for kind, file in (("table", "table.csv"), ("figure", "figure.svg")):
            if claim[kind] is not None:
                assert (
                    builder.bundle.blocks[claim[kind]].data
                    == (room(claim["experiment"]) / claim["experiment"] / file).read_bytes()
                )
    assert sum(claim["table"] is not None for claim in claims) > len(claims) / 2
    assert builder.bundle.manifest["runs"] == []


@pytest.mark.parametrize(
    ("section", "experiment", "paper"),
    [
        ("Bietti et al. (2023), lemma 1", "memories", "Bietti et al. (2023)"),  # as the section says
        ("beyond (Olsson et al., 2022)", "language_heads", "Olsson et al. (2022)"),
        ("8.2", "fig5", "Musat (2025)"),  # as the experiment's file says, `Musat, ICLR 2025`
        ("control", "noisy_bigram", "Chen et al. (2024)"),  # `Chen, Bruna and Bietti, 2024`
        ("beyond", "plateau", "Musat (2025)"),  # as the study's README says, `Musat (ICLR 2025`
        ("8.2", "nosuch", "other"),
    ],
)
def test_every_claim_is_some_papers(section, experiment, paper):
    assert paper_of(section, texts_of(experiment)) == paper


def test_damaged_results_are_bad_input(tmp_path, capsys):
    (tmp_path / "fig5").mkdir()
    (tmp_path / "fig5" / "claims.json").write_text("[{}]")
    assert main(["explore", "--results", str(tmp_path), "--export", str(tmp_path / "page.html")]) == 2
    assert "claims.json is altered" in capsys.readouterr().err


# Serving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_serves_until_it_is_interrupted(small, number):
    """Also where SIGINT is ignored, as in what a shell starts in the background."""
    command = [sys.executable, "-m", "hopscope", "explore", str(small.path), "--no-open"]
    deaf = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    serving = subprocess.Popen(deaf, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **piped)
    try:
        address = serving.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
        opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with opened.open(address, timeout=300) as page:
            assert page.url == address.partition("?")[0] and b'id="explorer"' in page.read()
        with opened.open(f"{page.url}bundle.json", timeout=300) as found:
            assert json.load(found)["runs"][0]["identity"] == small.config.identity
    finally:
        serving.send_signal(number)
        try:
            _, said = serving.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            serving.kill()
            raise
    assert serving.returncode == 0 and "Traceback" not in said and said.rstrip().endswith("stopped")


def test_the_browser_is_opened_unless_one_says_not(small, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def interrupted(self) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hopscope.explorer.building.Builder.follow", interrupted)
    assert main(["explore", str(small.path)]) == 0
    assert len(opened) == 1 and opened[0].startswith("http://127.0.0.1:")
    assert main(["explore", str(small.path), "--no-open"]) == 0
    assert len(opened) == 1

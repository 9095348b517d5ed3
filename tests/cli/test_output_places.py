"""Where commands may write: never over a file of a run or of results, and never into a folder that is another's."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hopscope.circuits.discovery import Discovery
from hopscope.cli import main
from hopscope.cli.commands import explore
from hopscope.core.places import check_page, home_of, kind_of
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged, listed
from hopscope.drawing.circuit_report import investigate
from hopscope.emergence.record import circuit_paths
from hopscope.experiments.results import room
from hopscope.runs.integrity import check
from hopscope.runs.run import Run
from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401
from tests.small_runs import trained

#: A trained run of one hop, whose circuit is found in no time.
SOLVED = Path(__file__).parents[1] / "data" / "runs_0_1" / "solved"
SEARCH = ["--discovery", "8", "--selection", "8", "--report", "8"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs, a build's worth of results, an evaluation, and files of other people's."""
    place = tmp_path_factory.mktemp("made")
    trained(place / "one")
    shutil.copytree(SOLVED, place / "two")
    shutil.copytree(room("curriculum") / "curriculum", place / "results" / "curriculum")
    (place / "page.html").write_text("<!doctype html><html><title>a page of mine, on hopscope</title></html>")
    (place / "notes.txt").write_text("mine")
    return place


@pytest.fixture
def there(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    return tmp_path / "there"


def prints(place):
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in place.rglob("*")
        if path.is_file()
    }


PAGES = [
    *(f"one/{name}" for name in ("config.json", "manifest.json", "DONE", "new.json", "checkpoints/page.html")),
    "one/checkpoints/step_00000004/model.safetensors",
    "results/curriculum/claims.json",
    "results/curriculum/new.json",
    "notes.txt",
    "page.html",
    "two/../one/config.json",
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("command", ["explore one --export", "report --results results --html"])
def test_a_page_replaces_nothing_but_pages_of_ours(command, page, there, capsys):
    before = prints(there)
    assert main([*command.split(), page]) == 2
    said = capsys.readouterr()
    assert page in said.err and said.err.count("\n") == 1 and "opens offline" not in said.out
    assert prints(there) == before


FOLDERS = [
    *(f"{words} --out two" for words in ("draw one", "emerge one", "export one --to transformer-lens")),
    "circuit one --out two",
    "circuit one --unit nodes --out two",
    "circuit one --out results/curriculum",
    "circuit one --out one/checkpoints",
    "draw one --out two/pictures",
    "draw one --out one/checkpoints/step_00000004",
    "draw one --out results/curriculum/pictures",
    "emerge one two --out one",
    "export one --to transformer-lens --out one",
    "evaluate --model known:oracle --count 2 --out one",
    "evaluate --model known:oracle --count 2 --out results/curriculum",
    "heads --model known:oracle --out one",
    "ask equations --export one",
]


@pytest.mark.parametrize("line", FOLDERS)
def test_no_folder_of_anothers_is_written_into(line, there, capsys):
    before = prints(there)
    assert main([*line.split(), *(SEARCH if line.startswith("circuit") and "nodes" not in line else ())]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "choose another folder" in said
    assert prints(there) == before


def test_what_one_may_write_is_written_as_before(there):
    """Into the run's own folder, below it, elsewhere; pages over pages of ours; a run's own page is listed again."""
    for line in ("draw one", "draw one --out one/more", "draw one --out drawn", "circuit one --out found"):
        assert main([*line.split(), *(SEARCH if line.startswith("circuit") else ())]) == 0
    for page in ("claims.html", "results/claims.html", "results/curriculum/claims.html"):
        for _ in range(2):
            assert main(["report", "--results", "results", "--html", page]) == 0
    (there / "empty").touch()
    for page in ("empty", "one/explorer.html", "claims.html", "results/curriculum/claims.html"):
        check_page(Path(page))
    with pytest.raises(BadInput, match="a manifest lists it"):
        check_page(Path("found/pictures/attention.html"))
    evaluation = "evaluate --model known:oracle --count 2 --formulation equations --hops 1 --layout code --out asked"
    assert main(evaluation.split()) == 0 and main(evaluation.split()) == 0
    for folder in ("one", "drawn", "found", "results/curriculum", "asked"):
        assert not check(there / folder).faults


def test_a_runs_listed_page_is_listed_as_it_is_after_it_was_made_anew(there):
    from hopscope.circuits.discovery import discover
    from hopscope.cli.commands.explore import export_into, export_runs

    run = Run(there / "two")
    run.seal()
    settings = Discovery(discovery=8, selection=8, report=8)
    export_into(run, circuit := discover(run.model, run.task, settings))
    assert "explorer.html" in listed(run.path)
    identity = run.config.identity
    export_runs([run.path, Path("one")], run.path / "explorer.html", "last", None, {identity: circuit})
    assert not check(run.path).faults and "explorer.html" in listed(run.path)


def test_a_folder_is_what_it_holds(there):
    for words, kind in {"one": "run", "results/curriculum": "results", "results": None, ".": None}.items():
        assert kind_of(Path(words)) == kind
    assert home_of(Path("one/pictures/none/yet")) == there / "one" and home_of(Path("drawn")) is None
    (there / "table.csv").write_text("mine")  # beside which one may well work
    (there / "config.json").write_text('{"n_layers": 2}')  # of another program
    assert home_of(Path("drawn")) is None and kind_of(there) != "run"
    (there / "one" / "config.json").write_text("{")
    assert kind_of(there / "one") == "run"


def test_a_circuit_of_another_run_is_not_taken_for_this_ones(there):
    one = Run(there / "one")
    found = investigate(one, one.path, Discovery(discovery=8, selection=8, report=8))
    stored = json.loads((one.path / "circuit.json").read_text())
    assert stored["protocol"]["run"] == one.config.identity == found.circuit.protocol["run"]
    assert not check(one.path).faults
    two = Run(there / "two")
    shutil.copy(one.path / "circuit.json", two.path)
    [fault] = check(two.path).faults
    assert "circuit.json is of another run" in fault and "'hopscope circuit' makes it anew" in fault
    with pytest.raises(Damaged, match="of another run"):
        circuit_paths(two, print)
    del stored["protocol"]["run"]  # as it was written before
    (two.path / "circuit.json").write_text(json.dumps(stored))
    assert not check(two.path).faults


def test_the_guard_names_what_stands_there(there):
    with pytest.raises(BadInput, match=r"claims\.json.*results.*\.html"):
        check_page(Path("results/curriculum/claims.json"))
    with pytest.raises(BadInput, match=r"notes\.txt.*not a page that hopscope wrote"):
        check_page(Path("notes.txt"))


@pytest.mark.parametrize("line", ["explore one --export new.html", "explore one --no-open"])
def test_the_explorer_has_a_word_before_what_takes_long_is_loaded(line, there, monkeypatch, capsys):
    """Its imports take seconds, in which a terminal would be silent."""
    spoken: list[str] = []

    class Spoken(explore.Narrator):
        def __enter__(self):
            spoken.append(self.words)
            return super().__enter__()

    class Building(ModuleType):
        def __getattr__(self, name):
            raise BadInput(f"asked for {name} after {spoken}")

    monkeypatch.setattr(explore, "Narrator", Spoken)
    monkeypatch.setitem(sys.modules, "hopscope.explorer.building", Building("building"))
    assert main(line.split()) == 2 and "after ['loading']" in capsys.readouterr().err

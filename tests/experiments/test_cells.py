"""Scale `long`: results are kept cell by cell, so that a killed reproduction goes on from the committed table alone."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged
from hopscope.execution.sweep import stacked
from hopscope.experiments import runner
from hopscope.experiments.base import declared, experiment, offered
from hopscope.experiments.results import redraw
from hopscope.experiments.runner import reproduce
from hopscope.experiments.work import Stopped
from tests import three_cells
from tests.three_cells import Squared

SCRIPT = Path(__file__).parents[1] / "three_cells.py"


@pytest.fixture(scope="module", autouse=True)
def installed():
    """The experiment, known to this process."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((catalogue, "module"), (three_cells.sweep, "command")):
            patch.setattr(module, name, getattr(module, name))
        three_cells.install()
        yield


@pytest.fixture(autouse=True)
def cells(monkeypatch):
    """A test may change them."""
    monkeypatch.setattr(three_cells, "CELLS", list(three_cells.CELLS))


def line(verb: str, folder: Path, runs: str, *more: str) -> list[str]:
    where = ["--runs", str(folder / runs), "--results", str(folder / "results"), "--scale", "long"]
    return [verb, "cells", *where, *more]


def in_a_process(*words: str) -> int:
    """The exit code of a process of its own, which a cell may kill."""
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, timeout=600)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode


def here(folder: Path, runs: str = "runs", **how):
    return reproduce("cells", "long", runs=folder / runs, results=folder / "results", threads=1, **how)


def done_in(runs: Path) -> list[str]:
    """What was done there, work by its number."""
    return (runs / "done").read_text().split() if (runs / "done").is_file() else []


def claim(folder: Path) -> dict:
    [row] = json.loads((folder / "results" / "cells" / "claims.json").read_text())
    return row


def table(folder: Path) -> bytes:
    return (folder / "results" / "cells" / "table.csv").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, installed):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert main(line("reproduce", folder, "runs")) == 0
    assert done_in(folder / "runs") == ["1", "2"]
    return folder


def test_killed_after_one_cell_it_goes_on_from_the_table_without_the_run_folders(tmp_path, undisturbed):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "kill").write_text("2")
    assert in_a_process(*line("reproduce", tmp_path, "runs")) == -signal.SIGKILL
    assert claim(tmp_path)["n"] == 1 and claim(tmp_path)["runs"] == [Squared(1).identity]
    first = table(tmp_path).splitlines()
    assert len(first) == 2  # the header and one cell's row
    shutil.rmtree(tmp_path / "runs")  # a fresh clone has results alone
    outcome = here(tmp_path, "fresh")
    assert outcome.done and [path.name.split("-")[0] for path in outcome.trained] == ["squared", "retrieval"]
    assert done_in(tmp_path / "fresh") == ["2"]
    assert table(tmp_path) == table(undisturbed)
    assert claim(tmp_path) == claim(undisturbed)
    assert claim(tmp_path)["n"] == 3 and claim(tmp_path)["verdict"] == "holds"


def test_whole_it_does_nothing_more(tmp_path, undisturbed):
    shutil.copytree(undisturbed / "results", tmp_path / "results")
    outcome = here(tmp_path)
    assert outcome.done and outcome.trained == [] and not (tmp_path / "runs").exists()
    assert table(tmp_path) == table(undisturbed)


def test_claims_that_a_kill_left_behind_the_table_are_judged(tmp_path, undisturbed):
    shutil.copytree(undisturbed / "results", tmp_path / "results")
    (tmp_path / "results" / "cells" / "claims.json").write_text("[]\n")
    here(tmp_path)
    assert claim(tmp_path) == claim(undisturbed)


def test_a_cell_whose_identity_changed_is_done_again_and_its_old_rows_go(tmp_path, undisturbed):
    shutil.copytree(undisturbed / "results", tmp_path / "results")
    changed = Squared(2, version=1)
    three_cells.CELLS[1] = changed
    assert here(tmp_path).trained == [tmp_path / "runs" / f"squared-{changed.identity}"]
    assert table(tmp_path) == table(undisturbed).replace(Squared(2).identity.encode(), changed.identity.encode())
    del three_cells.CELLS[1]
    assert here(tmp_path).done
    assert Squared(2).identity.encode() not in table(tmp_path) and changed.identity.encode() not in table(tmp_path)


def test_a_spent_budget_leaves_cells_and_says_how_many(tmp_path, undisturbed, monkeypatch):
    assert here(tmp_path, budget=0.0).left == 3 and not (tmp_path / "results").exists()
    times = iter([0.0] * 6 + [1e9] * 1000)  # the clock is looked at before, in and after each cell
    with monkeypatch.context() as patched:
        patched.setattr(runner.time, "monotonic", lambda: next(times))
        some = here(tmp_path, budget=60.0)
    assert not some.done and 0 < some.left < 3 and len(some.trained) == 3 - some.left
    assert some.results and claim(tmp_path)["n"] == len(some.trained)
    assert here(tmp_path, "fresh").done and table(tmp_path) == table(undisturbed)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(("--workers", "2"), id="workers", marks=pytest.mark.heavy),
        pytest.param(("--engine", "stacked"), id="stacked"),
    ],
)
def test_a_sweep_keeps_cells_too(tmp_path, undisturbed, more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(three_cells, "CELLS", three_cells.CELLS[:1])
        here(tmp_path)
    assert main(line("sweep", tmp_path, "fresh", *more)) == 0
    assert done_in(tmp_path / "fresh") == ["2"]
    assert table(tmp_path) == table(undisturbed)


def test_a_worker_writes_its_cell_down_before_the_sweep_is_over(tmp_path):
    from hopscope.execution.sweep import work

    asked = iter([False, False, True])  # before the first cell, within it, before the second
    with pytest.raises(Stopped):
        work("cells", "long", tmp_path / "runs", tmp_path / "results", lambda: next(asked))
    assert claim(tmp_path)["runs"] == [Squared(1).identity]


def test_a_cell_that_is_done_but_not_written_down_is_not_done_again(tmp_path, undisturbed):
    shutil.copytree(undisturbed / "runs", tmp_path / "runs")
    assert here(tmp_path).done and done_in(tmp_path / "runs") == ["1", "2"]
    assert table(tmp_path) == table(undisturbed)
    shutil.rmtree(tmp_path / "results")
    stacked("cells", "long", runs=tmp_path / "runs", results=tmp_path / "results")
    assert done_in(tmp_path / "runs") == ["1", "2"] and table(tmp_path) == table(undisturbed)


def test_other_scales_stay_to_the_letter_and_redrawing_changes_nothing(tmp_path, undisturbed):
    where = {"runs": tmp_path / "runs", "results": tmp_path / "results", "threads": 1}
    reproduce("cells", "cpu", **where)
    before = table(tmp_path)
    reproduce("cells", "long", **where)
    assert table(tmp_path).startswith(before)
    folder = tmp_path / "results" / "cells"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [row["scale"] for row in json.loads(files["claims.json"])] == ["cpu", "long"]
    redraw("cells", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_an_altered_table_is_not_written_over(tmp_path):
    (tmp_path / "results" / "cells").mkdir(parents=True)
    (tmp_path / "results" / "cells" / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Damaged, match="it lacks a column"):
        here(tmp_path)
    assert not (tmp_path / "runs").exists()


def test_rows_under_another_name_than_the_cells_are_refused(tmp_path, monkeypatch):
    """They would never be found again."""
    other = lambda cells, scale: three_cells.table(cells, scale).assign(run="x")  # noqa: E731
    monkeypatch.setattr(experiment("cells"), "table", other)
    with pytest.raises(TypeError, match="rows of its own"):
        here(tmp_path)
    assert not (tmp_path / "results" / "cells").exists()


@pytest.mark.parametrize("change", [{"COMPARES_RUNS": True}, {"CELL_SECONDS": None}], ids=str)
def test_what_offers_long_compares_no_runs_and_says_what_a_cell_takes(monkeypatch, change):
    about = {**vars(experiment("cells")), **change}
    known = {name: value for name, value in about.items() if value is not None}
    source = SimpleNamespace(**known, __name__="hopscope_studies.toy.experiments.other", __file__="other.py")
    monkeypatch.setattr(catalogue, "module", lambda kind, name: source)
    with pytest.raises(TypeError, match="must state CELL_SECONDS and compare no runs"):
        declared("other", "cpu")


def test_who_declares_nothing_for_long_has_no_runs_there(capsys):
    assert "long" not in offered("curriculum")
    with pytest.raises(BadInput, match="curriculum has no runs at scale long; it has some at quick, cpu, paper"):
        declared("curriculum", "long")
    assert main(["reproduce", "curriculum", "--scale", "long"]) == 2
    assert main(["sweep", "curriculum", "--scale", "long"]) == 2
    assert main(["reproduce", "all", "--scale", "longer"]) == 2
    assert "the scales are quick, cpu, long, paper" in capsys.readouterr().err

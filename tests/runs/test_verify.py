"""`hopscope verify`, and what is said of folders that nothing vouches for."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest

from hopscope import load
from hopscope.cli import main
from hopscope.core.storage import MANIFEST, Damaged, enlist, listed, read_listed, unlist
from hopscope.experiments.results import publish, redraw
from hopscope.experiments.work import Finished
from hopscope.runs.integrity import check, is_unverified
from hopscope.runs.run import Run
from tests.brief_reports import brief_reports  # noqa: F401
from tests.experiments.test_experiments import TABLE, Counting
from tests.pictures import drawn_once  # noqa: F401
from tests.small_runs import trained

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "hopscope_studies"
OLD = ROOT / "tests" / "data" / "runs_0_1"


@pytest.fixture
def ask(capsys):
    """Run a command; returns its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        return code, *capsys.readouterr()

    return run


def test_all_that_is_committed_is_whole(ask):
    code, out, _ = ask("verify", STUDIES, "packaged", "--json")
    found = json.loads(out)
    assert code == 0 and len(found) == 1 + len(list(STUDIES.glob("*/results/*/")))
    assert {(one["state"], *one["faults"], *one["unverified"]) for one in found} == {("whole",)}


def test_a_folder_of_runs_is_checked_run_by_run(ask, tmp_path):
    trained(tmp_path / "runs" / "a")
    trained(tmp_path / "runs" / "b")
    shutil.copytree(OLD / "interrupted", tmp_path / "runs" / "c")
    (tmp_path / "runs" / "quick-results").mkdir()
    code, out, _ = ask("verify", tmp_path / "runs", "--json")
    assert code == 0 and [one["state"] for one in json.loads(out)] == ["whole", "whole", "unfinished"]
    (tmp_path / "runs" / "b" / "report.json").write_text("{}")
    code, out, _ = ask("verify", tmp_path / "runs", tmp_path / "runs" / "a")
    assert code == 2 and out.count("\n  ") == 1 and "report.json is cut short or grown: 2 bytes, not" in out
    assert "delete the folder and make the run again" in out and "4 folders checked: 1 fault" in out


@pytest.mark.parametrize("what", ["nothing", "file", "folder"])
def test_what_cannot_be_verified_is_said(ask, tmp_path, what):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "in it").mkdir(parents=True)
    code, out, err = ask("verify", tmp_path / what)
    assert (code, out) == (2, "") and err.count("\n") == 1 and "holds nothing to verify" in err


def test_an_unfinished_run_is_checked_as_far_as_it_got(ask, tmp_path):
    """Its rows against what its checkpoints saw, and these against their manifests."""
    run = Path(shutil.copytree(OLD / "interrupted", tmp_path / "run"))
    path = run / "metrics.jsonl"
    rows = path.read_bytes()
    for altered, words in (
        (rows.replace(b'"step": 15', b'"step": 16', 1), "is altered"),
        (rows[: len(rows) // 2], "is cut short"),
        (b"[]\n" + rows[3:], "is altered"),
        (rows.replace(b'"val_loss"', b'"mal_loss"', 1), "is not a row of a run"),
    ):
        path.write_bytes(altered)
        code, out, _ = ask("verify", run)
        assert code == 2 and f"  {path} {words.split(' ', 1)[0]}" in out and words in out
    path.write_bytes(rows)
    weights = run / "checkpoints" / "step_00000010" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    code, out, _ = ask("verify", run)
    assert code == 2 and f"  {weights} is cut short" in out
    shutil.rmtree(weights.parent)
    assert ask("verify", run)[0] == 0
    for step in (0, 20):
        (run / "checkpoints" / f"step_{step:08d}" / "optimizer.safetensors").unlink(missing_ok=True)
    assert "optimizer.safetensors is missing" in ask("verify", run)[1]  # there is nothing to go on from


def test_a_pipe_in_a_files_place_is_not_waited_for(ask, tmp_path):
    run = trained(tmp_path / "run")
    for name in ("metrics.jsonl", "report.json"):
        (run.path / name).unlink()
        os.mkfifo(run.path / name)
    code, out, _ = ask("verify", run.path)
    assert code == 2 and "metrics.jsonl" in out and "report.json" in out
    unlist(run.path, ["metrics.jsonl", "report.json"])
    assert "it is not a regular file" in ask("verify", run.path)[1]
    assert ask("show", run.path)[0] == 2


@pytest.mark.parametrize("vouched", [True, False])
def test_rows_that_are_lost_are_a_fault(ask, tmp_path, vouched):
    """Unless the run was sealed without any, as a row of the board is; a run without a manifest is not sealed so."""
    run = trained(tmp_path / "run")
    (run.path / "metrics.jsonl").unlink()
    if not vouched:
        (run.path / MANIFEST).unlink()
    for command, stream in (("verify", 1), ("show", 2)):
        answer = ask(command, run.path)
        assert answer[0] == 2 and "metrics.jsonl is missing" in answer[stream]
    if vouched:
        Run(run.path).seal()
        assert ask("verify", run.path)[0] == 0 and ask("show", run.path)[0] == 0


# What nothing vouches for ---------------------------------------------------------------------------------------------


def test_an_old_run_loads_and_is_called_unverified_once(ask, tmp_path, recwarn):
    run = Path(shutil.copytree(OLD / "solved", tmp_path / "run"))
    assert load(run).verified is False and load(run).report["loss"] > 0
    code, out, err = ask("draw", run)  # which also says what it is drawing
    assert code == 0 and err.count("unverified") == 1 and "'hopscope verify --write'" in err
    assert "unverified" in ask("show", run)[1]
    assert json.loads(ask("show", run, "--json")[1])["verified"] is False
    code, out, _ = ask("verify", run)
    assert code == 0 and f"{run}: unverified" in out
    assert not [warning for warning in recwarn if "verified" in str(warning.message)]


def test_write_vouches_for_an_old_run_that_has_no_fault(ask, tmp_path):
    run = Path(shutil.copytree(OLD / "solved", tmp_path / "run"))
    rows = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(rows.replace(b"1", b"2", 1))
    assert ask("verify", run, "--write")[0] == 2 and not (run / MANIFEST).exists()
    (run / "metrics.jsonl").write_bytes(rows)
    code, out, _ = ask("verify", run, "--write")
    assert code == 0 and f"{run}: whole" in out
    assert json.loads(ask("show", run, "--json")[1])["verified"] is True and "unverified" not in ask("show", run)[1]
    assert "unverified" not in ask("draw", run)[2] and check(run).state == "whole"
    (run / "metrics.jsonl").write_bytes(rows.replace(b"1", b"2", 1))
    code, _, err = ask("show", run)
    assert code == 2 and "metrics.jsonl is altered" in err and "hopscope verify" in err


def test_an_unfinished_run_is_neither(ask, tmp_path):
    run = Path(shutil.copytree(OLD / "interrupted", tmp_path / "run"))
    assert json.loads(ask("show", run, "--json")[1])["verified"] is None
    assert "verified" not in ask("show", run)[1] and not is_unverified(run)
    assert ask("verify", run, "--write")[0] == 0 and not (run / MANIFEST).exists()


def test_old_results_are_called_unverified_once_and_redraw_writes_their_manifest(ask, tmp_path):
    for name in ("curriculum", "readings", "heads_smollm2_seed1"):
        shutil.copytree(
            STUDIES / "stacked_heads" / "results" / name, tmp_path / name, ignore=shutil.ignore_patterns(".*")
        )
        (tmp_path / name / MANIFEST).unlink()
    code, _, err = ask("report", "--results", tmp_path)
    assert code == 0 and err.count("unverified") == err.count("\n") == 1 and "--redraw" in err
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, _, err = ask("report", "--results", tmp_path, "--redraw")
    assert code == 0 and "unverified" not in err
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name[0] != "."}
    assert before.items() <= after.items() and {path.name for path in after.keys() - before.keys()} == {MANIFEST}
    assert {one["state"] for one in json.loads(ask("verify", tmp_path, "--json")[1])} == {"whole"}


# Writing --------------------------------------------------------------------------------------------------------------


def killed_at(index: int, act) -> bool:
    """Run something in a child that dies on the spot at its i-th call that writes; whether it did."""
    child = os.fork()
    if child == 0:
        made = itertools.count()

        def watched(real):
            return lambda *args, **kwargs: os._exit(9) if next(made) == index else real(*args, **kwargs)

        for name in ("open", "write", "fsync", "replace", "close"):
            setattr(os, name, watched(getattr(os, name)))
        try:
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("stride", [47, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_while_results_are_written_leaves_what_redraw_mends(tmp_path, stride):
    """At every call: no file seems damaged, the table is the old or the new one, and the next redraw makes the rest."""
    other = TABLE.assign(hop_loss=TABLE.hop_loss * 0.9)
    publish("curriculum", other, tmp_path / "new")
    publish("curriculum", TABLE, tmp_path / "old")
    old, new = ((tmp_path / name / "curriculum" / "table.csv").read_bytes() for name in ("old", "new"))
    assert old != new
    for index in itertools.count(0, stride):
        folder = Path(shutil.copytree(tmp_path / "old", tmp_path / "killed"))
        if not killed_at(index, lambda folder=folder: publish("curriculum", other, folder)):
            break
        assert not check(folder / "curriculum").faults, index
        assert (folder / "curriculum" / "table.csv").read_bytes() in (old, new)
        redraw("curriculum", folder / "curriculum")
        assert check(folder / "curriculum").state == "whole", index
        publish("curriculum", other, folder)
        names = ("table.csv", "claims.json", "figure.svg", MANIFEST)
        assert all(
            (folder / "curriculum" / n).read_bytes() == (tmp_path / "new/curriculum" / n).read_bytes() for n in names
        )
        shutil.rmtree(folder)
    assert index > 30


def test_finished_work_is_read_only_as_it_was_written(tmp_path):
    done = Finished.of(Counting(), tmp_path, lambda: False)
    assert check(tmp_path).kind == "work" and check(tmp_path).state == "whole"
    (tmp_path / "DONE").write_text('{"version": "of somebody else"}')
    assert Finished.of(Counting(), tmp_path, lambda: False).version == done.version
    (tmp_path / "lines").write_text("||")
    with pytest.raises(Damaged, match="lines is cut short or grown: 2 bytes, not 3"):
        Finished.of(Counting(), tmp_path, lambda: False)
    (tmp_path / "DONE").unlink()  # as the sentence of `verify` says: it is done again
    (tmp_path / "lines").unlink()
    assert Finished.of(Counting(), tmp_path, lambda: False) == done and check(tmp_path).state == "whole"


def test_two_who_list_files_at_once_lose_none(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    names = [f"file-{i}" for i in range(24)]
    for name in names:
        (tmp_path / name).write_text(name)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: enlist(tmp_path, [name]), names))
    assert set(listed(tmp_path)) == set(names)


def test_a_file_that_is_just_written_anew_is_read_again(tmp_path, monkeypatch):
    """Who reads the manifest before it is rewritten, and the file after, sees no damage."""
    (tmp_path / "file").write_text("old")
    enlist(tmp_path, ["file"])
    real = read_listed.__globals__["read_checked"]

    def late(path, expected):
        if path.read_text() == "old":
            unlist(tmp_path, ["file"])
            path.write_text("newer")
            enlist(tmp_path, ["file"])
        return real(path, expected)

    monkeypatch.setattr("hopscope.core.storage.read_checked", late)
    assert read_listed(tmp_path, "file") == b"newer"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd"])
def test_a_manifest_tells_of_files_in_its_folder_alone(tmp_path, name):
    (tmp_path / "outside").write_text("")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("")
    enlist(tmp_path / "in", ["../outside" if name[0] == "." else name])
    with pytest.raises(Damaged, match="one of its entries is not valid"):
        listed(tmp_path / "in")


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_what_stands_in_a_manifests_place_is_a_fault_told_once(ask, tmp_path, what):
    run = trained(tmp_path / "run")
    (run.path / MANIFEST).unlink()
    os.mkfifo(run.path / MANIFEST) if what == "pipe" else (run.path / MANIFEST).mkdir()
    code, out, _ = ask("verify", run.path)
    assert code == 2 and out.count(f"{MANIFEST} is altered: it is not a regular file") == 1 and "1 fault" in out


def test_an_altered_manifest_is_told_once(ask, tmp_path):
    run = trained(tmp_path / "run")
    (run.path / MANIFEST).write_text("{}")
    code, out, _ = ask("verify", run.path)
    assert code == 2 and out.count("it lists no files") == 1 and "1 folder checked: 1 fault\n" in out


def test_what_a_run_is_exported_to_is_listed_with_it(ask, tmp_path):
    run = trained(tmp_path / "run")
    for _ in range(2):
        assert ask("export", run.path, "--to", "transformer-lens")[0] == 0
    code, out, _ = ask("verify", run.path)
    assert code == 0 and "unverified" not in out
    (run.path / "transformer-lens" / "config.json").write_text("{}")
    code, out, _ = ask("verify", run.path)
    assert code == 2 and "'hopscope export' makes it anew" in out


def test_show_claims_no_more_than_it_read(ask, tmp_path):
    """It reads a run's small files; of weights, and of what was found later, verify speaks."""
    said = ask("show", trained(tmp_path / "run").path)[1]
    assert "files: the small ones match manifest.json" in said and "'hopscope verify'" in said


@pytest.mark.parametrize("done", [True, False])
def test_show_describes_a_run_without_losses(ask, tmp_path, done):
    """A report need not have losses by hop, and a run that has just begun has no rows."""
    run = trained(tmp_path / "run")
    (run.path / MANIFEST).unlink()
    if done:
        (run.path / "report.json").write_text('{"loss": 1.0}')
    else:
        (run.path / "DONE").unlink()
        (run.path / "metrics.jsonl").unlink()
    code, out, _ = ask("show", run.path)
    assert code == 0 and "no losses yet" in out and "training" in out

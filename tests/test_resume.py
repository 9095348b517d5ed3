"""A run that was stopped or killed at any moment ends with the bits of one that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import filelock
import pytest
import torch

from hopscope import BadInput, Run, load, train
from hopscope.storage import TEMPORARY
from hopscope.training import Interrupted
from tests.small_runs import config, fingerprint, trained

VARIANTS = {
    "plain": {},
    "bfloat16": {"dtype": "bfloat16"},
    "finite": {"examples": 20},
    "recipe": {"schedule": "cosine", "warmup": 3, "clip": 0.5, "decay_on": "matrices"},
    "sparse": {"checkpoints": "5", "log_every": 3},
}


def stop_after(steps: int):
    """Ask for a stop once so many steps were made in this session."""
    made = iter(range(1, steps + 1))
    return lambda: next(made) == steps


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_stopped_run_ends_like_an_undisturbed_one(tmp_path, variant):
    training = VARIANTS[variant]
    undisturbed = trained(tmp_path / "undisturbed", **training)
    for first in (1, 2, 5, 7):
        folder = tmp_path / f"stopped-{first}"
        for steps in (first, 3):
            with pytest.raises(Interrupted, match="the same command goes on from there"):
                train(config(**training), folder, threads=1, compile="off", should_stop=stop_after(steps))
            assert not (folder / "DONE").exists()
        assert fingerprint(trained(folder, **training)) == fingerprint(undisturbed)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, while it compiles
def test_a_compiled_run_resumes_with_its_bits(tmp_path):
    """Compiled code is part of a run's bits too; the same code is found again."""
    folders = [tmp_path / "undisturbed", tmp_path / "stopped"]
    with pytest.raises(Interrupted):
        train(config(), folders[1], threads=1, compile="on", should_stop=stop_after(5))
    runs = [train(config(), folder, threads=1, compile="on") for folder in folders]
    assert runs[0].sessions[0]["environment"]["compiled"] is True
    assert fingerprint(runs[0]) == fingerprint(runs[1])


# Kills ----------------------------------------------------------------------------------------------------------------

KILLED = {"steps": 240, "checkpoints": "1", "log_every": 1}  # it saves all the time, so that kills hit saves


def kill_until_done(folder: Path, kills: int, seed: int, longest: float) -> int:
    """Train in forked children that are killed after a random time, then once undisturbed; returns kills that hit."""
    chance, hits = random.Random(seed), 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                warnings.simplefilter("ignore")
                trained(folder, **KILLED)
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        hits += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    trained(folder, **KILLED)
    return hits


def assert_killed_equals_undisturbed(tmp_path: Path, kills: int, seed: int) -> None:
    """Each kill comes within the time of some saves, so that runs advance a little between kills."""
    began = time.monotonic()
    undisturbed = trained(tmp_path / "undisturbed", **KILLED)
    whole = time.monotonic() - began
    hits = kill_until_done(tmp_path / "killed", kills, seed, longest=whole / kills)
    run = load(tmp_path / "killed")
    assert hits >= kills // 2, f"only {hits} of {kills} kills hit (seed {seed})"
    assert fingerprint(run) == fingerprint(undisturbed), f"seed {seed}, {hits} kills"
    assert [row["step"] for row in run.rows] == list(range(241))
    assert not [f for f in run.path.rglob("*") if f.name.startswith(TEMPORARY)]


def test_six_kills(tmp_path):
    assert_killed_equals_undisturbed(tmp_path, kills=6, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_fifty_kills(tmp_path, seed):
    assert_killed_equals_undisturbed(tmp_path, kills=50, seed=seed)


COMMAND = [
    *(sys.executable, "-m", "hopscope", "train", "retrieval", "--hops", "1", "--chains", "2", "--layers", "1"),
    *("--d-model", "8", "--batch", "4", "--steps", "800", "--val-size", "4", "--log-every", "1", "--threads", "1"),
]


def start(folder: Path) -> subprocess.Popen:
    out = subprocess.DEVNULL
    return subprocess.Popen([*COMMAND, "--out", folder], stderr=subprocess.PIPE, stdout=out, text=True)


def run_through(folder: Path) -> int:
    process = start(folder)
    process.communicate()
    return process.returncode


def wait_for_rows(folder: Path, n: int) -> None:
    path = folder / "metrics.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if path.is_file() and path.read_bytes().count(b"\n") >= n:
            return
        time.sleep(0.01)
    raise AssertionError("training did not get going within a minute")


def test_the_command_killed_and_started_again(tmp_path):
    """The real thing: SIGKILL to the command, the same command again, and SIGINT and SIGTERM on the way."""
    assert run_through(tmp_path / "undisturbed") == 0
    folder = tmp_path / "killed"
    for number, rows, code in ((signal.SIGKILL, 150, -9), (signal.SIGINT, 300, 130), (signal.SIGTERM, 500, 130)):
        process = start(folder)
        wait_for_rows(folder, rows)
        process.send_signal(number)
        err = process.communicate()[1]
        assert process.returncode == code
        assert "Traceback" not in err
        if code == 130:
            assert "the same command goes on from there" in err.splitlines()[-1]
    assert run_through(folder) == 0
    assert fingerprint(load(folder)) == fingerprint(load(tmp_path / "undisturbed"))


# What else may happen to a folder ---------------------------------------------------------------------------------


def test_a_killed_start_leaves_a_folder_that_starts_anew(tmp_path):
    (tmp_path / "empty").mkdir()
    assert trained(tmp_path / "empty").done
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / f"{TEMPORARY}config.json").write_text('{"for')
    assert trained(tmp_path / "begun").done


def test_a_finished_run_is_found_untouched(tmp_path):
    run = trained(tmp_path / "run")
    stamps = {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()}
    assert trained(tmp_path / "run").done
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()} == stamps


def test_another_runs_folder_is_refused(tmp_path):
    trained(tmp_path / "run")
    with pytest.raises(BadInput, match=r"training lr is 0\.001 there and 0\.002 here"):
        trained(tmp_path / "run", lr=2e-3)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(BadInput, match="holds files but no run"):
        trained(tmp_path)


def test_one_writer_at_a_time(tmp_path):
    with pytest.raises(Interrupted):
        train(config(), tmp_path / "run", threads=1, should_stop=stop_after(2))
    child = os.fork()
    if child == 0:  # another process holds the lock until it is killed
        lock = filelock.FileLock(tmp_path / "run" / ".lock")
        lock.acquire()
        (tmp_path / "held").touch()
        time.sleep(60)
        os._exit(0)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    try:
        with pytest.raises(BadInput, match="another process is training in"):
            trained(tmp_path / "run")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert trained(tmp_path / "run").done


def test_other_threads_are_recorded_and_warned_of(tmp_path):
    with pytest.raises(Interrupted):
        train(config(), tmp_path / "run", threads=2, should_stop=stop_after(5))
    with pytest.warns(UserWarning, match="begun with other threads: it goes on, but is no longer bit-exact"):
        run = trained(tmp_path / "run")
    assert [s["environment"]["threads"] for s in run.sessions] == [2, 1]
    assert run.summary()["bit_exact"] is False
    assert trained(tmp_path / "same").summary()["bit_exact"] is True


def test_only_the_newest_two_checkpoints_are_whole_and_the_schedule_is_kept(tmp_path):
    with pytest.raises(Interrupted):
        train(config(), tmp_path / "run", threads=1, should_stop=stop_after(6))
    assert Run(tmp_path / "run").steps == [0, 4, 6]  # 6 stands for the stop, off the schedule
    run = trained(tmp_path / "run")
    assert run.steps == [0, 4, 8, 12]
    whole = [step for step in run.steps if (run.folder(step) / "optimizer.safetensors").exists()]
    assert whole == [8, 12]
    assert run.at(0).n_parameters == run.model.n_parameters


def test_early_stop_is_an_end(tmp_path):
    """A bound that every loss meets stops at the first row; killed before DONE, it ends the same."""
    run = trained(tmp_path / "run", stop_below=100.0)
    assert (run.step, run.done, run.report["step"]) == (0, True, 0)
    before = fingerprint(run)
    (run.path / "DONE").unlink()
    assert fingerprint(trained(tmp_path / "run", stop_below=100.0)) == before


def test_a_torn_session_line_is_mended(tmp_path):
    with pytest.raises(Interrupted):
        train(config(), tmp_path / "run", threads=1, should_stop=stop_after(2))
    path = tmp_path / "run" / "sessions.jsonl"
    path.write_text(path.read_text() + '{"from_st')
    run = trained(tmp_path / "run")
    assert len(run.sessions) == 2
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_training_leaves_the_global_generator_alone(tmp_path):
    before = torch.get_rng_state()
    trained(tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), before)

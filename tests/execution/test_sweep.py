"""Sweeps: the same table however many workers there are, and however often workers and driver are killed."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.execution.crew import DEATHS, TIME_UP, Crew, Processes, run_worker, was_killed
from hopscope.execution.sweep import by_shape, finished, stacked, sweep, train_stacks
from hopscope.experiments.base import declared
from hopscope.experiments.runner import reproduce, run_folder
from hopscope.runs.run import Run
from tests import sixteen

SIXTEEN = Path(__file__).parents[1] / "sixteen.py"


def start(folder: Path, *more: str) -> subprocess.Popen:
    where = ["--runs", str(folder / "runs"), "--results", str(folder / "results"), "--workers", "2", "--progress"]
    command = [sys.executable, str(SIXTEEN), "sweep", "sixteen", *where, *more]
    # What is started from a script's background ignores SIGINT, and hands that on.
    heeding = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, start_new_session=True, preexec_fn=heeding)


def workers_of(driver: int) -> list[int]:
    """Its children that are alive."""
    try:
        return [int(pid) for pid in Path(f"/proc/{driver}/task/{driver}/children").read_text().split()]
    except FileNotFoundError:
        return []


def wait_until_gone(pids: list[int], seconds: float) -> None:
    until = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < until, "a process is still there"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    driver = start(folder)
    _, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, err.decode()
    assert b"16 of 16 runs done" in err
    return folder


def assert_equal(folder: Path, undisturbed: Path) -> None:
    assert (folder / "results" / "table.csv").read_bytes() == (undisturbed / "results" / "table.csv").read_bytes()
    for path in (undisturbed / "runs").iterdir():
        whole, run = Run(path), Run(folder / "runs" / path.name)
        assert run.rows == whole.rows and run.report["loss"] == whole.report["loss"] and run.bit_exact


def begun(folder: Path) -> list[Path]:
    """Runs that are being trained: something is logged, and they are not done."""
    return [path.parent for path in folder.glob("runs/*/metrics.jsonl") if not (path.parent / "DONE").exists()]


def kill_at_random(folder: Path, driver: subprocess.Popen, kills: int, seed: int, drivers: bool) -> int:
    """Kill workers, and perhaps drivers, until so many were hit; then let the sweep end. How many were hit."""
    draw, hit = random.Random(seed), 0
    while hit < kills and driver.poll() is None:
        time.sleep(draw.uniform(0.01, 0.1))
        workers = workers_of(driver.pid)
        if not begun(folder):  # however fast the machine is, there is something to be hit
            continue
        if drivers and draw.random() < 0.3:
            driver.kill()
            driver.communicate()
            wait_until_gone(workers, 60)
            driver = start(folder)
            hit += 1
        elif workers:
            os.kill(draw.choice(workers), signal.SIGKILL)
            hit += 1
    _, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, err.decode()
    return hit


@pytest.mark.heavy
def test_workers_that_are_killed_or_told_to_stop_are_replaced_and_the_bits_are_the_same(tmp_path, undisturbed):
    """Two are told by SIGTERM, as by a scheduler, which lets them save and end with 130; then three are killed.

    Their driver does not do their work on other threads.
    """
    driver, told = start(tmp_path), set()
    while len(told) < 2 and driver.poll() is None:
        if begun(tmp_path):
            for pid in set(workers_of(driver.pid)) - told:
                os.kill(pid, signal.SIGTERM)
                told.add(pid)
        time.sleep(0.02)
    assert len(told) >= 2
    wait_until_gone([*told], 60)
    assert kill_at_random(tmp_path, driver, 3, seed=0, drivers=False) == 3
    assert_equal(tmp_path, undisturbed)


@pytest.mark.heavy
def test_out_of_time_workers_stop_and_the_same_command_goes_on_and_waits_for_what_another_trains(tmp_path, undisturbed):
    """One run is in other hands for longer than the sweep takes; the driver neither fails nor trains it twice."""
    driver = start(tmp_path, "--budget", "1s")  # less than a worker needs to import torch and train eight runs
    driver.communicate(timeout=900)
    assert driver.returncode == 0 and not (tmp_path / "results" / "table.csv").exists()
    last = sixteen.runs("quick")[-1]
    held = Run.create(run_folder(tmp_path / "runs", last), last)
    with held.writing():
        driver = start(tmp_path)
        while len(list(tmp_path.glob("runs/*/DONE"))) < 15 and driver.poll() is None:
            time.sleep(0.05)
        time.sleep(2)
        assert driver.poll() is None and not (held.path / "DONE").exists()
    _, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, err.decode()
    assert_equal(tmp_path, undisturbed)


def working_in(folder: Path) -> dict[int, str]:
    """Processes that name a folder in their command, by pid: workers, wherever they hang in the tree of processes."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and "--worker-of" in words:
            found[int(path.parent.name)] = words
    return found


@pytest.mark.heavy
def test_under_ray_a_killed_worker_changes_nothing(tmp_path, undisturbed):
    """A real cluster on this machine; `make slow` kills two workers, then the driver."""
    pytest.importorskip("ray", reason="ray is not installed; run make setup")
    driver = start(tmp_path, "--engine", "ray")
    while not (working := working_in(tmp_path)) and driver.poll() is None:
        time.sleep(0.05)
    os.kill(next(iter(working)), signal.SIGKILL)
    _, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, err.decode()
    assert_equal(tmp_path, undisturbed)


@pytest.mark.heavy
def test_as_jobs_of_submitit_a_killed_worker_changes_nothing(tmp_path, undisturbed):
    """By its local executor: the same protocol as SLURM's, with jobs that are processes of this machine."""
    pytest.importorskip("submitit", reason="submitit is not installed; run make setup")
    driver = start(tmp_path, "--engine", "submitit", "--minutes", "10")
    while not (working := working_in(tmp_path)) and driver.poll() is None:
        time.sleep(0.05)
    os.kill(next(iter(working)), signal.SIGKILL)
    _, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, err.decode()
    assert_equal(tmp_path, undisturbed)


def test_a_worker_whose_time_is_up_is_told_to_stop():
    """It counts as one that a scheduler stopped, so that another goes on; one that is done does not."""
    saves = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); time.sleep(60)"
    code = run_worker([sys.executable, "-c", saves, "0"], 2.0)
    assert code == TIME_UP and was_killed(code)
    assert run_worker([sys.executable, "-c", "import os, sys; sys.exit(int(sys.argv[1]) != os.getppid())", "0"]) == 0


def test_a_worker_that_does_not_save_in_time_has_died(monkeypatch):
    """Otherwise a job that is too short for any progress would be submitted without end."""
    monkeypatch.setattr("hopscope.execution.crew.PATIENCE", 0.2)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    code = run_worker([sys.executable, "-c", deaf, "0"], 2.0)
    assert code == -signal.SIGKILL and was_killed(code)


class Told(Crew):
    """A crew without processes: every worker is an exit code."""

    ends: int | None = None

    def hire(self):
        return self.ends

    def code(self, worker):
        return worker

    def dismiss(self): ...


def test_jobs_whose_time_is_up_are_replaced_for_as_long_as_runs_take():
    """The length of a job says nothing about its runs, unlike a worker that something killed."""
    crew = Told(["worker", "0"], 32)
    for _ in range(25):
        crew.workers = [TIME_UP] * 32
        assert crew.busy()
        crew.replace_the_dead(0)
        assert crew.workers == [None] * 32
    assert crew.deaths == 0
    crew.workers = [130] * (DEATHS + 1)
    with pytest.raises(RuntimeError, match=f"{DEATHS} workers were killed"):
        crew.replace_the_dead(0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--slurm", "partition"], "--slurm takes NAME=VALUE, such as partition=gpu; got 'partition'"),
        (["--slurm", "colour=red"], "a SLURM job has no parameter 'colour'; submitit knows account, "),
        (["--minutes", "5"], "it must be from 10 to 60; got 5"),
    ],
)
def test_what_a_job_cannot_be_given(tmp_path, capsys, options, says):
    pytest.importorskip("submitit", reason="submitit is not installed; run make setup")
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["sweep", "curriculum", "--engine", "submitit", *options, *where]) == 2
    assert says in capsys.readouterr().err and not list(tmp_path.glob("runs/*"))


def test_what_skypilot_is_given_is_a_sweep_that_there_is(tmp_path, capsys):
    """Its command, but for the bucket and the GPU that are not here, is one that can be run."""
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((Path(__file__).parents[2] / "examples" / "skypilot.yaml").read_text())
    command = job["run"]
    for name, value in (job["envs"] | {"SCALE": "quick"}).items():
        command = command.replace(f"${name}", value)
    words = shlex.split(command.replace("/kept", str(tmp_path)).replace("cuda", "cpu"))
    assert words[0].endswith("/hopscope") and main([*words[1:], "--dry-run"]) == 0
    assert "fig4" in capsys.readouterr().out


@pytest.mark.slow
def test_under_ray_killed_workers_and_drivers_change_nothing(tmp_path, undisturbed):
    """A real cluster on this machine: two workers killed, then the driver, then the same command again."""
    pytest.importorskip("ray", reason="ray is not installed; run make setup")
    driver, hit = start(tmp_path, "--engine", "ray"), set()
    until = time.monotonic() + 300
    while len(hit) < 2 and driver.poll() is None and time.monotonic() < until:
        for pid in working_in(tmp_path).keys() - hit:
            os.kill(pid, signal.SIGKILL)
            hit.add(pid)
        time.sleep(0.05)
    assert len(hit) >= 2
    while not working_in(tmp_path) and driver.poll() is None:
        time.sleep(0.05)
    driver.kill()
    driver.communicate(timeout=900)
    until = time.monotonic() + 120
    while working_in(tmp_path):
        assert time.monotonic() < until, "a process is still there"
        time.sleep(0.1)
    driver = start(tmp_path, "--engine", "ray")
    _, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, err.decode()
    assert_equal(tmp_path, undisturbed)


@pytest.mark.slow
def test_twenty_kills_of_workers_and_drivers(tmp_path, undisturbed):
    hits = 0
    for seed in range(5):
        folder = tmp_path / str(seed)
        hits += kill_at_random(folder, start(folder), 5, seed, drivers=True)
        assert_equal(folder, undisturbed)
    assert hits >= 20


@pytest.mark.heavy
def test_a_sweep_is_the_reproduction(tmp_path, capsys):
    """Of a real experiment, through the command: the same runs, and the same table to the last digit."""
    one = reproduce("curriculum", "quick", runs=tmp_path / "a", results=tmp_path / "one", threads=1)
    where = ["--runs", str(tmp_path / "b"), "--results", str(tmp_path / "many")]
    assert main(["sweep", "curriculum", "--workers", "2", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] is True
    assert (tmp_path / "many" / "curriculum" / "table.csv").read_text() == (one.results / "table.csv").read_text()


def test_a_stacked_sweep_trains_what_the_others_do(tmp_path, capsys):
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["sweep", "curriculum", "--engine", "stacked", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] is True
    groups = by_shape(declared("fig4", "quick"))
    assert [len(group) for group in groups] == [1, 1, 1]
    assert [len(group) for group in by_shape(declared("fig4", "cpu"))] == [3, 3, 3, 3, 3, 2, 2, 2, 2]
    assert all(len(group) == 8 for group in by_shape(declared("fig4", "paper")))


def test_a_stack_out_of_time_goes_on_later(tmp_path, monkeypatch):
    """Stopped before anything was begun, and in the middle of a run."""
    where = {"runs": tmp_path / "runs", "results": tmp_path / "results"}
    assert stacked("curriculum", "quick", **where, budget=0.0).left == 2
    asked = iter(range(1000))  # the clock is looked at before a run and after every step
    clock = SimpleNamespace(monotonic=lambda: 1e9 if next(asked) >= 7 else 0.0, sleep=time.sleep)
    with monkeypatch.context() as patched:
        patched.setattr("hopscope.execution.sweep.time", clock)
        assert stacked("curriculum", "quick", **where, budget=60.0).left == 2
    [stopped] = [Run(path.parent) for path in (tmp_path / "runs").glob("*/metrics.jsonl")]
    assert stopped.step == 6
    assert stacked("curriculum", "quick", **where).done
    assert [row["step"] for row in stopped.rows] == [0, 5, 10, 15, 20]


@pytest.mark.parametrize("busy", [0, 2, 4])
def test_of_a_stack_a_member_in_other_hands_is_left_for_later(tmp_path, busy):
    """The others are trained without it: in two stacks of whoever is before and after it."""
    five = sixteen.runs("quick")[:5]
    assert len(by_shape(five)) == 1
    held = Run.create(run_folder(tmp_path, five[busy]), five[busy])
    with held.writing():
        assert train_stacks(five, tmp_path, lambda: False) == 1
    assert not held.done
    others = [Run(run_folder(tmp_path, config)) for config in five if config is not five[busy]]
    assert max(run.sessions[0]["environment"].get("stacked", 1) for run in others) >= 2
    assert train_stacks(five, tmp_path, lambda: False) == 0


@pytest.mark.heavy
def test_an_interrupt_stops_the_workers_too(tmp_path):
    driver = start(tmp_path)
    while not (workers := workers_of(driver.pid)) or not (tmp_path / "runs").exists():
        time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=900)
    assert driver.returncode == 130
    wait_until_gone(workers, 60)


def test_what_cannot_be_swept_is_refused(tmp_path, capsys):
    assert main(["sweep", "curiculum"]) == 2
    assert "did you mean 'curriculum'" in capsys.readouterr().err
    assert main(["sweep", "curriculum", "--engine", "stakced"]) == 2
    assert main(["sweep", "curriculum", "--engine", "stacked", "--workers", "2"]) == 2
    assert main(["sweep", "curriculum", "--gpus", "0.5"]) == 2
    assert main(["sweep", "curriculum", "--slurm", "partition=gpu"]) == 2
    assert main(["sweep", "curriculum", "--minutes", "20"]) == 2
    with pytest.raises(BadInput, match="at least one worker"):
        sweep("curriculum", "quick", runs=tmp_path, results=tmp_path, workers=0)
    assert not list(tmp_path.iterdir())


def test_workers_that_only_die_are_not_replaced_for_ever():
    crew = Processes(["/bin/sh", "-c", "kill -9 $$"], 1)

    def replace_while_busy():
        while crew.busy():
            crew.replace_the_dead(0)
            time.sleep(0.02)

    with pytest.raises(RuntimeError, match="the last by 9"):
        replace_while_busy()


def test_counting(tmp_path):
    assert finished("curriculum", "quick", tmp_path) == (0, 2)

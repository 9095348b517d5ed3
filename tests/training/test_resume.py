"""A run that was stopped or killed at any moment ends with the bits of one that was not."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import filelock
import pytest
import torch

from hopscope import Architecture, BadInput, Config, Run, Training, load, train
from hopscope.cli import main
from hopscope.core.storage import TEMPORARY
from hopscope.runs.integrity import check
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import Interrupted
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
    for first in (1, 2, 5, 7) if variant == "plain" else (1, 7):
        folder = tmp_path / f"stopped-{first}"
        for steps in (first, 3):
            with pytest.raises(Interrupted, match="the same command goes on from there"):
                train(config(**training), folder, threads=1, compile="off", should_stop=stop_after(steps))
            assert not (folder / "DONE").exists()
        assert fingerprint(trained(folder, **training)) == fingerprint(undisturbed)


@pytest.mark.parametrize(
    ("dtype", "examples", "curriculum"),
    [("float32", 0, "none"), ("float32", 20, "implicit"), ("bfloat16", 0, "implicit"), ("bfloat16", 20, "none")],
)
def test_every_precision_data_and_curriculum(tmp_path, dtype, examples, curriculum):
    """Each two of their values together.

    With warm-up, decay and clipping, over two hops; stopped during warm-up, at a save and during decay.
    """
    recipe = {"schedule": "linear", "warmup": 4, "decay_steps": 5, "clip": 0.3, "lr": 0.01}
    steps = {"steps": 12, "batch": 4, "val_size": 4, "log_every": 1, "checkpoints": "4"}
    mine = Config(
        Retrieval(n_hops=2, n_chains=2, curriculum=curriculum),
        Architecture(n_layers=1, d_model=8),
        Training(dtype=dtype, examples=examples, **recipe, **steps),
    )
    undisturbed = train(mine, tmp_path / "undisturbed", threads=1, compile="off")
    folder = tmp_path / "stopped"
    for so_far, made in ((2, 2), (8, 6), (10, 2)):
        with pytest.raises(Interrupted) as stopped:
            train(mine, folder, threads=1, compile="off", should_stop=stop_after(made))
        assert stopped.value.step == so_far == Run(folder).newest().step
        assert stopped.value.asked
    resumed = train(mine, folder, threads=1, compile="off")
    assert fingerprint(resumed) == fingerprint(undisturbed)
    assert [session["from_step"] for session in resumed.sessions] == [0, 2, 8, 10]
    assert resumed.bit_exact


@pytest.mark.parametrize("times", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_a_run_resumed_many_times(tmp_path, times):
    """One step per session: the same bits, and no file stays open."""
    steps = {"steps": times, "checkpoints": "10"}
    undisturbed = trained(tmp_path / "undisturbed", **steps)
    opened = []
    for _ in range(times - 1):
        with pytest.raises(Interrupted):
            train(config(**steps), tmp_path / "run", threads=1, compile="off", should_stop=lambda: True)
        opened.append(len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0)
    run = trained(tmp_path / "run", **steps)
    assert fingerprint(run) == fingerprint(undisturbed)
    assert len(run.sessions) == times and run.bit_exact
    assert opened[-1] <= opened[1]


class Sender:
    """A watcher that sends this process signals after a step."""

    def __init__(self, step: int, *signals: int):
        self.step, self.signals, self.ended = step, signals, False

    def begin(self, config, step): ...
    def logged(self, row): ...

    def stepped(self, step):
        if step == self.step:
            for number in self.signals:
                os.kill(os.getpid(), number)

    def end(self):
        self.ended = True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_saves_and_ends_and_the_run_goes_on(tmp_path, number):
    undisturbed = trained(tmp_path / "undisturbed")
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    sender = Sender(5, number)
    with pytest.raises(Interrupted, match="at step 5; the same command goes on from there") as stopped:
        train(config(), tmp_path / "run", threads=1, compile="off", watchers=(sender,))
    assert sender.ended and not stopped.value.asked
    assert stopped.value.reason == {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[number]
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert Run(tmp_path / "run").newest().step == 5  # off the schedule of every 4
    assert fingerprint(trained(tmp_path / "run")) == fingerprint(undisturbed)


def test_a_signal_in_the_last_step_ends_what_is_to_follow(tmp_path):
    """The run is finished, and whoever trains several learns of the signal."""
    last = config().training.steps
    with pytest.raises(Interrupted, match=f"terminated at step {last}; training is finished") as stopped:
        train(config(), tmp_path / "run", threads=1, compile="off", watchers=(Sender(last, signal.SIGTERM),))
    assert Run(tmp_path / "run").done and not stopped.value.asked
    assert fingerprint(Run(tmp_path / "run")) == fingerprint(trained(tmp_path / "undisturbed"))


def test_a_spent_budget_in_the_last_step_is_no_interruption(tmp_path):
    last, count = config().training.steps, iter(range(1, 1000))
    assert train(config(), tmp_path / "run", threads=1, should_stop=lambda: next(count) >= last).done


def test_a_second_signal_is_not_waited_for(tmp_path):
    """It ends at once, without a save; what is lost is made again."""
    undisturbed = trained(tmp_path / "undisturbed")
    sender = Sender(6, signal.SIGTERM, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as stopped:
        train(config(), tmp_path / "run", threads=1, compile="off", watchers=(sender,))
    assert not isinstance(stopped.value, Interrupted)
    assert Run(tmp_path / "run").newest().step == 4
    assert fingerprint(trained(tmp_path / "run")) == fingerprint(undisturbed)


@pytest.mark.heavy
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

KILLED = {"checkpoints": "1", "log_every": 1}  # it saves all the time, so that kills hit saves

#: A process that has imported everything once forks a child per start: fifty kills take seconds, not minutes. It knows
#: nothing of pytest's own process, of its threads in particular. Prints when the kills came.
DRIVER = """
import json, os, random, signal, sys, tempfile, time, traceback, warnings
from pathlib import Path
import torch
torch.set_num_threads(1)  # before any work, so that there are no threads to lose in a fork
from hopscope.core.storage import TEMPORARY
from tests.small_runs import trained

with tempfile.TemporaryDirectory() as warm:
    trained(Path(warm), steps=1)  # or else every child imports what is imported late, and is killed in that alone
if os.path.isdir("/proc/self/task"):
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lose a thread"
folder, kills, seed, a_step, training = Path(sys.argv[1]), *json.loads(sys.argv[2])
chance, came = random.Random(seed), {"in a start": 0, "in a save": 0, "between saves": 0, "in a finish": 0, "never": 0}

def start():
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a kill damages nothing, and changes no environment
                trained(folder, **training)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child

def sessions():
    path = folder / "sessions.jsonl"
    return path.read_bytes().count(b"\\n") if path.is_file() else 0

def reached():
    return max((int(path.name[5:]) for path in folder.glob("checkpoints/step_*")), default=0)

def ended(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

for kill in range(kills):
    before, child = sessions(), start()
    # Every fourth is killed in its start; the others once they are further, the last after two thirds of all steps.
    target = reached() if kill % 4 == 1 else 2 * training["steps"] * (kill + 1) // (3 * kills)
    while reached() < target and not ended(child):
        time.sleep(0.0005)
    time.sleep(chance.uniform(0.0, a_step))
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        sys.exit(f"a start failed after {came}")
    if code == 0:
        when = "never"
    elif any(folder.glob(f"checkpoints/{TEMPORARY}*")):
        when = "in a save"
    elif sessions() == before:
        when = "in a start"
    elif (folder / "checkpoints" / f"step_{training['steps']:08d}").is_dir():
        when = "in a finish"
    else:
        when = "between saves"
    came[when] += 1
if os.waitstatus_to_exitcode(os.waitpid(start(), 0)[1]):
    sys.exit(f"the last start failed after {came}")
print(json.dumps(came))
"""


def in_driver(folder: Path, kills: int, seed: int, a_step: float, training: dict) -> dict[str, int]:
    """Train in children that are killed here and there, then to the end; returns when the kills came."""
    settings = json.dumps([kills, seed, a_step, training])
    root = Path(__file__).parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", DRIVER, str(folder), settings]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    return json.loads(done.stdout)


def assert_killed_equals_undisturbed(tmp_path: Path, kills: int, seed: int, steps: int, **how: str) -> None:
    """Kills follow the steps, and come at a random moment of a step: how fast the machine is does not matter."""
    training = {"steps": steps, **KILLED, **how}
    began = time.monotonic()
    undisturbed = trained(tmp_path / "undisturbed", **training)
    whole = time.monotonic() - began
    came = in_driver(tmp_path / "killed", kills, seed, whole / steps, training)
    print(f"seed {seed}: kills {came}")
    run = load(tmp_path / "killed")
    assert came["in a save"] + came["between saves"] >= kills // 2, f"seed {seed}: too few kills hit training, {came}"
    assert came["never"] <= kills // 5, f"seed {seed}: too few kills hit anything, {came}"
    assert fingerprint(run) == fingerprint(undisturbed), f"seed {seed}, {came}"
    assert [row["step"] for row in run.rows] == list(range(steps + 1)), f"seed {seed}, {came}"
    assert run.bit_exact
    assert not [f for f in run.path.rglob("*") if f.name.startswith(TEMPORARY)]


@pytest.mark.heavy
def test_six_kills(tmp_path):
    assert_killed_equals_undisturbed(tmp_path, kills=6, seed=0, steps=90)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_fifty_kills(tmp_path, seed):
    assert_killed_equals_undisturbed(tmp_path, kills=50, seed=seed, steps=240)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "sgd(momentum=0.9, nesterov=True)", "muon"])
def test_fifty_kills_under_every_optimizer(tmp_path, optimizer):
    assert_killed_equals_undisturbed(tmp_path, kills=50, seed=3, steps=240, optimizer=optimizer)


EVERY_CALL = {"steps": 2, "batch": 4, "val_size": 4, "log_every": 1, "checkpoints": "1"}


@pytest.mark.parametrize("stride", [19, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_every_system_call_of_a_whole_run(tmp_path, stride):
    """From the folder's making to DONE: killed at the i-th call that writes, the same start again ends the same."""
    undisturbed = trained(tmp_path / "undisturbed", **EVERY_CALL)
    names = ("open", "write", "fsync", "replace", "mkdir", "unlink", "rmdir", "close")

    def child_killed_at(index: int, folder: Path) -> int:
        child = os.fork()
        if child == 0:
            made = itertools.count()

            def watched(real):
                return lambda *args, **kwargs: os._exit(9) if next(made) == index else real(*args, **kwargs)

            for name in names:
                setattr(os, name, watched(getattr(os, name)))
            code = 1
            try:
                trained(folder, **EVERY_CALL)
                code = 0
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    for index in itertools.count(0, stride):
        folder = tmp_path / f"killed-{index}"
        code = child_killed_at(index, folder)
        assert not check(folder).faults, index
        run = trained(folder, **EVERY_CALL)  # a warning, of damage or of another environment, would be an error
        assert fingerprint(run) == fingerprint(undisturbed), index
        assert [row["step"] for row in run.rows] == [0, 1, 2], index
        assert check(folder).state == "whole", index
        assert not [f for f in run.path.rglob("*") if f.name.startswith(TEMPORARY)], index
        if code == 0:
            break
        assert code == 9, index
    assert index > 80  # there were that many calls to be killed at


COMMAND = [
    *(sys.executable, "-m", "hopscope", "train", "retrieval", "--hops", "1", "--chains", "2", "--layers", "1"),
    *("--d-model", "8", "--batch", "4", "--steps", "500", "--val-size", "4", "--log-every", "1", "--threads", "1"),
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
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if path.is_file() and path.read_bytes().count(b"\n") >= n:
            return
        time.sleep(0.01)
    raise AssertionError("training did not get going within five minutes")


@pytest.mark.heavy
def test_the_command_killed_and_started_again(tmp_path):
    """The real thing: SIGKILL to the command, the same command again, and SIGINT and SIGTERM on the way."""
    assert main([*COMMAND[3:], "--out", str(tmp_path / "undisturbed")]) == 0
    folder = tmp_path / "killed"
    for number, rows, code in ((signal.SIGKILL, 80, -9), (signal.SIGINT, 180, 130), (signal.SIGTERM, 300, 130)):
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
        time.sleep(600)
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


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the library catches it."""


@pytest.mark.parametrize("early", [False, True], ids=["at-its-steps", "solved-early"])
@pytest.mark.parametrize("point", ["before-the-report", "before-DONE"])
def test_killed_between_the_last_checkpoint_and_done(tmp_path, monkeypatch, early, point):
    """It comes back, trains no step more, and ends with the same report."""
    training = {"lr": 0.01, "steps": 30}
    if early:
        worst = [max(row["hop_losses"].values()) for row in trained(tmp_path / "all", **training).rows]
        solved = worst.index(min(worst[:-1]))  # before the last step, and off the checkpoints' schedule or on it
        assert solved > 0
        training["stop_below"] = worst[solved] * 1.000001
    undisturbed = trained(tmp_path / "undisturbed", **training)
    assert undisturbed.done and undisturbed.report["step"] == undisturbed.step == (solved if early else 30)

    def killed(*_: object) -> None:
        raise Killed

    target = (Run, "finish") if point == "before-the-report" else ("hopscope.runs.run.write_file",)
    with monkeypatch.context() as patch:
        if point == "before-the-report":
            patch.setattr(*target, killed)
        else:
            patch.setattr(*target, lambda path, data: killed() if path.name == "DONE" else None)
        with pytest.raises(Killed):
            trained(tmp_path / "killed", **training)
    assert not Run(tmp_path / "killed").done
    resumed = trained(tmp_path / "killed", **training)
    assert fingerprint(resumed) == fingerprint(undisturbed)
    reports = [{k: v for k, v in run.report.items() if k != "seconds"} for run in (resumed, undisturbed)]
    assert reports[0] == reports[1]


def test_a_diverging_run_ends_in_one_sentence(tmp_path):
    """And does so again: no NaN comes to be in a file."""
    for _ in range(2):
        with pytest.raises(
            BadInput, match=r"the loss is not a finite number at step .*: training diverged; choose"
        ) as told:
            trained(tmp_path / "run", lr=1e30)
        assert "\n" not in str(told.value)
    run = Run(tmp_path / "run")
    assert not run.done and run.newest().step == 0
    assert b"NaN" not in (run.path / "metrics.jsonl").read_bytes()


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


def test_two_who_begin_the_same_run_at_once_both_may(tmp_path):
    """Workers of a sweep do: who comes second finds the other's config.json where there was none a moment ago."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    barrier = Barrier(2)

    def begin(number):
        barrier.wait()
        return Run.create(tmp_path / str(number), config()).config.identity

    with ThreadPoolExecutor(2) as pool:
        for number in range(10):
            assert len(set(pool.map(begin, [number, number]))) == 1


def test_who_is_overtaken_while_a_run_is_begun_may_begin_it_too(tmp_path, monkeypatch):
    """The other begins it just before the folder is looked through: its config.json once seemed a stranger's."""
    look = Path.iterdir

    def overtaken(path):
        monkeypatch.undo()
        Run.create(tmp_path / "run", config())
        return look(path)

    monkeypatch.setattr(Path, "iterdir", overtaken)
    assert Run.create(tmp_path / "run", config()).config.identity == config().identity
    assert Path.iterdir is look

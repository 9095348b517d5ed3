"""Faults at every system call of a save: the checkpoint before stays whole, and one sentence says what was wrong."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hopscope import BadInput, Run
from hopscope.cli import main
from hopscope.core.storage import MANIFEST, TEMPORARY, CannotSave, Damaged, read_folder, write_file, write_folder
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import config, tensors_equal, trained

CALLS = ("open", "write", "fsync", "replace", "mkdir", "close")
REMOVALS = ("unlink", "rmdir")  # of temporary files, and of older checkpoints


@contextmanager
def failing_at(
    index: int | None, act: Callable[[str], None], calls: tuple[str, ...] = CALLS, for_good: bool = False
) -> Iterator[list[str]]:
    """Count the system calls of a save; at call number `index` do something else instead. Yields the calls' names.

    With `for_good` the calls after it fail as well, those that clean up among them.
    """
    real = {name: getattr(os, name) for name in calls}
    made: list[str] = []

    def watched(name: str) -> Callable:
        def call(*args, **kwargs):
            made.append(name)
            if index is not None and (len(made) - 1 == index or (for_good and len(made) > index)):
                if name == "close":
                    real["close"](*args)  # a failing close has closed the file all the same
                act(name)
            return real[name](*args, **kwargs)

        return call

    try:
        for name in calls:
            setattr(os, name, watched(name))
        yield made
    finally:
        for name, function in real.items():
            setattr(os, name, function)


@pytest.fixture
def run(tmp_path) -> Run:
    """A finished run whose last checkpoint can be saved anew, at the next step."""
    return trained(tmp_path / "run")


def save_next(run: Run) -> None:
    state = run.checkpoint(12)
    run.save(13, state.model, state.optimizer, 1.0)


def calls_of_a_save(run: Run) -> list[str]:
    with failing_at(None, lambda _: None) as made:
        save_next(run)
    shutil.rmtree(run.folder(13))
    return list(made)


def assert_clear(sentence: str, run: Run, number: int) -> None:
    """One line with what could not be written, why, and what to do."""
    written = [run.folder(13), run.path / "metrics.jsonl"]
    assert any(sentence.startswith(f"could not write {path}: {os.strerror(number)}; ") for path in written), sentence
    assert "\n" not in sentence


def raise_error(number: int) -> Callable[[str], None]:
    def act(name: str) -> None:
        raise OSError(number, os.strerror(number))

    return act


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
def test_a_fault_at_any_call_leaves_the_checkpoint_before(run, number):
    """At each of them for want of room; at some of them for other reasons, which differ in what is said alone."""
    calls = calls_of_a_save(run)
    assert len(calls) >= 15 and {"open", "write", "fsync", "replace", "mkdir"} <= set(calls)
    before = run.checkpoint(12)
    for index in range(0, len(calls), 1 if number == errno.ENOSPC else 5):
        with failing_at(index, raise_error(number)), pytest.raises(CannotSave) as caught:
            save_next(run)
        sentence = caught.value.strerror
        assert_clear(sentence, run, number)
        newest = run.newest()
        assert newest is not None and newest.step in (12, 13)
        assert tensors_equal(newest.model, before.model) and tensors_equal(newest.optimizer, before.optimizer)
        with run.writing():
            assert not list((run.path / "checkpoints").glob(f"{TEMPORARY}*"))
        if newest.step == 13:  # the rename had happened; only its durability was in doubt
            shutil.rmtree(run.folder(13))


def test_a_crash_at_any_call_leaves_a_whole_checkpoint(run):
    """A child process saves and dies on the spot at the i-th call, cleaning nothing up."""
    calls = calls_of_a_save(run)
    before = run.checkpoint(12)
    for index in range(len(calls)):
        child = os.fork()
        if child == 0:
            with failing_at(index, lambda _: os._exit(9)):
                save_next(run)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        newest = Run(run.path).newest()
        assert newest is not None and newest.step in (12, 13)
        assert tensors_equal(newest.model, before.model)
        with run.writing():
            assert not list((run.path / "checkpoints").glob(f"{TEMPORARY}*"))
    save_next(run)
    assert Run(run.path).newest().step == 13


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_crash_while_old_checkpoints_are_thinned_out(run, tmp_path, stride):
    """Removals are crash points too: here an older optimizer and a checkpoint off the schedule go."""
    state = run.checkpoint(12)
    for step in (13, 14):
        run.save(step, state.model, state.optimizer, 1.0)
    rehearsal = Run(shutil.copytree(run.path, tmp_path / "rehearsal"))
    with failing_at(None, lambda _: None, CALLS + REMOVALS) as calls:
        rehearsal.save(15, state.model, state.optimizer, 1.0)
    assert {"unlink", "rmdir"} <= set(calls) and 13 not in rehearsal.steps
    for index, name in [*enumerate(calls)][::stride]:
        crashed = Run(shutil.copytree(run.path, tmp_path / f"crash-{index}"))
        child = os.fork()
        if child == 0:
            with failing_at(index, lambda _: os._exit(9), CALLS + REMOVALS):
                crashed.save(15, state.model, state.optimizer, 1.0)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, (index, name)
        newest = crashed.newest()  # a warning would be an error: a crash damages nothing
        assert newest is not None and newest.step in (14, 15), (index, name)
        assert tensors_equal(newest.model, state.model) and tensors_equal(newest.optimizer, state.optimizer)
        crashed.save(16, state.model, state.optimizer, 1.0)
        assert crashed.newest().step == 16
        shutil.rmtree(crashed.path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_a_fault_that_stays_so_that_not_even_cleaning_up_works(run, number):
    calls, before = calls_of_a_save(run), run.checkpoint(12)
    for index in range(0, len(calls), 1 if number == errno.ENOSPC else 5):
        fault = failing_at(index, raise_error(number), CALLS + REMOVALS, for_good=True)
        with fault, pytest.raises(CannotSave) as caught:
            save_next(run)
        assert_clear(caught.value.strerror, run, number)
        newest = run.newest()
        assert newest is not None and newest.step in (12, 13)
        assert tensors_equal(newest.model, before.model) and tensors_equal(newest.optimizer, before.optimizer)
        with run.writing():
            assert not list(run.path.rglob(f"{TEMPORARY}*"))
        if newest.step == 13:
            shutil.rmtree(run.folder(13))


def test_any_write_cut_short_by_a_full_disk(run, monkeypatch):
    """The first half of each write in turn gets through, then the disk is full."""
    real, before = os.write, run.checkpoint(12)
    for index in range(calls_of_a_save(run).count("write")):
        made = iter(range(100))

        def short(handle: int, data: memoryview, made=made, index=index) -> int:
            if next(made) == index:
                real(handle, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, data)

        monkeypatch.setattr(os, "write", short)
        with pytest.raises(CannotSave, match="No space left on device; free some space"):
            save_next(run)
        monkeypatch.undo()
        assert run.newest().step == 12
        assert tensors_equal(run.newest().model, before.model)
        assert not list(run.path.rglob(f"{TEMPORARY}*"))


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:7]))
    write_file(tmp_path / "file", b"0123456789" * 10)
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10


def test_a_fault_while_training_ends_in_one_sentence_and_resumes(tmp_path, monkeypatch, capsys):
    recipe = "--hops 1 --chains 2 --layers 1 --d-model 8 --batch 4 --steps 12 --val-size 4 --checkpoints 4 --threads 1"
    arguments = ["train", "retrieval", *recipe.split(), "--out", str(tmp_path / "run")]
    real, seen = os.replace, []

    def full(source, target):
        seen.append(target)
        if "step_00000008" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(source, target)

    monkeypatch.setattr(os, "replace", full)
    assert main(arguments) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("hopscope: could not write") and "No space left on device" in last
    monkeypatch.undo()
    assert Run(tmp_path / "run").newest().step == 4
    assert main(arguments) == 0
    assert Run(tmp_path / "run").done


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small file system in memory, where mounting is allowed."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Permissions do not bind root."""
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.privileged
def test_a_disk_that_is_really_full(run, tmp_path):
    """A tmpfs filled up by saves: the one that finds no room says so and leaves the others whole."""
    state = run.checkpoint(12)
    with mounted(tmp_path / "small", "size=256k") as mount:
        small = Run(shutil.copytree(run.path, mount / "run"))
        (mount / "ballast").write_bytes(bytes(1 << 16))
        step = 12
        with pytest.raises(CannotSave) as caught:  # noqa: PT012
            while step < 200:  # of every four, one is kept for good
                small.save(step + 1, state.model, state.optimizer, 1.0)
                step += 1
        assert 12 < step < 199
        assert "No space left on device; free some space" in caught.value.strerror
        newest = small.newest()
        assert newest is not None and newest.step == step
        assert tensors_equal(newest.model, state.model) and tensors_equal(newest.optimizer, state.optimizer)
        assert not list(mount.rglob(f"{TEMPORARY}*"))
        (mount / "ballast").unlink()  # some space is freed, as the sentence says
        small.save(step + 1, state.model, state.optimizer, 1.0)
        assert small.newest().step == step + 1


@pytest.mark.privileged
def test_a_file_system_that_is_really_read_only(tmp_path, capsys):
    with mounted(tmp_path / "fixed", "size=64k,ro") as mount:
        assert main(["train", "retrieval", "--steps", "1", "--out", str(mount / "run")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"hopscope: could not make the folder {mount / 'run'}: Read-only file system; choose another"


@pytest.mark.privileged
def test_a_folder_that_someone_else_owns(tmp_path):
    with as_nobody(), pytest.raises(BadInput, match=r"could not make the folder .*: Permission denied; choose another"):
        Run.create(tmp_path / "run", config())


@pytest.mark.privileged
@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_run_that_only_someone_else_may_read(command, tmp_path, capsys):
    (tmp_path / "theirs").mkdir(0o700)
    assert main([command, "packaged"]) == 0  # whoever comes after may not read the modules either
    capsys.readouterr()
    with as_nobody():
        assert main([command, str(tmp_path / "theirs" / "run")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hopscope: could not read {tmp_path}") and line.endswith(": Permission denied")


@pytest.mark.privileged
def test_permissions_lost_between_two_saves(run):
    """Readable by all, written by root alone: what stands is loadable, the save says what is wrong."""
    before = run.checkpoint(12)
    run.path.chmod(0o755)
    handle = os.open(run.path, os.O_RDONLY)
    try:
        here = Run(f"/proc/self/fd/{handle}")  # pytest's own folders above it are closed to others
        with as_nobody(), pytest.raises(CannotSave, match="Permission denied; choose a folder that you may write to"):
            here.save(13, before.model, before.optimizer, 1.0)
    finally:
        os.close(handle)
    assert tensors_equal(run.newest().model, before.model)


def test_a_file_where_the_folder_should_be(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["train", "retrieval", "--steps", "1", "--out", str(tmp_path / "file" / "run")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "could not make the folder" in line and "Not a directory; choose another" in line


def test_names_and_sizes_and_hashes_are_in_the_manifest(tmp_path):
    write_folder(tmp_path / "folder", {"a": b"alpha", "b": b""}, {"step": 3})
    assert read_folder(tmp_path / "folder", ["b", "a"]) == {"b": b"", "a": b"alpha"}
    assert {f.name for f in (tmp_path / "folder").iterdir()} == {"a", "b", MANIFEST}
    with pytest.raises(Damaged, match="not in its folder's manifest"):
        read_folder(tmp_path / "folder", ["c"])


def test_a_file_is_replaced_or_left(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_file(path, b"before")
    monkeypatch.setattr(os, "fsync", raise_error(errno.EIO))
    with pytest.raises(CannotSave):
        write_file(path, b"after")
    monkeypatch.undo()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]

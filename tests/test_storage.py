"""Faults at every system call of a save: the checkpoint before stays whole, and one sentence says what was wrong."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hopscope import Run
from hopscope.cli import main
from hopscope.storage import MANIFEST, TEMPORARY, CannotSave, Damaged, read_folder, write_file, write_folder
from tests.small_runs import tensors_equal, trained

CALLS = ("open", "write", "fsync", "replace", "mkdir", "close")


@contextmanager
def failing_at(index: int | None, act: Callable[[str], None]) -> Iterator[list[str]]:
    """Count the system calls of a save; at call number `index` do something else instead. Yields the calls' names."""
    real = {name: getattr(os, name) for name in CALLS}
    made: list[str] = []

    def watched(name: str) -> Callable:
        def call(*args, **kwargs):
            made.append(name)
            if len(made) - 1 == index:
                if name == "close":
                    real["close"](*args)  # a failing close has closed the file all the same
                act(name)
            return real[name](*args, **kwargs)

        return call

    try:
        for name in CALLS:
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
    for leftover in (run.path / "checkpoints" / "step_00000013").iterdir():
        leftover.unlink()
    (run.path / "checkpoints" / "step_00000013").rmdir()
    return list(made)


def raise_error(number: int) -> Callable[[str], None]:
    def act(name: str) -> None:
        raise OSError(number, os.strerror(number))

    return act


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
def test_a_fault_at_any_call_leaves_the_checkpoint_before(run, number):
    calls = calls_of_a_save(run)
    assert len(calls) >= 15 and {"open", "write", "fsync", "replace", "mkdir"} <= set(calls)
    before = run.checkpoint(12)
    for index, name in enumerate(calls):
        with failing_at(index, raise_error(number)), pytest.raises(CannotSave) as caught:
            save_next(run)
        sentence = caught.value.strerror
        assert sentence.startswith(f"could not write {run.path}"), (index, name)
        assert os.strerror(number) in sentence and "\n" not in sentence
        newest = run.newest()
        assert newest is not None and newest.step in (12, 13)
        assert tensors_equal(newest.model, before.model) and tensors_equal(newest.optimizer, before.optimizer)
        with run.writing():
            assert not list((run.path / "checkpoints").glob(f"{TEMPORARY}*"))
        if newest.step == 13:  # the rename had happened; only its durability was in doubt
            for file in run.folder(13).iterdir():
                file.unlink()
            run.folder(13).rmdir()


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


def test_a_write_cut_short_by_a_full_disk(run, monkeypatch):
    """The first half of a tensor file is written, then the disk is full."""
    real = os.write

    def short(handle: int, data: memoryview) -> int:
        if len(data) > 2000:
            real(handle, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data)

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(CannotSave, match="No space left on device; free some space"):
        save_next(run)
    monkeypatch.undo()
    assert run.newest().step == 12


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:7]))
    write_file(tmp_path / "file", b"0123456789" * 10)
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10


def test_a_fault_while_training_ends_in_one_sentence_and_resumes(tmp_path, monkeypatch, capsys):
    arguments = [
        "train",
        "retrieval",
        "--hops",
        "1",
        "--chains",
        "2",
        "--layers",
        "1",
        "--d-model",
        "8",
        "--batch",
        "4",
    ]
    arguments += [
        "--steps",
        "12",
        "--val-size",
        "4",
        "--checkpoints",
        "4",
        "--threads",
        "1",
        "--out",
        str(tmp_path / "run"),
    ]
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


def test_a_disk_that_is_really_full(tmp_path):
    """A tmpfs of 64 KiB, where mounting is allowed: saves go on until there is no room, and none is half there."""
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mount], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        data = {"model.safetensors": os.urandom(10_000)}
        with pytest.raises(CannotSave, match="No space left on device"):  # noqa: PT012
            for step in range(100):
                write_folder(mount / f"step_{step}", data, {})
        whole = sorted(mount.glob("step_*"))
        assert len(whole) >= 3
        for folder in whole:
            assert read_folder(folder, ["model.safetensors"]) == data
        assert not list(mount.glob(f"{TEMPORARY}*"))
    finally:
        subprocess.run(["umount", mount], check=True)


def test_a_folder_that_may_not_be_written(tmp_path):
    """As root, permissions do not bind, so a file stands where the folder should be; the sentence is the same."""
    (tmp_path / "file").write_text("")
    code = main(["train", "retrieval", "--steps", "1", "--out", str(tmp_path / "file" / "run")])
    assert code == 2


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

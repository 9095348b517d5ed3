"""Parcels and the queue: what was packed is what is merged, whatever is altered is refused, nothing of ours is lost."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged
from hopscope.execution.parcels import collect, pack, pieces_of, put_back, spread, unpack
from hopscope.execution.queue import EXPERIMENTS, ITEMS, work_off
from hopscope.experiments.base import run_folder
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import Interrupted, train

SETTINGS = Training(steps=40, batch=8, log_every=10, val_size=16, checkpoints="10")


def config(seed=0):
    return Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=16), SETTINGS.but(seed=seed))


def trained(runs, seed=0, stop_after=None):
    """A run, whole or stopped after so many steps."""
    stop = iter(range(10_000))
    folder = run_folder(runs, config(seed))
    try:
        return train(config(seed), folder, should_stop=lambda: stop_after is not None and next(stop) >= stop_after)
    except Interrupted:
        return Run(folder)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name[0] != "."}


def test_what_was_packed_is_what_is_merged(tmp_path):
    run = trained(tmp_path / "there")
    assert pack(tmp_path / "there", tmp_path / "parcel") == []
    assert collect(tmp_path / "parcel", tmp_path / "home") == [run.path.name]
    came = Run(tmp_path / "home" / run.path.name)
    assert came.done and came.rows == run.rows and came.steps == run.steps
    packed = contents(came.path)
    assert packed.items() <= contents(run.path).items()
    assert {p.name for p in contents(run.path).keys() - packed.keys()} == {"optimizer.safetensors"}
    assert (came.model.W_U == run.model.W_U).all()
    assert collect(tmp_path / "parcel", tmp_path / "home") == []


def test_a_stopped_run_goes_on_at_home_with_the_same_bits(tmp_path):
    whole = trained(tmp_path / "undisturbed")
    stopped = trained(tmp_path / "there", stop_after=17)
    assert 0 < stopped.step < 40
    pack(tmp_path / "there", tmp_path / "parcel")
    collect(tmp_path / "parcel", tmp_path / "home")
    run = trained(tmp_path / "home")
    assert run.done and run.rows == whole.rows and run.bit_exact
    assert (run.model.W_U == whole.model.W_U).all()


def test_the_run_that_came_further_stays_and_keeps_the_others_checkpoints(tmp_path):
    trained(tmp_path / "there", stop_after=15)
    pack(tmp_path / "there", tmp_path / "early")
    trained(tmp_path / "there")
    pack(tmp_path / "there", tmp_path / "late")
    home = tmp_path / "home"
    assert len(collect(tmp_path / "late", home)) == 1
    before = contents(home)
    assert collect(tmp_path / "early", home) == []
    assert contents(home) == before
    other = tmp_path / "other"
    collect(tmp_path / "early", other)
    early = set(Run(run_folder(other, config())).steps)
    assert len(collect(tmp_path / "late", other)) == 1
    assert early <= set(Run(run_folder(other, config())).steps) and Run(run_folder(other, config())).done


def test_what_has_no_room_is_left_out_from_the_least_worth(tmp_path):
    for seed in range(3):
        trained(tmp_path / "there", seed)
    left = pack(tmp_path / "there", tmp_path / "parcel", piece=75_000, pieces=2)
    assert left and all("checkpoints" in name and "step_00000040" not in name for name in left)
    assert json.loads((tmp_path / "parcel" / "parcel.json").read_text())["left_out"] == sorted(left)
    collect(tmp_path / "parcel", tmp_path / "home")
    assert all(Run(run_folder(tmp_path / "home", config(seed))).done for seed in range(3))
    parts = list((tmp_path / "parcel").glob("part-*"))
    assert 0 < len(parts) <= 2 and all(path.stat().st_size <= 75_000 for path in parts)


def whole(run):
    """Steps whose weights can be read."""
    for step in run.steps:
        run.at(step)
    return run.steps


def test_a_checkpoint_comes_whole_or_not_at_all(tmp_path):
    """With room for some of the weights only: no manifest comes alone, and ours stand where none came."""
    for seed in range(3):
        trained(tmp_path / "there", seed)
    left = pack(tmp_path / "there", tmp_path / "parcel", piece=75_000, pieces=2)
    folders = {name.rpartition("/")[0] for name in left}
    assert all({f"{folder}/manifest.json", f"{folder}/model.safetensors"} <= set(left) for folder in folders)
    collect(tmp_path / "parcel", tmp_path / "home")
    came = [whole(Run(run_folder(tmp_path / "home", config(seed)))) for seed in range(3)]
    assert any(steps != [0, 10, 20, 30, 40] for steps in came)
    for seed in range(3):
        trained(tmp_path / "early", seed, stop_after=35)
    collect(tmp_path / "parcel", tmp_path / "early")
    merged = [whole(Run(run_folder(tmp_path / "early", config(seed)))) for seed in range(3)]
    assert all({0, 10, 20, 30} <= set(steps) and 40 in steps for steps in merged)


def test_checkpoints_of_another_course_are_not_kept(tmp_path):
    """The same configuration begun on another machine: its rows differ, so its weights are of another course."""
    ours, came = trained(tmp_path / "home", stop_after=35), trained(tmp_path / "there")
    data = (ours.path / "metrics.jsonl").read_bytes()
    other = data.replace(b'"val_loss": 1', b'"val_loss": 2').replace(b'"val_loss": 0', b'"val_loss": 3')
    assert len(other) == len(data) and other != data
    (came.path / "metrics.jsonl").write_bytes(other + (came.path / "metrics.jsonl").read_bytes()[len(data) :])
    shutil.rmtree(came.folder(20))
    pack(tmp_path / "there", tmp_path / "parcel")
    collect(tmp_path / "parcel", tmp_path / "home")
    assert Run(ours.path).done and Run(ours.path).steps == [0, 10, 30, 40]


def test_a_run_that_is_being_trained_is_not_taken_away(tmp_path, capsys):
    ours = trained(tmp_path / "home", stop_after=15)
    trained(tmp_path / "there")
    pack(tmp_path / "there", tmp_path / "parcel")
    before = contents(tmp_path / "home")
    with ours.writing():
        assert main(["collect", str(tmp_path / "parcel"), "--runs", str(tmp_path / "home")]) == 2
    assert "another process is training" in capsys.readouterr().err
    assert contents(tmp_path / "home") == before


@pytest.mark.parametrize("renames", [1, 2])
def test_a_kill_while_merging_loses_nothing(tmp_path, monkeypatch, renames):
    """The process ends at the first rename, before ours is set aside, or at the second, with nothing in its place."""
    ours = trained(tmp_path / "home", stop_after=15)
    trained(tmp_path / "there")
    pack(tmp_path / "there", tmp_path / "parcel")
    ours_before, rename, count = contents(ours.path), Path.rename, iter(range(1, 10))

    def dies(path, target):
        if next(count) == renames:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dies)
        with pytest.raises(KeyboardInterrupt):
            collect(tmp_path / "parcel", tmp_path / "home")
    put_back(tmp_path / "home")
    assert contents(ours.path) == ours_before
    assert len(collect(tmp_path / "parcel", tmp_path / "home")) == 1
    assert Run(ours.path).done and set(ours.steps) <= set(whole(Run(ours.path)))
    assert not list((tmp_path / "home").glob(".tmp*"))


def test_what_a_kill_left_of_an_old_checkpoint_is_passed_over(tmp_path):
    run = trained(tmp_path / "there")
    (run.folder(10) / "model.safetensors").unlink()
    assert pack(tmp_path / "there", tmp_path / "parcel") == []
    collect(tmp_path / "parcel", tmp_path / "home")
    assert whole(Run(run_folder(tmp_path / "home", config()))) == [0, 20, 30, 40]


def test_a_table_of_times_that_takes_too_long_stops_nothing(tmp_path, monkeypatch):
    """It gets what is left of the budget; the rest of the queue goes on, and its account is written."""

    def slow(command, timeout, **_):
        assert timeout < 11
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr("hopscope.execution.queue.subprocess.run", slow)
    account = work_off(
        tmp_path / "runs", tmp_path / "out", budget=30.0, scale="quick", items=("times",), device="cpu", say=print
    )
    assert account["items"]["times"]["state"].startswith("stopped: it was not done after")
    assert (tmp_path / "out" / "queue.json").is_file()


def test_earlier_steps_come_spread_over_all():
    assert spread([1, 2, 3, 4, 5, 6, 7, 8])[:3] == [5, 3, 7]
    assert sorted(spread(list(range(13)))) == list(range(13))
    assert spread([]) == []


def test_altered_parcels_are_refused_and_nothing_is_left_behind(tmp_path, capsys):
    trained(tmp_path / "there")
    pack(tmp_path / "there", tmp_path / "parcel")
    part = tmp_path / "parcel" / "part-0"
    data = part.read_bytes()
    part.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    assert main(["collect", str(tmp_path / "parcel"), "--runs", str(tmp_path / "home")]) == 2
    assert "part-0 is altered" in capsys.readouterr().err
    part.unlink()
    with pytest.raises(Damaged, match="part-0 is missing"):
        pieces_of(tmp_path / "parcel")
    assert main(["collect", str(tmp_path), "--runs", str(tmp_path / "home")]) == 2
    assert "is no parcel" in capsys.readouterr().err
    assert not list((tmp_path / "home").glob("*")) if (tmp_path / "home").exists() else True


@pytest.mark.parametrize(
    ("name", "kind"), [("../evil", b"0"), ("/etc/evil", b"0"), ("other/evil", b"0"), ("runs/link", b"2")]
)
def test_nothing_is_unpacked_outside_or_linked(tmp_path, name, kind):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd" if kind == b"2" else ""
        tar.addfile(member, io.BytesIO(b""))
    (tmp_path / "in").mkdir()
    with pytest.raises(Damaged, match="which no parcel does"):
        unpack(packed.getvalue(), tmp_path / "in")
    assert not list((tmp_path / "in").iterdir())


def test_the_queue_from_end_to_end_at_small_size(tmp_path, monkeypatch):
    """Smoke test, then every experiment at quick scale; stopped in a run, it goes on where it was, also at home."""
    said, items = [], ("smoke", *EXPERIMENTS)
    where = {"scale": "quick", "items": items, "device": "cpu", "say": said.append}
    broke = work_off(tmp_path / "runs", tmp_path / "out", budget=1.0, **where)
    assert {found["state"] for found in broke["items"].values()} == {"not begun: the budget is spent"}
    asked = iter(range(10_000))  # the clock is looked at before items and runs, and after every step
    clock = SimpleNamespace(monotonic=lambda: 1e9 if next(asked) > 12 else 0.0)
    with monkeypatch.context() as patched:
        patched.setattr("hopscope.execution.queue.time", clock)
        stopped = work_off(tmp_path / "runs", tmp_path / "out", budget=600.0, **{**where, "items": ("fig5",)})
    assert stopped["items"]["fig5"]["state"] == "1 of 1 runs are left"
    [begun] = [Run(path.parent) for path in (tmp_path / "runs").glob("*/config.json")]
    assert 0 < begun.step < begun.config.training.steps
    account = work_off(tmp_path / "runs", tmp_path / "out", budget=600.0, **where)
    assert all(found["state"] == "done" for found in account["items"].values())
    assert account["items"]["smoke"]["greatest_difference"]["float32"] < 1e-4
    assert json.loads((tmp_path / "out" / "queue.json").read_text()) == json.loads(json.dumps(account))
    names = collect(tmp_path / "out", tmp_path / "home")
    assert len(names) == len(list((tmp_path / "runs").glob("*/DONE"))) > 3
    again = [
        "reproduce",
        "fig5",
        "--scale",
        "quick",
        "--runs",
        str(tmp_path / "home"),
        "--results",
        str(tmp_path / "r"),
    ]
    assert main(again) == 0


def test_what_cannot_be_queued_is_refused(tmp_path, capsys):
    assert main(["queue", "--items", "smoke,fig9", "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "r")]) == 2
    assert "fig9" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert main(["queue", "--device", "tpu", "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "r")]) == 2
    assert "device must be" in capsys.readouterr().err and not list(tmp_path.iterdir())
    with pytest.raises(BadInput):
        work_off(tmp_path / "r", tmp_path / "out", scale="large", budget=1, say=print)
    assert ITEMS[2:] == EXPERIMENTS

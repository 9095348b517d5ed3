"""Parcels and the queue: what was packed is what is merged, whatever is altered is refused, nothing of ours is lost."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tarfile
import time
import warnings
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch

from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged, enlist, listed, read_folder, read_manifest, write_folder
from hopscope.experiments.priors import prior_of
from hopscope.experiments.runner import run_folder
from hopscope.models.transformer import Architecture
from hopscope.runs.integrity import check
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import Interrupted, train
from tests.brief_reports import brief_reports  # noqa: F401
from tools.collect import main as collect_main
from tools.collecting import collect, pieces_of, unpack
from tools.full_size import ITEMS, QUEUE, main as full_size_main, wanted, work_off
from tools.parcels import pack, spread, worth

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


def test_weights_of_what_is_done_come_before_the_state_of_what_is_not(tmp_path):
    done, begun = trained(tmp_path / "there", 0), trained(tmp_path / "there", 1, stop_after=20)
    checkpoints = [(run.path, step) for _, run, step in worth(tmp_path / "there") if step is not None]
    assert checkpoints[:2] == [(done.path, 40), (begun.path, begun.step)]


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


def on_another_machine(run):
    """The run as another machine would have logged it: other digits, and everything that vouches for them to match."""
    path = run.path / "metrics.jsonl"
    other = path.read_bytes().replace(b'"val_loss": 1', b'"val_loss": 2').replace(b'"val_loss": 0', b'"val_loss": 3')
    assert other != path.read_bytes()
    path.write_bytes(other)
    for step in run.steps:
        about = read_manifest(run.folder(step))
        files = read_folder(run.folder(step), [f.name for f in run.folder(step).glob("*.safetensors")])
        about["metrics_sha256"] = hashlib.sha256(other[: about["metrics_bytes"]]).hexdigest()
        write_folder(run.folder(step), files, {name: value for name, value in about.items() if name != "files"})
    if run.done:
        run.seal()


def test_a_run_of_another_course_is_refused_until_ours_is_moved_away(tmp_path, capsys):
    """The same configuration begun anew on another machine: it is whole, but not what ours would have become."""
    ours, came = trained(tmp_path / "home", stop_after=35), trained(tmp_path / "there")
    trained(tmp_path / "there", seed=1)
    on_another_machine(came)
    assert pack(tmp_path / "there", tmp_path / "parcel") == []
    before = contents(tmp_path / "home")
    assert collect_main([str(tmp_path / "parcel"), "--runs", str(tmp_path / "home")]) == 2
    said = capsys.readouterr().err
    assert str(ours.path) in said and "do not go on from ours" in said and said.count("\n") == 1
    assert contents(tmp_path / "home") == before
    ours.path.rename(tmp_path / "kept")
    assert len(collect(tmp_path / "parcel", tmp_path / "home")) == 2
    assert Run(ours.path).done and Run(ours.path).rows == came.rows


def test_what_was_found_about_ours_and_our_own_finished_run_stay(tmp_path):
    """A parcel adds to a run of ours; and what is finished is never replaced."""
    ours = trained(tmp_path / "home", stop_after=15)
    (ours.path / "circuit.json").write_text("{}")
    enlist(ours.path, ["circuit.json"])
    trained(tmp_path / "there")
    pack(tmp_path / "there", tmp_path / "parcel")
    assert len(collect(tmp_path / "parcel", tmp_path / "home")) == 1
    assert check(ours.path).state == "whole" and "circuit.json" in listed(ours.path)
    before = contents(tmp_path / "home")
    on_another_machine(Run(run_folder(tmp_path / "there", config())))
    pack(tmp_path / "there", tmp_path / "parcel")
    assert collect(tmp_path / "parcel", tmp_path / "home") == []
    assert contents(tmp_path / "home") == before


def test_what_is_damaged_is_not_packed(tmp_path):
    """It could not be merged, and would keep whatever is packed with it from being merged."""
    whole, without, bad = (trained(tmp_path / "there", seed) for seed in range(3))
    flip(without.folder(20) / "model.safetensors")
    flip(bad.path / "report.json")
    left = pack(tmp_path / "there", tmp_path / "parcel")
    assert f"runs/{without.path.name}/checkpoints/step_00000020/model.safetensors" in left
    assert f"runs/{bad.path.name}/report.json" in left and not any(whole.path.name in name for name in left)
    assert set(collect(tmp_path / "parcel", tmp_path / "home")) == {whole.path.name, without.path.name}
    assert Run(tmp_path / "home" / without.path.name).steps == [0, 10, 30, 40]


# Hostile and damaged parcels --------------------------------------------------------------------------------------


def flip(path):
    """Change a byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def packed_as_it_is(runs, folder):
    """A parcel whose pieces are as `parcel.json` says, whatever is in them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path in sorted(path for path in runs.rglob("*") if path.is_file() and path.name[0] != "."):
            tar.add(path, f"runs/{path.relative_to(runs)}")
    return as_parcel(packed.getvalue(), folder)


def as_parcel(data, folder):
    folder.mkdir(exist_ok=True)
    (folder / "part-0").write_bytes(data)
    (folder / "parcel.json").write_text(json.dumps({"parts": [hashlib.sha256(data).hexdigest()], "left_out": []}))
    return folder


def garbage(run):
    """Much, and of nothing; it says that it is done."""
    shutil.rmtree(run.path / "checkpoints")
    (run.path / "metrics.jsonl").write_bytes(b"garbage\n" * 1000)
    (run.path / "manifest.json").write_text("{}")


def invented(run):
    """Rows that parse, and count up far beyond ours."""
    row = {"train_loss": 0.0, "val_loss": 0.0, "hop_losses": {"x1": 0.0}}
    (run.path / "metrics.jsonl").write_text("".join(json.dumps({"step": i} | row) + "\n" for i in range(1000)))


def cut_rows(run):
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def no_manifest_and_cut_rows(run):
    (run.path / "manifest.json").unlink()
    cut_rows(run)


def another_runs(run):
    other = Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=16), SETTINGS.but(seed=5))
    (run.path / "config.json").write_text(json.dumps({"format": 1, "identity": other.identity, **other.as_dict()}))


def other_weights(run):
    """Of another model, with a manifest to match."""
    about = read_manifest(run.folder(40))
    files = {"model.safetensors": safetensors.torch.save({"W_E": torch.zeros(2, 2)})}
    write_folder(run.folder(40), files, {name: value for name, value in about.items() if name != "files"})
    run.seal()


HOSTILE = {
    "garbage": garbage,
    "invented rows": invented,
    "cut rows": cut_rows,
    "cut rows, no manifest": no_manifest_and_cut_rows,
    "another run's configuration": another_runs,
    "another model's weights": other_weights,
    "a digit of the report": lambda run: flip(run.path / "report.json"),
    "weights": lambda run: flip(run.folder(20) / "model.safetensors"),
    "a checkpoint's manifest": lambda run: (run.folder(20) / "manifest.json").write_text("{}"),
    "its own manifest": lambda run: flip(run.path / "manifest.json"),
    "sessions": lambda run: (run.path / "sessions.jsonl").write_bytes(b"\xff\n"),
    "no configuration": lambda run: (run.path / "config.json").unlink(),
    "no report": lambda run: (run.path / "report.json").unlink(),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Ours, finished and begun; and what came, beside another run."""
    folder = tmp_path_factory.mktemp("made")
    trained(folder / "ours-done")
    trained(folder / "ours-begun", stop_after=15)
    for seed in range(2):
        trained(folder / "there", seed)
    return folder


@pytest.mark.parametrize("how", HOSTILE)
@pytest.mark.parametrize("which", ["done", "begun"])
def test_a_damaged_run_in_a_parcel_is_named_and_ours_are_not_touched(made, tmp_path, capsys, how, which):
    """Even of a parcel that is otherwise whole nothing is merged."""
    ours = Run(run_folder(shutil.copytree(made / f"ours-{which}", tmp_path / "home"), config()))
    came = Run(run_folder(shutil.copytree(made / "there", tmp_path / "there"), config()))
    HOSTILE[how](came)
    packed_as_it_is(tmp_path / "there", tmp_path / "parcel")
    before = contents(tmp_path / "home")
    assert collect_main([str(tmp_path / "parcel"), "--runs", str(tmp_path / "home")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and came.path.name in said and "nothing was merged" in said
    assert contents(tmp_path / "home") == before
    assert check(ours.path).state == ("whole" if which == "done" else "unfinished")


def sparse(size):
    """The header of a GNU sparse file, of this size and of one byte."""
    header = bytearray(tarfile.TarInfo("runs/a-b/metrics.jsonl").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[386:410] = tarfile.itn(size - 1, 12, tarfile.GNU_FORMAT) + tarfile.itn(0, 12, tarfile.GNU_FORMAT)
    header[483:495] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


def long_name(size):
    """A name that is so long."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, size
    return info.tobuf(tarfile.GNU_FORMAT)


def claimed(size, name="runs/a-b/metrics.jsonl"):
    """A file that claims to be so long."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


BOMBS = {
    "sparse": sparse(40 << 30),
    "a file": claimed(40 << 30),
    "less than nothing": claimed(-(40 << 30)),
    "files": b"".join(claimed(0, f"runs/a-{i}/DONE") for i in range(20_000)),
    "a name": long_name(40 << 30),
    "a device": claimed(0).replace(b"\x000\x00", b"\x003\x00", 1),
}


#: What is refused by how much it asks for; the others by their kind, or because no tar is like them.
TOO_MUCH = {"a file", "less than nothing", "files"}


@pytest.mark.parametrize("what", BOMBS)
def test_a_parcel_that_asks_for_too_much_is_refused_unread(tmp_path, capsys, what):
    """Gigabytes from some bytes: a sentence, no memory, no file."""
    as_parcel(gzip.compress(BOMBS[what]), tmp_path / "parcel")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert collect_main([str(tmp_path / "parcel"), "--runs", str(tmp_path / "home")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "parcel" in said
    assert ("more room than any parcel needs" in said) == (what in TOO_MUCH)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200_000  # KiB
    assert not list((tmp_path / "home").glob("*"))


def test_a_run_that_is_being_trained_is_not_taken_away(tmp_path, capsys):
    ours = trained(tmp_path / "home", stop_after=15)
    trained(tmp_path / "there")
    pack(tmp_path / "there", tmp_path / "parcel")
    before = contents(tmp_path / "home")
    with ours.writing():
        assert collect_main([str(tmp_path / "parcel"), "--runs", str(tmp_path / "home")]) == 2
    assert "another process is training" in capsys.readouterr().err
    assert contents(tmp_path / "home") == before


def assert_nothing_is_lost(run, before):
    """Whatever of ours was there still is, and the run goes on: its rows as far as they were saved, its checkpoints."""
    again = Run(run.path)
    assert not check(run.path).faults
    for step in before["steps"]:
        assert torch.equal(again.at(step).W_U, before["weights"][step])
    with warnings.catch_warnings():  # of a finished run's last weights, which came before its end: they cannot go on
        warnings.filterwarnings("ignore", message=r".*optimizer\.safetensors is missing")
        newest = again.newest()
    assert newest is not None and newest.step >= before["steps"][-1]


def state_of(run):
    return {"steps": run.steps, "weights": {step: run.at(step).W_U for step in run.steps}}


CALLS = ("open", "write", "fsync", "replace", "mkdir", "unlink", "rmdir", "close")


def killed_at(index, act):
    """Run something in a child that dies on the spot at its i-th call that writes; whether it did."""
    child = os.fork()
    if child == 0:
        made = itertools.count()

        def watched(real):
            return lambda *args, **kwargs: os._exit(9) if next(made) == index else real(*args, **kwargs)

        for name in CALLS:
            setattr(os, name, watched(getattr(os, name)))
        try:
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("stride", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_every_system_call_of_collect_loses_nothing(tmp_path, stride):
    """Ours is whole at every moment, and goes on; the same command brings the rest."""
    trained(tmp_path / "there")
    pack(tmp_path / "there", tmp_path / "parcel")
    begun = trained(tmp_path / "begun", stop_after=15)
    before, kills = state_of(begun), 0
    for index in itertools.count(0, stride):
        home = shutil.copytree(tmp_path / "begun", tmp_path / f"killed-{index}")
        if not killed_at(index, lambda home=home: collect(tmp_path / "parcel", home)):
            break
        kills += 1
        assert_nothing_is_lost(run := Run(home / begun.path.name), before)
        collect(tmp_path / "parcel", home)
        assert (
            check(run.path).state == "whole" and Run(run.path).done and Run(run.path).steps == [0, 10, 16, 20, 30, 40]
        )
        assert not list(home.glob(".tmp*"))
        shutil.rmtree(home)
    assert kills > 100 // stride


def killed_after(seconds, act):
    """Run something in a child that gets SIGKILL after so long; whether it was still at it."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_kills_of_collect_and_verify_lose_nothing(tmp_path, kills):
    """SIGKILL at random moments: to `collect` of three runs into begun ones, and to `verify --write` of the outcome."""
    for seed in range(3):
        trained(tmp_path / "there", seed)
    begun = [trained(tmp_path / "begun", seed, stop_after=15) for seed in range(3)]
    pack(tmp_path / "there", tmp_path / "parcel")
    before = [state_of(run) for run in begun]
    began = time.monotonic()
    collect(tmp_path / "parcel", shutil.copytree(tmp_path / "begun", tmp_path / "undisturbed"))
    whole, chance = time.monotonic() - began, random.Random(kills)
    for number in range(kills):
        home = shutil.copytree(tmp_path / "begun", tmp_path / f"killed-{number}")
        longest = whole
        while not killed_after(chance.uniform(0, longest), lambda home=home: collect(tmp_path / "parcel", home)):
            shutil.rmtree(home)  # it came too late
            longest, home = longest / 2, shutil.copytree(tmp_path / "begun", home)
        for run, state in zip(begun, before, strict=True):
            assert_nothing_is_lost(Run(home / run.path.name), state)
        collect(tmp_path / "parcel", home)
        assert contents(home).keys() == contents(tmp_path / "undisturbed").keys()
        for run in begun:
            (home / run.path.name / "manifest.json").unlink()
        files = contents(home)
        killed_after(chance.uniform(0, whole / 2), lambda home=home: main(["verify", "--write", str(home), "--json"]))
        assert files.items() <= contents(home).items() and main(["verify", "--write", str(home)]) == 0
        assert {check(home / run.path.name).state for run in begun} == {"whole"}


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

    monkeypatch.setattr("tools.full_size.subprocess.run", slow)
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
    assert collect_main([str(tmp_path / "parcel"), "--runs", str(tmp_path / "home")]) == 2
    assert "part-0 is altered" in capsys.readouterr().err
    part.unlink()
    with pytest.raises(Damaged, match="part-0 is missing"):
        pieces_of(tmp_path / "parcel")
    assert collect_main([str(tmp_path), "--runs", str(tmp_path / "home")]) == 2
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


@pytest.mark.heavy
def test_the_queue_from_end_to_end_at_small_size(tmp_path, monkeypatch):
    """Smoke test, then every experiment at quick scale; stopped in a run, it goes on where it was, also at home."""
    monkeypatch.setattr("tools.full_size.STEPS", 2)  # a step of full size takes a third of a second of one core
    said, items = [], ("smoke", "fig7", "fig5", "fig4")
    where = {"scale": "quick", "items": items, "device": "cpu", "say": said.append}
    broke = work_off(tmp_path / "runs", tmp_path / "out", budget=1.0, **where)
    assert {found["state"] for found in broke["items"].values()} == {"not begun: the budget is spent"}
    asked = iter(range(10_000))  # the clock is looked at before items and runs, and after every step
    clock = SimpleNamespace(monotonic=lambda: 1e9 if next(asked) > 12 else 0.0)
    with monkeypatch.context() as patched:
        patched.setattr("tools.full_size.time", clock)
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
    assert full_size_main(["--items", "smoke,fig9", "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "r")]) == 2
    assert "got 'smoke,fig9' and 'paper'" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert full_size_main(["--items", "", "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "r")]) == 2
    assert "items must be among" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert full_size_main(["--device", "tpu", "--out", str(tmp_path / "out"), "--runs", str(tmp_path / "r")]) == 2
    assert "device must be" in capsys.readouterr().err and not list(tmp_path.iterdir())
    with pytest.raises(BadInput):
        work_off(tmp_path / "r", tmp_path / "out", scale="large", budget=1, say=print)


def test_the_queue_has_the_papers_runs_in_both_orders_and_without_a_prior():
    """Three seeds of Transformer D in each order first, then A, B and C, then figure 4."""
    assert tuple(QUEUE) == ITEMS[2:]
    runs = {item: wanted(item, "paper") for item in QUEUE}
    assert [len(configs) for configs in runs.values()] == [3, 3, 3, 1, 128]
    orders = ["nearest_first", "deepest_first", "nearest_first", "deepest_first", "nearest_first"]
    for configs, order in zip(runs.values(), orders, strict=True):
        assert {config.task.order for config in configs} == {order}
        assert {(config.task.position_base, config.model.init, prior_of(config)) for config in configs} == {
            (10_000.0, "gpt2", "none")
        }
    assert [len({c.training.seed for c in runs[item]}) for item in ("fig7", "fig5")] == [3, 3]

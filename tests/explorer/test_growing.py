"""Runs that train, are stopped, are damaged or lose files while they are explored: each is told in one sentence."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from hopscope import BadInput, Run
from hopscope.circuits.discovery import Discovery, discover
from hopscope.core.storage import Damaged
from hopscope.explorer.building import Builder
from tests.small_runs import trained


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Nobody waits so long that a run counts as stopped."""
    monkeypatch.setattr("hopscope.explorer.part.QUIET", math.inf)


def states(builder: Builder) -> dict[int, str]:
    return {c["step"]: c["state"] for c in builder.parts[0].entry["checkpoints"]}


def told(builder: Builder, step: int) -> str:
    (sentence,) = [c["told"] for c in builder.parts[0].entry["checkpoints"] if c["step"] == step]
    assert "\n" not in sentence
    return sentence


def unfinished(run: Run, last: int) -> Run:
    """As it was when its newest checkpoint was `last`."""
    for name in ("DONE", "report.json", "manifest.json"):
        (run.path / name).unlink()
    for step in run.steps:
        if step > last:
            shutil.rmtree(run.folder(step))
    rows = [row for row in (run.path / "metrics.jsonl").read_text().splitlines() if json.loads(row)["step"] <= last]
    (run.path / "metrics.jsonl").write_text("".join(f"{row}\n" for row in rows))
    return run


def restore(run: Run, once, *steps: int) -> None:
    """Let checkpoints appear, as training writes them."""
    for step in steps:
        shutil.copytree(Run(once).folder(step), run.folder(step))
    shutil.copy(once / "metrics.jsonl", run.path)


def finish(run: Run, once) -> None:
    for name in ("report.json", "manifest.json", "DONE"):
        shutil.copy(once / name, run.path)


def test_a_run_in_training_is_followed_to_its_end(small, once):
    builder = Builder([unfinished(small, 4).path], which="all", dtype="float32")
    builder.build()
    first = builder.bundle.manifest
    assert states(builder) == {0: "ready", 4: "ready"} and not first["progress"]["complete"]
    assert first["runs"][0]["done"] is False and first["runs"][0]["circuit"] is None  # it is still to change
    assert first["runs"][0]["metrics"]["step"][-1] == 4
    assert builder.parts[0].refresh() is False
    restore(small, once, 8, 12)
    assert builder.parts[0].refresh() is True
    assert states(builder) == {0: "ready", 4: "ready", 8: "pending", 12: "pending"}
    builder.build()
    assert states(builder) == dict.fromkeys((0, 4, 8, 12), "ready")
    finish(small, once)
    assert builder.parts[0].refresh() is True
    builder.build()
    last = builder.bundle.manifest
    assert last["revision"] > first["revision"] and last["progress"]["complete"]
    assert last["runs"][0]["done"] and last["runs"][0]["circuit"]["step"] == 12
    assert last["runs"][0]["metrics"]["step"][-1] == 12
    whole = Builder([small.path], which="all", dtype="float32").build().manifest
    assert last["runs"] == whole["runs"] and last["blocks"] == whole["blocks"]  # as of one that was never followed


def test_following_ends_with_the_run(small, once, monkeypatch):
    """`follow` sees what comes, and returns when the run is done."""
    monkeypatch.setattr("hopscope.explorer.building.LOOK", 0.01)
    builder = Builder([unfinished(small, 4).path], which="all", dtype="float32")
    looks = iter([lambda: restore(small, once, 8), lambda: restore(small, once, 12), lambda: finish(small, once)])
    real = builder.parts[0].refresh

    def refresh() -> bool:
        next(looks, lambda: None)()
        return real()

    monkeypatch.setattr(builder.parts[0], "refresh", refresh)
    builder.follow()
    assert states(builder) == dict.fromkeys((0, 4, 8, 12), "ready")
    assert builder.bundle.manifest["progress"]["complete"]


def test_a_run_that_nobody_trains_any_more_gets_its_circuit(small, monkeypatch):
    monkeypatch.setattr("hopscope.explorer.part.QUIET", -1)
    little = discover(small.at(4), small.task, Discovery(discovery=8, selection=8, report=8, alternatives=1))
    monkeypatch.setattr("hopscope.circuits.kept.discover", lambda *_: little)
    builder = Builder([unfinished(small, 4).path], which="all", dtype="float32")
    builder.build()
    (run,) = builder.bundle.manifest["runs"]
    assert run["circuit"]["step"] == 4 and not run["done"] and not builder.parts[0].wants_circuit


def test_a_checkpoint_that_training_thins_out_just_goes(small):
    builder = Builder([unfinished(small, 12).path], which="all", dtype="float32")
    builder.build()
    shutil.rmtree(small.folder(8))
    assert builder.parts[0].refresh() is True
    assert states(builder) == {0: "ready", 4: "ready", 12: "ready"}


def test_a_damaged_checkpoint_is_told_of_and_the_rest_is_there(small):
    weights = small.folder(4) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    builder = Builder([small.path], which="all")
    builder.build()
    assert states(builder) == {0: "ready", 4: "damaged", 8: "ready", 12: "ready"}
    assert "model.safetensors is altered: its sha256 does not match the manifest" in told(builder, 4)
    (entry,) = [c for c in builder.parts[0].entry["checkpoints"] if c["step"] == 4]
    assert not any(entry[name] for name in ("weights", "strengths", "patterns", "reference"))
    assert builder.parts[0].entry["emergence"] is None  # which would need it


def test_damage_is_noticed_although_the_measure_is_kept(small):
    Builder([small.path]).build()
    weights = small.folder(4) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    builder = Builder([small.path])
    builder.build()
    assert states(builder)[4] == "damaged" and "is cut short or grown" in told(builder, 4)


def test_where_the_last_is_damaged_the_page_runs_the_one_before(small):
    (small.folder(12) / "model.safetensors").unlink()
    builder = Builder([small.path], which="last")
    bundle = builder.build()
    assert "model.safetensors is missing, though its folder's manifest lists it" in told(builder, 12)
    assert [name for name in bundle.blocks if name.endswith("/weights")] == [f"{small.config.identity}/8/weights"]
    assert bundle.manifest["runs"][0]["circuit"]["step"] == 8


def test_a_missing_checkpoint_is_told_of(small):
    shutil.rmtree(small.folder(8))
    builder = Builder([small.path], which="all")
    builder.build()
    assert states(builder) == {0: "ready", 4: "ready", 8: "missing", 12: "ready"}
    assert told(builder, 8).startswith("the checkpoint of step 8 is missing, though the manifest of")


def test_a_run_that_goes_away_is_told_of_and_stays_on_show(small, once):
    builder = Builder([unfinished(small, 8).path], which="all", dtype="float32")
    builder.build()
    shutil.rmtree(small.path)
    assert builder.parts[0].refresh() is True
    builder.build()
    (run,) = builder.bundle.manifest["runs"]
    assert "is not a run folder" in run["error"] and "\n" not in run["error"]
    assert len(run["checkpoints"]) == 3 and run["checkpoints"][0]["state"] == "ready"


def test_another_run_in_its_folder_is_told_of(small, tmp_path):
    builder = Builder([unfinished(small, 8).path], which="all", dtype="float32")
    shutil.rmtree(small.path)
    trained(small.path, seed=1)
    assert builder.parts[0].refresh() is True
    assert "holds another run by now" in builder.parts[0].entry["error"]


def test_a_model_whose_losses_are_no_numbers_is_told_of(small, monkeypatch):
    real = Run.at

    def diverged(self, step):
        model = real(self, step)
        if step == 8:
            model.W_U.data.fill_(float("inf"))
        return model

    monkeypatch.setattr(Run, "at", diverged)
    builder = Builder([small.path], which="all")
    builder.build()
    assert states(builder) == {0: "ready", 4: "ready", 8: "damaged", 12: "ready"}
    assert told(builder, 8) == "the losses of this checkpoint are not finite: training has diverged"


def test_a_run_that_cannot_be_read_is_bad_input(small, tmp_path):
    with pytest.raises(BadInput, match="is not a run folder"):
        Builder([tmp_path / "nosuch"])
    (small.path / "config.json").write_text("{}")
    with pytest.raises(BadInput):
        Builder([small.path])


def test_a_table_of_losses_that_is_altered_is_bad_input(small):
    with (small.path / "metrics.jsonl").open("a") as rows:
        rows.write("{}\n")
    with pytest.raises(Damaged, match=r"metrics\.jsonl is cut short or grown"):
        Builder([small.path])

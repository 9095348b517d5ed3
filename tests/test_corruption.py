"""Whatever is altered on disk is found before it is used, and named."""

from __future__ import annotations

import json
import pickle
import random
import re
import shutil
from pathlib import Path

import pytest

from hopscope import BadInput, Run, load
from hopscope.storage import Damaged
from tests.small_runs import config, fingerprint, trained

PACKAGE = Path(__file__).parent.parent / "hopscope"


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A finished run, big enough to have pages of 4 KiB to lose."""
    from hopscope import Architecture, Config, train

    base = config(checkpoints="6")
    wide = Config(base.task, Architecture(n_layers=1, d_model=32), base.training)
    return train(wide, tmp_path_factory.mktemp("original") / "run", threads=1).path


@pytest.fixture
def run(original, tmp_path) -> Run:
    """A copy to damage."""
    return load(shutil.copytree(original, tmp_path / "run"))


def use(run: Run) -> None:
    """Everything that reads the newest checkpoint."""
    run.checkpoint(run.step)
    run.at(run.step)


def found(run: Run, name: str) -> bool:
    """Whether using the newest checkpoint complains of this file (or of its folder's manifest)."""
    try:
        use(run)
    except Damaged as damage:
        return name in str(damage) or "manifest" in str(damage)
    return False


def damage_each(run: Run, how_often: int, alter) -> int:
    """Alter a random file of the newest checkpoint, look, mend it; returns how many alterations were found."""
    files = sorted(run.folder(run.step).iterdir())
    assert {f.name for f in files} == {"model.safetensors", "optimizer.safetensors", "manifest.json"}
    chance = random.Random(0)
    seen = 0
    for _ in range(how_often):
        path = chance.choice(files)
        before = path.read_bytes()
        after = alter(before, chance)
        assert after != before
        path.write_bytes(after)
        seen += found(run, path.name)
        path.write_bytes(before)
    use(run)  # mended, it is whole again
    return seen


def flip(data: bytes, chance: random.Random) -> bytes:
    place, bit = chance.randrange(len(data)), chance.randrange(8)
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def zero_a_page(data: bytes, chance: random.Random) -> bytes:
    pages = [p for p in range(0, len(data), 4096) if any(data[p : p + 4096])]
    page = chance.choice(pages)
    return data[:page] + bytes(len(data[page : page + 4096])) + data[page + 4096 :]


def test_a_thousand_flipped_bits(run):
    assert damage_each(run, 1000, flip) == 1000


def test_a_hundred_truncations(run):
    assert damage_each(run, 100, cut) == 100


def test_a_hundred_zeroed_pages(run):
    assert damage_each(run, 100, zero_a_page) == 100


def test_appended_bytes(run):
    assert damage_each(run, 30, lambda data, chance: data + b"\0") == 30


def test_files_of_another_step(run):
    for name in ("model.safetensors", "optimizer.safetensors"):
        mine = (run.folder(12) / name).read_bytes()
        shutil.copy(run.folder(6) / name, run.folder(12) / name)
        with pytest.raises(Damaged, match=re.escape(name)):
            run.checkpoint(12)
        (run.folder(12) / name).write_bytes(mine)


def test_missing_files(run):
    for name in ("optimizer.safetensors", "model.safetensors", "manifest.json"):
        (run.folder(12) / name).unlink()
        with pytest.raises(Damaged, match=re.escape(name)):
            run.checkpoint(12)


def unfinish(run: Run) -> None:
    for name in ("DONE", "report.json"):
        (run.path / name).unlink()


def test_training_goes_on_from_the_checkpoint_before(tmp_path):
    """The newest is damaged: a warning names it, step 8 is taken, and the end is bit for bit the same."""
    run = trained(tmp_path / "run")
    before = fingerprint(run)
    unfinish(run)
    path = run.folder(12) / "model.safetensors"
    path.write_bytes(flip(path.read_bytes(), random.Random(1)))
    with pytest.warns(UserWarning, match=r"step_00000012.model\.safetensors is altered.*going on from step 8"):
        again = trained(tmp_path / "run")
    assert fingerprint(again) == before


def test_nothing_whole_is_left(tmp_path):
    run = trained(tmp_path / "run")
    unfinish(run)
    for step in run.steps:
        (run.folder(step) / "model.safetensors").write_bytes(b"")
    with pytest.raises(Damaged, match=r"no checkpoint in .* is whole: delete the folder to start anew"):
        trained(tmp_path / "run")


def test_an_altered_configuration(run):
    path = run.path / "config.json"
    stored = json.loads(path.read_text())
    stored["training"]["lr"] = 0.5
    path.write_text(json.dumps(stored))
    with pytest.raises(Damaged, match=r"config\.json is altered"):
        load(run.path)
    path.write_text("{")
    with pytest.raises(Damaged, match="it is no JSON"):
        load(run.path)
    path.write_text('{"format": 99}')
    with pytest.raises(BadInput, match="another format"):
        load(run.path)


def test_rows_that_are_missing(tmp_path):
    """A metrics.jsonl shorter than its checkpoint saw cannot be trusted."""
    run = trained(tmp_path / "run")
    unfinish(run)
    (run.path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(Damaged, match=r"metrics\.jsonl is cut short"):
        trained(tmp_path / "run")


class Bomb:
    """Whoever unpickles this writes a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "boom"))


@pytest.mark.parametrize("name", ["checkpoints/step_00000012/model.safetensors", "config.json", "metrics.jsonl"])
def test_a_pickle_is_never_opened(run, tmp_path, name):
    fuse = tmp_path / "fuse"
    (run.path / name).write_bytes(pickle.dumps(Bomb(fuse)))
    again = Run(run.path)
    with pytest.raises((BadInput, UnicodeDecodeError)):
        _ = again.config, again.at(12), again.rows
    assert not fuse.exists()


def test_the_library_never_unpickles_or_evaluates():
    for path in PACKAGE.rglob("*.py"):
        assert not re.search(
            r"(?<!safetensors\.)torch\.load\(|import pickle|pickle\.|(?<![\w.])(eval|exec)\(", path.read_text()
        ), path

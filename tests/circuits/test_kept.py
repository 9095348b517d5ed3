"""Circuits and emergence are found once: kept by all that they depend on, read to the bit, made anew if damaged."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path as Folder

import numpy
import pytest

from hopscope import load
from hopscope.circuits import kept as circuits
from hopscope.circuits.discovery import Discovery, discover
from hopscope.core.exact import plain, restored
from hopscope.core.storage import Damaged
from hopscope.emergence import kept as emergence
from hopscope.emergence.track import follow
from hopscope.experiments.runner import reproduce
from hopscope.problem.paths import Path
from hopscope.runs.kept import weights
from hopscope.runs.run import SHIPPED, Run
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import trained

RUNS = Folder(__file__).parents[1] / "data" / "runs_0_1"
LITTLE = Discovery(discovery=16, selection=16, report=32)


@pytest.fixture
def demo(tmp_path):
    """A copy of the demo, whose circuit has paths, supplies, alternatives and a log."""
    shutil.copytree(SHIPPED, tmp_path / "demo")
    return Run(tmp_path / "demo")


@pytest.fixture
def solved(tmp_path):
    """A copy of a trained run of one hop, whose circuit is found in no time."""
    shutil.copytree(RUNS / "solved", tmp_path / "run")
    return Run(tmp_path / "run")


@pytest.fixture(scope="module")
def known():
    """The demo's circuit, found once."""
    return discover(load("packaged").model, load("packaged").task, LITTLE)


def untimed(circuit):
    """All of a circuit but for the seconds that its search took."""
    values = asdict(circuit)
    values["protocol"].pop("seconds")
    return values


def never(*_, **__):
    raise AssertionError("it was made again")


def test_a_circuit_is_searched_for_once_and_read_to_the_bit(demo, known, monkeypatch):
    found = circuits.circuit_of(demo, LITTLE)
    assert found.paths and found.supplies and found.log and len(found.losses) >= 4
    assert untimed(found) == untimed(known)
    monkeypatch.setattr(circuits, "discover", never)
    again = circuits.circuit_of(Run(demo.path), LITTLE)
    assert again == found and again.protocol == found.protocol and again.log == found.log
    [folder] = demo.path.parent.glob("circuit-*")
    assert json.loads((folder / "circuit.json").read_text()) == found.as_dict()


def test_a_circuit_s_repr_is_the_same_in_every_process(known):
    """The order of a set of paths, whose names are strings, differs from process to process (PYTHONHASHSEED)."""
    assert known.listed and "set(" not in repr(known)


#: By version of the search: the demo's circuit with little data, its hypotheses and removal losses, and its losses.
GOLDEN = {
    5: (
        "circuit",
        {
            "L0H0 value[1]->key[1]": ("previous position", 0.59),
            "L0H0 value[2]->key[2]": ("previous position", 0.379),
            "L1H0 query->value[1]": ("after the same symbol", 0.881),
            "L2H0 query->value[2]": ("role → value[2]", 0.11),
            "L3H0 query->value[2]": ("role → value[2]", 0.115),
        },
        {"model": 0.0042, "circuit": 0.0023, "live": 0.0067, "rows": 0.0089, "null": 0.9225},
    )
}
GOLDEN.update(dict.fromkeys(range(6, 12), GOLDEN[5]))  # what moved since is seen on other models alone
GOLDEN.update(dict.fromkeys(range(12, 24), (*GOLDEN[5][:2], GOLDEN[5][2] | {"average": 0.004})))


def test_a_search_that_finds_otherwise_has_another_version(known):
    """Else what was kept by the old search would be taken for the new one's: raise `VERSION`, add what it finds."""
    verdict, paths, losses = GOLDEN[circuits.VERSION]
    assert known.verdict == verdict
    assert {str(part.path): part.hypothesis for part in known.paths} == {
        name: what for name, (what, _) in paths.items()
    }
    for part in known.paths:
        assert part.removal_loss == pytest.approx(paths[str(part.path)][1], abs=5e-3)
    assert {name: loss.mean for name, loss in known.losses.items()} == pytest.approx(losses, abs=1e-3)


def test_whatever_a_circuit_depends_on_has_a_search_of_its_own(solved, monkeypatch):
    searched = []
    tell = lambda model, task, settings, watch: searched.append(settings) or discover(model, task, settings)  # noqa: E731
    monkeypatch.setattr(circuits, "discover", tell)
    early = solved.steps[0]
    for settings, step in ((LITTLE, None), (LITTLE.but(seed=1), None), (LITTLE, early), (LITTLE, solved.step)):
        circuits.circuit_of(solved, settings, step=step)
    assert len(searched) == 3  # the newest step is the default
    monkeypatch.setattr(circuits, "VERSION", circuits.VERSION + 1)
    circuits.circuit_of(solved, LITTLE)
    assert len(searched) == 4
    assert len(list(solved.path.parent.glob("circuit-*"))) == 4


def test_other_weights_of_the_same_run_are_another_model(tmp_path):
    """A machine may train a run to other bits under the same identity."""
    run, folder = trained(tmp_path / "run"), tmp_path / "other"
    shutil.copytree(run.path, folder)
    shutil.rmtree(Run(folder).folder(run.step))
    shutil.copytree(run.folder(0), Run(folder).folder(run.step))
    assert weights(run, [0, run.step])["0"] == weights(Run(folder), [run.step])[str(run.step)]
    assert weights(run, [run.step]) != weights(Run(folder), [run.step])


@pytest.mark.parametrize("file", ["exact.json", "hypotheses.jsonl", "manifest.json"])
def test_a_damaged_one_is_made_anew_and_says_so(tmp_path, file):
    run = trained(tmp_path / "run")
    found = circuits.circuit_of(run, LITTLE)
    [folder] = tmp_path.glob("circuit-*")
    data = bytearray((folder / file).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / file).write_bytes(data)
    with pytest.warns(UserWarning, match=rf"{file} is .*it is made anew"):
        assert untimed(circuits.circuit_of(run, LITTLE)) == untimed(found)
    assert untimed(circuits.circuit_of(run, LITTLE)) == untimed(found)  # without a warning


def test_nothing_is_kept_of_the_shipped_demo_or_where_nothing_can_be(known, tmp_path, monkeypatch):
    before = sorted(SHIPPED.parent.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(circuits, "discover", lambda *_: known)
        assert circuits.circuit_of(load("packaged"), LITTLE) is known
    assert sorted(SHIPPED.parent.iterdir()) == before
    run = trained(tmp_path / "run")
    monkeypatch.setattr("hopscope.core.storage.write_synced", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.warns(UserWarning, match="full; .*; what was found out is not kept"):
        assert circuits.circuit_of(run, LITTLE).log
    assert not list(tmp_path.glob("circuit-*"))


def test_emergence_is_measured_once_and_read_to_the_bit(demo, monkeypatch):
    paths = [Path.parse("L0H0 value[1]->key[1]"), Path.parse("L1H0 query->value[1]")]
    measured = follow(demo, paths, n=16)
    found = emergence.emergence_of(demo, paths, n=16)
    monkeypatch.setattr(emergence, "follow", never)
    again = emergence.emergence_of(Run(demo.path), paths, n=16)
    for one in (found, again):
        assert one.as_dict() == measured.as_dict() and one.protocol == measured.protocol
        assert one.table().equals(measured.table()) and one.hops.equals(measured.hops)
        for mine, its in zip(one.paths, measured.paths, strict=True):
            assert mine.onset == its.onset and mine.change == its.change and mine.learnt == its.learnt
            assert numpy.array_equal(mine.strength, its.strength) and numpy.array_equal(mine.cost.low, its.cost.low)
            assert mine.cost.causal == its.cost.causal and mine.cost.by_hop == its.cost.by_hop
    with pytest.raises(AssertionError, match="made again"):
        emergence.emergence_of(demo, paths[:1], n=16)
    with pytest.raises(AssertionError, match="made again"):
        emergence.emergence_of(demo, paths, n=32)


def test_experiments_share_what_one_of_them_found(tmp_path, monkeypatch):
    """`fig7` searches and measures; `appendix_d` and `reuse` read, and `fig7` again makes the same table."""
    where = {"runs": tmp_path / "runs", "results": tmp_path / "results", "threads": 1}
    first = reproduce("fig7", "quick", **where).results / "table.csv"
    before = first.read_bytes()
    monkeypatch.setattr(circuits, "discover", never)
    monkeypatch.setattr(emergence, "follow", never)
    for name in ("appendix_d", "reuse", "fig7"):
        assert reproduce(name, "quick", **where).done
    assert first.read_bytes() == before


# To the bit ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    values: tuple[float, ...]
    name: str | None


@dataclass(frozen=True)
class Outer:
    inner: dict[str, Inner]
    either: Inner | Path
    paths: tuple[frozenset[Path], ...]
    number: float | None
    found: list[dict[str, int]]
    whole: bool


def test_values_come_back_as_they_were():
    path = Path(0, 1, "query", "value[1]", "other")
    inner = Inner((0.1 + 0.2, math.inf, -0.0, 1e-300, numpy.float64(1 / 3)), None)
    value = Outer({"a": inner}, path, (frozenset([path, Path(1, 0, "a", "b")]), frozenset()), None, [{"x": 1}], True)
    stored = json.loads(json.dumps(plain(value), allow_nan=False))
    again = restored(Outer, stored)
    assert again == value and type(again.either) is Path
    assert math.copysign(1, again.inner["a"].values[2]) == -1
    assert math.isnan(restored(Inner, json.loads(json.dumps(plain(Inner((math.nan,), "x"))))).values[0])
    assert plain(value) == plain(again)  # sets in a fixed order


@pytest.mark.parametrize("change", [{"values": 3}, {"values": ["x"]}, {}], ids=str)
def test_what_is_no_such_value_is_damaged(change):
    values = {"values": [1.0], "name": None} | change
    with pytest.raises(Damaged, match="not of the type Inner"):
        restored(Inner, values if change else {"values": [1.0]})

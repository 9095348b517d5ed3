"""Nothing that grows disowns what was trained before: old identities are today's, and old runs load, resume, answer.

`data/identities.json` holds identities as version 0.1.0 computed them, and those of the paper's presets, which were set
to the letter later. `data/runs_0_1` holds small runs that it
trained, with what it said of them in `expected.json`.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from hopscope import Architecture, Config, Training, load, train
from hopscope.cli import hopscope as command_line
from hopscope.configuration.presets import RECIPES
from hopscope.core import catalogue
from hopscope.core.settings import Settings, setting
from hopscope.drawing.run_pictures import draw
from hopscope.runs.run import SHIPPED
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval
from tests.pictures import drawn_once  # noqa: F401

DATA = Path(__file__).parent / "data"
GOLDEN = json.loads((DATA / "identities.json").read_text())
EXPECTED = json.loads((DATA / "runs_0_1" / "expected.json").read_text())


@pytest.mark.parametrize("name", GOLDEN)
def test_identities_are_those_of_old(name):
    assert Config.from_dict(GOLDEN[name]["config"]).identity == GOLDEN[name]["identity"]


#: Defaults of version 0.1 that have changed since (CHANGELOG).
FORMER_TASK = {"order": "nearest_first", "position_base": 100.0}
FORMER_MODEL = {"init": "early_layers", "positions": None, "mlp": True}


def by_default(name: str) -> Config | None:
    """The configuration that the name stands for, made anew from today's defaults, but for those that have changed."""
    kind, _, which = name.partition(" ")

    def task(name: str, **given) -> Task:
        found = catalogue.find("tasks", name)
        return found(**{n: v for n, v in FORMER_TASK.items() if n in found.__dataclass_fields__}, **given)

    former = Architecture(**FORMER_MODEL)
    makers = {
        "task": lambda: Config(task(which), former),
        "attention": lambda: Config(task("retrieval"), former.but(attention=which)),
        "curriculum": lambda: Config(task("retrieval", curriculum=which), former),
        "preset": lambda: RECIPES[which].config(),
    }
    return makers[kind]() if kind in makers else None


@pytest.mark.parametrize("name", [name for name in GOLDEN if by_default(name)])
def test_defaults_have_changed_only_where_it_is_said(name):
    assert by_default(name).identity == GOLDEN[name]["identity"]


def test_what_was_written_down_before_a_setting_existed_means_what_it_meant():
    """Version 0.1 wrote no `positions`: its vectors carried them, whatever the default is today."""
    config = Config.from_dict(GOLDEN["the shipped demo"]["config"])
    assert config.model.positions is None and Architecture().positions == "learned"
    assert "W_pos" not in dict(config.model.build(config.task).named_parameters())


def test_a_setting_added_later_is_in_no_identity_until_it_is_used():
    @dataclasses.dataclass(frozen=True)
    class Before(Settings):
        width: int = setting(3, "a width")

    @dataclasses.dataclass(frozen=True)
    class After(Settings):
        width: int = setting(3, "a width")
        twist: float = setting(0.5, "a twist", since="9.9")

    assert After().identifying() == Before().identifying() == {"width": 3}
    assert After(twist=0.75).identifying() == {"width": 3, "twist": 0.75}
    assert After.from_dict(Before(width=4).as_dict()) == After(width=4)
    assert After().as_dict() == {"width": 3, "twist": 0.5}


@pytest.mark.parametrize("part", ["task", "model", "training"])
def test_a_grown_part_of_a_configuration_keeps_its_runs(part, monkeypatch):
    """One new field in a task, in `Architecture` or in `Training`: the shipped demo is the run that it was."""
    config = load(SHIPPED).config
    old = config.parts[part]
    fields = [("twist", float, setting(0.5, "a twist", since="9.9"))]
    grown = dataclasses.make_dataclass("Grown", fields, bases=(type(old),), frozen=True, kw_only=True)
    grown.__module__ = type(old).__module__
    same = dataclasses.replace(config, **{part: grown(**old.as_dict())})
    other = dataclasses.replace(config, **{part: grown(**old.as_dict(), twist=1.0)})
    assert same.identity == config.identity != other.identity


def test_renamed_variants_keep_their_names_on_disk(monkeypatch, tmp_path):
    """`softmax`, had it once been `plain`, and `retrieval`, had it once been `recall`."""
    before = Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=8), Training(steps=0))
    monkeypatch.setattr(
        catalogue, "RENAMED", {"tasks": {"retrieval": "recall"}, "models.attention": {"softmax": "plain"}}
    )
    stored = before.as_dict()
    assert stored["task"]["name"] == "recall" and stored["model"]["attention"] == "plain"
    assert Config.from_dict(stored).as_dict() == stored
    assert Config.from_dict(stored).model.attention == "softmax"
    assert catalogue.find("tasks", "recall") is catalogue.find("tasks", "retrieval") is Retrieval
    run = train(before, tmp_path / "run", threads=1, compile="off")
    assert json.loads((run.path / "config.json").read_text())["task"]["name"] == "recall"
    assert load(run.path).config.as_dict() == stored


# Runs of version 0.1.0 -------------------------------------------------------------------------------------------


@pytest.fixture(params=EXPECTED)
def old(request, tmp_path):
    """A run of old in a place where it may be written to, and what was said of it."""
    shutil.copytree(DATA / "runs_0_1" / request.param, tmp_path / request.param)
    return tmp_path / request.param, EXPECTED[request.param]


def test_old_runs_load(old):
    folder, expected = old
    run = load(folder)
    batch = run.task.sample(32, 7)
    with torch.no_grad():
        loss = run.task.loss(run.model(batch.inputs, at=run.task.query_positions), batch.targets)
    assert (run.config.identity, run.step) == (expected["identity"], expected["step"])
    assert float(loss) == pytest.approx(expected["loss_of_32"], rel=1e-4)


def test_old_runs_are_drawn(old):
    folder, _ = old
    assert len(list(draw(load(folder), folder / "pictures"))) >= 3


@pytest.mark.filterwarnings("ignore:this run was begun with other")
def test_old_runs_resume(old):
    """To the end at which version 0.1.0 came; to the bit only on the machine that it ran on."""
    folder, expected = old
    run = train(load(folder).config, folder, threads=1, compile="off")
    assert run.done and run.step == expected.get("end", expected["step"])
    assert run.report["loss"] == pytest.approx(expected["report_loss"], rel=1e-3)


def test_an_old_run_gives_its_circuit(tmp_path):
    shutil.copytree(DATA / "runs_0_1" / "solved", tmp_path / "run")
    said = CliRunner().invoke(command_line, ["circuit", str(tmp_path / "run"), "--json"], catch_exceptions=False)
    found = json.loads(said.stdout)
    paths = [{name: path[name] for name in ("layer", "head", "query", "key", "chain")} for path in found["paths"]]
    assert (found["verdict"], paths) == (EXPECTED["solved"]["verdict"], EXPECTED["solved"]["paths"])

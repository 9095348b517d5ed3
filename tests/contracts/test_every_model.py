"""Every model, found by its file: seeded, readable, replaceable, trained, resumed, drawn and searched for circuits.

`TinyMixer` here is no Transformer. It stands for whatever somebody adds, and has attention under the common names.
"""

from __future__ import annotations

import dataclasses
import functools
import sys

import pytest
import torch
from torch import Tensor, nn

from hopscope import BadInput, Config, Training, load, train
from hopscope.circuits.discovery import Discovery, discover
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.drawing.run_pictures import draw
from hopscope.interventions.clamps import parse_clamps, replacements
from hopscope.measures.base import observe, unmet
from hopscope.models.base import Cache, Model, Shape, passes
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import Interrupted
from tests.small_runs import fingerprint


@dataclasses.dataclass(frozen=True)
class TinyMixer(Shape):
    """One layer of two heads and an output, without norms, biases or MLP."""

    width: int = setting(8, "numbers per position", low=2)
    n_layers = 1
    n_heads = 2

    @classmethod
    def name(cls) -> str:
        return "tiny_mixer"

    @property
    def d_model(self) -> int:  # type: ignore[override]
        return self.width

    def build(self, task: Task, generator: torch.Generator | None = None) -> Model:
        return Mixer(self, task, generator)


class Mixer(Model):
    def __init__(self, shape: TinyMixer, task: Task, random: torch.Generator | None):
        super().__init__()
        self.architecture = shape
        width, ins = shape.width, task.d_input or task.d_vocab

        def drawn(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(size) if random is None else 0.3 * torch.randn(size, generator=random))

        self.read, self.write = drawn(ins, width), drawn(width, task.d_output)
        self.ask, self.offer = drawn(2, width, width), drawn(2, width, width)
        self.features = task.d_input is not None

    @property
    def activation_names(self) -> list[str]:
        return ["blocks.0.hook_resid_pre", "blocks.0.attn.hook_pattern", "blocks.0.hook_resid_post"]

    def forward(self, inputs: Tensor, *, replace=None, cache=False, at=None):
        tap = self.tap(replace, cache) if replace or cache is not False else None
        x = passes(tap, "blocks.0.hook_resid_pre", inputs @ self.read if self.features else self.read[inputs])
        scores = torch.einsum("bqd,hde,bke->bhqk", x, self.ask, x)
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        pattern = passes(tap, "blocks.0.attn.hook_pattern", scores.softmax(-1))
        x = x + torch.einsum("bhqk,bkd,hde->bqe", pattern, x, self.offer)
        x = passes(tap, "blocks.0.hook_resid_post", x)
        outputs = (x if at is None else x[:, at]) @ self.write
        return outputs if cache is False else (outputs, Cache(tap.kept))


NAMES = catalogue.names("models")
SHAPES: dict[str, Shape] = {name: catalogue.find("models", name)() for name in NAMES}
SHAPES["tiny_mixer"] = TinyMixer()


@pytest.fixture(params=SHAPES)
def shape(request, monkeypatch) -> Shape:
    """Every model's default shape; the one made here is found as if it were a file."""
    found = catalogue.find

    def with_ours(folder: str, name: str):
        return TinyMixer if (folder, name) == ("models", "tiny_mixer") else found(folder, name)

    monkeypatch.setattr(catalogue, "find", with_ours)
    return SHAPES[request.param]


@functools.cache
def tasks_of(shape: Shape) -> list[Task]:
    """Every task that the model can be built for, tried once."""
    tasks = [catalogue.find("tasks", name)() for name in catalogue.names("tasks")]
    return [task for task in tasks if builds(shape, task)]


def builds(shape: Shape, task: Task) -> bool:
    try:
        shape.build(task)
    except BadInput:
        return False
    return True


def config(shape: Shape, **training) -> Config:
    recipe = {"steps": 8, "batch": 4, "val_size": 4, "log_every": 2, "checkpoints": "4", **training}
    small = [task.but(n_chains=2) if isinstance(task, Retrieval) else task for task in tasks_of(shape)]
    several = [task for task in small if task.n_positions > 1]  # there is something to attend to
    return Config(next((t for t in several if isinstance(t, Retrieval)), several[0]), shape, Training(**recipe))


def test_it_fits_some_task(shape):
    assert tasks_of(shape)


def test_equal_seeds_give_equal_weights_and_others_others(shape):
    """But for a model that draws nothing, whose weights are the same for all."""
    task = tasks_of(shape)[0]
    first, again, other = (list(shape.build(task, generator(s, "init")).state_dict().values()) for s in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    shape.build(task, used := generator(0, "init"))
    draws = not torch.equal(used.get_state(), generator(0, "init").get_state())
    assert draws != all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_outputs_have_the_tasks_shape_wherever_they_are_read_off(shape):
    for task in tasks_of(shape):
        model, batch = shape.build(task, generator(0, "init")), task.sample(3)
        outputs = model(batch.inputs)
        assert outputs.shape == (3, task.n_positions, task.d_output)
        assert torch.allclose(model(batch.inputs, at=task.query_positions), outputs[:, task.query_positions], atol=1e-5)
        assert model.n_parameters > 0 and model.architecture == shape


def test_reading_changes_nothing_and_replacing_by_itself_neither(shape):
    task = tasks_of(shape)[0]
    model, inputs = shape.build(task, generator(0, "init")), task.sample(3).inputs
    outputs, cache = model(inputs, cache=True)
    assert list(cache) == model.activation_names
    assert torch.equal(outputs, model(inputs))
    for name in model.activation_names:
        assert torch.allclose(model(inputs, replace={name: cache[name]}), outputs, atol=1e-5), name
        assert torch.allclose(model(inputs, replace={name: lambda actual: actual}), outputs, atol=1e-5), name
        assert list(model(inputs, cache=[name])[1]) == [name]


def test_what_is_replaced_is_what_is_read_and_matters(shape):
    task, random = tasks_of(shape)[0], generator(0, "test")
    model, inputs = shape.build(task, generator(0, "init")), task.sample(3).inputs
    with torch.no_grad():
        for parameter in model.parameters():  # some start where nothing matters, at 0
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=random))
    outputs, cache = model(inputs, cache=True)
    doubled = {n: model(inputs, replace={n: 2 * cache[n]}) for n in model.activation_names}
    moved = [name for name, other in doubled.items() if not torch.allclose(other, outputs, atol=0)]
    assert moved
    for name in moved:
        other = model(inputs, replace={name: 2 * cache[name]}, cache=[name])[1][name]
        assert torch.allclose(other, 2 * cache[name])


def test_a_name_that_is_not_there_is_refused(shape):
    task = tasks_of(shape)[0]
    with pytest.raises(BadInput, match="there is no activation 'nosuch'"):
        shape.build(task, generator(0, "init"))(task.sample(1).inputs, cache=["nosuch"])


def test_patterns_are_where_everybody_looks_for_them(shape):
    """Of every layer, with one row per position and head that sums to 1 where the shape says so."""
    task = tasks_of(shape)[0]
    model, batch = shape.build(task, generator(0, "init")), task.sample(3)
    seen = observe(model, batch)
    assert len(seen.patterns()) == shape.n_layers * shape.n_heads
    for _, pattern in seen.patterns():
        assert pattern.shape == (3, task.n_positions, task.n_positions)
        assert not shape.normalised or torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)
        assert not shape.causal or (pattern.triu(1) == 0).all()
    for name in catalogue.names("measures"):
        assert unmet(name, task, shape) or catalogue.find("measures", name)(seen)


def test_it_trains_resumes_loads_and_is_drawn(shape, tmp_path):
    whole = train(config(shape), tmp_path / "whole", threads=1, compile="off")
    stops = iter([False] * 4 + [True])
    with pytest.raises(Interrupted):
        train(config(shape), tmp_path / "halves", threads=1, compile="off", should_stop=lambda: next(stops))
    halves = train(config(shape), tmp_path / "halves", threads=1, compile="off")
    assert fingerprint(halves) == fingerprint(whole)
    back = load(whole.path)
    assert back.config.identity == whole.config.identity and back.config.model.name() == shape.name()
    assert draw(back, tmp_path / "pictures")
    assert back.summary()["parameters"] == back.model.n_parameters


def test_its_paths_are_clamped(shape):
    """A head held ideal attends to its target alone; models without heads have nothing to clamp."""
    of = config(shape)
    if not shape.n_heads or not isinstance(of.task, Retrieval):
        return
    batch = of.task.sample(3)
    clamps = parse_clamps("L0H0 value[1]->key[1] ideal@0")
    model = shape.build(of.task, generator(0, "init"))
    _, cache = model(batch.inputs, replace=replacements(clamps, batch, shape), cache=["blocks.0.attn.hook_pattern"])
    pattern, pairs = cache["pattern", 0][:, 0], batch.roles.pairs("value[1]", "key[1]", "same")
    assert torch.equal(pattern[pairs.any(-1)], pairs[pairs.any(-1)].float())


def test_its_circuit_is_searched(shape):
    """An untrained model has none; that the search comes to an end and says so is what is asked here."""
    of = config(shape)
    if not shape.n_heads:
        return
    few = Discovery(discovery=32, selection=32, report=64)
    found = discover(of.model.build(of.task, generator(0, "init")), of.task, few)
    assert found.verdict == "none"


def test_the_file_says_where_it_comes_from(shape):
    assert (sys.modules[type(shape).__module__].__doc__ or "").strip()

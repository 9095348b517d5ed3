"""Training in the page against PyTorch: gradients of every parameter, AdamW, and a course of updates."""

from __future__ import annotations

import base64
import copy
import io
import itertools
import json
import tarfile
from dataclasses import replace
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

import hopscope
from hopscope import Architecture
from hopscope.cli import main
from hopscope.explorer.describing import task_entry
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Batch
from hopscope.tasks.retrieval import Retrieval
from tests.explorer.node_engine import answers, ask, case, coded, need_node, printed, sequences, shape

PRIOR = "relative(start='L0 1:4')"
#: Every option that the page offers: hops, layers, position code, curriculum.
OPTIONS = list(itertools.product((1, 2, 3), (1, 2, 3, 4), (PRIOR, "learned"), ("implicit", "none")))


@pytest.fixture(autouse=True)
def own_cache():
    """Node in place of a cache: nothing here explores a run."""
    need_node()


def posed(hops: int, layers: int, positions: str, curriculum: str, width: int = 24) -> tuple[Retrieval, Transformer]:
    """A task, and a model whose every parameter is drawn, so that no gradient is overlooked."""
    task = Retrieval(n_hops=hops, curriculum=curriculum)
    random = torch.Generator().manual_seed(layers)
    model = Architecture(n_layers=layers, d_model=width, init="early_layers", positions=positions).build(task, random)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.rpartition(".")[2].startswith("W_"):
                parameter.add_((0.03 if "beta" in name else 0.3) * torch.randn(parameter.shape, generator=random))
            elif "W_QKV" in name:
                parameter.mul_(2)
    return task, model


def learnt(*cases: tuple[Transformer, list[Batch]]) -> list[dict[str, Any]]:
    """What the page makes of models and batches."""
    return printed(
        "learning",
        [
            {
                "shape": shape(model, batches[0]),
                "weights": {name: coded(value) for name, value in model.state_dict().items()},
                "batches": [sequences(batch) for batch in batches],
                "hops": len(batches[0].task.hop_names),
            }
            for model, batches in cases
        ],
    )


def tensors(found: dict[str, str], like: Transformer) -> dict[str, Tensor]:
    """Parameters that the page wrote."""
    values = {name: numpy.frombuffer(base64.b64decode(text), numpy.float32).copy() for name, text in found.items()}
    return {name: torch.from_numpy(values[name]).view(one.shape) for name, one in like.named_parameters()}


def loss_of(model: Transformer, batch: Batch) -> Tensor:
    task = batch.task
    return task.loss(model(batch.inputs.to(model.W_U.dtype), at=task.query_positions), batch.targets)


def far(found: Tensor, wanted: Tensor) -> float:
    """The largest difference as a share of the largest number."""
    return float((found - wanted).abs().max() / wanted.abs().max())


def test_every_parameters_gradient_is_pytorchs_for_every_option():
    """PyTorch's in float64: what differs is the page's own rounding."""
    cases = [(model, [task.sample(5, 1)]) for task, model in (posed(*one) for one in OPTIONS)]
    cases += [(model, [task.sample(7, 1)]) for task, model in (posed(2, 3, PRIOR, "implicit", 64),)]
    for (model, [batch]), found in zip(cases, learnt(*cases), strict=True):
        loss_of(exact := copy.deepcopy(model).double(), batch).backward()
        gradients = tensors(found["gradient"], model)
        assert found["gradient"].keys() == dict(model.named_parameters()).keys()
        for name, parameter in exact.named_parameters():
            assert far(gradients[name], parameter.grad) < 1e-4, (name, batch.task, len(model.blocks))


@pytest.mark.parametrize("positions", [PRIOR, "learned"])
def test_updates_are_adamws(positions):
    """One update from the page's own gradients, and the losses of a course of 100, within what rounding adds up to."""
    task = Retrieval()
    generator = torch.Generator().manual_seed(0)
    model = Architecture(n_layers=3, d_model=64, init="early_layers", positions=positions).build(task, generator)
    once = copy.deepcopy(model)
    batches = [task.sample(8, number) for number in range(100)]
    one, course = learnt((model, batches[:1]), (model, batches))
    gradients, after = tensors(one["gradient"], once), tensors(one["weights"], once)
    for name, parameter in once.named_parameters():
        parameter.grad = gradients[name]
    torch.optim.AdamW(once.parameters(), lr=1e-3, weight_decay=0.1).step()
    for name, parameter in once.named_parameters():
        torch.testing.assert_close(after[name], parameter.detach(), rtol=1e-5, atol=1e-7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    for losses, batch in zip(course["losses"], batches, strict=True):
        loss = loss_of(model, batch)
        assert numpy.mean(losses) == pytest.approx(loss.item(), rel=1e-3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def lesson(hops: int = 2, layers: int = 3, prior: bool = True, curriculum: str = "implicit", seed: int = 0) -> dict:
    """The page's knobs."""
    return {"hops": hops, "layers": layers, "prior": prior, "curriculum": curriculum, "seed": seed}


def taught(*cases: tuple[dict, list[int]]) -> list[dict[str, Any]]:
    """What the page makes of lessons, trained to some steps in turn."""
    return printed("learning", [{"lesson": knobs, "steps": steps} for knobs, steps in cases])


def test_a_lesson_is_a_run_as_python_describes_one():
    cases = [lesson(), lesson(3, 4), lesson(1, 2, prior=False), lesson(2, 1, curriculum="none")]
    for knobs, found in zip(cases, taught(*((knobs, [0]) for knobs in cases)), strict=True):
        prior, hops = knobs["prior"], knobs["hops"]
        task = Retrieval(n_hops=hops, curriculum=knobs["curriculum"], position_base=100.0 if prior else 10_000.0)
        width = 128 if hops > 2 else 64
        shape = Architecture(knobs["layers"], d_model=width, positions=PRIOR if prior else "learned")
        run = found["run"]
        described = json.loads(json.dumps(task_entry(task, shape)))
        zero, mean = described["baselines"]["predict zero"], described["baselines"]["right step, no chain followed"]
        said = {"baselines": {"answer zero": zero, "mean of four": mean}, "learnt_below": 0.2, "solved_below": 0.2}
        assert run["task"] == described | said  # in the lesson's words, and with its one threshold
        assert run["batch"]["roles"] == list(task.sample(1).searched.names)
        model = shape.build(task, torch.Generator().manual_seed(0))
        assert {one["name"]: one["shape"] for one in run["model"]["tensors"]} == {
            name: list(value.shape) for name, value in model.state_dict().items()
        }
        assert run["model"]["parameters"] == model.n_parameters
        drawn = replace(model.architecture, init="early_layers" if prior else "gpt2").build(
            task, torch.Generator().manual_seed(1)
        )
        for name, value in tensors(found["weights"], model).items():
            spread = float(dict(drawn.named_parameters())[name].detach().std())
            assert float(value.std()) == pytest.approx(spread, rel=0.3, abs=1e-9), name


def test_equal_lessons_give_equal_models_however_they_are_cut():
    one, other, another = taught((lesson(), [7]), (lesson(), [2, 3, 7]), (lesson(seed=1), [7]))
    assert one["weights"] == other["weights"] != another["weights"]


@pytest.mark.parametrize("knobs", [lesson(), lesson(1, 2, prior=False, curriculum="none", seed=7)], ids=str)
def test_what_is_saved_is_a_whole_run_that_computes_the_same(knobs, tmp_path):
    [found] = taught((knobs, [5]))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(found["tar"]))) as packed:
        packed.extractall(tmp_path, filter="data")
    folder = tmp_path / found["name"].removesuffix(".tar")
    run = hopscope.load(folder)
    assert (run.done, run.verified, run.steps, run.config.training.seed) == (True, True, [5], knobs["seed"])
    assert folder.name == f"page-{run.config.identity}"
    assert main(["verify", str(folder)]) == 0
    batch = run.task.sample(8, 0)
    [[answer]] = answers(case(run.model, batch, [ask(rows=range(8))]))
    wanted = run.model(batch.inputs, at=run.task.query_positions).flatten(1).detach()
    for name, value in tensors(found["weights"], run.model).items():
        assert torch.equal(value, dict(run.model.named_parameters())[name]), name
    for look, outputs in zip(answer["looks"], wanted.tolist(), strict=True):
        assert look["outputs"] == pytest.approx(outputs, abs=1e-5)


def test_untrained_streams_hold_their_own_symbols():
    """The embedding is linear in the symbol, and knows of no other: those are named by chance, one of four."""
    [found] = taught((lesson(), [0]))
    own = {"query": 0, "key[1]": 0, "value[1]": 1, "key[2]": 1, "value[2]": 2}
    for cell in (cell for cell in found["cells"] if cell["layer"] == 0):
        is_own = own[cell["role"]] == cell["hop"]
        assert cell["accuracy"] > 0.99 if is_own else cell["accuracy"] == pytest.approx(1 / 4, abs=0.1)


@pytest.mark.heavy
def test_two_hops_are_learnt_in_seconds_and_one_layer_cannot():
    learns, fails = taught((lesson(), [200]), (lesson(layers=1), [200]))
    assert max(learns["losses"][-1]) < 0.2
    assert min(fails["losses"][-1]) > 0.6


@pytest.mark.heavy
def test_without_a_prior_a_plateau_waits_and_then_falls():
    [found] = taught((lesson(layers=4, prior=False), [650]))
    assert min(found["losses"][300]) > 0.7
    assert found["losses"][-1][0] < 0.2

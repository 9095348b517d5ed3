"""What the server computes under changes, against circuits' own changes, clamps, and plain reading-off."""

from __future__ import annotations

import json
from pathlib import Path as Folder

import pytest
import torch

from hopscope import BadInput, Config, Training, load, train
from hopscope.circuits.evaluator import AsIs, Evaluator, Hard, Silenced
from hopscope.core import catalogue
from hopscope.explorer.building import Builder
from hopscope.explorer.bundle import SIZES
from hopscope.explorer.computing import Ask, Computer, Edited
from hopscope.explorer.sequences import Sequences
from hopscope.interventions.clamps import Clamp, replacements
from hopscope.models.transformer import Architecture
from hopscope.problem.paths import Path

FIRST, SECOND = Path.parse("L1H0 query->value[1]"), Path.parse("L2H0 query->value[2]")
CIRCUIT = {
    "paths": [
        {**Path.parse(name).as_dict(), "strength": strength}
        for name, strength in (
            ("L0H0 value[1]->key[1]", 0.99),
            ("L0H0 value[2]->key[2]", 0.98),
            ("L1H0 query->value[1]", 0.97),
            ("L2H0 query->value[2]", 0.96),
        )
    ]
}


@pytest.fixture(scope="module")
def computer() -> Computer:
    """The demo's last model."""
    run = load("packaged")
    seen = Sequences.of(run)
    return Computer(seen.batch, seen.paths, run.at)


@pytest.fixture(scope="module")
def evaluator(computer) -> Evaluator:
    return Evaluator(computer.model(1000), computer.batch.rows(slice(0, 64)))


def asked(computer: Computer, **values: list[str]):
    return computer.answer(Ask.parse({"step": ["1000"], "n": ["64"], **values}), CIRCUIT)


def same(answer, evaluator: Evaluator, change) -> None:
    """The loss with its interval and the partial losses are those of the evaluator."""
    (account,), loss = evaluator.accounts([change]), evaluator.loss(change)
    assert (answer["loss"], answer["low"], answer["high"], answer["n"]) == pytest.approx(
        (loss.mean, loss.low, loss.high, 64), rel=1e-6
    )
    assert answer["hop_losses"] == pytest.approx(account.hop_losses, rel=1e-6)


def test_without_a_change_it_is_the_model(computer, evaluator):
    answer = asked(computer)
    same(answer, evaluator, AsIs())
    right = computer.batch.task.correct(evaluator.outputs([AsIs()])[0], evaluator.batch).float().mean(0)
    assert list(answer["accuracy"].values()) == pytest.approx(right.tolist())


@pytest.mark.parametrize("null", ["uniform", "identity", "resample"])
def test_off_is_silenced(computer, evaluator, null):
    answer = asked(computer, off=[str(FIRST), str(SECOND)], null=[null])
    same(answer, evaluator, Silenced(frozenset([FIRST, SECOND]), null))


def test_ideal_is_a_clamp(computer, evaluator):
    """Against `hopscope.interventions.clamps`, which holds a path ideal by code of its own."""
    batch, model = evaluator.batch, evaluator.model
    with torch.no_grad():
        clamps = [Clamp(FIRST, "ideal", 0), Clamp(SECOND, "ideal", 0)]
        replace = replacements(clamps, batch, model.architecture)
        outputs = model(batch.inputs, replace=replace, at=batch.task.query_positions)
    answer = asked(computer, ideal=[str(SECOND), str(FIRST)])
    assert list(answer["hop_losses"].values()) == pytest.approx(
        batch.task.hop_losses(outputs, batch.targets).tolist(), rel=1e-5
    )


def test_a_path_both_ideal_and_off_is_off(computer, evaluator):
    """First ideal rows are written, then entries taken away, as with clamps; the row then is null."""
    answer = asked(computer, ideal=[str(FIRST)], off=[str(FIRST)])
    same(answer, evaluator, Edited(frozenset([FIRST]), frozenset([FIRST])))
    patterns = evaluator.patterns_under(Edited(frozenset([FIRST]), frozenset([FIRST])))[1]
    entries = evaluator.ground.entries(FIRST)
    assert float(patterns[:, 0][entries].abs().max()) == 0.0
    assert torch.allclose(patterns.sum(-1), torch.ones(()))


def test_by_hand_is_the_circuit_by_hand(computer, evaluator):
    weights = {Path.from_dict(path): path["strength"] for path in CIRCUIT["paths"]}
    same(asked(computer, hand=["1"]), evaluator, Hard(weights))
    without = {path: weight for path, weight in weights.items() if path != SECOND}
    same(asked(computer, hand=["1"], off=[str(SECOND)]), evaluator, Hard(without))
    other = Path.parse("L3H0 query->value[2]")
    same(asked(computer, hand=["1"], ideal=[str(other)]), evaluator, Hard({**weights, other: 1.0}))


def test_by_hand_without_a_circuit_is_null(computer, evaluator):
    answer = computer.answer(Ask.parse({"step": ["1000"], "hand": ["1"]}), None)
    same(answer, evaluator, Hard({}))


def test_knocking_a_path_out_moves_the_losses_of_the_demo(computer):
    whole, without = asked(computer), asked(computer, off=[str(FIRST)])
    assert whole["loss"] < 0.02 and without["loss"] > 0.9


@pytest.mark.parametrize("n", SIZES)
def test_it_is_asked_on_any_of_the_sizes(computer, n):
    answer = computer.answer(Ask.parse({"step": ["600"], "n": [str(n)]}), None)
    evaluator = Evaluator(computer.model(600), computer.batch.rows(slice(0, n)))
    assert answer["n"] == n and answer["loss"] == pytest.approx(evaluator.loss(AsIs()).mean, rel=1e-6)


def test_an_instance_has_its_patterns_and_answers(computer, evaluator):
    answer = asked(computer, off=[str(FIRST)], instance=["3"])["instance"]
    changed = evaluator.patterns_under(Silenced(frozenset([FIRST])))
    for layer, heads in enumerate(answer["patterns"]):
        assert torch.allclose(torch.tensor(heads[0]).view(20, 20), changed[layer][3, 0], atol=1e-6)
    task, batch = computer.batch.task, evaluator.batch
    output = evaluator.outputs([Silenced(frozenset([FIRST]))])[0][3]
    candidates = task.candidates(batch.draw)[3]
    for query, hops in enumerate(answer["answers"]):
        for hop, found in enumerate(hops):
            guess = output[query, 4 * hop : 4 * hop + 4]
            distances = sorted((float((guess - c).norm()), i) for i, c in enumerate(candidates))
            assert (found["named"], found["runner_up"]) == (distances[0][1], distances[1][1])
            assert found["distance"] == pytest.approx(distances[0][0], rel=1e-4)
            assert found["margin"] == pytest.approx(distances[1][0] - distances[0][0], rel=1e-3, abs=1e-5)


def test_tokens_are_answered_by_likelihood():
    task = catalogue.find("tasks", "symbolic_retrieval")(n_hops=1, n_chains=2)
    model = Architecture(n_layers=1, d_model=8).build(task, torch.Generator().manual_seed(0)).eval()
    computer = Computer(task.sample(SIZES[-1], 0), (), lambda step: model)
    answer = computer.answer(Ask.parse({"n": ["8"], "instance": ["1"]}), None)
    with torch.no_grad():
        outputs = model(computer.batch.rows(slice(0, 8)).inputs, at=task.query_positions)
    logits = task.logits(outputs)[1]
    for query, hops in enumerate(answer["instance"]["answers"]):
        for hop, found in enumerate(hops):
            likeliest = logits[query, hop].log_softmax(-1).max(-1)
            assert found["named"] == int(likeliest.indices)
            assert found["distance"] == pytest.approx(-float(likeliest.values), rel=1e-5)
    json.dumps(answer, allow_nan=False)


def test_a_path_that_is_not_there_is_bad_input(computer):
    with pytest.raises(BadInput, match=r"there is no path 'L9H0 query->value\[1\]' here"):
        asked(computer, off=["L9H0 query->value[1]"])


def test_only_a_few_models_are_kept(computer):
    models = {step: computer.model(step) for step in (0, 60, 80, 100, 120, 140)}
    assert all(computer.model(step) is models[step] for step in (140, 120, 100, 80))
    assert computer.model(60) is not models[60]


def test_the_words_are_told_in_the_bundle():
    from hopscope.explorer.computing import WORDS

    source = (Folder(__file__).parents[2] / "explorer" / "src" / "bundle.ts").read_text()
    assert "".join(f'"{word}" | ' for word in WORDS).removesuffix(" | ") in source


@pytest.mark.parametrize(
    ("model", "task", "heads"),
    [("linear_recall", "factual_recall", True), ("associative_memory", "associations", False)],
)
def test_a_model_that_is_no_transformer_is_computed_by_pytorch_alone(model, task, heads, tmp_path, monkeypatch):
    monkeypatch.setattr("hopscope.explorer.part.Part.wants_circuit", False)
    recipe = Training(steps=2, batch=4, val_size=4, log_every=1, checkpoints="1")
    config = Config(catalogue.find("tasks", task)(), catalogue.find("models", model)(), recipe)
    run = train(config, tmp_path / "run", threads=1, compile="off")
    builder = Builder([run.path], which="all", dtype="float32")
    (entry,) = builder.build().manifest["runs"]
    assert not entry["model"]["native"] and "Transformer" in entry["model"]["fallback"]
    last = entry["checkpoints"][-1]
    assert last["state"] == "ready" and bool(entry["paths"]) == bool(last["patterns"]) == heads
    answer = builder.answer(f"run={run.config.identity}&step=2&n=8&instance=0")
    assert answer["loss"] == pytest.approx(last["reference"]["8"]["loss"], rel=1e-5)
    outputs = run.model(run.task.sample(SIZES[-1], 0).rows(slice(0, 8)).inputs, at=run.task.query_positions)
    targets = run.task.sample(SIZES[-1], 0).rows(slice(0, 8)).targets
    assert answer["loss"] == pytest.approx(float(run.task.loss(outputs.detach(), targets)), rel=1e-5)

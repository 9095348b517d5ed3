"""Tests of `birth`: corpus and generator, the basic model and its probes, and three gradient steps."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from pandas import DataFrame

from bench.pack_bigrams import pack
from hopscope import Architecture, Config, Training, Transformer, train
from hopscope.cli import hopscope as command_line
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.core.storage import read_json
from hopscope.emergence.track import follow_all
from hopscope.measures import observe
from hopscope.problem.paths import Path
from hopscope.tasks import text
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.birth.claims import about_bigrams, about_joint, about_order, halfway, told_of
from hopscope_studies.birth.experiments import birth
from hopscope_studies.birth.measures.memory_recall import memory_recall, recall, recalls
from hopscope_studies.birth.models.basic_transformer import TRAINED, BasicArchitecture, BasicTransformer
from hopscope_studies.birth.tasks.trigger_bigrams import ASSET, Bigrams, TriggerBigrams, shakespeare
from hopscope_studies.birth.three_steps import ThreeSteps, memory_blocks, orthonormal
from tests.pictures import drawn_once  # noqa: F401

# The corpus ------------------------------------------------------------------------------------------------------


def test_the_corpus_has_numbers_also_where_models_are_only_counted():
    """The corpus has real numbers even if it is loaded while a model is built without storage, to count its weights."""
    stored = read_json(ASSET)
    with torch.device("meta"):
        corpus = Bigrams(stored["characters"], stored["counts"])
    assert corpus.first.device.type == "cpu" and float(corpus.first.sum()) == pytest.approx(1.0)


def test_the_corpus_is_the_one_of_the_published_figures():
    corpus = shakespeare()
    assert len(corpus.characters) == 65
    assert float(corpus.first @ corpus.entropies) == pytest.approx(2.4526, abs=5e-5)
    assert corpus.unigram_entropy == pytest.approx(3.3128, abs=5e-5)
    assert [corpus.characters[i] for i in corpus.first.topk(5).indices] == list(" etoa")
    assert float(corpus.first.topk(5).values.sum()) == pytest.approx(0.406, abs=5e-4)


def test_counts_are_packed_as_they_are_read():

    stored = json.loads(pack("abab c"))
    assert stored["characters"] == " abc"
    assert stored["counts"] == [[0, 0, 0, 1], [0, 0, 2, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert sum(map(sum, read_json(ASSET)["counts"])) == 1_115_393
    assert pack(text.read("")) == ASSET.read_text(), "of the plays that the task `text` reads"


def test_the_inverse_of_the_distribution_by_hand():
    """Rows (1/4, 3/4) and (1, 0): thresholds at 0.25, and never."""
    corpus = Bigrams("ab", [[1, 3], [4, 0]])
    tokens, uniform = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0.0, 0.2499, 0.25, 0.9999, 0.0, 0.9999])
    assert corpus.follow(tokens, uniform.double()).tolist() == [0, 0, 1, 1, 0, 0]
    conditional = float(corpus.first @ corpus.entropies)
    assert conditional == pytest.approx(0.5 * (0.25 * math.log(4) + 0.75 * math.log(4 / 3)))


def test_characters_follow_as_often_as_in_the_corpus():
    """After `h`, which is no trigger, 100,000 characters follow the bigram frequencies within four standard errors."""
    task = TriggerBigrams(length=256)
    tokens = task.sample(1500, 0).draw["tokens"]
    h = task.bigrams.characters.index("h")
    after = tokens[:, 1:][tokens[:, :-1] == h].bincount(minlength=65) / (tokens[:, :-1] == h).sum()
    expected = task.bigrams.then[h]
    margin = 4 * (expected / (tokens[:, :-1] == h).sum()).sqrt() + 1e-4
    assert ((after - expected).abs() < margin).all()


# The task --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("triggers", "outputs", "predictable"), [("frequent", 0.308, 0.289), ("drawn", 0.244, 0.226)])
def test_as_many_positions_are_predictable_as_published(triggers, outputs, predictable):
    """At T = 256, the shares of trigger positions and of predictable ones are those of the authors' code."""
    task = TriggerBigrams(length=256, trigger_choice=triggers)
    trigger = task.trigger(task.sample(2000, 0).draw)
    assert float((trigger >= 0).float().mean()) == pytest.approx(outputs, abs=0.012)
    assert float(task.occurred(trigger).float().mean()) == pytest.approx(predictable, abs=0.012)


def test_all_positions_are_asked_once_and_cost_no_less_than_the_entropy():
    task = TriggerBigrams(asked="all")
    batch = task.sample(64)
    assert ((batch.targets >= 0).sum(-1) == 1).all()
    assert list(task.baselines.values()) == sorted(task.baselines.values(), reverse=True)
    # Whoever knows everything that can be known: bigrams, nothing at first occurrences, the outputs.
    trigger = task.trigger(batch.draw)
    logits = task.bigrams.then[batch.inputs].log().clamp(min=-30.0).float()
    logits = torch.where((trigger < 0)[..., None], logits, 0.0)
    known = 30.0 * torch.nn.functional.one_hot(batch.draw["tokens"][:, 1:], 65)
    logits = torch.where(task.occurred(trigger)[..., None], known, logits)
    assert float(task.loss(logits, batch.targets)) == pytest.approx(task.floor, abs=0.06)
    assert task.learnt_below == pytest.approx((task.floor + task.bigrams.unigram_entropy) / 2)  # not below the floor
    assert task.hop_losses(logits, batch.targets)[1] == pytest.approx(math.log(65), abs=1e-5)


def test_roles_by_hand():
    """In `e x e x t e` with triggers e and t, the second and third e are queries."""
    task = TriggerBigrams(length=6, n_triggers=2)
    at = {character: i for i, character in enumerate(task.bigrams.characters)}
    letters = torch.tensor([[at[c] for c in "exexter"]])
    draw = {
        "tokens": letters,
        "triggers": torch.tensor([[at["e"], at["t"]]]),
        "outputs": torch.tensor([[at["x"], at["e"]]]),
    }
    assert task.roles(draw).chain[0].tolist() == [
        [-1, -1, 0, -1, -1, 0],  # query
        [0, -1, 0, -1, 1, -1],  # key[1]: the last letter's output is not seen
        [-1, 0, -1, 0, -1, 1],  # value[1]
    ]
    assert [t for t in task.targets(draw)[0, :, 0].tolist() if t >= 0] == [at["x"], at["r"]]
    assert [str(fact) for fact in task.problem(draw, 0).facts] == ["e… → x", "t… → e"]


def test_drawn_triggers_differ_and_are_distinct():
    draw = TriggerBigrams(trigger_choice="drawn").sample(50).draw["triggers"]
    assert all(len(set(row)) == 5 for row in draw.tolist())
    assert len({tuple(row) for row in draw.tolist()}) == 50


def test_more_triggers_than_the_setting_allows_are_refused():
    with pytest.raises(BadInput, match="triggers must be at most 64"):
        TriggerBigrams(n_triggers=65)


def test_clamps_and_emergence_take_the_task_as_it_is(tmp_path):
    """A run with a clamped previous-token path is trained, and another path is followed over its three checkpoints."""
    recipe = {"steps": 2, "batch": 4, "val_size": 8, "checkpoints": "1"}
    clamped = Training(**recipe, clamps="L0H0 value[1]->key[1] ideal@0")
    config = Config(TriggerBigrams(length=16), Architecture(n_layers=2, d_model=8), clamped)
    run = train(config, tmp_path / "run", threads=1, compile="off")
    assert run.report["loss"] != run.report["unclamped"]["loss"]
    [followed] = follow_all([run], lambda _: [Path.parse("L1H0 query->value[1]")], n=8)
    assert followed.steps == [0, 1, 2]
    assert len(followed.paths[0].strength) == 3


# The basic model -------------------------------------------------------------------------------------------------


TASK = TriggerBigrams(length=24)


def basic(task=TASK, seed: int = 0, **shape) -> BasicTransformer:
    return BasicArchitecture(**{"d_model": 16, **shape}).build(task, generator(seed, "init"))


@torch.no_grad()
def as_transformer(basic: BasicTransformer) -> Transformer:
    """The same function as one of the project's Transformers with two layers of one head."""
    d_model = basic.architecture.d_model
    shape = Architecture(n_layers=2, n_heads=1, d_model=d_model, mlp=False, layer_norm=False)
    model = shape.build(TASK, generator(0, "init"))
    for name in ("W_E", "W_pos", "W_U"):
        model.get_parameter(name).copy_(getattr(basic, name))
    layers = ((basic.W_K1, basic.W_V1, basic.W_O1), (basic.W_K2, basic.W_V2, basic.W_O2))
    for block, (W_K, W_V, W_O) in zip(model.blocks, layers, strict=True):
        block.attn.W_QKV.copy_(torch.stack([torch.eye(d_model), W_K, W_V])[:, None])
        block.attn.W_O.copy_(W_O[None])
    return model


def test_the_basic_model_is_a_transformer():
    """The same outputs, and the same activations under the same names."""
    model, tokens = basic(), TASK.sample(4).inputs
    outputs, cache = model(tokens, cache=True)
    expected, theirs = as_transformer(model)(tokens, cache=model.activation_names)
    assert torch.allclose(outputs, expected, atol=1e-4)
    for name in model.activation_names:
        assert torch.allclose(cache[name], theirs[name], atol=1e-4), name


def test_a_linear_layer_adds_what_it_makes_of_the_stream():
    model, tokens = basic(feed_forward=True), TASK.sample(4).inputs
    with torch.no_grad():
        model.W_F.copy_(torch.randn(16, 16, generator=generator(0, "test")))
    outputs, cache = model(tokens, cache=True)
    stream = cache["resid_mid", 1]
    assert torch.allclose(outputs, (stream + stream @ model.W_F) @ model.W_U, atol=1e-5)


def test_only_three_matrices_are_trained():
    assert sorted(name for name, _ in basic().named_parameters()) == sorted(TRAINED)
    assert basic().n_parameters == 3 * 16 * 16


def test_a_task_of_vectors_is_refused():
    with pytest.raises(BadInput, match="choose a task of tokens"):
        BasicArchitecture().build(Retrieval())


def test_the_measure_probes_triggers_where_they_are_fixed_and_all_tokens_where_they_are_drawn():
    model = basic(seed=1)
    batch = TASK.sample(4)
    assert memory_recall(observe(model, batch)) == recalls(model, TASK.bigrams.first.topk(5).indices)
    drawn = TASK.but(trigger_choice="drawn").sample(4)
    assert memory_recall(observe(model, drawn)) == recalls(model, range(65))


def ideal(model: BasicTransformer) -> None:
    """The memories that solve the task, sums of outer products (the paper's section 4.2)."""
    with torch.no_grad():
        model.W_O2.copy_((model.W_E @ model.W_V2).T @ model.W_U.T * 100)
        model.W_K2.copy_((model.W_E @ model.W_V1 @ model.W_O1).T @ model.W_E * 1000)
        model.W_K1.copy_(model.W_pos[:-1].T @ model.W_pos[1:] * 1000)


def test_ideal_memories_are_recalled_and_solve_induction():
    """Triggers at the first position are an exception: no token precedes them, so they look like their own outputs."""
    task = Induction(length=10, d_vocab=20)
    model = orthonormal(task, generator(0, "init"))
    batch = task.sample(64)
    blank = {"W_O2": 1 / 20, "W_K2": 1 / 20, "W_K2 of all": 1 / 20, "W_K1": 1 / 10, "W_K1 first": 1 / 10}  # the first
    assert recalls(model, range(20)) == pytest.approx(blank)
    ideal(model)
    assert set(recalls(model, range(20)).values()) == {1.0}
    right = model(batch.inputs)[:, -1].argmax(-1) == batch.targets[:, 0, 0]
    assert right[batch.draw["place"][:, 0] > 0].all()


def test_recall_counts_rows_whose_own_score_is_highest():
    assert recall(torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 3.0]])) == pytest.approx(2 / 3)


def test_what_should_be_orthonormal_is():
    for read, written in memory_blocks(orthonormal(Induction(length=4, d_vocab=7), generator(0, "init"))).values():
        for rows in (read, written):
            assert torch.allclose(rows @ rows.T, torch.eye(len(rows)), atol=1e-5)


# Training ----------------------------------------------------------------------------------------------------------

RECIPE = {"steps": 6, "batch": 4, "log_every": 2, "val_size": 8, "checkpoints": "2", "lr": 0.2, "weight_decay": 1e-4}
SMALL = Config(
    TriggerBigrams(length=12),
    BasicArchitecture(d_model=8),
    Training(**RECIPE, optimizer="sgd(momentum=0.9)", measures="memory_recall"),
)


def by_hand(config: Config, begins: dict[str, int]) -> BasicTransformer:
    """SGD with momentum written out; each matrix is trained from its own step on, with the loss at asked positions."""
    training, model = config.training, config.model.build(config.task, generator(0, "init"))
    weights, velocity = dict(model.named_parameters()), {}
    for step in range(training.steps):
        batch = config.task.sample(training.batch, generator(0, "train", step))
        targets = batch.targets[..., 0]
        loss = torch.nn.functional.cross_entropy(model(batch.inputs)[targets >= 0], targets[targets >= 0])
        trained = {name: weight for name, weight in weights.items() if step >= begins.get(name, 0)}
        gradients = torch.autograd.grad(loss, list(trained.values()))
        with torch.no_grad():
            for (name, weight), gradient in zip(trained.items(), gradients, strict=True):
                velocity[name] = 0.9 * velocity.get(name, 0.0) + gradient + training.weight_decay * weight
                weight -= training.lr * velocity[name]
    return model


@pytest.mark.parametrize("begins", [{}, {"W_K2": 2, "W_K1": 4}], ids=["at once", "in stages"])
def test_the_common_loop_trains_it_as_sgd_written_out_would(begins, tmp_path):
    frozen = ", ".join(f"{name}@0-{step}" for name, step in begins.items())
    run = train(replace(SMALL, training=SMALL.training.but(frozen=frozen)), tmp_path, threads=1, compile="off")
    expected = by_hand(SMALL, begins)
    for (name, mine), other in zip(run.model.named_parameters(), expected.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-5), name
        assert torch.equal(mine, run.at(0).get_parameter(name)) is False
    for step in (2, 4):
        waiting = [name for name, begin in begins.items() if step <= begin]
        stands = [n for n, w in run.at(step).named_parameters() if torch.equal(w, run.at(0).get_parameter(n))]
        assert sorted(stands) == sorted(waiting)
    assert set(run.rows[0]["measures"]["memory_recall"]) == {"W_O2", "W_K2", "W_K2 of all", "W_K1", "W_K1 first"}


def test_stages_are_those_of_the_experiment():
    staged = next(config for config in birth.runs("cpu") if isinstance(config, Config) and config.training.frozen)
    assert staged.training.frozen == "W_K2@0-150, W_K1@0-300"
    assert (staged.training.steps, birth.stage_of(staged)) == (550, 150)


def test_every_tool_takes_a_run_of_the_basic_model(tmp_path):
    """The commands for circuits, emergence and pictures, and clamps, accept a run of the basic model."""
    clamps = "L0H0 value[1]->key[1] ideal@0-4"
    run = train(replace(SMALL, training=SMALL.training.but(clamps=clamps)), tmp_path / "run", threads=1, compile="off")
    for command in (["circuit"], ["emerge", "--path", "L1H0 query->value[1]", "--n", "8"], ["draw"]):
        said = CliRunner().invoke(
            command_line, [command[0], str(run.path), *command[1:], "--out", str(tmp_path / "out")]
        )
        assert said.exit_code == 0, said.output
    assert list((tmp_path / "out").iterdir())


# Three steps -------------------------------------------------------------------------------------------------------


def test_three_steps_find_the_memories_of_a_small_problem(tmp_path):
    ThreeSteps(length=6, d_vocab=12, sample=8192).do(tmp_path, lambda: False)
    rows = read_json(tmp_path / "rows.json")
    assert [row["W_O2"] for row in rows[1:]] == [1.0] * 3
    assert rows[2]["W_K2"] == 1.0
    assert rows[3]["W_K1"] == 1.0
    assert rows[3]["accuracy"] > 0.7 > 0.3 > rows[2]["accuracy"]  # attention to the place before is what lacked


def rises(model: str, quantity: str, step: float) -> list[dict]:
    """Rows of a quantity that rises from 0 to 1 around a step, at which it is one half."""
    rows = [{"step": step + 10 * way, "value": (1 + way) / 2} for way in (-1, 1)]
    return [{"run": model, "seed": 0, "model": model, "quantity": quantity, **row} for row in rows]


@pytest.mark.parametrize(("joint", "verdict"), [(100, "holds"), (140, "fails")])
def test_stages_are_charged_only_until_their_memory_is_there(joint: int, verdict: str):
    """Stages of 150 steps need 50, 20 (150 to 170) and, for an accuracy of 0.9, 68 steps (300 to 368): 138 in total."""
    rows = rises("basic", "accuracy", joint) + rises("basic", "W_O2", 40) + rises("basic staged", "W_O2", 50)
    rows += rises("basic staged", "W_K2", 170) + rises("basic staged", "accuracy", 360)
    rows.append({**rows[-1], "step": 0, "quantity": "stage", "value": 150.0})
    found = {claim.id: claim for claim in about_joint(told_of(DataFrame(rows)))}
    claim = found["joint_learning_is_faster"]
    assert (claim.verdict, claim.number) == (verdict, pytest.approx(138 / (joint + 8)))
    assert found["first_memory_is_faster_jointly"].number == pytest.approx(50 / 40)


def test_recall_is_corrected_for_chance():
    """With five items chance is 1/5, and halfway to 1 is 3/5; with sixty-five it is 33/65."""
    assert halfway(5) == pytest.approx(0.6)
    assert halfway(65) == pytest.approx(33 / 65)


@pytest.mark.parametrize(("times", "verdict"), [((40, 60, 80), "holds"), ((60, 40, 80), "fails")])
def test_memories_are_judged_at_the_published_setting(times, verdict):
    names = ("W_O2", "W_K2", "W_K1 first", "W_K2 of all")
    rows = [row for name, step in zip(names, (*times, 50), strict=True) for row in rises("published", name, step)]
    found = {claim.id: claim.verdict for claim in about_order(told_of(DataFrame(rows)))}
    assert found["memories_in_order"] == found["memories_in_order_of_all"] == verdict
    assert found["second_layer_first"] == "holds"
    assert found["memories_in_order_small"] == "undecided"


@pytest.mark.parametrize(("context", "verdict"), [(200, "holds"), (20, "fails")])
def test_bigrams_come_first_if_their_loss_is_half_way_down_first(context, verdict):
    """The loss of bigrams falls from ln 65 to 2 around step 50, and the loss in context to 0 around another step."""
    rows = []
    for quantity, step, least in (("loss bigram", 50, 2.0), ("loss", context, 0.0)):
        for way, value in ((-1, math.log(65)), (1, least)):
            about = {"run": "r", "seed": 0, "model": "basic all", "quantity": quantity}
            rows.append({**about, "step": step + 10 * way, "value": value})
    claim = about_bigrams(told_of(DataFrame(rows)))
    assert (claim.verdict, claim.number) == (verdict, pytest.approx(context - 50))


def test_a_trigger_is_recalled_among_as_many_tokens_as_there_are():
    """A W_K2 that tells five triggers apart, but not from other tokens, recalls them only among the five."""
    model = BasicArchitecture(d_model=80).build(TriggerBigrams(length=8), generator(0, "init"))
    with torch.no_grad():
        model.W_E.copy_(torch.eye(65, 80))
        model.W_V1.copy_(torch.eye(80))
        model.W_O1.copy_(torch.eye(80))
        model.W_K2.zero_()
        model.W_K2[:5, :5] = torch.eye(5)
        model.W_K2[7, 0] = 2.0  # token 7 answers trigger 0 more loudly than its own place does
    found = recalls(model, range(5))
    assert (found["W_K2"], found["W_K2 of all"]) == (1.0, pytest.approx(0.8))

"""Clamps of heads and layers: against sums by hand, other ways to compute the same, and controls with known answers."""

from __future__ import annotations

import pytest
import torch

from hopscope import Architecture, BadInput, Config, Training, train
from hopscope.builds.item_induction import induction
from hopscope.core.seeds import generator
from hopscope.interventions.clamps import Clamp, answers, held, in_force, parse_clamps, replacements
from hopscope.interventions.parts import Part, previous
from hopscope.runs.demand import check
from hopscope.tasks.item_labels import ItemLabels
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.trainer import Trainer

TASK = ItemLabels(n_classes=20, d_item=16)
SHAPE = Architecture(n_layers=2, n_heads=2, d_model=32, mlp=False, positions="rotary")
MATCH = "L1H0 query->value[1] ideal@0"


@pytest.fixture
def model():
    return SHAPE.build(TASK, generator(0, "init"))


@pytest.fixture
def batch():
    return TASK.sample(64, 3)


def under(text, model, batch):
    return answers(parse_clamps(text), model, batch)


@pytest.mark.parametrize(
    "text", ["L0H1 previous@3", "L1H0 silent@0-5", "L0 preserved@0", "L1H1 copied@7", "L0 perfect@0"]
)
def test_a_part_is_read_and_written_alike(text):
    assert str(Clamp.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("L0 previous@0", "a clamp of a layer must be silent or preserved or perfect, such as 'L0 silent@200'"),
        ("L0H0 perfect@0", "a clamp of a head must be previous or silent or preserved or copied"),
        ("L0H0 ideal@0", "got 'ideal'"),
    ],
)
def test_what_a_part_cannot_be_is_said(text, words):
    with pytest.raises(BadInput) as told:
        Clamp.parse(text)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        (TASK, "L1 perfect@0", "the last layer cannot be perfect"),
        (TASK, "L2 silent@0", "the last layer is 1"),
        (TASK, "L0H2 silent@0", "the last head is 1"),
        (Retrieval(n_hops=1), "L1H0 copied@0", "only a task with one answer"),
    ],
)
def test_what_cannot_hold_is_refused_when_the_configuration_is_made(task, text, words):
    with pytest.raises(BadInput, match=words):
        Config(task, Architecture(n_layers=2, n_heads=2), Training(clamps=text))


def test_paths_come_before_parts_of_one_step_and_keep_their_order():
    assert Training(clamps=f"L1H1 silent@0; {MATCH}; L0 perfect@0").clamps == f"{MATCH}; L0 perfect@0; L1H1 silent@0"


def test_previous_by_hand(model, batch):
    sees = torch.ones(3, 3, dtype=torch.bool).tril()
    assert previous(sees).tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    replace = replacements(parse_clamps("L0H1 previous@0"), batch, SHAPE)
    name = "blocks.0.attn.hook_pattern"
    free, clamped = (model(batch.inputs, cache=[name], replace=r)[1][name] for r in ({}, replace))
    assert torch.equal(clamped[:, 0], free[:, 0])
    assert (clamped[:, 1].diagonal(-1, -2, -1) == 1).all() and clamped[:, 1, 0, 0].eq(1).all()


@pytest.mark.parametrize(("text", "head"), [("L0H1 silent@0", slice(1, 2)), ("L0 silent@0", slice(None))])
@torch.no_grad()
def test_a_silent_head_is_one_without_output_weights(model, batch, text, head):
    silent = under(text, model, batch)
    model.get_parameter("blocks.0.attn.W_O")[head] = 0
    assert torch.allclose(silent, model(batch.inputs, at=TASK.query_positions), atol=1e-6)


@torch.no_grad()
def test_preserved_keeps_the_patterns_and_takes_away_the_rest(model, batch):
    """Another way to the same: the residual stream without layer 0, under the patterns of the whole model."""
    name = "blocks.1.attn.hook_pattern"
    whole, cache = model(batch.inputs, cache=[name, "blocks.0.hook_resid_pre"], at=TASK.query_positions)
    stream = cache["blocks.0.hook_resid_pre"] + model.get_parameter("blocks.0.attn.b_O")
    expected = model(stream, start_at_layer=1, replace={name: cache[name]}, at=TASK.query_positions)
    found = under("L0 preserved@0", model, batch)
    assert torch.allclose(found, expected, atol=1e-6) and not torch.allclose(found, whole, atol=1e-3)


@torch.no_grad()
def test_a_perfect_layer_is_its_definition_and_knows_nothing_of_its_weights(model, batch):
    """Keys and queries of layer 1 from the tokens before, values from the embedding; layer 0 may be anything."""
    name = "blocks.1.attn.hook_pattern"
    stream = model(batch.inputs, cache=["blocks.0.hook_resid_pre"])[1]["blocks.0.hook_resid_pre"]
    moved = stream.clone()
    moved[:, 1:-1] = stream[:, :-2]
    pattern = model(moved, start_at_layer=1, cache=[name])[1][name]
    expected = model(stream, start_at_layer=1, replace={name: pattern}, at=TASK.query_positions)
    assert torch.allclose(under("L0 perfect@0", model, batch), expected, atol=1e-6)
    model.get_parameter("blocks.0.attn.W_QKV").mul_(3)
    assert torch.allclose(under("L0 perfect@0", model, batch), expected, atol=1e-6)


@torch.no_grad()
def test_copied_answers_are_the_scores_of_the_two_labels(model, batch):
    """Their difference is that of the head's scores before its softmax, by hand from queries and keys."""
    name = "blocks.1.attn.hook_pattern"
    pattern = model(batch.inputs, cache=[name])[1][name][:, 1, -1]
    outputs = under("L1H1 copied@0", model, batch)[:, 0]
    labels = batch.draw["labels"][:, :2]
    logits = outputs.gather(1, labels)
    assert torch.allclose(logits[:, 0] - logits[:, 1], (pattern[:, 1] / pattern[:, 3]).log(), atol=1e-4)
    assert (outputs.argsort(-1, descending=True)[:, :2].sort(-1).values == labels.sort(-1).values).all()


def test_matching_and_copying_for_nothing_answer_everything_untrained(model, batch):
    outputs = under(f"{MATCH}; L1H0 copied@0", model, batch)
    assert float(TASK.loss(outputs, batch.targets).detach()) == pytest.approx(0, abs=1e-6)
    assert TASK.correct(outputs, batch).all()


@pytest.mark.parametrize(("text", "low", "high"), [("", 1, 1), ("L0 preserved@0", 1, 1), ("L0 silent@0", 0.3, 0.7)])
def test_the_circuit_by_hand_needs_layer_0_for_patterns_alone(text, low, high):
    task = ItemLabels()
    batch = task.sample(400)
    right = task.correct(under(text, induction(task), batch), batch).float().mean()
    assert low <= float(right) <= high


@pytest.mark.parametrize("text", ["L0 perfect@0", "L1H0 copied@0", "L0 preserved@0", "L0H0 previous@0; L1H1 silent@0"])
def test_gradients_flow_through_what_is_not_clamped(text):
    """A few steps lower the loss of one batch; a silent head's output weights rest."""
    recipe = Training(steps=30, batch=64, lr=3e-3, weight_decay=0.0, clamps=text, examples=64)
    trainer = Trainer(Config(TASK, SHAPE, recipe), torch.device("cpu"))
    before = trainer.model.get_parameter("blocks.1.attn.W_O").clone()
    losses = [float(trainer.step(step)) for step in range(30)]
    assert losses[-1] < 0.8 * losses[0]
    moved = (trainer.model.get_parameter("blocks.1.attn.W_O") != before).flatten(1).any(1).tolist()
    assert moved == {"L1H0 copied@0": [False, False], "L0H0 previous@0; L1H1 silent@0": [True, False]}.get(
        text, [True, True]
    )


@torch.no_grad()
def test_a_silent_head_stays_silent_beside_a_preserved_one(model, batch):
    replace = held(parse_clamps("L0H0 silent@0; L0H1 preserved@0"), model, batch)
    z = model(batch.inputs, replace=replace, cache=["blocks.0.attn.hook_z"])[1]["blocks.0.attn.hook_z"]
    assert not z.any()


@torch.no_grad()
def test_perfect_layers_do_not_depend_on_when_they_began():
    deep = SHAPE.but(n_layers=4).build(TASK, generator(0, "init"))
    batch = TASK.sample(8, 3)
    one, other = (
        answers(in_force(parse_clamps(text), 2), deep, batch)
        for text in ("L0 perfect@0; L1 perfect@0", "L1 perfect@0; L0 perfect@1")
    )
    assert torch.equal(one, other)


def test_answers_are_copied_from_one_head_at_a_time():
    with pytest.raises(BadInput, match="copied from one head at a time"):
        parse_clamps("L0H0 copied@0; L1H1 copied@2")
    assert len(parse_clamps("L0H0 copied@0-2; L1H1 copied@2")) == 2
    assert len(parse_clamps("L0H0 copied@0; L0H0 copied@2-4")) == 2  # the later one replaces the earlier


@pytest.mark.parametrize("also", [{"attention_entropy": 0.1}, {"deep_supervision": 0.1}])
def test_copied_answers_are_not_trained_with_what_reads_others(also):
    recipe = Training(steps=2, batch=4, val_size=4, clamps="L1H0 copied@0", **also)
    with pytest.raises(BadInput, match="replaces the answers"):
        check(Config(TASK, SHAPE, recipe))


def test_measures_and_rows_are_of_the_same_answers(tmp_path):
    """Of copied answers, too: `hop_loss` is the row's own loss by hop."""
    recipe = Training(steps=1, batch=4, val_size=32, clamps="L1H0 copied@0", measures="hop_loss")
    for row in train(Config(TASK, SHAPE, recipe), tmp_path / "run").rows:
        assert row["measures"]["hop_loss"] == pytest.approx(row["hop_losses"])


def test_measures_see_what_is_held(model, batch):
    """`held` has all but the copied answers, so what is streamed while training is of the clamped model."""
    replace = held([Clamp(Part(0), "perfect", 0), Clamp(Part(1, 1), "copied", 0)], model, batch)
    assert {"blocks.0.hook_resid_post", "blocks.1.attn.hook_pattern"} == set(replace)

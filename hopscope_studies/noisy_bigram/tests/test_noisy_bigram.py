"""Tests of `noisy_bigram`: task, closed forms, truncation against SVD by hand, claims."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from pandas import DataFrame

from hopscope import Config, Training, train
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.core.storage import read_json
from hopscope.experiments.results import claim_ids
from hopscope.experiments.work import Stopped
from hopscope.interventions.truncation import Laser
from hopscope.measures import observe
from hopscope.models import Architecture, Transformer
from hopscope.problem.roles import NO_CHAIN
from hopscope_studies.noisy_bigram.experiments import noisy_bigram as experiment
from hopscope_studies.noisy_bigram.models.frozen_embeddings import FrozenEmbeddings, FrozenEmbeddingsTransformer
from hopscope_studies.noisy_bigram.official import attended, margins, rows_of_official
from hopscope_studies.noisy_bigram.tasks.noisy_bigram import TRIGGER, NoisyBigram, triggers_among
from hopscope_studies.noisy_bigram.tasks.noisy_characters import NoisyCharacters
from hopscope_studies.noisy_bigram.theory.associations import OneStep
from hopscope_studies.noisy_bigram.work import ROWS, Sampled, Truncated

# The task ----------------------------------------------------------------------------------------------------------


def test_of_triggers_in_a_row_every_other_stays():
    tokens = torch.tensor([[0, 0, 0, 5, 0, 0, 5, 0]])
    assert triggers_among(tokens).int().tolist() == [[1, 0, 1, 0, 1, 0, 0, 1]]


def test_what_follows_the_trigger_is_noise_or_the_correct_token_and_noise_follows_nothing_else():
    task = NoisyBigram(n_tokens=8, length=24, alpha=0.3)
    batch = task.sample(4000, 1)
    tokens, correct = batch.inputs, batch.draw["correct"]
    after = tokens[:, :-1] == TRIGGER
    follows = tokens[:, 1:]
    assert (((follows == correct) | (follows == task.noise))[after]).all()
    assert not ((follows == task.noise) & ~after).any()
    assert ((follows == correct) & after).any(1).all()  # every sequence can be answered
    assert float(batch.draw["noisy"].float().mean()) == pytest.approx(0.3, abs=0.03)
    ordinary = torch.bincount(follows[~after], minlength=9)[1:8].float()
    assert float(ordinary.max() / ordinary.min()) < 1.05  # even; the trigger is planted, so there are more of it


def test_noise_in_the_context_is_as_frequent_as_alpha_but_for_the_planted_trigger():
    """With 512 positions and 8 tokens there are some 57 triggers, one of which is planted without noise."""
    task = NoisyBigram(n_tokens=8, length=512, alpha=0.5)
    tokens = task.sample(200).inputs
    after = tokens[:, :-1] == TRIGGER
    assert float((tokens[:, 1:] == task.noise)[after].float().mean()) == pytest.approx(0.5, abs=0.02)


def test_the_best_prediction_costs_the_entropy_of_the_noise():
    task = NoisyBigram(alpha=0.25)
    batch = task.sample(4000)
    chances = torch.full((4000, 1, task.d_vocab), 1e-12)
    chances.scatter_(2, batch.draw["correct"][:, None], 0.75)
    chances[:, :, task.noise] = 0.25
    entropy = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert task.baselines["noise or the context's answer"] == pytest.approx(entropy)
    assert float(task.loss(chances.log(), batch.targets)) == pytest.approx(entropy, abs=0.03)
    by_hop = task.hop_losses(chances.log(), batch.targets)
    assert by_hop.tolist() == pytest.approx([-math.log(0.75), -math.log(0.25)], abs=1e-5)
    assert task.solved_below > entropy


def test_roles_tell_answers_from_noise():
    task = NoisyBigram(n_tokens=8, length=24)
    batch = task.sample(50)
    roles, tokens = batch.roles, batch.inputs
    values = roles.chain[:, roles.index("value[1]")]
    assert (tokens[values == 0] == batch.draw["correct"].expand_as(tokens)[values == 0]).all()
    assert (tokens[values == NO_CHAIN] == task.noise).all()


# The paper's setting -----------------------------------------------------------------------------------------------


def test_noise_is_an_existing_rare_character_after_the_commonest():
    """As in the authors' data, the space (15.2 % of characters) is followed half the time by `!` (0.19 %)."""
    task = NoisyCharacters(length=256)
    characters = task.corpus.bigrams.characters
    assert (characters[task.trigger], characters[task.noise]) == (" ", "!")
    assert float(task.corpus.bigrams.first[task.trigger]) == pytest.approx(0.152, abs=5e-4)
    assert float(task.corpus.bigrams.first[task.noise]) == pytest.approx(0.0019, abs=5e-5)
    tokens = task.sample(400, 1).draw["tokens"]
    after = tokens[:, :-1] == task.trigger
    noise = tokens[:, 1:] == task.noise
    assert float(noise[after].float().mean()) == pytest.approx(0.5 + 0.5 / 65, abs=0.02)
    assert noise[~after].any()  # it also occurs elsewhere


def test_what_is_asked_begins_at_the_second_trigger():
    task = NoisyCharacters(length=6)
    at = {character: i for i, character in enumerate(task.corpus.bigrams.characters)}
    draw = {
        "tokens": torch.tensor([[at[c] for c in " !a ! r"], [at[c] for c in "a x x x"]]),
        "correct": torch.tensor([[at["r"]], [at["x"]]]),
    }
    r, x, noise = at["r"], at["x"], at["!"]
    assert task.targets(draw)[0].tolist() == [[-100, -100]] * 3 + [[-100, noise], [-100, -100], [r, -100]]
    assert task.targets(draw)[1].tolist() == [[-100, -100]] * 3 + [[x, -100], [-100, -100], [x, -100]]
    assert task.recalled(draw)[0, :, 0].tolist() == [-100] * 6  # y was never seen: noise came after both others
    assert task.recalled(draw)[1, :, 0].tolist() == [-100, -100, -100, x, -100, x]
    assert task.roles(draw).chain[0].tolist() == [
        [-1, -1, -1, 0, -1, 0],
        [NO_CHAIN, -1, -1, NO_CHAIN, -1, -1],
        [-1, NO_CHAIN, -1, -1, NO_CHAIN, -1],
    ]


def test_what_follows_is_as_bayes_rule_says():
    """If all m earlier triggers were noisy, y = τ explains them with certainty, and any other y with α^m."""
    task = NoisyCharacters(alpha=0.25)
    for m in (1, 3):
        odds = 1 / (64 * 0.25**m)
        chance = odds / (1 + odds)
        found = task.predictive([task.noise] * m)
        assert sum(found.values()) == pytest.approx(1)
        assert found[task.noise] == pytest.approx(chance + (1 - chance) * 0.25)
    assert task.predictive([task.noise, 7]) == {task.noise: 0.25, 7: 0.75}
    assert task.entropy < task.bayes_loss < task.solved_below < task.chance
    assert NoisyCharacters(alpha=0.0).entropy == 0.0


def small_official() -> tuple[NoisyCharacters, FrozenEmbeddingsTransformer]:
    task = NoisyCharacters(length=24)
    return task, FrozenEmbeddings(d_model=8).build(task, generator(0, "init"))


def test_the_paper_s_model_is_the_formula_and_trains_all_but_embeddings():
    """The formula has two layers of softmax(x W_Kᵀ xᵀ / √d) x W_V W_O and a ReLU MLP, computed per position."""
    task, model = small_official()
    tokens = task.sample(2).inputs
    x = model.W_E[tokens] + model.W_pos
    for name in ("blocks.0", "blocks.1"):
        W_K, W_V, W_O = (model.get_parameter(f"{name}.attn.W_{letter}") for letter in "KVO")
        rows = []
        for place in range(24):
            pattern = ((x[:, : place + 1] @ W_K) @ x[:, place, :, None] / 8**0.5).softmax(1)
            rows.append((pattern * (x[:, : place + 1] @ W_V @ W_O)).sum(1))
        x = x + torch.stack(rows, 1)
        W_in, W_out = (model.get_parameter(f"{name}.mlp.W_{way}") for way in ("in", "out"))
        x = x + torch.relu(x @ W_in) @ W_out
    assert torch.allclose(model(tokens), x @ model.W_U, atol=1e-4)
    assert {name for name, _ in model.named_buffers()} == {"W_E", "W_pos", "W_U"}
    assert len(dict(model.named_parameters())) == 10
    assert model.get_parameter("blocks.0.mlp.W_in").shape == (8, 32)


def test_margins_and_attention_by_hand():
    task, model = small_official()
    with torch.no_grad():
        model.get_parameter("blocks.1.mlp.W_out").zero_()
        for layer in (0, 1):
            model.get_parameter(f"blocks.{layer}.attn.W_K").zero_()  # attention is even over what is seen
    assert margins(model, task)["margin_late"] == 0.0
    said = model.association(task.trigger)[0].tolist()
    others = [logit for token, logit in enumerate(said) if token != task.noise]
    assert margins(model, task)["margin_early"] == pytest.approx(said[task.noise] - max(others))
    batch = task.sample(50, 2)
    found, values = attended(observe(model, batch)), batch.roles.chain[:, 2]
    asked = [(row, place) for row, place in torch.nonzero(task.asked(batch.draw)).tolist()]
    for name, chain in (("attended", 0), ("attended_noise", NO_CHAIN)):
        shares = [float((values[row, : place + 1] == chain).float().mean()) for row, place in asked]
        assert found[name] == pytest.approx(sum(shares) / len(shares), rel=1e-4)


def test_one_matrix_at_a_time_is_truncated_and_tests_are_without_noise(tmp_path):
    task, _ = small_official()
    recipe = Training(steps=2, batch=4, val_size=4, log_every=2, checkpoints="2", optimizer="sgd", lr=0.01)
    run = train(Config(task, FrozenEmbeddings(d_model=8), recipe), tmp_path / "run")
    rows = list(rows_of_official(run, {}, 16))
    curves, cut = ([row for row in rows if row["kind"] == f"official {kind}"] for kind in ("curve", "truncation"))
    assert [row["step"] for row in curves] == [0, 2]
    places = [(row["layers"], row["matrix"], row["share"]) for row in cut]
    assert len(set(places)) == len(places) == 12
    whole = {row["layers"]: row for row in cut if row["share"] == 0 and row["matrix"] == "W_in"}
    for row in cut:  # there are no biases, so without one matrix there is no MLP
        if row["share"] == 0:
            assert row["correct"] == pytest.approx(whole[row["layers"]]["correct"], rel=1e-5)
    weight = run.model.get_parameter("blocks.1.mlp.W_in")
    with Laser(run.model)([1], 0.5, matrix="W_out"):
        assert torch.linalg.matrix_rank(weight.detach()) == 8
        assert torch.linalg.matrix_rank(run.model.get_parameter("blocks.1.mlp.W_out").detach()) == 4
    with pytest.raises(BadInput, match="no feed-forward matrix"), Laser(run.model)([1], 0.5, matrix="gate"):
        pass


# Measures ----------------------------------------------------------------------------------------------------------


def test_measures_are_the_means_of_what_the_model_says():
    task = NoisyBigram(n_tokens=8, length=16)
    model = Transformer.for_task(Architecture(n_layers=1, d_model=8, mlp=True), task, generator(0, "init"))
    batch = task.sample(30)
    chances = model(batch.inputs)[:, -1].softmax(-1).detach()
    correct, noise = chances.gather(1, batch.draw["correct"])[:, 0], chances[:, task.noise]
    found = {}
    for name in ("in_context_recall", "global_association", "recall_margin"):
        found |= catalogue.find("measures", name)(observe(model, batch))
    assert found["correct"] == pytest.approx(float(correct.mean()), rel=1e-5)
    assert found["noise"] == pytest.approx(float(noise.mean()), rel=1e-5)
    assert found["margin"] == pytest.approx(float((correct.log() - noise.log()).mean()), rel=1e-4)


# Theory ------------------------------------------------------------------------------------------------------------

SMALL = [OneStep(3, 3, 0.5), OneStep(4, 3, 0.2), OneStep(3, 4, 0.7)]


def every_sequence(theory: OneStep) -> list[tuple[float, torch.Tensor, int, int]]:
    """All sequences as (probability, context with the correct token first, correct token, next token)."""
    n, found = theory.n_tokens, []
    for correct in range(n):
        for rest in product(range(n), repeat=theory.length - 1):
            for target, chance in ((n, theory.alpha), (correct, 1 - theory.alpha)):
                found.append((chance / n**theory.length, torch.tensor([correct, *rest]), correct, target))
    return found


def loss_of(theory: OneStep, feed_forward, attention, scores=None):
    """The simplified model's exact expected cross-entropy in float64; `scores` are those of positions, ȳ's first."""
    total = torch.zeros((), dtype=torch.float64)
    for chance, context, _, target in every_sequence(theory):
        even = torch.zeros(theory.length, dtype=torch.float64) if scores is None else scores
        embedded = torch.nn.functional.one_hot(context, theory.n_tokens).double()
        logits = feed_forward + attention @ (even.softmax(0) @ embedded)
        total = total - chance * logits.log_softmax(0)[target]
    return total


@pytest.mark.parametrize("theory", SMALL, ids=str)
def test_the_first_step_is_autograds(theory):
    n = theory.n_tokens
    feed_forward = torch.zeros(n + 1, dtype=torch.float64, requires_grad=True)
    attention = torch.zeros(n + 1, n, dtype=torch.float64, requires_grad=True)
    g, big = torch.autograd.grad(-loss_of(theory, feed_forward, attention), (feed_forward, attention))
    tau, other = theory.feed_forward
    assert torch.allclose(g, torch.tensor([other] * n + [tau], dtype=torch.float64), atol=1e-12)
    assert torch.allclose(big, table(theory), atol=1e-12)
    assert (float(g.square().sum()), float(big.square().sum())) == pytest.approx(theory.signals, rel=1e-10)


def table(theory: OneStep) -> torch.Tensor:
    n = theory.n_tokens
    tau, apart, own = theory.attention
    expected = torch.full((n + 1, n), apart, dtype=torch.float64)
    expected[:n].fill_diagonal_(own)
    expected[n] = tau
    return expected


@pytest.mark.parametrize("theory", SMALL, ids=str)
def test_the_noise_of_one_sequence_is_as_stated(theory):
    powers = [0.0, 0.0]
    for chance, context, _, target in every_sequence(theory):
        error = torch.nn.functional.one_hot(torch.tensor(target), theory.n_tokens + 1) - 1 / (theory.n_tokens + 1)
        mean = torch.nn.functional.one_hot(context, theory.n_tokens).double().mean(0)
        powers[0] += chance * float(error.double().square().sum())
        powers[1] += chance * float(torch.outer(error.double(), mean).square().sum())
    assert powers == pytest.approx(theory.powers, rel=1e-6)


@pytest.mark.parametrize("theory", SMALL, ids=str)
def test_the_second_step_turns_attention_to_the_answer(theory):
    rate = 1e-6
    scores = torch.zeros(theory.length, dtype=torch.float64, requires_grad=True)
    nothing = torch.zeros(theory.n_tokens + 1, dtype=torch.float64)
    (turn,) = torch.autograd.grad(-loss_of(theory, nothing, rate * table(theory), scores), scores)
    answer, elsewhere = theory.turn
    assert answer > 0 > elsewhere
    expected = [answer] + [elsewhere] * (theory.length - 1)
    assert (turn / rate).tolist() == pytest.approx(expected, rel=1e-4)


def test_samples_do_not_grow_with_the_vocabulary_for_one_layer_and_do_for_the_other():
    small, large = OneStep(1000, 8, 0.5).samples, OneStep(10_000, 8, 0.5).samples
    assert small[0] == pytest.approx(3.0, abs=0.02) and large[0] == pytest.approx(3.0, abs=0.02)  # (1 − α²) / α²
    assert large[1] / small[1] == pytest.approx(10.0, rel=0.02)
    margins = OneStep(1000, 8, 0.5).margins
    assert margins[0] / margins[1] == pytest.approx(1000, rel=1e-3)


# Truncation --------------------------------------------------------------------------------------------------------


def small_model() -> tuple[NoisyBigram, Transformer]:
    task = NoisyBigram(n_tokens=8, length=16)
    return task, Transformer.for_task(
        Architecture(n_layers=2, d_model=8, d_mlp=8, mlp=True), task, generator(0, "init")
    )


def test_truncation_is_the_nearest_matrix_and_is_undone():
    task, model = small_model()
    batch, weight = task.sample(4), model.blocks[1].mlp.W_in
    before, outputs = weight.detach().clone(), model(batch.inputs)
    with Laser(model)([1], 0.5):
        values = torch.linalg.svdvals(before)
        assert torch.linalg.matrix_rank(weight.detach()) == 4
        lost = (weight.detach() - before).square().sum()  # Eckart and Young: the squares of what was cut
        assert float(lost) == pytest.approx(float(values[4:].square().sum()), rel=1e-4)
        assert not torch.equal(model(batch.inputs), outputs)
    assert torch.equal(weight, before)
    assert torch.equal(model(batch.inputs), outputs)
    with Laser(model)([0, 1], 1.0):
        assert torch.equal(model(batch.inputs), outputs)


def test_a_share_of_zero_is_the_layer_without_its_feed_forward_part():
    task, model = small_model()
    torch.nn.init.normal_(model.blocks[1].mlp.b_out)
    inputs = task.sample(4).inputs
    removed = model(inputs, replace={"blocks.1.hook_mlp_out": torch.zeros(())})
    with Laser(model)([1], 0.0):
        assert torch.allclose(model(inputs), removed, atol=1e-7)


def test_weights_come_back_after_an_error_and_bad_layers_are_refused():
    _, model = small_model()
    laser, before = Laser(model), model.blocks[0].mlp.W_out.detach().clone()
    with pytest.raises(RuntimeError), laser([0], 0.1):
        raise RuntimeError
    assert torch.equal(model.blocks[0].mlp.W_out, before)
    for layers, share, words in (([2], 0.1, "layer 2"), ([0], 1.5, "share")):
        with pytest.raises(BadInput, match=words), laser(layers, share):
            pass
    bare = Transformer.for_task(Architecture(n_layers=1, d_model=8, mlp=False), NoisyBigram(), generator(0, "init"))
    with pytest.raises(BadInput, match="no feed-forward"):
        Laser(bare)


def test_a_hugging_face_model_is_truncated_alike():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed; run make language")
    shape = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=11, num_hidden_layers=2, **shape)).eval()
    laser, ids = Laser(model), torch.tensor([[1, 2, 3]])
    assert laser.layers == [0, 1]
    assert {name.split(".")[-2] for name in laser.weights[1]} == {"gate_proj", "up_proj", "down_proj"}
    with torch.no_grad():
        whole = model(ids).logits
        with laser([1], 0.25):
            assert torch.linalg.matrix_rank(model.model.layers[1].mlp.up_proj.weight) == 2
            assert not torch.allclose(model(ids).logits, whole)
        with laser([0, 1], 0.0):
            assert not model.model.layers[0].mlp(torch.randn(1, 1, 8)).any()
        assert torch.equal(model(ids).logits, whole)


# Frozen weights ----------------------------------------------------------------------------------------------------


def test_frozen_weights_stay_and_a_run_resumes(tmp_path):
    task, shape = NoisyBigram(n_tokens=8, length=16), Architecture(n_layers=1, d_model=8, mlp=True)
    recipe = Training(steps=4, batch=4, val_size=4, log_every=1, checkpoints="2", frozen="W_E, *.b_O")
    assert "frozen" not in Training().identifying()
    run = train(Config(task, shape, recipe), tmp_path / "run")
    first, last = run.at(0), run.model
    for name, weight in last.named_parameters():
        assert torch.equal(weight, first.get_parameter(name)) == (name in ("W_E", "blocks.0.attn.b_O")), name
    calls = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        train(Config(task, shape, recipe), tmp_path / "other", should_stop=lambda: next(calls))
    again = train(Config(task, shape, recipe), tmp_path / "other")
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), last.parameters(), strict=True))
    with pytest.raises(BadInput, match="nothing is left to train"):
        train(Config(task, shape, recipe.but(frozen="*")), tmp_path / "none")


# The experiment ----------------------------------------------------------------------------------------------------

ABOUT = {"run": "a", "version": "v", "seed": 0}


def judged(table: DataFrame) -> dict[str, tuple[str, float]]:
    return {claim.id: (claim.verdict, claim.number) for claim in experiment.claims(table)}


def sampled(attention_power: int) -> list[dict]:
    """Rows for 2, 4, 8, … sequences: one layer recalls all after 4, the other after a power of N."""
    rows = []
    for n_tokens in (8, 16, 32):
        for samples in (2**i for i in range(1, 11)):
            late = float(samples >= n_tokens**attention_power)
            recall = {"feed_forward_noise": float(samples >= 4), "attention_noise": late}
            errors = {"feed_forward_error": 3 / samples, "attention_error": n_tokens / samples}
            settings = {"n_tokens": n_tokens, "length": 8, "alpha": 0.5}
            rows.append({"kind": "samples", **ABOUT, **settings, "samples": samples, **recall, **errors})
    return rows


def official(late: tuple[float, float], leads: float = 200.0) -> list[dict]:
    """Two runs at p(noise) = p(correct) = ½ whose MLPs prefer noise from step 10 on; and answers without an MLP."""
    rows = []
    for run in ("o1", "o2"):
        about = {**ABOUT, "run": run, "alpha": 0.5}
        half = {"noise": 0.5, "correct": 0.5, "margin": 0.0, "top": 0.5}
        for step, margin, seen in ((0, -1.0, 0.0), (20, 1.0, 0.0), (10 + leads, 1.0, 0.4), (30 + leads, 1.0, 0.8)):
            sides = {"margin_early": margin, "margin_late": margin, "attended": seen, "attended_noise": 0.1}
            rows.append({"kind": "official curve", **about, "step": step, **half, **sides})
        for layers, matrix, share in product(("early", "late"), ("W_in", "W_out"), (0.0, 0.1)):
            noise, correct = late if layers == "late" else (0.7, 0.2)
            odds = math.log(correct / noise)
            numbers = {"noise": noise, "correct": correct, "margin": odds, "top": float(odds > 0)}
            place = {"layers": layers, "matrix": matrix, "share": share, "step": 30 + leads}
            rows.append({"kind": "official truncation", **about, **place, **numbers})
    return rows


def curve(noise: list[float], correct: list[float]) -> list[dict]:
    about = {"kind": "curve", **ABOUT, "alpha": 0.5, "trains": "last"}
    return [
        {**about, "step": 10 * i, "noise": a, "correct": b} for i, (a, b) in enumerate(zip(noise, correct, strict=True))
    ]


def truncated(late: tuple[float, float]) -> list[dict]:
    """Rows on whole models at p(noise) = p(correct) = ½, and on models without late feed-forward weights."""
    rows = []
    for trains in ("last", "both", "all"):
        about = {"kind": "truncation", **ABOUT, "run": trains, "alpha": 0.5, "trains": trains}
        for state in ("trained", "untrained"):
            for layers, share in (("none", 1.0), ("late", 0.0), ("late", 0.1), ("early", 0.0)):
                noise, correct = late if (layers, state) == ("late", "trained") and trains != "all" else (0.5, 0.5)
                odds = math.log(correct / noise)
                numbers = {"noise": noise, "correct": correct, "margin": odds, "top": float(odds > 0)}
                rows.append({**about, "state": state, "layers": layers, "share": share, **numbers})
    return rows


def spoken(best: int, turns: bool = True) -> list[dict]:
    """Rows on a six-layer model that prefers the country to " the" only without layer `best`; others if `turns`."""
    rows = []
    for prompt, layer in product(("Madrid", "Rome", "Oslo"), (-1, 0, 1, 2, 3, 4, 5)):
        turned = layer == best and (turns or prompt == "Madrid")
        correct, noise = (0.4, 0.1) if turned else (0.1, 0.4)
        place = {"layers": "none" if layer < 0 else str(layer), "first": layer, "share": 1.0 if layer < 0 else 0.0}
        ranks = {"correct_rank": 2, "noise_rank": 1, "prompt": prompt}
        rows.append({"kind": "language", **ABOUT, **place, **ranks, "correct": correct, "noise": noise})
    return rows


def test_what_was_chosen_on_one_city_is_judged_on_others():
    found = judged(
        DataFrame(
            [
                *sampled(1),
                *official((0.02, 0.95)),
                *curve([0.06, 0.5], [0.06, 0.4]),
                *truncated((0.1, 0.9)),
                *spoken(5, False),
            ]
        )
    )
    assert found["smollm2_turns_to_spain"] == ("fails", pytest.approx(math.log(0.1 / 0.4)))


def test_recall_without_noise_contradicts_the_order():
    """p(correct) reaches half of 1 − α, and p(noise) never reaches half of α."""
    steps = curve([0.06, 0.06, 0.06, 0.06], [0.06, 0.04, 0.04, 0.46])
    found = judged(DataFrame([*sampled(1), *official((0.02, 0.95)), *steps, *truncated((0.02, 0.95)), *spoken(best=5)]))
    assert found["even_noise_before_recall"] == ("fails", -math.inf)


def test_claims_hold_where_they_should():
    steps = curve([0.06, 0.5, 0.5, 0.5], [0.06, 0.04, 0.04, 0.46])
    found = judged(DataFrame([*sampled(1), *official((0.02, 0.95)), *steps, *truncated((0.02, 0.95)), *spoken(best=5)]))
    assert {verdict for verdict, _ in found.values()} == {"holds"}
    assert set(found) == set(claim_ids("noisy_bigram"))
    assert found["feed_forward_needs_few_samples"][1] == pytest.approx(0.0, abs=1e-6)
    assert found["attention_needs_samples_as_tokens"][1] == pytest.approx(1.0, abs=1e-6)
    # noise passes ¼ after 10 · 0.19 / 0.44 steps, recall after 20 + 10 · 0.21 / 0.42
    assert found["even_noise_before_recall"][1] == pytest.approx(25 - 10 * 0.19 / 0.44)
    assert found["even_removal_turns_to_the_context"][1] == pytest.approx(math.log(0.95 / 0.02))
    assert found["smollm2_turns_to_spain"][1] == pytest.approx(math.log(4))


def test_claims_fail_where_they_should():
    steps = curve([0.06, 0.06, 0.3, 0.3], [0.06, 0.4, 0.4, 0.4])
    table = DataFrame([*sampled(2), *official((0.4, 0.3), -8.0), *steps, *truncated((0.4, 0.3)), *spoken(best=1)])
    found = {name: verdict for name, (verdict, _) in judged(table).items()}
    holding = {"feed_forward_needs_few_samples", "untrained_stays_untrained", "everywhere_if_all_is_trained"}
    holding |= {"early_layer_is_no_substitute", "even_early_layer_is_no_substitute"}
    holding |= {"noise_as_often_as_it_comes", "attention_leaves_noise_out"}  # the same in both made-up tables
    assert {name for name, verdict in found.items() if verdict == "holds"} == holding
    assert "undecided" not in found.values()


def test_without_the_model_it_says_so(tmp_path, monkeypatch):
    def absent(name: str):
        raise BadInput("the model smollm2 comes in a package that is not installed")

    monkeypatch.setattr("hopscope.language.checkpoints.open_model", absent)
    Truncated().do(tmp_path, lambda: False)
    (row,) = read_json(tmp_path / ROWS)
    assert "not installed" in row["skipped"]
    steps = curve([0.06, 0.5], [0.06, 0.46])
    language = [{"kind": "language", **ABOUT, **row}]
    found = judged(DataFrame([*sampled(1), *official((0.02, 0.95)), *steps, *truncated((0.02, 0.95)), *language]))
    assert found["smollm2_turns_to_spain"][0] == found["smollm2_late_layers_only"][0] == "undecided"


def test_measured_errors_are_the_closed_forms(tmp_path):
    """Measured noise over signal is the closed form's number of samples over m, within the error of 64 trials."""
    Sampled(n_tokens=32, length=4, trials=64, most=64).do(tmp_path, lambda: False)
    exact = OneStep(32, 4, 0.5).samples
    for row in read_json(tmp_path / ROWS):
        errors = row["feed_forward_error"], row["attention_error"]
        assert errors == pytest.approx(tuple(need / row["samples"] for need in exact), rel=0.35)


def test_work_that_is_stopped_says_so(tmp_path):
    with pytest.raises(Stopped):
        Sampled().do(tmp_path, lambda: True)
    assert not list(tmp_path.iterdir())

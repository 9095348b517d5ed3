"""Optimizers against PyTorch's own on plain copies, and runs that resume bit for bit under each."""

from __future__ import annotations

import pytest
import torch

from hopscope import Architecture, BadInput, Config, Training, load, train
from hopscope.core.seeds import generator
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import Interrupted
from hopscope.training.trainer import Trainer
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import fingerprint

TASK = Retrieval(n_hops=1, n_chains=2)
SHAPE = Architecture(n_layers=2, n_heads=2, d_model=8, mlp=True)
CHOICES = ["adamw", "sgd", "sgd(momentum=0.9)", "sgd(momentum=0.9, nesterov=True)", "muon", "muon(adjust='original')"]


def config(optimizer: str, **training) -> Config:
    recipe = {"steps": 12, "batch": 4, "val_size": 4, "log_every": 2, "checkpoints": "4", "lr": 0.01, **training}
    return Config(TASK, SHAPE, Training(optimizer=optimizer, **recipe))


def trainer(optimizer: str, **training) -> Trainer:
    return Trainer(config(optimizer, **training), torch.device("cpu"))


def copies(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}


def plain_steps(ours: Trainer, theirs: list[torch.optim.Optimizer], split, n: int = 5) -> None:
    """Step ours and theirs side by side, with the same gradients: `split` gives those of the copies."""
    for step in range(n):
        ours.loss(ours.data.batch(step)).backward()
        split()
        ours.optimizer.step()
        for optimizer in theirs:
            optimizer.step()
        ours.optimizer.zero_grad()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_pytorchs(momentum):
    ours = trainer(f"sgd(momentum={momentum})", lr=0.1, weight_decay=0.05)
    mine = dict(ours.model.named_parameters())
    other = copies(mine)
    theirs = torch.optim.SGD(other.values(), lr=0.1, momentum=momentum, weight_decay=0.05)

    def split():
        for name, parameter in mine.items():
            other[name].grad = parameter.grad.clone()

    plain_steps(ours, [theirs], split)
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_muon_is_pytorchs_on_every_heads_own_matrices():
    """W_Q, W_K, W_V, W_O of each head and the MLP's two, as separate matrices, AdamW on the rest."""
    ours = trainer("muon", weight_decay=0.05)
    mine = dict(ours.model.named_parameters())
    matrices, rest = {}, {}
    for name, parameter in mine.items():
        last = name.rpartition(".")[2]
        if last == "W_QKV":
            matrices |= {(name, i, h): (lambda p, i=i, h=h: p[i, h].T) for i in range(3) for h in range(2)}
        elif last == "W_O":
            matrices |= {(name, h): (lambda p, h=h: p[h].T) for h in range(2)}
        elif last in ("W_in", "W_out"):
            matrices[(name,)] = lambda p: p.T
        else:
            rest[name] = parameter
    assert len(matrices) == 2 * (3 * 2 + 2 + 2)
    singles = {key: of(mine[key[0]].detach()).clone().requires_grad_() for key, of in matrices.items()}
    others = copies(rest)
    muon = torch.optim.Muon(singles.values(), lr=0.01, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(others.values(), lr=0.01, betas=(0.9, 0.999), weight_decay=0.05, fused=True)

    def split():
        for key, of in matrices.items():
            singles[key].grad = of(mine[key[0]].grad).clone()
        for name in rest:
            others[name].grad = mine[name].grad.clone()

    plain_steps(ours, [muon, adamw], split)
    for key, of in matrices.items():
        assert torch.allclose(of(mine[key[0]]), singles[key], atol=1e-6), key
    assert all(torch.equal(mine[name], others[name]) for name in rest)


def test_muons_first_update_is_orthogonal():
    """Without decay the first step of a square matrix is −lr · 0.2 √d times a nearly orthogonal matrix."""
    ours = trainer("muon", weight_decay=0.0)
    before = ours.model.blocks[0].attn.W_O.detach().clone()
    ours.step(0)
    moved = (before - ours.model.blocks[0].attn.W_O.detach())[0] / (0.01 * 0.2 * 8**0.5)
    assert torch.linalg.svdvals(moved).sub(1).abs().max() < 0.5  # Newton–Schulz leaves 0.5 to 1.5, as PyTorch says


@pytest.mark.parametrize("optimizer", CHOICES)
def test_a_resumed_run_has_the_bits_of_an_undisturbed_one(optimizer, tmp_path):
    whole = train(config(optimizer), tmp_path / "whole", threads=1, compile="off")
    stops = iter([False] * 4 + [True])
    with pytest.raises(Interrupted):
        train(config(optimizer), tmp_path / "halves", threads=1, compile="off", should_stop=lambda: next(stops))
    halves = train(config(optimizer), tmp_path / "halves", threads=1, compile="off")
    assert fingerprint(halves) == fingerprint(whole)
    assert whole.rows[-1]["val_loss"] != whole.rows[0]["val_loss"]


@pytest.mark.parametrize("optimizer", CHOICES)
def test_frozen_weights_stay(optimizer):
    ours = trainer(optimizer, frozen="W_E, *.W_QKV")
    before = copies(dict(ours.model.named_parameters()))
    for step in range(3):
        ours.step(step)
    for name, parameter in ours.model.named_parameters():
        stays = name == "W_E" or name.endswith("W_QKV") or "b_QKV" in name  # a bias of keys has no gradient
        assert torch.equal(parameter, before[name]) == stays or "b_QKV" in name, name


@pytest.mark.parametrize("optimizer", CHOICES)
def test_weights_thaw_as_if_training_began_with_them_then(optimizer):
    """W_U rests for two updates, W_E for the third and fourth: neither moved nor decayed, nor with a memory of it."""
    ours = trainer(optimizer, frozen="W_U@0-2, W_E@2-4", weight_decay=0.05)
    moved = []
    for step in range(6):
        if step == 2:
            late = trainer(optimizer, weight_decay=0.05)
            late.model.load_state_dict(ours.model.state_dict())
        before = copies(dict(ours.model.named_parameters()))
        ours.step(step)
        moved.append({n: not torch.equal(p, before[n]) for n, p in ours.model.named_parameters()})
        if step == 2:  # the first update of W_U is that of a training that begins here
            late.step(step)
            assert torch.equal(ours.model.W_U, late.model.W_U)
            kinds = dict(ours.optimizer.state[ours.model.W_U])
            assert all(torch.equal(kinds[k], value) for k, value in late.optimizer.state[late.model.W_U].items())
    assert [row["W_U"] for row in moved] == [False, False, True, True, True, True]
    assert [row["W_E"] for row in moved] == [True, True, False, False, True, True]
    assert all(row["b_E"] for row in moved)


@pytest.mark.parametrize("optimizer", CHOICES)
def test_a_run_with_weights_that_thaw_resumes(optimizer, tmp_path):
    recipe = config(optimizer, frozen="W_U@0-5, W_E@3-8, *.b_O")
    whole = train(recipe, tmp_path / "whole", threads=1, compile="off")
    for stop in (3, 6):
        stops = iter([False] * stop + [True])
        with pytest.raises(Interrupted):
            train(recipe, tmp_path / f"{stop}", threads=1, compile="off", should_stop=lambda stops=stops: next(stops))
        again = train(recipe, tmp_path / f"{stop}", threads=1, compile="off")
        assert fingerprint(again) == fingerprint(whole)


@pytest.mark.parametrize(
    ("frozen", "complaint"),
    [
        ("W_U@", r"must be written such as \*.W_QKV@0-150; got 'W_U@'"),
        ("@3", "must be written such as"),
        ("W_U@5-5", "must thaw after it is frozen"),
        (" ,, ", "frozen weights must be named"),
    ],
)
def test_frozen_weights_that_cannot_be_read_are_refused(frozen, complaint):
    with pytest.raises(BadInput, match=complaint):
        config("adamw", frozen=frozen)


def test_some_weight_must_be_trained_at_every_step():
    with pytest.raises(BadInput, match="nothing is left to train at step 4"):
        trainer("adamw", frozen="*@4-6")
    trainer("adamw", frozen="*@12")  # after the last update


def test_the_default_is_adamw_and_changes_no_identity():
    assert config("adamw").identity == config("adamw()").identity
    assert "optimizer" not in config("adamw").training.identifying()
    assert config("sgd").identity != config("sgd(momentum=0.5)").identity


@pytest.mark.parametrize(
    ("optimizer", "complaint"),
    [
        ("adam", "did you mean 'adamw'"),
        ("sgd(nesterov=True)", "needs a momentum above 0"),
        ("muon(adjust='no')", "must be one of match_rms_adamw, original"),
    ],
)
def test_an_optimizer_that_cannot_be_is_refused(optimizer, complaint):
    with pytest.raises(BadInput, match=complaint):
        config(optimizer)


# Losses at every layer ----------------------------------------------------------------------------------------------


def test_deep_supervision_adds_the_loss_of_what_earlier_layers_would_answer():
    """By hand: the stream after layer 0, normalised and unembedded, scored like the output; half its loss is added."""
    ours = trainer("adamw", deep_supervision=0.5)
    batch, model = TASK.sample(4), ours.model
    outputs, cache = model(batch.inputs, cache=True)
    stream = cache["resid_post", 0]
    normal = torch.nn.functional.layer_norm(stream, (8,), model.ln_final.w, model.ln_final.b, 1e-5)
    early = (normal @ model.W_U + model.b_U)[:, TASK.query_positions]
    wanted = TASK.loss(outputs[:, TASK.query_positions], batch.targets) + 0.5 * TASK.loss(early, batch.targets)
    assert float(ours.loss(batch).detach()) == pytest.approx(float(wanted.detach()), rel=1e-5)
    plain = Trainer(config("adamw"), torch.device("cpu"))
    assert float(plain.loss(batch).detach()) == pytest.approx(
        float(TASK.loss(outputs[:, TASK.query_positions], batch.targets).detach()), rel=1e-5
    )


def test_a_run_with_deep_supervision_resumes(tmp_path):
    recipe = config("adamw", deep_supervision=1.0)
    whole = train(recipe, tmp_path / "whole", threads=1, compile="off")
    stops = iter([False] * 4 + [True])
    with pytest.raises(Interrupted):
        train(recipe, tmp_path / "halves", threads=1, compile="off", should_stop=lambda: next(stops))
    assert fingerprint(train(load(tmp_path / "halves").config, tmp_path / "halves", threads=1, compile="off")) == (
        fingerprint(whole)
    )


def test_random_numbers_come_from_the_seed_alone():
    """Building models with other optimizers draws nothing: the initial weights are the same."""
    models = [Trainer(config(choice), torch.device("cpu")).model for choice in CHOICES]
    first = SHAPE.build(TASK, generator(0, "init"))
    for model in models:
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), first.parameters(), strict=True))

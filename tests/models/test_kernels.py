"""Kernels for bfloat16 on a CPU: they change nothing beyond bfloat16's rounding, and in float32 not a bit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.models import base_kernels, base_layers, transformer
from hopscope.models.base_kernels import gelu
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.trainer import Trainer

ULP = 2.0**-8  # half the distance to the next number, as a share of it: what rounding to bfloat16 costs


def every_number() -> Tensor:
    """All 65,536 bit patterns, but for what is no number, and sizes that no activation has."""
    found = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    return found[found.abs() < 1e4]


def exactly(x: Tensor) -> tuple[Tensor, Tensor]:
    """Value and derivative in float64, from the definition by tanh (its cancellation left to float64)."""
    wide = x.double().requires_grad_()
    inner = (2 / torch.pi) ** 0.5 * (wide + 0.044715 * wide**3)
    value = wide * torch.sigmoid(2 * inner)
    assert torch.allclose(value, 0.5 * wide * (1 + inner.tanh()), rtol=0, atol=1e-12)
    return value.detach(), torch.autograd.grad(value.sum(), wide)[0]


def test_gelu_of_every_number_is_the_exact_one_rounded():
    x = every_number().requires_grad_()
    y = gelu(x)
    (slope,) = torch.autograd.grad(y, x, torch.ones_like(y))
    value, derivative = exactly(x.detach())
    assert y.dtype == slope.dtype == torch.bfloat16
    assert ((y.double() - value).abs() <= 1.01 * ULP * value.abs() + 1e-30).all()
    assert (
        (slope.double() - derivative).abs() <= 1.01 * ULP * derivative.abs() + 1e-6
    ).all()  # near its zeros: float32
    with torch.no_grad():
        assert torch.equal(gelu(x), y)


def test_gelu_keeps_the_bits_of_its_version():
    """Version 1 as it was first written: runs of then are resumed to the bit."""
    assert base_kernels.KERNELS["gelu_bfloat16"] == "1"
    x = every_number()
    wide, scale, cubic = x.float(), base_kernels.SCALE, base_kernels.CUBIC
    constant = wide.new_tensor(scale)
    sigmoid = torch.addcmul(constant, wide, wide, value=scale * cubic).mul_(wide).sigmoid_()
    rising = torch.addcmul(constant, wide, wide, value=3 * scale * cubic).mul_(wide)
    slope = torch.ops.aten.sigmoid_backward(rising, sigmoid).add_(sigmoid)
    value, derivative = base_kernels.value_and_slope(x)
    assert torch.equal(value, (wide * sigmoid).bfloat16()) and torch.equal(derivative, slope.bfloat16())


def test_gelu_of_what_is_no_number_is_none():
    odd = torch.tensor([float("nan"), float("inf"), -float("inf")]).bfloat16()
    value, _ = base_kernels.value_and_slope(odd)
    assert value[0].isnan() and value[1] == float("inf")


def test_gelu_of_many_models_at_once_is_that_of_each():
    x = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    both = torch.func.grad_and_value(lambda one: gelu(one).float().sum())
    slopes, values = torch.vmap(both)(x)
    value, slope = base_kernels.value_and_slope(x)
    assert torch.equal(slopes, slope) and torch.allclose(values, value.float().sum((1, 2)))
    assert torch.equal(torch.vmap(gelu, 1, 1)(x), gelu(x))
    assert torch.equal(gelu(x.transpose(0, 2)), gelu(x).transpose(0, 2))


@pytest.mark.parametrize("piece", [7, 16, 64])
def test_gelu_in_pieces_is_gelu_at_once(piece, monkeypatch):
    x = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    whole = base_kernels.value_and_slope(x)
    monkeypatch.setattr(base_kernels, "PIECE", piece)
    assert all(torch.equal(a, b) for a, b in zip(base_kernels.value_and_slope(x), whole, strict=True))


def trainer(dtype: str, **shape: object) -> Trainer:
    training = Training(steps=9, batch=64, dtype=dtype, lr=3e-3)
    config = Config(
        Retrieval(n_hops=2, n_chains=2),
        Architecture(n_layers=3, n_heads=2, d_model=32, **{"mlp": True, **shape}),
        training,
    )
    return Trainer(config, torch.device("cpu"))


def gradient(trainer: Trainer) -> Tensor:
    """Of the first batch, all weights in a row."""
    trainer.loss(trainer.data.batch(0)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in trainer.model.parameters()])


def as_pytorch_has_it(monkeypatch) -> None:
    monkeypatch.setattr(base_layers, "gelu", lambda x: F.gelu(x, approximate="tanh"))
    monkeypatch.setattr(transformer, "reads_last_layer_in_part", lambda *_: False)


def test_gradients_differ_from_pytorchs_by_less_than_bfloat16_does_from_float32(monkeypatch):
    ours, exact = gradient(trainer("bfloat16")), gradient(trainer("float32"))
    as_pytorch_has_it(monkeypatch)
    theirs = gradient(trainer("bfloat16"))
    assert not torch.equal(ours, theirs)
    assert (ours - theirs).norm() < (theirs - exact).norm()
    assert (ours - exact).norm() < 1.1 * (theirs - exact).norm()


@pytest.mark.parametrize("positions", ["input", "rotary", "relative"])
@pytest.mark.parametrize("attention", catalogue.names("models.attention"))
def test_the_last_layer_is_computed_where_it_is_read(attention, positions, monkeypatch):
    made = trainer("bfloat16", attention=attention, positions=positions)
    batch, rows, queries = made.data.batch(0), [], []
    attend = type(made.model.blocks[0].attn.rule).attend
    watched = lambda self, q, *others: queries.append(q.shape[2]) or attend(self, q, *others)  # noqa: E731
    monkeypatch.setattr(type(made.model.blocks[0].attn.rule), "attend", watched)
    for block in made.model.blocks:
        block.mlp.register_forward_pre_hook(lambda _, given: rows.append(given[0].shape[1]))
    low = made.outputs(batch).detach()
    n = batch.inputs.shape[1]
    read = len(range(n)[batch.task.query_positions])
    assert rows == [n, n, read]
    assert queries == ([n, n, read] if made.model.architecture.rule.writes_locally else [n, n, n])
    as_pytorch_has_it(monkeypatch)
    everywhere, exact = made.outputs(batch), made.model(batch.inputs, at=batch.task.query_positions)
    assert (low - exact).norm() < 1.5 * (everywhere - exact).norm()


def test_float32_keeps_every_bit(monkeypatch):
    ours = trainer("float32")
    losses = [ours.step(step) for step in range(3)]
    as_pytorch_has_it(monkeypatch)
    plain = trainer("float32")
    assert losses == [plain.step(step) for step in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(ours.model.parameters(), plain.model.parameters(), strict=True))


def test_only_what_uses_them_records_them():
    assert trainer("bfloat16").model.kernels("bfloat16") == base_kernels.KERNELS
    assert trainer("bfloat16", mlp=False).model.kernels("bfloat16") == {"last_layer_bfloat16": "1"}
    assert trainer("float32").model.kernels("float32") == {}
    looks_back = {"last_layer_bfloat16": "2"}
    assert trainer("bfloat16", attention="h_minus_one", mlp=False).model.kernels("bfloat16") == looks_back

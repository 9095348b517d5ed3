"""`wrap`: any module that attends by PyTorch's functions, against modules and ablations written without our code."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES, Plain, V, data, of_family, pairs
from torch import nn

import hopscope
from hopscope.circuits.discovery import Discovery
from hopscope.circuits.program_trial import unsaid
from hopscope.core.settings import BadInput

SMALL = Discovery(discovery=32, selection=48, report=64)
PATHS = {"L0H0 answer->asked", "L1H0 query->answer"}
WAYS = ["sdpa", "sdpa mask", "bmm", "einsum"]


def found_in(model, **given):
    return hopscope.find_circuit(model, *data(512), roles=pairs, settings=SMALL, **given)


@pytest.mark.parametrize("how", ["sdpa", "bmm"])
def test_an_induction_circuit_of_plain_pytorch_is_found_with_who_feeds_whom(how):
    model = Plain(how).train()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    found = found_in(model)
    assert found.verdict == "circuit" and {str(part.path) for part in found.circuit.paths} == PATHS
    fed = [(one.part, str(one.source), str(one.path)) for one in found.circuit.supplies]
    assert fed == [("key", "L0H0 answer->asked", "L1H0 query->answer")]
    assert model.training and all(torch.equal(value, model.state_dict()[name]) for name, value in weights.items())
    assert torch.overrides._get_current_function_mode_stack() == []
    assert unsaid(found.circuit) == ""
    weak = dataclasses.replace(found.circuit, verdict="partial")
    assert unsaid(weak) == "Its paths are no circuit (verdict: partial). "
    told = found.program(longer=(torch.tensor([[*range(20), 7]] * 2), torch.tensor([8, 9])))
    assert [(one.agrees, one.n) for one in told.trials] == [(256, 256), (256, 256), (1, 2)]
    assert "what is right, longer: 1 of 2" in str(told)


@pytest.mark.parametrize("how", WAYS)
def test_its_losses_are_those_of_heads_that_its_owner_makes_idle(how):
    """What leaving a path out costs is measured by attention that is even by the module's own hand."""
    inputs, targets = data(512)
    model = Plain(how)
    wrapped = hopscope.wrap(model)
    past = torch.ones(9, 9).tril()
    even = past / past.sum(-1, keepdim=True)
    with torch.no_grad():
        for layer, part in enumerate((model.first, model.second)):
            ours = wrapped(inputs, replace={f"blocks.{layer}.attn.hook_pattern": even})
            part.even = True
            theirs = model(inputs)
            part.even = False
            assert torch.allclose(ours, theirs, atol=1e-5)
            assert float(F.cross_entropy(theirs[:, -1], targets)) > 1


def test_of_an_einsum_queries_keys_and_values_cannot_be_had():
    names = hopscope.wrap(Plain("einsum")).activation_names
    assert [name for name in names if ".attn." in name] == [f"blocks.{i}.attn.hook_pattern" for i in (0, 1)]


def test_activations_are_those_that_are_computed_by_hand():
    model = Plain("bmm")
    inputs, _ = data(16)
    wrapped = hopscope.wrap(model)
    assert "Plain" in repr(wrapped) and "n_layers=2" in repr(wrapped) and "blocks.0.attn.hook_z" in repr(wrapped)
    logits, cache = wrapped(inputs, cache=True)
    x = torch.zeros(*inputs.shape, 45)
    x[..., :12], x[..., 12:21] = F.one_hot(inputs, V).float(), torch.eye(9)
    q, k, v = x @ model.first.Q, x @ model.first.K, x @ model.first.V
    scores = (q @ k.mT / math.sqrt(45)).masked_fill(~torch.ones(9, 9).bool().tril(), -math.inf)
    by_hand = {"q": q, "k": k, "v": v, "z": scores.softmax(-1) @ v}
    assert torch.allclose(cache["pattern", 0][:, 0], scores.softmax(-1), atol=1e-6)
    assert all(torch.allclose(cache[name, 0][:, :, 0], value, atol=1e-5) for name, value in by_hand.items())
    assert torch.equal(logits, model(inputs))


class Encoder(nn.Module):
    """PyTorch's own layers, which have a fast path of their own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(V, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.5, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens):
        return self.layers(self.embed(tokens))


def test_layers_of_pytorch_are_seen_through():
    model, (inputs, _) = Encoder(), data(16)
    wrapped = hopscope.wrap(model)
    shape = wrapped.architecture
    assert (shape.n_layers, shape.n_heads, shape.d_model, shape.causal) == (2, 4, 16, False)
    assert model.training and all(part.training for part in model.modules())
    model.eval()
    with torch.no_grad():
        logits, cache = wrapped(inputs, cache=True)
        assert torch.allclose(logits, model(inputs), atol=1e-5)
        embedded = model.embed(inputs)
        _, weights = model.layers.layers[0].self_attn(embedded, embedded, embedded, average_attn_weights=False)
    assert torch.allclose(cache["pattern", 0], weights, atol=1e-6)


# Hugging Face ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_transformers_are_as_they_were_and_tell_their_patterns(family):
    """Grouped keys, rotary positions, windows, caps, sinks: the patterns are those that the library itself returns."""
    pytest.importorskip("transformers")
    model, (inputs, _) = of_family(family), data(8)
    before = model.config._attn_implementation
    with torch.no_grad():
        logits, cache = hopscope.wrap(model)(inputs, cache=True)
        assert torch.allclose(logits, model(inputs).logits, atol=1e-5)
        assert model.config._attn_implementation == before
        model.set_attn_implementation("eager")
        known = model(inputs, output_attentions=True)
    assert torch.allclose(logits, known.logits, atol=1e-5)
    for layer, pattern in enumerate(known.attentions):
        assert torch.allclose(cache["pattern", layer], pattern, atol=1e-6)
        assert cache["q", layer].shape == cache["k", layer].shape == cache["z", layer].shape == (8, 9, 4, 12)


@pytest.mark.parametrize("family", ["Llama", "gpt-oss"])
def test_what_heads_say_is_replaced_as_a_hook_of_the_owner_would(family):
    """Of grouped keys: the third head alone is silenced before the output projection."""
    pytest.importorskip("transformers")
    model, (inputs, _) = of_family(family), data(8)
    silence = torch.ones(4, 1)
    silence[2] = 0
    hook = model.model.layers[1].self_attn.o_proj.register_forward_pre_hook(
        lambda part, given: (given[0] * silence.expand(4, 12).flatten(),)
    )
    with torch.no_grad():
        known = model(inputs).logits
        hook.remove()
        wrapped = hopscope.wrap(model)
        ours = wrapped(inputs, replace={"blocks.1.attn.hook_z": lambda z: z * silence})
        pattern = wrapped(inputs, replace={"blocks.1.attn.hook_pattern": lambda p: p * silence[..., None]})
    assert torch.allclose(ours, known, atol=1e-5) and torch.allclose(pattern, known, atol=1e-5)


def test_halves_are_halves():
    pytest.importorskip("transformers")
    model = of_family("Llama").to(torch.bfloat16)
    with torch.no_grad():
        assert torch.allclose(hopscope.wrap(model)(data(8)[0]), model(data(8)[0]).logits.float(), atol=5e-3)


class Hooked(Plain):
    """TransformerLens of a version to come, whose hooks are called otherwise."""

    cfg = None

    def run_with_hooks(self, *_, **__):
        raise KeyError("blocks.0.attn.hook_pattern")


def test_a_library_whose_hooks_nobody_knows_is_seen_through_as_any_module():
    inputs, _ = data(16)
    ours, cache = hopscope.wrap(Hooked())(inputs, cache=True)
    known, same = hopscope.wrap(Plain())(inputs, cache=True)
    assert torch.equal(ours, known) and torch.equal(cache["pattern", 1], same["pattern", 1])


# Nothing is left behind ------------------------------------------------------------------------------------------


def failing(after):
    """A hook, or a loss, that fails when it has been called some times."""
    seen = iter(range(after))

    def fail(*_):
        if next(seen, None) is None:
            raise ArithmeticError("of the owner's making")

    return fail


@pytest.mark.parametrize("part", ["loss", "forward"])
@pytest.mark.parametrize("after", [0, 12])
def test_nothing_outlives_an_error(part, after):
    """In the owner's loss, or between two layers, at once or in the midst of the search."""
    model, fail = Plain().train(), failing(after)
    if part == "forward":
        hook = model.second.register_forward_pre_hook(fail)
    loss = (lambda outputs, targets: fail() or F.cross_entropy(outputs, targets)) if part == "loss" else None
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises((ArithmeticError, BadInput), match="of the owner's making"):
        found_in(model, loss=loss)
    if part == "forward":
        hook.remove()
    assert torch.overrides._get_current_function_mode_stack() == []
    assert model.training and all(torch.equal(value, model.state_dict()[name]) for name, value in weights.items())
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
    assert all(one.grad is None for one in model.parameters())


def test_an_error_leaves_transformers_as_it_was():
    pytest.importorskip("transformers")
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    registered = lambda: [dict(one) for one in (ALL_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS)]  # noqa: E731
    model, (inputs, _), before = of_family("Llama"), data(8), registered()
    own, logits, wrapped = model.config._attn_implementation, model(inputs).logits, hopscope.wrap(model)
    with pytest.raises(ArithmeticError):
        wrapped(inputs, replace={"blocks.1.attn.hook_pattern": failing(0)})
    assert registered() == before and model.config._attn_implementation == own
    assert torch.overrides._get_current_function_mode_stack() == []
    assert torch.equal(model(inputs).logits, logits)


# Forms of answers ------------------------------------------------------------------------------------------------


class Answers(nn.Module):
    """A model whose answers have some other form."""

    def __init__(self, form):
        super().__init__()
        self.inner, self.form = Plain(), form

    def forward(self, tokens, targets=None):
        return self.form(self.inner(tokens))


@pytest.mark.parametrize(
    "form",
    [
        lambda y: (y, None),
        lambda y: {"logits": y, "loss": None},
        lambda y: (y[:, [-1]], None),  # as nanoGPT answers without targets
        lambda y: y[:, -1],
    ],
)
def test_logits_are_found_in_what_is_put_out(form):
    inputs, _ = data(4)
    assert torch.allclose(hopscope.wrap(Answers(form), inputs)(inputs, at=slice(-1, None)), Plain()(inputs)[:, -1:])


class Forked(Plain):
    """Attends by other calls when there are many rows."""

    def forward(self, tokens):
        return super().forward(tokens) + (torch.softmax(torch.zeros(1), 0) if len(tokens) > 2 else 0)


class Idle(Plain):
    def forward(self, tokens):
        return super().forward(tokens) * 0 + F.one_hot(tokens, V)


class Mixed(Plain):
    """Adds to its logits something of the other rows of the batch."""

    def __init__(self, mix):
        super().__init__()
        self.mix = mix

    def forward(self, tokens):
        logits = super().forward(tokens)
        return logits + 0.2 * self.mix(logits)


MIXED = "what a row attends to or puts out depends on the other rows of the batch"
ERRORS = {
    "next row": (lambda: Mixed(lambda y: y.roll(1, 0)), MIXED),
    "mean of rows": (lambda: Mixed(lambda y: -y.mean(0, keepdim=True)), MIXED),
    "two next rows": (lambda: Mixed(lambda y: y.roll(1, 0) - y.roll(2, 0)), MIXED),
    "batch norm": (lambda: Mixed(lambda y: (y - y.mean((0, 1))) / y.std((0, 1)).clamp(min=0.1)), MIXED),
    "no attention": (lambda: nn.Linear(9, 9), "no attention was seen in a Linear: softmax was not called"),
    "by hand": (lambda: Plain("by hand"), "no attention was seen in a Plain: softmax was not called.*attend by torch"),
    "idle": (Idle, "setting every attention pattern of a Idle to 0 changes no output"),
    "no logits": (lambda: Answers(lambda y: y.mean()), r"logits \(row, position, output\).*shape \(\)"),
    "words": (lambda: Answers(lambda y: "yes"), r"logits \(row, position, output\).*got a str"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_cannot_be_wrapped_is_told_in_one_sentence(case):
    make, words = ERRORS[case]
    inputs = torch.randn(2, 7, 9) if case == "no attention" else data(4)[0]
    with pytest.raises(BadInput, match=words):
        hopscope.wrap(make(), inputs)


def test_a_new_tensor_is_of_another_format_than_the_model_s():
    torch.set_default_dtype(torch.float64)
    try:
        assert hopscope.wrap(Plain().double(), data(4)[0]).architecture.normalised
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_model_that_attends_otherwise_later_is_refused():
    wrapped = hopscope.wrap(Forked(), data(4)[0])
    with pytest.raises(BadInput, match="makes other attention calls than in its first pass"):
        wrapped(data(4)[0])


def test_a_model_that_answers_once_is_read_at_its_end_alone():
    with pytest.raises(BadInput, match="has one output per row"):
        hopscope.wrap(Answers(lambda y: y[:, -1]), data(4)[0])(data(4)[0], at=slice(0, 2))


def test_what_is_no_module_is_refused():
    with pytest.raises(BadInput, match=r"must be a torch\.nn\.Module; got a int"):
        hopscope.wrap(3)

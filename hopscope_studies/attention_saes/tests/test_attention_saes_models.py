"""Measurements and ablations of a small random language model, against transformers' own numbers."""

from __future__ import annotations

import numpy
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from hopscope.language.checkpoints import Opened
from hopscope.language.lens.ablation import Ablate
from hopscope.language.lens.attention import Lens, Seen
from hopscope.probes.sparse_autoencoder import SparseTraining
from hopscope_studies.attention_saes import features, heads
from hopscope_studies.attention_saes.features import Splice, below, fitted, layer_report, principal, share
from hopscope_studies.attention_saes.kinds import by_source
from hopscope_studies.attention_saes.prefixes import Sequences, looks, sequences, without
from hopscope_studies.attention_saes.tests.made_up import HEADS, LAYER
from tests.language import planted
from tests.language.of_models import fields

LAYER_READ = 1


class Bytes:
    """A tokenizer of bytes."""

    bos_token_id = 1
    all_special_ids = (0, 1)

    def __len__(self) -> int:
        return 258

    def __call__(self, text: str, add_special_tokens: bool = False) -> dict[str, list[int]]:
        return {"input_ids": [2 + byte for byte in text.encode()]}


@pytest.fixture(scope="module")
def lens():
    """A random model of three layers with four heads."""
    state = torch.get_rng_state()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=258, hidden_size=32, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, initializer_range=0.2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
    torch.set_rng_state(state)
    return Lens(Opened(model, Bytes(), "random", {}))


@pytest.fixture(scope="module")
def drawn(lens):
    return sequences(heads.vocabulary(lens), 6, torch.Generator().manual_seed(0), 1)


def test_scores_and_log_probabilities_are_the_models_own(lens, drawn):
    seen = looks(lens, drawn)
    lens.model.set_attn_implementation("eager")
    try:
        for condition in (0, 3):
            out = lens.model(drawn.ids[condition], output_attentions=True)
            for row, place in enumerate(drawn.place.tolist()):
                wanted = torch.stack([pattern[row, :, -1, place] for pattern in out.attentions])
                assert torch.allclose(seen.scores[row, condition], wanted, atol=1e-5)
                log_p = out.logits[row, -1].log_softmax(-1)[drawn.right[row]]
                assert float(seen.log_p[row, condition]) == pytest.approx(float(log_p), abs=1e-4)
    finally:
        lens.model.set_attn_implementation("hopscope")


def test_direct_effects_add_up_to_the_logit(lens, drawn):
    """With the contributions of the embedding and the MLPs, they add up to the logit minus the mean logit."""
    ids = drawn.ids[2]
    added: list[torch.Tensor] = [lens.embed(ids)[:, -1]]
    hooks = [layer.mlp.register_forward_hook(lambda _, __, out: added.append(out[:, -1])) for layer in lens.layers]
    streams: list[torch.Tensor] = []
    norm = lens.model.model.norm
    hooks.append(norm.register_forward_pre_hook(lambda _, args: streams.append(args[0][:, -1])))
    logits = lens.run(lens.embed(ids), Seen())
    for hook in hooks:
        hook.remove()
    reads = lens.model.lm_head.weight[drawn.right] - lens.model.lm_head.weight.mean(0)
    scale = norm.weight / (streams[0].square().mean(-1, keepdim=True) + norm.variance_epsilon).sqrt()
    rest = (torch.stack(added).sum(0) * scale * reads).sum(-1)
    wanted = logits.gather(1, drawn.right[:, None])[:, 0] - logits.mean(1)
    found = looks(lens, drawn).direct[:, 2].sum((1, 2)) + rest
    assert torch.allclose(found, wanted, atol=1e-4)


def test_direct_effects_add_up_behind_gemmas_norms():
    """Gemma normalises the sum of the heads' outputs; with the norm's scale held fixed, contributions still add up."""
    opened = planted.random_gemma()
    lens = Lens(opened)
    ids = torch.randint(2, len(planted.WORDS), (3, 20), generator=torch.Generator().manual_seed(0))
    some = Sequences(ids[None], torch.tensor([4, 9, 17]))
    added, streams, norm = [lens.embed(ids)[:, -1]], [], lens.model.model.norm
    behind = [layer.post_feedforward_layernorm for layer in lens.layers]
    hooks = [one.register_forward_hook(lambda _, __, out: added.append(out[:, -1])) for one in behind]
    hooks.append(norm.register_forward_pre_hook(lambda _, args: streams.append(args[0][:, -1])))
    logits = lens.run(lens.embed(ids), Seen())
    for hook in hooks:
        hook.remove()
    reads = lens.model.lm_head.weight[some.right] - lens.model.lm_head.weight.mean(0)
    scale = (1 + norm.weight) / (streams[0].square().mean(-1, keepdim=True) + norm.eps).sqrt()
    rest = (torch.stack(added).sum(0) * scale * reads).sum(-1)
    wanted = logits.gather(1, some.right[:, None])[:, 0] - logits.mean(1)
    found = looks(lens, some).direct[:, 0].sum((1, 2)) + rest
    assert torch.allclose(found, wanted, atol=1e-3 * float(wanted.abs().max()))


def test_heads_cut_from_the_middle_are_as_cut_from_the_start(lens, drawn):
    sets = [[(1, 0), (2, 3)], [(2, 1)]]
    found = without(lens, drawn, sets, (1, 5))
    for number, condition in enumerate((1, 5)):
        for index, some in enumerate(sets):
            logits = lens.run(lens.embed(drawn.ids[condition]), Ablate(some))
            wanted = logits.log_softmax(-1).gather(1, drawn.right[:, None])[:, 0]
            assert torch.allclose(found[index, :, number], wanted, atol=1e-4)


@pytest.fixture(scope="module")
def splice(lens):
    ids = torch.randint(2, 258, (3, 20), generator=torch.Generator().manual_seed(0))
    ids[:, 0] = 1
    return Splice.of(lens, ids, LAYER_READ)


def test_losses_with_outputs_put_in_the_layers_place(lens, splice):
    own = lens.model(splice.ids).logits
    wanted = torch.nn.functional.cross_entropy(own[:, 1:-1].flatten(0, 1), splice.ids[:, 2:].flatten())
    clean, zero = splice.loss(), splice.loss(torch.zeros_like(splice.z))
    assert float(clean.mean()) == pytest.approx(float(wanted), abs=1e-4)
    assert torch.allclose(splice.loss(splice.z), clean, atol=1e-5)
    assert float((zero - clean).abs().min()) > 1e-3
    assert share(clean, zero, clean)["mean"] == pytest.approx(1) and share(clean, zero, zero)["mean"] == 0
    halfway = share(clean, zero, (clean + zero) / 2)
    assert halfway["low"] == pytest.approx(0.5, abs=1e-3) and halfway["high"] == pytest.approx(0.5, abs=1e-3)
    assert below(clean, [clean + 1, clean + 0.5])["mean"] == pytest.approx(0.5, abs=1e-5)


def test_principal_components_and_least_squares_by_numpy():
    z = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 7)
    u, s, v = numpy.linalg.svd((z - z.mean(0)).double().numpy(), full_matrices=False)
    wanted = (u[:, :2] * s[:2]) @ v[:2] + z.mean(0).numpy()
    assert numpy.allclose(principal(z, 2)(z).numpy(), wanted, atol=1e-3)
    rows = torch.nn.functional.normalize(torch.randn(9, 6, generator=torch.Generator().manual_seed(1)), dim=1)
    again = fitted(z, rows, 3)
    for vector, found in zip(z, again, strict=True):
        chosen = rows[(rows @ vector).topk(3).indices].double().numpy()
        weights = numpy.linalg.lstsq(chosen.T, vector.double().numpy(), rcond=None)[0]
        assert numpy.allclose(found.numpy(), weights @ chosen, atol=0.1)


def test_made_up_reports_have_the_fields_of_real_ones(lens, monkeypatch):
    monkeypatch.setattr(features, "DRAWS", 2)
    monkeypatch.setattr(heads, "DRAWS", 2)
    both = iter([[(1, 0)], [(2, 1)]] + [[]] * 4)
    monkeypatch.setattr(heads, "chosen", lambda scores, kind: next(both))
    found = heads.heads_report(lens, 4, 0, False, lambda _: None)
    assert fields(found) == fields(HEADS)
    training = SparseTraining(steps=3, batch=8, expansion=2)
    found = layer_report(lens, LAYER_READ, training, (1.0, 2.0), (3, 2), lambda _: None)
    found["losses"] = {name: one for name, one in found["losses"].items() if name in LAYER["losses"]}
    assert fields(found) == fields(LAYER)
    assert [one["l1"] for one in found["tried"]] == [1.0, 2.0]
    sparse = [one["l1"] for one in found["tried"] if one["trained_l0"] < features.SPARSE]
    assert found["l1"] == min(sparse, default=2.0)
    (taken,) = [one for one in found["tried"] if one["l1"] == found["l1"]]
    assert taken["recovered"] == found["recovered"]["features"] and taken["l0"] == pytest.approx(found["l0"])


def test_layers_are_caught_in_one_pass_and_read_by_source(lens):
    ids = torch.randint(2, 258, (3, 20), generator=torch.Generator().manual_seed(1))
    seen = Seen()
    with torch.no_grad():
        lens.run(lens.embed(ids), seen)
    ((some, caught),) = features.caught(lens, ids, 1)
    assert len(caught.outputs) == len(caught.v) == 2  # the pass ends after layer 1
    wanted = seen.outputs[1][:, 1:].flatten(2)
    assert torch.allclose(features.outputs(lens, ids, 1), wanted, atol=1e-6)
    parts = by_source(caught.patterns[1], caught.v[1], some)
    assert torch.allclose(parts.sum(2).flatten(1), wanted.flatten(0, 1), atol=1e-5)


def test_rows_on_features_by_source_name_layers_and_controls(lens):
    training = SparseTraining(steps=3, batch=8, expansion=2)
    rows = list(features.layer_kinds(lens, (0, 2), training, (3, 2), lambda _: None))
    assert {one["step"] for one in rows} == {0, 2}
    assert {one["other"] for one in rows if one["kind"] == "share"} == {"own", "another's", "untrained"}
    shares = [one["value"] for one in rows if one["kind"] == "share" and one["other"] == "untrained"]
    assert sum(shares) == pytest.approx(2)  # 1 in each layer

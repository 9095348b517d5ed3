"""Language models in memory: studied through a twin that shares their weights, whatever they are wrapped in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import hopscope
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.language.lent import lent
from hopscope.live.language import Found, reading_of
from hopscope_studies.real_hop.language.study import CircuitStudy
from hopscope_studies.stacked_heads.language.hop import HeadStudy
from hopscope_studies.stacked_heads.language.study import study
from tests.language import planted
from tests.language.planted import Lines, Plain

ROOT = Path(__file__).parents[2]
FEW = CircuitStudy(count=16, random=3)
ASKED = {"formulation": Lines(), "layout": Plain()}
IDS = torch.arange(12)[None] % len(planted.WORDS)


class Wrapper(nn.Module):
    """What TransformerLens puts around every part of a model."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self._original_component = part

    def forward(self, *args, **kwargs):
        return self._original_component(*args, **kwargs)


class Bridge:
    """As much of a TransformerBridge as is looked at."""

    def __init__(self, model):
        for layer in model.model.layers:
            for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                setattr(layer.self_attn, name, Wrapper(getattr(layer.self_attn, name)))
        model.model.norm = Wrapper(model.model.norm)
        model.lm_head = Wrapper(model.lm_head)
        self.original_model, self.tokenizer = model, planted.tokenizer()

    def __call__(self, ids):
        return self.original_model(ids).logits


class Tracer:
    """As much of an nnsight model as is looked at."""

    def __init__(self, model):
        self._module, self.tokenizer = model, planted.tokenizer()


def test_the_planted_circuit_of_a_lent_model_is_found_and_nothing_is_left_behind():
    owned = planted.planted().model.train()
    owned.model.layers[1].eval()
    before, modes = owned(IDS).logits, [part.training for part in owned.modules()]
    found = hopscope.find_hop(
        owned, planted.tokenizer(), formulation=Lines(), layout=Plain(), settings=FEW, name="mine"
    )
    assert {row["node"] for row in found.report["nodes"]} == planted.NODES
    assert found.report["model"] == "mine" and "mine: 1.000 right" in str(found)
    assert found.diagram().axes
    assert owned.config._attn_implementation == "sdpa"
    assert torch.equal(owned(IDS).logits, before) and [part.training for part in owned.modules()] == modes
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in owned.modules())


def test_heads_are_those_of_a_model_that_was_opened(tmp_path):
    settings = HeadStudy(count=48, tests=8)
    found = hopscope.find_heads(
        planted.planted().model, planted.tokenizer(), formulation=Lines(), layout=Plain(), settings=settings
    )
    known = study(planted.planted(), Lines(), Plain(), settings, lambda _: None)
    own = ("model", "identity", "seconds")
    assert {k: v for k, v in found.report.items() if k not in own} == {
        k: v for k, v in known.report.items() if k not in own
    }
    assert found.table.to_dict("records") == known.rows()
    assert {"heads.json", "table.csv", "scores.png"} <= {file.name for file in found.save(tmp_path)}
    assert str(found).startswith("LlamaForCausalLM: attention on")


@pytest.mark.parametrize("make", [planted.planted, planted.random_gemma])
@pytest.mark.parametrize("wrap", [lambda model: model, Tracer, Bridge])
def test_a_twin_computes_the_same_with_the_same_memory(make, wrap):
    opened = make()
    before = opened.model(IDS).logits
    weights = {weight.data_ptr() for weight in opened.model.parameters()}
    twin = lent(wrap(opened.model), opened.tokenizer).model
    assert torch.equal(twin(IDS).logits, before)
    assert {weight.data_ptr() for weight in twin.parameters()} == weights


def test_identity_is_of_the_weights():
    ours, theirs = planted.planted(), planted.planted()
    assert lent(ours.model, ours.tokenizer).identity == lent(theirs.model, theirs.tokenizer).identity
    theirs.model.lm_head.weight[0, 0] += 1
    assert lent(ours.model, ours.tokenizer).identity != lent(theirs.model, theirs.tokenizer).identity


def test_folded_weights_are_refused():
    bridge = Bridge(planted.random_gemma().model)
    bridge.original_model.model.norm = nn.Identity()
    with pytest.raises(
        BadInput, match=r"weights are not those of a Gemma3ForCausalLM: there is no model\.norm\.weight"
    ):
        lent(bridge)
    doubled = Bridge(planted.random_gemma().model)
    inner = doubled.original_model.lm_head._original_component
    doubled.original_model.lm_head.forward = lambda x: 2 * inner(x)
    with pytest.raises(BadInput, match="as it was loaded, without folded norms"):
        lent(doubled)


@pytest.mark.parametrize(
    ("model", "tokenizer", "said"),
    [
        (lambda: planted.planted().model, None, "no tokenizer; give it as tokenizer="),
        (lambda: nn.Linear(2, 2), "some", "Linear holds no Hugging Face causal language model"),
        (lambda: object(), "some", "object holds no"),
        (lambda: planted.planted().model.to("meta"), "some", "must be on the CPU, and is on meta"),
    ],
)
def test_what_cannot_be_studied_is_refused_in_a_sentence(model, tokenizer, said):
    with pytest.raises(BadInput, match=said):
        lent(model(), tokenizer)


def test_halves_are_refused():
    opened = planted.planted()
    with pytest.raises(BadInput, match="studied in float32"):
        hopscope.find_heads(opened.model.bfloat16(), opened.tokenizer, **ASKED)


def test_every_reading_of_a_study_has_a_report_of_its_own():
    found = {kind.kind: reading_of(kind) for kind in Found.__subclasses__()}
    assert set(found) == set(catalogue.names("language.readings"))
    assert len({reading.file for reading in found.values()}) == len(found)
    assert all(reading.settings().as_dict()["seed"] == 0 for reading in found.values())


@pytest.mark.peers
def test_bridges_and_nnsight_models_of_the_libraries_themselves():
    python = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"there is no {python}; `make peers` builds the environment that these libraries live in")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    script = ROOT / "tests" / "live" / "wrapped.py"
    done = subprocess.run([python, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.strip().split("\n")[-1])
    for name in ("TransformerBridge", "nnsight"):
        assert set(report[name]["nodes"]) == planted.NODES, name
        assert report[name]["unchanged"], name
    assert "as it was loaded, without folded norms" in report["folded"] or "weights are not those" in report["folded"]

"""The planted Llama behind TransformerLens 3 and nnsight, studied through both; run in the environment of the peers."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import torch

import hopscope
from hopscope.core.settings import BadInput
from hopscope.language.lent import lent
from hopscope_studies.real_hop.language.study import CircuitStudy
from tests.language import planted
from tests.language.planted import Lines, Plain

FEW = CircuitStudy(count=16, random=3)
IDS = torch.arange(12)[None] % len(planted.WORDS)


def found(model: Any) -> dict[str, Any]:
    before = logits(model)
    made = hopscope.find_hop(model, formulation=Lines(), layout=Plain(), settings=FEW)
    return {
        "nodes": [row["node"] for row in made.report["nodes"]],
        "unchanged": torch.equal(before, logits(model)),
    }


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        out = (model._module if hasattr(model, "_module") else model)(IDS)
    return getattr(out, "logits", out).clone()


def bridge(folder: str) -> Any:
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(folder)


def folded() -> str:
    """What is said of a bridge whose norms were folded into other weights; empty if it is taken."""
    model = planted.random_gemma().model
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.copy_(0.1 * torch.arange(len(weight)))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        planted.tokenizer().save_pretrained(folder)
        whole = bridge(folder)
        assert (lent(whole).model(IDS).logits - model(IDS).logits).abs().max() < 1e-5
        whole.enable_compatibility_mode(disable_warnings=True)
    try:
        lent(whole)
    except BadInput as error:
        return str(error)
    return ""


def main() -> None:
    from nnsight import LanguageModel

    opened = planted.planted()
    with tempfile.TemporaryDirectory() as folder:
        opened.model.save_pretrained(folder)
        opened.tokenizer.save_pretrained(folder)
        report: dict[str, Any] = {"TransformerBridge": found(bridge(folder))}
    report["nnsight"] = found(LanguageModel(opened.model, tokenizer=opened.tokenizer))
    report["folded"] = folded()
    print(json.dumps(report))
    sys.stdout.flush()


if __name__ == "__main__":
    main()

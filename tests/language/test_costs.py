"""The cost table: weights counted as they are, and a measured model's cost computed from itself."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from bench.language_costs import OTHERS, Size, computed
from tests.language import planted


def test_weights_are_those_of_the_model():
    model = planted.llama(n_layers=3)
    matrices = {name: weight.numel() for name, weight in model.named_parameters() if "norm" not in name}
    size = Size.of(model.config)
    assert size.in_layers == sum(n for name, n in matrices.items() if "layers" in name)
    assert size.weights + planted.WIDTH * len(planted.WORDS) == sum(matrices.values())  # this one's are not tied
    assert size.nodes == 3 * 5


def test_published_models_have_their_published_sizes():
    published = {"SmolLM2-135M": 134.5, "Gemma-3-270M": 268.1, "Llama-3.2-1B": 1235.8}
    for name, millions in published.items():
        assert OTHERS[name].weights / 1e6 == pytest.approx(millions, rel=1e-3)


def test_cost_grows_with_passes_and_acdc_also_with_nodes():
    small = Size(2, 8, 16, 2, 1, 4, 48)
    deep = Size(4, 8, 16, 2, 1, 4, 0)
    known = {
        "size": vars(small),
        "peak_bytes": 4 * small.weights + 1000,
        "heads": {"whole": 10.0},
        "circuit": {"ACDC on the same draws": 3.0, "whole": 5.0},
    }
    same = computed(small, known)
    assert same == {"heads": 10, "circuit": 5, "circuit_without_acdc": 2, "bytes": known["peak_bytes"]}
    # 1152 weights in two layers, and a 48th of 384 for the vocabulary, which the deeper model does not have.
    ratio = 2304 / 1160
    more = computed(deep, known)
    assert small.in_layers == 1152 and more["heads"] == pytest.approx(10 * ratio)
    assert more["circuit"] == pytest.approx(2 * ratio + 3 * ratio * 2)
    assert more["bytes"] == 4 * 2304 + 2000

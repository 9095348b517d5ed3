"""Tests of `sparse_attention`: measures by hand, and each claim on tables for which it holds or fails."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from pandas import DataFrame

from hopscope import Architecture
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.sparse_attention.experiments.sparse_attention import claims, sparsity


def test_even_attention_has_the_entropy_and_the_edges_of_its_rows():
    """Without queries a causal row of k keys gives each 1/k: log k nats, and k edges while 1/k is above 0.05."""
    task = Retrieval(n_hops=1, n_chains=4)
    model = Architecture(n_layers=2, d_model=8, positions="input").build(task, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for block in model.blocks:
            block.attn.W_QKV.zero_()
            block.attn.b_QKV.zero_()
    found = sparsity(SimpleNamespace(model=model, task=task))
    rows = range(1, task.n_positions + 1)
    assert found["entropy"] == pytest.approx(sum(map(math.log, rows)) / len(rows), abs=1e-5)
    assert found["edges"] == sum(k if k < 20 else 0 for k in rows) / len(rows)


def table(edges=0.4, paths=0.8, loss=0.02, verdict="circuit", late=2.0, passes=0.7) -> DataFrame:
    """A table of two seeds; runs with entropy differ from those without by these factors, loss and verdict."""
    rows = []
    for seed in (0, 1):
        for weight in (0.0, 0.01, 0.03):
            light = weight == 0.01
            rows.append(
                {
                    "run": f"{seed}/{weight}",
                    "seed": seed,
                    "prior": "none",
                    "weight": weight,
                    "loss": loss if light else 0.02,
                    "learnt": 100 * (late if weight == 0.03 else 1),
                    "edges": 3 * (edges if light else 1),
                    "paths": 10 * (paths if light else 1),
                    "passes": 2000 * (passes if light else 1),
                    "verdict": verdict if light else "circuit",
                }
            )
    return DataFrame(rows)


def verdicts(**changes) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in claims(table(**changes))}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("solved", {"loss": 0.06}),
        ("sparser", {"edges": 0.6}),
        ("fewer_paths", {"paths": 1.0}),
        ("faster_search", {"passes": 0.9}),
        ("more_accepted", {"verdict": "partial"}),
        ("too_much_is_late", {"late": 1.0}),
    ],
)
def test_each_claim_holds_and_fails_by_its_own_values(name, change):
    assert set(verdicts().values()) == {"holds"}
    assert verdicts(**change) == {**verdicts(), name: "fails"}


def test_a_run_that_never_learns_is_late():
    assert verdicts(late=math.nan)["too_much_is_late"] == "holds"

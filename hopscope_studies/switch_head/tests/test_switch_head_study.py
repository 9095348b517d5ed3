"""Tests of SwitchHead: its task, the construction, the matched sizes, and tables for which claims hold or fail."""

from __future__ import annotations

import math

import pandas
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.experiments.results import claim_ids
from hopscope_studies.switch_head import cells
from hopscope_studies.switch_head.by_hand import by_hand
from hopscope_studies.switch_head.claims import claims
from hopscope_studies.switch_head.experiments import switch_head
from hopscope_studies.switch_head.scores import floor, gates, held, information, knows, specialisation
from hopscope_studies.switch_head.tasks.last_tokens import LastTokens

# The task ---------------------------------------------------------------------------------------------------------


def test_targets_are_the_tokens_before_in_a_thousand_sequences():
    task = LastTokens(n_places=3, length=9, d_vocab=5)
    batch = task.sample(1000, 0)
    for tokens, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        assert targets == [[tokens[t - 1], tokens[t - 2], tokens[t - 3]] for t in range(3, 9)]


def test_relations_point_where_the_answers_stand():
    task = LastTokens(n_places=3, length=9, d_vocab=5)
    batch = task.sample(4, 0)
    for distance, name in enumerate(task.hop_names, 1):
        match = batch.searched.matches[name].float()
        shown = (match @ batch.inputs[..., None].float())[..., 0]
        assert torch.equal(shown[:, 3:], batch.targets[..., distance - 1].float())


def test_no_position_may_have_too_few_before_it():
    with pytest.raises(BadInput, match="length must be above places, 8; got 8"):
        LastTokens(length=8)


# The construction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 5])
def test_one_map_tells_as_many_places_apart_as_it_has_experts(m):
    task = LastTokens(n_places=m, length=13, d_vocab=6)
    model, batch = by_hand(task), task.sample(500, 0)
    assert model.architecture.n_heads == 1
    assert knows(model, batch)["accuracy"] == 1.0
    assert knows(held(model, batch), batch)["accuracy"] < 0.8


def test_its_map_is_even_over_the_places():
    task = LastTokens(n_places=4, length=13, d_vocab=6)
    pattern = by_hand(task)(task.sample(8, 0).inputs, cache=True)[1]["pattern", 0][:, 0, 4:]
    wanted = torch.zeros(9, 13)
    for row in range(9):
        wanted[row, row : row + 4] = 0.25
    assert torch.allclose(pattern, wanted.expand_as(pattern), atol=1e-6)


def test_its_experts_are_chosen_by_place_alone():
    task = LastTokens(n_places=4, length=16, d_vocab=6)
    found = specialisation(by_hand(task), task.sample(200, 0))
    assert found["values_by_place"] == found["outputs_by_place"] == pytest.approx(1.0, abs=1e-6)
    assert max(found["values_by_token"], found["outputs_by_token"]) < 0.02


# What is measured -------------------------------------------------------------------------------------------------


def test_information_of_labels_by_hand():
    """Equal labels share one bit and independent ones none; labels of three to one share 3/4 ln 4/3 + 1/4 ln 4."""
    one, other = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    assert information(one, one) == pytest.approx(math.log(2))
    assert information(one, other) == pytest.approx(0, abs=1e-12)
    skewed = torch.tensor([0, 1, 1, 1])
    assert information(skewed, skewed) == pytest.approx(0.75 * math.log(4 / 3) + 0.25 * math.log(4))
    assert floor(one.repeat(200), other.repeat(200)) < 0.02


def test_held_gates_leave_a_model_alone_where_gates_do_not_depend_on_anything():
    """If gate weights are 0, all gates are one half, so holding them at their means changes nothing."""
    config = cells.cell("places", "experts", 0, "quick")
    model = config.model.build(config.task, generator(0, "init"))
    with torch.no_grad():
        for name in ("V", "O"):
            model.blocks[0].attn.variant[f"W_gate_{name}"].zero_()
    batch = config.task.sample(16, 0)
    assert torch.allclose(gates(model, batch, 0, "V"), torch.tensor(0.5))
    assert torch.allclose(held(model, batch)(batch.inputs), model(batch.inputs), atol=1e-5)


def test_held_experts_are_the_dense_layer_of_their_mean():
    """With value gates at their means, the layer's values are the sum of mean gate times expert."""
    config = cells.cell("places", "experts", 0)
    model, batch = config.model.build(config.task, generator(0, "init")), config.task.sample(8, 0)
    attn = model.blocks[0].attn
    cache = held(model, batch, "V")(batch.inputs, cache=True)[1]
    mean = gates(model, batch, 0, "V").mean((0, 1))
    every = torch.cat([attn.W_V[:, None], attn.variant["W_V_more"]], 1)
    read = model.blocks[0].ln1(cache["blocks.0.hook_resid_pre"])
    expected = torch.einsum("bpd,he,hedk->bphk", read, mean, every)
    assert torch.allclose(cache["v", 0], expected, atol=1e-5)
    before = held(model, batch, "V").blocks[0].attn.variant["W_O_more"]
    assert torch.equal(before, attn.variant["W_O_more"])  # those of outputs stay


@pytest.mark.parametrize("scale", cells.SIZES)
def test_weights_are_matched_exactly_at_every_scale(scale):
    size = cells.SIZES[scale]
    d, e, h = size.d_model, size.experts, size.maps

    def experts(d_head: int) -> int:
        return 2 * d * h * d_head + 2 * d * h * e * d_head + 2 * d * h * e

    def dense(model: str) -> int:
        shape = cells.heads(model, size)
        return 4 * d * shape["n_heads"] * shape["d_head"]

    assert experts(size.d_head) == dense("many maps") == dense("wide maps")
    assert experts(size.wide) == dense("widest maps")


def test_layers_have_the_weights_that_the_formula_says():
    for model in cells.CELLS["places"]:
        config = cells.cell("places", model, 0, "quick")
        counted = switch_head.layer_counts(config.model.build(config.task))
        expected = cells.heads(model, cells.SIZES["quick"])
        assert counted["maps"] == expected["n_heads"]
        if "experts" not in model:
            assert counted["weights"] == 4 * 16 * expected["n_heads"] * expected["d_head"]
        else:
            assert counted["weights"] == 4 * 16 * cells.SIZES["quick"].matched(expected["d_head"])


def test_every_run_is_named_once():
    named = {config.identity: name for name, config in cells.cells("cpu")}
    assert len(named) == sum(seeds for models in cells.CELLS.values() for seeds in models.values())
    for part, models in cells.CELLS.items():
        assert all(named[cells.cell(part, model, 3).identity] == (part, model) for model in models)


# Claims -----------------------------------------------------------------------------------------------------------

#: The loss of each model on places, if every claim holds and if every claim fails.
LOSSES = {
    "experts": (0.01, 1.5),
    "many maps": (0.0, 0.0),
    "wide maps": (1.0, 1.0),
    "narrow maps": (1.2, 1.2),
    "wide experts": (0.01, 1.0),
    "widest maps": (1.0, 0.1),
}


def end(part: str, model: str, seed: int, **values: float) -> dict:
    about = {"run": f"{part}-{model}-{seed}", "seed": seed, "kind": "end", "part": part, "model": model}
    return about | {"start_accuracy": 0.125, "guess": math.log(8), "weights": 100, "maps": 2} | values


def made(bad: bool) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    rows = []
    for seed in range(8):
        for model, losses in LOSSES.items():
            chosen = {"accuracy": 0.99, "held_accuracy": 0.9 if bad else 0.3}
            chosen |= {"held_values_accuracy": 0.3, "held_outputs_accuracy": 0.3}
            for name in ("values", "outputs"):
                chosen |= {f"{name}_by_place": 0.3 if bad else 0.8, f"start_{name}_by_place": 0.3}
                chosen |= {f"{name}_by_place_floor": 0.01, f"{name}_by_token": 0.1}
            more = {"maps": 8} if model == "many maps" else {"weights": 90} if bad and model == "wide maps" else {}
            start = {"start_accuracy": 0.9} if bad else {}
            rows.append(end("places", model, seed, loss=losses[bad], **chosen, **more, **start))
        for model in cells.CELLS["induction"]:
            late = bad and model == "experts"
            found = {"loss": 1.0 if late else 0.01, "learnt": 900 if late else 400}
            rows.append(end("induction", model, seed, induction_score=0.2 if bad else 0.9, **found))
    about = {"run": "by hand", "seed": 0, "kind": "by hand", "part": "places", "model": "by hand"}
    rows += [about | {"accuracy": 0.9 if bad else 1.0, "held_accuracy": 0.4, "places": 4}]
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(bad=False))}
    assert list(found) == claim_ids("switch_head")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    assert {claim.id: claim.verdict for claim in claims(made(bad=True))} == dict.fromkeys(
        claim_ids("switch_head"), "fails"
    )

"""Tests of `easy_to_hard` and `hop_k_depth`: frozen weights by stage, errors counted by hand, and claims."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from pandas import DataFrame, concat

from hopscope import Config, Training, train
from hopscope.configuration.freezing import parse_frozen
from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.models import Architecture
from hopscope.tasks.hop_k import HopK
from hopscope_studies.k_hop.experiments import easy_to_hard, hop_k_depth


def trained(text: str, step: int) -> set[str]:
    """The weights that the update after `step` others changes."""
    names = ("W_E", "W_pos", "W_U", *(f"blocks.{layer}.attn.W_O" for layer in range(4)))
    frozen = parse_frozen(text)
    return {name.removesuffix(".attn.W_O") for name in names if not any(one.holds(name, step) for one in frozen)}


def test_a_layer_trains_in_the_stage_of_its_number():
    """With four layers and three stages of 10 steps, the last stage trains both remaining layers."""
    text = easy_to_hard.one_after_the_other(4, 3, 30)
    assert trained(text, 0) == trained(text, 9) == {"W_E", "W_pos", "W_U", "blocks.0"}
    assert trained(text, 10) == trained(text, 19) == {"W_U", "blocks.1"}
    assert trained(text, 20) == trained(text, 29) == {"W_U", "blocks.2", "blocks.3"}
    assert easy_to_hard.one_after_the_other(2, 1, 30) == ""


def test_every_k_has_the_same_depth_and_the_heads_are_half_the_symbols():
    configs = list(easy_to_hard.runs("cpu"))
    assert {(c.model.n_layers, c.model.n_heads, c.task.n_symbols) for c in configs} == {(4, 2, 4)}
    steps = {(c.task.n_hops, c.training.steps) for c in configs}
    assert len(steps) == len({k for k, _ in steps})  # the same for all curricula


def curves(
    curriculum: str, task_k: int, learnt: dict[int, float | None], seed: int = 0, last: float = 0.0
) -> list[dict]:
    """Curves of hops at ln 4 that fall to 0 at a step (None: never)."""
    chance, rows = 1.3863, []
    for k, step in learnt.items():
        about = {"run": f"{curriculum}{task_k}{seed}", "version": "v", "seed": seed, "curriculum": curriculum}
        about |= {"task_k": task_k, "steps": 1000, "chance": chance, "hop": f"k={k}", "k": k, "val_loss": 0.0}
        for at in range(0, 1001, 10):
            rows.append({**about, "step": at, "hop_loss": chance if step is None or at < step else last})
    return rows


def test_growth_is_compared_with_growth():
    """Alone, 2 hops take 95 steps and 4 never come: a factor above 10.5. Together they take 95 and 295: 3.1."""
    rows = curves("none", 2, {2: 100}) + curves("none", 4, {4: None})
    rows += curves("implicit", 2, {1: 50, 2: 100}) + curves("implicit", 4, {1: 50, 2: 100, 4: 300})
    rows += curves("implicit", 8, {1: 50, 2: 100, 4: 300, 8: None})
    rows += curves("mixture", 4, {1: 50, 2: 100, 4: 300}) + curves("cumulative", 4, {1: 50, 2: 100, 4: 300})
    rows += curves("layerwise", 4, {1: None, 2: 100, 4: None}) + curves("frozen", 4, {1: 50, 2: 100, 4: 300}, last=0.1)
    found = {claim.id: claim for claim in easy_to_hard.claims(DataFrame(rows))}
    assert set(found) == set(claim_ids("easy_to_hard"))
    growth = found["growth_is_slower_with_easy_data"]
    assert (growth.verdict, growth.number) == ("holds", pytest.approx((1000 / 95) / (295 / 95)))
    assert "(more than 10.5)" in growth.sentence
    fails = {"eight_hops_together", "stages_solve", "frozen_stages_solve"}
    assert {name for name, claim in found.items() if claim.verdict == "fails"} == fails
    assert found["freezing_helps"].number == pytest.approx(0.1 / 1.3863)
    assert found["hops_in_order"].number == pytest.approx(50)  # of 50 four times and 200 three times


def test_growth_is_undecided_if_easy_data_do_not_teach():
    rows = curves("none", 2, {2: 100}) + curves("none", 4, {4: None})
    rows += curves("implicit", 2, {1: 50, 2: 100}) + curves("implicit", 4, {1: 50, 2: None, 4: None})
    found = {claim.id: claim.verdict for claim in easy_to_hard.claims(DataFrame(rows))}
    assert found["growth_is_slower_with_easy_data"] == "undecided"
    assert found["mixture_solves"] == "undecided"


@pytest.mark.parametrize(("positions", "lengths"), [("learned", [8]), ("rotary", [8, 16])])
def test_errors_are_shares_of_defined_answers(tmp_path, positions, lengths):
    """Errors are counted one by one, for the hops that each sequence asks, and at twice the length if that can be."""
    recipe = Training(steps=2, batch=4, val_size=4, log_every=2)
    shape = Architecture(n_layers=1, d_model=8, positions=positions)
    run = train(Config(HopK(length=8, n_hops=2), shape, recipe), tmp_path / "run")
    found = list(hop_k_depth.errors(run, 64))
    assert list(dict.fromkeys(row["length"] for row in found)) == lengths
    for length in lengths:
        task, n = HopK(length=length, n_hops=2), 64 if length == 8 else 8
        batch = task.sample(n, generator(0, "errors"))
        with torch.no_grad():
            said = run.model.looped(1, n_positions=task.n_positions)(batch.inputs, at=task.query_positions).argmax(-1)
        counts = {k: [0, 0] for k in range(3)}
        for row, place, k in product(range(n), range(length), range(3)):
            answer = int(batch.targets[row, place, k])
            if answer >= 0 and answer != task.undefined:
                counts[k][0] += 1
                counts[k][1] += int(said[row, place]) != answer
        for row in (row for row in found if row["length"] == length):
            asked, wrong = counts[row["k"]]
            assert (row["answers"], row["error"]) == (asked, pytest.approx(wrong / asked))


def errors(cells: dict[int, list[float]], loops: int = 1, curriculum: str = "none") -> DataFrame:
    """The same errors at both lengths."""
    about = {"version": "v", "seed": 0, "answers": 100, "loops": loops, "curriculum": curriculum}
    rows = [
        {"run": f"r{layers}-{loops}-{curriculum}", **about, "layers": layers, "length": length, "k": k, "error": error}
        for layers, row in cells.items()
        for k, error in enumerate(row)
        for length in (100, 200)
    ]
    return DataFrame(rows)


def verdicts(table: DataFrame) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in hop_k_depth.claims(table)}


def test_the_published_table_holds_its_own_claims():
    """Published errors, made a little smaller, hold every claim."""
    published = {layers: (0.99 * hop_k_depth.PUBLISHED[layers]).tolist() for layers in (2, 3, 4, 5, 6)}
    staged = errors({4: [0.9 * error for error in published[4]]}, curriculum="staged")
    found = verdicts(concat([errors(published), errors({4: published[4]}, loops=4), staged]))
    assert set(found.values()) == {"holds"}
    assert hop_k_depth.PUBLISHED[5][16] == 0.4137 and len(hop_k_depth.PUBLISHED) == 5 * 17


def test_claims_fail_where_depth_does_not_help():
    shallow = {layers: [0.9 - 0.01 * k for k in range(17)] for layers in (2, 3, 4)}
    staged = errors({4: shallow[4]}, curriculum="staged")
    found = verdicts(concat([errors(shallow), errors({4: shallow[4]}, loops=4), staged]))
    assert found.pop("errors_rise_with_hops") == "holds"  # no step down is larger than 0.02
    assert set(found.values()) == {"fails"}


def test_sizes_are_compared_only_where_they_are_the_same():
    """Few hops say nothing about the published size, and without a looped layer there is nothing to judge."""
    found = verdicts(errors({layers: [0.0, 0.001, 0.002 / layers] for layers in (2, 3)}))
    assert (found["below_published"], found["looped_layer_learns_hops"]) == ("undecided", "undecided")

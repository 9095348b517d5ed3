"""Tests of the bench: candidates, widths, operations, exact depths, a user's own rule, claims that hold or fail."""

from __future__ import annotations

import math
from pathlib import Path

import pandas
import pytest

from hopscope.core import catalogue, outside
from hopscope.experiments.base import CELL_BY_CELL
from hopscope.experiments.results import claim_ids, room, table_in
from hopscope.experiments.runner import carry_out, run_folder
from hopscope_studies.architectures import cells
from hopscope_studies.architectures.candidates import (
    REFERENCE,
    TASK,
    WIDTH,
    Candidate,
    fits,
    others,
    parameters,
    rules,
    width,
)
from hopscope_studies.architectures.cells import HOPS, LAYERS, MAIN
from hopscope_studies.architectures.claims import claims, hops_learnt
from hopscope_studies.architectures.depths import least
from hopscope_studies.architectures.experiments import hops_by_architecture as bench
from hopscope_studies.architectures.tests.page import entry, overview

OURS = {"h_minus_one", "kv_shift", "linear", "n_gram", "softmax", "switch_head"}

# Candidates ---------------------------------------------------------------------------------------------------------


def test_candidates_are_what_the_catalogue_has():
    assert [one.attention for one in rules()] == catalogue.names("models.attention")
    assert {one.name for one in rules(prior=False)} == {
        f"{name}, no prior" for name in catalogue.names("models.attention")
    }
    found = {one.name for one in others()}
    assert {"softmax, rotary", "softmax, relative", "softmax, MLP", "softmax, muon", "softmax, sgd"} <= found
    assert len(found) == len(list(others()))


def test_a_width_is_the_one_whose_parameters_are_nearest():
    for candidate in (Candidate("switch_head"), Candidate(mlp=True)):
        wanted = parameters(REFERENCE, WIDTH)
        near = min(range(40, 140, 4), key=lambda d_model: abs(parameters(candidate, d_model) - wanted))
        assert width(candidate) == near
    assert width(REFERENCE) == width(Candidate("linear", None)) == width(Candidate(optimizer="sgd")) == WIDTH


def test_operations_are_those_of_the_formula():
    """A multiply-add counts as two operations; all matrix products of the forward pass are counted."""
    shape = REFERENCE.shape(TASK, 2)
    n, d, asked = TASK.n_positions, WIDTH, TASK.n_chains
    layer = n * d * 3 * d + 2 * n * n * d + n * d * d
    whole = 2 * (n * TASK.d_input * d + 2 * layer + asked * d * TASK.d_output)
    last_at_queries_alone = 2 * (n - asked) * (n * d + n * d + d * d + d * d)  # what a model may leave out
    assert whole - last_at_queries_alone <= bench.flops(shape, TASK) <= whole


# Depths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["deepest first", "nearest first", "shuffled"])
def test_exact_depths_by_rule(order):
    """⌈log2(2k + 1)⌉, and ⌈log2(k + 1)⌉ with shifted keys and values."""
    for attention in OURS:
        config = cells.Cell(Candidate(attention), hops=8, task=order).config("long")
        found = [least(config, k) for k in range(9)]
        plain, shifted = [0, 2, 3, 3, 4, 4, 4, 4, 5], [0, 1, 2, 2, 3, 3, 3, 3, 4]
        assert found == (shifted if attention == "kv_shift" else plain)


def test_depths_of_other_tasks():
    def depths(attention: str, task: str, hops: int) -> list[float]:
        return [least(cells.Cell(Candidate(attention), hops=hops, task=task).config("long"), k) for k in (0, 1, 2)]

    assert depths("softmax", "hop_k", 2) == [0, 2, 3] and depths("softmax", "two_hop", 2) == [0, 2, 3]
    assert depths("kv_shift", "hop_k", 2) == depths("n_gram", "hop_k", 2) == [0, 1, 2]
    assert all(math.isnan(depth) for depth in depths("softmax", "k_fold", 2))


# Cells --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["cpu", "long"])
def test_a_run_knows_its_cell(scale):
    for cell in list(cells.cells(scale))[:: 1 if scale == "cpu" else 40]:
        config = cell.config(scale)
        assert cells.candidate_of(config) == cell.candidate
        assert (cells.task_of(config), bench.hops_of(config.task)) == (cell.task, cell.hops)


def test_the_small_bench_is_whole_and_long_begins_with_it():
    small, everything = list(cells.cells("cpu")), list(cells.cells("long"))
    assert everything[: len(small)] == small and len(set(everything)) == len(everything)
    asked = {(cell.candidate.attention, cell.hops, cell.seed) for cell in small if cell.candidate.positions}
    assert asked == {
        (name, hops, seed) for name in catalogue.names("models.attention") for hops in (2, 3, 5) for seed in (0, 1)
    }
    controls = {cell.candidate.name for cell in small if not cell.candidate.positions}
    assert controls == {"softmax, no prior", "kv_shift, no prior", "state_space, no prior"}
    assert {cell.hops for cell in everything} == set(range(1, 9))
    assert {cell.task for cell in everything} == set(cells.TASKS)


# A rule of somebody's own ---------------------------------------------------------------------------------------------

RULE = '''
"""Softmax attention with scores that are twice as great."""

from dataclasses import dataclass
from typing import ClassVar

from hopscope.core.settings import BadInput
from hopscope.models.attention.base import Attention
from hopscope.models.attention.softmax import Softmax


@dataclass(frozen=True)
class Twice(Attention):
    """Twice."""

    shifted: ClassVar[bool] = SHIFTED

    def own(self, n_heads, d_head):
        if n_heads < HEADS:
            raise BadInput("twice needs more heads")
        return {}

    def attend(self, q, k, v, mask, own):
        return Softmax().attend(2 * q, k, v, mask, own)
'''


def dropped(folder: Path, monkeypatch, shifted: bool = False, heads: int = 1, name: str = "twice") -> None:
    """Write a rule of attention into a user's folder."""
    (folder / "models" / "attention").mkdir(parents=True, exist_ok=True)
    text = RULE.replace("SHIFTED", str(shifted)).replace("HEADS", str(heads))
    (folder / "models" / "attention" / f"{name}.py").write_text(text)
    monkeypatch.setenv(outside.VARIABLE, str(folder))


def test_a_new_rule_of_attention_is_in_the_bench_without_an_edit(tmp_path, monkeypatch):
    before = list(cells.cells("cpu"))
    assert "twice" not in {cell.candidate.attention for cell in before}
    dropped(tmp_path / "lab", monkeypatch)
    new = [cell for cell in cells.cells("cpu") if cell not in before]
    assert {(cell.candidate.name, cell.hops, cell.seed) for cell in new} == {
        ("twice", hops, seed) for hops in (2, 3, 5) for seed in (0, 1)
    }
    mine = next(config for config in bench.runs("quick") if config.model.attention == "twice")
    run = carry_out(mine, run_folder(tmp_path / "runs", mine), lambda: False, threads=1, compile="off")
    table = bench.table([run], "quick")
    assert set(table.candidate) == {"twice"} and table.least.tolist() == [2, 3]
    assert overview(table).splitlines()[-1].startswith("| twice | ")
    assert len(bench.figure(table).axes) == 2
    assert [claim.id for claim in claims(table)] == claim_ids("hops_by_architecture")


def test_a_rule_that_joins_tokens_itself_is_also_there_without_the_prior(tmp_path, monkeypatch):
    dropped(tmp_path / "own", monkeypatch, shifted=True, name="shifted_twice")
    found = {cell.candidate.name for cell in cells.cells("cpu") if cell.candidate.attention == "shifted_twice"}
    assert found == {"shifted_twice", "shifted_twice, no prior"}
    assert least(cells.Cell(Candidate("shifted_twice"), hops=3).config("cpu"), 3) == 2


def test_a_rule_that_does_not_fit_is_left_out(tmp_path, monkeypatch):
    dropped(tmp_path / "wide", monkeypatch, heads=3, name="wide_twice")
    assert not fits(Candidate("wide_twice"), TASK)
    assert "wide_twice" not in {cell.candidate.attention for cell in cells.cells("long")}


# The table and its claims ---------------------------------------------------------------------------------------------

DEPTHS = {False: [2, 3, 3, 4, 4], True: [1, 2, 2, 3, 3]}


def run_rows(attention: str, prior: bool, hops: int, seed: int, learnt: int, **changes: float) -> list[dict]:
    """The rows of one run that learnt the first `learnt` of its hops."""
    name = attention if prior else f"{attention}, no prior"
    about = {"run": f"{name}-{hops}-{seed}", "version": "v", "seed": seed, "candidate": name, "attention": attention}
    about |= {"positions": "relative" if prior else "", "mlp": False, "optimizer": "adamw"}
    about |= {"task": "deepest first", "D": hops, "layers": 3, "width": 128, "parameters": 1000, "flops": 10**6}
    about |= {"steps": 300, "batch": 100, "guess": 0.75, "below": 0.5, "first": 1.0} | changes
    return [
        about
        | {"hop": f"x{k}", "k": k, "least": DEPTHS[attention == "kv_shift"][k - 1]}
        | {"loss": 0.1 if k <= learnt else 0.8, "learnt": 50.0 * k if k <= learnt else math.nan}
        for k in range(1, hops + 1)
    ]


def made(bad: bool = False) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    rows = []
    for hops in (2, 3, 5):
        for seed in (0, 1):
            changes = {"first": 0.3 if bad else 1.0}
            rows += run_rows("softmax", True, hops, seed, hops if bad else min(hops, 3), **changes)
            rows += run_rows("softmax", False, hops, seed, hops if bad else 0)
            rows += run_rows(
                "linear", True, hops, seed, 2 * seed if bad else min(hops, 3), parameters=1200 if bad else 1010
            )
            rows += run_rows("kv_shift", True, hops, seed, 1)
            rows += run_rows("kv_shift", False, hops, seed, 2 if bad else hops)
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made())}
    assert list(found) == claim_ids("hops_by_architecture")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    assert {claim.id: claim.verdict for claim in claims(made(bad=True))} == dict.fromkeys(
        claim_ids("hops_by_architecture"), "fails"
    )


def test_half_of_the_small_bench_decides_nothing_that_needs_all_of_it():
    part = made()
    found = {claim.id: claim.verdict for claim in claims(part[part.D == 2])}
    assert found["plain_attention_reaches_its_minimum"] == found["every_rule_reaches_its_minimum"] == "undecided"
    assert found["kv_shift_goes_further"] == found["nothing_below_the_minimum"] == "undecided"


def test_hops_learnt_by_hand():
    rows = run_rows("softmax", True, 5, 0, 3)
    rows[1]["loss"] = 0.6  # went below the threshold, and came back
    found = hops_learnt(pandas.DataFrame(rows)).iloc[0]
    assert (found.learnt, found.reach, found.asked, found.sequences) == (2, 3, 5, 15_000)
    unknown = pandas.DataFrame(run_rows("softmax", True, 2, 0, 0)).assign(least=math.nan)
    each = hops_learnt(unknown)
    assert math.isnan(each.reach[0]) and math.isnan(each.sequences[0]) and entry(each) == "0 of ?"


def test_the_table_of_the_page():
    lines = overview(made()).splitlines()
    assert lines[0] == "| candidate | parameters | MFLOP | D = 2, L = 3 | D = 3, L = 3 | D = 5, L = 3 |"
    assert lines[2] == "| softmax | 1 k | 1.0 | 2, 2 of 2 (10 k) | 3, 3 of 3 (15 k) | 3, 3 of 3 (15 k) |"
    assert lines[3] == "| softmax, no prior | 1 k | 1.0 | 0, 0 of 2 | 0, 0 of 3 | 0, 0 of 3 |"
    assert len(lines) == 2 + 5


#: What of the long bench stands between comments of the page, by their words.
LONG = {
    "depths": lambda rows: rows[(rows.task == MAIN) & (rows.layers != LAYERS)],
    "other tasks": lambda rows: rows[rows.task != MAIN],
    "many hops": lambda rows: rows[(rows.task == MAIN) & (rows.layers == LAYERS) & ~rows.D.isin(HOPS)],
    "no prior": lambda rows: without_prior(rows[(rows.task == MAIN) & (rows.layers == LAYERS)]),
    "other parts": lambda rows: with_other_parts(rows[(rows.task == MAIN) & (rows.layers == LAYERS)]),
}


def without_prior(rows: pandas.DataFrame) -> pandas.DataFrame:
    return rows[rows.candidate.str.endswith(", no prior")]


def with_other_parts(rows: pandas.DataFrame) -> pandas.DataFrame:
    """The rows of candidates with another position code, an MLP or another optimizer."""
    return rows[rows.candidate.str.contains(", ") & ~rows.candidate.str.endswith(", no prior")]


def test_the_page_shows_the_committed_tables():
    """The page's tables equal `overview` of the small bench's rows and of some of the long bench's."""
    table = table_in(room("hops_by_architecture") / "hops_by_architecture")
    text = (Path(__file__).parents[1] / "README.md").read_text()

    def shown(name: str) -> str:
        return text.split(f"<!-- {name} -->")[1].split(f"<!-- end of {name} -->")[0].strip()

    assert shown("bench") == overview(table[table.scale == "cpu"])
    for name, some in LONG.items():
        assert shown(name) == overview(some(table[table.scale == CELL_BY_CELL]))

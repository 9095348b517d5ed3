"""Built transformers do what they say: solve the task, by the paths that truth.json names, and by no others."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from hopscope.builds.build import Build, build, can_have_twin, plan_schedule, sheet_of
from hopscope.builds.plan import make_plan
from hopscope.core.settings import BadInput
from hopscope.interventions.patterns import null, prescribed, visible
from hopscope.problem.paths import Path
from hopscope.runs.evaluation import evaluate
from hopscope.runs.from_weights import write_made
from hopscope.runs.run import load
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval

VARIANTS = [
    ("linear, chain", Retrieval(n_hops=3), Build(algorithm="linear", merging="chain")),
    ("linear, query", Retrieval(n_hops=3), Build(algorithm="linear")),
    ("doubling, chain", Retrieval(n_hops=4), Build(merging="chain")),
    ("last hop alone", Retrieval(n_hops=3, curriculum="none"), Build()),
    ("any order", Retrieval(n_hops=4, order="3,1,4,2"), Build()),
    ("no mask", Retrieval(n_hops=3, order="2,3,1"), Build(mask="none")),
    ("symbols", SymbolicRetrieval(n_hops=3), Build()),
    ("more layers", Retrieval(n_hops=3), Build(layers=7, unused="dead", seed=1)),
    ("noise", Retrieval(n_hops=3), Build(layers=5, heads=3, unused="noisy", extra_mlp=40, seed=2)),
    ("spread", Retrieval(n_hops=3), Build(heads=3, spread=True, unused="noisy", seed=3)),
    ("twins", Retrieval(n_hops=3), Build(algorithm="linear", merging="chain", heads=2, layers=8, twins=2, seed=4)),
    ("rotated", Retrieval(n_hops=3), Build(layers=5, heads=2, unused="noisy", extra_mlp=8, rotate=True, seed=5)),
    ("other widths", Retrieval(n_hops=2, n_chains=7, d_symbol=8), Build(seed=6)),
    ("a longer turn", Retrieval(n_hops=7, n_chains=5, position_base=1e4), Build(seed=7)),
]
NULL = {"uniform": "uniform", "identity": "identity", "hard": "uniform"}
NAMED = [pytest.param(task, settings, id=name) for name, task, settings in VARIANTS]


#: The same build, once for all tests: none of them changes it.
built_of = functools.cache(build)


@torch.no_grad()
def loss_with(built, batch, kept=None, removed=(), ablation="uniform"):
    """The loss when the rows of all but the kept paths (None: of the removed paths alone) are a null pattern's.

    Rows that stay are computed as ever, from what the stream then holds; for `hard` they are the ideal ones.
    """
    model, task = built.model, built.config.task
    sees = visible(task.n_positions, model.architecture.causal)

    def rows_of(paths, pattern):
        chosen = torch.zeros(pattern.shape[:3], dtype=torch.bool)
        for path in paths:
            chosen[:, path.head] |= batch.roles.held()[:, batch.roles.index(path.query)]
        return chosen[..., None]

    def change(layer):
        def of(actual):
            idle = actual.roll(1, 0) if ablation == "resample" else null(NULL[ablation], sees).expand_as(actual)
            if kept is None:
                return torch.where(rows_of([p for p in removed if p.layer == layer], actual), idle, actual)
            here = [p for p in kept if p.layer == layer]
            stays = prescribed(idle, here, batch.roles, sees) if ablation == "hard" else actual
            return torch.where(rows_of(here, actual), stays, idle)

        return of

    layers = range(model.architecture.n_layers)
    replacements = {f"blocks.{layer}.attn.hook_pattern": change(layer) for layer in layers}
    outputs = model(batch.inputs, replace=replacements, at=task.query_positions)
    return float(task.loss(outputs, batch.targets))


def circuits_of(built, ablation="uniform"):
    return [[Path.from_dict(path) for path in circuit] for circuit in built.truth["circuits"][ablation]]


@pytest.mark.parametrize("order", ["nearest_first", "deepest_first"])
@pytest.mark.parametrize("hops", range(1, 8))
def test_doubling_solves_the_task_at_the_minimum_depth_and_needs_every_path(hops, order):
    task = Retrieval(n_hops=hops, order=order)
    built = build(task)
    assert built.model.architecture.n_layers == (2 * hops).bit_length()  # ⌈log2(2D + 1)⌉
    assert built.model.architecture.n_heads == 1
    assert evaluate(built.model, task, 512, 0, "fresh")["loss"] < 0.01
    batch = task.sample(64, 7)
    [circuit] = circuits_of(built)
    for path in circuit:
        assert loss_with(built, batch, removed=[path]) > 0.1, f"{path} is not needed"


@pytest.mark.parametrize(("task", "settings"), NAMED)
def test_variants_solve_the_task(task, settings):
    built = built_of(task, settings)
    assert evaluate(built.model, task, 512, 0, "fresh")["loss"] < 0.01


@pytest.mark.parametrize("ablation", ["uniform", "identity", "resample", "hard"])
@pytest.mark.parametrize(("task", "settings"), NAMED)
def test_the_truth_is_sufficient_and_minimal_under_each_ablation(task, settings, ablation):
    built, batch = built_of(task, settings), task.sample(48, 3)
    for circuit in circuits_of(built, ablation):
        assert loss_with(built, batch, circuit, ablation=ablation) < 0.02
        for path in circuit:
            rest = [other for other in circuit if other != path]
            assert loss_with(built, batch, rest, ablation=ablation) > 0.1, f"{path} is not needed"


def test_either_twin_suffices_but_not_none():
    task = Retrieval(n_hops=3)
    built = build(task, Build(algorithm="linear", merging="chain", heads=2, layers=8, twins=2, seed=4))
    batch, circuits = task.sample(128, 1), circuits_of(built)
    moved = [p for p in circuits[0] if not all(p in c for c in circuits)]
    for path in moved:
        twin = next(p for p in circuits[-1] if replace(p, head=path.head) == path)
        assert loss_with(built, batch, removed=[path]) < 0.01
        assert loss_with(built, batch, removed=[path, twin]) > 0.1


@torch.no_grad()
def test_a_rotation_changes_weights_but_neither_patterns_nor_answers():
    task, settings = Retrieval(n_hops=3), Build(heads=2, unused="dead", seed=9)
    plain, turned = build(task, settings), build(task, settings.but(rotate=True))
    inputs = task.sample(32, 0).inputs
    one, seen = plain.model(inputs, cache=True)
    other, also = turned.model(inputs, cache=True)
    torch.testing.assert_close(one[:, task.query_positions], other[:, task.query_positions], atol=2e-3, rtol=0)
    for path in circuits_of(plain)[0]:  # rows without a task may tie, and ties break as rounding has it
        rows = task.sample(32, 0).roles.held()[:, task.sample(32, 0).roles.index(path.query)]
        here, there = (cache["pattern", path.layer][:, path.head][rows] for cache in (seen, also))
        torch.testing.assert_close(here, there, atol=2e-3, rtol=0)
    assert not torch.allclose(plain.model.W_E, turned.model.W_E)
    assert turned.truth["registers"] is None


def test_registers_hold_what_they_are_called():
    task = Retrieval(n_hops=2)
    built, batch = build(task), task.sample(4, 0)
    _, cache = built.model(batch.inputs, cache=True)
    start, stop = built.truth["registers"]["symbol via L0H0"]
    first, second = (batch.roles.held()[:, batch.roles.index(name)] for name in ("key[2]", "value[2]"))
    copied = cache["resid_post", 0][..., start:stop][second]
    torch.testing.assert_close(copied, batch.inputs[..., : task.d_symbol][first], atol=1e-3, rtol=0)


def test_a_dot_product_alone_would_fail():
    """Theory.md's 44 %: without the squared length, the largest product is often another symbol's."""
    symbols = torch.randn(20_000, 16, 4, generator=torch.Generator().manual_seed(0))
    products = symbols @ symbols[:, :1].transpose(1, 2)
    scores = 2 * products - symbols.square().sum(-1, keepdim=True)
    assert 0.4 < (products.argmax(1) != 0).float().mean() < 0.48
    assert (scores.argmax(1) == 0).all()


def test_twins_need_time_to_be_joined():
    task = Retrieval(n_hops=2)
    plan = make_plan(plan_schedule(task, Build(algorithm="linear", merging="chain")), 2, [1, 2])
    assert not can_have_twin(plan, (0, 0), roles_known=False)  # no roles yet
    assert not can_have_twin(plan, (0, 0), roles_known=True)  # the next layer looks for what it copied
    assert can_have_twin(plan, (1, 0), roles_known=False)


def test_equal_seeds_build_equal_bits():
    task, settings = Retrieval(n_hops=2), Build(layers=5, heads=2, unused="noisy", rotate=True, seed=3)
    one, two = build(task, settings), build(task, settings)
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True))
    assert one.truth == two.truth


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ([Path(0, 0, "value[1]", "key[1]"), Path(1, 0, "query", "value[2]")], "without a shared piece"),
        ([Path(0, 0, "query", "key[1]"), Path(1, 0, "query", "value[1]")], "layer 0"),
        ([Path(0, 0, "value[1]", "key[1]"), Path(1, 0, "query", "value[1]")], "does not come to hold x_2"),
        ([Path(0, 0, "value[1]", "key[1]"), Path(0, 0, "value[1]", "value[1]")], "the second from value"),
    ],
)
def test_schedules_that_cannot_work_are_refused(schedule, words):
    with pytest.raises(BadInput, match=words):
        make_plan(schedule, 2, [1, 2])


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        (ConditionalRetrieval(), Build(), "retrieval and symbolic_retrieval"),
        (Retrieval(order="shuffled"), Build(), "one order"),
        (Retrieval(position_code="pair"), Build(), "--position-code token"),
        (Retrieval(n_hops=9, position_base=100.0), Build(), "--position-base 10000"),
        (Retrieval(n_hops=2, d_symbol=2), Build(), "--d-symbol 4"),
        (Retrieval(n_hops=3), Build(layers=2), "needs 3 layers"),
        (Retrieval(n_hops=3), Build(twins=1), "can have a twin"),
    ],
)
def test_what_cannot_be_built_is_refused(task, settings, words):
    with pytest.raises(BadInput, match=words):
        build(task, settings)


def test_a_build_is_stored_as_a_run(tmp_path):
    built = build(Retrieval(n_hops=2), Build(layers=4, seed=1))
    run = write_made(built.config, tmp_path / "b", built.model, {"truth.json": built.truth})
    again = load(tmp_path / "b")
    assert again.done and again.config.identity == built.config.identity and again.step == 0 and again.bit_exact
    assert run.report["loss"] < 0.01 and again.rows[0]["val_loss"] < 0.01
    inputs = run.task.sample(8).inputs
    assert torch.equal(again.model(inputs), built.model(inputs))
    assert sheet_of(run.task).roles[-1] == "query"
    with pytest.raises(BadInput, match="holds another run"):
        write_made(build(Retrieval(n_hops=2)).config, tmp_path / "b", built.model)

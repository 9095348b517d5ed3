"""Every curriculum, found by its file: it poses what is offered, ends with the hardest, and repeats itself."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
import torch

from hopscope import Architecture, Config, Training, train
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.curricula.base import Curriculum
from hopscope.models import Transformer
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.k_fold import KFold
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval

CURRICULA = catalogue.names("curricula")
OFFERED = [range(1, hardest + 1) for hardest in (1, 2, 3, 4, 7, 8)] + [(1, 2, 4, 8), (1, 2, 4, 6), (1, 2, 3)]


@pytest.fixture(params=CURRICULA)
def curriculum(request) -> Curriculum:
    return catalogue.find("curricula", request.param)()


def posed(curriculum: Curriculum, offered, progress: float, n: int = 64) -> list[int]:
    return [curriculum.difficulty(offered, progress, generator(0, "difficulty", i)) for i in range(n)]


@pytest.mark.parametrize("offered", OFFERED, ids=str)
def test_it_poses_only_what_is_offered_and_reaches_the_hardest(curriculum, offered):
    everything = {hops for i in range(21) for hops in posed(curriculum, offered, i / 20)}
    assert everything <= set(offered)
    assert offered[-1] in posed(curriculum, offered, 1.0)
    if curriculum.changes_difficulty:
        assert {1, offered[-1]} <= everything
    else:
        assert everything == {offered[-1]}


def test_it_follows_from_progress_and_generator_alone(curriculum):
    offered = range(1, 9)
    for progress in (0.0, 0.3, 0.99):
        assert posed(curriculum, offered, progress) == posed(curriculum, offered, progress)
    a, b = (generator(0, "difficulty", 1) for _ in range(2))
    assert curriculum.difficulty(offered, 0.5, a) == curriculum.difficulty(offered, 0.5, b)


@pytest.mark.parametrize("kind", [Retrieval, SymbolicRetrieval, KFold, HopK])
def test_every_stage_suits_one_model_and_evaluation_is_of_the_hardest(request, curriculum, kind):
    """Batches of all stages go through the model of the hardest; its outputs are as many numbers at every stage."""
    name = request.node.callspec.params["curriculum"]
    if kind is HopK and curriculum.asks_every_hop:
        with pytest.raises(BadInput, match="each sequence asks one number of hops"):
            kind(n_hops=4, curriculum=name)
        return
    task = kind(n_hops=4, curriculum=name)
    model = Transformer.for_task(Architecture(n_layers=1, d_model=8), task, generator(0, "init"))
    for i in range(8):
        stage = task.stage(i / 7, generator(0, "difficulty", i))
        assert stage.d_output == task.d_output
        answers = 1 if kind is HopK or (kind is Retrieval and not curriculum.asks_every_hop) else len(task.hop_names)
        assert stage.d_output == answers * (task.d_symbol if kind is Retrieval else task.d_vocab)
        batch = stage.sample(2, i)
        loss = stage.loss(model(batch.inputs, at=stage.query_positions), batch.targets)
        assert loss.isfinite()
    assert task.sample(2, 0).task.difficulties[-1] == task.hardest == 4


def test_it_trains_and_is_evaluated_on_the_hardest(request, curriculum, tmp_path):
    task = Retrieval(n_hops=3, n_chains=2, curriculum=request.node.callspec.params["curriculum"])
    run = train(
        Config(task, Architecture(n_layers=1, d_model=8), Training(steps=6, batch=4, val_size=4, log_every=3)), tmp_path
    )
    assert run.report["hop_losses"].keys() == set(task.hop_names)
    assert task.hop_names == (("x1", "x2", "x3") if curriculum.asks_every_hop else ("x3",))


def test_a_finite_set_has_one_difficulty(request, curriculum):
    task = Retrieval(curriculum=request.node.callspec.params["curriculum"])
    if not curriculum.changes_difficulty:
        assert Config(task, training=Training(examples=256))
        return
    with pytest.raises(BadInput, match="needs fresh data"):
        Config(task, training=Training(examples=256))


def test_a_listed_order_loses_the_steps_that_have_not_come():
    task = Retrieval(n_hops=4, order="3,1,4,2", curriculum="staged")
    assert [task.at(hops).order for hops in (1, 2, 3, 4)] == ["1", "1,2", "3,1,2", "3,1,4,2"]
    assert task.at(2).sample(2).inputs.shape[1] == 4 * 5


def test_a_stage_of_hop_k_draws_fewer_hops_for_the_same_model():
    """The first of four stages draws 0 and 1, the last 0 … 4; runs without a curriculum are those of before."""
    task, random = HopK(n_hops=4, length=12, curriculum="staged"), torch.Generator()
    drawn = [set(task.stage(at, random).sample(200).draw["hops"].flatten().tolist()) for at in (0.0, 0.3, 0.99)]
    assert drawn == [{0, 1}, {0, 1, 2}, {0, 1, 2, 3, 4}] and task.stage(0.0, random).d_vocab == task.d_vocab
    few = HopK(n_hops=4, length=12, drawn=2)
    assert few.stage(0.5, random) == few and few.but(curriculum="staged").stage(0.0, random).drawn == 1
    with pytest.raises(BadInput, match="drawn must be at most hops, 4; got 5"):
        HopK(n_hops=4, drawn=5)
    assert Config(HopK(length=100, n_hops=16), Architecture(n_layers=4, n_heads=4)).identity == "c7d045812d65"


def test_stages_by_hand():
    """Three stages of 1, 2, 3 hops; four of 1, 2, 4, 8; 1, 2, 4, 6 where six hops are the hardest."""
    at = [0.0, 0.3, 0.34, 0.6, 0.67, 0.999]
    staged, layerwise = (catalogue.find("curricula", name)() for name in ("staged", "layerwise"))
    random = torch.Generator()
    assert [staged.difficulty(range(1, 4), p, random) for p in at] == [1, 1, 2, 2, 3, 3]
    assert [layerwise.difficulty(range(1, 9), p, random) for p in (0.0, 0.25, 0.5, 0.75)] == [1, 2, 4, 8]
    assert [layerwise.difficulty(range(1, 7), p, random) for p in (0.0, 0.25, 0.5, 0.75)] == [1, 2, 4, 6]


def test_a_mixture_is_even():
    """6,000 draws of three difficulties: each within five standard errors of 2,000."""
    mixture = catalogue.find("curricula", "mixture")()
    drawn = posed(mixture, (1, 2, 4), 0.5, 6000)
    assert all(abs(drawn.count(hops) - 2000) < 5 * (6000 * 2 / 9) ** 0.5 for hops in (1, 2, 4))


def test_cumulative_stages_add_a_difficulty_each_and_keep_the_others():
    """Of three difficulties: one in the first third, two evenly in the second, all evenly in the last."""
    cumulative, random = catalogue.find("curricula", "cumulative")(), generator(0, "difficulty")
    for progress, expected in ((0.0, {1}), (0.33, {1}), (0.34, {1, 2}), (0.66, {1, 2}), (0.67, {1, 2, 4})):
        drawn = [cumulative.difficulty((1, 2, 4), progress, random) for _ in range(600)]
        assert set(drawn) == expected
        even = 600 / len(expected)
        assert all(abs(drawn.count(hops) - even) <= 5 * even**0.5 for hops in expected)


def test_the_option_names_every_curriculum():
    [field] = [field for field in fields(Retrieval) if field.name == "curriculum"]
    assert {*CURRICULA} <= {*re.findall(r"\w+", field.metadata["help"])}

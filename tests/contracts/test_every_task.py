"""Every task, found by its file: seeded, shaped as declared, and right by the plain-Python oracle."""

from __future__ import annotations

import dataclasses
import math
import statistics

import pytest
import torch

from hopscope import Config, Training, train
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.drawing.run_pictures import draw
from hopscope.models import Architecture, Transformer
from hopscope.problem.roles import ABSENT
from hopscope.tasks.base import NOT_ASKED, Batch, Task, TokenTask, VectorTask
from hopscope.tasks.base_regression import RegressionTask
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.gradient_descent.tasks.linear_regression import LinearRegression

TASKS = catalogue.names("tasks")


@pytest.fixture(params=TASKS)
def task(request) -> Task:
    return catalogue.find("tasks", request.param)()


def assert_targets_are_the_oracles(task: Task, n: int, seed: int) -> None:
    """Targets hold what the oracle says: the plain problem's facts, or a brute force that sees the inputs alone."""
    batch = task.sample(n, seed)
    if task.answers_by_force():
        assert_targets_are_the_brute_forces(task, batch)
        return
    for row in range(n):
        values = task.values(batch.draw, row)
        for target, answer in zip(batch.targets[row], task.answers(batch.draw, row), strict=True):
            given = target[target != NOT_ASKED] if isinstance(task, TokenTask) else target
            expected = torch.cat([given[:0], *(values[name].flatten() for name in answer)])  # a gap has no answer
            assert torch.equal(given, expected)


def assert_targets_are_the_brute_forces(task: Task, batch: Batch) -> None:
    """Each asked target is the brute force's answer, or as likely as it says: the mean surprise is the Bayes loss.

    Of real numbers the brute force gives the best prediction: its mean loss is the Bayes loss.
    """
    if isinstance(task, RegressionTask):
        best = torch.tensor([task.brute_force(inputs) for inputs in batch.inputs.tolist()], dtype=torch.float64)
        losses = [float(task.loss(a, b)) for a, b in zip(best[:, None], batch.targets.double()[:, None], strict=True)]
        assert_mean_is(task.bayes_loss, losses)
        return
    surprises = []
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        for target, best in zip(targets, task.brute_force(inputs), strict=True):
            asked = [token for token in target if token != NOT_ASKED]
            if len(best) == len(target):
                best = [answer for token, answer in zip(target, best, strict=True) if token != NOT_ASKED]
            for token, answer in zip(asked, best, strict=True):
                if isinstance(answer, dict):
                    assert sum(answer.values()) == pytest.approx(1)
                    surprises.append(-math.log(answer[token]))
                else:
                    assert token == answer
    if surprises:
        assert_mean_is(task.bayes_loss, surprises)


def assert_mean_is(expected: float, numbers: list[float]) -> None:
    """Within four standard errors."""
    spread = statistics.stdev(numbers) / math.sqrt(len(numbers))
    assert statistics.mean(numbers) == pytest.approx(expected, abs=4 * spread + 1e-9)


def test_equal_seeds_give_equal_batches_and_other_seeds_others(task):
    first, again, other = task.sample(8, 1), task.sample(8, 1), task.sample(8, 2)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs, other.inputs)


def test_training_and_evaluation_share_nothing(task):
    batches = [task.sample(8, generator(0, purpose)).inputs for purpose in ("train", "validation", "report")]
    assert not any(torch.equal(a, b) for i, a in enumerate(batches) for b in batches[:i])


def test_shapes_are_as_declared(task):
    batch = task.sample(5)
    assert (task.d_input is None) != (task.d_vocab is None)
    assert batch.inputs.shape[:2] == (5, task.n_positions)
    assert batch.inputs.shape[2:] == ((task.d_input,) if task.d_input else ())
    n_queries = len(range(*task.query_positions.indices(task.n_positions)))
    assert batch.targets.shape[:2] == (5, n_queries)
    assert batch.roles.chain.shape == (5, len(batch.roles.names), task.n_positions)
    assert len(batch.roles.labels(0)) == task.n_positions


def test_no_sequences_have_the_shapes_of_some(task):
    choices = {field.name: field.metadata.get("choices") for field in dataclasses.fields(task)}
    for posed in [task, *(task.but(position_code=code) for code in choices.get("position_code") or ())]:
        some, none = posed.sample(3), posed.sample(0)
        assert none.inputs.shape == (0, *some.inputs.shape[1:])
        assert none.targets.shape == (0, *some.targets.shape[1:])


def test_targets_equal_the_oracle(task):
    assert_targets_are_the_oracles(task, n=200, seed=3)


def test_rendering_some_rows_is_some_rows_of_the_rendering(task):
    batch = task.sample(6)
    rows = torch.tensor([4, 1])
    assert torch.equal(batch.rows(rows).inputs, batch.inputs[rows])
    assert torch.equal(batch.rows(rows).targets, batch.targets[rows])
    assert torch.equal(batch.rows(rows).roles.chain, batch.roles.chain[rows])


def test_answers_stand_where_the_roles_say(task):
    """Some position holds `query`, every chain has one query, and value positions show what is answered."""
    batch = task.sample(20)
    roles = batch.roles
    assert roles.names[0] == "query"
    assert (roles.chain[:, 0] != ABSENT).any(-1).all()
    allowed = set(range(*task.query_positions.indices(task.n_positions)))
    assert set(torch.nonzero(roles.chain[:, 0] != ABSENT)[:, 1].tolist()) <= allowed


def perfect_outputs(task: Task, targets: torch.Tensor) -> torch.Tensor:
    """What a model would put out that knows every answer."""
    if isinstance(task, VectorTask | RegressionTask):
        return targets
    one_hot = torch.nn.functional.one_hot(targets.clamp(min=0), task.n_logits) * 100.0
    one_hot = torch.where((targets == NOT_ASKED)[..., None], 0.0, one_hot)
    if task.d_output == task.n_logits:  # one set of logits, whichever hop is asked
        return one_hot.sum(2)
    return one_hot.flatten(2)


def test_a_model_that_knows_reaches_the_floor(task):
    batch = task.sample(64)
    outputs = perfect_outputs(task, batch.targets)
    assert float(task.loss(outputs, batch.targets)) == pytest.approx(task.floor, abs=1e-6)
    assert task.hop_losses(outputs, batch.targets).tolist() == pytest.approx(
        [task.floor] * len(task.hop_names), abs=1e-6
    )
    assert task.correct(outputs, batch).all()


def test_baselines_fall_from_chance_to_the_floor(task):
    losses = list(task.baselines.values())
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == task.chance
    assert losses[-1] == task.floor, "the last baseline is the floor, of who is told the answers; see also bayes_loss"
    assert task.solved_below < task.learnt_below < task.chance


def test_whoever_knows_all_that_can_be_known_has_solved_it(task):
    """Or no circuit of any model could be accepted."""
    assert task.bayes_loss < task.model_threshold < task.chance


def test_knowing_nothing_costs_chance(task):
    """Outputs of zero score the first baseline (within sampling error): on tokens, all are equally likely."""
    batch = task.sample(512)
    outputs = torch.zeros(*batch.targets.shape[:2], task.d_output)
    if isinstance(task, RegressionTask):  # a few large answers make up much of it
        assert_mean_is(task.chance, [float(task.loss(outputs[:1], one[None])) for one in batch.targets])
        return
    assert float(task.loss(outputs, batch.targets)) == pytest.approx(task.chance, rel=0.05)


def test_a_model_fits_the_task(task):
    model = Transformer.for_task(Architecture(n_layers=1, d_model=8), task, generator(0, "init"))
    batch = task.sample(3)
    outputs = model(batch.inputs, at=task.query_positions)
    assert math.isfinite(task.loss(outputs, batch.targets).item())


def test_settings_survive_the_way_to_json_and_back(task):
    assert type(task).from_dict(task.as_dict()) == task
    assert all(field.metadata.get("help") for field in dataclasses.fields(task))
    assert task.name() in TASKS


def test_it_trains_and_is_drawn(task, tmp_path):
    """A run of two steps from the problem to its pictures, for every task there is."""
    recipe = Training(steps=2, batch=4, val_size=8, log_every=1)
    run = train(Config(task, Architecture(n_layers=1, d_model=8), recipe), tmp_path / "run")
    assert [row["step"] for row in run.rows] == [0, 1, 2]
    assert run.report["hop_losses"].keys() == set(task.hop_names)
    drawn = draw(run, tmp_path / "pictures")
    assert len(drawn) == 4
    assert all(path.stat().st_size > 1000 for paths, _ in drawn for path in paths)


def test_a_hop_count_is_offered_from_one_to_the_hardest(task):
    assert task.at(task.hardest) == task
    assert task.stage(0.5, generator(0, "difficulty")) == task


# The contract itself: a task that is wrong does not get through ---------------------------------------------------


def test_a_task_cannot_answer_in_the_oracles_place():
    """The task that once could be wrong and pass: targets shifted by one chain, `successors` shifted alike."""
    with pytest.raises(TypeError, match="may not define successors"):

        @dataclasses.dataclass(frozen=True)
        class Shifted(Retrieval):
            def successors(self, draw, row):
                return [*super().successors(draw, row)[1:], super().successors(draw, row)[0]]


@dataclasses.dataclass(frozen=True)
class WrongTargets(Retrieval):
    """Each query is answered with the next one's chain."""

    def targets(self, draw):
        return super().targets(draw).roll(1, 1)


@dataclasses.dataclass(frozen=True)
class WrongHop(Retrieval):
    """The targets hold the last hop alone, and the task says that all are asked."""

    def targets(self, draw):
        return super().targets(draw)[..., -self.d_symbol :].repeat(1, 1, self.n_hops)


@dataclasses.dataclass(frozen=True)
class WrongNumbers(LinearRegression):
    """The targets are half as large as the examples say."""

    def targets(self, draw):
        return super().targets(draw) / 2


@dataclasses.dataclass(frozen=True)
class WrongForce(HopK):
    """Targets of one hop too many, which the inputs do not bear out."""

    def targets(self, draw):
        more = dict(draw, hops=(draw["hops"] + 1).clamp(max=self.n_hops))
        asked = super().targets(more).amax(-1, keepdim=True)
        return torch.where(super().targets(draw) == NOT_ASKED, NOT_ASKED, asked)


@pytest.mark.parametrize(
    "wrong", [WrongTargets(), WrongHop(), WrongNumbers(), WrongForce()], ids=lambda task: type(task).__name__
)
def test_targets_that_disagree_with_the_problem_do_not_pass(wrong):
    with pytest.raises(AssertionError):
        assert_targets_are_the_oracles(wrong, n=20, seed=3)


# Sequences that people type -----------------------------------------------------------------------------------------


def in_order_of_place(chain: torch.Tensor) -> torch.Tensor:
    """Chain numbers, row by row counted anew in the order in which they come: which numbers there are is nobody's."""
    found = chain.clone()
    for row in found.flatten(1):
        for number, old in enumerate(dict.fromkeys(row[row >= 0].tolist())):
            row[row == old] = -10 - number
    return found


@pytest.mark.parametrize("name", [name for name in TASKS if catalogue.find("tasks", name).read is not Task.read])
def test_what_can_be_read_back_is_the_same_sequence(name):
    """`read` of a sequence's tokens is a draw that renders the same inputs, roles, and answers that can be known."""
    task = catalogue.find("tasks", name)()
    drawn = task.sample(20, 5)
    for row, tokens in enumerate(drawn.inputs.tolist()):
        known, found = drawn.rows(slice(row, row + 1)), Batch(task, task.read(tokens))
        assert found.inputs.tolist() == [tokens]
        assert torch.equal(in_order_of_place(found.roles.chain), in_order_of_place(known.roles.chain))
        if task.bayes_loss == 0:
            assert torch.equal(found.targets, known.targets)
        if isinstance(task, TokenTask) and task.global_answer is not None:
            assert torch.equal(task.recalled(found.draw), task.recalled(known.draw))


def test_fewer_sequences_than_none_are_refused():
    with pytest.raises(BadInput, match="must be a whole number from 0 on; got -1"):
        Retrieval().sample(-1)

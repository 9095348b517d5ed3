"""What is said of roles where no circuit is found: of heads whose attention is set by hand, counted by hand."""

from __future__ import annotations

import pytest
import torch

from hopscope.circuits.advice import advice
from hopscope.circuits.exam import Discovery, Exam
from hopscope.circuits.units import Row
from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.problem.roles import Roles
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval

SMALL = Discovery(discovery=16, selection=8, report=8)
ROW, MAIN = Row(1, 0, "query"), Path(1, 0, "query", "value[1]")


def exam_of(task, look=None):
    """An untrained model whose row `query` of L1H0 is said to matter, and to look as told."""
    model = Transformer.for_task(Architecture(n_layers=2, d_model=16), task, generator(0, "init"))
    exam = Exam(model, task, SMALL, lambda _: None)
    exam.threshold, exam.effects = 0.5, {ROW: 1.0}
    if look is not None:
        pattern = exam.data.patterns[1].clone()
        pattern[:, 0] = look(exam.data)
        exam.data.patterns[1] = pattern
        exam.data.__dict__.pop("strengths", None)
    return exam


def at_key(*shares):
    """All positions attend so much to some keys; the rest to themselves."""

    def look(data):
        n = data.batch.inputs.shape[1]
        own = 1 - sum(share for _, share in shares)
        found = own * torch.eye(n)
        for key, share in shares:
            found[:, key] += share
        return found.expand(len(data.batch), n, n)

    return look


class Nameless(Retrieval):
    """Only the queries have a role."""

    def roles(self, draw):
        roles = super().roles(draw)
        return Roles(("query",), roles.chain[:, :1])


@pytest.fixture(scope="module")
def nameless():
    return Nameless(n_hops=2)


def test_where_attention_goes_that_no_role_names_is_said_with_its_share(nameless):
    """Nine tenths of the query's attention fall on position 0, which holds no role."""
    said = advice(exam_of(nameless, at_key((0, 0.9))))
    assert said.startswith("heads attend to positions without a role (90% of L1H0 query, 100% of it at position 0)")


def test_what_is_so_many_back_is_suggested_as_that(nameless):
    """Queries stand at several positions, so no one position fits; three back some look at another query, by a path."""

    def look(data):
        n = data.batch.inputs.shape[1]
        return (0.8 * torch.eye(n).roll(-3, 1).tril() + 0.2 * torch.eye(n)).expand(len(data.batch), n, n)

    said = advice(exam_of(nameless, look))
    assert "100% of it 3 positions back)" in said


def test_nothing_is_suggested_where_attention_is_spread(nameless):
    """A share that falls on no path is told; half here and half there is no role."""
    said = advice(exam_of(nameless, at_key((0, 0.45), (1, 0.45))))
    assert "90% of L1H0 query)" in said


class Loose(Induction):
    """A role that two positions hold in every second sequence: the answer's, and the first one."""

    def roles(self, draw):
        roles = super().roles(draw)
        chain = roles.chain.clone()
        at = roles.names.index("value[1]")
        chain[::2, at, 0] = chain[::2, at].amax(1)
        return Roles(roles.names, chain)


def test_a_path_that_leads_to_several_positions_is_told_with_its_share_of_the_sequences():
    def look(data):
        entries = data.ground.entries(MAIN).float()
        return entries / entries.sum(-1, keepdim=True).clamp(min=1)

    said = advice(exam_of(Loose(), look))
    assert "several positions at once" in said and "L1H0 query->value[1] in 50%" in said


def test_answers_asked_where_no_role_is_come_first():
    class Unasked(Retrieval):
        def roles(self, draw):
            roles = super().roles(draw)
            return Roles(roles.names[1:], roles.chain[:, 1:])

    assert advice(exam_of(Unasked(n_hops=2))).startswith("only 0% of the targets are at positions with a role")

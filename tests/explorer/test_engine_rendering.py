"""Facts typed into the page: laid out as Python lays them out, held against the task, asked as the oracle has it."""

from __future__ import annotations

import itertools

import pytest

from hopscope.explorer.describing import task_entry
from hopscope.explorer.typed import typing_of
from hopscope.models.transformer import Architecture
from hopscope.problem.oracle import Fact, Problem
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from tests.explorer.node_engine import need_node, printed

TASKS = [
    Retrieval(),
    Retrieval(n_hops=3, n_chains=3, order="shuffled", d_symbol=8, position_code="pair", position_base=10_000.0),
    Retrieval(n_hops=3, order="3,1,2", curriculum="none"),
    Retrieval(position_code="token_and_before"),
    Retrieval(order="deepest_first", curriculum="mixture"),
    SymbolicRetrieval(n_hops=3, d_vocab=40),
    ConditionalRetrieval(n_chains=3),
    ConditionalRetrieval(shape="a>x ax>y ay>z", n_chains=2, order="deepest_first", curriculum="none"),
]


@pytest.fixture(autouse=True)
def own_cache():
    """Node in place of a cache: nothing here explores a run."""
    need_node()


def run_of(task) -> dict:
    return {"task": task_entry(task, Architecture()), "batch": {"typing": typing_of(task.sample(2))}}


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_draw_is_rendered_as_python_renders_it(task):
    batch = task.sample(5, 2)
    looks = batch.draw["symbols"] if "symbols" in batch.draw else batch.draw["tokens"]
    drawn = [
        {"order": {"facts": facts.tolist(), "queries": queries.tolist()}, "symbols": symbols.flatten().tolist()}
        for facts, queries, symbols in zip(batch.draw["facts"], batch.draw["queries"], looks, strict=True)
    ]
    [answer] = printed("rendering", [{"run": run_of(task), "drawn": drawn}])
    found = answer["batch"]
    asking = range(task.n_positions)[task.query_positions]
    assert found["queries"] == {"start": asking.start, "end": asking.stop}
    assert found["roles"]["names"] == list(batch.roles.names)
    assert found["roles"]["chain"] == batch.roles.chain.flatten().tolist()
    assert found["inputs"] == pytest.approx(batch.inputs.flatten().tolist())
    assert found["targets"] == pytest.approx(batch.targets.flatten().tolist())
    assert found["asked"] == task.asked(batch.draw).flatten().tolist()
    if "symbols" in batch.draw:
        assert found["candidates"] == pytest.approx(task.candidates(batch.draw).flatten().tolist())


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_an_order_is_one_that_python_may_draw(task):
    [answer] = printed("rendering", [{"run": run_of(task), "drawn": [], "orders": 100}])
    steps = [step for step, _, _ in task.sheet.facts]
    blocks = set()
    for order in answer["orders"]:
        assert sorted(order["facts"]) == list(range(len(steps)))
        assert sorted(order["queries"]) == list(range(task.n_chains))
        blocks.add(tuple(step for step, _ in itertools.groupby(steps[fact] for fact in order["facts"])))
    named = {tuple(block) for block in blocks}
    if task.order == "shuffled":
        assert len(named) == 6
    else:
        own = task.sample(1).problem(0).facts
        assert named == {tuple(step for step, _ in itertools.groupby(fact.step for fact in own))}
    assert len({tuple(order["facts"]) for order in answer["orders"]}) > 10


def typed(task, text: str, n: int = 3, seed: int = 0) -> dict:
    [answer] = printed("rendering", [{"run": run_of(task), "drawn": [], "typed": {"text": text, "n": n, "seed": seed}}])
    return answer


CHAINS = "ann>bob bob>cy; eve → fay, fay->gus\nhal>ida ida>joe"


def test_typed_facts_are_asked_as_the_oracle_answers_them():
    task = Retrieval(n_chains=4)
    found = typed(task, CHAINS, n=6)
    names = [("ann", "bob"), ("bob", "cy"), ("eve", "fay"), ("fay", "gus"), ("hal", "ida"), ("ida", "joe")]
    oracle = Problem(tuple(Fact((one,), other) for one, other in names), ("ann", "eve", "hal"))
    roots = ["ann", "eve", "hal"]
    assert found["typed"] == 3
    for sequence, answers in zip(found["sequences"], found["answers"], strict=True):
        for chain, *asked in zip(sequence["queries"], answers[::2], answers[1::2], strict=True):
            if chain < 3:
                assert asked == oracle.successors(roots[chain])
        # Every typed fact stands somewhere, its two names side by side; queries come last.
        pairs = list(zip(sequence["symbols"][:-4:2], sequence["symbols"][1:-4:2], strict=True))
        assert set(names) < set(pairs)
        assert set(roots) < set(sequence["symbols"][-4:])
    assert len({tuple(sequence["symbols"]) for sequence in found["sequences"]}) > 1


def test_facts_with_two_premises_find_their_steps():
    task = ConditionalRetrieval(n_chains=2)
    found = typed(task, "engineer+mother>house  ann>engineer ann>mother")
    for sequence, answers in zip(found["sequences"], found["answers"], strict=True):
        place = 3 * sequence["queries"].index(0)
        assert answers[place : place + 3] == ["engineer", "mother", "house"]
        triples = ["engineer mother house", "mother engineer house"]
        assert any(triple in " ".join(sequence["symbols"]) for triple in triples)


def test_equal_seeds_pose_equally():
    task = SymbolicRetrieval()
    one, same, other = (typed(task, "ann>bob bob>cy", seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one["batch"]["inputs"] != other["batch"]["inputs"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at least one chain"),
        ("ann", "ann>bob"),
        ("ann>", "ann>bob"),
        ("a>b>c", "ann>bob"),
        ("+>b", "ann>bob"),
        ("ann>bob", "every chain of this task has the facts ann>x1 x1>x2"),
        ("ann>bob bob>cy cy>dan", "cy>dan"),
        ("ann>bob bob>cy ann>dan", "ann>dan"),
        ("ann>bob bob>cy dan>cy", "follow once"),
        ("ann>bob bob>ann", "circle"),
        (" ".join(f"a{i}>b{i} b{i}>c{i}" for i in range(5)), "5 chains"),
        ("ann+eve>bob bob>cy", "do not fit"),
        ("x" * 61 + ">b b>c", "60 characters"),
        ("a>b " * 2500, "4000 characters"),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(text, told):
    refused = typed(Retrieval(), text)["refused"]
    assert told in refused
    assert refused.endswith(".")
    assert len(refused) < 250


def test_hostile_names_are_names():
    assert "refused" in typed(Retrieval(), "</script><b>>\u202etxt \u202etxt>cy")  # `>` ends a name
    found = typed(Retrieval(), "constructor>\u202etxt \u202etxt>__proto__")
    assert {"constructor", "\u202etxt", "__proto__"} < set(found["names"])


def test_other_tasks_say_so():
    assert "induction" in typed(Induction(), "ann>bob")["refused"]

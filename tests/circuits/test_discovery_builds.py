"""Discovery on models that `python -m bench.builds` draws by the hundred: on three, or by `make slow` on twelve."""

from __future__ import annotations

import pytest

from bench.builds import JUDGED_ON, Outcome, examine, explain, line, model, models, one_model, summary
from hopscope.builds.build import Build, build
from hopscope.circuits.discovery import Discovery, discover
from hopscope.problem.paths import Path
from hopscope.tasks.retrieval import Retrieval

SMALL = Discovery(discovery=32, selection=32, report=64)
SEED = 12


@pytest.mark.parametrize("number", [pytest.param(n, marks=[pytest.mark.slow] * (n >= 3)) for n in range(12)])
def test_the_circuit_found_is_a_true_minimal_one(number):
    outcome = examine(number, model(number, SEED, hops=3), SMALL)
    assert outcome.hit, line(outcome)
    assert outcome.all_found or outcome.true_circuits > 1, line(outcome)
    assert line(outcome).split()[1] == "hit"


def test_models_do_not_depend_on_those_before_them():
    first, second = models(2, 5, hops=2)
    [again] = models(1, 5, hops=2)
    assert first.truth == again.truth and first.truth["seed"] != second.truth["seed"]


def test_a_miss_is_explained():
    task = Retrieval(n_hops=1)
    built = build(task, Build(layers=3, seed=1))
    circuit = discover(built.model, task, SMALL)
    true = frozenset(map(Path.from_dict, built.truth["schedule"]))
    spare = Path(0, 0, "query", "query")
    more = explain(built, circuit, true | {spare}, true)
    assert "did not minimise" in more["words"] and more["extra"] == [str(spare)]
    less = explain(built, circuit, true - {max(true)}, true)
    assert "does not suffice" in less["words"] and less["losses"]["live"]["found"] > 0.05
    assert JUDGED_ON >= 128


def test_outcomes_are_counted():
    hit = Outcome(0, {}, {}, 9, "circuit", 0, 1, 1, True, True, 5, 1.0)
    miss = Outcome(1, {}, {}, 9, "none", 0, 1, 1, False, True, 5, 3.0)
    assert hit.hit and not miss.hit
    assert summary([hit, miss]).startswith("1 of 2")


def test_what_cannot_be_built_at_all_is_told(monkeypatch):
    import random

    from hopscope.core.settings import BadInput

    def never(task, settings):
        raise BadInput("no")

    monkeypatch.setattr("bench.builds.build", never)
    with pytest.raises(RuntimeError, match="cannot be built"):
        one_model(random.Random(0), 2)

"""Programs asked for more hops: schedules of theory, lengthened, against the oracle; and the control."""

from __future__ import annotations

import pytest
from pandas import DataFrame

from hopscope.circuits.program import OWN, Program, rows_of, written
from hopscope.circuits.program_trial import trial
from hopscope.circuits.units import Ground
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture
from hopscope.problem.paths import Path
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.theory.algorithms.doubling import doubling
from hopscope.theory.algorithms.linear import linear
from hopscope_studies.more_hops.experiments.ceiling import behaviours, claims, exact, most_hops
from hopscope_studies.more_hops.programs import lengthened, with_values_exchanged

FOUND = {"looped": 2, "looped, kv_shift": 1, "unshared": 0}
SHAPE = Architecture(n_layers=4, n_heads=2, d_model=8)
TASK = SymbolicRetrieval(n_hops=2, curriculum="none")
ORDER = [2, 1]
SHIFTED = [Path(0, 0, "value[1]", "value[2]"), Path(0, 0, "query", "value[1]"), Path(1, 0, "query", "value[1]")]
#: Ways to follow two hops: the query does, facts do ahead of it, both at once, or keys are shifted.
FOLLOWED = {
    "query": [
        *(Path(0, 0, f"value[{k}]", f"key[{k}]") for k in (1, 2)),
        *(Path(k, 0, "query", f"value[{k}]") for k in (1, 2)),
    ],
    "chain": linear(2, ORDER, True, "chain"),
    "doubling": doubling(2, ORDER, True, "chain"),
    "shifted": SHIFTED,
}


def program(task: SymbolicRetrieval, paths: list[Path]) -> Program:
    ground = Ground(batch := task.sample(256, 0), SHAPE)
    return written(paths, rows_of(batch, ground), ground)


def rows(task: SymbolicRetrieval):
    return rows_of(batch := task.sample(64, 1), Ground(batch, SHAPE))


@pytest.mark.parametrize("more", [0, 1, 4])
@pytest.mark.parametrize("paths", FOLLOWED.values(), ids=list(FOLLOWED))
def test_a_repeated_last_step_is_one_more_hop(paths, more):
    """And only one: a hop more or less than asked is another answer."""
    longer = lengthened(program(TASK, paths), more)
    right = trial("", longer, rows(TASK.but(n_hops=2 + more)))
    assert right.agrees == right.n == 256
    assert trial("", longer, rows(TASK.but(n_hops=3 + more))).agrees == 0


def test_a_program_of_one_hop_can_be_repeated_too():
    """Whose last step looks for the query's own symbol."""
    longer = lengthened(program(TASK.but(n_hops=1), linear(1, [1], True, "chain")), 3)
    found = trial("", longer, rows(TASK.but(n_hops=4)))
    assert found.agrees == found.n


def test_nothing_is_repeated_where_no_single_step_brings_the_answer():
    """The last program follows each hop in two steps: to the key, and to the place after it."""
    assert lengthened(Program((), (OWN,)), 0).answers == (OWN,)
    for one in (Program((), (OWN,)), program(TASK, linear(2, ORDER, True, "query"))):
        with pytest.raises(BadInput, match="none can be repeated"):
            lengthened(one, 1)


def test_exchanged_values_lead_to_other_chains():
    """After one hop always; the facts' first symbols and the queries stay."""
    asked = rows(TASK.but(n_hops=1))
    other = with_values_exchanged(asked)
    assert trial("", program(TASK.but(n_hops=1), linear(1, [1], True, "chain")), other).agrees == 0
    for row, moved in zip(asked.own, other.own, strict=True):
        assert moved[:-4:2] == row[:-4:2] and moved[-4:] == row[-4:] and sorted(moved) == sorted(row)
        assert all(one != old for one, old in zip(moved[1:-4:2], row[1:-4:2], strict=True))


def table(**changes: object) -> DataFrame:
    """Three variants in two seeds, D = 3; every claim holds."""
    return DataFrame(
        {"run": f"{variant}/{seed}", "seed": seed, "prior": "none", "variant": variant, "D": 3, "hops": hops}
        | {"verdict": "circuit" if hops <= most else "none" if hops <= 3 else "", "untrained": "none" * (hops <= 3)}
        | {"model": 1.0 if hops <= 3 else 0.1, "program": 1.0 if most else None, "shuffled": 1 / hops}
        | {"exchanged": 0.25 if most else None}
        | changes
        for variant, most in FOUND.items()
        for seed in (0, 1)
        for hops in range(1, 7)
    )


def test_the_most_hops_with_a_circuit_are_counted_by_run():
    assert most_hops(table()).to_dict() == {f"{v}/{s}": n for v, n in FOUND.items() for s in (0, 1)}


def test_programs_with_equal_accuracies_are_one_behaviour():
    found = table()
    made = found[found.program.notna()]
    assert behaviours(made) == 1 and behaviours(made[made.seed == 9]) == 0
    one = made.assign(shuffled=made.shuffled.where((made.seed == 0) | (made.hops < 6), 0.5))
    assert behaviours(one) == 2
    counted = {claim.id: claim.n for claim in claims(found)}
    assert counted["ceiling"] == counted["exchanged"] == counted["shuffled"] == 1 and counted["model_is_below"] == 2


def test_the_program_of_theory_is_exact_and_follows_the_facts():
    """Its answers change with the facts' values, so after one exchange they agree with the old ones by chance alone."""
    for row in exact("cpu"):
        assert row["program"] == row["shuffled"] == 1 and row["exchanged"] < 0.4


#: By claim, a change with which it fails.
SPOILT = {
    "circuit": {"verdict": "none"},
    "ceiling": {"program": 0.9},
    "model_is_below": {"model": 0.9},
    "kv_shift": {"verdict": "none"},
    "kv_shift_ceiling": {"program": 0.9},
    "unshared": {"verdict": "circuit"},
    "untrained": {"untrained": "circuit"},
    "exchanged": {"exchanged": 1.0},
    "shuffled": {"shuffled": 1.0},
}


@pytest.mark.parametrize("id", SPOILT)
def test_each_claim_holds_and_can_fail(id):
    verdicts = lambda found: {one.id: one.verdict for one in claims(found)}  # noqa: E731
    assert verdicts(table())[id] == "holds" and verdicts(table(**SPOILT[id]))[id] == "fails"

"""Circuits as programs: schedules of theory, held against the oracle in plain Python; what is no program is refused."""

from __future__ import annotations

import ast
import dataclasses
import shutil
from pathlib import Path as Files

import pytest
import torch

from hopscope.circuits.program import called, rows_of, written
from hopscope.circuits.program_trial import WRITTEN_ON, Trial, compiled, larger, program_of, trial
from hopscope.circuits.units import Ground
from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.tasks.two_hop import TwoHop
from hopscope.theory.algorithms.doubling import doubling
from hopscope.theory.algorithms.linear import linear
from hopscope_studies.birth.tasks.trigger_bigrams import TriggerBigrams

SHAPE = Architecture(n_layers=4, n_heads=2, d_model=8)
ORDERS = {"deepest_first": [3, 2, 1], "nearest_first": [1, 2, 3]}
HEADS = [Path(0, 0, "value[1]", "key[1]"), Path(1, 0, "query", "value[1]"), Path(1, 1, "query", "value[1]")]
SCHEDULES = {
    "linear, by facts": lambda order: linear(3, order, True, "chain"),
    "linear, by the query": lambda order: linear(3, order, True, "query"),
    "doubling": lambda order: doubling(3, order, True, "chain"),
}


def program(task, paths):
    batch = task.sample(WRITTEN_ON, 0)
    ground = Ground(batch, SHAPE)
    return written(paths, rows_of(batch, ground), ground)


def tried(task, paths, seed=1):
    batch = task.sample(128, seed)
    return trial("fresh", program(task, paths), rows_of(batch, Ground(batch, SHAPE)))


def is_right(found):
    return found.agrees == found.n > 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_text_of_a_schedule_follows_chains_as_the_oracle_does(schedule, order):
    task = SymbolicRetrieval(n_hops=3, n_chains=3, order=order)
    text = str(program(task, SCHEDULES[schedule](ORDERS[order])))
    run, batch = compiled(text), task.sample(32, 7)
    queries = range(task.n_positions)[task.query_positions]
    for row, problem in enumerate(batch.problems()):
        tokens = batch.inputs[row].tolist()
        values = {name: int(value) for name, value in task.values(batch.draw, row).items()}
        answers, _ = run(tokens)
        for p in queries:
            asked = next(name for name, token in values.items() if token == tokens[p] and name in problem.queries)
            assert [hop[p] for hop in answers] == [values[one] for one in problem.successors(asked)]
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100 and len(lines) <= 50 and "import" not in text


def test_attention_to_oneself_is_no_step():
    """A head that divides its attention between a position and the one before reads the same as one that does not."""
    task, paths = SymbolicRetrieval(n_hops=2), linear(2, [2, 1], True, "chain")
    itself = [Path(0, 0, "value[1]", "value[1]"), Path(1, 1, "query", "query")]
    assert str(program(task, [*paths, *itself])) == str(program(task, paths))


@pytest.mark.parametrize("schedule", ["linear, by facts", "doubling"])
def test_vectors_are_read_by_their_nearest_symbol_and_more_chains_are_no_harder(schedule):
    task = Retrieval(n_hops=3, d_symbol=32)
    paths = SCHEDULES[schedule](ORDERS["deepest_first"])
    assert is_right(tried(task, paths)) and is_right(tried(task.but(n_chains=8), paths))


def test_pointer_doubling_is_flatter_in_the_text_too():
    """A fact reads another ahead of the query, whose last look then brings two answers."""
    doubled = program(SymbolicRetrieval(n_hops=3), SCHEDULES["doubling"]([3, 2, 1]))
    in_turn = program(SymbolicRetrieval(n_hops=3), SCHEDULES["linear, by facts"]([3, 2, 1]))
    assert [len({step.paths[0].layer for step in one.steps}) for one in (doubled, in_turn)] == [3, 4]
    last = doubled.steps[-1].name
    assert [name.startswith(f"{last}_") for name in doubled.answers] == [False, True, True]


def test_shifted_keys_are_looked_up_in_one_step():
    """Attention with shifted keys sees both tokens of a fact at its second; the first position has none before it."""
    task = SymbolicRetrieval(n_hops=2)
    ahead = [Path(0, 0, "value[1]", "value[2]"), Path(0, 0, "query", "value[1]"), Path(1, 0, "query", "value[1]")]
    assert is_right(tried(task, ahead)) and "q > 0 and None != own[q - 1] == own[p]" in str(program(task, ahead))


def test_distractors_and_one_query_are_no_obstacle():
    task = TwoHop(every_hop=True)
    paths = [
        *(Path(0, 0, f"value[{k}]", f"key[{k}]") for k in (1, 2)),
        Path(1, 0, "query", "value[1]"),
        Path(2, 0, "query", "value[2]"),
    ]
    assert is_right(tried(task, paths))


def test_a_schedule_that_does_not_solve_its_task_has_no_program():
    """Made for facts in order; where they are shuffled the later one cannot always be read."""
    with pytest.raises(BadInput, match=r"no rule of a program says where L2H0 query->value\[3\] looks"):
        program(SymbolicRetrieval(n_hops=3, order="shuffled"), SCHEDULES["doubling"]([1, 2, 3]))
    with pytest.raises(BadInput, match="no query comes to hold the answer of hop 2"):
        program(SymbolicRetrieval(n_hops=2), linear(1, [1], True, "chain"))


def test_a_sequence_may_say_what_is_asked_and_nothing_may_be_the_answer():
    """hop_k begins with a number of hops; heads without a target rest there; `~` is left out, as in its accuracy."""
    task = HopK(length=8, n_hops=1)
    rests = [Path(0, 1, "query", "count"), Path(0, 1, "query", "nowhere"), Path(1, 0, "query", "nowhere")]
    paths = [Path(0, 0, "query", "−1"), *rests, Path(1, 0, "query", "value[1]")]
    found = tried(task, paths)
    assert is_right(found) and "q == 0" in str(program(task, paths))
    answers = [hop for row in task.sample(128, 1).targets.tolist() for hops in row for hop in hops]
    assert found.n == sum(0 <= answer < task.undefined for answer in answers)
    assert larger(task, SHAPE).keys() == {"twice as long"}


def test_a_place_may_find_itself():
    """A trigger may be its own output: the place after it holds it, too."""
    task = TriggerBigrams(length=14, n_triggers=3)
    paths = [Path(0, 0, "value[1]", "key[1]"), Path(1, 0, "query", "value[1]")]
    assert is_right(tried(task, paths)) and "range(p + 1)" in str(program(task, paths))


def test_paths_to_the_own_chain_and_to_others_may_be_one_rule():
    """Of distractors all keys are of no chain: that a head looks at their own is a path to others."""
    first = [Path(0, 0, "value[1]", "key[1]"), Path(0, 0, "value[1]", "key[1]", "other")]
    paths = [*first, Path(1, 0, "query", "value[1]"), Path(2, 0, "query", "value[2]")]
    assert is_right(tried(TwoHop(), paths))


def test_steps_are_never_called_as_places_are():
    names = [called(number) for number in range(60)]
    assert len({*names}) == 60 and not {"p", "q", "own", "every"} & {*names} and names[23:25] == ["z", "aa"]


def test_where_a_program_parts_is_told():
    task, made = Induction(length=8, d_vocab=12), program(Induction(length=8, d_vocab=12), HEADS)
    batch = task.sample(64, 3)
    rows = rows_of(batch, Ground(batch, SHAPE))
    wrong = dataclasses.replace(made.steps[0].rule, text="q == p - 2")
    broken = dataclasses.replace(made, steps=(dataclasses.replace(made.steps[0], rule=wrong), made.steps[1]))
    found = trial("broken", broken, rows)
    assert found.n == 64 and found.parts == {"L0H0 value[1]->key[1]": 64 - found.agrees} and found.agrees < 13
    assert str(Trial("x", 4, 3, {"none": 1})) == "x: 3 of 4 (95 %: 0.301 to 0.954); 1 part at none"


def test_it_is_tried_where_the_model_is_right_and_beyond():
    task = Induction(length=8, d_vocab=12)
    torch.manual_seed(0)
    model = Transformer.for_task(SHAPE, task, torch.Generator().manual_seed(0))
    batches = task.sample(48, 0), task.sample(64, 1)
    found = program_of(HEADS, model, batches, larger(task, SHAPE))
    with torch.no_grad():
        said = model(batches[1].inputs)[:, -1].argmax(-1)
    assert found.trials[0].n == int((said == batches[1].targets[:, 0, 0]).sum()) < 64
    assert [one.n - one.agrees for one in found.trials] == [0, 0, 0] and found.trials[1].n == 64
    assert "what is right, twice as long: 512 of 512" in str(found)
    assert compiled(str(found))([3, 1, 2, 3])[0][0][-1] == 1
    with pytest.raises(BadInput, match="there is no circuit"):
        program_of([], model, batches, {})


def test_only_paths_have_programs(tmp_path, capsys):
    run = shutil.copytree(Files(__file__).parents[1] / "data" / "runs_0_1" / "solved", tmp_path / "solved")
    assert main(["circuit", str(run), "--unit", "edges", "--program", str(tmp_path / "p.py")]) == 2
    assert "--program is for --unit paths" in capsys.readouterr().err and not (tmp_path / "p.py").exists()


@pytest.mark.heavy
def test_the_command_writes_a_program_that_runs(tmp_path, capsys):
    run = shutil.copytree(Files(__file__).parents[1] / "data" / "runs_0_1" / "solved", tmp_path / "solved")
    file = tmp_path / "programs" / "p.py"
    assert main(["circuit", str(run), "--program", str(file)]) == 0
    assert "what the model answers rightly: 1022 of 1022" in capsys.readouterr().out
    assert compiled(file.read_text())([5, 6, 7, 8, 7])[0][0][-1] == 8


def test_names_of_roles_are_no_code():
    """A role has whatever name its owner gave it; of a program's text it is a comment."""
    made = program(SymbolicRetrieval(n_hops=1, n_chains=2), HEADS[:2])
    evil = Path(0, 0, "value[1]\nraise SystemExit", 'key[1]"""\rraise SystemExit')
    steps = (dataclasses.replace(made.steps[0], paths=(evil,)), *made.steps[1:])
    compiled(str(dataclasses.replace(made, steps=steps)))
    lines = str(dataclasses.replace(made, steps=steps)).splitlines()
    assert all(line.lstrip().startswith("#") for line in lines if "SystemExit" in line)
    for told in ('needs L0H0 x"""\nraise SystemExit\n"""', 'needs L0H0 x\\"""+exit()+"""', "needs L0H0 x\\"):
        text = str(dataclasses.replace(made, title=told))
        compiled(text)
        assert ast.get_docstring(ast.parse(text), clean=False) == told

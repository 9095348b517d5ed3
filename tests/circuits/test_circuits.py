"""The parts of circuit discovery, each against something known; and what must not be accepted."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from random import Random
from types import SimpleNamespace

import pytest
import torch

from bench.controls import random_sets, with_wrong_chains
from bench.trained import TRAINED, trained
from hopscope.builds.build import Build, build
from hopscope.circuits import discovery, exam as exams
from hopscope.circuits.certificates import certify
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, circuits_in, discover
from hopscope.circuits.evaluator import AsIs, Evaluator, Hard, Kept, Silenced
from hopscope.circuits.exam import Exam
from hopscope.circuits.hypotheses import hypotheses
from hopscope.circuits.losses import Loss
from hopscope.circuits.search import all_minimal, minimal, nearest
from hopscope.circuits.sufficiency import Sufficiency
from hopscope.circuits.units import NO_ROLE, Ground, Row, row_of
from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.interventions import branches
from hopscope.interventions.patterns import ideal, null, visible
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.runs.run import SHIPPED, load
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.training.loop import train
from hopscope_studies.switch_head.by_hand import by_hand
from hopscope_studies.switch_head.tasks.last_tokens import LastTokens
from tests.circuits.frozen import Frozen

SMALL = Discovery(discovery=32, selection=48, report=64)


def path(text):
    return Path.parse(text)


def paths_of(built, ablation="uniform"):
    return [frozenset(Path.from_dict(p) for p in circuit) for circuit in built.truth["circuits"][ablation]]


@pytest.fixture(scope="module")
def three_hops():
    return build(Retrieval(n_hops=3, order="nearest_first"), Build(layers=4, unused="dead", seed=1))


@pytest.fixture(scope="module")
def lab(three_hops):
    return Evaluator(three_hops.model, three_hops.config.task.sample(24, 5), tile=96)


# Search ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_minimal_sets_are_those_of_brute_force(seed):
    """Random monotone tests: a set passes if it holds one of a few cores."""
    random = torch.Generator().manual_seed(seed)
    units = list("abcdefg")
    cores = []
    for _ in range(1 + seed % 4):
        size = int(torch.randint(1, 4, (1,), generator=random))
        cores.append(frozenset(units[i] for i in torch.randperm(7, generator=random)[:size]))
    passes = lambda chosen: any(core <= chosen for core in cores)  # noqa: E731
    subsets = [frozenset(c) for n in range(8) for c in itertools.combinations(units, n)]
    passing = [s for s in subsets if passes(s)]
    truth = {s for s in passing if not any(t < s for t in passing)}
    assert minimal(units, passes) in truth
    found, complete = all_minimal(units, passes)
    assert complete and set(found) == truth


def test_minimal_prefers_what_stands_first():
    assert minimal("abc", lambda chosen: bool(chosen & {"a", "c"})) == {"a"}
    assert minimal("cba", lambda chosen: bool(chosen & {"a", "c"})) == {"c"}
    assert minimal("abc", lambda chosen: True) in ({"a"}, frozenset())


@pytest.mark.parametrize("seed", range(20))
def test_a_set_near_a_known_one_is_minimal_and_takes_little_else(seed):
    """Random monotone tests: the first core is known, and all but one unit of it are left."""
    random = torch.Generator().manual_seed(seed)
    cores = [frozenset(torch.randperm(12, generator=random)[:4].tolist()) for _ in range(4)]
    near = cores[0] - {min(cores[0])}
    units = [unit for unit in range(12) if unit != min(cores[0])]
    passes = lambda chosen: any(core <= chosen for core in cores)  # noqa: E731
    if not passes(frozenset(units)):
        return
    found = nearest(units, passes, near)
    assert passes(found) and not any(passes(found - {unit}) for unit in found)
    beside = [core - near for core in cores if core <= set(units)]
    assert not any(other < found - near for other in beside)  # of what is beside it, nothing could be spared


def test_only_what_is_needed_is_forbidden():
    """Three units would do in the place of c, and it is not asked for them."""
    cores = [frozenset("ab" + other) for other in "cdef"] + [frozenset("xy")]
    passes = lambda chosen: any(core <= chosen for core in cores)  # noqa: E731
    every, ended = all_minimal("abcdefxy", passes)
    assert ended and set(every) == set(cores)
    some, ended = all_minimal("abcdefxy", passes, needed=lambda found: found - set("cdef"))
    assert ended and set(some) == {frozenset("abc"), frozenset("xy")}


def test_few_tests_suffice():
    asked = []
    units = list(range(128))

    def passes(chosen):
        asked.append(chosen)
        return {3, 77, 120} <= chosen

    assert minimal(units, passes) == {3, 77, 120}
    assert len(asked) < 60  # one by one would take 128


# Changes of attention --------------------------------------------------------------------------------------------


def test_nothing_changes_as_is_and_when_all_is_kept(three_hops, lab):
    task, batch = three_hops.config.task, lab.batch
    plain = three_hops.model(batch.inputs, at=task.query_positions)
    everything = frozenset(lab.ground.rows)
    for change in (AsIs(), Kept(everything), Frozen(everything, lab.patterns), Silenced(frozenset())):
        torch.testing.assert_close(lab.outputs([change])[0], plain, atol=1e-4, rtol=0)


def test_changes_in_one_forward_equal_changes_one_by_one(lab):
    paths = [p for p in lab.ground.paths if p.layer < 3][:40]
    changes = [Silenced(frozenset([p])) for p in paths] + [Hard({p: 1.0}) for p in paths[:7]] + [AsIs()]
    together = lab.outputs(changes)
    for change, outputs in zip(changes, together, strict=True):
        torch.testing.assert_close(lab.outputs([change])[0], outputs, atol=1e-3, rtol=0)


def test_a_silenced_row_is_the_null_row_and_others_are_as_computed(three_hops, lab):
    row, batch = Row(1, 0, "query"), lab.batch
    at = lab.ground.holders("query")
    for kind in ("uniform", "identity"):
        patterns = lab.patterns_under(Silenced(frozenset([row]), kind))
        expected = null(kind, visible(batch.inputs.shape[1], True)).expand_as(patterns[1][:, 0])
        torch.testing.assert_close(patterns[1][:, 0][at], expected[at])
        torch.testing.assert_close(patterns[1][:, 0][~at], lab.patterns[1][:, 0][~at])
        assert torch.equal(patterns[0], lab.patterns[0])


def test_a_kept_path_keeps_its_entries_and_rows_still_sum_to_one(lab):
    kept = path("L1H0 query->value[1]")
    pattern = lab.patterns_under(Kept(frozenset([kept])))[1][:, 0]
    mask = lab.ground.entries(kept)
    rows = lab.ground.holders("query")
    torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))
    frozen = lab.patterns_under(Frozen(frozenset([kept]), lab.patterns))[1][:, 0]
    torch.testing.assert_close(frozen[mask], lab.patterns[1][:, 0][mask])
    torch.testing.assert_close(pattern[~rows], null("uniform", lab.ground.sees).expand_as(pattern)[~rows])


def test_two_paths_share_a_row_by_their_weights(lab):
    one, two = path("L2H0 query->value[1]"), path("L2H0 query->value[2]")
    pattern = lab.patterns_under(Hard({one: 3.0, two: 1.0}))[2][:, 0]
    for unit, share in ((one, 0.75), (two, 0.25)):
        mask = lab.ground.entries(unit)
        torch.testing.assert_close((pattern * mask).sum(-1)[mask.any(-1)], torch.full([24 * 4], share))


def test_intervals_hold_the_mean_as_often_as_they_say():
    random = torch.Generator().manual_seed(0)
    held = [(found := Loss.of(torch.rand(64, generator=random))).low <= 0.5 <= found.high for _ in range(1000)]
    assert 0.92 < sum(held) / 1000 < 0.975


def test_positions_without_a_role_have_rows():
    task = Induction(length=8)
    ground = Ground(task.sample(4), Architecture(n_layers=1, d_model=8))
    assert NO_ROLE in ground.query_roles and Row(0, 0, NO_ROLE) in ground.rows
    assert (ground.holders(NO_ROLE) ^ ground.roles.held().any(1)).all()
    assert ground.paths_in(Row(0, 0, NO_ROLE)) == []
    assert row_of(path("L2H1 query->key[1]")) == Row(2, 1, "query")


# Hypotheses ------------------------------------------------------------------------------------------------------


def test_hypotheses_predict_what_they_are_called():
    task = Retrieval(n_hops=2)
    ground = Ground(task.sample(8, 0), Architecture(n_layers=1, d_model=8))
    rules = {rule.name: rule for rule in hypotheses(Row(0, 0, "value[2]"), ground, dict.fromkeys(ground.paths, 0.5))}
    previous = rules["previous position"].pattern(ground)
    assert all(previous[0, t, t - 1] == 1 for t in range(1, task.n_positions))
    for query, key, name in (("value[2]", "key[2]", "previous position"), ("value[2]", "key[2]", "first of fact")):
        rows, held = ideal(Path(0, 0, query, key), ground.roles, ground.sees)
        torch.testing.assert_close(rules[name].pattern(ground)[held], rows[held])
    rows, held = ideal(Path(0, 0, "query", "value[1]"), ground.roles, ground.sees)
    torch.testing.assert_close(rules["after the same symbol"].pattern(ground)[held], rows[held])
    same = rules["same symbol"].pattern(ground)
    rows, held = ideal(Path(0, 0, "query", "key[1]"), ground.roles, ground.sees)
    torch.testing.assert_close(same[held], rows[held])
    for rule in rules.values():
        torch.testing.assert_close(rule.pattern(ground).sum(-1), torch.ones(8, task.n_positions))


def test_simpler_hypotheses_come_first():
    ground = Ground(Retrieval().sample(2), Architecture(n_layers=1, d_model=8))
    rules = hypotheses(Row(0, 0, "query"), ground, dict.fromkeys(ground.paths, 0.3))
    bits = [rule.bits for rule in rules]
    assert bits == sorted(bits) and rules[0].name == "uniform" and rules[-1].name.startswith("mixture")


# Discovery -------------------------------------------------------------------------------------------------------


def test_the_circuit_of_a_build_is_its_schedule(three_hops):
    circuit = discover(three_hops.model, three_hops.config.task, SMALL)
    assert circuit.accepted and circuit.completeness.claim != "not claimed"
    assert frozenset(found.path for found in circuit.paths) == paths_of(three_hops)[0]
    assert set(circuit.alternatives) == set(paths_of(three_hops)) and circuit.interchangeable == []
    assert all(found.removal_loss > 0.1 and found.silenced_loss > 0.1 for found in circuit.paths)
    assert circuit.losses["circuit"].mean < 0.01 < 0.5 < circuit.losses["null"].mean
    assert {f.hypothesis for f in circuit.paths if f.path.query.startswith("value") and f.path.layer == 0} <= {
        "previous position"
    }


@pytest.mark.heavy
def test_twins_are_reported_as_interchangeable():
    task = SymbolicRetrieval(n_hops=2)
    built = build(task, Build(algorithm="linear", merging="chain", heads=2, layers=6, twins=1, seed=0))
    circuit = discover(built.model, built.config.task, SMALL)
    assert circuit.accepted
    assert frozenset(found.path for found in circuit.paths) in paths_of(built)
    assert set(circuit.alternatives) == set(paths_of(built))
    assert {(p.layer, p.head) for p in circuit.interchangeable} == {tuple(h) for t in built.truth["twins"] for h in t}


def test_sets_of_rows_suffice_under_both_ablations_and_nothing_less_does():
    """Of the demo's model: all else null, and all else at its average."""
    run = load("packaged")
    exam = Exam(run.model, run.task, SMALL, lambda _: None)
    found, complete = all_minimal(exam.by_effect(), exam.works, needed=exam.needed_rows)
    losses = lambda rows: [exam.data.loss(change(rows)).mean for change in (exam.kept, exam.at_average)]  # noqa: E731
    assert complete and found
    for rows in found:
        assert max(losses(rows)) < 0.05
        assert all(max(losses(rows - {row})) >= 0.05 for row in rows)


def test_a_row_cut_down_to_one_path_is_helped():
    """A head that attends evenly to all chains seems to know its own, once nothing else of its row is kept."""
    built = build(
        SymbolicRetrieval(n_hops=2, order="deepest_first", curriculum="none"), Build(algorithm="doubling", seed=1)
    )
    truth = paths_of(built)[0]
    lacking = {p for p in truth if p.query != "value[1]"}
    lab = Evaluator(built.model, built.config.task.sample(64, 3))
    assert lab.loss(Kept(frozenset(lacking))).mean < 0.01
    assert lab.loss(Kept(frozenset(map(row_of, lacking)))).mean == pytest.approx(math.log(4), rel=0.1)
    circuit = discover(built.model, built.config.task, SMALL)
    assert circuit.accepted and frozenset(found.path for found in circuit.paths) == truth


def test_certificates_tell_who_feeds_whom(three_hops, lab):
    supplies = certify(lab, paths_of(three_hops)[0])
    fed = {(s.path.query, s.path.key, s.part): (s.source.query, s.source.key) for s in supplies}
    assert fed == {
        ("query", "value[1]", "key"): ("value[1]", "key[1]"),
        ("value[3]", "value[2]", "query"): ("value[3]", "key[3]"),
        ("value[3]", "value[2]", "value"): ("value[2]", "key[2]"),  # so that its reader knows where the block begins
        ("query", "value[3]", "query"): ("query", "value[1]"),
        ("query", "value[3]", "key"): ("value[3]", "value[2]"),
        ("query", "value[3]", "value"): ("value[3]", "key[3]"),  # x_2, which value[3]'s fact holds too
    }
    final = max(s.path for s in supplies if s.path.query == "query")
    assert [str(s.source)[5:] for s in supplies if s.path == final and s.part == "query"] == ["query->value[1]"]


def test_an_untrained_model_has_no_circuit_and_the_log_says_why():
    task = Retrieval(n_hops=2)
    model = Transformer.for_task(Architecture(n_layers=2, d_model=16), task, generator(0, "init"))
    circuit = discover(model, task, SMALL)
    assert circuit.verdict == "none" and "the model itself" in circuit.reason
    assert circuit.log and any("above the threshold" in line["verdict"] for line in circuit.log)


def test_roles_that_lie_give_no_circuit(three_hops, monkeypatch):
    honest = Exam.evaluator

    def lying(self, purpose, n):
        found = honest(self, purpose, n)
        return Evaluator(found.model, with_wrong_chains(found.batch))

    monkeypatch.setattr(Exam, "evaluator", lying)
    circuit = discover(three_hops.model, three_hops.config.task, SMALL)
    assert circuit.losses["model"].mean < 0.01  # it is as good as ever
    assert not circuit.accepted and circuit.losses["circuit"].low > 0.5


def test_random_paths_do_not_suffice(lab):
    found = random_sets(lab, size=6, threshold=0.05, n=60)
    assert found.under == 0 and found.least > 0.3 and found.n == 60


def test_a_model_that_memorised_gives_none_on_fresh_data(tmp_path):
    task = Retrieval(n_hops=1, n_chains=2)
    training = Training(steps=400, batch=16, examples=16, lr=3e-3, weight_decay=0.0, log_every=100, val_size=16)
    run = train(Config(task, Architecture(n_layers=2, d_model=32), training), tmp_path / "r", threads=1)
    assert run.rows[-1]["train_loss"] < 0.05 < run.rows[-1]["val_loss"]
    circuit = discover(run.model, task, SMALL)
    assert circuit.verdict == "none" and "the model itself" in circuit.reason


def test_token_tasks_with_roles_are_searched_too():
    for task in (Induction(length=6, d_vocab=8), HopK(n_hops=1, length=8)):
        model = Transformer.for_task(Architecture(n_layers=2, d_model=16), task, generator(0, "init"))
        assert discover(model, task, SMALL).verdict == "none"


def test_the_command_writes_a_circuit_and_its_log(tmp_path, capsys, three_hops):
    folder = tmp_path / "b"
    assert main(["build", "2", "--out", str(folder)]) == 0
    (folder / "truth.json").unlink()  # discovery never opens it
    capsys.readouterr()
    sizes = ["--discovery", "32", "--selection", "32", "--report", "32"]
    assert main(["circuit", str(folder), *sizes, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    stored = json.loads((folder / "circuit.json").read_text())
    assert {name: printed[name] for name in stored} == stored and printed["verdict"] == "circuit"
    assert printed["min_layers"] == 3 and "the minimum that theory gives" in printed["words"]
    assert {"circuit.svg", "circuit.png", "attention.html"} <= {f.name for f in (folder / "pictures").iterdir()}
    assert {"layer", "head", "query", "key", "chain", "strength", "removal_loss"} <= set(printed["paths"][0])
    assert set(printed["loss"]) >= {"model", "circuit", "null"}
    lines = [json.loads(line) for line in (folder / "hypotheses.jsonl").read_text().splitlines()]
    assert {line["stage"][0] for line in lines} >= {"1", "2", "3", "4", "5"}
    assert main(["circuit", str(tmp_path / "nothing")]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_a_circuit_without_paths_can_be_told():
    judged = {"losses": {}, "accuracies": {}, "hop_losses": {}, "verdict": "none", "reason": "why", "threshold": 0.05}
    empty = Circuit((), (), {}, **judged)
    assert empty.backbone == [] and empty.interchangeable == [] and not empty.accepted


@pytest.mark.parametrize("n", [8, 17, 33, 64])
def test_no_part_of_the_search_s_sequences_is_of_one(n):
    """Under resample its only other sequence would be itself."""
    run = load(SHIPPED)
    exam = Exam(run.model, run.task, Discovery(discovery=n), lambda _: None)
    sizes = [len(stage.batch) for stage, _ in exam.stages]
    assert sum(sizes) == n and min(sizes) > 1


def in_float64(monkeypatch):
    """The demo's run in double precision, where the order of sums does not show."""
    run, inputs = load(SHIPPED), Retrieval.inputs
    run.model.double()
    monkeypatch.setattr(Retrieval, "inputs", lambda task, draw: inputs(task, draw).double())
    return run


def test_a_pass_that_branches_gives_what_each_change_gives_alone(monkeypatch):
    """Changes of all kinds, alike in some layers and not in others, against one whole forward pass for each."""
    run = in_float64(monkeypatch)
    batch = run.task.sample(12, 3)
    lab = Evaluator(run.model, batch, tile=36)  # three copies a tile, so that groups are cut, too
    paths = sorted(lab.ground.paths)
    random = Random(0)
    sets = [frozenset(random.sample(paths, k)) for k in (0, 1, 3, 8, 8, 20, 60)]
    late = [frozenset(p for p in chosen if p.layer == 3) for chosen in sets]
    rows = frozenset(map(row_of, random.sample(paths, 4)))
    changes = [AsIs(), Hard(null="uniform"), Hard(dict.fromkeys(random.sample(paths, 3), 1.0), "identity")]
    changes += [Kept(units, null) for units in sets for null in ("uniform", "identity")]
    changes += [Kept(units, "resample", rows) for units in sets[:3]]
    changes += [Silenced(units) for units in (*sets, *late)]
    changes += [Frozen(units, lab.patterns) for units in sets]
    found = lab.outputs(changes)
    monkeypatch.setattr(run.model, "starts_at_layers", False, raising=False)
    alone = torch.cat([Evaluator(run.model, batch).outputs([change]) for change in changes])
    assert torch.allclose(found, alone, atol=1e-9)
    assert len({*map(float, alone.flatten(1).sum(1))}) > 20


def test_changes_one_after_the_other_give_what_each_gives_alone(monkeypatch):
    """Each goes on from where an earlier one was like it; patterns of two origins are not taken for one another."""
    run = in_float64(monkeypatch)
    batch = run.task.sample(6, 3)
    lab = Evaluator(run.model, batch)
    paths = sorted(lab.ground.paths)
    random = Random(1)
    sets = [frozenset(random.sample(paths, k)) for k in (1, 3, 8, 20)]
    sets += [sets[-1] - {max(sets[-1])}, sets[-1] - {min(sets[-1])}]
    changes = [AsIs(), *map(Silenced, sets), *map(Kept, sets)]
    changes += [Frozen(units, lab.patterns_under(silenced)) for units in sets for silenced in map(Silenced, sets[:3])]
    random.shuffle(changes)
    found = torch.cat([lab.outputs([change]) for change in changes])
    monkeypatch.setattr(run.model, "starts_at_layers", False, raising=False)
    alone = torch.cat([Evaluator(run.model, batch).outputs([change]) for change in changes])
    assert torch.allclose(found, alone, atol=1e-9)


def test_a_change_of_the_last_layer_alone_runs_that_layer_alone(monkeypatch):
    """Where an earlier change was like it up to there; and no more streams are kept than there is room for."""
    run = load(SHIPPED)
    lab = Evaluator(run.model, run.task.sample(4, 3))
    early = frozenset(p for p in lab.ground.paths if p.layer < 3)
    late = sorted(p for p in lab.ground.paths if p.layer == 3)
    lab.outputs([Kept(early | {late[0]})])
    seen = Counter()
    for layer, block in enumerate(run.model.blocks):
        block.ln1.register_forward_pre_hook(lambda *_, layer=layer: seen.update([layer]))
    lab.outputs([Kept(early | {late[1]})])
    assert seen == {3: 1}
    [stream] = [stream for keys, (stream, _) in lab.prefixes.streams.items() if len(keys) == 3]
    monkeypatch.setattr(branches, "ROOM", 2 * stream.nbytes)
    lab.outputs([Kept(frozenset(late[:2]))])
    assert len(lab.prefixes.streams) == 2 and lab.prefixes.size == 2 * stream.nbytes


def test_layers_before_the_first_difference_are_run_once(monkeypatch):
    """Of twenty changes of the last layer, of four: that one, too, up to the pattern by which they part."""
    run = load(SHIPPED)
    lab = Evaluator(run.model, run.task.sample(4, 3))
    seen, after = Counter(), Counter()
    for layer, block in enumerate(run.model.blocks):
        block.ln1.register_forward_pre_hook(lambda _, args, layer=layer: seen.update({layer: len(args[0])}))
        block.ln2.register_forward_pre_hook(lambda _, args, layer=layer: after.update({layer: len(args[0])}))
    early = frozenset(p for p in lab.ground.paths if p.layer < 3)
    lab.outputs([Kept(early | {p}) for p in sorted(lab.ground.paths) if p.layer == 3][:20])
    assert seen == dict.fromkeys(range(4), 4) and after == {0: 4, 1: 4, 2: 4, 3: 80}


def test_a_large_set_is_taken_apart_only_where_no_circuit_is_known(monkeypatch):
    """One of 21 paths or more is passed over once there is a smaller one, and then these are not all."""
    taken = []
    monkeypatch.setattr(discovery, "candidates", lambda exam, rows: iter([frozenset(map(str, rows))]))
    monkeypatch.setattr(discovery, "smallest_first", lambda exam, sets: list(sets))

    class Suffices:
        def __call__(self, units):
            return len(units) > 1

        def minimised(self, units):
            taken.append(len(units))
            return [units], len(units) < 30

    def sizes(*rows):
        taken.clear()
        circuits, all_ = circuits_in(
            SimpleNamespace(note_awakened=lambda rows: None, most=2), Suffices(), [*map(range, rows)]
        )
        return [len(one) for one in circuits], all_

    assert sizes(2, 21) == ([2], False) and taken == [2]
    assert sizes(21, 30) == ([21], False) and taken == [21]
    assert sizes(2, 3) == ([2, 3], True) and sizes(2, 3, 4) == ([2, 3], False)  # of three the first two are kept
    assert sizes(2, 1) == ([2], False) and sizes(30) == ([30], False)


@pytest.mark.parametrize(("n", "rounds"), [(4, 3), (5, 1)])
def test_of_large_sets_of_rows_no_stricter_ones_are_looked_for(n, rounds, monkeypatch):
    """They are larger still; what was found is told at once."""
    run = load(SHIPPED)
    exam, asked = Exam(run.model, run.task, SMALL, lambda _: None), []
    rows = frozenset(exam.data.ground.rows[:n])

    def one(units, works, limit, minimise, needed):
        asked.append(needed(rows))
        return [rows], True

    monkeypatch.setattr(discovery, "all_minimal", one)
    monkeypatch.setattr(discovery, "candidates", lambda *_: iter(()))
    monkeypatch.setattr(discovery, "of_many_rows", lambda *_: [])
    for where in (discovery, exams):
        monkeypatch.setattr(where, "LARGE", 4)
    found = discovery.search(exam, Sufficiency(exam))
    assert len(asked) == rounds and not found.accepted and found.units
    assert bool(asked[0]) == (n == 4)


def test_where_no_paths_suffice_all_that_a_row_is_spread_over_is_shown(monkeypatch):
    """Not its strongest path alone: of one head that reads four places evenly, that one says nothing."""
    monkeypatch.setattr(discovery, "candidates", lambda *_: iter(()))
    found = discover(by_hand(LastTokens(n_places=4, length=9, d_vocab=6)), LastTokens(4, 9, 6), SMALL)
    assert {part.path.key for part in found.paths} == {"−1", "−2", "−3", "−4"}
    assert found.losses["live"].mean < 0.1 and found.verdict == "partial"


def test_where_no_paths_work_live_the_rows_that_do_are_shown():
    """A solved model that no paths explain: three whole rows, not a list of all that they look at."""
    found = discover(*trained(TRAINED / "hop_k.safetensors"), SMALL)
    assert found.verdict == "none" and not found.paths and len(found.rows) == 3
    assert found.reason.startswith("no set of paths passes the tests, though whole rows do live; ")
    assert found.losses["live"].mean == found.losses["rows"].mean < found.threshold

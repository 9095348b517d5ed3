"""Models made to flatter or to fool circuit discovery: each once got a wrong verdict, or a circuit that was not one."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch

from bench.hand_made import TASK, backup, copiers, crowd, hub, split_answer, suppressor
from hopscope.builds.build import Build, build
from hopscope.circuits import discovery, sufficiency
from hopscope.circuits.circuit import UNCLAIMED, Completeness
from hopscope.circuits.completeness import claim_without_proof
from hopscope.circuits.discovery import Discovery, best_first, discover
from hopscope.circuits.evaluator import Evaluator, Hard, Kept
from hopscope.circuits.exam import Exam, names
from hopscope.circuits.judging.truths import verified
from hopscope.circuits.losses import Loss
from hopscope.circuits.report import Report, claimed
from hopscope.circuits.sequential import FIRST, Outcome
from hopscope.circuits.sufficiency import CLOSER, LAST, Sufficiency
from hopscope.circuits.units import NO_ROLE, Row, row_of
from hopscope.circuits.words import paragraph
from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.paths import Path
from hopscope.tasks.induction import Induction
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope_studies.birth.tasks.trigger_bigrams import TriggerBigrams
from hopscope_studies.noisy_bigram.tasks.noisy_bigram import NoisyBigram

#: Sequences that are enough where losses are far from every threshold.
SMALL = Discovery(discovery=32, selection=48, report=64)


def found_in(made, settings=None):
    assert accuracy(made) == 1.0, "the adversary must solve the task"
    return discover(made.model.eval(), TASK, settings)


@functools.cache
def circuit_of(*strengths):
    """Of copiers of these strengths, found once; of none: of the backup."""
    return found_in(copiers(*strengths) if strengths else backup())


def accuracy(made):
    batch = TASK.sample(256, 9)
    outputs = made.model(batch.inputs, at=TASK.query_positions)
    return float(TASK.correct(outputs, batch).float().mean())


def paths(circuit):
    return sorted(str(found.path) for found in circuit.paths)


# Verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "seed"), [(SymbolicRetrieval(n_hops=1), 1), (Induction(), 501)])
def test_untrained_models_have_no_circuit(task, seed):
    """Of these the gap from null to model is noise, of which a few paths, or none, easily keep 95 %."""
    model = Transformer.for_task(Architecture(n_layers=2, n_heads=2, d_model=64), task, generator(seed, "init"))
    circuit = discover(model, task)
    assert circuit.verdict == "none" and "has not solved its task" in circuit.reason and "train" in circuit.reason


def test_a_loud_null_is_no_allowance():
    """Half of the answers used to do: the null was so wrong that its 95 % of the gap left room for chance."""
    made = split_answer()
    circuit = found_in(made)
    assert circuit.losses["null"].mean > 40 and circuit.threshold < 0.2
    assert circuit.verdict == "circuit"
    assert {"L1H0 query->value[1]", "L1H1 query->value[1]"} <= set(paths(circuit))
    assert circuit.accuracies["circuit"].low > 0.95 and circuit.accuracies["live"].low > 0.95


def test_what_is_dead_live_is_no_circuit():
    """By hand the reader suffices; but what tells it where to read goes through a position that holds no role."""
    made = hub()
    circuit = found_in(made)
    assert circuit.accepted and NO_ROLE in {row.query for row in circuit.rows}
    named = frozenset(found.path for found in circuit.paths)
    exam = Exam(made.model.eval(), TASK, Discovery(), lambda _: None)
    alone = Report(exam, Sufficiency(exam)).refused(named, "")
    assert alone.losses["circuit"].mean < 0.01 and alone.losses["live"].mean > 1
    assert alone.verdict == "partial" and not alone.accepted
    assert "with its attention as computed and all else null" in alone.reason and "try" in alone.reason
    assert alone.as_dict()["verdict"] == "partial" and "accuracy" in alone.as_dict()


def test_a_plain_model_is_accepted():
    circuit = circuit_of(20.0)
    assert circuit.verdict == "circuit"
    assert paths(circuit) == ["L0H0 value[1]->key[1]", "L1H0 query->value[1]"]


class PatternsAlone(Transformer):
    """The least that the contract asks of a model: it offers its patterns, and nothing else."""

    starts_at_layers = False

    @property
    def activation_names(self):
        return [f"blocks.{layer}.attn.hook_pattern" for layer in range(len(self.blocks))]


def test_models_that_offer_patterns_alone_have_circuits_without_certificates():
    """The search came to its end, and certificates then asked for queries that nobody could replace."""
    model = copiers(20.0).model
    assert circuit_of(20.0).supplies
    model.__class__, model.starts_at_layers = PatternsAlone, False
    circuit = discover(model.eval(), TASK)
    assert circuit.verdict == "circuit" and circuit.supplies == ()


def test_what_a_null_leaves_intact_is_said():
    """A head that attends by position survives resampling, so that a circuit without it passes; where heads' outputs
    can be replaced their averages tell."""
    model = copiers(20.0).model
    by_name, joins = Discovery(null="resample"), "L0H0 value[1]"
    circuit = discover(model.eval(), TASK, by_name)
    assert f"{joins}->key[1]" in paths(circuit) and joins not in circuit.intact
    model.__class__, model.starts_at_layers = PatternsAlone, False
    half = discover(model, TASK, by_name)
    assert half.verdict == "circuit" and paths(half) == ["L1H0 query->value[1]"]
    assert joins in half.intact and joins in half.as_dict()["intact"]
    assert "in the full model, which needs" in paragraph(half, TASK) and "no test removes" in paragraph(half, TASK)
    whole = discover(model, TASK)
    assert joins not in whole.intact and len(paths(whole)) == 2


# Minimality and completeness -------------------------------------------------------------------------------------


def independent(made, circuit, n=512):
    """Losses of all circuits listed, by hand and live, on sequences of our own."""
    lab = Evaluator(made.model, TASK.sample(n, 77))
    for one in circuit.listed:
        hand, live = Hard(dict.fromkeys(one.paths, 1.0)), Kept(one.units)
        yield one.units, [loss.mean for loss in lab.losses([hand, live])]


@pytest.mark.parametrize("strengths", [(20.0,), (20.0, 20.0), ()], ids=["one", "two", "backup"])
def test_every_circuit_listed_works_and_none_holds_another(strengths):
    """Of the plain model with a sharp match, two of three "minimal circuits" were at 1.1 live."""
    circuit, made = circuit_of(*strengths), copiers(*strengths) if strengths else backup()
    listed = [units for units, losses in independent(made, circuit) if max(losses) < circuit.threshold]
    assert len(listed) == len(circuit.alternatives) >= 1
    assert not any(one < other for one in listed for other in listed)


def test_positions_without_a_role_are_not_dropped():
    """Most positions hold none; where they attend evenly the reader does not find its target."""
    made = crowd()
    circuit = found_in(made)
    idle = frozenset([Row(0, 0, NO_ROLE)])
    assert circuit.verdict == "circuit" and circuit.protocol["identity"] == names(idle)
    named = frozenset(found.path for found in circuit.paths)
    lab = Evaluator(made.model, TASK.sample(256, 7))
    assert lab.loss(Kept(named)).mean > 1 > circuit.threshold > lab.loss(Kept(named, identity=idle)).mean


def test_a_backup_is_found_and_told():
    """It attends to the answer only while the other does not write it; the search missed its circuit."""
    circuit = circuit_of()
    heads = [{(p.layer, p.head) for p in one if p.query == "query"} for one in circuit.alternatives]
    assert paths(circuit)[-1] == "L1H0 query->value[1]" and {(2, 0)} in heads
    [takeover] = circuit.takeovers
    assert str(takeover) == "L2H0 takes over when L1H0 is silenced" and takeover.kind == "backup"
    assert takeover.before < 0.1 < 0.9 < takeover.after
    assert circuit.as_dict()["takeovers"][0]["words"] == str(takeover)


def test_a_double_is_no_backup():
    [takeover] = circuit_of(20.0, 20.0).takeovers
    assert takeover.kind == "double" and takeover.before > 0.9


def test_a_backup_that_the_search_did_not_meet_is_in_the_proof():
    """With no search for others nobody has seen it at work, and by hand it had no weight."""
    circuit = discover(backup().model, TASK, Discovery(alternatives=1))
    assert circuit.completeness.claim == "proven"
    assert set(circuit.alternatives) <= set(circuit_of().alternatives)
    assert {(2, 0)} in [{(p.layer, p.head) for p in one if p.query == "query"} for one in circuit.alternatives]


def test_a_proof_whose_circuits_fail_on_fresh_data_is_none():
    proven, sets = Completeness("proven", "all tried", 2), [frozenset("ab"), frozenset("ac")]
    assert claimed(proven, sets, [], 0) == proven
    less = claimed(proven, sets, [], 3)
    assert less.claim == "searched" and "3 of the sets" in less.how


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_circuits_whose_loss_is_no_number_come_last(loss, monkeypatch):
    exam = Exam(copiers(20.0).model, TASK, Discovery(), lambda _: None)
    sets = [frozenset("ab"), frozenset("cd"), frozenset("e"), frozenset("fg")]
    losses = [Loss(one, one, one, 8) for one in (loss, 0.01, 1.0, 0.001)]
    monkeypatch.setattr(exam.selection, "losses", lambda _: losses)
    monkeypatch.setattr(Exam, "kept", lambda self, units: units)
    assert best_first(exam, sets) == [sets[2], sets[3], sets[1], sets[0]]


def test_heads_that_undo_each_other_hide_no_circuit():
    """Of four heads that write +2, −2, +2 and −1 either of the two that are positive does alone."""
    circuit = found_in(copiers(20.0, -20.0, 20.0, -10.0), SMALL)
    readers = {next(p.head for p in one if p.layer == 1) for one in circuit.alternatives}
    assert readers == {0, 2} and all(len(one) == 2 for one in circuit.alternatives)
    assert circuit.completeness.claim == "proven" and circuit.completeness.size == 2


def test_rows_that_are_needed_are_not_called_unused():
    """A copier beside a head that unsays what the copier brings too much of."""
    circuit = found_in(suppressor())
    assert circuit.verdict == "circuit" and len(circuit.paths) == 3
    assert all(max(found.removals.values()) > circuit.threshold for found in circuit.paths)
    assert not any("unused" in found.hypothesis for found in circuit.paths)


def brute_force(works, units):
    sets = [frozenset(c) for n in range(len(units) + 1) for c in itertools.combinations(units, n)]
    passing = [s for s in sets if works(s)]
    return {s for s in passing if not any(t < s for t in passing)}


@pytest.mark.parametrize("strengths", [(20.0,), (12.0, -5.0, 9.0)])
def test_minimal_sets_are_those_of_brute_force(strengths):
    """By a plain loop over all subsets, every one on 192 sequences of its own."""
    made = copiers(*strengths)
    exam = Exam(made.model.eval(), TASK, Discovery(), lambda _: None)
    units = [Path.parse("L0H0 value[1]->key[1]"), Path.parse("L0H0 key[1]->key[1]")]
    units += [Path(1, head, "query", "value[1]") for head in range(len(strengths))]
    lab = Evaluator(made.model, TASK.sample(192, 5))

    def works(paths):
        changes = [Kept(paths), Kept(frozenset(map(row_of, paths))), Hard(dict.fromkeys(paths, 1.0))]
        return all(loss.mean < exam.threshold for loss in lab.losses(changes))

    assert set(Sufficiency(exam).minimal_sets(units)) == brute_force(works, units)


@pytest.mark.parametrize("kind", ["clear", "near"])
def test_more_sequences_are_drawn_near_the_threshold(kind):
    made = copiers(20.0)
    exam = Exam(made.model.eval(), TASK, Discovery(), lambda _: None)
    suffices = Sufficiency(exam)
    half = frozenset([Path.parse("L1H0 query->value[1]")])
    lab = Evaluator(made.model, TASK.sample(8192, 5))
    exam.threshold = lab.loss(exam.kept(half)).mean if kind == "near" else 0.15
    exam.accuracy = 0.0  # so that the loss alone decides
    assert not suffices.ask("live", [half])[0].passed
    drawn = suffices.sequences
    assert drawn == (LAST if kind == "near" else FIRST)
    assert suffices.undecided == ({half} if kind == "near" else set())
    assert suffices.look_closer() == (kind == "near")
    assert not suffices.ask("live", [half])[0].passed
    assert suffices.sequences - drawn == (CLOSER * LAST if kind == "near" else 0)  # what is decided is asked once


#: At the threshold, and rejected for want of sequences.
OPEN = Outcome(False, Loss(0.05, 0.04, 0.06, LAST), False)


def test_what_is_undecided_is_not_rejected(monkeypatch):
    """A part that 1,024 sequences do not decide on, and 4,096 let pass, is the circuit; the whole is not minimal."""
    exam = Exam(copiers(20.0).model.eval(), TASK, Discovery(), lambda _: None)
    suffices = Sufficiency(exam)
    part = frozenset([Path.parse("L1H0 query->value[1]")])
    whole = part | {Path.parse("L0H0 value[1]->key[1]")}

    def all_of(sets):
        suffices.outcomes |= {("live", part, suffices.asked): OPEN} if suffices.last == LAST else {}
        return [one == whole or (one == part and suffices.last > LAST) for one in sets]

    monkeypatch.setattr(suffices, "all_of", all_of)
    assert suffices.minimised(whole) == ([part], True)
    assert suffices.last == CLOSER * LAST and not suffices.undecided


def test_what_stays_undecided_is_told(monkeypatch):
    exam = Exam(copiers(20.0).model.eval(), TASK, Discovery(), lambda _: None)
    suffices = Sufficiency(exam)
    first, second = Path.parse("L0H0 value[1]->key[1]"), Path.parse("L1H0 query->value[1]")
    whole = frozenset([first, second])
    for one in (first, Path(2, 0, "query", "query")):
        suffices.outcomes["live", frozenset([one]), suffices.asked] = OPEN
    claim = claim_without_proof(suffices, [whole], True)
    assert claim.claim == "searched" and "minimal up to the threshold: 1 of their parts" in claim.how
    suffices.outcomes = {}
    assert "up to the threshold" not in claim_without_proof(suffices, [whole], True).how


def test_more_minimal_sets_than_are_followed_are_not_all(monkeypatch):
    suffices = Sufficiency(Exam(copiers(20.0).model.eval(), TASK, Discovery(), lambda _: None))
    whole = frozenset(Path(0, 0, f"value[{k}]", f"key[{k}]") for k in range(3))
    monkeypatch.setattr(suffices, "all_of", lambda sets: [len(units) == 1 for units in sets])
    assert suffices.parts(whole)[1] and len(suffices.parts(whole)[0]) == 3
    monkeypatch.setattr(sufficiency, "MANY", 3)
    assert not suffices.parts(whole)[1]


def test_large_circuits_lose_what_three_removals_can_take():
    """Sixteen units, of which four suffice: what only three removals at once make smaller is not minimal."""
    exam = Exam(copiers(20.0).model.eval(), TASK, Discovery(), lambda _: None)
    units = [Path(layer, 0, "query", "value[1]") for layer in range(16)]
    suffices = Sufficiency(exam)
    knot, needed = set(units[:3]), set(units[12:])

    def all_of(sets):  # three of them undo each other: without one or two of these nothing works
        return [needed <= one and len(one & knot) in (0, 3) for one in sets]

    suffices.all_of = all_of
    assert suffices.without_some(frozenset(knot | set(units[3:]))) is not None
    assert suffices.minimised(frozenset(units)) == ([frozenset(needed)], False)  # what else could go is not followed


def test_truths_of_builds_have_no_path_to_spare():
    """Tried by all subsets: of a build whose twins do alike, and a truth with a path put in."""
    task = SymbolicRetrieval(n_hops=2)
    built = build(task, Build(algorithm="linear", merging="chain", heads=2, layers=6, twins=1, seed=0))
    truth = verified(built.model, task, built.truth)
    planned = built.truth["circuits"]["uniform"]
    assert truth["verified"]["suffices"] and truth["verified"]["spare"] == [] and len(planned) == 2
    assert sorted(map(str, truth["circuits"]["uniform"])) == sorted(map(str, planned))
    more = {"circuits": {"uniform": [[*planned[0], Path(0, 1, "query", "query").as_dict()]]}}
    again = verified(built.model, task, more)
    assert again["verified"]["spare"] == ["L0H1 query->query"] and again["circuits"]["uniform"] == [planned[0]]
    nothing = verified(built.model, task, {"circuits": {"uniform": [planned[0][:-1]]}})
    assert not nothing["verified"]["suffices"] and nothing["circuits"]["uniform"] == []


@pytest.mark.heavy
def test_twins_that_disturb_each_other_are_both_in_the_truth():
    """What one says on average is no answer, and yet it is in the other's way: neither is to spare at averages."""
    task = SymbolicRetrieval(n_hops=2, curriculum="none")
    built = build(task, Build(heads=2, twins=1, layers=6, unused="noisy", seed=77019))
    truth = verified(built.model, task, built.truth)
    sets = lambda one: [frozenset(map(Path.from_dict, paths)) for paths in one["circuits"]["uniform"]]  # noqa: E731
    twins = {Path.parse("L0H0 value[2]->key[2]"), Path.parse("L0H1 value[2]->key[2]")}
    assert truth["verified"]["suffices"] and all(twins < units for units in sets(truth))
    exam = Exam(built.model, task, Discovery(), lambda _: None)
    for units in sets(built.truth):
        assert (
            exam.data.loss(exam.kept(units)).mean < 0.01 < exam.threshold < exam.data.loss(exam.at_average(units)).mean
        )


def test_solved_is_what_can_be_known():
    """Where nobody can know every answer, a model is measured against what can be known."""
    noisy = NoisyBigram(alpha=0.3)
    assert noisy.model_accuracy == pytest.approx(0.95 * 0.7) and noisy.model_threshold > noisy.entropy
    everything = TriggerBigrams(asked="all", length=32)
    assert everything.floor < everything.model_threshold < everything.chance
    assert Induction().model_threshold == Induction().solved_below


def lucky_at_first(monkeypatch, times):
    """The joint test lets a set through that only luck could; and for what purposes sequences are drawn."""
    honest, drawn, luck = discovery.try_every_set, [], []
    half = frozenset([Path.parse("L1H0 query->value[1]")])
    evaluator = Exam.evaluator

    def lucky(*found):
        luck.append(half)
        return ([half], UNCLAIMED) if len(luck) <= times else honest(*found)

    monkeypatch.setattr(discovery, "try_every_set", lucky)
    monkeypatch.setattr(Exam, "evaluator", lambda self, why, n: drawn.append(why) or evaluator(self, why, n))
    return half, drawn


def test_what_fails_on_fresh_sequences_is_looked_for_again_and_judged_on_others(monkeypatch):
    half, drawn = lucky_at_first(monkeypatch, 1)
    circuit = discover(copiers(20.0).model.eval(), TASK)
    assert circuit.accepted and {part.path for part in circuit.paths} > half
    assert circuit.protocol["trial"] == 2
    assert [why for why in drawn if why.startswith("report")] == ["report", "report 2"]


def test_nothing_is_put_on_trial_more_than_three_times(monkeypatch):
    half, drawn = lucky_at_first(monkeypatch, 9)
    circuit = discover(copiers(20.0).model.eval(), TASK)
    assert not circuit.accepted and {part.path for part in circuit.paths} == half
    assert [why for why in drawn if why.startswith("report")] == ["report", "report 2", "report 3"]


def test_whoever_was_wrong_once_asks_for_more_before_accepting():
    """A set four standard errors below the threshold after 256 sequences."""
    exam = Exam(copiers(20.0).model.eval(), TASK, Discovery(), lambda _: None)
    suffices, chosen = Sufficiency(exam), frozenset([Path.parse("L1H0 query->value[1]")])
    stages = [stage for stage, _ in itertools.islice(suffices.stages(), 8)]
    assert sum(len(stage.batch) for stage in stages) == 256
    losses = torch.cat([stage.losses_of(stage.outputs([exam.kept(chosen)])[0]) for stage in stages])
    exam.threshold, exam.accuracy = float(losses.mean() + 4 * losses.std() / 16), 0.0
    before = suffices.sequences
    assert suffices.ask("live", [chosen])[0].passed
    assert suffices.sequences - before == 256
    suffices.reject([frozenset()])
    suffices.reject([])
    assert suffices.all_of([frozenset()]) == [False] and frozenset() in suffices.rejected
    before = suffices.sequences
    suffices.ask("live", [chosen])
    assert suffices.sequences - before > 256

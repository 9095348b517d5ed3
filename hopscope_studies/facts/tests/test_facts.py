"""Tests of `facts`: the published facts, gradients by hand, phases of made-up curves."""

from __future__ import annotations

import math
from itertools import product

import numpy
import pandas
import pytest
import torch
from pandas import DataFrame

from hopscope import Architecture, Config, Training, Transformer, train
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.core.storage import read_json
from hopscope.experiments.capacity import TRIES
from hopscope.experiments.results import claim_ids
from hopscope.experiments.work import Finished, Stopped
from hopscope.measures import observe
from hopscope.theory.memories import surprise
from hopscope.training.loop import Interrupted
from hopscope_studies.facts.capacity import FactCapacity, one_layer
from hopscope_studies.facts.claims import left_to_the_subject
from hopscope_studies.facts.experiments import facts
from hopscope_studies.facts.measures.other_subject_loss import other_subject_loss
from hopscope_studies.facts.measures.part_accuracy import part_accuracy
from hopscope_studies.facts.measures.part_loss import part_loss
from hopscope_studies.facts.measures.relation_divergence import given_relation, relation_divergence
from hopscope_studies.facts.models.linear_recall import LinearArchitecture
from hopscope_studies.facts.models.one_layer_recall import OneLayerArchitecture
from hopscope_studies.facts.phases import phases, stretch
from hopscope_studies.facts.tasks.factual_recall import FactualRecall
from tests.small_runs import fingerprint

NAN = float("nan")


def test_facts_of_the_published_run():
    """Subject j has answer ⌊8 j / 16⌋ of every relation, as in the first rows of the notebook's table."""
    known = FactualRecall().known
    assert known[:4].tolist() == [[0, 8, 16, 24], [0, 8, 16, 24], [1, 9, 17, 25], [1, 9, 17, 25]]
    assert known[15].tolist() == [7, 15, 23, 31]


def test_baselines_are_ln_rd_and_ln_d():
    assert list(FactualRecall().baselines.values()) == pytest.approx([math.log(32), math.log(8), 0.0], abs=1e-12)
    odd = FactualRecall(n_subjects=3, n_relations=1, n_answers=2).baselines  # answers 0, 0, 1
    thirds = -2 / 3 * math.log(2 / 3) - 1 / 3 * math.log(1 / 3)
    assert list(odd.values()) == pytest.approx([thirds, thirds, 0.0])


@pytest.mark.parametrize("kind", ["random", "anywhere"])
def test_random_facts_follow_their_seed(kind):
    task = FactualRecall(facts=kind)
    assert torch.equal(task.known, FactualRecall(facts=kind).known)
    assert not torch.equal(task.known, FactualRecall(facts=kind, facts_seed=1).known)
    blocks = task.known // task.n_answers == torch.arange(task.n_relations)
    assert bool(blocks.all()) == (kind == "random")


def test_a_sentence_names_one_subject_one_relation_and_noise():
    task = FactualRecall(length=5)
    batch = task.sample(200)
    first = {"answer": 0, "subject": 32, "relation": 48, "noise": 52, "mark": 72, "end": 73}
    kinds = torch.bucketize(batch.inputs, torch.tensor(list(first.values()))[1:], right=True)
    assert (kinds.sort(-1).values == torch.tensor([1, 2, 3, 3, 4])).all()
    assert (kinds[:, -1] == 4).all() and task.d_vocab == 73
    assert len({tuple(row) for row in kinds.tolist()}) == 12  # every ordered pair of the four places


def test_too_few_subjects_are_refused():
    with pytest.raises(BadInput, match="at least as many subjects as answers, 8; got 4"):
        FactualRecall(n_subjects=4)


def saying(batch, probabilities):
    """An observation of a model that gives each sequence this distribution over answers."""
    model = Transformer.for_task(Architecture(n_layers=1, d_model=4), batch.task, generator(0, "init"))
    seen = observe(model, batch)
    seen.__dict__["outputs"] = probabilities.log()[:, None]
    return seen


def test_part_losses_by_hand():
    """Half of the probability is on the right answer's block, and a quarter on the right place."""
    task = FactualRecall(n_subjects=2, n_relations=2, n_answers=2)
    batch = task.sample(64)
    right = batch.targets[:, 0, 0]
    said = torch.full((64, 4), 0.0)
    block, place = right // 2, right % 2
    said[torch.arange(64), right] = 0.1
    said[torch.arange(64), block * 2 + 1 - place] = 0.4
    said[torch.arange(64), (1 - block) * 2 + place] = 0.15
    said[torch.arange(64), (1 - block) * 2 + 1 - place] = 0.35
    found = part_loss(saying(batch, said))
    assert found == pytest.approx(
        {"whole": -math.log(0.1), "relation-only": math.log(2), "subject-only": math.log(4)}, rel=1e-5
    )


def test_a_model_that_says_p_of_a_given_r_pays_ln_d():
    task = FactualRecall()
    batch = task.sample(64)
    said = given_relation(task)[batch.draw["relation"][:, 0]].float().clamp(min=1e-30)
    found = part_loss(saying(batch, said))
    assert found == pytest.approx({"whole": math.log(8), "relation-only": 0, "subject-only": math.log(8)}, abs=1e-5)
    assert relation_divergence(saying(batch, said))["answer"] == pytest.approx(0, abs=1e-5)
    even = torch.full_like(said, 1 / 32)  # knows nothing: KL of one in 8 from one in 32
    assert relation_divergence(saying(batch, even))["answer"] == pytest.approx(math.log(4), abs=1e-5)


def test_parts_that_are_right_are_counted():
    """Of four answers one is right, one has the right block, one has the right place, and one neither."""
    task = FactualRecall(n_subjects=2, n_relations=2, n_answers=2)
    batch = task.sample(4)
    right = batch.targets[:, 0, 0]
    block, place = right // 2, right % 2
    wrong_block, wrong_place = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    named = (block + wrong_block) % 2 * 2 + (place + wrong_place) % 2
    said = torch.nn.functional.one_hot(named, 4).float().clamp(min=1e-9)
    assert part_accuracy(saying(batch, said)) == {"relation-only": 0.5, "subject-only": 0.5}


def test_a_model_that_ignores_the_subject_does_not_mind_another():
    """One model's hand-set weights depend only on relations, the other's also on subjects."""
    task = FactualRecall(length=6)
    batch, model = task.sample(256), LinearArchitecture(start=0.0).build(task)
    first = task.first_relation
    with torch.no_grad():
        model.w[first : first + 4] = 1.0
        model.V[:, first : first + 4] = 20.0 * given_relation(task).T.gt(0)
        deaf = observe(model, batch)
        assert other_subject_loss(deaf)["answer"] == pytest.approx(float(task.loss(deaf.outputs, batch.targets)))
        model.w[32:first] = 1.0
        model.V[:, 32:first] = 10.0 * torch.nn.functional.one_hot(task.known, 32).sum(1).T
    heard = observe(model, batch)
    assert float(task.loss(heard.outputs, batch.targets)) < 0.1 < 5 < other_subject_loss(heard)["answer"]


def test_counts_are_all_that_linear_attention_sees():
    """The published form is (x A x^T) x V on one-hot tokens, in the row of the asking token."""
    task, random = FactualRecall(length=6), generator(0, "test")
    tokens = task.sample(4).inputs
    x = torch.nn.functional.one_hot(tokens, task.d_vocab).float()
    A = torch.randn(task.d_vocab, task.d_vocab, generator=random)
    V = torch.randn(task.d_vocab, task.d_output, generator=random)
    published = ((x @ A @ x.mT) @ x @ V)[:, -1:]
    model = LinearArchitecture().build(task)
    model.load_state_dict({"V": V.T, "w": A[-1]})
    assert torch.allclose(model(tokens, at=task.query_positions), published, atol=1e-4)


def test_the_linear_models_gradients_are_a_memory():
    """The gradients are sums of outer products, as in the gradient lemma."""
    task, random = FactualRecall(), generator(0, "test")
    batch, model = task.sample(32), LinearArchitecture().build(task).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=random))
    outputs = model(batch.inputs, at=task.query_positions)
    torch.nn.functional.cross_entropy(outputs[:, 0], batch.targets.flatten()).backward()
    counts = torch.nn.functional.one_hot(batch.inputs, task.d_vocab).sum(1).double()
    right = torch.nn.functional.one_hot(batch.targets.flatten(), task.d_output).double() / 32
    off = surprise(outputs[:, 0].detach(), right)
    assert torch.allclose(model.V.grad, off.T @ (counts * model.w.detach()), atol=1e-12)
    assert torch.allclose(model.w.grad, (counts * (off @ model.V.detach())).sum(0), atol=1e-12)


def test_a_one_layer_transformer_is_the_published_one():
    """Its outputs equal the published formula, token by token, with an MLP."""
    task = FactualRecall(length=6)
    tokens = task.sample(4).inputs
    shape = OneLayerArchitecture(10, 3, 4, 5)
    m = shape.build(task, generator(0, "init"))
    assert shape.attention_weights + shape.mlp_weights == 4 * 3 * 4 * 10 + 2 * 5 * 10 == m.n_parameters - 5
    x = m.E[tokens]
    heads = []
    for h in range(3):
        scores = torch.einsum("bij,jk,bk->bi", x, m.K[h] @ m.Q[h].T, x[:, -1]) / 4**0.5
        heads.append(torch.einsum("bij,bi->bj", x @ m.V[h], scores.softmax(-1)))
    out = torch.cat(heads, -1) @ m.O
    out = out + torch.relu(out @ m.W_1.T + m.b_1) @ m.W_2.T
    assert torch.allclose(out @ m.U.T, m(tokens)[:, -1], atol=1e-5)
    assert torch.allclose(out @ m.U.T, m(tokens, at=task.query_positions)[:, 0], atol=1e-5)


def test_phases_of_a_curve_made_by_hand():
    steps = list(range(10))
    relation = numpy.array([1.0, 1, 1, 0.5, 0.05, 0.05, 0.05, 0.05, 0.0, 0.0])
    subject = numpy.array([2.0, 2, 2, 2.0, 2.00, 2.00, 1.90, 1.00, 0.1, 0.0])
    found = phases(steps, relation, subject, (1.0, 2.0))
    assert found == {"nothing known": (0, 2), "hallucination": (4, 6), "all known": (8, 9)}
    together = phases(steps, relation, 2 * relation, (1.0, 2.0))
    assert all(math.isnan(x) for x in together["hallucination"])
    backwards = phases(steps, subject / 2, 2 * relation, (1.0, 2.0))  # the subject first is no hallucination
    assert all(math.isnan(x) for x in backwards["hallucination"])


def test_the_longest_stretch_counts():
    inside = numpy.array([True, False, True, True, False])
    assert stretch([0, 10, 20, 30, 40], inside) == (20, 30)
    assert all(math.isnan(x) for x in stretch([0, 1], numpy.array([False, False])))


def gradient_descent(config: Config) -> tuple[torch.Tensor, torch.Tensor]:
    """The linear model's training written out in float64: V and w at its end."""
    task, training = config.task, config.training
    V, w = (torch.full(size, 1e-5, dtype=torch.float64) for size in ((task.d_output, task.d_vocab), (task.d_vocab,)))
    for step in range(training.steps):
        batch = task.sample(training.batch, generator(training.seed, "train", step))
        counts = torch.nn.functional.one_hot(batch.inputs, task.d_vocab).sum(1).double()
        right = torch.nn.functional.one_hot(batch.targets.flatten(), task.d_output).double()
        off = (((counts * w) @ V.T).softmax(-1) - right) / len(counts)
        V, w = V - training.lr * off.T @ (counts * w), w - training.lr * (counts * (off @ V)).sum(0)
    return V, w


def test_the_common_loop_is_gradient_descent(tmp_path):
    config = facts.linear("even", 0, steps=300, batch=64, val_size=64, log_every=100)
    run = train(config, tmp_path, threads=1, compile="off")
    for mine, other in zip(run.model.parameters(), gradient_descent(config), strict=True):
        assert mine.dtype == torch.float32 and torch.allclose(mine.double(), other, rtol=1e-3, atol=1e-7)
        assert float(mine.detach().std()) > 1e-6  # it has left the start, where all are alike


def test_the_common_loop_is_adamws_for_one_layer(tmp_path):
    config = one_layer(OneLayerArchitecture(8, 2, 2, 4), 3, n_answers=2, length=5, steps=6, batch=8)
    run = train(config, tmp_path, threads=1, compile="off")
    assert run.step == 6
    model = config.model.build(config.task, generator(0, "init"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    for step in range(6):
        batch = config.task.sample(8, generator(0, "train", step))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch.inputs)[:, -1], batch.targets.flatten()).backward()
        optimizer.step()
    for mine, other in zip(run.model.parameters(), model.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-5)


def test_curves_come_from_the_rows_of_a_run_that_resumes(tmp_path):
    config = facts.linear("even", 0, steps=40, batch=16, val_size=64, log_every=8)
    whole = train(config, tmp_path / "whole", threads=1, compile="off")
    stops = iter([False] * 13 + [True])
    with pytest.raises(Interrupted):
        train(config, tmp_path / "parted", threads=1, compile="off", should_stop=lambda: next(stops))
    assert fingerprint(train(config, tmp_path / "parted", threads=1, compile="off")) == fingerprint(whole)
    table = facts.table([whole], "cpu")
    assert list(table.step) == [0, 8, 16, 24, 32, 40]
    assert table.loss[0] == pytest.approx(math.log(32), abs=1e-6)
    names = ["step", "loss", "relation_only", "subject_only", "accuracy", "relation_accuracy", "subject_accuracy"]
    assert not table[[*names, "other_subject", "from_relation"]].isna().any(axis=None)


def test_training_ends_once_enough_is_recalled(tmp_path):
    """One fact with two answers is soon recalled in all sentences. A bound above 1 is refused."""
    config = one_layer(OneLayerArchitecture(8, 1, 4), 1, n_answers=2, length=4, steps=1280, batch=32, lr=0.05)
    run = train(config, tmp_path, threads=1, compile="off")
    assert run.rows[-1]["accuracy"] >= 0.99 and run.step < 1280
    assert all(row["accuracy"] < 0.99 for row in run.rows[:-1])
    with pytest.raises(BadInput, match="stop-accuracy must be at most 1"):
        Training(stop_accuracy=1.5)


def test_parameters_are_counted_as_in_the_paper():
    work = FactCapacity(d=16, n_heads=8, alpha=2.0, beta=0.5)
    assert work.model.d_head == 4 and work.model.d_mlp == 8
    assert work.n_parameters == 4 * 8 * 4 * 16 + 2 * 8 * 16


def test_a_search_trains_runs_below_its_folder_and_goes_on(tmp_path):
    work = FactCapacity(2, 5, d=4, n_heads=2, n_answers=2, length=4, steps=16, batch=16)
    calls = iter([False] * 12)
    with pytest.raises(Stopped):
        Finished.of(work, tmp_path / "parts", lambda: next(calls, True))
    for folder in (tmp_path / "parts", whole := tmp_path / "whole"):
        Finished.of(work, folder, lambda: False)
    assert read_json(tmp_path / "parts" / TRIES) == read_json(whole / TRIES)
    runs = sorted(whole.glob("factual_recall-*/report.json"))
    assert len(runs) == len(read_json(whole / TRIES)) > 1


def curve(facts: str, run: str, relation: list[float], subject: list[float], **columns) -> list[dict]:
    """Points that are 1000 steps apart; the whole loss is the sum of both parts."""
    about = {"kind": "curve", "run": run, "version": "v", "seed": 0, "facts": facts, "relations": 4, "answers": 8}
    return [
        {
            **about,
            "step": 1000.0 * i,
            "relation_only": r * math.log(4),
            "subject_only": s * math.log(8),
            "loss": r * math.log(4) + s * math.log(8),
            "other_subject": s * math.log(8) if s > 0.9 else 6.0,
            "from_relation": r,
            "accuracy": float(s == 0),
            "relation_accuracy": float(r == 0),
            "subject_accuracy": float(s == 0),
            **columns,
        }
        for i, (r, s) in enumerate(zip(relation, subject, strict=True))
    ]


def made(hallucinates: bool) -> DataFrame:
    """A whole table; the linear model goes through the three phases, or learns both parts at the same time."""
    relation = [1, 1, 0.0, 0.0, 0.0, 0, 0, 0]
    subject = [1, 1, 1, 1, 1, 0, 0, 0] if hallucinates else relation
    rows = curve("even", "e", relation, subject) + curve("random", "r", relation, subject)
    rows += curve("anywhere", "a", relation, relation if hallucinates else [1, 1, 1, 1, 1, 0, 0, 0])
    about = {"version": "v", "seed": 0}
    for d, beta in ((8, 0.0), (16, 0.0), (16, 1.0)):
        parameters = (4 + 2 * beta) * d * d
        held = {"parameters": parameters, "held": 0.15 * parameters, "size": 5, "recall": 1.0, "steps": 3072.0}
        rows.append({**about, "kind": "capacity", "run": f"c{d}{beta}", "d": d, "alpha": 1.0, "beta": beta, **held})
    for seed in range(5):
        for heads, m in product((1, 2, 4) if seed == 0 else (2, 4), (0, 8, 16) if seed == 0 else (0, 16)):
            recall = 1.0 if heads * 2 + m / 8 >= 6 else 0.5 + 0.01 * seed
            cell = {"heads": heads, "d_mlp": m, "size": 12, "attention": 256 * heads, "mlp": 32 * m, "recall": recall}
            rows.append({**about, "seed": seed, "kind": "trade_off", "run": f"t{heads}{m}{seed}", **cell})
    return DataFrame(rows)


def test_claims_on_tables_made_by_hand():
    found = {claim.id: claim for claim in facts.claims(made(True))}
    assert set(found) == set(claim_ids("facts")) - {"short_training_is_why"}  # no shape was trained for longer
    assert found["three_phases"].number == 2000
    assert found["hallucination_at_ln_d"].number == pytest.approx(math.log(8))
    assert found["facts_per_parameter"].number == pytest.approx(0.15)
    assert found["mlp_replaces_heads"].number == pytest.approx(512 / 1024)
    assert found["mlp_replaces_heads"].spread == pytest.approx((512 / 1024, 512 / 1024))
    added = found["mlp_adds_recall"]  # 0.5, 0.49 … 0.46, by t with four degrees of freedom
    assert (added.number, added.n, added.spread) == (pytest.approx(0.48), 5, pytest.approx((0.46, 0.5)))
    assert f"{0.48 - 2.776 * 0.0158114 / 5**0.5:.2f} to {0.48 + 2.776 * 0.0158114 / 5**0.5:.2f}" in added.sentence
    verdicts = {name: claim.verdict for name, claim in found.items()}
    assert verdicts.pop("when_phases_change") == "fails"  # the plateau ends at step 1000
    assert set(verdicts.values()) == {"holds"}


def test_the_grid_is_judged_seed_by_seed_and_by_five_seeds():
    table = made(True)
    last = (table.kind == "trade_off") & (table.seed == 4)
    few = {claim.id: claim.verdict for claim in facts.claims(table[~last])}
    assert few["attention_alone_suffices"] == few["mlp_replaces_heads"] == few["mlp_adds_recall"] == "undecided"
    table.loc[last & (table.d_mlp == 0), "recall"] = 0.7  # in one seed no attention alone suffices
    found = {claim.id: claim for claim in facts.claims(table)}
    assert (found["attention_alone_suffices"].verdict, found["attention_alone_suffices"].number) == ("fails", 0.7)
    replaces = found["mlp_replaces_heads"]  # without MLP that seed counts as needing twice the largest attention
    assert (replaces.verdict, replaces.spread[0]) == ("holds", pytest.approx(512 / 2048))
    table.loc[last & (table.d_mlp == 16), "recall"] = 0.7  # and in it the MLP replaces nothing
    assert {claim.id: claim for claim in facts.claims(table)}["mlp_replaces_heads"].verdict == "fails"


def test_a_search_in_which_nothing_passed_counts():
    """It counts as 9 facts, the square of its smallest size, for 1,024 parameters."""
    table = made(True)
    nothing = {"parameters": 1024.0, "held": math.nan, "size": 3, "recall": 0.5, "steps": 3072.0}
    rows = {"version": "v", "seed": 0, "kind": "capacity", "run": "c", "d": 16, "alpha": 1.0, "beta": 0.0, **nothing}
    claim = {c.id: c for c in facts.claims(pandas.concat([table, DataFrame([rows])]))}["facts_per_parameter"]
    assert (claim.n, claim.spread[0]) == (4, pytest.approx(9 / 1024))
    assert "in 1 of 4 searches no number of facts tried was recalled" in claim.sentence


def test_a_shape_counts_as_trained_longest_and_the_gap_is_in_logarithms():
    """The longer training counts: 80 facts instead of 40, with the line at 153.6, close ln 2 of a gap of ln 3.84."""
    about = {"parameters": 1024.0, "d": 64, "alpha": 1.0, "beta": 0.0, "version": "v", "seed": 0, "kind": "capacity"}
    tries = [
        {**about, "run": "short", "held": 40.0, "size": 6, "recall": 1.0, "steps": 3072.0},
        {**about, "run": "long", "held": 80.0, "size": 8, "recall": 1.0, "steps": 12_288.0},
    ]
    found = {c.id: c for c in facts.claims(pandas.concat([made(True), DataFrame(tries)]))}
    assert found["facts_per_parameter"].spread[0] == pytest.approx(80 / 1024)
    assert found["short_training_is_why"].number == pytest.approx(math.log(2) / math.log(3.84))
    assert found["short_training_is_why"].verdict == "holds"
    tries[1]["held"] = 49.0
    found = {c.id: c for c in facts.claims(pandas.concat([made(True), DataFrame(tries)]))}
    assert found["short_training_is_why"].verdict == "fails"


def test_what_is_left_to_the_subject_is_the_entropy_given_the_relation():
    """Two equally likely answers of eight give ln 2; a control with answers in all blocks is limited to ln D."""
    start = DataFrame([{"answers": 8, "loss": math.log(32), "from_relation": math.log(16)}]).iloc[0]
    assert left_to_the_subject(start) == pytest.approx(math.log(2))
    assert left_to_the_subject(start.replace(math.log(16), 0.1)) == pytest.approx(math.log(8))


def test_claims_fail_where_they_should():
    table = made(False)
    table.loc[table.kind == "trade_off", "recall"] = 0.5
    table.loc[table.kind == "capacity", "held"] = 100.0
    verdicts = {claim.id: claim.verdict for claim in facts.claims(table)}
    assert [name for name, found in verdicts.items() if found == "holds"] == ["starts_at_chance", "ends_solved"]
    assert verdicts["three_phases"] == verdicts["control_has_no_phase"] == verdicts["mlp_replaces_heads"] == "fails"


def test_a_transformer_of_the_project_learns_on_the_task():
    task = FactualRecall(length=8)
    model = Transformer.for_task(Architecture(n_layers=1, d_model=16), task, generator(0, "init"))
    found = part_loss(observe(model, task.sample(128)))
    assert found["whole"] == pytest.approx(math.log(32), abs=0.5)
    assert set(found) == {"whole", "relation-only", "subject-only"}

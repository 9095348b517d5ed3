"""Factual recall: anchors, gradients by hand, phases of curves made by hand."""

from __future__ import annotations

import math

import numpy
import pandas
import pytest
import torch
from pandas import DataFrame

from hopscope import Architecture, Transformer
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.core.storage import read_json
from hopscope.experiments.work import Stopped
from hopscope.measures import observe
from hopscope.studies.facts.experiments import facts
from hopscope.studies.facts.measures.part_loss import part_loss
from hopscope.studies.facts.models.recall import LinearRecall, OneLayerRecall, counted
from hopscope.studies.facts.tasks.factual_recall import FactualRecall
from hopscope.studies.facts.work import CURVES, FactCapacity, Linear, TradeOff, given_relation, phases, stretch

NAN = float("nan")


def test_facts_of_the_published_run():
    """Subject j has answer ⌊8 j / 16⌋ of every relation: the first rows of the notebook's table."""
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
    """A model seen on a batch, as if it gave each sequence this distribution of answers."""
    model = Transformer.for_task(Architecture(n_layers=1, d_model=4), batch.task, generator(0, "init"))
    seen = observe(model, batch)
    seen.__dict__["outputs"] = probabilities.log()[:, None]
    return seen


def test_part_losses_by_hand():
    """Half on the right answer's block, half elsewhere; the right place has a quarter in all."""
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


def test_the_linear_models_gradients_are_autograds():
    task, random = FactualRecall(), generator(0, "test")
    batch = task.sample(32)
    counts, answers = counted(batch.inputs, task.d_vocab, torch.float64), batch.targets.flatten()
    assert counts.sum(-1).eq(task.length).all()
    V = torch.randn(task.d_output, task.d_vocab, generator=random, dtype=torch.float64, requires_grad=True)
    w = torch.randn(task.d_vocab, generator=random, dtype=torch.float64, requires_grad=True)
    model = LinearRecall(V, w)
    torch.nn.functional.cross_entropy(model.logits(counts), answers).backward()
    with torch.no_grad():
        found = model.gradients(counts, answers)
    assert (found[0] - V.grad).abs().max() < 1e-10
    assert (found[1] - w.grad).abs().max() < 1e-10


def test_counts_are_all_that_linear_attention_sees():
    """The published form: row of the asking token of (x A x^T) x V, on one-hot tokens."""
    task, random = FactualRecall(length=6), generator(0, "test")
    tokens = task.sample(4).inputs
    x = torch.nn.functional.one_hot(tokens, task.d_vocab).double()
    A = torch.randn(task.d_vocab, task.d_vocab, generator=random, dtype=torch.float64)
    V = torch.randn(task.d_vocab, task.d_output, generator=random, dtype=torch.float64)
    published = ((x @ A @ x.mT) @ x @ V)[:, -1]
    ours = LinearRecall(V.T, A[-1]).logits(counted(tokens, task.d_vocab, torch.float64))
    assert (published - ours).abs().max() < 1e-12


def test_counts_are_all_that_a_one_layer_transformer_sees():
    """The published form, token by token, with its MLP."""
    task = FactualRecall(length=6)
    tokens = task.sample(4).inputs
    m = OneLayerRecall(task.d_vocab, task.d_output, 10, 3, 4, 5, generator(0, "init"))
    assert m.n_parameters == 4 * 3 * 4 * 10 + 2 * 5 * 10
    x = m.E[tokens]
    heads = []
    for h in range(3):
        scores = torch.einsum("bij,jk,bk->bi", x, m.K[h] @ m.Q[h].T, x[:, -1]) / 4**0.5
        heads.append(torch.einsum("bij,bi->bj", x @ m.V[h], scores.softmax(-1)))
    out = torch.cat(heads, -1) @ m.O
    out = out + torch.relu(out @ m.W_1.T + m.b_1) @ m.W_2.T
    assert torch.allclose(out @ m.U.T, m(counted(tokens, task.d_vocab)), atol=1e-5)


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


def test_training_goes_on_with_the_same_bits(tmp_path):
    work = Linear(steps=40, batch=16, log_every=8)
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    for folder in (whole, parted):
        folder.mkdir()
    work.do(whole, lambda: False)
    asked = iter([False] * 13 + [True] * 2)
    with pytest.raises(Stopped):
        work.do(parted, lambda: next(asked))
    work.do(parted, lambda: False)
    assert (whole / "curves.json").read_bytes() == (parted / "curves.json").read_bytes()
    curves = read_json(whole / "curves.json")
    assert list(curves) == list(CURVES)
    assert curves["step"] == [0, 8, 16, 24, 32, 40]
    assert curves["loss"][0] == pytest.approx(math.log(32), abs=1e-6)


def test_parameters_are_counted_as_in_the_paper():
    work = FactCapacity(d=16, n_heads=8, alpha=2.0, beta=0.5)
    assert work.shape.d_head == 4 and work.shape.d_mlp == 8
    assert work.n_parameters == 4 * 8 * 4 * 16 + 2 * 8 * 16


def test_a_stopped_cell_leaves_nothing(tmp_path):
    with pytest.raises(Stopped):
        TradeOff(1, 0, size=2, n_answers=2, d=4, d_head=2, length=4, steps=4, batch=4).do(tmp_path, lambda: True)
    assert not list(tmp_path.iterdir())


def curve(facts: str, run: str, relation: list[float], subject: list[float], **columns) -> list[dict]:
    """Points 1000 steps apart; the whole loss is the sum of both parts."""
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
    """A whole table; the linear model goes through the three phases, or learns both parts together."""
    relation = [1, 1, 0.0, 0.0, 0.0, 0, 0, 0]
    subject = [1, 1, 1, 1, 1, 0, 0, 0] if hallucinates else relation
    rows = curve("even", "e", relation, subject) + curve("random", "r", relation, subject)
    rows += curve("anywhere", "a", relation, relation if hallucinates else [1, 1, 1, 1, 1, 0, 0, 0])
    about = {"version": "v", "seed": 0}
    for d, beta in ((8, 0.0), (16, 0.0), (16, 1.0)):
        parameters = (4 + 2 * beta) * d * d
        held = {"parameters": parameters, "held": 0.15 * parameters, "size": 5, "recall": 1.0}
        rows.append({**about, "kind": "capacity", "run": f"c{d}{beta}", "d": d, "alpha": 1.0, "beta": beta, **held})
    for heads in (1, 2, 4):
        for m in (0, 16):
            recall = 1.0 if heads * 2 + m / 8 >= 6 else 0.5
            cell = {"heads": heads, "d_mlp": m, "size": 12, "attention": 256 * heads, "mlp": 32 * m, "recall": recall}
            rows.append({**about, "kind": "trade_off", "run": f"t{heads}{m}", **cell})
    return DataFrame(rows)


def test_claims_on_tables_made_by_hand():
    found = {claim.id: claim for claim in facts.claims(made(True))}
    assert set(found) == set(facts.CLAIMS)
    assert found["three_phases"].number == 2000
    assert found["hallucination_at_ln_d"].number == pytest.approx(math.log(8))
    assert found["facts_per_parameter"].number == pytest.approx(0.15)
    assert found["mlp_replaces_heads"].number == pytest.approx(512 / 1024)
    verdicts = {name: claim.verdict for name, claim in found.items()}
    assert verdicts.pop("when_phases_change") == "fails"  # the plateau ends at step 1000
    assert set(verdicts.values()) == {"holds"}


def test_a_search_in_which_nothing_passed_counts():
    """It held less than 9 facts, the square of its smallest size: of 1,024 parameters."""
    table = made(True)
    nothing = {"parameters": 1024.0, "held": math.nan, "size": 3, "recall": 0.5}
    rows = {"version": "v", "seed": 0, "kind": "capacity", "run": "c", "d": 16, "alpha": 1.0, "beta": 0.0, **nothing}
    claim = {c.id: c for c in facts.claims(pandas.concat([table, DataFrame([rows])]))}["facts_per_parameter"]
    assert (claim.n, claim.spread[0]) == (4, pytest.approx(9 / 1024))
    assert "in 1 of 4 searches no size passed" in claim.sentence


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

"""Training: schedules by hand, AdamW against its formula, data that are a function of the step, and learning itself."""

from __future__ import annotations

import io
import math
import sys
import types

import pytest
import torch
from rich.console import Console

from hopscope import Architecture, Config, Training, train
from hopscope.cli import main
from hopscope.configuration.config import parse_schedule
from hopscope.configuration.presets import RECIPES
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.runs.evaluation import evaluate
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.mirror import Mirror, flatten
from hopscope.training.progress import ProgressBar
from hopscope.training.stack import stackable, train_many
from hopscope.training.trainer import Data, Trainer, entropy, learning_rate
from tests.brief_reports import brief_reports  # noqa: F401

CPU = torch.device("cpu")
SMALL = Architecture(n_layers=1, d_model=8)


def config(**training) -> Config:
    return Config(Retrieval(n_hops=1, n_chains=2), SMALL, Training(**{"steps": 10, "batch": 4, **training}))


def test_learning_rates_by_hand():
    constant = Training(steps=10, lr=1.0)
    assert [learning_rate(constant, s) for s in range(10)] == [1.0] * 10
    linear = Training(steps=10, lr=1.0, schedule="linear", warmup=2, decay_steps=4)
    assert [learning_rate(linear, s) for s in range(10)] == [0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25]
    cosine = Training(steps=4, lr=2.0, schedule="cosine")
    expected = [1 + math.cos(math.pi * s / 4) for s in range(4)]
    assert [learning_rate(cosine, s) for s in range(4)] == pytest.approx(expected)


def test_one_update_is_adamw_by_its_formula():
    """Loshchilov & Hutter: θ ← θ − lr·wd·θ − lr · m̂ / (√v̂ + ε); after one step m̂ = g and v̂ = g²."""
    trainer = Trainer(config(lr=0.01, weight_decay=0.1), CPU)
    batch = trainer.data.batch(0)
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    batch.task.loss(trainer.outputs(batch), batch.targets).backward()
    gradients = {n: p.grad.clone() for n, p in trainer.model.named_parameters()}
    trainer.optimizer.zero_grad()
    trainer.step(0)
    for name, after in trainer.model.named_parameters():
        g = gradients[name]
        expected = before[name] * (1 - 0.01 * 0.1) - 0.01 * g / (g.abs() + 1e-8)
        assert torch.allclose(after, expected, atol=1e-6), name


def test_entropy_of_attention_by_hand():
    """Rows with one, two and four keys of equal shares have 0, log 2 and log 4 nats; masked keys take no part."""
    pattern = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4]).expand(1, 1, 3, 4)
    assert entropy(pattern)[0, 0].tolist() == pytest.approx([0, math.log(2), math.log(4)], abs=1e-6)


def test_entropy_of_attention_is_in_the_loss():
    """The loss is that of the task plus weight times the mean of all rows; its gradient is that of differences."""
    plain, trainer = (Trainer(config(attention_entropy=weight), CPU) for weight in (0.0, 0.5))
    batch = trainer.data.batch(0)
    _, cache = trainer.model(batch.inputs, cache=["blocks.0.attn.hook_pattern"])
    rows = -torch.special.xlogy(cache["pattern", 0], cache["pattern", 0]).sum(-1)
    loss = trainer.loss(batch)
    assert loss.item() == pytest.approx(plain.loss(batch).item() + 0.5 * rows.mean().item(), abs=1e-6)
    loss.backward()
    weight = trainer.model.blocks[0].attn.W_QKV
    slope, along = weight.grad.norm().item(), weight.grad / weight.grad.norm()
    with torch.no_grad():
        weight += 1e-2 * along
        above = trainer.loss(batch).item()
        weight -= 2e-2 * along
        below = trainer.loss(batch).item()
    assert slope == pytest.approx((above - below) / 2e-2, rel=0.05)


def test_entropy_needs_attention_that_is_a_distribution():
    with pytest.raises(BadInput, match="sum to 1"):
        Config(Retrieval(n_hops=1), SMALL.but(attention="linear"), Training(attention_entropy=0.1))
    with pytest.raises(BadInput, match="no deep-supervision"):
        config(attention_entropy=0.1, deep_supervision=0.5)
    assert not stackable(config(attention_entropy=0.1))


def test_weight_decay_may_spare_what_is_no_matrix():
    trainer = Trainer(config(decay_on="matrices"), CPU)
    decay, rest = trainer.optimizer.param_groups
    assert {p.ndim for p in rest["params"]} == {1}
    assert (decay["weight_decay"], rest["weight_decay"]) == (0.1, 0.0)


def test_data_are_a_function_of_seed_and_step():
    a, b, other = Data(config(seed=1), CPU), Data(config(seed=1), CPU), Data(config(seed=2), CPU)
    later = a.batch(7).inputs
    assert torch.equal(later, b.batch(7).inputs)
    assert not torch.equal(later, a.batch(6).inputs)
    assert not torch.equal(later, other.batch(7).inputs)


def test_a_finite_set_is_seen_once_per_pass_in_a_new_order():
    """12 examples, batches of 4: three steps see each once; the next pass sees the same ones in another order."""
    data = Data(config(examples=12), CPU)
    passes = [torch.cat([data.batch(3 * epoch + i).inputs.flatten(1) for i in range(3)]) for epoch in (0, 1)]
    assert not torch.equal(*passes)
    rows = [sorted(map(tuple, p.tolist())) for p in passes]
    assert rows[0] == rows[1]
    assert len(set(rows[0])) == 12
    assert torch.equal(Data(config(examples=12), CPU).batch(4).inputs, data.batch(4).inputs)  # asked out of order


def test_seeds_can_be_told_apart():
    same_init = [Trainer(config(seed_init=5, seed_data=s), CPU) for s in (1, 2)]
    assert torch.equal(same_init[0].model.W_E, same_init[1].model.W_E)
    assert not torch.equal(same_init[0].data.batch(0).inputs, same_init[1].data.batch(0).inputs)
    assert config(seed=3).as_dict() == config(seed=3, seed_init=3, seed_data=3).as_dict()


def test_identity_is_of_what_changes_numbers_and_resolved_whole():
    base = config()
    assert base.identity == Config(base.task, SMALL.but(d_head=8, d_mlp=32), base.training).identity
    others = [config(seed=1), config(dtype="bfloat16"), config(lr=2e-3), Config(base.task, SMALL.but(mlp=False))]
    assert len({c.identity for c in (base, *others)}) == 5
    assert Config.from_dict(base.as_dict()).identity == base.identity
    assert base.difference(config(lr=2e-3)) == "training lr is 0.002 there and 0.001 here"


def test_checkpoint_schedules():
    assert parse_schedule("10:300,100") == [(10, 300), (100, None)]
    training = Training(steps=450, checkpoints="10:30,100")
    assert [s for s in range(451) if training.is_kept(s)] == [0, 10, 20, 30, 100, 200, 300, 400, 450]
    for text in ("", "0", "a", "1:2:3", "10:", "-5"):
        with pytest.raises(BadInput, match="checkpoints"):
            parse_schedule(text)
    for text in ("10:5,100", "100,10", "10:300,20:200,5", "10:300,20:300", "100,10:50"):
        with pytest.raises(BadInput, match="keeps nothing"):
            parse_schedule(text)
    assert parse_schedule("10:300,20:400") == [(10, 300), (20, 400)]


def test_presets_are_the_papers_settings():
    """Sections 7.1, 8.1 and 9.1, number by number."""
    d = RECIPES["transformer_d"].config()
    assert (d.task.n_hops, d.model.n_layers, d.model.n_heads, d.model.d_model, d.model.head_width) == (
        4,
        24,
        1,
        512,
        16,
    )
    assert (d.model.mlp, d.training.steps, d.training.batch, d.training.examples) == (False, 6400, 256, 2**18)
    assert [s for s in range(400) if d.training.is_kept(s)] == [0, 80, 160, 240, 320]
    abc = RECIPES["transformer_abc"].config()
    assert (abc.task.n_hops, abc.model.n_layers, abc.model.n_heads, abc.model.d_model) == (3, 12, 1, 128)
    assert (abc.training.steps, abc.training.batch, abc.training.examples) == (24_000, 128, 2**18)
    four = RECIPES["figure_4"].config()
    assert (four.task.n_hops, four.model.n_heads, four.model.d_model) == (5, 8, 128)
    assert (four.training.steps, four.training.batch, four.training.examples) == (10_000, 512, 2**20)
    assert (four.training.lr, four.training.weight_decay) == (1e-3, 0.1)
    assert RECIPES["figure_4_no_curriculum"].config().task.hop_names == ("x3",)


def test_evaluation_in_chunks_is_evaluation():
    """1000 sequences are drawn 512 and 488; the weighted mean is that of all."""
    task = Retrieval(n_hops=2, n_chains=2)
    model = Trainer(Config(task, SMALL), CPU).model
    found = evaluate(model, task, 1000, 3, "report")
    batches = [task.sample(n, generator(3, "report", i)) for i, n in enumerate((512, 488))]
    with torch.no_grad():
        errors = torch.cat([(model(b.inputs, at=task.query_positions) - b.targets).square() for b in batches])
    assert found["loss"] == pytest.approx(float(errors.mean()), rel=1e-5)
    assert list(found["hop_losses"].values()) == pytest.approx(
        errors.view(1000, 2, 2, 4).mean((0, 1, 3)).tolist(), rel=1e-5
    )


def test_measures_are_streamed(tmp_path):
    run = train(config(measures="induction_score, previous_token_score", steps=4, log_every=2), tmp_path / "run")
    assert [row["step"] for row in run.rows] == [0, 2, 4]
    assert run.rows[-1]["measures"]["induction_score"].keys() == {"L0H0"}
    assert list(run.metrics.columns) == ["step", "train_loss", "val_loss", "x1"]


def test_two_layers_learn_a_hop_and_one_layer_does_not(tmp_path):
    """A real circuit in seconds; one layer finds the right step at best, 1 − 1/N (docs/the-problem.md)."""
    task = Retrieval(n_hops=1)
    recipe = Training(steps=600, batch=64, lr=3e-3, log_every=50, stop_below=0.05, val_size=256, checkpoints="600")
    two = train(Config(task, Architecture(n_layers=2, d_model=32), recipe), tmp_path / "two")
    one = train(Config(task, Architecture(n_layers=1, d_model=32), recipe.but(steps=300)), tmp_path / "one")
    assert two.report["loss"] < 0.06  # on fresh data; it stopped below 0.05 on the validation set
    assert two.report["step"] < 600
    assert two.report["accuracy"][0] > 0.95
    assert one.report["loss"] > task.learnt_below


def test_an_accuracy_of_no_answers_is_refused_in_a_sentence(tmp_path, capsys):
    """In four tokens a sequence may have no answer; one of them is then the whole validation set."""
    given = ["hop_k", "--length", "4", "--val-size", "1", "--stop-accuracy", "0.9", "--seed-eval", "1", "--steps", "2"]
    assert main(["train", *given, "--d-model", "8", "--out", str(tmp_path / "run")]) == 2
    assert "choose a larger --val-size" in capsys.readouterr().err


def test_measures_that_a_validation_set_does_not_determine_are_left_out(tmp_path):
    task = catalogue.find("tasks", "hop_k")(length=4)
    recipe = Training(steps=1, batch=2, val_size=256, measures="join_attention")
    run = train(Config(task, Architecture(n_layers=1, n_heads=1, d_model=8), recipe), tmp_path / "run")
    assert [row["measures"] for row in run.rows] == [{"join_attention": {}}] * 2


def test_whether_to_compile_is_one_of_three_words(tmp_path):
    with pytest.raises(BadInput, match="compile must be one of auto, on, off; got 'of'; did you mean 'off'"):
        train(config(steps=1), tmp_path / "run", compile="of")
    with pytest.raises(BadInput, match="compile must be one of auto, on, off; got 'yes'"):
        train_many([config(steps=1)], [tmp_path / "run"], compile="yes")
    assert not list(tmp_path.iterdir())


def test_without_a_compiler_it_says_so_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hopscope.core.environment.shutil.which", lambda _: None)
    run = train(config(steps=2), tmp_path / "run", compile="on")
    assert run.done
    assert run.sessions[0]["environment"]["compiled"] is False
    assert capsys.readouterr().err == "hopscope: no C++ compiler was found, so training runs uncompiled\n"


def watch(terminal: bool, tmp_path) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=160)
    train(config(steps=20, log_every=1), tmp_path / "run", watchers=(ProgressBar(console),))
    return out.getvalue()


def test_progress_in_a_log_is_ten_lines_with_losses(tmp_path):
    lines = watch(False, tmp_path).splitlines()
    assert 9 <= len(lines) <= 11
    assert "step 20/20" in lines[-1]
    assert "x1" in lines[-1] and "steps/s" in lines[-1]


def told(rows, steps, first=0):
    """The steps of the lines in a log of a run with rows at these steps."""
    out = io.StringIO()
    bar = ProgressBar(Console(file=out, width=160))
    bar.begin(config(steps=steps), first)
    for step in rows:
        bar.logged({"step": step, "hop_losses": {"x1": 1.0}})
    return [int(line.split("step ")[1].split("/")[0]) for line in out.getvalue().splitlines() if "/" in line]


def test_progress_in_a_log_is_ten_lines_though_no_row_is_at_a_tenth():
    """The first row after each tenth of the steps, however rows fall."""
    assert told([*range(0, 2000, 30), 2000], 2000) == [0, 210, 420, 600, 810, 1020, 1200, 1410, 1620, 1800, 2000]
    assert told([0, 300, 600, 700], 700) == [0, 300, 600, 700]
    assert told([*range(1020, 2000, 30), 2000], 2000, first=1000) == [1020, 1200, 1410, 1620, 1800, 2000]
    assert told([0], 0) == [0]


def test_progress_on_a_terminal_is_a_bar(tmp_path):
    text = watch(True, tmp_path)
    assert "20/20" in text and "x1" in text and "━" in text


def test_metrics_are_mirrored(tmp_path, monkeypatch):
    """A stand-in with the three calls that W&B and Trackio share sees every row, flat."""
    seen: list = []
    fake = types.SimpleNamespace(
        init=lambda **about: seen.append(about["project"]),
        log=lambda row, step: seen.append((step, row)),
        finish=lambda: seen.append("finished"),
    )
    monkeypatch.setitem(sys.modules, "trackio", fake)
    train(config(steps=4, log_every=2, measures="induction_score"), tmp_path / "run", watchers=(Mirror("trackio"),))
    assert seen[0] == "hopscope" and seen[-1] == "finished"
    assert [step for step, _ in seen[1:-1]] == [0, 2, 4]
    assert {"train_loss", "val_loss", "hop_losses/x1", "measures/induction_score/L0H0"} == seen[2][1].keys()
    assert flatten({"a": {"b": 1.0}, "c": None}) == {"a/b": 1.0}


def test_hops_that_nobody_asks_have_no_loss():
    """One question is about one hop. The others are not known, and are no zero, which would count as learnt."""
    task = HopK(n_hops=8, length=24)
    batch = task.sample(1, generator(0, "one", 0))
    asked = {hop for hop, known in zip(task.hop_names, (batch.targets >= 0).any(1)[0], strict=True) if known}
    assert 0 < len(asked) < len(task.hop_names)
    model = Trainer(Config(task, SMALL), CPU).model
    assert set(hops_of(model, task, batch)) == asked
    assert min(hops_of(model, task, batch).values()) > 0


def hops_of(model, task, batch):
    return task.by_hop(task.hop_losses(model(batch.inputs, at=task.query_positions), batch.targets))


def test_a_chunk_that_does_not_ask_a_hop_does_not_lower_its_loss(monkeypatch):
    """Of 5 sequences 4 are one chunk; the last alone asks few hops, which count by their own sequences."""
    monkeypatch.setattr("hopscope.runs.evaluation.CHUNK", 4)
    task = HopK(n_hops=8, length=24)
    model = Trainer(Config(task, SMALL), CPU).model
    found = evaluate(model, task, 5, 0, "report")["hop_losses"]
    batches = [task.sample(n, generator(0, "report", i)) for i, n in enumerate((4, 1))]
    with torch.no_grad():
        first, second = (hops_of(model, task, b) for b in batches)
    assert first.keys() - second.keys()
    for hop in first.keys() | second.keys():
        known = [(w, losses[hop]) for w, losses in ((4, first), (1, second)) if hop in losses]
        assert found[hop] == pytest.approx(sum(w * x for w, x in known) / sum(w for w, _ in known), rel=1e-5)

"""Clamps: patterns against sums done by hand, one step of training against another implementation, and resumed bits."""

from __future__ import annotations

import json
import math
from functools import partialmethod
from pathlib import Path

import pandas
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope import Architecture, BadInput, Config, Run, Training, train
from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.experiments.results import room
from hopscope.interventions.clamps import Clamp, check_clamps, clamped, in_force, parse_clamps, replacements
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles
from hopscope.runs.evaluation import evaluate
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.training.loop import Interrupted
from hopscope.training.trainer import Trainer
from hopscope_studies.stacked_heads.experiments import curriculum
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import config, fingerprint, trained

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
VALUES = "L0H0 value[1]->key[1]"
QUERIES = "L0H0 query->key[1]"


# How clamps are written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["L1H0 value[1]->key[1] ideal@200", "L0H3 query->value[2] (other) off@0", "L2H1 key[3,1]->key[3,2] off@7"]
)
def test_a_clamp_is_read_and_written_alike(text):
    clamp = Clamp.parse(text)
    assert str(clamp) == text
    assert Clamp.parse(f"  {text} ") == clamp == Clamp.parse(text.replace("->", " -> ").replace("query  ", "query "))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "written such as"),
        ("nonsense", "a clamp must be written such as 'L1H0 value[1]->key[1] ideal@200'; got 'nonsense'"),
        ("L1H0 value[1]->key[1] ideal", "a clamp must be written such as"),
        ("L1H0 value[1]->key[1] on@200", "a clamp must be ideal or off, such as"),
        ("L1H0 value[1]->key[1] ideal@", "whole number of at least 0, or two such as 0-200; got ''"),
        ("L1H0 value[1]->key[1] ideal@-1", "whole number of at least 0, or two such as 0-200; got '-1'"),
        ("L1H0 value[1]->key[1] ideal@9-9", "must end after it begins; got '9-9'"),
        ("L1H0 value[1]->key[1] ideal@9-", "or two such as 0-200; got '9-'"),
        ("L1H0 value[1]->key[1] ideal@1.5", "whole number of at least 0, or two such as 0-200; got '1.5'"),
        ("L1H0 value[1]->key[1] ideal@²", "whole number of at least 0, or two such as 0-200; got '²'"),
        ("L1 value[1]->key[1] ideal@2", "a path must be written such as"),
    ],
)
def test_every_mistake_is_one_sentence(text, words):
    with pytest.raises(BadInput) as told:
        Clamp.parse(text)
    assert words in str(told.value) and "\n" not in str(told.value)


def test_one_way_to_write_several():
    a, b = f"{VALUES} ideal@5", f"{QUERIES} off@2"
    one, other = Training(clamps=f"{a};{b}"), Training(clamps=f" {b} ; {a};")
    assert one == other and one.clamps == f"{b}; {a}"
    with pytest.raises(BadInput, match="a path can be clamped once per step"):
        Training(clamps=f"{VALUES} ideal@5; {VALUES} off@5")


def test_the_later_of_two_clamps_of_a_path_takes_over():
    clamps = parse_clamps(f"{VALUES} ideal@3; {VALUES} off@6; {QUERIES} off@5")
    kinds = [{str(c.path): c.kind for c in in_force(clamps, step)} for step in (2, 3, 5, 6, 100)]
    both = {VALUES: "ideal", QUERIES: "off"}
    assert kinds == [{}, {VALUES: "ideal"}, both, both | {VALUES: "off"}, both | {VALUES: "off"}]


def test_a_clamp_that_ends_releases_its_path():
    clamp = Clamp.parse(f"{VALUES} ideal@3-6")
    assert (clamp.step, clamp.until, str(clamp)) == (3, 6, f"{VALUES} ideal@3-6")
    assert [bool(in_force([clamp], step)) for step in (2, 3, 5, 6, 9)] == [False, True, True, False, False]
    replaced = parse_clamps(f"{VALUES} ideal@0-9; {VALUES} off@4-5")  # the later one takes over for good
    assert [[c.kind for c in in_force(replaced, step)] for step in (3, 4, 5)] == [["ideal"], ["off"], []]


def test_training_under_a_clamp_that_ends_is_as_clamped_before_and_as_free_after(tmp_path):
    """Until its end the rows are those of the same clamp without end; the report has the model as it is, unclamped."""
    recipe = {"steps": 8, "log_every": 1, "checkpoints": "4"}
    ends, holds, free = (
        train(config(clamps=clamps, **recipe), tmp_path / name, threads=1, compile="off")
        for name, clamps in (("ends", f"{QUERIES} ideal@0-4"), ("holds", f"{QUERIES} ideal@0"), ("free", ""))
    )
    assert ends.rows[:4] == holds.rows[:4] and ends.rows[0] != free.rows[0]
    assert ends.rows[4] != holds.rows[4]
    assert "unclamped" in holds.report and "unclamped" not in ends.report


@pytest.mark.parametrize(
    ("clamp", "words"),
    [
        ("L2H0 query->value[2] ideal@0", "the last layer is 1, counted from 0; got 2"),
        ("L1H2 query->value[2] off@0", "the last head is 1, counted from 0; got 2"),
        ("L0H0 query->value[3] off@0", "there is no role 'value[3]' here; the task has query, key"),
        ("L0H0 que->value[2] off@0", "there is no role 'que' here"),
        ("L0H0 value[2]->key[1] ideal@9", "no value[2] sees a key[1] of same chain in this task"),  # it comes later
        ("L0H0 key[1]->query (other) ideal@9", "no key[1] sees a query of other chain in this task"),
    ],
)
def test_a_clamp_that_cannot_hold_is_refused_when_the_configuration_is_made(clamp, words):
    with pytest.raises(BadInput) as told:
        Config(Retrieval(), Architecture(n_layers=2, n_heads=2), Training(clamps=clamp))
    assert words in str(told.value) and "\n" not in str(told.value) and clamp in str(told.value)


def test_a_clamp_of_a_model_without_attention_says_so():
    lstm, task = catalogue.find("models", "lstm")(), SymbolicRetrieval()
    for clamp in ("L0H0 query->value[2] ideal@0", "L3H1 query->value[2] off@0"):
        with pytest.raises(BadInput, match=r"^clamp .*: this model has no attention heads$"):
            Config(task, lstm, Training(clamps=clamp))


def test_what_the_mask_or_the_order_lets_pass_is_taken():
    clamp = parse_clamps("L0H0 value[1]->key[2] ideal@9")
    check_clamps(clamp, Retrieval(), Architecture(causal=False))
    check_clamps(clamp, Retrieval(order="deepest_first"), Architecture())
    check_clamps(clamp, Retrieval(order="shuffled"), Architecture())


# Identity -------------------------------------------------------------------------------------------------------------


def test_identities_of_runs_without_clamps_are_what_they_were():
    """Those of the published table, which are older than clamps."""
    published = set(pandas.read_csv(room("curriculum") / "curriculum" / "table.csv")["run"])
    assert {c.identity for c in curriculum.runs("cpu")} == published
    assert "clamps" not in Config(Retrieval()).training.identifying()


def test_a_clamp_is_part_of_the_identity_and_comes_back_from_json():
    plain, held, off = config(), config(clamps=f"{VALUES} ideal@5"), config(clamps=f"{VALUES} off@5")
    assert len({c.identity for c in (plain, held, off, config(clamps=f"{VALUES} ideal@6"))}) == 4
    back = Config.from_dict(json.loads(json.dumps(held.as_dict())))
    assert back.training.clamps == held.training.clamps and back.identity == held.identity
    assert "clamps" in plain.difference(held) and "clamps" in held.difference(plain)


def test_a_grid_is_a_list_of_configurations():
    """Path i clamped from step s: plain data, distinct identities, nothing else to know."""
    paths = ("value[1]->key[1]", "query->key[1]")
    grid = [config(clamps=f"L0H0 {path} {kind}@{s}") for path in paths for kind in ("ideal", "off") for s in (0, 4)]
    assert len({c.identity for c in grid}) == 8


# Patterns by hand -----------------------------------------------------------------------------------------------------

ROLES = Roles(("query", "key"), torch.tensor([[[ABSENT, ABSENT, ABSENT, 0], [0, NO_CHAIN, 0, ABSENT]]]))
ACTUAL = torch.tensor([[[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4]]]])
SEES = torch.ones(4, 4).tril().bool()


def last_row(*texts: str, actual: Tensor = ACTUAL, **how: object) -> list[float]:
    """The last row under clamps; the others must be untouched."""
    found = clamped([Clamp.parse(f"L0H0 {text}@0") for text in texts], ROLES, SEES, 1, **how)(actual)
    assert torch.equal(found[..., :3, :], actual[..., :3, :])
    return found[0, 0, 3].tolist()


def test_rows_by_hand():
    assert last_row("query->key ideal") == pytest.approx([0.5, 0, 0.5, 0])
    assert last_row("query->key ideal", ideal_over="latest") == pytest.approx([0, 0, 1, 0])
    assert last_row("query->key (other) ideal") == pytest.approx([0, 1, 0, 0])
    assert last_row("query->key off") == pytest.approx([0, 0.2 / 0.6, 0, 0.4 / 0.6])
    assert last_row("query->key off", "query->key (other) off") == pytest.approx([0, 0, 0, 1])
    assert last_row("query->key ideal", "query->key (other) ideal") == pytest.approx([0.25, 0.5, 0.25, 0])
    assert last_row("query->query off", "query->key ideal") == pytest.approx([0.5, 0, 0.5, 0])  # it was 0 already


def test_when_nothing_is_left_the_null_pattern_stands_in():
    all_on_keys = ACTUAL.clone()
    all_on_keys[0, 0, 3] = torch.tensor([0.4, 0, 0.6, 0])
    assert last_row("query->key off", actual=all_on_keys) == pytest.approx([0, 0.5, 0, 0.5])
    assert last_row("query->key off", actual=all_on_keys, null_pattern="identity") == pytest.approx([0, 0, 0, 1])
    everything = ["query->key off", "query->key (other) off", "query->query off"]
    assert last_row(*everything) == [0, 0, 0, 0]


def test_rows_that_sum_to_anything_are_not_scaled():
    linear = 2 * ACTUAL - 0.7
    assert last_row("query->key off", actual=linear, normalised=False) == pytest.approx([0, -0.3, 0, 0.1])


def test_gradients_stay_finite_where_nearly_nothing_is_left():
    for rest in (0.0, 1e-38, 1e-20, 2e-6, 1e-3):
        scores = torch.tensor([0.0, -torch.inf, 0.0, math.log(rest) if rest else -torch.inf])
        scores = scores.repeat(1, 1, 4, 1).requires_grad_()
        clamped([Clamp.parse("L0H0 query->key off@0")], ROLES, SEES, 1)(scores.softmax(-1)).square().sum().backward()
        assert scores.grad[0, 0, 3].isfinite().all(), rest


# Patterns in models ---------------------------------------------------------------------------------------------------

TASKS = {
    "retrieval": (Retrieval(n_hops=2), "L1H0 value[1]->key[1]"),
    "any order": (Retrieval(n_hops=2, order="shuffled"), "L1H0 query->key[2]"),
    "other chains": (Retrieval(n_hops=2), "L1H0 query->key[1] (other)"),
    "symbolic": (SymbolicRetrieval(n_hops=2), "L1H0 query->key[1]"),
    "conditional": (ConditionalRetrieval(), "L1H0 value[3]->key[3,1]"),
    "induction": (Induction(), "L1H0 query->key[1]"),
    "hop_k": (HopK(), "L1H0 query->value[1]"),
}


def patterns(model, batch, clamps=()) -> list[Tensor]:
    cache = model(batch.inputs, cache=True, replace=replacements(clamps, batch, model.architecture))[1]
    return [cache["pattern", layer] for layer in range(model.architecture.n_layers)]


@pytest.mark.parametrize("attention", ["softmax", "kv_shift", "linear"])
@pytest.mark.parametrize("kind", ["ideal", "off"])
@pytest.mark.parametrize("case", TASKS)
def test_the_right_rows_and_no_other(case, kind, attention):
    """Row by row, in plain Python; what is before the clamp, and every row beside it, keeps its bits."""
    task, path = TASKS[case]
    shape = Architecture(n_layers=3, n_heads=2, d_model=16, attention=attention)
    model = Trainer(Config(task, shape), CPU).model
    clamp = Clamp.parse(f"{path} {kind}@0")
    batch = task.sample(3, 1)
    with torch.no_grad():
        free, held = patterns(model, batch), patterns(model, batch, [clamp])
    assert torch.equal(free[0], held[0]) and torch.equal(free[1][:, 1], held[1][:, 1])
    touched = 0
    for row, pairs in enumerate(batch.roles.pairs(clamp.path.query, clamp.path.key, clamp.path.chain)):
        for q in range(task.n_positions):
            targets = [k for k in range(q + 1) if pairs[q, k]]
            before, after = free[1][row, 0, q], held[1][row, 0, q]
            if not targets:
                assert torch.equal(before, after)
                continue
            touched += 1
            if kind == "ideal":
                even = [1 / len(targets) if k in targets else 0.0 for k in range(task.n_positions)]
                assert after.tolist() == pytest.approx(even)
            else:
                assert (after[targets] == 0).all()
                rest = [0.0 if k in targets else p for k, p in enumerate(before.tolist())]
                total = sum(rest) if attention != "linear" else 1.0
                assert after.tolist() == pytest.approx([p / total for p in rest], abs=1e-6)
    assert touched
    if task.n_positions < 40:
        assert not torch.equal(free[2], held[2])  # what comes behind it reads another stream


def test_a_batch_of_fewer_hops_is_clamped_where_it_has_the_roles():
    """A curriculum may draw an easier task, which lacks the last facts' roles."""
    clamps = parse_clamps("L0H0 query->key[1] ideal@0; L1H0 query->key[3] ideal@0")
    Config(Retrieval(n_hops=3), training=Training(clamps="L1H0 query->key[3] ideal@0"))
    easy = Retrieval(n_hops=3).at(1).sample(2, 0)
    assert list(replacements(clamps, easy, Architecture(n_layers=2))) == ["blocks.0.attn.hook_pattern"]


def test_a_head_clamped_in_all_rows_learns_nothing_of_where_to_attend():
    """Every position on itself: no gradient for queries and keys of that head, some for its values, and for others."""
    task = Retrieval(n_hops=1, n_chains=2)
    clamps = parse_clamps(";".join(f"L0H1 {role}->{role} ideal@0" for role in ("query", "key[1]", "value[1]")))
    trainer = Trainer(Config(task, Architecture(n_layers=2, n_heads=2, d_model=8), Training(batch=16)), CPU)
    batch = trainer.data.batch(0)
    task.loss(trainer.outputs(batch, clamps), batch.targets).backward()
    for weights in (trainer.model.blocks[0].attn.W_QKV.grad, trainer.model.blocks[0].attn.b_QKV.grad):
        assert (weights[:2, 1] == 0).all()
        assert (weights[2, 1] != 0).any() and (weights[0, 0] != 0).any() and (weights[2, 0] != 0).any()


# Another implementation -----------------------------------------------------------------------------------------------


def labels_attend(labels: list[str], query: str, key: str) -> dict[int, int]:
    """Where each holder of a role must look, from the labels that people read, `a value[1]`."""
    at = {label: position for position, label in enumerate(labels)}
    letters = [label.split()[0] for label in labels if label.endswith(f" {query}")]
    return {at[f"{a} {query}"]: at[f"{a} {key}"] for a in letters}


def by_hand(w: dict[str, Tensor], inputs: Tensor, set_rows: list[dict[int, int]] | None) -> Tensor:
    """A forward pass of one layer and one head, written out anew; `set_rows` says where to look, per sequence."""
    x = inputs @ w["W_E"] + w["b_E"]
    norm = lambda x, n: F.layer_norm(x, x.shape[-1:], w[f"{n}.w"], w[f"{n}.b"])  # noqa: E731
    q, k, v = (
        norm(x, "blocks.0.ln1") @ w["blocks.0.attn.W_QKV"][i, 0] + w["blocks.0.attn.b_QKV"][i, 0] for i in range(3)
    )
    n = x.shape[1]
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    pattern = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)
    if set_rows is not None:
        pattern = torch.stack(
            [
                torch.stack([F.one_hot(torch.tensor(rows[i]), n).float() if i in rows else p[i] for i in range(n)])
                for rows, p in zip(set_rows, pattern, strict=True)
            ]
        )
    x = x + pattern @ v @ w["blocks.0.attn.W_O"][0] + w["blocks.0.attn.b_O"]
    hidden = norm(x, "blocks.0.ln2") @ w["blocks.0.mlp.W_in"] + w["blocks.0.mlp.b_in"]
    x = x + F.gelu(hidden, approximate="tanh") @ w["blocks.0.mlp.W_out"] + w["blocks.0.mlp.b_out"]
    return norm(x, "ln_final") @ w["W_U"] + w["b_U"]


def test_training_under_a_clamp_equals_one_built_by_hand():
    """Four updates of AdamW by its formula, the last two with a pattern put together by hand."""
    recipe = {"steps": 4, "lr": 0.01, "weight_decay": 0.1, "clamps": f"{VALUES} ideal@2"}
    trainer = Trainer(config(**recipe), CPU)
    weights = {n: p.detach().clone().requires_grad_() for n, p in trainer.model.named_parameters()}
    first = {n: torch.zeros_like(p) for n, p in weights.items()}
    second = {n: torch.zeros_like(p) for n, p in weights.items()}
    for step in range(4):
        batch = trainer.data.batch(step)
        rows = [labels_attend(batch.roles.labels(i), "value[1]", "key[1]") for i in range(len(batch))]
        outputs = by_hand(weights, batch.inputs, rows if step >= 2 else None)[:, -2:]
        loss = (outputs - batch.targets).square().mean()
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        with torch.no_grad():
            for name, g in gradients.items():
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.999 * second[name] + 0.001 * g * g
                m, v = first[name] / (1 - 0.9 ** (step + 1)), second[name] / (1 - 0.999 ** (step + 1))
                weights[name] *= 1 - 0.01 * 0.1
                weights[name] -= 0.01 * m / (v.sqrt() + 1e-8)
        assert float(trainer.step(step)) == pytest.approx(float(loss.detach()), rel=1e-5)
    for name, parameter in trainer.model.named_parameters():
        small = second[name].sqrt() < 1e-6  # Adam divides rounding by rounding there
        assert torch.allclose(parameter[~small], weights[name][~small], atol=2e-5), name


# Whole runs -----------------------------------------------------------------------------------------------------------


def weights_of(run: Run, step: int) -> dict[str, Tensor]:
    return run.at(step).state_dict()


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", ["ideal", "off"])
def test_a_clamp_acts_from_its_step_on(tmp_path, kind):
    """Rows and weights are those of an unclamped run until then: the row of its step is the first to see it."""
    free = trained(tmp_path / "free", checkpoints="1")
    held = trained(tmp_path / "held", checkpoints="1", clamps=f"{QUERIES} {kind}@6")
    assert free.rows[:6] == held.rows[:6]
    assert free.rows[6]["train_loss"] == held.rows[6]["train_loss"]  # that of the sixth update, before the clamp
    assert free.rows[6]["val_loss"] != held.rows[6]["val_loss"]
    assert same(weights_of(free, 6), weights_of(held, 6)) and not same(weights_of(free, 7), weights_of(held, 7))


def test_a_clamp_at_the_end_changes_no_bit_and_one_after_it_is_refused(tmp_path):
    """At the very end no update has seen it, but the last row and the report hold it."""
    free = trained(tmp_path / "free")
    with pytest.raises(BadInput, match="would begin after the end, which is at step 12"):
        trained(tmp_path / "later", clamps=f"{QUERIES} ideal@13")
    assert not (tmp_path / "later").exists()
    at_end = trained(tmp_path / "at-end", clamps=f"{QUERIES} ideal@12")
    prints = [{k: v for k, v in fingerprint(run).items() if k != "report"} for run in (free, at_end)]
    assert prints[0] | {"metrics.jsonl": ""} == prints[1] | {"metrics.jsonl": ""}
    assert free.rows[:-1] == at_end.rows[:-1]
    whole = ("loss", "hop_losses", "accuracy")
    assert [free.report[k] for k in whole] == [at_end.report["unclamped"][k] for k in whole]
    assert free.report["loss"] != at_end.report["loss"]
    assert "unclamped" not in free.report


def test_report_and_measures_see_the_clamped_model(tmp_path):
    clamps = f"{QUERIES} ideal@4; L0H0 value[1]->key[1] off@8"
    run = trained(tmp_path / "run", clamps=clamps, measures="attention_on_path,hop_loss", val_size=64)
    streamed = [row["measures"]["attention_on_path"] for row in run.rows]
    assert [row.get(QUERIES) == pytest.approx(1.0) for row in streamed] == [False] * 4 + [True] * 9
    assert [VALUES in row for row in streamed] == [True] * 8 + [False] * 5  # a path without attention is not listed
    for row in run.rows:
        assert row["measures"]["hop_loss"]["x1"] == pytest.approx(row["hop_losses"]["x1"], rel=1e-5)
    again = evaluate(run.model, run.task, run.report["n"], 0, "report", parse_clamps(clamps))
    free = evaluate(run.model, run.task, run.report["n"], 0, "report")
    assert run.report["loss"] == pytest.approx(again["loss"])
    assert run.report["unclamped"] == free and free["loss"] != again["loss"]


@pytest.mark.parametrize(("kind", "dtype"), [("ideal", "float32"), ("off", "bfloat16")])
def test_a_stopped_run_with_a_clamp_ends_like_an_undisturbed_one(tmp_path, kind, dtype):
    """Stopped before the clamp begins, at its very step, and after."""
    training = {"clamps": f"{VALUES} {kind}@5; {QUERIES} off@9", "dtype": dtype}
    undisturbed = trained(tmp_path / "undisturbed", **training)
    for stop in (2, 5, 11):
        made = iter(range(1, stop + 1))
        folder = tmp_path / f"stopped-{stop}"
        with pytest.raises(Interrupted):
            train(config(**training), folder, threads=1, compile="off", should_stop=lambda m=made, s=stop: next(m) == s)
        assert fingerprint(trained(folder, **training)) == fingerprint(undisturbed)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, while it compiles
def test_compiled_blocks_take_clamps_and_are_not_compiled_anew_for_each_batch(monkeypatch):
    """Graphs are counted as PyTorch traces them; what it makes of one, in C++, is for tests of the model."""
    traced = partialmethod(torch.nn.Module.compile, backend="aot_eager")
    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    clamps = f"{VALUES} ideal@2; {QUERIES} off@4"
    plain, compiled = (Trainer(config(clamps=clamps), CPU) for _ in range(2))
    torch._dynamo.reset()
    compiled.model.compile_parts()
    graphs = []
    for step in range(8):
        assert float(compiled.step(step)) == pytest.approx(float(plain.step(step)), rel=1e-4)
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert graphs[2] > graphs[1] and graphs[4] > graphs[3]  # once per kind of clamp …
    assert graphs[3] == graphs[2] and graphs[7] == graphs[4]  # … and not again
    assert not torch._dynamo.utils.counters["graph_break"]


# The command line -----------------------------------------------------------------------------------------------------

TINY = [
    "--hops=1",
    "--chains=2",
    "--layers=1",
    "--d-model=8",
    "--batch=8",
    "--steps=4",
    "--val-size=8",
    "--log-every=1",
]


def test_clamps_on_the_command_line(tmp_path, capsys):
    given = ["--clamp", f"{QUERIES} ideal@2", "--clamp", f"{VALUES} off@0"]
    assert main(["train", "retrieval", *TINY, *given, "--out", str(tmp_path / "run"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["config"]["training"]["clamps"] == f"{VALUES} off@0; {QUERIES} ideal@2"
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "ideal@2" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(
    ("clamp", "words"),
    [
        ("L0H0", "a clamp must be written such as"),
        ("L0H0 query->key[1] ideal@soon", "got 'soon'"),
        ("L1H0 query->key[1] ideal@0", "the last layer is 0"),
        ("L0H0 query->key[7] ideal@0", "there is no role 'key[7]' here; the task has query, key[1], value[1]"),
        ("", "a clamp must be written such as"),
    ],
)
def test_bad_clamps_on_the_command_line(tmp_path, capsys, clamp, words):
    code = main(["train", "retrieval", *TINY, "--clamp", clamp, "--out", str(tmp_path / "run")])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "") and err.count("\n") == 1 and words in err
    assert not (tmp_path / "run").exists()

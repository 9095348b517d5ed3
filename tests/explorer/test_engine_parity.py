"""The page's engine against PyTorch: every task, native variant and option; changes against circuits/evaluator.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from hopscope.circuits.evaluator import AsIs, Evaluator, Hard, Kept, Silenced
from hopscope.circuits.units import NO_ROLE, Row
from hopscope.core import catalogue
from hopscope.explorer.native import ATTENTION, POSITIONS, fallback
from hopscope.explorer.scoring import scoring
from hopscope.interventions.clamps import Clamp, replacements
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.base import Task
from tests.circuits.frozen import Frozen
from tests.explorer.node_engine import answers, ask, case, need_node, units, worded

N = 6  # sequences of a case
SMALL = {
    "hop_k": {"length": 20},
    "trigger_bigrams": {"length": 40},
    "noisy_bigram": {"length": 24},
    "conditional_retrieval": {"n_chains": 2},
    "induction": {"length": 12},
    "factual_recall": {"length": 12},
    "automaton_strings": {"length": 12},
    "repeated_segment": {"length": 20},
    "self_generated": {"length": 4},
}


@pytest.fixture(autouse=True)
def own_cache():
    """Node in place of a cache: nothing here explores a run."""
    need_node()


def small(name: str) -> Task:
    """A task with short sequences."""
    return catalogue.find("tasks", name)(**SMALL.get(name, {}))


def drawn(task: Task, seed: int = 0, **shape) -> Transformer:
    """A model whose every parameter is drawn, biases and norms too, so that none is overlooked; it attends sharply."""
    random = torch.Generator().manual_seed(seed)
    model = Architecture(
        **{"n_layers": 2, "n_heads": 2, "d_model": 20, "mlp": True, "init": "early_layers", **shape}
    ).build(task, random)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=random)
            if "W_QKV" in name:
                parameter.mul_(1 if model.architecture.rule.name() == "linear" else 3)  # linear scores are no shares
            elif not name.rpartition(".")[2].startswith("W_"):
                parameter.add_((0.03 if "beta" in name else 0.3) * noise)  # β counts ten times
    return model


def positions(task: Task) -> list[str]:
    """The position codes that suit a task."""
    fits = {"none": not task.inputs_carry_position, "input": task.inputs_carry_position}
    return [f"{name}(base=50)" if name == "rotary" else name for name in POSITIONS if fits.get(name, True)]


def totals(answer) -> torch.Tensor:
    return torch.tensor(answer["scores"][-1]["totals"], dtype=torch.float64)


def hop_losses(answer) -> torch.Tensor:
    """Σ sums / Σ counts, as the page takes them."""
    scores, hops = answer["scores"][-1], len(answer["scores"][-1]["hops"])
    sums, counts = (torch.tensor(scores[name], dtype=torch.float64).view(-1, hops) for name in ("sums", "counts"))
    return sums.sum(0) / counts.sum(0)


def agree(own, theirs, within: float = 1e-5) -> None:
    torch.testing.assert_close(
        torch.as_tensor(own).double(), torch.as_tensor(theirs).double(), rtol=within, atol=within, equal_nan=True
    )


def together(keys: Sequence[Hashable], pose: Callable[..., tuple[Any, list]]) -> dict[Hashable, tuple[Any, list]]:
    """What is posed of each key, with the engine's answers: one process, which takes longer to start than to answer."""
    posed = {key: pose(key) for key in keys}
    found = iter(answers(*(one for _, cases in posed.values() for one in cases)))
    return {key: (about, [next(found) for _ in cases]) for key, (about, cases) in posed.items()}


@torch.no_grad()
def pose_as_is(models: list[Transformer], task: Task, **more) -> tuple[list[Evaluator], list]:
    """Models as they are: their evaluators, and a case of each."""
    batch = task.sample(N, 3)
    evaluators = [Evaluator(model, batch) for model in models]
    asked = [ask((), [4, N], evaluator.ground.paths, [0, N - 1]) for evaluator in evaluators]
    return evaluators, [case(model, batch, [one], **more) for model, one in zip(models, asked, strict=True)]


@torch.no_grad()
def check_as_is(evaluators: list[Evaluator], found: list, within: float = 1e-5) -> None:
    """Losses, outputs, patterns, named answers and strengths."""
    for evaluator, (answer,) in zip(evaluators, found, strict=True):
        batch = evaluator.batch
        task = batch.task
        account = evaluator.accounts([AsIs()])[0]
        agree(totals(answer), account.losses, within)
        own = evaluator.outputs([AsIs()])[0]
        agree(hop_losses(answer), task.hop_losses(own, batch.targets), within)
        agree([float(x) for x in answer["scores"][-1]["strengths"]], list(evaluator.strengths.values()), within)
        for look, row in zip(answer["looks"], (0, N - 1), strict=True):
            agree(look["outputs"], own[row].flatten(), within)
            agree(look["patterns"], torch.stack([p[row] for p in evaluator.patterns]).flatten(), within)


TASKS = catalogue.names("tasks")


#: Tasks, of features and of tokens, with which every rule of attention is tried with every position code.
PAIRED = ("retrieval", "induction")


def pairs(name: str) -> list[tuple[str, str]]:
    """Rules and position codes to try a task with: each rule, with codes in turn, and of `PAIRED` each with each."""
    codes, turn = positions(small(name)), TASKS.index(name)
    if name in PAIRED:
        return [*itertools.product(ATTENTION, codes)]
    return [(rule, codes[(turn + place) % len(codes)]) for place, rule in enumerate(ATTENTION)]


@cache
def variants() -> dict:
    """Of every task with every native rule of attention."""

    def pose(name: str) -> tuple[list[Evaluator], list]:
        task = small(name)
        return pose_as_is(
            [drawn(task, i, attention=rule, positions=code) for i, (rule, code) in enumerate(pairs(name))], task
        )

    return together(TASKS, pose)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_with_every_rule_of_attention_gives_the_losses_of_pytorch(name):
    evaluators, found = variants()[name]
    assert [fallback(one.model, one.batch.task) for one in evaluators] == [None] * len(evaluators)
    assert {rule for rule, _ in pairs(name)} == {*ATTENTION}
    check_as_is(evaluators, found)


OPTIONS = [
    {"mlp": False},
    {"layer_norm": False},
    {"causal": False},
    {"mlp": False, "layer_norm": False, "causal": False, "n_heads": 1, "n_layers": 1},
    {"n_heads": 3, "d_head": 6, "d_mlp": 13, "n_layers": 3},
]


def options_of(name: str) -> list[dict]:
    """Options to try a task with: one, and with `PAIRED` each. Options are of the layers, which know no task."""
    return OPTIONS if name in PAIRED else [OPTIONS[TASKS.index(name) % len(OPTIONS)]]


@cache
def options() -> dict:
    """Of every task with its options."""
    models = lambda task: [drawn(task, i, **option) for i, option in enumerate(options_of(task.name()))]  # noqa: E731
    return together(TASKS, lambda name: pose_as_is(models(task := small(name)), task))


@pytest.mark.parametrize("name", TASKS)
def test_options_give_the_losses_of_pytorch(name):
    check_as_is(*options()[name])


@pytest.mark.parametrize("name", ["retrieval", "trigger_bigrams"])
def test_without_simd_the_numbers_are_the_same(name):
    task = small(name)
    rules = [drawn(task, attention=rule, positions="relative") for rule in ATTENTION]
    evaluators, cases = pose_as_is([*rules, drawn(task, **OPTIONS[-1])], task, plain=True)
    check_as_is(evaluators, answers(*cases))


def test_weights_in_float16_are_those_of_pytorch_rounded():
    task = small("retrieval")
    model = drawn(task)
    rounded = drawn(task)
    rounded.load_state_dict({name: value.half().float() for name, value in model.state_dict().items()})
    batch = task.sample(N, 3)
    [[answer]] = answers(case(model, batch, [ask((), [N])], half=True))
    agree(totals(answer), Evaluator(rounded, batch).accounts([AsIs()])[0].losses)


@cache
def many_answers() -> dict:
    """Of every task a model and 200 sequences."""

    def pose(name: str) -> tuple[tuple, list]:
        model, batch = drawn(small(name), 7), small(name).sample(200, 5)
        return (model, batch), [case(model, batch, [ask((), [200])])]

    return together(TASKS, pose)


@torch.no_grad()
@pytest.mark.parametrize("name", TASKS)
def test_right_answers_are_those_that_the_task_counts(name):
    """Near-perfect outputs would all be right: here weights are drawn, so that some are and some are not."""
    (model, batch), [[answer]] = many_answers()[name]
    task = batch.task
    scores = answer["scores"][-1]
    right, scored = (torch.tensor(scores[key]).view(-1, len(scores["hops"])).sum(0) for key in ("right", "scored"))
    own = task.correct(model(batch.inputs, at=task.query_positions), batch)
    if not scoring(task).counted:  # the task counts some, and nothing that the page knows says which
        assert name == "names_in_text" and not scored.any()
    elif own.shape[-1] == len(right):
        agree(right / scored, own.float().mean(0), 1e-6)
    else:  # one set of answers for all hops
        agree(right.sum() / scored.sum(), own.float().mean(), 1e-6)


# Changes -----------------------------------------------------------------------------------------------------------


def nulls_of(name: str, rule: str) -> tuple[str, ...]:
    """Nulls to try a task with: one, and each with other rules of attention and with `PAIRED`. No null knows a task.

    Rows of linear attention may sum to less than 0, and the evaluator then has no measure for resampled ones.
    """
    every = ("uniform", "identity", "resample")
    if rule == "linear":
        return every[:2]
    turn = TASKS.index(name) % len(every)
    return every if rule != ATTENTION[0] or name in PAIRED else every[turn : turn + 1]


def changes(evaluator: Evaluator, seed: int, nulls: Sequence[str]) -> list:
    """Changes of every kind on units drawn from those there are."""
    random = torch.Generator().manual_seed(seed)
    ground, paths = evaluator.ground, evaluator.ground.paths

    def some(things, n):
        return [things[i] for i in torch.randperm(len(things), generator=random)[:n].tolist()]

    rows, few = frozenset(some(ground.rows, 3)), frozenset(some(paths, 6))
    shared = ground.paths_in(some([r for r in ground.rows if len(ground.paths_in(r)) > 1] or ground.rows, 1)[0])
    weighted = {path: 0.2 + float(torch.rand((), generator=random)) for path in {*few, *shared}}
    identity = frozenset(some(ground.rows, 4))
    return [
        found
        for null in nulls
        for found in (
            Silenced(few, null),
            Silenced(rows, null),
            Silenced(few | rows, null),
            Silenced(frozenset(shared[:1]), null),
            Kept(few | rows, null),
            Kept(few, null, identity),
            Kept(frozenset(), null),
            Frozen(few | rows, evaluator.patterns, null),
            Hard(weighted, null),
            Hard({}, null),
        )
    ]


CHANGED = [name for name in TASKS if name != "associations"]  # one position sees itself alone
OTHERS = [(name, rule) for name in ("retrieval", "two_hop", "trigger_bigrams") for rule in ATTENTION[1:]]


PAIRS = [*((name, ATTENTION[0]) for name in CHANGED), *OTHERS]


@cache
def changed() -> dict:
    """Of every task and rule an evaluator and the changes that were tried."""

    def pose(pair: tuple[str, str]) -> tuple[tuple, list]:
        name, rule = pair
        evaluator = Evaluator(drawn(small(name), 1, attention=rule, n_layers=3), small(name).sample(N, 4))
        tried = changes(evaluator, len(name), nulls_of(name, rule))
        # As it is first, so that changes of later layers begin from what was kept; then each, on all and by one.
        asks = [ask((), [N])] + [ask(worded(change), [N], evaluator.ground.paths[:3], [2], N) for change in tried]
        return (evaluator, tried), [case(evaluator.model, evaluator.batch, asks)]

    return together(PAIRS, pose)


@torch.no_grad()
@pytest.mark.parametrize(("name", "rule"), PAIRS)
def test_every_change_gives_the_losses_of_the_evaluator(name, rule):
    (evaluator, tried), [found] = changed()[name, rule]
    for change, account, answer in zip(tried, evaluator.accounts(tried), found[1:], strict=True):
        words = f"{type(change).__name__} {change.null}"
        assert totals(answer) == pytest.approx(account.losses.double().tolist(), rel=1e-5, abs=1e-5), words
        patterns = evaluator.patterns_under(change)
        agree(answer["looks"][0]["patterns"], torch.stack([p[2] for p in patterns]).flatten())
        strengths = [evaluator.attention(path, patterns) for path in evaluator.ground.paths[:3]]
        agree([float(x) for x in answer["scores"][-1]["strengths"]], strengths)


def test_positions_without_a_role_are_rows_too():
    task = small("factual_recall")
    evaluator = Evaluator(drawn(task, 1), task.sample(N, 4))
    change = Silenced(frozenset({Row(0, 1, NO_ROLE)}))
    [[answer]] = answers(case(evaluator.model, evaluator.batch, [ask(worded(change), [N])]))
    assert NO_ROLE in evaluator.ground.query_roles
    agree(totals(answer), evaluator.accounts([change])[0].losses)
    assert (totals(answer) - evaluator.accounts([AsIs()])[0].losses).abs().max() > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("rule", ATTENTION)
@pytest.mark.parametrize("name", ["retrieval", "trigger_bigrams", "two_hop", "induction"])
def test_clamps_give_the_losses_of_a_clamped_model(name, rule):
    task = small(name)
    batch = task.sample(N, 4)
    model = drawn(task, 2, attention=rule)
    paths = Evaluator(model, batch).ground.paths
    null = model.architecture.null_pattern(task)
    picked = [paths[i] for i in torch.randperm(len(paths), generator=torch.Generator().manual_seed(5))[:8].tolist()]
    tried = [(picked[:4], []), ([], picked[4:]), (picked[:4], picked[4:]), ([], [p for p in paths if p.layer == 1])]
    asks = []
    for held, removed in tried:
        words = [{"kind": "held ideal", "paths": units(held)}, {"kind": "off", "paths": units(removed), "null": null}]
        asks.append(ask(words, [N]))
    [found] = answers(case(model, batch, asks))
    for (held, removed), answer in zip(tried, found, strict=True):
        clamps = [Clamp(path, "ideal", 0) for path in held] + [Clamp(path, "off", 0) for path in removed]
        replace = replacements(clamps, batch, model.architecture)
        outputs = model(batch.inputs, replace=replace, at=task.query_positions)
        agree(totals(answer), Evaluator(model, batch).losses_of(outputs))


def test_more_sequences_do_not_change_the_first():
    """Slices of any size give each sequence its own loss, whatever was computed before."""
    task = small("retrieval")
    batch, model = task.sample(40, 4), drawn(task, 3)
    evaluator = Evaluator(model, batch)
    change = Silenced(frozenset(evaluator.ground.paths[-4:]))
    asks = [ask((), [3, 17, 40]), ask(worded(change), [3, 17, 40]), ask(worded(change), [40])]
    [found] = answers(case(model, batch, asks))
    losses = evaluator.sequence_losses([AsIs(), change, change])
    for answer, own in zip(found, losses, strict=True):
        for scores in answer["scores"]:
            agree(scores["totals"], own[: scores["n"]])
    assert [scores["n"] for scores in found[0]["scores"]] == [3, 17, 40]


# Losses' rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_rule_of_losses(name):
    task = small(name)
    rule, batch = scoring(task), task.sample(30, 9)
    outputs = torch.randn(30, batch.targets.shape[1], task.d_output, generator=torch.Generator().manual_seed(1))
    agree(rule.hop_losses(outputs, batch.targets), task.hop_losses(outputs, batch.targets), 1e-6)
    agree(rule.loss(outputs, batch.targets), task.loss(outputs, batch.targets), 1e-6)


def test_losses_of_another_kind_have_no_rule():
    kind = type(small("retrieval"))

    class Doubled(kind):
        def hop_losses(self, outputs, targets):
            return 2 * super().hop_losses(outputs, targets)

    assert scoring(Doubled()) is None
    assert "losses of" in fallback(drawn(small("retrieval")), Doubled())

"""Passes that share what changes have in common, and leave out what no answer depends on, against whole ones."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from hopscope.circuits.changes import idle, separable
from hopscope.circuits.completeness import affordable, number_of_sets, work
from hopscope.circuits.evaluator import AsIs, Change, Evaluator, Hard, Kept, Silenced
from hopscope.circuits.exam import Discovery, Exam
from hopscope.circuits.sequential import HOPELESS, Asked, decide
from hopscope.circuits.units import Row, row_of
from hopscope.core.seeds import generator
from hopscope.models.attention.softmax import Softmax
from hopscope.models.base_sparing import Blind
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from tests.circuits.frozen import Frozen

#: Float32 rounds differently where fewer numbers are added up at a time.
CLOSE: Any = {"atol": 1e-5, "rtol": 1e-5}
WIDTH = {"d_model": 32, "d_mlp": 64, "init": "early_layers"}
SHAPES = {
    "MLP": (Retrieval(n_hops=2), Architecture(n_layers=4, mlp=True, **WIDTH)),
    "attention alone": (Retrieval(n_hops=1), Architecture(n_layers=3, n_heads=2, mlp=False, **WIDTH)),
    "relative positions": (
        Retrieval(n_hops=1),
        Architecture(n_layers=3, positions="relative(start='L0 1:4')", mlp=True, **WIDTH),
    ),
    "tokens, two heads": (Induction(), Architecture(n_layers=3, n_heads=2, mlp=True, **WIDTH)),
    "rotary": (Induction(), Architecture(n_layers=2, n_heads=2, positions="rotary", mlp=False, **WIDTH)),
    "no mask": (Retrieval(n_hops=1), Architecture(n_layers=2, causal=False, layer_norm=False, mlp=True, **WIDTH)),
    "blended keys": (Induction(), Architecture(n_layers=2, attention="kv_shift", mlp=True, **WIDTH)),
    "n-grams": (Induction(), Architecture(n_layers=2, n_heads=4, attention="n_gram", mlp=True, **WIDTH)),
}


def lab(name: str, n: int = 12, tile: int | None = None) -> Evaluator:
    """An evaluator of an untrained model whose heads do not attend evenly."""
    task, architecture = SHAPES[name]
    model = Transformer.for_task(architecture, task, generator(5, "shared passes", 0)).eval()
    with torch.no_grad():
        for block in model.blocks:
            block.attn.W_QKV *= 3  # type: ignore[union-attr, operator]
    return Evaluator(model, task.sample(n, 7), tile)


def changes_of(evaluator: Evaluator) -> list[Change]:
    """All kinds, that begin at all layers, under all nulls."""
    ground = evaluator.ground
    paths, rows = ground.paths, ground.rows
    few, row = frozenset(paths[:: max(1, len(paths) // 5)]), row_of(paths[-1])
    given = {row: evaluator.patterns[row.layer][:, row.head].flip(-1)}
    return [
        AsIs(),
        *(Kept(few, null) for null in ("uniform", "identity", "resample")),
        Kept(frozenset(), identity=frozenset(rows[:2])),
        Kept(frozenset(rows[1::3]), rows=given),
        *(Frozen(frozenset(rows[::2]), evaluator.patterns, null) for null in ("uniform", "resample")),
        *(Hard(dict.fromkeys(few, 0.5), null) for null in ("uniform", "resample")),
        Hard(rows=given),
        *(Silenced(frozenset([one])) for one in rows[::4]),
        Silenced(few, "identity"),
    ]


def as_pattern(change: Change, layer: int, evaluator: Evaluator):
    return lambda actual: change.pattern(layer, actual, evaluator.ground)


def sparing(model: Transformer, inputs: torch.Tensor, replace: Any = None, cache: Any = (), at: slice | None = None):
    """Outputs and activations of a pass without what neither depends on."""
    tap = model.tap(replace, cache)
    return model.through(inputs, tap, at, sparing=True), tap.kept


def whole(evaluator: Evaluator, change: Change) -> torch.Tensor:
    """Answers of a pass of its own, through all layers, at all positions."""
    replace = {f"blocks.{i}.attn.hook_pattern": as_pattern(change, i, evaluator) for i in evaluator.layers}
    with torch.no_grad():
        outputs = evaluator.model(evaluator.batch.inputs, replace=replace)
    return outputs[:, evaluator.batch.task.query_positions]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tile", [None, 24])
def test_passes_together_are_those_of_each_change_alone(name, tile):
    evaluator = lab(name, tile=tile)
    every = changes_of(evaluator)
    for found, change in zip(evaluator.outputs(every), every, strict=True):
        torch.testing.assert_close(found, whole(evaluator, change), **CLOSE)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("tile", [5, 24])
def test_so_are_those_in_parts_and_beside_the_model_as_it_is(name, tile):
    """Sequences in parts of five or all together."""
    evaluator = lab(name, tile=tile).prepared()
    every = list(filter(separable, changes_of(evaluator)))
    assert len(every) >= 8
    for found, change in zip(evaluator.outputs(every), every, strict=True):
        torch.testing.assert_close(found, whole(evaluator, change), **CLOSE)


@pytest.mark.parametrize("name", SHAPES)
def test_passes_one_after_another_are_too(name):
    """Whatever the model as it is, and earlier changes, have left to start from."""
    evaluator = lab(name)
    every = changes_of(evaluator)
    evaluator.prepared()
    for change in [*every, *reversed(every)]:
        torch.testing.assert_close(evaluator.outputs([change])[0], whole(evaluator, change), **CLOSE)


@pytest.mark.parametrize("name", SHAPES)
def test_the_model_as_it_is_tells_the_same_whoever_asks_first(name):
    one, other = lab(name), lab(name).prepared()
    for a, b in zip(one.patterns, other.patterns, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)
    torch.testing.assert_close(one.outputs([AsIs()]), other.outputs([AsIs()]), **CLOSE)
    first, afresh = other.part(slice(0, 5)), lab(name, 12)
    for a, b in zip(first.patterns, afresh.patterns, strict=True):
        torch.testing.assert_close(a, b[:5], **CLOSE)
    torch.testing.assert_close(
        first.losses_of(first.outputs([AsIs()])[0]), other.losses_of(other.outputs([AsIs()])[0])[:5]
    )


@pytest.mark.parametrize("name", SHAPES)
def test_patterns_under_a_change_are_those_of_a_whole_pass(name):
    evaluator = lab(name)
    for change in changes_of(evaluator):
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in evaluator.layers]
        replace = {name: as_pattern(change, i, evaluator) for i, name in enumerate(names)}
        with torch.no_grad():
            _, cache = evaluator.model(evaluator.batch.inputs, replace=replace, cache=names)
        for found, expected in zip(evaluator.patterns_under(change), (cache[n] for n in names), strict=True):
            torch.testing.assert_close(found, expected, **CLOSE)


def test_no_query_meets_a_key_where_patterns_are_set_whatever_they_are(monkeypatch):
    """Of two layers that keep something and two that do not, two are asked; by hand none is."""
    evaluator = lab("MLP")
    asked = []
    attend = Softmax.attend
    monkeypatch.setattr(Softmax, "attend", lambda *given: asked.append(given) or attend(*given))
    kept = frozenset(path for path in evaluator.ground.paths if path.layer in (1, 3))
    evaluator.outputs([Kept(kept)])
    assert len(asked) == 2
    evaluator.outputs([Hard(dict.fromkeys(kept, 1.0)), Hard()])
    assert len(asked) == 2


def test_only_a_pass_that_asks_for_it_is_spared_anything():
    """To the model itself a blind replacement is one like any other, to the bit."""
    evaluator = lab("relative positions")
    model, inputs = evaluator.model, evaluator.batch.inputs
    name, even = "blocks.1.attn.hook_pattern", lambda actual: torch.full_like(actual, 1 / actual.shape[-1])
    expected, expected_cache = model(inputs, replace={name: even}, cache=True)
    found, cache = model(inputs, replace={name: Blind(even)}, cache=True)
    assert torch.equal(found, expected) and all(torch.equal(cache[n], expected_cache[n]) for n in cache)
    found, _ = sparing(model, inputs, {name: Blind(even)}, at=slice(-1, None))
    torch.testing.assert_close(found, expected[:, -1:], **CLOSE)


def test_a_sparing_pass_tells_all_that_is_asked_of_it():
    """What is cached of the last layer is whole, read off early or not."""
    evaluator = lab("MLP")
    model, inputs, at = evaluator.model, evaluator.batch.inputs, slice(-1, None)
    last = "blocks.3."
    for name in (
        "hook_resid_pre",
        "attn.hook_pattern",
        "attn.hook_z",
        "hook_attn_out",
        "hook_mlp_out",
        "hook_resid_post",
    ):
        expected, whole_cache = model(inputs, cache=[last + name], at=at)
        found, cache = sparing(model, inputs, cache=[last + name], at=at)
        torch.testing.assert_close(cache[last + name], whole_cache[last + name], **CLOSE)
        torch.testing.assert_close(found, expected, **CLOSE)


class Doubled(Transformer):
    """A model with a forward pass of its own."""

    def forward(self, inputs, **how):
        found = super().forward(inputs, **how)
        return (2 * found[0], found[1]) if isinstance(found, tuple) else 2 * found


def test_a_model_with_a_pass_of_its_own_is_run_as_it_says():
    """Its blocks are those of a transformer, but they are not all that it does."""
    evaluator = lab("MLP")
    expected = evaluator.outputs([AsIs(), Kept(frozenset())])
    evaluator.model.__class__, evaluator.model.starts_at_layers = Doubled, False
    torch.testing.assert_close(evaluator.outputs([AsIs(), Kept(frozenset())]), 2 * expected, **CLOSE)


def test_attention_whose_output_is_given_is_not_computed(monkeypatch):
    """Unless something within it is asked for; the stream is the same."""
    evaluator = lab("MLP")
    model, inputs, name = evaluator.model, evaluator.batch.inputs, "blocks.1.hook_attn_out"
    given = torch.randn(*inputs.shape[:2], 32, generator=generator(3, "given", 0))
    expected = model(inputs, replace={name: given})
    asked = []
    attend = Softmax.attend
    monkeypatch.setattr(Softmax, "attend", lambda *each: asked.append(each) or attend(*each))
    assert torch.equal(sparing(model, inputs, {name: given})[0], expected)
    assert len(asked) == 3
    sparing(model, inputs, {name: given}, ["blocks.1.attn.hook_q"])
    assert len(asked) == 7


def test_passes_over_parts_count_by_their_share():
    """A search decides most sets on a few sequences; its accounts once left those passes out."""
    evaluator = lab("tokens, two heads", 16).prepared()
    assert evaluator.forwards == 1
    quarter = evaluator.part(slice(0, 4))
    quarter.losses([Kept(frozenset()), AsIs()])
    quarter.part(slice(0, 2)).patterns_under(Kept(frozenset()))
    assert quarter.forwards == 2.5
    assert evaluator.forwards == 1 + 2.5 / 4


# Every set of rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("null", ["uniform", "identity"])
@pytest.mark.parametrize("name", sorted(set(SHAPES) - {"n-grams"}))
def test_sets_are_hopeless_together_that_are_so_alone(name, null):
    """What is far away on each of two sequences, of all sets of up to three rows; of the others further ones tell."""
    evaluator = lab(name, n=4, tile=24)  # so few that layers are run in several parts
    first, rest = evaluator.part(slice(0, 2)), evaluator.part(slice(2, None))
    rows = evaluator.ground.rows[:: max(1, len(evaluator.ground.rows) // 6)]
    sets = [frozenset(some) for n in range(4) for some in itertools.combinations(rows, n)]
    assert len(sets) == number_of_sets(rows, 3) == sum(math.comb(len(rows), n) for n in range(4))
    changes = [Kept(units, null, frozenset(rows[:1])) for units in sets]
    least = torch.stack([first.sequence_losses([change])[0].min() for change in changes])
    for bound in least.quantile(torch.tensor([0.1, 0.5, 0.9])).tolist():
        found = decide(changes, [(first, False), (rest, True)], Asked(0.0, 0.0, 4, far=bound))
        clear = [
            (value > bound, outcome) for value, outcome in zip(least, found, strict=True) if abs(value - bound) > 1e-5
        ]
        assert clear and all(is_far == (outcome is HOPELESS) for is_far, outcome in clear)


def test_work_is_counted_by_sets_that_are_apart():
    """Two rows in each of two layers, up to two kept: 4 sets after the first layer, 11 after the second."""
    task, shape = Retrieval(n_hops=1), Architecture(n_layers=2, **WIDTH)
    model = Transformer.for_task(shape, task, generator(5, "work", 0)).eval()
    exam = Exam(model, task, Discovery(discovery=8, selection=8, report=8), lambda _: None)
    rows = [Row(layer, 0, role) for layer in (0, 1) for role in ("query", "value[1]")]
    weights = sum(weight.numel() for weight in model.parameters())
    assert work(exam, rows, 2) == (4 + 11) * weights / 2 * 2 * exam.data.batch.inputs.shape[1]


@pytest.mark.parametrize(("name", "null"), [("MLP", "resample"), ("n-grams", "uniform"), ("MLP", "uniform")])
def test_many_sets_are_tried_only_where_they_share_passes(name, null):
    """Not under a null of other sequences, nor where heads read tokens."""
    evaluator = lab(name)
    settings = Discovery(null=null, discovery=8, selection=8, report=8)
    exam = Exam(evaluator.model, evaluator.batch.task, settings, lambda _: None)
    rows = [Row(layer, 0, f"a role {i}") for layer in (0, 1) for i in range(20)]
    assert affordable(exam, rows[:20], 2) and affordable(exam, rows, 2) == ((name, null) == ("MLP", "uniform"))


@pytest.mark.parametrize("attention", ["softmax", "linear"])
@pytest.mark.parametrize("null", ["uniform", "resample"])
def test_a_row_of_which_nothing_is_kept_is_null_whatever_else_is_kept(attention, null):
    """Also where rows do not sum to 1; and one of which all is kept is as it was."""
    task = Retrieval(n_hops=1)
    architecture = Architecture(n_layers=1, attention=attention, mlp=False, **WIDTH)
    model = Transformer.for_task(architecture, task, generator(5, "shared passes", 0)).eval()
    evaluator = Evaluator(model, task.sample(6, 7))
    ground, actual = evaluator.ground, evaluator.patterns[0]
    nothing = idle(null, actual, ground)
    path = ground.paths[0]
    row = row_of(path)
    here = ground.entries(row).any(-1)[:, None]  # batch head query
    for units in ([], [path], [row], [path, row]):
        found = Kept(frozenset(units), null).pattern(0, actual, ground)
        assert torch.equal(found[~here], nothing[~here])
        if not units or row in units:
            assert torch.equal(found[here], (actual if units else nothing)[here])
    part = Kept(frozenset([path]), null).pattern(0, actual, ground)
    mask = ground.entries(path)[:, None]
    assert torch.equal(part[mask], actual[mask]) and not torch.equal(part[here], actual[here])


def test_idle_layers_of_frozen_patterns_are_not_taken_for_those_of_live_ones():
    """Under resample the one has the patterns of the model as it is, of the next sequence; the other what is live."""
    evaluator = lab("MLP")
    late = frozenset(row for row in evaluator.ground.rows if row.layer == 3)
    by_hand = {path: 1.0 for path in evaluator.ground.paths if path.layer == 3}
    changes = [Frozen(late, evaluator.patterns, "resample"), Kept(late, "resample"), Hard(by_hand, "resample")]
    apart = [whole(evaluator, change) for change in changes]
    assert not torch.allclose(apart[0], apart[1], atol=1e-3)
    for change, alone in zip(changes, apart, strict=True):
        torch.testing.assert_close(evaluator.outputs([change])[0], alone, **CLOSE)
    for found, alone in zip(evaluator.outputs(changes), apart, strict=True):
        torch.testing.assert_close(found, alone, **CLOSE)

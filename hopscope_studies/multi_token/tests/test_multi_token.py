"""Tests of `multi_token`: identities of the model, the task, hand-set weights, and claims that hold and that fail."""

from __future__ import annotations

import math

import numpy
import pandas
import pytest
import torch

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.experiments.results import claim_ids
from hopscope.measures import observe
from hopscope.models.transformer import Architecture
from hopscope.tasks.base import NOT_ASKED
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.some_hops import SomeHops
from hopscope.training.trainer import Trainer
from hopscope_studies.multi_token import cells
from hopscope_studies.multi_token.by_hand import by_hand
from hopscope_studies.multi_token.claims import claims, signs
from hopscope_studies.multi_token.measures.name_accuracy import name_accuracy
from hopscope_studies.multi_token.measures.name_attention import name_attention
from hopscope_studies.multi_token.models.multi_token import MultiTokenArchitecture
from hopscope_studies.multi_token.scores import guessed, without_trunk
from hopscope_studies.multi_token.tasks.names_in_text import Belief, NamesInText
from hopscope_studies.multi_token.work import OneHead

SMALL = NamesInText(n_words=5, n_names=4, length=12)

# The model ----------------------------------------------------------------------------------------------------------


def shape(n: int, **more) -> MultiTokenArchitecture:
    return MultiTokenArchitecture(**{"n_layers": 1 + n, "n_futures": n, "d_model": 16, "positions": "rotary", **more})


def asking(*offsets: int) -> NamesInText:
    return SMALL.but(asked=",".join(map(str, offsets)))


@pytest.mark.parametrize("init", ["early_layers", "gpt2", "fan_in"])
def test_one_head_is_the_plain_model_bit_for_bit_through_training(init):
    """Weights have the same names and initial values and stay equal through updates, and so do outputs."""
    size = {"n_layers": 2, "d_model": 16, "n_heads": 2, "init": init, "positions": "rotary"}
    recipe = Training(steps=4, batch=4, weight_decay=0.1)
    pair = [Trainer(Config(SMALL, of, recipe), torch.device("cpu")) for of in (shape(1, **size), Architecture(**size))]
    for step in range(4):
        losses = [float(trainer.step(step)) for trainer in pair]
        assert losses[0] == losses[1]
    one, plain = (trainer.model.state_dict() for trainer in pair)
    assert list(one) == list(plain)
    assert all(torch.equal(one[name], plain[name]) for name in one)
    inputs = SMALL.sample(3).inputs
    assert torch.equal(pair[0].model(inputs), pair[1].model(inputs))


def test_the_experiment_measures_that_identity_and_would_see_a_difference():
    assert OneHead(1, 2, 8).difference(0) == 0

    class Other(OneHead):
        def trained(self, shape, seed):
            found = super().trained(shape, seed)
            return {n: w + (type(shape) is Architecture) for n, w in found.items()}

    assert Other(1, 1, 8).difference(0) == pytest.approx(1, abs=1e-5)


def test_trunk_and_first_head_begin_the_same_whatever_is_asked():
    one, two = (shape(len(a)).build(asking(*a), generator(0, "init")).state_dict() for a in ((1,), (1, 2)))
    assert set(one) < set(two)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert {name.split(".")[1] for name in set(two) - set(one)} == {"2"}


def test_each_head_is_the_plain_model_of_its_own_layer():
    """Outputs of head i are those of a plain model whose last layer is that head."""
    model = shape(3).build(asking(1, 2, 3), generator(1, "init"))
    inputs = SMALL.sample(4).inputs
    outputs, weights = model(inputs).unflatten(-1, (3, -1)), model.state_dict()
    for head in range(3):
        plain = Architecture(n_layers=2, d_model=16, positions="rotary").build(SMALL)
        others = {f"blocks.{1 + other}." for other in range(3)} - {f"blocks.{1 + head}."}
        own = {
            n.replace(f"blocks.{1 + head}.", "blocks.1."): w
            for n, w in weights.items()
            if not any(n.startswith(other) for other in others)
        }
        plain.load_state_dict(own)
        assert torch.allclose(outputs[:, :, head], plain(inputs), atol=1e-6)


def test_all_heads_stand_at_one_depth():
    """Their initial weights have the same scale, and a bias that starts in layer 1 starts in all of them."""
    model = shape(3, positions="relative(start='L1 1:4')", init="early_layers").build(
        asking(1, 2, 3), generator(0, "init")
    )
    beta = [model.get_parameter(f"blocks.{layer}.attn.positions.beta")[0, 1].item() for layer in range(4)]
    assert beta == pytest.approx([0, 0.4, 0.4, 0.4])
    sizes = [model.get_parameter(f"blocks.{layer}.attn.W_O").abs().max().item() for layer in range(4)]
    assert sizes[0] > 0.2 and all(0.1 < size < 0.13 for size in sizes[1:])  # ±1/√16, and half of it


def test_heads_are_read_and_replaced_by_name_and_bar_no_other():
    model, inputs = shape(2).build(asking(1, 2), generator(0, "init")), SMALL.sample(3).inputs
    outputs, cache = model(inputs, cache=True)
    assert list(cache) == model.activation_names
    assert torch.equal(outputs, model(inputs))
    quiet = model(inputs, replace={"blocks.2.hook_attn_out": torch.zeros(())}).unflatten(-1, (2, -1))
    assert torch.equal(quiet[:, :, 0], outputs.unflatten(-1, (2, -1))[:, :, 0])
    assert not torch.allclose(quiet[:, :, 1], outputs.unflatten(-1, (2, -1))[:, :, 1])
    assert torch.equal(cache["blocks.1.hook_resid_pre"], cache["blocks.2.hook_resid_pre"])


def test_what_cannot_be_is_refused():
    with pytest.raises(BadInput, match="layers must be at least futures"):
        shape(3, n_layers=2)
    with pytest.raises(BadInput, match="futures must be 1, or what names_in_text asks for at once, 1; got 2"):
        shape(2).build(SMALL)
    model = shape(2).build(asking(1, 2))
    with pytest.raises(BadInput, match="side by side"):
        model(SMALL.sample(1).inputs, stop_at_layer=1)
    with pytest.raises(BadInput, match="deep-supervision"):
        model.read_off(torch.zeros(1, 1, 16), None)


# Texts --------------------------------------------------------------------------------------------------------------


def test_texts_are_the_same_whatever_is_asked():
    assert torch.equal(asking(1).sample(9, 3).inputs, asking(1, 2, -1).sample(9, 3).inputs)


def test_targets_stand_where_they_are_asked():
    batch = asking(1, 3, 0, -2).sample(50, 0)
    shown = [[*row] for row in batch.draw["tokens"].tolist()]
    for tokens, targets in zip(shown, batch.targets.tolist(), strict=True):
        for place, row in enumerate(targets):
            ahead = [place + k for k in (1, 3, 0, -2)]
            assert row == [tokens[k] if 0 <= k <= 12 else NOT_ASKED for k in ahead]


def test_after_a_name_s_first_token_stands_its_second():
    batch = SMALL.sample(300, 0)
    first, second = batch.draw["name"].unbind(1)
    assert (first != second).all() and (batch.draw["name"] >= 5).all()
    part, tokens = batch.draw["part"], batch.draw["tokens"]
    assert (tokens[part == 1] == first[:, None].expand_as(tokens)[part == 1]).all()
    assert ((part[:, :-1] == 1) == (part[:, 1:] == 2)).all()
    assert (part[:, 0] == 0).all()
    named = SMALL.named(batch.draw)
    by_count = [[p == 1 and row[:i].count(1) > 0 for i, p in enumerate(row)] for row in part[:, :-1].tolist()]
    assert named.tolist() == by_count


def test_words_and_stray_tokens_come_as_often_as_the_table_says():
    """Counts of what follows each word, if no name begins, agree with the table's rows."""
    task = SMALL.but(length=40, stray=0.3, concentration=1.0)
    draw = task.sample(2000, 0).draw
    tokens, part = draw["tokens"], draw["part"]
    free = (part[:, 1:] == 0) & (tokens[:, :-1] < 5)
    counts = torch.zeros(5, 9, dtype=torch.float64)
    counts.index_put_((tokens[:, :-1][free], tokens[:, 1:][free]), torch.ones((), dtype=torch.float64), accumulate=True)
    assert (counts / counts.sum(1, keepdim=True) - task.rows[:5]).abs().max() < 0.03
    began = (part[:, 1:] == 1)[part[:, :-1] != 1]
    assert float(began.double().mean()) == pytest.approx(0.12, abs=0.01)


def simulated(task: NamesInText, inputs: list[int], steps: int) -> numpy.ndarray:
    """Bayes' rule by enumerating every name, every way to parse a text, and every future."""
    rows, words, n, mu = task.rows.numpy(), task.n_words, task.n_names, task.mention

    def after(states: dict, name: tuple[int, int]) -> dict:
        """The probability of each (last token, whether a name has begun), one step later."""
        found: dict = {}
        for (last, begun), weight in states.items():
            ways = [((name[1], False), 1.0)] if begun else [((name[0], True), mu)]
            ways += [] if begun else [((v, False), (1 - mu) * rows[last, v]) for v in range(words + n)]
            for state, chance in ways:
                found[state] = found.get(state, 0.0) + weight * chance
        return found

    total = numpy.zeros(words + n)
    for first in range(words, words + n):
        for second in range(words, words + n):
            if first == second:
                continue
            states = {(inputs[0], False): 1.0}
            for token in inputs[1:]:
                states = {s: w for s, w in after(states, (first, second)).items() if s[0] == token}
            for _ in range(steps):
                states = after(states, (first, second))
            for (token, _), weight in states.items():
                total[token] += weight
    return total / total.sum()


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_what_can_be_known_is_what_enumeration_says(steps):
    for inputs in SMALL.but(mention=0.3, stray=0.3).sample(4, 1).inputs.tolist():
        for length in (1, 5, 12):
            belief = Belief(SMALL)
            for token in inputs[:length]:
                belief.see(token)
            found = belief.ahead(steps)
            assert found.sum() == pytest.approx(1)
            assert found == pytest.approx(simulated(SMALL, inputs[:length], steps), abs=1e-9)


def test_bad_offsets_are_refused():
    for asked in ("one", "1,1", "12", ""):
        with pytest.raises(BadInput, match="asked must be"):
            SMALL.but(asked=asked)


def test_who_knows_the_name_would_say():
    """One ahead it is the second token; two ahead it is the likeliest token of that token's row, or the name again."""
    task = asking(1, 2, 0, 5)
    draw = task.sample(20, 0).draw
    said = task.likeliest(draw)
    for row, (first, second) in enumerate(draw["name"].tolist()):
        law = 0.88 * task.rows[second].numpy()
        law[first] += 0.12
        assert said[row, :, 0].unique().tolist() == [second]
        assert said[row, :, 1].unique().tolist() == [int(law.argmax())]
    assert torch.equal(said[..., 2], draw["tokens"][:, :-1])
    assert (said[..., 3] == -1).all()


def test_hops_asked_are_those_of_the_whole_problem():
    whole = Retrieval(n_hops=3).sample(5, 0)
    some = SomeHops(n_hops=3, first=2, last=3)
    assert torch.equal(some.sample(5, 0).inputs, whole.inputs)
    assert torch.equal(some.sample(5, 0).targets, whole.targets[..., 4:])
    assert some.hop_names == ("x2", "x3")
    for bad in ({"first": 2, "last": 1}, {"last": 4}, {"curriculum": "staged"}):
        with pytest.raises(BadInput):
            some.but(**bad)


# By hand ------------------------------------------------------------------------------------------------------------


def test_an_induction_head_by_hand_finishes_names_and_not_without_its_trunk():
    task = NamesInText()
    model = by_hand(task)
    seen = observe(model, task.sample(256, 0))
    assert name_accuracy(seen)["t+1"] > 0.98
    assert name_attention(seen)["L1H0"] > 0.9 > name_attention(seen)["L0H0"]
    assert without_trunk(model, task, "quick")["t+1"] < 0.6
    assert 0.2 < guessed(task) < 0.6


def test_untrained_models_finish_none():
    task = NamesInText(asked="1,2")
    seen = observe(shape(2).build(task, generator(0, "init")), task.sample(128, 0))
    assert name_accuracy(seen)["t+1"] < 0.1


# Claims -------------------------------------------------------------------------------------------------------------


def row(problem: str, asked: str, kind: str, name: str, value: float, seed: int = 0, step: int = 9) -> dict:
    about = {"run": f"{problem} {asked} {seed}", "seed": seed, "problem": problem, "asked": asked, "note": ""}
    return about | {"kind": kind, "name": name, "value": value, "step": step}


def made(bad: bool) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    slow = {"near": 500, "both": 300, "four": 200, "before": 250, "same": 510}
    times = {("tokens", asked, "t+1"): steps for asked, steps in slow.items()}
    times |= {("tokens", "both", "t+2"): 300, ("tokens", "far", "t+2"): math.nan}
    times |= {("hops", "both", "x2"): 100, ("hops", "far", "x2"): math.nan}
    times |= {("hops", "both", "x1"): 50, ("hops", "near", "x1"): 60}
    if bad:
        times |= {("tokens", "both", "t+1"): 900, ("tokens", "four", "t+1"): 900, ("tokens", "before", "t+1"): 900}
        times |= {("tokens", "same", "t+1"): 700, ("hops", "both", "x1"): 99}
        times |= {("tokens", "both", "t+2"): 600, ("hops", "both", "x2"): math.nan}
        times |= {("tokens", "far", "t+2"): 300, ("hops", "far", "x2"): 100}
    rows = [row("tokens", "by hand", "end", "t+1", 0.5 if bad else 1.0), row("tokens", "by hand", "floor", "t+1", 0.4)]
    for seed in range(8):
        rows += [row(p, asked, "learnt", name, t + seed, seed) for (p, asked, name), t in times.items()]
        rows += [
            row("tokens", "near", "identity", "difference", 0.1 if bad else 0.0, seed),
            row("tokens", "near", "end", "t+1", 0.2 if bad else 0.95, seed),
            row("tokens", "near", "start", "t+1", 0.3 if bad else 0.01, seed),
            row("tokens", "before", "end", "t+1", 0.3 if bad else 0.92, seed),
            row("tokens", "near", "attention", "best", 0.9, seed, 0),
            row("tokens", "near", "attention", "best", 0.1 if bad else 0.8, seed),
        ]
        rows += [row("tokens", "both", "end", name, 0.9, seed) for name in ("t+1", "t+2")]
        rows += [row("tokens", "both", "without", name, 0.8 if bad else 0.1, seed) for name in ("t+1", "t+2")]
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(bad=False))}
    assert list(found) == claim_ids("multi_token")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    found = {claim.id: claim.verdict for claim in claims(made(bad=True))}
    assert found == dict.fromkeys(claim_ids("multi_token"), "fails")


def test_seeds_that_disagree_are_undecided():
    """A median ratio below 1 is not enough if three of eight ratios are above 1."""
    table = made(bad=False)
    there = (table.kind == "learnt") & (table.asked == "both") & (table.name == "t+1") & (table.seed > 4)
    table.loc[there, "value"] = 900
    found = {claim.id: claim.verdict for claim in claims(table)}
    assert found["two_tokens_are_sooner"] == "undecided"


def test_signs_by_hand():
    assert signs([0.5, 0.5, 0.5, 0.5, 2.0]) == pytest.approx((6 / 32, 31 / 32))


def test_every_cell_has_its_name_and_they_share_texts():
    named = dict(cells.cells("quick"))
    assert len(named) == len(cells.TOKENS) + len(cells.HOPS)
    one, two = (named["tokens", asked, ""] for asked in ("near", "both"))
    assert torch.equal(one.task.sample(2, 0).inputs, two.task.sample(2, 0).inputs)
    assert one.training.but(measures="") == two.training.but(measures="")

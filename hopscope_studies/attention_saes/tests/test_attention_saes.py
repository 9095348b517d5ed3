"""Tests of `attention_saes`: claims that hold and that fail, hand-set layers, sequences and text."""

from __future__ import annotations

import copy
import io
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")

import torch

from hopscope.core.settings import BadInput
from hopscope.probes.sparse_autoencoder import SparseTraining
from hopscope_studies.attention_saes import by_hand as hands
from hopscope_studies.attention_saes.experiments import attention_saes
from hopscope_studies.attention_saes.figure import figure
from hopscope_studies.attention_saes.heads import chosen, mixed, ratio
from hopscope_studies.attention_saes.known import by_hand_report, by_prefix
from hopscope_studies.attention_saes.prefixes import CONDITIONS, LONGEST, PREFIXES, sequences
from hopscope_studies.attention_saes.reading import known, layer, prefixes, row
from hopscope_studies.attention_saes.tests.made_up import HEADS, LAYER, heads, number
from hopscope_studies.attention_saes.text import LENGTH, blocks

KNOWN: dict[str, Any] = {
    "known": 192,
    "recovered": 0.98,
    "untrained": 0.0,
    "mixed": 0.01,
    "components": 0.0,
    "random": [0.0, 0.0],
    "right_head": 0.99,
    "explained": 0.9,
    "explained_by_components": 0.2,
    "prefixes": by_prefix(hands.prefix_heads(), 0),
}
TOY = {name: value for name, value in KNOWN.items() if name not in ("prefixes", "right_head")}
IDLE = heads(chosen={"short": [], "long": []}, differ=None, direct_differ=None)


def table(
    language: dict[str, Any] = HEADS,
    one_layer: dict[str, Any] = LAYER,
    hand: dict[str, Any] = KNOWN,
    toy: dict[str, Any] = TOY,
    error: float = 0.01,
    idle: dict[str, Any] = IDLE,
) -> DataFrame:
    """Rows of every part, as read from table.csv."""
    rows = []
    for run, seed, part, found in (
        ("a", 0, "language", prefixes(language)),
        ("b", 1, "language", prefixes({k: v for k, v in HEADS.items() if k != "cut"})),
        ("c", 0, "untrained", prefixes(idle)),
        ("d", 0, "layer", layer(one_layer)),
        ("e", 0, "by hand", known(hand)),
        ("f", 0, "toy", [row("error", "second copy", error), *known(toy)]),
    ):
        about = {"run": run, "version": "v", "seed": seed, "model": "m", "part": part, "other": "", "step": None}
        rows += [{**about, **one} for one in found]
    return pandas.read_csv(io.StringIO(DataFrame(rows).to_csv(index=False)), keep_default_na=False, na_values=[""])


def verdicts(**reports: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in attention_saes.claims(table(**reports))}


def test_all_hold_where_all_is_as_it_should_be():
    found = verdicts()
    assert list(found) == claim_ids("attention_saes")
    assert {id for id, verdict in found.items() if verdict != "holds"} == set()


def test_numbers_are_those_of_the_reports():
    found = {claim.id: claim.number for claim in attention_saes.claims(table())}
    assert found["loss_recovered"] == pytest.approx(0.9)
    assert found["better_than_components"] == pytest.approx(0.05 - 0.01)  # the interval's lower end
    assert found["few_features_at_once"] == 4
    assert found["long_ones_want_the_order"] == pytest.approx(0.6 / 0.9 - 0.1 / 0.5)
    assert found["short_ones_serve_short_prefixes"] == pytest.approx(2.9 - 0.01)
    assert found["long_ones_serve_long_prefixes"] == pytest.approx(1.9 - 0.01)
    assert found["toy_features_explain_more_than_components"] == pytest.approx(0.7)


def worse() -> dict[str, Any]:
    """A table for which every claim fails."""
    bad = copy.deepcopy(HEADS) | {
        "chosen": {"short": ["L2H1"], "long": ["L2H0"]},  # the wrong way round
        "shuffled": [1, 0],
        "differ": number(-0.1),
        "direct_differ": number(0.0),
    }
    bad["cut"] |= {"beyond": {kind: [number(0.0), number(0.0)] for kind in ("short", "long")}}
    bad["cut"] |= {"interaction": number(-0.5)}
    poor = {"dead": 0.5, "l0": 30.0, "recovered": {**LAYER["recovered"], "features": number(0.8)}}
    none = {kind: number(0.0) for kind in LAYER["beyond"]}
    hand = {**KNOWN, "recovered": 0.5, "random": [0.3, 0.0], "right_head": 0.5, "explained": 0.1}
    hand["prefixes"] = [{**one, "order": 2} for one in KNOWN["prefixes"]]
    return {"language": bad, "one_layer": {**LAYER, **poor, "beyond": none}, "hand": hand}


def test_each_fails_where_nothing_of_the_kind_is_so():
    bad = worse()
    toy = {name: value for name, value in bad["hand"].items() if name not in ("prefixes", "right_head")}
    found = verdicts(**bad, toy={**toy, "recovered": 0.4})
    assert {id: verdict for id, verdict in found.items() if verdict != "fails"} == {}
    idle = heads(chosen={"short": ["L2H0"], "long": []}, differ=None, direct_differ=None)
    assert verdicts(idle=idle)["none_where_lengths_are_shuffled"] == "fails"
    assert verdicts(error=0.5)["toy_features_recovered"] == "undecided"  # it does not copy


def test_no_head_of_a_kind_is_a_failure_and_not_a_gap():
    found = verdicts(language=heads(chosen={"short": ["L2H0"], "long": []}))
    assert found["some_want_long_prefixes"] == "fails" and found["others_do_not"] == "holds"


def test_the_figure_shows_all_six():
    titles = [ax.get_title("left") for ax in figure(table()).axes]
    assert titles == [
        "Known directions with a cosine ≥ 0.9",
        "m, layer 2, on other text (95 %)",
        "Heads by hand",
        "Heads of m",
        "Score after one token, of that after many (95 %)",
        "Heads cut, after a prefix of",
    ]


# Layers by hand


def test_outputs_of_the_layer_by_hand_are_sums_of_its_directions():
    """The attended tokens of all three heads are counted in plain Python."""
    model, tokens = hands.by_hand(3), hands.drawn(4, 0)
    z = hands.outputs(model, tokens).view(4, -1, 3, hands.D_HEAD)
    own = hands.directions(model).view(3, hands.N_TOKENS, 3, hands.D_HEAD)
    counts = 0
    for index, sequence in enumerate(tokens.tolist()):
        for at in range(2, len(sequence)):
            after = [sequence[i + 1] for i in range(at) if sequence[i] == sequence[at]]
            found = [after, [sequence[at - 1]], [sequence[at - 2]]]
            counts += sum(len(set(some)) for some in found)
            for head, some in enumerate(found):
                wanted = sum((own[head, token, head] / len(some) for token in some), torch.zeros(hands.D_HEAD))
                assert torch.allclose(z[index, at - 2, head], wanted, atol=1e-5)
    assert hands.true_l0(model, tokens) == pytest.approx(counts / (4 * (hands.LENGTH - 2)))
    assert own.flatten(2).norm(dim=-1).flatten().tolist() == pytest.approx([1.0] * 192, abs=1e-5)


def test_heads_by_hand_have_the_prefixes_that_they_were_given():
    for one in by_prefix(hands.prefix_heads(), 1):
        wanted = [float(p >= one["order"]) for p in PREFIXES]
        assert [one["by_prefix"][str(p)] for p in PREFIXES] == wanted
        assert one["by_prefix"]["scrambled"] == float(one["order"] == 1)


def test_the_report_of_the_layer_by_hand_has_its_fields():
    found = by_hand_report(0, 32, SparseTraining(steps=4))
    assert KNOWN.keys() <= found.keys()
    assert found["known"] == 192 and found["d"] == 96 and len(found["random"]) == 10
    assert max(found["random"]) == 0 and found["untrained"] == 0


# Sequences and text


def test_what_is_copied():
    some = sequences(torch.arange(100, 200), 20, torch.Generator().manual_seed(0), start=7, length=40)
    assert some.ids.shape == (len(CONDITIONS), 20, 40) and (some.ids[..., 0] == 7).all()
    for p, ids in zip(PREFIXES, some.ids, strict=False):
        for one, place in zip(ids.tolist(), some.place.tolist(), strict=True):
            assert one[40 - p :] == one[place - p : place]  # none at p = 0
            assert len(set(one)) == 40 - p  # nothing else comes twice
            assert place < 40 - LONGEST and place - LONGEST >= 1  # copies do not overlap
    wanted = [one[at] for one, at in zip(some.ids[3].tolist(), some.place.tolist(), strict=True)]
    assert some.right.tolist() == wanted
    whole, mixed_up = some.ids[PREFIXES.index(LONGEST)], some.ids[-1]
    assert torch.equal(whole.sort(1).values, mixed_up.sort(1).values) and torch.equal(whole[:, -1], mixed_up[:, -1])
    for one, other in zip(whole.tolist(), mixed_up.tolist(), strict=True):
        pairs = set(zip(one[-LONGEST:], one[-LONGEST + 1 :], strict=False))
        assert not pairs & set(zip(other[-LONGEST:], other[-LONGEST + 1 :], strict=False))


def scores() -> torch.Tensor:
    """Scores of four heads on six equal sequences: short-prefix, long-prefix, no induction head, and always 0.9."""
    curves = torch.tensor(
        [[0, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5], [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.1], [0] * 8, [0.9] * 8]
    )
    return curves.T[None, :, :, None].repeat(6, 1, 1, 1)


def test_heads_are_told_apart():
    assert chosen(scores(), "short") == [(0, 0)] and chosen(scores(), "long") == [(1, 0)]
    assert ratio(scores()[0, :, :, 0].T)[:2].tolist() == pytest.approx([0.8 / 0.9, 0.2])
    shuffled = mixed(scores(), 0, 0)
    assert torch.allclose(shuffled[:, 1:7].sum(1), scores()[:, 1:7].sum(1))
    assert torch.equal(shuffled[:, [0, 7]], scores()[:, [0, 7]])
    assert not torch.equal(shuffled, scores()) and torch.equal(shuffled, mixed(scores(), 0, 0))


class Bytes:
    """A tokenizer of bytes."""

    bos_token_id = 1
    all_special_ids = (0, 1)

    def __len__(self) -> int:
        return 258

    def __call__(self, text: str, add_special_tokens: bool = False) -> dict[str, list[int]]:
        return {"input_ids": [2 + byte for byte in text.encode()]}


def test_halves_of_the_text_share_no_page_and_blocks_are_spread():
    one, other = blocks(Bytes(), 50, 0), blocks(Bytes(), 50, 1)
    assert one.shape == other.shape == (50, LENGTH) and (one[:, 0] == 1).all()
    seen = {tuple(row[1:].tolist()) for row in one}
    assert len(seen) == 50 and not seen & {tuple(row[1:].tolist()) for row in other}
    with pytest.raises(BadInput, match="blocks of 128 tokens in each half; got 1000000"):
        blocks(Bytes(), 10**6, 0)

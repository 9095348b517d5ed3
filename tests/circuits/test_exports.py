"""What other tools are given: the component graph after EAP-IG's convention, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from hopscope.builds.build import Build, build
from hopscope.circuits.certificates import Supply
from hopscope.circuits.circuit import Alternative, Circuit, Completeness, Found
from hopscope.circuits.components.graph import component_edges, component_nodes, ends
from hopscope.circuits.evaluator import Evaluator, Hard
from hopscope.circuits.export.formats import component_graph, to_eap_ig
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import Row
from hopscope.drawing.views import views
from hopscope.models.transformer import Architecture
from hopscope.problem.paths import Path
from hopscope.tasks.retrieval import Retrieval
from tests.circuits.eap_ig import heads_in, read_eap_ig

COSTS = {
    "L0H1 value[1]->key[1]": 0.69,
    "L0H1 value[2]->key[2]": 0.35,
    "L1H0 query->value[1]": 0.86,
    "L3H0 query->value[2]": 0.107,
}
SHAPE = Architecture(n_layers=4, n_heads=2, mlp=True)


def circuit(costs: dict[str, float] = COSTS, **more) -> Circuit:
    found = tuple(Found(Path.parse(text), 0.99, "role → x", 6.25, cost, 0.4) for text, cost in costs.items())
    losses = {n: Loss(x, x, x, 8) for n, x in (("model", 0.004), ("circuit", 0.002), ("live", 0.007), ("null", 0.9))}
    listed = (Alternative(tuple(f.path for f in found)),)
    judged = {"losses": losses, "accuracies": {}, "hop_losses": {}, "verdict": "circuit", "reason": "so"}
    return Circuit(found, (), {"null": "uniform"}, listed, Completeness("searched"), threshold=0.05, **judged, **more)


def supply(path: str, part: str, source: str) -> Supply:
    return Supply(Path.parse(path), part, Path.parse(source), 0.99, 0.1)


CERTIFICATES = (
    supply("L1H0 query->value[1]", "key", "L0H1 value[1]->key[1]"),
    supply("L3H0 query->value[2]", "key", "L0H1 value[2]->key[2]"),
    supply("L3H0 query->value[2]", "query", "L1H0 query->value[1]"),
)


def between_heads(graph) -> list[str]:
    return [e for e, c in graph.edges.items() if c.in_graph and ends(e)[0][0] == ends(e)[1][0] == "a"]


@pytest.mark.parametrize(
    ("layers", "heads", "mlp", "edges"),
    [(12, 1, True, 613), (24, 1, False, 925), (8, 8, True, 6637), (12, 12, True, 32491), (1, 1, False, 5)],
)
def test_graphs_have_as_many_edges_as_in_eap_ig(layers, heads, mlp, edges):
    names = component_edges(layers, heads, mlp)
    assert len(names) == len(set(names)) == edges
    nodes = component_nodes(layers, heads, mlp)
    assert len(nodes) == 2 + layers * (heads + mlp)
    assert {end for name in names for end in ends(name)[:2]} == set(nodes)
    assert all(nodes.index(ends(name)[0]) < nodes.index(ends(name)[1]) for name in names)


def test_names_and_schema_are_those_of_eap_ig():
    values = json.loads(to_eap_ig(circuit(), SHAPE))
    assert values["cfg"] == {"n_layers": 4, "n_heads": 2, "parallel_attn_mlp": False, "d_model": 128}
    assert list(values["nodes"])[:5] == ["input", "a0.h0", "a0.h1", "m0", "a1.h0"]
    assert list(values["nodes"])[-1] == "logits"
    assert {"input->a0.h0<q>", "a0.h1->a3.h0<v>", "a0.h0->m0", "m0->m1", "m3->logits"} <= set(values["edges"])
    assert "a0.h0->a0.h1<q>" not in values["edges"] and "m0->a0.h0<q>" not in values["edges"]
    for component in [*values["nodes"].values(), *values["edges"].values()]:
        assert isinstance(component["in_graph"], bool) and isinstance(component["score"], float)


def test_a_head_is_in_the_graph_if_one_of_its_paths_is():
    graph = component_graph(circuit(), SHAPE)
    assert heads_in(graph) == ["a0.h1", "a1.h0", "a3.h0"]
    assert graph.nodes["a0.h1"].score == pytest.approx(0.69 - 0.007)
    assert graph.edges["a0.h1->a3.h0<k>"].score == pytest.approx(0.107 - 0.007)
    assert graph.edges["a0.h0->a3.h0<k>"].score == 0
    assert graph.nodes["m2"].in_graph


def test_without_certificates_every_earlier_head_feeds_every_later_one():
    pairs = [("a0.h1", "a1.h0"), ("a0.h1", "a3.h0"), ("a1.h0", "a3.h0")]
    assert sorted(between_heads(component_graph(circuit(), SHAPE))) == sorted(
        f"{a}->{b}<{part}>" for a, b in pairs for part in "qkv"
    )


def test_certificates_say_which_edges_there_are():
    graph = component_graph(circuit(supplies=CERTIFICATES), SHAPE)
    assert sorted(between_heads(graph)) == ["a0.h1->a1.h0<k>", "a0.h1->a3.h0<k>", "a1.h0->a3.h0<q>"]


def test_only_heads_that_attend_from_queries_write_to_the_logits():
    graph = component_graph(circuit(), SHAPE)
    assert [e for e, c in graph.edges.items() if c.in_graph and e[0] == "a" and e.endswith("->logits")] == [
        "a1.h0->logits",
        "a3.h0->logits",
    ]


@pytest.mark.parametrize(("row", "writes"), [("L1H1 query", True), ("L1H1 (none)", True), ("L1H1 value[2]", False)])
def test_whole_rows_write_to_the_logits_if_answers_may_be_read_there(row, writes):
    graph = component_graph(replace(circuit(), rows=(Row.parse(row),)), SHAPE)
    assert graph.nodes["a1.h1"].in_graph and graph.edges["a1.h1->logits"].in_graph == writes


def test_attention_only_models_have_their_mlps_out_of_the_graph():
    graph = component_graph(circuit(), Architecture(n_layers=4, n_heads=2, mlp=False))
    named = {**graph.nodes, **graph.edges}
    mlps = [c for name, c in named.items() if any(end[0] == "m" for end in ends(name)[:2] if end)]
    assert len(mlps) > 4
    assert not any(c.in_graph or c.score for c in mlps)


def test_what_is_in_the_graph_hangs_together():
    graph = component_graph(circuit(supplies=CERTIFICATES), SHAPE)
    kept = [ends(edge) for edge, c in graph.edges.items() if c.in_graph]
    for name, node in graph.nodes.items():
        if node.in_graph:
            assert name == "input" or any(target == name for _, target, _ in kept), f"nothing feeds {name}"
            assert name == "logits" or any(source == name for source, _, _ in kept), f"{name} feeds nothing"
    assert all(graph.nodes[end].in_graph for source, target, _ in kept for end in (source, target))


@pytest.mark.parametrize("shape", [SHAPE, Architecture(n_layers=4, n_heads=2, mlp=False)])
def test_the_round_trip_keeps_everything(shape):
    found = circuit(supplies=CERTIFICATES)
    graph = read_eap_ig(to_eap_ig(found, shape))
    assert graph == component_graph(found, shape)


def test_rows_that_no_hypothesis_fits_can_be_written():
    odd = Found(Path.parse("L0H0 query->value[1]"), 0.9, "no hypothesis fits", None, 0.5, 0.4)
    found = circuit()
    text = to_eap_ig(replace(found, paths=(odd,)), SHAPE)
    assert json.loads(text)["hopscope"]["paths"][0]["bits"] is None


@pytest.fixture(scope="module")
def seen():
    """A model made by hand, on sequences, with its schedule as the circuit."""
    built = build(Retrieval(n_hops=1, n_chains=2), Build(heads=2))
    texts = [Path.from_dict(path) for path in built.truth["schedule"]]
    return Evaluator(built.model, built.config.task.sample(8, 3)), circuit({str(path): 0.5 for path in texts})


def test_views_hold_the_patterns_and_those_by_hand(seen):
    evaluator, found = seen
    shown = views(evaluator, found, instances=3, words="so")
    actual = torch.stack([pattern[:3] for pattern in evaluator.patterns])
    assert torch.equal(shown.actual, actual)
    change = Hard({f.path: f.strength for f in found.paths})
    hand = [change.pattern(layer, pattern, evaluator.ground)[:3] for layer, pattern in enumerate(evaluator.patterns)]
    assert torch.allclose(shown.by_hand, torch.stack(hand))
    assert len(shown.symbols) == len(shown.roles) == 3
    assert [len(c) for c in shown.cells] == [3] * len(found.paths)
    for path, cells in zip(found.paths, shown.cells, strict=True):
        for instance, entries in enumerate(cells):
            assert len(entries) == 2  # one for each chain
            for q, k in entries:
                assert shown.roles[instance][q].endswith(path.path.query)
                assert shown.roles[instance][k].endswith(path.path.key)


def test_views_tell_what_replacing_each_row_costs(seen):
    evaluator, found = seen
    shown = views(evaluator, found)
    assert [view.row for view in shown.rows] == evaluator.ground.rows
    used = {(f.path.layer, f.path.head, f.path.query) for f in found.paths}
    assert all(
        (view.rule != "unused") == ((view.row.layer, view.row.head, view.row.query) in used) for view in shown.rows
    )
    assert all(view.loss < 0.01 for view in shown.rows)  # by hand is what it does, and what is unused does not matter

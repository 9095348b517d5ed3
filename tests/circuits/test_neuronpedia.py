"""Attribution graphs: the documented schema, and every node and link of a circuit made by hand."""

from __future__ import annotations

import jsonschema
import pytest

from hopscope.builds.build import Build, build
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.export.neuronpedia import attribution_graph
from hopscope.tasks.retrieval import Retrieval

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
#: What Neuronpedia's schema of attribution graphs asks for, in short: its required keys and their types.
NODE = {
    "node_id": TEXT,
    "feature": {"type": ["integer", "null"]},
    "layer": {"type": ["string", "integer"]},
    "ctx_idx": {"type": "integer"},
    "feature_type": TEXT,
    "jsNodeId": TEXT,
    "clerp": TEXT,
}
LINK = {"source": TEXT, "target": TEXT, "weight": NUMBER}
METADATA = {"slug": TEXT, "scan": TEXT, "prompt": TEXT, "prompt_tokens": {"type": "array", "items": TEXT}}
STATE = {"pinnedIds": {"type": "array", "items": TEXT}, "supernodes": {"type": "array"}}


def record(properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


SCHEMA = record(
    {
        "metadata": record(METADATA),
        "qParams": record(STATE),
        "nodes": {"type": "array", "items": record(NODE)},
        "links": {"type": "array", "items": record(LINK)},
    }
)


@pytest.fixture(scope="module")
def drawn():
    """One hop, by hand: the value's head reads its key, the query's head reads the value."""
    built = build(Retrieval(n_hops=1, n_chains=2), Build(heads=1))
    task = built.config.task
    circuit = discover(built.model, task, Discovery(discovery=16, selection=16, report=32))
    assert circuit.verdict == "circuit"
    batch = task.sample(2, 4).rows(slice(1, 2))
    return circuit, batch, attribution_graph(circuit, batch, built.model.architecture, "retrieval", "one-hop")


def test_graphs_keep_the_schema(drawn):
    jsonschema.validate(drawn[2], SCHEMA)
    for key in ("nodes", "links", "qParams"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({name: value for name, value in drawn[2].items() if name != key}, SCHEMA)


def test_nodes_and_links_are_those_of_the_circuit(drawn):
    circuit, batch, graph = drawn
    nodes = {node["node_id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"])
    assert {end for link in graph["links"] for end in (link["source"], link["target"])} == set(nodes)
    kinds = [node["feature_type"] for node in graph["nodes"]]
    assert kinds.count("attention head") == 2 * len(circuit.paths) and kinds.count("logit") == 2  # two chains
    chain = batch.roles.chain[0]
    rows = zip(batch.roles.names, chain, strict=True)
    at = {name: {int(c): p for p, c in enumerate(row) if c >= 0} for name, row in rows}
    copy, read = sorted(found.path for found in circuit.paths)
    for number in (0, 1):
        key, value, query = (at[name][number] for name in ("key[1]", "value[1]", "query"))
        links = {(link["source"], link["target"]): link["weight"] for link in graph["links"]}
        first, second = f"{copy.layer}_{copy.head}.key[1]_{value}", f"{read.layer}_{read.head}.value[1]_{query}"
        assert links[f"E_{key}_{key}", first] == pytest.approx(circuit.paths[0].strength, abs=1e-5)
        assert links[f"E_{value}_{value}", second] == pytest.approx(circuit.paths[1].strength, abs=1e-5)
        assert links[first, second] > 0.25 and links[second, f"answer_{query}_{query}"] > 0.8
        assert nodes[first]["ctx_idx"] == value and nodes[first]["layer"] == str(copy.layer)
        assert nodes[second]["clerp"] == str(read)


def test_every_weight_is_a_share(drawn):
    assert all(0 <= link["weight"] <= 1.05 for link in drawn[2]["links"])
    assert len(drawn[2]["metadata"]["prompt_tokens"]) == drawn[1].inputs.shape[1]

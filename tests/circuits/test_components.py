"""Circuits of components: every edge against forward passes written out here; closed forms of models made by hand."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from functools import cache
from random import Random

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

from bench.hand_made import TASK, copiers
from hopscope.circuits.components.attribution import eap, eap_ig
from hopscope.circuits.components.curve import MIB_GRID, Curve
from hopscope.circuits.components.graph import component_edges, ends
from hopscope.circuits.components.patching import ACTIVATION_NULLS, Patching
from hopscope.circuits.components.search import Components, Hunt, find_components
from hopscope.circuits.discovery import discover
from hopscope.circuits.export.formats import to_eap_ig
from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.drawing.components import store_components
from hopscope.models.transformer import Architecture, Transformer
from hopscope.runs.importing import to_transformer_lens
from hopscope.tasks.induction import Induction
from hopscope.tasks.last_successor import LastSuccessor
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import train
from tests.circuits.eap_ig import heads_in, read_eap_ig


def drawn(task, **shape):
    """A model with weights so large that nothing is linear."""
    model = Transformer.for_task(Architecture(**{"n_layers": 2, "n_heads": 2, "d_model": 16, **shape}), task)
    random = generator(5, "components")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = parameter.shape[-2] ** -0.5 * 1.5 if ".W_" in name else 0.5
            draw = scale * torch.randn(parameter.shape, generator=random)
            parameter.copy_(1 + draw if name.endswith(".w") else draw)
    return model.double().eval()


def in_double(batch):
    """The same sequences, their inputs in double precision where they are numbers."""
    batch.__dict__["inputs"] = batch.inputs.double() if batch.inputs.is_floating_point() else batch.inputs
    return batch


class ByDefinition:
    """A transformer with cut edges, straight from its weights: no names, no tiles, one change at a time."""

    def __init__(self, model, inputs, null):
        self.model, self.inputs, self.blocks = model, inputs, model.blocks
        self.clean = self.outputs(None, None)
        if null == "zero":
            self.null = {node: 0 * out for node, out in self.clean.items()}
        elif null == "mean":
            self.null = {node: out.mean(0, keepdim=True).expand_as(out) for node, out in self.clean.items()}
        else:
            self.null = {node: torch.cat([out[-1:], out[:-1]]) for node, out in self.clean.items()}

    def outputs(self, kept, at):
        model, found = self.model, {}
        embedded = self.inputs @ model.W_E + model.b_E if model.b_E is not None else model.W_E[self.inputs]
        found["input"] = embedded if model.W_pos is None else embedded + model.W_pos[: self.inputs.shape[1]]

        def read(target, biases):
            total = sum(block.attn.b_O for block in self.blocks[:biases])
            for source, out in list(found.items()):
                total = total + (out if kept is None or f"{source}->{target}" in kept else self.null[source])
            return total

        for layer, block in enumerate(self.blocks):
            heads = {}
            for head in range(model.architecture.n_heads):
                attn, part = block.attn, {}
                for i, name in enumerate("qkv"):
                    x = block.ln1(read(f"a{layer}.h{head}<{name}>", layer))
                    part[name] = x @ attn.W_QKV[i, head] + attn.b_QKV[i, head]
                scores = part["q"] @ part["k"].mT / part["q"].shape[-1] ** 0.5
                n = scores.shape[-1]
                if model.architecture.causal:
                    scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf)
                heads[f"a{layer}.h{head}"] = scores.softmax(-1) @ part["v"] @ attn.W_O[head]
            found |= heads
            if block.mlp is not None:
                hidden = F.gelu(
                    block.ln2(read(f"m{layer}", layer + 1)) @ block.mlp.W_in + block.mlp.b_in, approximate="tanh"
                )
                found[f"m{layer}"] = hidden @ block.mlp.W_out + block.mlp.b_out
        if at is None:
            return found
        return model.ln_final(read("logits", len(self.blocks)))[:, at] @ model.W_U + model.b_U


SHAPES = {
    "vectors": (Retrieval(n_hops=1, n_chains=2, d_symbol=2), {}),
    "tokens": (Induction(length=6, d_vocab=7), {"n_heads": 1, "mlp": False}),
    "not-causal": (Induction(length=5, d_vocab=7), {"causal": False, "layer_norm": False, "n_layers": 3, "d_head": 6}),
}


@pytest.mark.parametrize("null", ACTIVATION_NULLS)
@pytest.mark.parametrize("case", SHAPES)
@torch.no_grad()
def test_every_edge_is_patched_as_the_definition_has_it(case, null):
    """Each edge cut alone, each kept alone, and random halves: the answers to the last digits."""
    task, shape = SHAPES[case]
    model, batch = drawn(task, **shape), task.sample(6, 1)
    inputs = in_double(batch).inputs
    lab, truth = Patching(model, batch, null, tile=64), ByDefinition(model, inputs, null)
    every = frozenset(lab.wiring.edges)
    assert sorted(every) == sorted(
        component_edges(len(model.blocks), model.architecture.n_heads, model.architecture.mlp)
    )
    random = Random(3)
    halves = [frozenset(random.sample(sorted(every), len(every) // 2)) for _ in range(5)]
    sets = [
        every,
        frozenset(),
        *(every - {edge} for edge in sorted(every)),
        *(frozenset([e]) for e in sorted(every)),
        *halves,
    ]
    for kept, found in zip(sets, lab.outputs(sets), strict=True):
        torch.testing.assert_close(found, truth.outputs(kept, task.query_positions), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(lab.outputs([every])[0], model(inputs, at=task.query_positions), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("attention", ["switch_head", "h_minus_one"])
def test_heads_that_write_more_than_a_map_of_their_z_are_refused(attention):
    """Gates look at the stream, so what heads are thought to write does not add up to what they do."""
    model = drawn(TASK, attention=attention).float()
    with pytest.raises(BadInput, match="--unit paths"):
        Patching(model, TASK.sample(4, 1))


# Gradients -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    task = Induction(length=6, d_vocab=7)
    return Patching(drawn(task).float(), task.sample(12, 1), "resample")


def loss_with(lab, extra=None, inputs=None):
    ones = torch.ones(1, len(lab.wiring.targets), len(lab.wiring.sources), dtype=torch.bool)
    with torch.no_grad():
        [outputs] = lab.run(ones, inputs=inputs, extra=extra)
    return float(lab.batch.task.loss(outputs, lab.batch.targets))


def test_eap_is_the_slope_of_cutting_an_edge(small):
    """Against differences: a little less, and a little more, of what the edge carries beyond nothing."""
    scores, h = eap(small), 1e-2
    for edge in Random(1).sample(small.wiring.edges, 12):
        extra = torch.zeros(len(small.wiring.targets), len(small.wiring.sources))
        extra[small.wiring.places[small.wiring.edges.index(edge)]] = h
        assert scores[edge] == pytest.approx(-(loss_with(small, extra) - loss_with(small, -extra)) / (2 * h), abs=2e-3)


def test_eap_is_in_the_loss_that_edges_are_cut_in():
    """Where sequences ask for different numbers of answers each sequence counts as much, as it does for `effect`."""
    task = LastSuccessor()
    lab = Patching(drawn(task).double(), in_double(task.sample(8, 1)), "resample")
    scores, h, (target, source) = eap(lab), 1e-2, lab.wiring.places[-1]
    extra, rises = torch.zeros(len(lab.wiring.targets), len(lab.wiring.sources), dtype=torch.float64), []
    for sign in (1, -1):
        extra[target, source] = sign * h
        whole = torch.ones(1, *extra.shape, dtype=torch.bool)
        with torch.no_grad():
            [outputs] = lab.run(whole, extra=extra)
        rises.append(float(lab.losses_of(outputs).mean()))
    assert scores[lab.wiring.edges[-1]] == pytest.approx((rises[1] - rises[0]) / (2 * h), rel=1e-3)


def test_eap_ig_adds_up_over_the_edges_out_of_the_input(small):
    scores = eap_ig(small, steps=100)
    cut = loss_with(small, inputs=small.null[0]) - loss_with(small)
    assert sum(score for edge, score in scores.items() if edge.startswith("input->")) == pytest.approx(cut, rel=0.02)
    assert abs(sum(x for e, x in eap(small).items() if e.startswith("input->")) - cut) > 0.1 * abs(cut)


# The search ------------------------------------------------------------------------------------------------------

QUICK = Components(discovery=64, report=128)


#: Who feeds whom in the copier: the first head moves tokens one position on, the second finds the query's and copies.
COPIES = {"input->a0.h0<v>", "input->a1.h0<q>", "a0.h0->a1.h0<k>", "input->a1.h0<v>", "a1.h0->logits"}
#: What is told by positions, the same in every sequence, so that only zero takes it away: where the first head attends,
#: and that the second does not attend to the first position.
BY_PLACE = {"input->a0.h0<q>", "input->a0.h0<k>", "input->a1.h0<k>"}


@cache
def searched(null):
    """A copier's edges and who looked for them, once for all tests."""
    hunt = Hunt(copiers(20.0).model.eval(), TASK, QUICK.but(null=null), lambda _: None)
    return hunt, hunt.solve()


@pytest.mark.parametrize(("null", "edges"), [("resample", COPIES), ("mean", COPIES), ("zero", COPIES | BY_PLACE)])
def test_the_edges_of_a_copier_are_those_of_its_closed_form(null, edges):
    _, found = searched(null)
    assert found.verdict == "circuit", found.reason
    assert set(found.kept) == edges
    assert found.losses["circuit"].high < found.threshold < found.losses["null"].mean
    assert min(found.removals[edge] for edge in COPIES) > 1 and min(found.removals.values()) > 0.02


def test_nothing_smaller_passes():
    """All subsets of the circuit, tried one by one."""
    hunt, found = searched(QUICK.null)
    subsets = [frozenset(c) for n in range(len(found.kept)) for c in itertools.combinations(found.kept, n)]
    assert not any(loss.high < found.threshold for loss in hunt.lab.losses(map(hunt.edges, subsets)))


@pytest.mark.parametrize(("null", "size"), [("mean", 2), ("resample", 3)])
def test_nodes_are_heads_and_mlps_with_all_that_they_put_out(null, size):
    """Of two equal copiers one can be spared, unless what it then says is another sequence's answer, as loudly."""
    found = find_components(copiers(20.0, 20.0).model.eval(), TASK, QUICK.but(unit="nodes", null=null))
    assert found.verdict == "circuit" and "a0.h0" in found.kept and len(found.kept) == size
    assert all(edge.startswith(("input->", *(f"{node}->" for node in found.kept))) for edge in found.edges)


@pytest.mark.parametrize("seed", [1, 2])
def test_an_untrained_model_has_no_circuit_of_components(seed):
    model = Transformer.for_task(Architecture(n_layers=2, d_model=16), TASK, generator(seed, "init")).eval()
    found = find_components(model, TASK, QUICK.but(discovery=16, report=64))
    assert found.verdict == "none" and "has not solved its task" in found.reason


def test_more_sequences_are_drawn_where_few_leave_it_open():
    """Of 16 answers all can be right, and the interval still reaches below what is asked for."""
    found = find_components(copiers(20.0).model.eval(), TASK, QUICK.but(unit="nodes", report=16))
    assert found.accuracies["model"].n == 16 + 7 * 16 and found.verdict == "circuit"


def test_curves_are_ranked_by_absolute_and_by_signed_scores():
    """MIB takes CMD from the one and CPR from the other: here areas by hand, of sets that are cut anew."""
    hunt = Hunt(copiers(20.0, -6.0).model.eval(), TASK, QUICK.but(unit="nodes"), lambda _: None)
    found = hunt.solve()
    for name, by in (("EAP", abs), ("EAP, signed", float)):
        scores = found.scores["EAP"]
        ranking = sorted(scores, key=lambda unit: (-by(scores[unit]), unit))
        losses = [hunt.lab.loss(hunt.edges(ranking[: int(share * len(ranking))])).mean for share in MIB_GRID]
        f = [(hunt.nothing - loss) / (hunt.nothing - hunt.whole) for loss in losses]
        pairs = list(zip(itertools.pairwise(MIB_GRID), itertools.pairwise(f), strict=True))
        cpr = sum((b - a) * (fa + fb) / 2 for (a, b), (fa, fb) in pairs)
        cmd = sum((b - a) * (abs(1 - fa) + abs(1 - fb)) / 2 for (a, b), (fa, fb) in pairs)
        assert found.curves[name].on_grid() == pytest.approx((cpr, cmd), abs=1e-6)
    assert found.curves["EAP"].losses != found.curves["EAP, signed"].losses


def test_a_model_no_better_than_null_is_told_so(tmp_path):
    """Of an untrained model faithfulness is undefined, and says so instead of ending in an error."""
    curve = Curve((1.0, 1.1), 1.1, 1.0, (0, 1))
    assert all(math.isnan(area) for area in curve.on_grid())
    assert curve.as_dict()["CPR"] is None and curve.as_dict()["CMD"] is None
    task = Retrieval(n_hops=1, n_chains=2)
    model = Transformer.for_task(Architecture(n_layers=1, n_heads=2, d_model=16), task, generator(1, "init")).eval()
    found = find_components(model, task, QUICK.but(discovery=16, report=64))
    worse = {name: replace(curve, null=0.5, model=1.0) for name, curve in found.curves.items()}
    store_components(replace(found, curves=worse), model.architecture, tmp_path)
    stored = json.loads((tmp_path / "edges.json").read_text())
    assert stored["verdict"] == "none" and {curve["CPR"] for curve in stored["curves"].values()} == {None}


@pytest.mark.parametrize("report", [64, 65, 200])
def test_the_protocol_tells_how_many_sequences_were_reported_on(report):
    found = find_components(copiers(20.0).model.eval(), TASK, QUICK.but(unit="nodes", report=report))
    assert found.protocol["report"] == report
    assert found.protocol["reported"] == found.accuracies["model"].n in (report, 8 * report)


def test_curves_go_from_nothing_to_the_model():
    _, found = searched(QUICK.null)
    for curve in found.curves.values():
        assert (curve.sizes[0], curve.sizes[-1]) == (0, len(found.effects))
        assert curve.faithfulness[0] == pytest.approx(0) and curve.faithfulness[-1] == pytest.approx(1)
        assert (
            sum(curve.on_grid()) == pytest.approx(0.999) or max(curve.faithfulness) > 1 or min(curve.faithfulness) < 0
        )


def test_what_cannot_be_patched_is_refused():
    model = copiers(20.0).model
    with pytest.raises(BadInput, match="zero, mean, resample"):
        Patching(model, TASK.sample(4), "uniform")
    with pytest.raises(BadInput, match="no edge"):
        Patching(model, TASK.sample(4)).losses([["a0.h0->a0.h0<q>"]])
    model.starts_at_layers = False
    with pytest.raises(BadInput, match="layers that run alone"):
        Patching(model, TASK.sample(4))


# The command, and what others read -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copier_run(tmp_path_factory):
    """The copier, written as TransformerLens has it and imported as a run."""
    folder = tmp_path_factory.mktemp("copier")
    model = copiers(20.0).model
    safetensors.torch.save_file(to_transformer_lens(model), folder / "copier.safetensors")
    task = ["--task", "induction", "--length", str(TASK.length), "--d-vocab", str(TASK.d_vocab)]
    words = ["import", str(folder / "copier.safetensors"), *task, "--no-layer-norm", "--out", str(folder / "run")]
    assert main(words) == 0
    return folder / "run"


def test_the_command_finds_edges_and_writes_eap_igs_graph(copier_run, capsys):
    command = ["circuit", str(copier_run), "--unit", "edges", "--null", "mean", "--report", "128"]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    stored = json.loads((copier_run / "edges.json").read_text())
    assert said == stored and stored["verdict"] == "circuit" and set(stored["circuit"]) == COPIES
    assert stored["protocol"]["null"] == "mean"
    graph = read_eap_ig((copier_run / "pictures" / "edges_eap_ig.json").read_text())
    assert {edge for edge, found in graph.edges.items() if found.in_graph} == COPIES
    assert heads_in(graph) == ["a0.h0", "a1.h0"]
    assert (copier_run / "pictures" / "edges.png").stat().st_size > 5000
    assert main(["circuit", str(copier_run), "--unit", "nodes", "--null", "uniform"]) == 2
    assert "zero, mean, resample" in capsys.readouterr().err


def test_the_graph_of_a_circuit_of_nodes_has_those_nodes(copier_run, tmp_path):
    """What EAP-IG's reader is told: in the graph are the kept nodes with what was measured of them, and no others."""
    command = ["circuit", str(copier_run), "--unit", "nodes", "--report", "128", "--out", str(tmp_path)]
    assert main(command) == 0
    stored = json.loads((tmp_path / "nodes.json").read_text())
    graph = read_eap_ig((tmp_path / "pictures" / "nodes_eap_ig.json").read_text())
    inside = {name for name, node in graph.nodes.items() if node.in_graph}
    assert inside == {*stored["circuit"], "input", "logits"} and len(inside) < len(graph.nodes)
    for name, about in stored["units"].items():
        assert graph.nodes[name].score == pytest.approx(about["effect"], abs=2e-6)
    for edge, found in graph.edges.items():
        assert found.in_graph == ({*ends(edge)[:2]} <= inside)


@pytest.mark.parametrize("option", ["--seeds", "--selection", "--alternatives"])
def test_options_of_paths_are_refused_for_edges(option, copier_run, capsys):
    assert main(["circuit", str(copier_run), "--unit", "edges", option, "8"]) == 2
    assert f"{option} is for --unit paths" in capsys.readouterr().err


def test_a_dry_run_refuses_what_the_search_would(tmp_path, capsys):
    config = Config(TASK, Architecture(n_layers=1, d_model=16, attention="switch_head"), Training(steps=0, val_size=4))
    train(config, tmp_path / "run", threads=1, compile="off")
    assert main(["circuit", str(tmp_path / "run"), "--unit", "edges", "--dry-run"]) == 2
    assert "--unit paths" in capsys.readouterr().err


def test_the_graph_of_a_circuit_of_paths_has_no_untested_edge():
    """Every edge of the projection against cutting it alone, from the weights; what costs nothing is out."""
    model = copiers(20.0).model.eval()
    lab = Patching(model, TASK.sample(64, 3), "resample")
    circuit = discover(model, TASK)
    graph = read_eap_ig(to_eap_ig(circuit, model.architecture, lab=lab))
    truth = ByDefinition(model, lab.batch.inputs, "resample")
    every = frozenset(lab.wiring.edges)
    for edge, found in graph.edges.items():
        if edge in every and found.score:
            with torch.no_grad():
                loss = TASK.loss(truth.outputs(every - {edge}, TASK.query_positions), lab.batch.targets)
            assert found.score == pytest.approx(float(loss) - lab.losses([every])[0].mean, abs=1e-4)
    assert {edge for edge, found in graph.edges.items() if found.in_graph} == COPIES
    assert not any(node.in_graph for name, node in graph.nodes.items() if name[0] == "m")

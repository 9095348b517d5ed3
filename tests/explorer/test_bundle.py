"""What a bundle holds, against the run and plain PyTorch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy
import pytest
import torch

from hopscope import Architecture, BadInput, load
from hopscope.circuits.evaluator import Evaluator
from hopscope.core import catalogue
from hopscope.explorer import bundle as formats
from hopscope.explorer.building import Builder
from hopscope.explorer.bundle import SIZES, Block
from hopscope.explorer.describing import describe
from hopscope.explorer.measuring import weights_block
from hopscope.explorer.sequences import Sequences, batch_entry
from hopscope.models.base import Model
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

TYPESCRIPT = Path(__file__).parents[2] / "explorer" / "src" / "bundle.ts"


def built(run: Run, **how):
    return Builder([run.path], **how).build()


def entry_of(bundle, step: int) -> dict:
    (entry,) = [c for c in bundle.manifest["runs"][0]["checkpoints"] if c["step"] == step]
    return entry


def model_of(bundle, step: int) -> Model:
    """A checkpoint's model, made from the bundle alone, as the page makes it."""
    run = bundle.manifest["runs"][0]
    flat = torch.from_numpy(bundle.blocks[entry_of(bundle, step)["weights"]].array().astype(numpy.float32))
    model = Architecture.from_dict(run["model"]["settings"]).build(Retrieval.from_dict(run["task"]["settings"]))
    sizes = [int(numpy.prod(tensor["shape"])) for tensor in run["model"]["tensors"]]
    parts = zip(run["model"]["tensors"], flat.split(sizes), strict=True)
    model.load_state_dict({tensor["name"]: part.view(tensor["shape"]) for tensor, part in parts})
    return model.eval()


# Blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "uint8"])
def test_a_block_is_its_array(dtype):
    array = numpy.arange(-6 if dtype != "uint8" else 0, 6).astype(dtype)[:6].reshape(2, 3)
    block = Block.of(array)
    assert (block.array() == array).all() and block.array().dtype.name == dtype
    entry = block.entry()
    assert entry["shape"] == [2, 3] and entry["bytes"] == len(block.data) == array.nbytes and entry["scale"] is None
    assert (Block.from_entry(block.data, json.loads(json.dumps(entry))).array() == array).all()


def test_bytes_are_within_half_a_step_of_the_numbers():
    array = numpy.random.default_rng(0).normal(size=(50, 4))  # linear attention is negative, and above 1
    block = Block.of_bytes(array)
    assert block.dtype == "uint8" and block.scale == (array.min(), array.max())
    assert abs(block.array() - array).max() <= (array.max() - array.min()) / 510 + 1e-12
    assert Block.of_bytes(numpy.array([0.25, 0.5])).scale == (0.0, 1.0)  # shares keep their range


def test_a_block_of_another_type_is_refused():
    with pytest.raises(TypeError, match="a block holds float32"):
        Block.of(numpy.array([1 + 1j]))


def test_typescript_lists_the_same_keys():
    """The mirror knows every key of the manifest, and of each of its parts, and no other."""
    source = TYPESCRIPT.read_text()

    def keys(interface: str) -> set[str]:
        (body,) = re.findall(rf"export interface {interface} (?:extends .*?)?{{\n(.*?)\n}}", source, re.DOTALL)
        return set(re.findall(r"^  (\w+)\??:", body, re.MULTILINE))

    demo = load("packaged")
    seen = Sequences.of(demo)
    entry, _ = batch_entry(seen, "here")
    run = describe(demo, "packaged") | {"batch": 0, "paths": 0, "checkpoints": 0}
    assert keys("Run") == set(run)
    assert keys("Task") == set(run["task"]) and keys("Model") == set(run["model"])
    assert keys("BatchEntry") == set(entry) and keys("Instance") == set(entry["instances"][0])
    assert keys("BlockEntry") == set(Block.of(numpy.zeros(1)).entry())
    assert f"FORMAT = {formats.FORMAT};" in source
    for word in re.findall(r"^    (\w+)", formats.__doc__, re.MULTILINE):
        assert re.search(rf"\b{word}\b", source), word


# A run -----------------------------------------------------------------------------------------------------------


def test_the_page_can_rebuild_the_model_and_its_losses(small):
    """From the blocks alone, in the order of the manifest: the losses that are stated, on each number of sequences."""
    bundle = built(small, which="all")
    for step in small.steps:
        model, entry = model_of(bundle, step), entry_of(bundle, step)
        run = bundle.manifest["runs"][0]
        inputs = torch.from_numpy(bundle.blocks[run["batch"]["inputs"]].array().copy())
        targets = torch.from_numpy(bundle.blocks[run["batch"]["targets"]].array().copy())
        first, end = run["task"]["query_positions"]
        errors = (model(inputs).detach()[:, first:end] - targets).square()
        for size in SIZES:
            assert entry["reference"][str(size)]["loss"] == pytest.approx(float(errors[:size].mean()), rel=1e-5)


def test_float32_weights_are_the_very_bits(small):
    bundle = built(small, which="all", dtype="float32")
    stored = small.at(8).state_dict()
    again = model_of(bundle, 8).state_dict()
    assert all(torch.equal(stored[name], again[name]) for name in stored)


def test_float16_weights_are_rounded_and_the_reference_with_them(small):
    whole, halves = built(small, which="all", dtype="float32"), built(small, which="all", dtype="float16")
    name = f"{small.config.identity}/12/weights"
    assert (halves.blocks[name].array() == whole.blocks[name].array().astype(numpy.float16)).all()
    one, other = (entry_of(bundle, 12)["reference"]["64"]["loss"] for bundle in (whole, halves))
    assert one != other and one == pytest.approx(other, rel=1e-2)


def test_strengths_are_mean_attention_by_hand(small):
    """One path, added up entry by entry in Python."""
    bundle = built(small, which="last")
    run, entry = bundle.manifest["runs"][0], entry_of(bundle, 12)
    model, batch = small.at(12), small.task.sample(SIZES[-1], run["batch"]["seed"]).rows(slice(0, SIZES[1]))
    with torch.no_grad():
        _, cache = model(batch.inputs, cache=["blocks.0.attn.hook_pattern"])
    pattern, chain, names = cache["pattern", 0], batch.roles.chain, batch.roles.names
    sums, n = 0.0, 0
    for row in range(len(batch)):
        for query in range(small.task.n_positions):
            of = int(chain[row, names.index("query"), query])
            targets = [k for k in range(query + 1) if int(chain[row, names.index("value[1]"), k]) == of >= 0]
            if of >= 0 and targets:
                sums, n = sums + float(pattern[row, 0, query, targets].sum()), n + 1
    (index,) = [i for i, path in enumerate(run["paths"]) if path["name"] == "L0H0 query->value[1]"]
    assert bundle.blocks[entry["strengths"]].array()[index] == pytest.approx(sums / n, rel=1e-5)


def test_every_path_has_a_strength_at_every_checkpoint(small):
    bundle = built(small, which="last")
    run = bundle.manifest["runs"][0]
    paths = [path["name"] for path in run["paths"]]
    assert len(paths) == len(set(paths)) > 4
    for step in small.steps:
        evaluator = Evaluator(small.at(step), small.task.sample(SIZES[-1], 0).rows(slice(0, SIZES[1])))
        strengths = bundle.blocks[entry_of(bundle, step)["strengths"]].array()
        assert strengths.tolist() == pytest.approx([evaluator.strengths[p] for p in map(type_of, run["paths"])])


def type_of(path: dict):
    from hopscope.problem.paths import Path as Attention

    return Attention.from_dict(path)


def test_patterns_are_those_of_the_first_sequences(small):
    bundle = built(small, which="last")
    block = bundle.blocks[entry_of(bundle, 4)["patterns"]]
    batch = small.task.sample(SIZES[-1], 0)
    with torch.no_grad():
        _, cache = small.at(4)(batch.inputs, cache=["blocks.0.attn.hook_pattern"])
    assert block.shape == (1, 8, 1, small.task.n_positions, small.task.n_positions)
    assert abs(block.array()[0] - cache["pattern", 0][:8].numpy()).max() <= 1 / 510 + 1e-9


def test_instances_tell_the_problem(small):
    (run,) = built(small).manifest["runs"]
    problem = small.task.sample(SIZES[-1], 0).problem(3)
    instance = run["batch"]["instances"][3]
    assert [fact[1] for fact in instance["facts"]] == [fact.conclusion for fact in problem.facts]
    assert instance["answers"] == [problem.successors(query) for query in problem.queries]
    assert [s for s, r in zip(instance["symbols"], instance["roles"], strict=True) if "query" in r] == [
        *problem.queries
    ]
    candidates = [instance["candidates"].index(answer[0]) for answer in instance["answers"]]
    bundle = built(small)
    assert bundle.blocks[run["batch"]["asked"]].array()[3, :, 0].tolist() == candidates


@pytest.mark.parametrize(("which", "held"), [("last", [12]), ("all", [0, 4, 8, 12]), ({4}, [4])])
def test_only_chosen_weights_are_in_it(small, which, held):
    bundle = built(small, which=which)
    assert [step for step in small.steps if entry_of(bundle, step)["weights"]] == held
    assert len([name for name in bundle.blocks if name.endswith("/weights")]) == len(held)
    assert all(entry_of(bundle, step)["state"] == "ready" for step in small.steps)


def test_the_manifest_lists_every_block_as_it_is(small):
    bundle = built(small, which="all")
    assert set(bundle.manifest["blocks"]) == set(bundle.blocks)
    for name, block in bundle.blocks.items():
        again = Block.from_entry(block.data, bundle.manifest["blocks"][name])
        assert again.entry() == bundle.manifest["blocks"][name]


def test_newest_first_then_the_rest(small):
    said: list[str] = []
    Builder([small.path], watch=said.append).build()
    measured = [line.partition(": ")[2] for line in said if "measuring step" in line and "checkpoint" in line]
    assert [int(line.split()[2].rstrip(",")) for line in measured][:4] == [12, 8, 4, 0]
    assert measured[0].endswith("checkpoint 1 of 4")


def test_what_was_measured_is_not_measured_again(small, monkeypatch):
    first = built(small, which="last")
    monkeypatch.setattr("hopscope.explorer.measuring.measured", None)
    monkeypatch.setattr("hopscope.circuits.kept.discover", None)
    monkeypatch.setattr("hopscope.emergence.kept.follow", None)
    again = built(small, which="last")
    assert again.manifest == first.manifest
    assert all(again.blocks[name].data == block.data for name, block in first.blocks.items())


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}


def test_the_run_and_what_is_beside_it_stay_as_they_are(small):
    before = files(small.path.parent)
    built(small, which="all")
    assert files(small.path.parent) == before


def test_what_was_kept_and_is_damaged_is_made_anew(small, own_cache):
    first = built(small)
    for kept in own_cache.glob("explorer/checkpoint-*/strengths"):
        kept.write_bytes(b"\0" * kept.stat().st_size)
    again = built(small)
    assert "it is made anew" in again.manifest["runs"][0]["warnings"][0]
    assert again.blocks.keys() == first.blocks.keys()
    assert all(again.blocks[name].data == block.data for name, block in first.blocks.items())


def test_onsets_are_those_of_the_strengths():
    """Of the demo, whose heads emerge: by linear interpolation between checkpoints, as the paper reads them off."""
    builder = Builder(["packaged"])
    for step in (200, 160, 120, 80):
        builder.parts[0].measure(step)
    run = builder.parts[0].entry
    index = [path["name"] for path in run["paths"]].index("L1H0 query->value[1]")
    curve = {step: float(strengths[index]) for step, strengths in builder.parts[0].strengths.items()}
    steps = sorted(curve)
    after = max(step for step in steps if all(curve[s] <= 0.5 for s in steps if s <= step))
    by = steps[steps.index(after) + 1]
    crossing = after + (0.5 - curve[after]) / (curve[by] - curve[after]) * (by - after)
    found = run["onsets"]["L1H0 query->value[1]"]
    assert (found["status"], found["after"], found["by"]) == ("seen", after, by)
    assert found["step"] == pytest.approx(crossing, rel=1e-4)
    assert run["onsets"]["L3H0 query->value[2] (other)"]["falls"]  # paths that come and go are there, too


# Several runs, and bad input -------------------------------------------------------------------------------------


def test_a_run_given_twice_is_refused(small):
    with pytest.raises(BadInput, match=r"are the same run, .*: give each run once"):
        Builder([small.path, small.path])


def test_a_step_that_is_not_there_is_refused(small):
    with pytest.raises(BadInput, match=r"has no checkpoint of step 5; it has 0, 4, 8, 12"):
        Builder([small.path], which={5})


def test_every_task_has_an_entry():
    """What the page needs of each task is finite and plain; a batch of each makes blocks."""
    from hopscope.explorer.describing import task_entry

    for name in catalogue.names("tasks"):
        task = catalogue.find("tasks", name)()
        entry = task_entry(task, Architecture(n_layers=1, d_model=8))
        json.dumps(entry, allow_nan=False)
        assert entry["query_positions"][0] < entry["query_positions"][1] <= entry["n_positions"]
        batch, blocks = batch_entry(Sequences(task.sample(SIZES[0], 0), ()), "x")
        assert json.dumps(batch) and blocks[batch["targets"]].shape[0] == SIZES[0]


def test_weights_of_a_model_follow_its_tensors(small):
    flat = weights_block(small, 0, "float32").array()
    assert len(flat) == small.at(0).n_parameters
    first = next(iter(small.at(0).state_dict().values()))
    assert (flat[: first.numel()] == first.flatten().numpy()).all()

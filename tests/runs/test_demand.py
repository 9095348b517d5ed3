"""What runs and searches ask of the machine: counted, refused beforehand, and printed by --dry-run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from hopscope import Architecture, Config, Training, train
from hopscope.circuits.discovery import discover
from hopscope.circuits.exam import Discovery
from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.core.storage import write_json
from hopscope.runs import demand as demanding
from hopscope.runs.demand import check_together, demand, demand_of_search, gib
from hopscope.runs.run import SHIPPED, load
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.stack import train_many
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import config


def tree(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def little(monkeypatch):
    """A machine with next to nothing to spare."""
    monkeypatch.setattr(demanding, "memory_free", lambda: 1 << 14)


def test_weights_are_those_of_the_model_four_times_in_four_bytes():
    """By hand: embedding, then W_E, b_E, … are what the model's own parameters count."""
    small = config()
    model = small.model.build(small.task)
    found = demand(small)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.weights == 16 * found.parameters
    more = demand(replace(small, training=small.training.but(examples=1 << 20)))
    assert more.examples == 4 * (1 << 20) * small.task.n_positions * (small.task.d_input or 2)


def test_a_search_keeps_every_heads_patterns_of_every_sequence():
    task, shape = Retrieval(n_hops=1, n_chains=2), Architecture(n_layers=3, n_heads=2, d_model=8)
    found = demand_of_search(shape, task, [10, 20])
    assert found.activations == 4 * 30 * 3 * 2 * task.n_positions**2


@pytest.mark.parametrize(("size", "words"), [(3 << 30, "3.0 GiB"), (1 << 20, "1.0 MiB"), (200 << 20, "0.2 GiB")])
def test_bytes_for_people(size, words):
    assert gib(size) == words


def test_several_at_once_must_fit_together_and_the_smaller_ones_may_wait(monkeypatch):
    configs = [config(seed=seed) for seed in range(4)]
    one = demand(configs[0]).memory
    monkeypatch.setattr(demanding, "memory_free", lambda: 3 * one)
    assert check_together(configs, 3) == 3 * one and check_together(configs) == one and check_together([]) == 0
    with pytest.raises(BadInput, match=r"4 of these runs at once need at least .* train fewer at once"):
        check_together(configs, 4)


def test_a_stack_is_refused_as_a_whole_before_a_folder_is_made(tmp_path, monkeypatch):
    configs = [config(seed=seed) for seed in range(4)]
    monkeypatch.setattr(demanding, "memory_free", lambda: 3 * demand(configs[0]).memory)
    with pytest.raises(BadInput, match="each member of this stack needs at least 4 times"):
        train_many(configs, [tmp_path / str(seed) for seed in range(4)], threads=1)
    with pytest.raises(BadInput, match="threads must be between"):
        train_many(configs[:1], [tmp_path / "one"], threads=20_000)
    assert not tree(tmp_path)


@pytest.mark.parametrize(
    ("frozen", "steps", "at"),
    [("*@2-4", 12, 2), ("*", 12, 0), ("*", 0, 0), ("W_*@0-3, *@3-5, b_*@5", 12, 3)],
)
def test_a_run_that_would_train_nothing_is_refused_before_a_folder_is_made(tmp_path, frozen, steps, at):
    """In one step alone, too: the same folder is then free for the corrected command."""
    with pytest.raises(BadInput, match=f"nothing is left to train at step {at}: .* freezes every weight"):
        train(config(frozen=frozen, steps=steps), tmp_path / "run", threads=1)
    assert not tree(tmp_path)


@pytest.mark.parametrize(
    ("start", "layers", "loops", "named", "last"),
    [("L5 1:4", 2, 1, 5, 1), ("L0 1:4; L2H0 2:3", 4, 2, 2, 1), ("L9 1:4", 4, 2, 9, 1), ("L1 1:4", 3, 3, 1, 0)],
)
def test_a_bias_that_starts_in_a_missing_layer_is_refused_and_a_stored_run_with_it_loads(
    tmp_path, monkeypatch, start, layers, loops, named, last
):
    """Layers of later loops have no bias of their own."""
    positions = f"relative(start={start!r})"
    recipe = replace(config(), model=Architecture(n_layers=layers, loops=loops, d_model=8, positions=positions))
    with pytest.raises(BadInput, match=f"names layer {named}; the last with its own weights is {last}$"):
        train(recipe, tmp_path / "run", threads=1)
    assert not tree(tmp_path)
    with monkeypatch.context() as earlier:  # as it was stored before layers were checked
        earlier.setattr("hopscope.models.positions.relative.Relative.check", lambda *_: None)
        train(recipe, tmp_path / "run", threads=1)
    stored = load(tmp_path / "run")
    assert stored.config.identity == recipe.identity and len(stored.model.blocks) == layers // loops
    assert train(recipe, tmp_path / "run", threads=1).done


def test_the_weights_that_can_be_frozen_are_named_once_as_they_are_written(tmp_path):
    """The refusal's names can be given: those of layers with *, which stands for any layer."""
    with pytest.raises(BadInput, match="no weight is called 'W_K'") as refused:
        train(config(frozen="W_K@0-2"), tmp_path / "run", threads=1)
    assert not tree(tmp_path)
    names = str(refused.value).partition("there are ")[2].split(", ")
    assert names[:3] == ["W_E", "b_E", "W_U"] and "*.W_QKV" in names and len({*names}) == len(names)
    assert train(config(frozen=", ".join(f"{name}@0-2" for name in names if name != "W_U")), tmp_path, threads=1).done


def test_the_examples_of_frozen_freeze_weights(tmp_path):
    [setting] = [field for field in fields(Training) if field.name == "frozen"]
    examples = re.findall("'([^']+)'", setting.metadata["help"])
    assert len(examples) >= 2
    for number, example in enumerate(examples):
        assert train(config(frozen=example, steps=300, log_every=300), tmp_path / str(number), threads=1).done


def test_discovery_itself_refuses_what_does_not_fit():
    run = load("packaged")
    with pytest.raises(BadInput, match=r"this search needs at least .* make --discovery, --selection or --report"):
        discover(run.model, run.task, Discovery(discovery=10**12))


@pytest.mark.parametrize(
    "line",
    [
        "circuit packaged --discovery 1000000000",
        "circuit packaged --selection 1000000000 --dry-run",
        "circuit packaged --report 1000000000",
        "circuit packaged --unit edges --discovery 1000000000",
        "circuit packaged --unit nodes --report 1000000000 --dry-run",
        "emerge packaged --n 100000000000",
        "train retrieval --examples 100000000000 --dry-run",
        "train retrieval --val-size 1000000000 --dry-run",
        "train retrieval --threads 20000 --dry-run",
        "reproduce curriculum --threads 20000",
        "demo --threads 20000",
        "heads --threads 20000",
        "evaluate --model known:oracle --threads 20000",
        "evaluate --model known:oracle --count 100000000000",
        "ask equations --count 100000000000",
    ],
)
def test_what_cannot_fit_is_one_sentence_and_writes_nothing(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and said.err.startswith("hopscope: ") and not said.out
    assert not tree(tmp_path)


@pytest.mark.parametrize("line", ["sweep curriculum --workers 2", "sweep curriculum --engine stacked"])
def test_a_sweep_that_cannot_fit_begins_no_run(line, little, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    assert "of memory" in capsys.readouterr().err and not tree(tmp_path)


def ask(line, capsys):
    assert main([*line.split(), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_dry_run_of_training_writes_nothing_and_says_memory_and_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = "train retrieval --hops 1 --chains 2 --layers 1 --d-model 8 --batch 4 --steps 50 --out out --dry-run"
    found = ask(line, capsys)
    assert found["run"] == "out" and found["steps"] == 50 and found["parameters"] > 0
    assert 0 < 50 * found["step_seconds"] == pytest.approx(found["seconds"], rel=0.01, abs=6e-4)  # rounded to 1 ms
    assert found["memory_bytes"] >= 16 * found["parameters"]
    assert main(line.split()) == 0
    said = capsys.readouterr().out
    assert "memory: at least" in said and "time: about" in said and "50 steps" in said
    assert not tree(tmp_path)


def test_a_dry_run_of_what_was_begun_counts_what_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    begun = config(steps=50)
    (tmp_path / "out" / "checkpoints" / "step_00000020").mkdir(parents=True)
    write_json(tmp_path / "out" / "config.json", {"format": 1, "identity": begun.identity, **begun.as_dict()})
    before = tree(tmp_path)
    shape = "--layers 1 --d-model 8 --mlp --positions input"
    line = f"train retrieval --hops 1 --chains 2 {shape} --batch 4 --val-size 4 --log-every 1"
    assert ask(f"{line} --checkpoints 4 --steps 50 --out out --dry-run", capsys)["steps"] == 30
    assert main(f"{line} --checkpoints 4 --steps 60 --out out --dry-run".split()) == 2
    assert "holds another run" in capsys.readouterr().err and tree(tmp_path) == before


@pytest.mark.parametrize("line", ["reproduce curriculum", "sweep curriculum --workers 3"])
def test_a_dry_run_of_an_experiment_counts_its_runs(line, tmp_path, monkeypatch, capsys):
    from hopscope.experiments.base import declared, experiment

    monkeypatch.chdir(tmp_path)
    [found] = ask(f"{line} --dry-run", capsys)
    configs = declared("curriculum", "quick")
    assert found["of"] == found["left"] == len(configs)
    assert found["seconds"] == experiment("curriculum").SECONDS["quick"]
    largest = max(demand(one).memory for one in configs)
    assert largest <= found["memory_bytes"] <= 3 * largest
    assert main([*line.split(), "--dry-run"]) == 0
    assert "runs left, about" in capsys.readouterr().out and not tree(tmp_path)


def test_a_dry_run_of_a_search_times_a_pass(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = ask("circuit packaged --dry-run", capsys)
    shipped = load(SHIPPED)
    needed = demand_of_search(shipped.config.model, shipped.task, Discovery().sizes, shipped.model.n_parameters)
    assert found["memory_bytes"] == needed.memory and found["pass_seconds"] > 0
    assert not tree(tmp_path)


@pytest.mark.parametrize("unit", ["edges", "nodes"])
def test_a_dry_run_of_a_search_in_components_times_a_pass(unit, tmp_path, monkeypatch, capsys):
    """It keeps what 1 + 4 · (1 + 1) components put out, and what stands for it, at 20 positions of 128 numbers."""
    monkeypatch.chdir(tmp_path)
    found = ask(f"circuit packaged --unit {unit} --discovery 10 --report 30 --dry-run", capsys)
    shipped = load(SHIPPED)
    kept = 2 * 9 * 40 * shipped.task.n_positions * 128
    inputs = 40 * shipped.task.n_positions * shipped.task.d_input
    assert found["memory_bytes"] == 4 * (shipped.model.n_parameters + kept + inputs) and found["pass_seconds"] > 0
    assert not tree(tmp_path)


def test_training_settings_are_unchanged_by_a_rehearsal():
    """A finite training set is not drawn to time a step."""
    from hopscope.training.rehearsal import rehearse

    big = Config(Retrieval(n_hops=1, n_chains=2), Architecture(n_layers=1, d_model=8), Training(examples=1 << 20))
    found = rehearse(big, done=1900, device="cpu", threads=1)
    assert found.steps == 100 and found.memory_bytes == demand(big).memory


# What is free ----------------------------------------------------------------------------------------------------


def test_what_is_free_is_what_the_tightest_group_around_this_process_leaves(tmp_path):
    """Version 2 of control groups, one within the other, then version 1; files that are kept by the way can go."""
    from hopscope.core.memory import left_in_groups

    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for folder, limit, used, files in (
        (tmp_path, "max", 1, 0),
        (inner.parent, "5000", 1500, 500),
        (inner, "max", 9, 0),
    ):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 7\nactive_file {files - 100 if files else 0}\ninactive_file 100\n")
    assert left_in_groups("0::/outer/inner\n", tmp_path) == [5000 - 1500 + 500]
    assert left_in_groups("0::/outer\n", tmp_path) == [4000] and left_in_groups("0::/\n", tmp_path) == []
    assert left_in_groups("0::/elsewhere/gone\n", tmp_path) == [] == left_in_groups("nonsense\n", tmp_path)
    old = tmp_path / "memory" / "mine"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("3000\n")
    (old / "memory.usage_in_bytes").write_text("1000\n")
    assert left_in_groups("4:memory:/mine\n0::/\n", tmp_path) == [2000]


def test_a_limit_on_addresses_counts():
    """As of `ulimit -v`, which no other account of memory knows."""
    words = (
        "import resource as r; from hopscope.core.memory import memory_free as free; before = free(); "
        "r.setrlimit(r.RLIMIT_AS, (1 << 30, r.getrlimit(r.RLIMIT_AS)[1])); assert free() < 1 << 30 and before != free()"
    )
    subprocess.run([sys.executable, "-c", words], check=True)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 3221225472 bytes."
        ),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("CUDA out of memory. Tried to allocate 3.00 GiB"),
    ],
)
def test_memory_that_cannot_be_had_is_said_in_a_sentence(error, monkeypatch, capsys):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("hopscope.cli.commands.show.load", fails)
    assert main(["show", "packaged"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "not enough memory" in said
    assert ("3.0 GiB" in said) == ("tried to allocate 3221225472" in str(error))

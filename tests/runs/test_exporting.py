"""Models for TransformerLens: which files, and that its HookedTransformer computes from them what ours does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import safetensors.torch
import torch

from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.core.storage import enlist, listed
from hopscope.models.transformer import Architecture, Transformer
from hopscope.runs.exporting import transformer_lens_files
from hopscope.runs.importing import import_model, read_weights
from hopscope.training.loop import train
from tests.exported import TASKS, difference, drawn, write_transformer_lens
from tests.small_runs import trained

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", TASKS)
def test_what_is_exported_is_imported_again(kind, tmp_path):
    model, task = drawn(TASKS[kind]), TASKS[kind]
    write_transformer_lens(model, task, tmp_path)
    weights = read_weights(tmp_path / "weights.safetensors")
    about = json.loads((tmp_path / "config.json").read_text())
    assert (about["n_layers"], about["n_heads"], about["d_vocab_out"]) == (2, 2, task.d_output)
    if kind != "tokens":
        projection = safetensors.torch.load_file(tmp_path / "inputs.safetensors")
        assert torch.equal(projection["W_E"], model.W_E) and not weights.pop("embed.W_E").any()
        if model.W_pos is None:
            assert not weights.pop("pos_embed.W_pos").any()
        weights |= {f"embed.{name}": value for name, value in projection.items()}
    back, inputs = import_model(weights, task, positions="learned").model, task.sample(3, 0).inputs
    assert torch.equal(back(inputs), model(inputs))


@pytest.mark.parametrize("shape", [{"positions": "rotary"}, {"attention": "linear"}])
def test_what_transformer_lens_lacks_is_refused(shape):
    task = TASKS["tokens"]
    with pytest.raises(BadInput, match="TransformerLens"):
        transformer_lens_files(Transformer.for_task(Architecture(n_layers=1, d_model=16, **shape), task), task)


def test_the_command_writes_what_loads(tmp_path, capsys):
    config = Config(TASKS["tokens"], Architecture(n_layers=1, d_model=8), Training(steps=1, batch=4, val_size=4))
    train(config, tmp_path / "run", threads=1, compile="off")
    assert main(["export", str(tmp_path / "run"), "--to", "transformer-lens"]) == 0
    assert "load.py" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "run" / "transformer-lens").iterdir()}
    assert names == {"config.json", "weights.safetensors", "load.py"}
    assert main(["export", str(tmp_path / "run"), "--to", "nosuch"]) == 2


def test_layers_that_stand_side_by_side_are_refused():
    task = catalogue.find("tasks", "names_in_text")(asked="1,2")
    shape = catalogue.find("models", "multi_token")(n_layers=3, n_futures=2, d_model=16)
    with pytest.raises(BadInput, match="one on the other"):
        transformer_lens_files(shape.build(task, generator(0, "init")), task)


def test_a_strangers_files_are_not_replaced(tmp_path, capsys):
    run, place = trained(tmp_path / "run").path, tmp_path / "mine"
    place.mkdir()
    (place / "config.json").write_text('{"model_type": "gpt2"}')
    assert main(["export", str(run), "--to", "transformer-lens", "--out", str(place)]) == 2
    assert "is no export of hopscope" in capsys.readouterr().err
    assert [path.name for path in place.iterdir()] == ["config.json"] and "gpt2" in (place / "config.json").read_text()
    (place / "graph.json").write_text('{"cfg": {}}')
    assert main(["export", str(run), "--to", "neuronpedia", "--out", str(place)]) == 2
    (tmp_path / "folder" / "weights.safetensors").mkdir(parents=True)
    assert main(["export", str(run), "--to", "transformer-lens", "--out", str(tmp_path / "folder")]) == 2
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["weights.safetensors"]


def test_an_export_replaces_an_export_and_leaves_nothing_of_it(tmp_path):
    """Of a run on vectors there is a file more than of one on tokens."""
    vectors, tokens, place = trained(tmp_path / "vectors").path, tmp_path / "tokens", tmp_path / "place"
    config = Config(TASKS["tokens"], Architecture(n_layers=1, d_model=8), Training(steps=0, val_size=4))
    train(config, tokens, threads=1, compile="off")
    for run, count in ((vectors, 4), (tokens, 3), (tokens, 3), (vectors, 4)):
        assert main(["export", str(run), "--to", "transformer-lens", "--out", str(place)]) == 0
        assert len(list(place.iterdir())) == count


def test_a_refused_export_takes_nothing_off_a_runs_list(tmp_path, capsys):
    config = Config(TASKS["tokens"], Architecture(n_layers=1, d_model=8, attention="linear"), Training(steps=0))
    run = train(config, tmp_path / "run", threads=1, compile="off").path
    (run / "pictures").mkdir()
    (run / "pictures" / "mine.png").write_bytes(b"x")
    enlist(run, ["pictures/mine.png"])
    assert main(["export", str(run), "--to", "transformer-lens", "--out", str(run / "pictures")]) == 2
    assert "pictures/mine.png" in listed(run)


@pytest.mark.peers
@pytest.mark.parametrize("kind", TASKS)
def test_a_hooked_transformer_computes_the_same(kind, tmp_path):
    """In the environment of the peers, by the very lines that are written beside the weights."""
    python = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"there is no {python}; `make peers` builds the environment that TransformerLens lives in")
    assert difference(python, kind, tmp_path) < 1e-5

"""Imported models: names and shapes there and back, one sentence for each file that will not do, and the real thing."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from hopscope import Architecture, BadInput, Transformer, load
from hopscope.cli import main
from hopscope.core.seeds import generator
from hopscope.runs import importing
from hopscope.runs.importing import import_model, read_weights, to_transformer_lens
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401

ROOT = Path(__file__).parents[2]
VECTORS = Retrieval(n_hops=1, n_chains=2)
TOKENS = SymbolicRetrieval(n_hops=1, n_chains=2, d_vocab=8)
SHAPES = {
    "whole": {},
    "attention-only": {"mlp": False},
    "not-causal": {"causal": False},
    "no-layernorm": {"layer_norm": False},
    "wide-heads": {"n_heads": 4, "d_head": 6, "d_mlp": 10},
    "learnt-positions": {"positions": "learned"},
}


def made(task: Task, **changes) -> Transformer:
    """A model whose every number is drawn, biases and scales too."""
    shape = Architecture(**{"n_layers": 3, "n_heads": 2, "d_model": 16, "mlp": True, "positions": None, **changes})
    model, random = Transformer.for_task(shape, task), generator(0, "importing")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=random) + name.endswith(".w"))
    return model.eval()


def state(task: Task = VECTORS, **changes) -> dict[str, Tensor]:
    """In TransformerLens' names."""
    return to_transformer_lens(made(task, **changes))


# There and back -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [VECTORS, TOKENS], ids=["vectors", "tokens"])
@pytest.mark.parametrize("kind", SHAPES)
def test_there_and_back_every_bit_is_the_same(task, kind):
    model = made(task, **SHAPES[kind])
    back = import_model(
        to_transformer_lens(model),
        task,
        causal=model.architecture.causal,
        layer_norm=False if kind == "no-layernorm" else None,
        positions="learned" if kind == "learnt-positions" else "input",
    )
    mine, theirs = model.state_dict(), back.model.state_dict()
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)
    a, b = model.architecture, back.model.architecture
    assert a.resolved(task).but(init=b.init) == b.resolved(task)
    inputs = task.sample(3, 0).inputs
    assert torch.equal(model(inputs), back.model(inputs))
    assert back.unread == ()


def test_names_and_shapes_are_those_of_transformer_lens():
    """As its HookedTransformer declares them; no two share memory, so that safetensors takes them."""
    found = state(TOKENS, n_layers=1, n_heads=2, d_model=6, d_head=5, d_mlp=7)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "embed.W_E": (8, 6),
        "pos_embed.W_pos": (6, 6),
        "unembed.W_U": (6, 8),
        "unembed.b_U": (8,),
        "ln_final.w": (6,),
        "ln_final.b": (6,),
        **{f"blocks.0.ln{i}.{p}": (6,) for i in (1, 2) for p in "wb"},
        **{f"blocks.0.attn.W_{p}": (2, 6, 5) for p in "QKV"},
        **{f"blocks.0.attn.b_{p}": (2, 5) for p in "QKV"},
        "blocks.0.attn.W_O": (2, 5, 6),
        "blocks.0.attn.b_O": (6,),
        "blocks.0.mlp.W_in": (6, 7),
        "blocks.0.mlp.b_in": (7,),
        "blocks.0.mlp.W_out": (7, 6),
        "blocks.0.mlp.b_out": (6,),
    }
    assert safetensors.torch.load(safetensors.torch.save(found)).keys() == found.keys()


def test_an_export_is_a_copy():
    model = made(VECTORS)
    before = model.W_U.detach().clone()
    to_transformer_lens(model)["unembed.W_U"].zero_()
    to_transformer_lens(model)["blocks.0.attn.W_Q"].zero_()
    assert torch.equal(model.W_U, before) and (model.blocks[0].attn.W_Q != 0).any()


@pytest.mark.parametrize("attention", ["linear", "kv_shift"])
def test_other_attention_has_no_name_there(attention):
    with pytest.raises(BadInput, match=f"softmax attention alone; this model's is {attention}"):
        state(attention=attention)


def test_what_is_no_weight_is_passed_over_and_what_may_be_missing_is_made():
    found = state(positions=None)
    constants = {"blocks.0.attn.mask": torch.ones(9, 9).bool(), "blocks.0.attn.IGNORE": torch.tensor(-torch.inf)}
    bias = found.pop("embed.b_E")
    table = {
        "pos_embed.W_pos": torch.ones(99, 16)
    }  # every HookedTransformer has one, though a run behind it reads none
    imported = import_model(found | constants | table, VECTORS, positions="input")
    assert bias.any() and not imported.model.b_E.any()
    assert imported.unread == ("pos_embed.W_pos",)
    found["W_E"], found["b_E"] = found.pop("embed.W_E"), bias
    assert torch.equal(import_model(found, VECTORS).model.b_E, bias)


def test_positions_that_no_sequence_reaches_are_cut():
    found = state(TOKENS)
    longer = torch.cat([found["pos_embed.W_pos"], torch.ones(5, 16)])
    model = import_model(found | {"pos_embed.W_pos": longer}, TOKENS).model
    assert torch.equal(model.W_pos, found["pos_embed.W_pos"])


def test_weights_in_half_precision_are_read():
    found = {name: value.bfloat16() for name, value in state().items()}
    model = import_model(found, VECTORS).model
    assert torch.equal(model.W_U, found["unembed.W_U"].float()) and model.W_U.dtype == torch.float32


def test_folded_layernorms():
    """Their scale and shift, moved into the weights behind them, change nothing but rounding."""
    model = made(TOKENS)
    folded = fold(to_transformer_lens(model))
    with pytest.raises(BadInput, match="holds no LayerNorm; say --layer-norm if they were folded"):
        import_model(folded, TOKENS)
    back = import_model(folded, TOKENS, layer_norm=True).model
    assert back.architecture.layer_norm and (back.ln_final.w == 1).all() and (back.ln_final.b == 0).all()
    inputs = TOKENS.sample(4, 0).inputs
    assert torch.allclose(back(inputs), model(inputs), atol=1e-4)
    bare = import_model(folded, TOKENS, layer_norm=False).model
    assert not bare.architecture.layer_norm and not torch.allclose(bare(inputs), model(inputs), atol=0.1)


def fold(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """(x·w + b)·W + c = x·(wW) + (bW + c)."""

    def into(norm: str, weight: str, bias: str) -> None:
        w, b, matrix = found[f"{norm}.w"], found[f"{norm}.b"], found[weight]
        found[bias] = found[bias] + b @ matrix
        found[weight] = w[:, None] * matrix

    for layer in range(3):
        for part in "QKV":
            into(f"blocks.{layer}.ln1", f"blocks.{layer}.attn.W_{part}", f"blocks.{layer}.attn.b_{part}")
        into(f"blocks.{layer}.ln2", f"blocks.{layer}.mlp.W_in", f"blocks.{layer}.mlp.b_in")
    into("ln_final", "unembed.W_U", "unembed.b_U")
    return {name: value for name, value in found.items() if "ln" not in name}


# What cannot be -------------------------------------------------------------------------------------------------------

NAN = torch.full((16, 4), torch.nan)
WRONG = {
    "nothing": (lambda s: s.clear(), ["not the state dict of a TransformerLens HookedTransformer", "it holds nothing"]),
    "another library's": (
        lambda s: rename_all(s),
        ["not the state dict of a TransformerLens", "it holds layer.", "more"],
    ),
    "a missing tensor": (
        lambda s: s.pop("blocks.1.attn.W_K"),
        ["blocks.1.attn.W_K is missing; its shape should be 2 × 16 × 8"],
    ),
    "no first layer": (lambda s: s.pop("blocks.0.attn.W_Q"), ["blocks.0.attn.W_Q is missing", "(heads, d_model"]),
    "a missing layer": (lambda s: drop(s, "blocks.1."), ["blocks.1.", "is missing"]),
    "a missing bias": (lambda s: s.pop("unembed.b_U"), ["unembed.b_U is missing; its shape should be 4"]),
    "RMSNorm": (lambda s: [drop(s, f"{n}.b") for n in norms()], ["ln1.b is missing", "RMSNorm is not supported"]),
    "no last norm": (lambda s: drop(s, "ln_final"), ["ln_final.w is missing"]),
    "a layer without an MLP": (lambda s: drop(s, "blocks.2.mlp"), ["blocks.2.mlp.W_in is missing"]),
    "flat heads": (
        lambda s: s.update({"blocks.0.attn.W_Q": torch.ones(16, 16)}),
        ["blocks.0.attn.W_Q should be (heads, d_model, d_head); its shape is 16 × 16"],
    ),
    "no heads": (lambda s: s.update({"blocks.0.attn.W_Q": torch.ones(0, 16, 8)}), ["heads must be at least 1"]),
    "a wrong shape": (
        lambda s: s.update({"blocks.2.attn.W_O": torch.ones(2, 16, 8)}),
        ["blocks.2.attn.W_O should have the shape 2 × 8 × 16; it has 2 × 16 × 8"],
    ),
    "outputs of another task": (
        lambda s: s.update({"unembed.W_U": torch.ones(16, 9)}),
        ["unembed.W_U should have the shape 16 × 4 (d_model × d_output of retrieval); it has 16 × 9"],
    ),
    "inputs of another task": (
        lambda s: s.update({"embed.W_E": torch.ones(7, 16)}),
        ["embed.W_E should have the shape 8 × 16 (d_input × d_model of retrieval); it has 7 × 16"],
    ),
    "two embeddings": (lambda s: s.update(W_E=s["embed.W_E"]), ["holds both W_E and embed.W_E"]),
    "a gate": (
        lambda s: s.update({"blocks.0.mlp.W_gate": torch.ones(16, 64)}),
        ["blocks.0.mlp.W_gate has no place in this architecture"],
    ),
    "rotary positions": (
        lambda s: s.update({"blocks.0.attn.rotary_sin": torch.ones(9, 8)}),
        ["rotary_sin has no place"],
    ),
    "NaN": (lambda s: s.update({"unembed.W_U": NAN}), ["unembed.W_U should hold finite numbers; it holds NaN"]),
    "more than float32 holds": (
        lambda s: s.update({"unembed.b_U": torch.full((4,), 1e300, dtype=torch.float64)}),
        ["unembed.b_U should hold finite numbers"],
    ),
    "whole numbers": (
        lambda s: s.update({"unembed.b_U": torch.ones(4).int()}),
        ["unembed.b_U should hold floating-point numbers; it holds torch.int32"],
    ),
    "a million layers": (lambda s: s.update({"blocks.1000000.ln1.w": torch.ones(16)}), ["layers must be at most 1024"]),
}


def drop(found: dict[str, Tensor], part: str) -> None:
    for name in [n for n in found if part in n]:
        del found[name]


def norms() -> list[str]:
    return ["ln_final", *(f"blocks.{layer}.ln{i}" for layer in range(3) for i in (1, 2))]


def rename_all(found: dict[str, Tensor]) -> None:
    for name in list(found):
        found[f"layer.{name}"] = found.pop(name)


@pytest.mark.parametrize("case", WRONG)
def test_a_state_dict_that_will_not_do_is_refused_in_one_sentence_and_nothing_is_written(tmp_path, capsys, case):
    spoil, words = WRONG[case]
    found = state()
    spoil(found)
    path, out = tmp_path / "weights.safetensors", tmp_path / "run"
    safetensors.torch.save_file({n: v.clone() for n, v in found.items()}, path)
    code = main(["import", str(path), "--task", "retrieval", "--hops", "1", "--chains", "2", "--out", str(out)])
    printed, err = capsys.readouterr()
    assert (code, printed) == (2, "") and err.count("\n") == 1
    assert all(word in err for word in words), err
    assert not out.exists()


def test_too_few_positions_and_another_vocabulary():
    found = state(TOKENS)
    with pytest.raises(BadInput, match=r"pos_embed.W_pos has 5 positions, but a sequence of symbolic_retrieval has 6"):
        import_model(found | {"pos_embed.W_pos": torch.ones(5, 16)}, TOKENS)
    with pytest.raises(BadInput, match=r"embed.W_E should have the shape 9 × 16 \(d_vocab × d_model of symbolic"):
        import_model(found, TOKENS.but(d_vocab=9))
    with pytest.raises(BadInput, match=r"embed.b_E has no place"):
        import_model(found | {"embed.b_E": torch.ones(16)}, TOKENS)
    with pytest.raises(BadInput, match=r"holds a LayerNorm, blocks.0.ln1.b; leave --no-layer-norm out"):
        import_model(found, TOKENS, layer_norm=False)


class Bomb:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, folder: Path):
        self.folder = str(folder)

    def __reduce__(self):
        return (os.mkdir, (self.folder,))


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.bin", "w.pkl", "w.PT", "w.ckpt", "w.safetensors", "w"])
def test_a_pickle_is_refused_unread(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps({"embed.W_E": Bomb(tmp_path / "exploded")}))
    words = (
        "not a safetensors file" if name in ("w.safetensors", "w") else "never unpickles; if you trust it, convert it"
    )
    with pytest.raises(BadInput, match=words) as told:
        read_weights(path)
    assert "\n" not in str(told.value) and not (tmp_path / "exploded").exists()
    pickle.loads(path.read_bytes())
    assert (tmp_path / "exploded").exists()  # the bomb is a real one


@pytest.mark.parametrize("header", [0, 1 << 62], ids=["zeros", "endless"])
def test_a_file_that_cannot_be_what_it_says_is_not_read(tmp_path, header, monkeypatch):
    """A sparse file of 40 GiB takes no room on disk, and would take 40 GiB of memory."""
    path = tmp_path / "sparse.safetensors"
    path.write_bytes(header.to_bytes(8, "little"))
    os.truncate(path, 40 << 30)
    monkeypatch.setattr(importing, "read_file", lambda path: pytest.fail("it was read"))
    with pytest.raises(BadInput, match="not a safetensors file: its header does not fit into it"):
        read_weights(path)


def test_a_file_that_does_not_fit_into_memory_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "large.safetensors"
    path.write_bytes((100).to_bytes(8, "little"))
    os.truncate(path, 40 << 30)
    monkeypatch.setattr(importing, "memory_free", lambda: 60 << 30)
    monkeypatch.setattr(importing, "read_file", lambda path: pytest.fail("it was read"))
    with pytest.raises(BadInput, match=r"takes at least 80\.0 GiB of memory, and 60\.0 GiB are free"):
        read_weights(path)


def test_the_conversion_that_is_advised_works(tmp_path):
    found = state()
    old, new = tmp_path / "w.pt", tmp_path / "w.safetensors"
    torch.save(found, old)
    with pytest.raises(BadInput) as told:
        read_weights(old)
    advice = str(told.value).split("convert it: ")[1]
    exec(advice, {"torch": torch, "safetensors": safetensors, "old": old, "new": new})
    back = read_weights(new)
    assert back.keys() == found.keys() and all(torch.equal(back[name], found[name]) for name in found)


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(BadInput, match="could not read"):
            read_weights(path)


# The command ----------------------------------------------------------------------------------------------------------


def imported(tmp_path: Path, task: Task = VECTORS, *more: str) -> tuple[int, Path, Path]:
    path, out = tmp_path / "weights.safetensors", tmp_path / "run"
    safetensors.torch.save_file(state(task), path)
    settings = ["--hops", "1", "--chains", "2", *(["--d-vocab", "8"] if task is TOKENS else [])]
    settings += ["--activation", "gelu_new"]
    return main(["import", str(path), "--task", task.name(), *settings, "--out", str(out), *more]), path, out


@pytest.mark.parametrize("task", [VECTORS, TOKENS], ids=["vectors", "tokens"])
def test_an_imported_model_is_a_run_like_any_other(tmp_path, capsys, task):
    code, path, out = imported(tmp_path, task, "--json")
    summary = json.loads(capsys.readouterr().out)
    assert code == 0 and summary["done"] and summary["step"] == 0 and summary["unread"] == []
    run, model = load(out), made(task)
    assert run.task == task
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert run.config.origin == {"by": "import", "file": "weights.safetensors", "sha256": sha256}
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in run.model.state_dict().items())
    batch = task.sample(2000, 5)
    with torch.no_grad():
        loss = float(task.loss(model(batch.inputs, at=task.query_positions), batch.targets))
    assert summary["loss"] == pytest.approx(loss, rel=0.1)
    for command in ("show", "draw"):
        assert main([command, str(out)]) == 0
    assert (out / "pictures" / "attention.svg").stat().st_size > 1000


def test_importing_again_finds_the_run_and_another_is_refused(tmp_path, capsys):
    assert imported(tmp_path)[0] == 0
    stamp = (tmp_path / "run" / "DONE").stat().st_mtime_ns
    assert imported(tmp_path)[0] == 0
    assert (tmp_path / "run" / "DONE").stat().st_mtime_ns == stamp
    capsys.readouterr()
    code, _, out = imported(tmp_path, VECTORS, "--mask", "none")
    err = capsys.readouterr().err
    assert code == 2 and f"{out} holds another run" in err and err.count("\n") == 1


def test_what_was_not_read_is_said(tmp_path, capsys):
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file(state() | {"pos_embed.W_pos": torch.ones(6, 16)}, path)
    task = ["--task=retrieval", "--hops", "1", "--chains", "2"]
    assert main(["import", str(path), *task, "--out", str(tmp_path / "run")]) == 2
    assert "whether the model adds it, by positions learned, or not, by positions input" in capsys.readouterr().err
    assert main(["import", str(path), *task, "--positions", "input", "--out", str(tmp_path / "run")]) == 2
    assert "say --activation gelu_new if that is it" in capsys.readouterr().err and not (tmp_path / "run").exists()
    told = ["--positions", "input", "--activation", "gelu_new"]
    assert main(["import", str(path), *task, *told, "--out", str(tmp_path / "run")]) == 0
    assert "pos_embed.W_pos was not read: inputs of retrieval carry their positions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "missing option '--task'"),
        (["--task"], "--task"),
        (["--task", "retreival"], "did you mean 'retrieval'"),
        (["--task", "retrieval", "--hops", "0"], "hops must be at least 1"),
        (["--task", "retrieval", "--d-vocab", "9"], "--d-vocab"),
        (["--task", "retrieval", "--mask", "some"], "'some'"),
        (["--task", "retrieval"], "could not read"),
        (["--task", "symbolic_retrieval", "--d-vocab", "64"], "could not read"),
    ],
)
def test_bad_input(tmp_path, capsys, arguments, words):
    code = main(["import", str(tmp_path / "none.safetensors"), *arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "") and err.count("\n") == 1 and words in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("said", "wrong", "words"),
    [
        (["--activation", "relu"], None, "a model with relu would compute something else"),
        ([], "activation", "not gelu_new, or its mask, LayerNorms or positions are not as stated"),
        (["--activation", "gelu_new"], "activation", "computes other logits than those given"),
        ([], "mask", "computes other logits than those given"),
        ([], "shape", "the given logits should have the shape 3 × "),
        ([], "inputs", "lacks inputs"),
        ([], None, ""),
    ],
)
def test_an_import_is_held_against_the_logits_of_the_model_that_it_was(
    tmp_path, capsys, monkeypatch, said, wrong, words
):
    """A ReLU model, and one that sees ahead, have tensors of the same names and shapes (specs/reports.md, F13)."""
    path, given, out = (tmp_path / name for name in ("weights.safetensors", "logits.safetensors", "run"))
    model, inputs = made(TOKENS), TOKENS.sample(3, 0).inputs
    safetensors.torch.save_file(to_transformer_lens(model), path)
    if wrong == "activation":
        monkeypatch.setattr("hopscope.models.base_layers.gelu", torch.relu)
    theirs = made(TOKENS, causal=False) if wrong == "mask" else model
    with torch.no_grad():
        logits = theirs(inputs)[:, : 2 if wrong == "shape" else None].contiguous()
    monkeypatch.undo()
    safetensors.torch.save_file({"logits": logits} | ({} if wrong == "inputs" else {"inputs": inputs}), given)
    task = ["--task", "symbolic_retrieval", "--hops", "1", "--chains", "2", "--d-vocab", "8"]
    held = [] if "relu" in said else ["--logits", str(given)]
    code = main(["import", str(path), *task, *said, *held, "--out", str(out)])
    err = capsys.readouterr().err
    assert (code, out.exists()) == ((2, False) if words else (0, True))
    assert words in err and err.count("\n") == bool(words)


def test_help_lists_the_options_of_the_task_that_was_named(capsys):
    assert main(["import", "--help"]) == 0
    assert "--d-vocab" not in capsys.readouterr().out
    assert main(["import", "--task", "symbolic_retrieval", "--help"]) == 0
    assert "--d-vocab" in capsys.readouterr().out


# The real thing -------------------------------------------------------------------------------------------------------

#: Loads our export into a HookedTransformer, strictly, and runs it; then makes models of its own to be imported.
PEER = """
import json, sys
from pathlib import Path
import safetensors.torch, torch
from transformer_lens import HookedTransformer, HookedTransformerConfig

folder = Path(sys.argv[1])
about = json.loads((folder / "about.json").read_text())
load, save = safetensors.torch.load_file, safetensors.torch.save_file

def hooked(d_vocab, d_vocab_out, n_ctx, norm="LN"):
    return HookedTransformer(HookedTransformerConfig(
        n_layers=3, d_model=16, n_heads=2, d_head=8, d_mlp=64, n_ctx=n_ctx, d_vocab=d_vocab, d_vocab_out=d_vocab_out,
        act_fn="gelu_new", normalization_type=norm, attention_dir=about["direction"], default_prepend_bos=False,
        device="cpu", seed=3))

def take(model, weights, may_lack):
    found = model.load_state_dict(weights, strict=False)
    lacks = [n for n in found.missing_keys if not n.endswith((".mask", ".IGNORE")) and n not in may_lack]
    assert not found.unexpected_keys and not lacks, found

@torch.no_grad()
def ran(model, *inputs, **how):
    outputs, cache = model.run_with_cache(*inputs, **how)
    patterns = {f"pattern.{i}": cache["pattern", i].contiguous() for i in range(3)}
    return {"outputs": outputs.contiguous(), **patterns}

tokens, vectors = load(folder / "tokens.safetensors"), load(folder / "vectors.safetensors")
inputs = load(folder / "inputs.safetensors")
model = hooked(8, 8, 6)
take(model, tokens, ())
save(ran(model, inputs["tokens"]), folder / "tokens-ran.safetensors")
model = hooked(8, 4, 6)
embed, bias = vectors.pop("embed.W_E"), vectors.pop("embed.b_E")
take(model, vectors, ("embed.W_E", "pos_embed.W_pos"))
save(ran(model, inputs["vectors"] @ embed + bias, start_at_layer=0), folder / "vectors-ran.safetensors")

model = hooked(8, 8, 9)  # a context longer than the task's
with torch.no_grad():
    for name, parameter in model.named_parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape))
contiguous = lambda: {n: v.contiguous().clone() for n, v in model.state_dict().items()}
save(contiguous(), folder / "theirs.safetensors")
save(ran(model, inputs["tokens"]), folder / "theirs-ran.safetensors")
model.process_weights_(fold_ln=True, center_writing_weights=True, center_unembed=False)
save(contiguous(), folder / "folded.safetensors")
"""


@pytest.fixture(scope="module", params=["causal", "bidirectional"])
def peer(request, tmp_path_factory):
    """A folder in which TransformerLens has run our models, and left us its own."""
    python = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not python.exists():
        pytest.skip(f"there is no {python}; `make peers` builds the environment that TransformerLens lives in")
    folder, causal = tmp_path_factory.mktemp("peer"), request.param == "causal"
    for name, task in (("tokens", TOKENS), ("vectors", VECTORS)):
        safetensors.torch.save_file(state(task, causal=causal), folder / f"{name}.safetensors")
    inputs = {"tokens": TOKENS.sample(5, 0).inputs, "vectors": VECTORS.sample(5, 0).inputs}
    safetensors.torch.save_file({n: v.contiguous() for n, v in inputs.items()}, folder / "inputs.safetensors")
    (folder / "about.json").write_text(json.dumps({"direction": request.param}))
    done = subprocess.run([python, "-c", PEER, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, causal


def agrees(model: Transformer, inputs: Tensor, ran: Path, bound: float = 1e-5) -> bool:
    """Outputs and every pattern."""
    wanted = safetensors.torch.load_file(ran)
    with torch.no_grad():
        outputs, cache = model(inputs, cache=True)
    found = {"outputs": outputs, **{f"pattern.{layer}": cache["pattern", layer] for layer in range(3)}}
    return all(float((found[n] - wanted[n]).abs().max() / wanted[n].abs().max().clamp(min=1)) < bound for n in wanted)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["tokens", "vectors"])
def test_transformer_lens_runs_what_we_export(peer, name):
    folder, causal = peer
    task = {"tokens": TOKENS, "vectors": VECTORS}[name]
    assert agrees(made(task, causal=causal), task.sample(5, 0).inputs, folder / f"{name}-ran.safetensors")
    assert not agrees(made(task, causal=not causal), task.sample(5, 0).inputs, folder / f"{name}-ran.safetensors")


@pytest.mark.peers
@pytest.mark.parametrize("name", ["theirs", "folded"])
def test_we_run_what_transformer_lens_saves(peer, name):
    """Constants and all; also with its LayerNorms folded away by itself."""
    folder, causal = peer
    tensors = read_weights(folder / f"{name}.safetensors")
    assert ("ln_final.w" in tensors) == (name == "theirs") and "blocks.0.attn.mask" in tensors
    imported = import_model(tensors, TOKENS, causal=causal, layer_norm=True)
    assert agrees(imported.model, TOKENS.sample(5, 0).inputs, folder / "theirs-ran.safetensors", 1e-4)


def test_a_pipe_and_a_device_are_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.safetensors")
    for weights in (tmp_path / "pipe.safetensors", "/dev/zero"):
        assert main(["import", str(weights), "--task", "retrieval", "--out", str(tmp_path / "out")]) == 2
        assert "it is not a regular file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

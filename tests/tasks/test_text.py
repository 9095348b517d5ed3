"""Text: a split that shares nothing, tokens that decode to it, batches in plain Python, and a bigram table to beat."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch

from hopscope import Architecture, Config, Run, Training, load, train
from hopscope.cli import main
from hopscope.configuration.presets import recipe
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.runs.generation import generate
from hopscope.tasks.text import Text, read
from hopscope.training.trainer import Data, Trainer

CPU = torch.device("cpu")
SMALL = Architecture(n_layers=1, d_model=32, mlp=True)


@pytest.fixture(scope="module")
def plays() -> str:
    return read("")


def test_the_plays_are_those_of_the_published_recipe(plays):
    """nanoGPT's data/shakespeare_char/prepare.py states these four numbers."""
    task = Text()
    assert (len(plays), task.d_vocab) == (1_115_394, 65)
    assert {name: len(tokens) for name, tokens in task.parts.items()} == {
        "training": 1_003_854,
        "held_out": 111_540,
    }


# The split ---------------------------------------------------------------------------------------------------------


def test_the_parts_are_the_text_and_share_none_of_it(plays):
    task = Text(held_out=0.25)
    assert "".join(task.decode(tokens) for tokens in task.parts.values()) == plays


@pytest.mark.parametrize("examples", [0, 64])
def test_training_draws_the_beginning_and_all_else_the_end(examples, tmp_path):
    """Of a text in which no token comes twice, so that a token says where it is from."""
    (tmp_path / "text.txt").write_text("".join(map(chr, range(1000, 2000))))
    task = Text(file=str(tmp_path / "text.txt"), length=8, held_out=0.25)
    config = Config(task, SMALL, Training(steps=1, batch=64, examples=examples))
    trained_on = {
        token for step in range(40) for token in Data(config, CPU).batch(step).draw["tokens"].flatten().tolist()
    }
    judged_on = set(task.sample(2000, 1).draw["tokens"].flatten().tolist())
    assert trained_on <= set(range(750)) and judged_on <= set(range(750, 1000))
    assert len(judged_on) == 250 and (examples or len(trained_on) == 750)


def test_batches_are_stretches_of_the_text(plays):
    """Inputs and targets of every drawn row, by slices of the string."""
    task = Text(length=20)
    held_out = plays[int(len(plays) * 0.9) :]
    starts = torch.randint(len(held_out) - 20, (8, 1), generator=generator(7, "sample", 0, "cpu"))
    batch = task.sample(8, 7)
    for row, [start] in enumerate(starts.tolist()):
        stretch = held_out[start : start + 21]
        assert task.decode(batch.inputs[row]) == stretch[:-1]
        assert task.decode(batch.targets[row, :, 0]) == stretch[1:]


# Losses ------------------------------------------------------------------------------------------------------------


def test_baselines_by_counting(tmp_path):
    """Frequencies and pairs of a text by Python's counters, smoothed as told."""
    text = "she sells sea shells; " * 20 + "the shells she sells are sea shells, he says. " * 2
    (tmp_path / "text.txt").write_text(text)
    task = Text(file=str(tmp_path / "text.txt"), length=8, held_out=0.2)
    cut, n = int(len(text) * 0.8), len(set(text))
    seen, shown = text[:cut], text[cut:]
    alone = {c: (seen.count(c) + 1) / (len(seen) + n) for c in set(text)}
    pairs, firsts = Counter(pairwise(seen)), Counter(seen[:-1])
    after = [(pairs[a, b] + n * alone[b]) / (firsts[a] + n) for a, b in pairwise(shown)]
    assert task.baselines == pytest.approx(
        {
            "any character": math.log(n),
            "frequencies": -sum(math.log(alone[c]) for c in shown) / len(shown),
            "pairs": -sum(map(math.log, after)) / len(after),
            "foreknown": 0.0,
        }
    )


def test_the_pairs_of_the_plays_cost_what_is_published():
    """The corpus' conditional entropy is 2.4526 nats (study `birth`); training's part, smoothed, is near."""
    assert Text(part="training").baselines["pairs"] == pytest.approx(2.4526, abs=0.01)


def test_an_untrained_model_foretells_nothing():
    trainer = Trainer(Config(Text(), recipe("shakespeare").config().model, Training(batch=32)), CPU)
    assert trainer.loss(Text().sample(32)).item() == pytest.approx(math.log(65), abs=0.1)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """A small model with a fast rate: some ten seconds."""
    training = Training(steps=300, batch=16, lr=1e-2, warmup=20, schedule="cosine", log_every=100, val_size=64)
    training = training.but(measures="prefix_score,previous_token_score", checkpoints="300")
    shape = Architecture(n_layers=2, n_heads=4, d_model=64, mlp=True)
    return train(Config(Text(length=32), shape, training), tmp_path_factory.mktemp("text") / "run", threads=1)


def test_a_trained_model_beats_the_bigram_table_on_held_out_text(run):
    assert run.report["loss"] < run.task.baselines["pairs"] == run.task.learnt_below
    assert set(run.rows[-1]["measures"]) == {"prefix_score", "previous_token_score"}


# Writing -----------------------------------------------------------------------------------------------------------


def test_it_writes_on_as_it_foretells(run, capsys):
    """The same text for the same seed; after a long prompt each token by the law of the tokens in view alone."""
    prompt = "KING RICHARD: what is the matter with my lord of this"
    written = generate(run, 5, prompt, seed=3)
    assert written == generate(run, 5, prompt, seed=3) and written.startswith(prompt)
    random, text = generator(3, "generation"), prompt
    for _ in range(5):
        law = run.model(run.task.encode(text[-32:])[None])[0, -1].detach().double().softmax(-1)
        text += run.task.characters[int(torch.multinomial(law, 1, generator=random))]
    assert text == written
    assert main(["show", str(run.path), "--generate", "5", "--prompt", prompt, "--seed", "3"]) == 0
    assert capsys.readouterr().out == written + "\n"


@pytest.mark.parametrize(
    ("folder", "prompt", "message"),
    [
        ("", "año", "'ñ' is no character of the text"),
        ("", "", "at least one character"),
        ("packaged", "a", "is of the task retrieval"),
    ],
)
def test_what_cannot_be_written_on_is_refused_in_a_sentence(run, folder, prompt, message):
    with pytest.raises(BadInput, match=message):
        generate(load(folder) if folder else run, 1, prompt)


# A text of one's own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "could not read the text"),
        (b"\xff\xfe" * 500, "is no text in UTF-8 \\(byte 0\\)"),
        (b"a\0b" * 500, "holds zero bytes"),
        (b"", "too short: its part training has 0 characters"),
        (b"a line of text\n" * 20, "too short: its part held_out has 30 characters, and a sequence needs 65"),
    ],
)
def test_a_file_that_is_no_text_is_refused_in_a_sentence(tmp_path, capsys, content, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    assert main(["train", "text", "--file", str(path), "--out", str(tmp_path / "run")]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert message.replace("\\", "") in said
    assert not (tmp_path / "run").exists()


def test_a_run_records_which_file_it_read_and_warns_of_another(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a rose is a rose is a rose. " * 50)
    config = Config(Text(file=str(path), length=16), SMALL, Training(steps=1, batch=2, val_size=4))
    run = train(config, tmp_path / "run", threads=1, compile="off")
    assert list(run.plugins) == [str(path)]
    path.write_text("a nose is a nose is a nose. " * 50)
    with pytest.warns(UserWarning, match=r"trained with other versions of your files .*text\.txt"):
        load(run.path)

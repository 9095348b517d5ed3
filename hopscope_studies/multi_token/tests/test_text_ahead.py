"""Tests of `text_ahead`: the task, self-speculative generation against a plain loop, and claims on made tables."""

from __future__ import annotations

from types import SimpleNamespace

import pandas
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope_studies.multi_token.experiments.text_ahead import claims
from hopscope_studies.multi_token.generation import continued, first_alone
from hopscope_studies.multi_token.tasks.text_ahead import TextAhead
from hopscope_studies.multi_token.text_cells import KINDS, cells


def test_texts_are_the_same_whatever_is_asked_and_targets_are_what_follows():
    draws = [TextAhead(length=12, ahead=n).draw(3, generator(0, "t")) for n in (1, 4)]
    assert torch.equal(draws[0]["tokens"], draws[1]["tokens"])
    task, tokens = TextAhead(length=12, ahead=4), draws[1]["tokens"]
    assert task.inputs(draws[1]).shape == (3, 12) and task.targets(draws[1]).shape == (3, 12, 4)
    for place, hop in ((0, 0), (5, 2), (11, 3)):
        assert torch.equal(task.targets(draws[1])[:, place, hop], tokens[:, place + hop + 1])


def test_a_text_without_room_for_what_is_asked_is_refused(tmp_path):
    (tmp_path / "short.txt").write_text("abcdefghij" * 4)
    with pytest.raises(BadInput, match="need 20 characters"):
        TextAhead(file=str(tmp_path / "short.txt"), length=12, held_out=0.4)


def test_kinds_compared_at_equal_weights_have_equally_many():
    counts = {
        kind: config.model.build(config.task).n_parameters for kind, config in cells("cpu") if config.training.seed == 0
    }
    assert counts["one"] == counts["two"] == counts["four"] > counts["one, 4 layers"] > counts["one, 2 layers"]


def greedy(model, prompt: list[int], length: int) -> list[int]:
    """The plain loop, on windows that end where the text does."""
    known = list(prompt)
    while len(known) < length:
        known.append(int(model(torch.tensor([known]))[0, -1].argmax()))
    return known


@pytest.mark.parametrize("kind", ["one", "two", "four"])
def test_all_heads_write_what_the_first_writes_alone(kind):
    config = next(config for name, config in cells("quick") if name == kind)
    model, task = config.model.build(config.task, generator(3, "model")), config.task
    for prompt in task.sample(8, generator(1, "p")).inputs[:, :5].tolist():
        text, passes = continued(model, prompt, task.length)
        assert text == greedy(first_alone(model, task), prompt, task.length)
        assert passes <= task.length - 5 and (kind != "one" or passes == task.length - 5)


class Counting:
    """A model whose head i foretells the token i + 1 later, of tokens that count on from 0 to 9; some heads are off."""

    def __init__(self, n: int, wrong: tuple[int, ...] = ()):
        self.architecture, self.wrong = SimpleNamespace(n_futures=n), wrong

    def __call__(self, window: torch.Tensor) -> torch.Tensor:
        ahead = [
            (window + 1 + head + (5 if head in self.wrong else 0)) % 10 for head in range(self.architecture.n_futures)
        ]
        return torch.nn.functional.one_hot(torch.cat(ahead, 0), 10).float().transpose(0, 1).flatten(1)[None]


@pytest.mark.parametrize(
    ("n", "wrong", "passes"),
    [(1, (), 12), (2, (), 7), (4, (), 4), (4, (1,), 12), (4, (2,), 7)],  # no drafts at first; none after a wrong one
)
def test_passes_by_hand(n, wrong, passes):
    text, taken = continued(Counting(n, wrong), [3, 4], 14)
    assert text == [i % 10 for i in range(3, 17)] and taken == passes


# Claims -------------------------------------------------------------------------------------------------------------


def made(
    loss: dict[str, float], passes: dict[str, int], *, same: float = 1.0, seconds: float = 1.0
) -> pandas.DataFrame:
    """A table with these final losses and passes, and small differences between seeds."""
    rows = []
    for seed in range(5):
        for kind, (_, heads) in KINDS.items():
            about = {"run": f"{kind}{seed}", "seed": seed, "kind": kind, "prior": "none", "guess": 4.17}
            for hop in range(heads):
                rows += [about | {"step": 0, "hop": f"t+{hop + 1}", "loss": 4.18}]
                rows += [about | {"step": 9, "hop": f"t+{hop + 1}", "loss": loss[kind] + 0.3 * hop + 0.001 * seed}]
            taken = {"passes": passes.get(kind, 480), "seconds": seconds, "seconds_alone": 1.5}
            rows += [about | {"characters": 480, "same": same, **taken}]
    return pandas.DataFrame(rows)


def test_claims_hold_and_fail():
    worse = {"one": 1.8, "two": 1.9, "four": 2.2, "one, 4 layers": 1.85, "one, 2 layers": 2.0}
    better = worse | {"two": 1.7, "four": 1.7}
    held = {claim.id: claim.verdict for claim in claims(made(worse, {"two": 300, "four": 200}))}
    failed = {claim.id: claim.verdict for claim in claims(made(better, {}, same=0.9, seconds=2.0))}
    assert set(held.values()) == {"holds"}
    kept = {name for name, verdict in failed.items() if verdict == "holds"}
    assert kept == {"farther_is_harder", "untrained_text_ahead"}

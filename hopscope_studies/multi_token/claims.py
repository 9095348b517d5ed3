"""The claims of `multi_token`, judged from the table alone."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pandas import DataFrame, Series

from hopscope.core.intervals import sign_test
from hopscope.experiments.judging import Claim, Evidence, bound, factor, significant, telling
from hopscope.experiments.values import ratios

NO_MATTER = 1.25  # times within this factor count as equal (ours)
NAMED = 0.85  # accuracy at names, on fresh texts, from which they count as learnt at the end (ours)
#: Two outputs (problem, outputs asked, output learnt), of which the first is claimed to be learnt sooner, and where.
PAIRS = {
    "two_tokens_are_sooner": ("tokens both t+1", "tokens near t+1", "section 4"),
    "four_tokens_are_sooner": ("tokens four t+1", "tokens near t+1", "section 4"),
    "two_ahead_is_worth_more_than_itself": ("tokens both t+1", "tokens same t+1", "ours"),
    "the_token_before_is_worth_more_than_itself": ("tokens before t+1", "tokens same t+1", "ours"),
    "near_helps_far_in_tokens": ("tokens both t+2", "tokens far t+2", "ours"),
    "near_helps_far_in_hops": ("hops both x2", "hops far x2", "section 7 of Musat (ICLR 2025)"),
    "far_helps_near_in_hops": ("hops both x1", "hops near x1", "ours"),
}
told = telling(tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text()))


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about learning, more tokens, a second head, the two problems side by side, and controls."""
    yield from first_claims(table)
    yield from sooner_claims(table)
    yield from head_claims(table)
    yield from joint_claims(table)
    yield trunk_claim(table)
    yield from controls(table)


def of(table: DataFrame, kind: str, problem: str, asked: str, name: str) -> DataFrame:
    """The rows of a kind, a problem, the outputs asked, and a name."""
    return table[(table.kind == kind) & (table.problem == problem) & (table.asked == asked) & (table.name == name)]


def that_learnt(table: DataFrame, asked: str, *names: str) -> set[str]:
    """The runs on texts that learnt half of the answers, for each of the outputs named."""
    found = [of(table, "learnt", "tokens", asked, name).dropna(subset=["value"]).run for name in names]
    return set.intersection(*map(set, found))


def first_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that training with one head is plain training, and that an induction head learns names."""
    identity = table[table.kind == "identity"]
    plain = Evidence(identity, "section 2 (n = 1)", source="exact")
    yield told(plain, "one_head_is_plain_training", identity.value, "difference of any weight", equals=0)
    near = of(table, "end", "tokens", "near", "t+1")
    yield told(Evidence(near, "section 4"), "names_are_learnt", near.value, "accuracy at names", at_least=NAMED)
    attention = of(table, "attention", "tokens", "near", "best")
    last = attention[attention.step == attention.groupby("run").step.transform("max")]
    last = last[last.run.isin(that_learnt(table, "near", "t+1"))]
    does = Evidence(last, "section 4", among=near)
    yield told(does, "an_induction_head_does_it", last.value, "attention of the best head at the end", at_least=0.5)


# Times -----------------------------------------------------------------------------------------------------------


def times(table: DataFrame, output: str) -> Series:
    """The step at which an output (as in `PAIRS`) was learnt, by seed; ∞ if it was not learnt in training."""
    return of(table, "learnt", *output.split()).set_index("seed").value.fillna(math.inf)


def signs(values: Iterable[float]) -> tuple[float, float]:
    """One-sided sign tests of ratios: the probabilities by chance of as many ratios below 1, and of as few."""
    known = [value for value in values if not math.isnan(value) and value != 1]
    n, below = len(known), sum(value < 1 for value in known)
    tail = [sign_test(k, n) for k in (below, n - below)]
    return tail[0], tail[1]


def sooner(table: DataFrame, id: str) -> Claim:
    """The claim that one output of a pair is learnt sooner, by the median ratio and a sign test over seeds."""
    one, other, section = PAIRS[id]
    found = ratios(times(table, one), times(table, other))
    if (found == 0).any():
        found = Series(found.tolist(), dtype=float)  # one was learnt and the other never, so a mean ratio says nothing
    fewer = significant("fewer than half of the ratios above 1,", *signs(found))
    evidence = Evidence(of(table, "learnt", *one.split()), section, among=table)
    return told(evidence, id, found, "ratio of times", n=len(found), below=1, of="median", also=[fewer])


def sooner_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about two and four tokens ahead against one."""
    yield from (sooner(table, id) for id in ("two_tokens_are_sooner", "four_tokens_are_sooner"))


def head_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about a second head that repeats a token, or looks ahead, or asks for a part of the circuit."""
    yield sooner(table, "two_ahead_is_worth_more_than_itself")
    yield sooner(table, "the_token_before_is_worth_more_than_itself")
    before = of(table, "end", "tokens", "before", "t+1")
    every = Evidence(before, "ours", among=table)
    yield told(every, "with_the_token_before_all_learn", before.value, "accuracy at names", at_least=NAMED)
    found = ratios(times(table, "tokens same t+1"), times(table, "tokens near t+1"))
    same = Evidence(of(table, "learnt", "tokens", "same", "t+1"), "control", among=table)
    equal = factor(1, NO_MATTER)
    yield told(same, "a_second_head_alone_does_nothing", found, "ratio of times", within=equal, of="median")


def joint_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about near and far answers asked together, in texts and in chains."""
    for id in ("near_helps_far_in_tokens", "near_helps_far_in_hops", "far_helps_near_in_hops"):
        yield sooner(table, id)


def trunk_claim(table: DataFrame) -> Claim:
    """The claim that both answers need the trunk."""
    names = ("t+1", "t+2")
    some = table[table.run.isin(that_learnt(table, "both", *names))]
    near, far = (of(some, "without", "tokens", "both", name) for name in names)
    ends = [of(some, "end", "tokens", "both", name).set_index("run").value for name in names]
    left = [rows.set_index("run").value / end for rows, end in zip((near, far), ends, strict=True)]
    return told(
        Evidence(near, "ours", among=table),
        "both_need_the_trunk",
        left[0],
        "share of accuracy left, of the next token",
        below=0.5,
        also=[bound("share of accuracy left, of the token two ahead,", left[1], below=0.5)],
    )


def controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims: hand-set weights, and untrained models."""
    hand, start = of(table, "end", "tokens", "by hand", "t+1"), of(table, "start", "tokens", "near", "t+1")
    made = Evidence(hand, "control", among=table)
    yield told(made, "by_hand", hand.value, "accuracy at names", at_least=0.99)
    yield told(Evidence(start, "control"), "untrained_knows_nothing", start.value, "accuracy at step 0", below=0.1)

"""The claims of `multi_token`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.judging import Claim, Evidence, bound, factor, sign_test, significant

NO_MATTER = 1.25  # times within this factor count as equal (ours)
NAMED = 0.85  # accuracy at names, on fresh texts, from which they count as learnt at the end (ours)


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
    yield Evidence(identity, "section 2 (n = 1)", source="exact").claim(
        "one_head_is_plain_training",
        "A multi-token model with a single output head trains exactly as the plain model does: all weights are equal.",
        identity.value,
        "difference of any weight",
        equals=0,
    )
    near = of(table, "end", "tokens", "near", "t+1")
    yield Evidence(near, "section 4").claim(
        "names_are_learnt",
        "Trained to predict the next token alone, every model learns to finish a name that occurred before.",
        near.value,
        "accuracy at names",
        at_least=NAMED,
    )
    attention = of(table, "attention", "tokens", "near", "best")
    last = attention[attention.step == attention.groupby("run").step.transform("max")]
    last = last[last.run.isin(that_learnt(table, "near", "t+1"))]
    yield Evidence(last, "section 4", among=near).claim(
        "an_induction_head_does_it",
        "If a model learns to finish names, it does so by an induction head, which attends from a name's first token "
        "to the second tokens of earlier mentions.",
        last.value,
        "attention of the best head at the end",
        at_least=0.5,
    )


# Times -----------------------------------------------------------------------------------------------------------


def times(table: DataFrame, problem: str, asked: str, name: str) -> dict[int, float]:
    """The step at which an output was learnt, by seed; ∞ if it was not learnt in training."""
    found = of(table, "learnt", problem, asked, name).set_index("seed").value.fillna(math.inf)
    return {int(str(seed)): float(step) for seed, step in found.items()}


def ratios(one: dict[int, float], other: dict[int, float]) -> list[float]:
    """The ratio of two times, seed by seed; NaN if neither was learnt."""
    return [one[seed] / other[seed] for seed in sorted(one.keys() & other.keys())]


def signs(values: list[float]) -> tuple[float, float]:
    """One-sided sign tests of ratios: the probabilities by chance of as many ratios below 1, and of as few."""
    known = [value for value in values if not math.isnan(value) and value != 1]
    n, below = len(known), sum(value < 1 for value in known)
    tail = [sign_test(k, n) for k in (below, n - below)]
    return tail[0], tail[1]


def sooner(
    table: DataFrame,
    id: str,
    sentence: str,
    one: tuple[str, str, str],
    other: tuple[str, str, str],
    section: str,
) -> Claim:
    """The claim that one output is learnt sooner than another, by the median ratio and a sign test over seeds.

    Each is given as problem, outputs asked, and output learnt.
    """
    first, second = times(table, *one), times(table, *other)
    found = ratios(first, second)
    rows = of(table, "learnt", *one)
    return Evidence(rows, section, among=table).claim(
        id,
        f"{sentence}.",
        found,
        "ratio of times",
        n=len(found),
        below=1,
        of="median",
        also=[significant("fewer than half of the ratios above 1,", *signs(found))],
    )


NEAR, FAR = ("tokens", "near", "t+1"), ("tokens", "far", "t+2")


def sooner_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about two and four tokens ahead against one."""
    for asked, words in (("both", "two"), ("four", "four")):
        yield sooner(
            table,
            f"{words}_tokens_are_sooner",
            f"Trained to predict the next {words} tokens, a model learns to finish names sooner than if it is trained "
            "to predict one (paper: at small sizes an induction head forms only, or far better, with two)",
            ("tokens", asked, "t+1"),
            NEAR,
            section="section 4",
        )


def head_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about a second head that repeats a token, or looks ahead, or asks for a part of the circuit."""
    yield sooner(
        table,
        "two_ahead_is_worth_more_than_itself",
        "With a second output head that predicts the token two ahead, a model learns to finish names sooner than with "
        "one that repeats the current token",
        ("tokens", "both", "t+1"),
        ("tokens", "same", "t+1"),
        section="ours",
    )
    yield sooner(
        table,
        "the_token_before_is_worth_more_than_itself",
        "With a second output head that names the previous token, a model learns to finish names sooner than with one "
        "that repeats the current token",
        ("tokens", "before", "t+1"),
        ("tokens", "same", "t+1"),
        section="ours",
    )
    before = of(table, "end", "tokens", "before", "t+1")
    yield Evidence(before, "ours", among=table).claim(
        "with_the_token_before_all_learn",
        "Trained to name both the next token and the previous one, every model learns to finish names.",
        before.value,
        "accuracy at names",
        at_least=NAMED,
    )
    same, near = times(table, "tokens", "same", "t+1"), times(table, *NEAR)
    found = ratios(same, near)
    yield Evidence(of(table, "learnt", "tokens", "same", "t+1"), "control", among=table).claim(
        "a_second_head_alone_does_nothing",
        "With a second output head that repeats the current token, a model learns names as soon as without it.",
        found,
        "ratio of times",
        within=factor(1, NO_MATTER),
        of="median",
    )


def joint_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about near and far answers asked together, in texts and in chains."""
    yield sooner(
        table,
        "near_helps_far_in_tokens",
        "A model learns to predict the token two ahead sooner if it is also trained to predict the next one",
        ("tokens", "both", "t+2"),
        FAR,
        section="ours",
    )
    yield sooner(
        table,
        "near_helps_far_in_hops",
        "On chains of facts, the second hop is learnt sooner if the first hop is asked, too (the implicit curriculum)",
        ("hops", "both", "x2"),
        ("hops", "far", "x2"),
        section="section 7 of Musat (ICLR 2025)",
    )
    yield sooner(
        table,
        "far_helps_near_in_hops",
        "On chains of facts, the first hop is learnt sooner if the second hop is asked, too",
        ("hops", "both", "x1"),
        ("hops", "near", "x1"),
        section="ours",
    )


def trunk_claim(table: DataFrame) -> Claim:
    """The claim that both answers need the trunk."""
    names = ("t+1", "t+2")
    some = table[table.run.isin(that_learnt(table, "both", *names))]
    near, far = (of(some, "without", "tokens", "both", name) for name in names)
    ends = [of(some, "end", "tokens", "both", name).set_index("run").value for name in names]
    left = [rows.set_index("run").value / end for rows, end in zip((near, far), ends, strict=True)]
    return Evidence(near, "ours", among=table).claim(
        "both_need_the_trunk",
        "If a model learns to predict both the next token and the one after it, both output heads need their shared "
        "trunk: if its attention is made uniform, both lose more than half of their accuracy.",
        left[0],
        "share of accuracy left, of the next token",
        below=0.5,
        also=[bound("share of accuracy left, of the token two ahead,", left[1], below=0.5)],
    )


def controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims: hand-set weights, and untrained models."""
    hand = of(table, "end", "tokens", "by hand", "t+1")
    yield Evidence(hand, "control", among=table).claim(
        "by_hand",
        "Control: an induction head with hand-set weights finishes names.",
        hand.value,
        "accuracy at names",
        at_least=0.99,
    )
    start = of(table, "start", "tokens", "near", "t+1")
    yield Evidence(start, "control").claim(
        "untrained_knows_nothing",
        "Control: before training, models finish names only as often as by chance.",
        start.value,
        "accuracy at step 0",
        below=0.1,
    )

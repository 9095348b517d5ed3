"""The claims of `non_target_heads`, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Bound, Claim, Evidence, bound

KNOWS = 0.9  # accuracy from which a head has learnt its own task (ours)
FAR = 0.3  # difference of shares that counts as larger (ours)


FEW = 3  # seeds that must have learnt both, for a control to be judged (ours)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about learning, the non-target head's predictions, controls, causal tests, and the hand-set model.

    All claims except those on learning are judged on runs that learnt their training tasks.
    """
    some = table[table.run.isin(solved(table)) | (table.condition == "by hand")]
    yield learnt_claim(table)
    yield named_claim(some)
    yield from control_claims(some, table)
    yield from causal_claims(some)
    yield from ground_claims(table)


def solved(table: DataFrame) -> set[str]:
    """The runs with an accuracy of at least 0.9 on their training tasks."""
    one, two = (table[(table.kind == "end") & (table.name == name)] for name in ("middle of one", "end of two"))
    ends = set(two[two.value >= KNOWS].run)
    return ends & set(one[(one.value >= KNOWS) | (one.condition == "alone")].run)


def of(table: DataFrame, condition: str, name: str, kind: str = "end") -> DataFrame:
    """The rows of a condition, a name and a kind."""
    return table[(table.condition == condition) & (table.name == name) & (table.kind == kind)]


def by_seed(table: DataFrame, condition: str, name: str) -> Series:
    """One number of every run, by seed."""
    return of(table, condition, name).set_index("seed").value


def learnt_claim(table: DataFrame) -> Claim:
    """The claim that both heads learn their own tasks."""
    one, two = of(table, "together", "middle of one"), of(table, "together", "end of two")
    return Evidence(two, "ours", among=table).claim(
        "both_heads_learn_their_own",
        "Both output heads of one trunk learn their own tasks: head `middle` answers one hop on questions tagged "
        "`one`, and head `end` two hops on questions tagged `two`.",
        two.value,
        "accuracy of head end",
        at_least=KNOWS,
        also=[bound("accuracy of head middle", one.value, at_least=KNOWS)],
    )


def named_claim(table: DataFrame) -> Claim:
    """The claim that head `middle` names the argument of head `end`."""
    said = of(table, "together", "non-target")
    return Evidence(said, "abstract", among=table).claim(
        "it_names_the_argument",
        "On two-hop questions, on which only output head `end` was trained, head `middle` names the chain's middle.",
        said.value,
        "share in which it names the middle",
        at_least=0.5,
    )


def enough(compared: Series) -> Bound:
    """The condition that both learnt in enough seeds, so that a control can be judged."""
    return bound("seeds in which both have learnt their own tasks", float(len(compared)), at_least=FEW)


def control_claims(table: DataFrame, whole: DataFrame) -> Iterator[Claim]:
    """Claims that compare with a head fitted afterwards, and with heads of unrelated sequences."""
    said = by_seed(table, "together", "non-target among middles")
    fitted = by_seed(table, "alone", "probe among middles")
    beside = (said - fitted).dropna()
    apart = of(table, "alone", "probe among middles")
    yield Evidence(apart[apart.seed.isin(beside.index)], "ours", among=table).claim(
        "above_a_head_fitted_afterwards",
        "On two-hop questions, on which only output head `end` was trained, head `middle` prefers the right chain's "
        "middle more often than a head that is fitted afterwards to a trunk trained with head `end` alone.",
        beside,
        "difference of shares",
        above=FAR,
        provided=enough(beside),
    )
    other = of(table, "unrelated", "non-target among middles")
    over = (said - by_seed(table, "unrelated", "non-target among middles")).dropna()
    yield Evidence(other, "ours", among=table).claim(
        "above_heads_of_unrelated_sequences",
        "On two-hop questions, on which only output head `end` was trained, head `middle` prefers the right chain's "
        "middle more often than a head trained together with head `end`, but on sequences of other tokens.",
        over,
        "difference of shares",
        above=FAR,
        provided=enough(over),
    )
    alone, unrelated = (of(whole, name, "end of two") for name in ("alone", "unrelated"))
    yield Evidence(whole[whole.condition.isin(["alone", "unrelated"])], "control", among=whole).claim(
        "the_controls_were_trained",
        "In both controls (head `middle` fitted afterwards, or trained on sequences of other tokens) output head `end` "
        "learns its two-hop task.",
        [*alone.value, *unrelated.value],
        "accuracy of head end",
        at_least=KNOWS,
    )


def causal_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that head `end` uses what head `middle` reads, and that it need not."""
    cut, random = (
        by_seed(table, "together", f"end, {which} cut") for which in ("middle's directions", "random directions")
    )
    yield Evidence(of(table, "together", "end, middle's directions cut"), "ours", among=table).claim(
        "cutting_what_it_reads_harms",
        "If the eight directions that output head `middle` reads most strongly are removed from the query's residual "
        "stream before the last layer, head `end` loses more accuracy than if eight random directions are.",
        (random - cut).dropna(),
        "accuracy lost beyond that",
        above=0.05,
    )
    follows = of(table, "together", "end follows the exchanged middle")
    chance = of(table, "together", "end follows a random change")
    yield Evidence(follows, "ours", among=table).claim(
        "the_other_head_follows_it",
        "If the query's residual stream before the last layer is changed so that output head `middle` reads another "
        "chain's middle there, output head `end` names that chain's end.",
        follows.value,
        "share in which it follows",
        at_least=0.5,
        also=[bound("share after a random change", chance.value, below=0.1)],
    )
    said = of(table, "ordered", "non-target")
    still = of(table, "ordered", "end follows the exchanged middle")
    yield Evidence(said, "ours", among=table).claim(
        "it_names_what_is_not_used",
        "Output head `middle` may name a middle that output head `end` does not use: if a chain's first pair always "
        "comes first, head `middle` names the middle, but exchanging it for another chain's does not move head `end` "
        "to that chain's end.",
        said.value,
        "share in which it names the middle",
        at_least=0.5,
        also=[bound("share in which the end follows", still.value, below=0.25)],
    )


def ground_claims(table: DataFrame) -> Iterator[Claim]:
    """Control claims about hand-set and untrained models."""
    hand = of(table, "by hand", "non-target")
    follows = of(table, "by hand", "end follows the exchanged middle")
    yield Evidence(hand, "control", among=table).claim(
        "by_hand",
        "Control: in a model with hand-set weights and dimensions reserved for a chain's middle, output head `middle` "
        "names it in every two-hop question, and if it is exchanged for another chain's, head `end` follows.",
        hand.value,
        "share in which it names the middle",
        at_least=0.999,
        also=[bound("share in which the end follows", follows.value, at_least=0.999)],
    )
    start = of(table, "together", "non-target", "start")
    yield Evidence(start, "control", among=table).claim(
        "untrained_says_nothing",
        "Control: before training, output head `middle` names a chain's middle no more often than by chance.",
        start.value,
        "share in which it names the middle",
        below=0.15,
    )

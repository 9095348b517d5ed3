"""Claims on retrieval heads, from the table; masked heads were chosen on other needles."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import names, of

FEW = 0.05  # share of all heads (paper)
ALWAYS = 0.95  # share of the questions
CERTAIN = 0.05  # level over all retrieval heads and three groupings together
SAME = 0.75  # share of the eight highest heads (ours)
COPIES = 0.1  # error below which a small model copies (ours)
EIGHT = "share of the eight highest heads"
NOTHING = 0.1  # score below which untrained models must stay: the paper's bar
#: What is claimed, by id; `{model}` is the model asked.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "claims.toml").read_text(encoding="utf-8"))


def told(evidence: Evidence, id: str, *measured: Any, **how: Any) -> Claim:
    """`Evidence.claim` with its sentence, about the model that the rows are of."""
    return evidence.claim(id, SENTENCES[id].format(model=names(evidence.rows.dropna(subset="model"))), *measured, **how)


def highest(table: DataFrame, kind: str = "forced") -> Series:
    """The highest score of any head, by run."""
    return of(table, kind).groupby(level=0).max()


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on the number of retrieval heads, their identity, activity and necessity, induction, and controls."""
    language = table[table.part == "language"]
    yield from about_sparsity(language, table[table.part == "published"])
    yield from about_sameness(language)
    yield from about_firing(language)
    yield from about_masking(language)
    yield from about_induction(language)
    yield from about_controls(table)


def about_sparsity(table: DataFrame, published: DataFrame) -> Iterator[Claim]:
    """Claims on how many retrieval heads there are."""
    claim, what = partial(told, Evidence(table, "2", source="paper")), "end of the interval of the share of heads"
    for id, way in (("fewer_than_one_in_twenty", "forced"), ("fewer_where_it_writes_itself", "free")):
        share, *ends = (of(table, f"sparsity {way}", "share", column) for column in ("value", "low", "high"))
        both = [value for end in ends for value in end]
        yield claim(id, both, what, number=share.mean(), below=FEW, unanimous=True)
    released, share = Evidence(published, "2 (released scores)", source="paper"), of(published, "share")
    yield told(released, "published_fewer_than_one_in_twenty", share, "share of heads", n=len(share), below=FEW)
    most = of(table, "sparsity forced", "half or more")
    yield told(Evidence(table, "3.1"), "some_retrieve_most", most, "number of heads", at_least=1)


def about_sameness(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether other needles, and the model's own answers, give the same heads."""
    for id, name, section in (
        ("same_for_other_needles", "halves", "3.3"),
        ("same_by_force_and_free", "by force and free", "2"),
    ):
        yield told(Evidence(table, section), id, shared(table, name), EIGHT, at_least=SAME)


def shared(table: DataFrame, name: str) -> Series:
    """The share of the highest heads that two ways of scoring have in common, by run."""
    return of(table, "shared tops", name) / of(table, "shared tops", name, "other")


def about_firing(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether heads are always active, or depend on the context."""
    active = of(table, "active")
    always, sometimes = ((active > ALWAYS).groupby(level=0).sum(), (active <= ALWAYS).groupby(level=0).sum())
    claim = partial(told, Evidence(table, "3.2", source="paper"), at_least=1)
    yield claim("some_are_always_on", always, "number of heads")
    also = [bound("number of heads that are not always on", sometimes, at_least=1)]
    yield claim("others_fire_by_context", by_context(table), "number of heads that depend on context", also=also)


def by_context(table: DataFrame) -> Series:
    """How many heads that are not always active depend on the context, after Bonferroni, by run."""
    rows = table[table.kind.str.startswith("p of ")]
    least = rows.groupby(["run", "name"]).value.min() * rows.groupby("run").size()
    on = table[table.kind == "active"].set_index(["run", "name"]).value
    return ((least < CERTAIN) & (on <= ALWAYS)).groupby(level=0).sum()


def beyond(table: DataFrame, measure: str, control: str = "random", name: str = "retrieval 8") -> Series:
    """The lower end of the cost of retrieval heads beyond that of the worst random set, by run."""
    rows = table[(table.kind == f"beyond {control}: {measure}") & table.name.str.startswith(name)]
    return rows.set_index("run").low.astype(float)


def about_masking(table: DataFrame) -> Iterator[Claim]:
    """Claims on the cost of masking, on needles that did not choose the heads, in runs in which it was measured."""
    table = table[table.run.isin(table[table.kind == "masked"].run)]
    claim, what = partial(told, Evidence(table, "4.1")), "lower end of nats per token"
    for id, measure, control in (
        ("masking_costs_more_than_random", "log_p", "random"),
        ("masking_costs_more_than_the_same_layers", "log_p", "same layers"),
        ("zeroing_costs_more_than_random", "zeroed", "random"),
    ):
        yield claim(id, beyond(table, measure, control), what, above=0)
    yield claim("masking_costs_more_at_every_size", beyond(table, "log_p", name="retrieval"), what, above=0)
    yield claim("masked_it_answers_less", beyond(table, "answered"), "lower end of the share of needles", above=0)
    main = table[table.name == "retrieval 8"]
    share = of(main, "lost: aside") / of(main, "lost: log_p")
    yield claim("plain_text_is_spared", share, "nats lost on text as a share of those on needles", at_most=0.25)


def about_induction(table: DataFrame) -> Iterator[Claim]:
    """Claims that compare retrieval scores with induction scores on repeated random tokens."""
    claim, low = partial(told, Evidence(table, "beyond (Olsson et al., 2022)")), of(table, "ranks", "induction", "low")
    yield claim("ranks_like_induction", low, "lower end of the rank correlation", above=0)
    yield claim("the_top_are_induction_heads", shared(table, "induction"), EIGHT, at_least=0.5)


def about_controls(table: DataFrame) -> Iterator[Claim]:
    """Claims on controls that must have a score of 1, and on controls that must have none."""
    hand, idle, toys, early = (table[table.part == part] for part in ("by hand", "untrained", "toy", "untrained toy"))
    second = of(hand, "forced").groupby(level=0).nlargest(2).groupby(level=0).min()
    control, what = "control (ours)", "score of the best head"
    also = [bound("score of the second", second, equals=0)]
    best = [*highest(hand), *highest(hand, "free")]
    yield told(Evidence(hand, control), "by_hand_one", best, what, equals=1, also=also)
    yield told(Evidence(idle, control), "untrained_none", highest(idle), what, below=NOTHING)
    errors = of(toys, "error")
    copying = toys[toys.run.isin(errors[errors < COPIES].index)]
    some = bound("the number of models that copy", len(copying.run.unique()), at_least=1)
    claim = partial(told, Evidence(copying, control, among=toys), provided=some)
    yield claim("toys_that_copy", highest(copying), what, at_least=0.9)
    yield told(Evidence(early, control), "untrained_toys_none", highest(early), what, below=NOTHING)

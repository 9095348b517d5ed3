"""The claims of `overthinking`, from the table; what was chosen on some texts is judged on others."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import names, of

CHANCE = 1 / 3
ALIKE = 0.05  # gap below which answers count as alike (ours)
THOUGHT = 0.1  # accuracy lost from an earlier layer to the last (ours)
GPT_J = 0.3898  # share of the gap that five heads of GPT-J carry (paper)
SPARED = 0.05  # accuracy with true labels that may be lost (ours)
MOST = 0.6  # of the chosen heads (ours)

#: What is claimed, by the paper's section, or ours, and id.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text())


def told(rows: DataFrame, id: str, *measured: Any, source: str = "ours", said: Any = (), **how: Any) -> Claim:
    """The claim of a sentence, with values in it, on some rows; `measured` and `how` go to `Evidence.claim`."""
    section = next(name for name, some in SENTENCES.items() if id in some)
    return Evidence(rows, section, source).claim(id, SENTENCES[section][id].format(**dict(said)), *measured, **how)


def last(table: DataFrame, kind: str, name: str, column: str = "value") -> Series:
    """The value after the last layer, by run."""
    rows = table[(table.kind == kind) & (table.name == name)].sort_values("step")
    return rows.groupby("run")[column].last().astype(float)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about behaviour, layers, heads, silencing, the toy models, and controls."""
    every = table[table.part.isin(["language", "other words"])]
    language, other = (table[table.part == part] for part in ("language", "other words"))
    yield from about_answers(every)
    yield from about_layers(every)
    yield from about_heads(every, language, other)
    yield from about_silencing(language)
    yield from about_what_is_left(language)
    shares = of(table[table.part == "toy"], "toy", "share").min() - of(language, "share", column="high")
    yield told(language, "sharper_in_the_toy", shares, "distance of the toys' shares above the upper end here", above=0)
    yield from about_controls(table, every)


def about_answers(table: DataFrame) -> Iterator[Claim]:
    """Claims about the final answers."""
    said = {kind: last(table, "lens", kind).mean() for kind in ("true", "permuted")} | {"model": names(table)}
    lost, true = last(table, "gap", "true less permuted", "low"), last(table, "lens", "true", "low")
    random = of(table, "random over permuted", column="low")
    what = "lower end of the accuracy"
    yield told(table, "false_demonstrations_mislead", lost, f"{what} lost", above=0, said=said)
    yield told(table, "true_ones_teach", true, what, above=CHANCE)
    more = f"{what} with random labels above that with permuted ones"
    yield told(table, "a_consistent_lie_misleads_more", random, more, above=0)


def about_layers(table: DataFrame) -> Iterator[Claim]:
    """Claims about where the gap begins, and about the answers of earlier layers."""
    early, lost = of(table, "first third", column="high"), of(table, "overthinking")
    yield told(table, "alike_in_the_first_third", early, "upper end of the gap", below=ALIKE)
    share = of(table, "critical") / of(table, "layers")
    yield told(table, "the_gap_comes_late", share, "share of the layers", at_least=0.5, source="paper")
    also = [bound("lower end of it", of(table, "overthinking", column="low"), above=0)]
    yield told(table, "false_labels_overthink", lost, "accuracy lost by thinking on", at_least=THOUGHT, also=also)


def about_heads(table: DataFrame, language: DataFrame, other: DataFrame) -> Iterator[Claim]:
    """Claims about the heads that attend to the labels of similar words."""
    mixed = of(table, "classes mixed").groupby(level=0).max()
    above = of(table, "chosen").groupby(level=0).min() - mixed
    yield told(table, "false_induction_heads", above, "score above that with classes mixed", above=0)
    again, share = shared(language, other), "share of the chosen heads"
    yield told(language, "the_same_heads_in_other_words", again, share, at_least=MOST)
    induction = of(language, "induction heads") / of(language, "induction heads", column="other")
    yield told(language, "they_are_induction_heads", induction, share, at_least=MOST)
    middle = language[language.kind == "chosen"].groupby("run").step.median() / of(language, "layers")
    yield told(language, "the_heads_are_late", middle, "share of the layers", above=0.5)


def shared(language: DataFrame, other: DataFrame) -> list[float]:
    """The share of the chosen heads that are also chosen with other words, for every pair of runs of the same model."""
    by_run = (rows[rows.kind == "chosen"].groupby("run") for rows in (language, other))
    chosen, again = ([(run.model.iloc[0], set(run["name"])) for _, run in runs] for runs in by_run)
    return [len(one & beside) / len(one) for model, one in chosen for same, beside in again if model == same]


def about_silencing(table: DataFrame) -> Iterator[Claim]:
    """Claims about the gap without the chosen heads, compared with random ones."""
    controls = {"silencing_narrows_the_gap": "random", "more_than_the_same_layers": "same layers"}
    for id, control in controls.items():
        more = of(table, "beyond", control, "low")
        yield told(table, id, more, "lower end of what more is taken of the gap", above=0)
    means = [of(table, "without: narrowed", "top", "low") - of_draws(table, kind) for kind in controls.values()]
    also = [bound("that above the mean of sets of the same layers", means[1], above=0)]
    what = "lower end of what is taken of the gap above the mean of random sets"
    yield told(table, "more_than_random_on_average", means[0], what, above=0, also=also)


def about_what_is_left(table: DataFrame) -> Iterator[Claim]:
    """Claims about how much of the gap the heads carry, the cost of silencing, and late attention."""
    share, lost = of(table, "share"), of(table, "true lost", column="high")
    yield told(table, "as_much_as_in_gpt_j", share, "share of the gap", at_least=GPT_J, source="paper")
    yield told(table, "true_answers_are_spared", lost, "upper end of the accuracy lost", below=SPARED)
    mlps, whole = (of(table, "late attention", name, "low") for name in ("over mlps", "over whole"))
    also = [bound("lower end of that above the whole", whole, above=0)]
    what = "lower end of the accuracy above that without MLPs"
    yield told(table, "late_attention_not_mlps", mlps, what, above=0, also=also)


def of_draws(table: DataFrame, control: str) -> Series:
    """By how much random sets of a kind narrow the gap on average, by run."""
    rows = table[(table.kind == "without: narrowed") & table.name.str.startswith(f"{control} ")]
    return rows.groupby("run").value.mean()


def about_controls(table: DataFrame, every: DataFrame) -> Iterator[Claim]:
    """Control claims, which state the conditions for the other claims to be meaningful."""
    hand, idle = (table[table.part == part] for part in ("by hand", "untrained"))
    first, gap = every[(every.kind == "gap") & (every.step == 0)], "true less permuted"
    exact = {
        "gap after the last layer": (last(hand, "gap", gap), 1),
        "share of the gap taken away": (of(hand, "share"), 1),
        "true answers lost": (of(hand, "true lost"), 0),
    }
    also = [bound(what, found, equals=value) for what, (found, value) in exact.items()]
    yield told(hand, "by_hand", of(hand, "chosen"), "score", at_least=0.999, also=also)
    yield told(first, "no_gap_before_attention", first.value, "gap", equals=0)
    ends = [last(idle, "gap", gap, column) for column in ("low", "high")]
    also = [bound("lower end", ends[0], at_most=0), bound("upper end", ends[1], at_least=0)]
    yield told(idle, "untrained", last(idle, "gap", gap), "gap", also=also)

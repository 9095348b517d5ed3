"""Claims on false demonstrations, from the table; what was chosen on some texts is judged on others."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import names, of

CHANCE = 1 / 3
ALIKE = 0.05  # gap below which answers count as alike (ours)
THOUGHT = 0.1  # accuracy lost from an earlier layer to the last (ours)
GPT_J = 0.3898  # share of the gap that five heads of GPT-J carry (paper)
SPARED = 0.05  # accuracy with true labels that may be lost (ours)
MOST = 0.6  # of the chosen heads (ours)


def last(table: DataFrame, kind: str, name: str, column: str = "value") -> Series:
    """The value after the last layer, by run."""
    rows = table[(table.kind == kind) & (table.name == name)].sort_values("step")
    return rows.groupby("run")[column].last().astype(float)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Behaviour, layers, heads, the effect of silencing them, the toys, and controls."""
    every = table[table.part.isin(["language", "other words"])]
    language, other = (table[table.part == part] for part in ("language", "other words"))
    yield from about_answers(every)
    yield from about_layers(every)
    yield from about_heads(every, language, other)
    yield from about_silencing(language)
    yield from about_what_is_left(language)
    yield from about_toys(language, table[table.part == "toy"])
    yield from about_controls(table, every)


def about_answers(table: DataFrame) -> Iterator[Claim]:
    """The answers at the end."""
    evidence = Evidence(table, "2")
    ends = [last(table, "lens", kind).mean() for kind in ("true", "permuted")]
    yield evidence.claim(
        "false_demonstrations_mislead",
        f"{names(table)} answers worse after demonstrations with permuted labels than after true ones (paper: .452 to "
        ".389 of GPT-2 small, .561 to .402 of Pythia-410M, .695 to .344 of GPT-J; here "
        f"{ends[0]:.3f} to {ends[1]:.3f}).",
        last(table, "gap", "true less permuted", "low"),
        "lower end of the accuracy lost",
        above=0,
    )
    yield evidence.claim(
        "true_ones_teach",
        "After demonstrations with true labels the model answers better than by chance.",
        last(table, "lens", "true", "low"),
        "lower end of the accuracy",
        above=CHANCE,
    )
    yield evidence.claim(
        "a_consistent_lie_misleads_more",
        "Labels that are false in the same way for a whole class mislead more than random labels, from which nothing "
        "can be learnt.",
        of(table, "random over permuted", column="low"),
        "lower end of the accuracy with random labels above that with permuted ones",
        above=0,
    )


def about_layers(table: DataFrame) -> Iterator[Claim]:
    """Where the gap begins, and what earlier layers answer."""
    yield Evidence(table, "3").claim(
        "alike_in_the_first_third",
        "In the first third of the layers answers do not depend on whether demonstrations are true: the mean gap there "
        "is small (upper end of its 95 % interval).",
        of(table, "first third", column="high"),
        "upper end of the gap",
        below=ALIKE,
    )
    yield Evidence(table, "3", source="paper").claim(
        "the_gap_comes_late",
        "The critical layer, after which half of the gap is there, is in the second half of the model (paper: after 8 "
        "layers of 12, 12 of 24 and 14 of 28).",
        of(table, "critical") / of(table, "layers"),
        "share of the layers",
        at_least=0.5,
    )
    yield Evidence(table, "3").claim(
        "false_labels_overthink",
        "With permuted labels an earlier layer, chosen on other texts, answers better than the last (paper: .63 after "
        "layer 5 and .36 at the end of GPT-2 small, .91 and .08 of GPT-J, on words of three kinds).",
        of(table, "overthinking"),
        "accuracy lost by thinking on",
        at_least=THOUGHT,
        also=[bound("lower end of it", of(table, "overthinking", column="low"), above=0)],
    )


def about_heads(table: DataFrame, language: DataFrame, other: DataFrame) -> Iterator[Claim]:
    """The heads that attend to the labels of similar words."""
    floor = of(table, "classes mixed").groupby(level=0).max()
    yield Evidence(table, "4").claim(
        "false_induction_heads",
        "Five heads attend from the colon to labels of words of the query's class more than to others: on held-out "
        "texts, all five score higher than any head does with shuffled classes (ten times).",
        of(table, "chosen").groupby(level=0).min() - floor,
        "score above that with classes mixed",
        above=0,
    )
    yield Evidence(language, "4").claim(
        "the_same_heads_in_other_words",
        "At least three of the five false induction heads are the same for other words of other kinds.",
        shared(language, other),
        "share of the chosen heads",
        at_least=MOST,
    )
    yield Evidence(language, "4").claim(
        "they_are_induction_heads",
        "At least three of the five false induction heads are among the eight highest on repeated random tokens.",
        of(language, "induction heads") / of(language, "induction heads", column="other"),
        "share of the chosen heads",
        at_least=MOST,
    )
    middle = language[language.kind == "chosen"].groupby("run").step.median()
    yield Evidence(language, "4").claim(
        "the_heads_are_late",
        "The median layer of the five false induction heads is in the second half of the model (paper: they are in "
        "late layers).",
        middle / of(language, "layers"),
        "share of the layers",
        above=0.5,
    )


def shared(language: DataFrame, other: DataFrame) -> list[float]:
    """The share of the chosen heads that are also chosen with other words, for every pair of runs of the same model."""
    chosen, again = (heads_of(rows[rows.kind == "chosen"]) for rows in (language, other))
    return [len(one & beside) / len(one) for model, one in chosen for same, beside in again if model == same]


def heads_of(rows: DataFrame) -> list[tuple[str, set[str]]]:
    """The model and the heads of every run."""
    return [(run.model.iloc[0], set(run["name"])) for _, run in rows.groupby("run")]


def about_silencing(table: DataFrame) -> Iterator[Claim]:
    """The gap without the chosen heads, compared with random ones."""
    for id, control, rivals in (
        ("silencing_narrows_the_gap", "random", "ten random sets of five heads"),
        ("more_than_the_same_layers", "same layers", "ten sets of five heads of the same layers"),
    ):
        yield Evidence(table, "4").claim(
            id,
            f"With the five false induction heads silenced the gap narrows more than with the best of {rivals}.",
            of(table, "beyond", control, "low"),
            "lower end of what more is taken of the gap",
            above=0,
        )
    means = [of(table, "without: narrowed", "top", "low") - of_draws(table, kind) for kind in ("random", "same layers")]
    yield Evidence(table, "4").claim(
        "more_than_random_on_average",
        "With the five false induction heads silenced the gap narrows more than with random sets of five heads on "
        "average, as in the paper's comparison (GPT-J: 39.0 % and 4.0 %), and more than with sets of the same layers.",
        means[0],
        "lower end of what is taken of the gap above the mean of random sets",
        above=0,
        also=[bound("that above the mean of sets of the same layers", means[1], above=0)],
    )


def about_what_is_left(table: DataFrame) -> Iterator[Claim]:
    """How much of the gap the heads carry, what silencing costs, and what late attention does."""
    yield Evidence(table, "4", source="paper").claim(
        "as_much_as_in_gpt_j",
        "The five false induction heads carry as large a share of the gap as five heads of GPT-J do (39.0 %).",
        of(table, "share"),
        "share of the gap",
        at_least=GPT_J,
    )
    yield Evidence(table, "4").claim(
        "true_answers_are_spared",
        "With the five false induction heads silenced, little accuracy is lost after true labels (paper: .013).",
        of(table, "true lost", column="high"),
        "upper end of the accuracy lost",
        below=SPARED,
    )
    yield Evidence(table, "4").claim(
        "late_attention_not_mlps",
        "With permuted labels, ablating late attention (of the critical layer and later ones) raises accuracy above "
        "that of the intact model and of one with late MLPs ablated (paper, GPT-J: .374 intact, .476 without late "
        "attention, .380 without late MLPs).",
        of(table, "late attention", "over mlps", "low"),
        "lower end of the accuracy above that without MLPs",
        above=0,
        also=[bound("lower end of that above the whole", of(table, "late attention", "over whole", "low"), above=0)],
    )


def of_draws(table: DataFrame, control: str) -> Series:
    """By how much random sets of a kind narrow the gap on average, by run."""
    rows = table[(table.kind == "without: narrowed") & table.name.str.startswith(f"{control} ")]
    return rows.groupby("run").value.mean()


def about_toys(language: DataFrame, toys: DataFrame) -> Iterator[Claim]:
    """A comparison with the toy study's committed table."""
    yield Evidence(language, "beyond").claim(
        "sharper_in_the_toy",
        "In small models that know classes by their weights and read the context (the table of `false_demonstrations`) "
        "silencing two heads of eight removes a larger share of the gap, in every seed, than silencing five does here.",
        of(toys, "toy", "share").min() - of(language, "share", column="high"),
        "distance of the toys' shares above the upper end here",
        above=0,
    )


def about_controls(table: DataFrame, every: DataFrame) -> Iterator[Claim]:
    """The conditions under which the other claims mean anything."""
    hand, idle = (table[table.part == part] for part in ("by hand", "untrained"))
    yield Evidence(hand, "control (ours)").claim(
        "by_hand",
        "In a hand-set model the head that copies false labels has a score of 1. Without it the whole gap is gone, and "
        "true answers are as before.",
        of(hand, "chosen"),
        "score",
        at_least=0.999,
        also=[
            bound("gap after the last layer", last(hand, "gap", "true less permuted"), equals=1),
            bound("share of the gap taken away", of(hand, "share"), equals=1),
            bound("true answers lost", of(hand, "true lost"), equals=0),
        ],
    )
    first = every[(every.kind == "gap") & (every.step == 0)]
    yield Evidence(first, "control (ours)").claim(
        "no_gap_before_attention",
        "Before the first layer there is no gap, because all answers are read off the same colon.",
        first.value,
        "gap",
        equals=0,
    )
    ends = [last(idle, "gap", "true less permuted", column) for column in ("low", "high")]
    yield Evidence(idle, "control (ours)").claim(
        "untrained",
        "At initial weights there is no gap at the end (95 %).",
        last(idle, "gap", "true less permuted"),
        "gap",
        also=[bound("lower end", ends[0], at_most=0), bound("upper end", ends[1], at_least=0)],
    )

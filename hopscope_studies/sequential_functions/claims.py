"""The claims of Campbell et al. (2023), and ours on the variant, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, bound

#: Trivial predictions of the next label.
TRIVIAL = ("the last label", "minus the last label", "the label before the last")
CLEAN, RANDOM = "clean labels", "random labels"


def last(table: DataFrame, who: str, share: float = 0.0) -> Series:
    """The error of a model or reference at the last place, with a share of random labels, by seed."""
    kind = table.kind.isin(["model", "reference"])
    rows = table[kind & (table.who == who) & (table.share == share)]
    return rows[rows.place == rows.place.max()].set_index("seed").error.sort_index()


def models(table: DataFrame, who: str = CLEAN) -> DataFrame:
    """The rows of a kind of model, as evidence for a claim."""
    return table[(table.kind == "model") & (table.who == who)]


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims on the source's own setting, on clean and on random labels, and the controls."""
    yield from settings(table)
    yield from clean(table)
    yield from random(table)
    yield from controls(table)


def settings(table: DataFrame) -> Iterator[Claim]:
    """Claims that show why we use a variant: a trivial prediction beats the source's model there, and fails here."""
    rows = table[(table.kind == "source") & (table.place >= 4)]
    errors = rows.pivot_table(index=["seed", "place"], columns="who", values="error")
    released = errors.get("released model", Series(dtype=float))
    yield Evidence(rows, "released code").claim(
        "source_is_degenerate",
        "On the linear sequences of the paper's own code, from the fourth place on, repeating the value two places "
        "before has a smaller error than the paper's released model.",
        errors.get("two places before", Series(dtype=float)) / released,
        "error over the released model's",
        below=1.0,
    )
    trivial = [last(table, name) / last(table, "zero") for name in TRIVIAL]
    yield Evidence(table[table.who.isin(TRIVIAL)], "ours").claim(
        "here_trivial_predictions_fail",
        "On our sequences, predicting the last label, its negative or the one before it has a larger error than 0.",
        [ratio for ratios in trivial for ratio in ratios],
        "error over that of 0 at the last place",
        above=1.0,
    )


def clean(table: DataFrame) -> Iterator[Claim]:
    """Claims about models trained and tested on genuine labels."""
    mine = last(table, CLEAN)
    yield Evidence(models(table), "abstract").claim(
        "learnt_in_context",
        "A transformer learns a function in context, from the sequence that the function generates (paper: its error "
        "falls to .07).",
        mine / last(table, "zero"),
        "error over that of 0 at the last place",
        below=0.2,
    )
    yield Evidence(models(table), "ours").claim(
        "near_least_squares_at_the_end",
        "At the last place the transformer's error is less than .2 above that of least squares.",
        mine - last(table, "least squares"),
        "error less that of least squares",
        below=0.2,
    )
    at_peak = peak(table, CLEAN) / peak(table, "least squares")
    yield Evidence(models(table), "ours").claim(
        "no_peak",
        "At the place with as many labels as unknowns, the error of least squares peaks, but the transformer's error "
        "is less than half of it and still falls.",
        at_peak,
        "error over that of least squares there",
        below=0.5,
        also=[
            bound("error there over that at the place before", peak(table, CLEAN) / peak(table, CLEAN, -1), below=1.0)
        ],
    )
    yield Evidence(models(table), "ours").claim(
        "above_the_posterior_mean",
        "The transformer's error stays above that of the posterior mean, which is the lowest possible, but by less "
        "than .15.",
        mine - last(table, "posterior mean"),
        "error less that of the posterior mean at the last place",
        below=0.15,
        also=[bound("error over the posterior mean's", mine / last(table, "posterior mean"), above=1.0)],
    )


def peak(table: DataFrame, who: str, offset: int = 0) -> Series:
    """The error at the place where least squares is worst on average, or at an offset from it, by seed."""
    kind = table.kind.isin(["model", "reference"]) & (table.share == 0)
    squares = table[kind & (table.who == "least squares")].groupby("place").error.mean()
    place = float(str(squares.idxmax())) + offset if len(squares) else 0.0
    return table[kind & (table.who == who) & (table.place == place)].set_index("seed").error.sort_index()


def random(table: DataFrame) -> Iterator[Claim]:
    """Claims about models tested, and trained, with random labels among the genuine ones."""
    shares = sorted(table[table.kind == "model"].share.unique())
    rises = [last(table, CLEAN, more) - last(table, CLEAN, less) for less, more in pairwise(shares)]
    yield Evidence(models(table), "abstract", source="paper").claim(
        "random_labels_cost",
        "The more labels are random, the worse the answers of a model trained on genuine ones (paper: they degrade).",
        [rise for each in rises for rise in each],
        "rise of the error from one share of random labels to the next",
        above=0.0,
    )
    at = shares[1] if len(shares) > 1 else 0.0
    yield Evidence(models(table), "abstract").claim(
        "less_than_least_squares_pays",
        "If a quarter of the labels are random, this costs the transformer less than it costs least squares (paper: "
        "less than one might expect).",
        slope(table, CLEAN, at) / slope(table, "least squares", at),
        "rise of its error over that of least squares",
        below=1.0,
    )
    both = [last(table, RANDOM, share) / last(table, CLEAN, share) for share in shares[1:]]
    yield Evidence(models(table, RANDOM), "ours").claim(
        "training_with_them_helps",
        "A model that saw random labels in training is harmed less by them than a model that did not.",
        [ratio for each in both for ratio in each],
        "error over that of a model trained on genuine labels",
        below=1.0,
    )
    yield Evidence(models(table, RANDOM), "ours").claim(
        "below_ridge_with_random_labels",
        "A model trained on random labels has a lower error than ridge regression, which takes all labels as genuine.",
        last(table, RANDOM, at) / last(table, "ridge", at),
        "error over that of ridge regression",
        below=1.0,
        also=[
            bound(
                "error over that of the posterior mean",
                last(table, RANDOM, at) / last(table, "posterior mean", at),
                at_least=1.0,
                of="mean",
            )
        ],
    )


def slope(table: DataFrame, who: str, share: float) -> Series:
    """The rise of the error with a share of random labels, by seed."""
    return last(table, who, share) - last(table, who)


def controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims: a hand-set network with known answers, an untrained one, and foreign examples."""
    kind = table.kind == "reference"
    pairs = table[kind].pivot_table(index=["seed", "share", "place"], columns="who", values="error")
    yield Evidence(table[kind & (table.who == "one step by hand")], "ours").claim(
        "by_hand_is_a_step_of_descent",
        "Positive control: at every place, a hand-set transformer has the error of one step of gradient descent that "
        "is computed without attention.",
        pairs.get("one step by hand", Series(dtype=float)) / pairs.get("one step of descent", Series(dtype=float)),
        "error over that of the step",
        within=around(1.0, 1e-4),
    )
    yield Evidence(models(table, "untrained"), "ours").claim(
        "untrained_knows_nothing",
        "Control: an untrained transformer is no better than predicting 0.",
        last(table, "untrained") / last(table, "zero"),
        "error over that of 0",
        at_least=0.95,
    )
    lost = table[(table.kind == "foreign") & (table.who == CLEAN)]
    yield Evidence(lost, "ours").claim(
        "foreign_examples_tell_nothing",
        "Control: after the examples of another function, the trained transformer is no better than predicting 0.",
        lost.set_index("seed").error.sort_index() / last(table, "zero"),
        "error over that of 0",
        at_least=0.95,
    )

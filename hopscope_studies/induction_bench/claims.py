"""Claims on finding rules: by an exact learner, by scripted models, and by language models beyond shuffled examples."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.benchmark_claims import ends, of, plainly, tested
from hopscope.experiments.judging import Claim, Evidence, bound

ERRORS = 4  # standard errors that chance hardly ever exceeds, in a dozen numbers (ours)
ALMOST_NONE = 0.2  # that the upper end of an interval of 20 functions can stay below (ours)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Learner and scripted models first: without them no number of a language model says anything."""
    yield from about_the_learner(table[table.part == "learner"])
    yield from about_scripts(table[table.part == "scripted"])
    yield from about_models(table[table.part == "language"])


def about_the_learner(rows: DataFrame) -> Iterator[Claim]:
    """The exact learner on all examples, and on half of them."""
    whole = rows[(rows.labels == "true") & (rows.measure != "unseen strings")]
    yield Evidence(whole, "3").claim(
        "learner_exact",
        "A symbolic learner that sees a characteristic sample states all rules of a string function, and nothing else.",
        whole.value,
        "recall, precision and compatibility",
        at_least=1.0,
    )
    unseen = of(rows, "unseen strings", labels="true")
    yield Evidence(unseen, "3").claim(
        "learner_right_on_unseen_strings",
        "The symbolic learner's rules are right on strings of twelve letters, longer than any example.",
        unseen.value,
        "share of strings",
        at_least=1.0,
    )
    half = of(rows, "recall", labels="half")
    yield Evidence(half, "3").claim(
        "half_the_examples_are_too_few",
        "From a random half of the examples the symbolic learner finds fewer rules.",
        half.value,
        "recall",
        also=[bound("upper end of its interval", half.high, below=1.0)],
        below=1.0,
    )


def about_scripts(rows: DataFrame) -> Iterator[Claim]:
    """Scripted models, whose scores are known beforehand."""
    oracle = rows[(rows.model == "known:oracle") & (rows.labels != "true beyond shuffled")]
    yield Evidence(oracle, "4").claim(
        "whoever_knows_scores_one",
        "Control: a scripted model that states the right rules scores 1 in every measure, by strict and lenient "
        "reading.",
        oracle.value,
        "measure",
        at_least=1.0,
    )
    guesses = rows[(rows.model == "known:uniform") & rows.labels.isin(["true", "shuffled"]) & rows.chance.notna()]
    error = (guesses.chance * (1 - guesses.chance) / guesses.n) ** 0.5  # of 0 and 1; of shares it is smaller
    inside = (guesses.value - guesses.chance).abs() <= ERRORS * error
    yield Evidence(guesses, "4").claim(
        "guessing_scores_chance",
        "Control: a scripted model that states R of the M possible rules at random scores what its chances predict "
        "(R / M for each rule).",
        inside,
        "means within four standard errors of the closed form",
        of="share of",
        equals=1.0,
    )


def about_models(rows: DataFrame) -> Iterator[Claim]:
    """Language models."""
    names = " and ".join(sorted(set(rows.model)))
    small = rows["size"].str.endswith("(2, 3, 2)")
    large = of(rows[~small], "compatibility", labels="true", protocol="greedy_lenient")
    yield Evidence(large, "4").claim(
        "compatibility_near_zero",
        f"{names} hardly ever states rules that reproduce all examples of the larger functions (paper: Llama-3.1-8B "
        "never does).",
        large.value,
        "compatibility, by lenient reading,",
        also=[bound("upper end of its interval", large.high, below=ALMOST_NONE)],
        below=ALMOST_NONE,
    )
    for id, sentence, layout, protocol, measure in (
        ("recall_beyond_shuffled", "states more right rules", "plain", "greedy_lenient", "recall"),
        ("recall_beyond_shuffled_after_examples", "states more right rules after two solved functions",
         "few_shot", "greedy_lenient", "recall"),
        ("chooses_beyond_shuffled", "more often finds the right one of four sets of rules likeliest",
         "few_shot", "log_likelihood", "choice"),
    ):  # fmt: skip
        some = of(rows[small], measure, labels="true beyond shuffled", protocol=protocol)
        some = plainly(some)[0] if layout == "plain" else some[some.layout == layout]
        said = f"{names} {sentence} with true examples than with the examples' outputs shuffled."
        if len(some):  # what was not asked is not judged
            yield tested(id, said, some, "functions", "4")
    strict = of(rows[small], "valid", labels="true", protocol="greedy_strict")
    (plain, how), shown = plainly(strict), strict[strict.layout == "few_shot"]
    if len(plain):
        yield Evidence(strict, "4").claim(
            "form_needs_examples",
            f"{names} answers in the requested form after two solved functions, and not {how}.",
            ends(shown),
            "end of the interval of the format rate after two solved functions",
            number=float(shown.value.mean()),
            also=[bound(f"end of that {how}", ends(plain), below=0.5, unanimous=True)],
            above=0.5,
            unanimous=True,
        )

"""Claims on finding rules: by an exact learner, by scripted models, and by language models beyond shuffled examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.experiments.benchmark_claims import ends, of, plainly, tested
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import names

ERRORS = 4  # standard errors that chance hardly ever exceeds, in a dozen numbers (ours)
ALMOST_NONE = 0.2  # that the upper end of an interval of 20 functions can stay below (ours)
HALF = 0.5  # share of answers in the right form (ours)

#: What is claimed, by id; `{model}` is the model asked.
SENTENCES = {
    "learner_exact": "A symbolic learner that sees a characteristic sample states all rules of a string function, and "
    "nothing else.",
    "learner_right_on_unseen_strings": "The symbolic learner's rules are right on strings of twelve letters, longer "
    "than any example.",
    "half_the_examples_are_too_few": "From a random half of the examples the symbolic learner finds fewer rules.",
    "whoever_knows_scores_one": "Control: a scripted model that states the right rules scores 1 in every measure, by "
    "strict and lenient reading.",
    "guessing_scores_chance": "Control: a scripted model that states R of the M possible rules at random scores what "
    "its chances predict (R / M for each rule).",
    "compatibility_near_zero": "{model} hardly ever states rules that reproduce all examples of the larger functions "
    "(paper: Llama-3.1-8B never does).",
    "recall_beyond_shuffled": "{model} states more right rules with true examples than with the examples' outputs "
    "shuffled.",
    "recall_beyond_shuffled_after_examples": "{model} states more right rules after two solved functions with true "
    "examples than with the examples' outputs shuffled.",
    "chooses_beyond_shuffled": "{model} more often finds the right one of four sets of rules likeliest with true "
    "examples than with the examples' outputs shuffled.",
    "form_needs_examples": "{model} answers in the requested form after two solved functions, and not {how}.",
}


def claims(table: DataFrame) -> Iterator[Claim]:
    """Learner and scripted models first: without them no number of a language model says anything."""
    yield from about_the_learner(table[table.part == "learner"])
    yield from about_scripts(table[table.part == "scripted"])
    yield from about_models(table[table.part == "language"])


def told(rows: DataFrame, section: str, id: str, *measured: Any, how: str = "", **limits: Any) -> Claim:
    """A claim; the further arguments are those of `Evidence.claim`, but for `how` a model was asked."""
    return Evidence(rows, section).claim(id, SENTENCES[id].format(model=names(rows), how=how), *measured, **limits)


def about_the_learner(rows: DataFrame) -> Iterator[Claim]:
    """The exact learner on all examples, and on half of them."""
    whole = rows[(rows.labels == "true") & (rows.measure != "unseen strings")]
    unseen, half = of(rows, "unseen strings", labels="true"), of(rows, "recall", labels="half")
    yield told(whole, "3", "learner_exact", whole.value, "recall, precision and compatibility", at_least=1.0)
    yield told(unseen, "3", "learner_right_on_unseen_strings", unseen.value, "share of strings", at_least=1.0)
    fewer = [bound("upper end of its interval", half.high, below=1.0)]
    yield told(half, "3", "half_the_examples_are_too_few", half.value, "recall", also=fewer, below=1.0)


def about_scripts(rows: DataFrame) -> Iterator[Claim]:
    """Scripted models, whose scores are known beforehand."""
    rows = rows[rows.labels != "true beyond shuffled"]
    oracle, guesses = (rows[rows.model == f"known:{kind}"] for kind in ("oracle", "uniform"))
    yield told(oracle, "4", "whoever_knows_scores_one", oracle.value, "measure", at_least=1.0)
    guesses = guesses[guesses.chance.notna()]
    error = (guesses.chance * (1 - guesses.chance) / guesses.n) ** 0.5  # of 0 and 1; of shares it is smaller
    inside = (guesses.value - guesses.chance).abs() <= ERRORS * error
    what = "means within four standard errors of the closed form"
    yield told(guesses, "4", "guessing_scores_chance", inside, what, of="share of", equals=1.0)


def about_models(rows: DataFrame) -> Iterator[Claim]:
    """Language models; what was not asked is not judged."""
    small = rows[rows["size"].str.endswith("(2, 3, 2)")]
    large = of(rows.drop(small.index), "compatibility", labels="true", protocol="greedy_lenient")
    few = [bound("upper end of its interval", large.high, below=ALMOST_NONE)]
    what = "compatibility, by lenient reading,"
    yield told(large, "4", "compatibility_near_zero", large.value, what, also=few, below=ALMOST_NONE)
    recall = of(small, "recall", labels="true beyond shuffled", protocol="greedy_lenient")
    choice = of(small, "choice", labels="true beyond shuffled", layout="few_shot")
    for id, some in (
        ("recall_beyond_shuffled", plainly(recall)[0]),
        ("recall_beyond_shuffled_after_examples", recall[recall.layout == "few_shot"]),
        ("chooses_beyond_shuffled", choice),
    ):
        if len(some):
            yield tested(id, SENTENCES[id].format(model=names(rows)), some, "functions", "4")
    strict = of(small, "valid", labels="true", protocol="greedy_strict")
    (plain, how), shown = plainly(strict), strict[strict.layout == "few_shot"]
    id, what = "form_needs_examples", "end of the interval of the format rate after two solved functions"
    mean, not_so = float(shown.value.mean()), [bound(f"end of that {how}", ends(plain), below=HALF, unanimous=True)]
    if len(plain):
        yield told(strict, "4", id, ends(shown), what, how=how, number=mean, also=not_so, above=HALF, unanimous=True)

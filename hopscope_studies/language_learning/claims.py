"""The claims of `language_learning`: the paper's sentences and ours, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pandas import DataFrame, Series

from hopscope.experiments import quantities
from hopscope.experiments.judging import Claim, around, bound
from hopscope.experiments.quantities import of

PAPER = "Akyürek et al. (2024)"
NGRAM, PLAIN, LINEAR = "n-gram heads", "softmax", "linear"


about = partial(quantities.about, section=PAPER)


def claims(table: DataFrame) -> Iterator[Claim]:
    """In the order of the study's page."""
    yield from about_heads(table)
    yield from about_recurrence(table)
    yield from about_floors(table)


def about_heads(table: DataFrame) -> Iterator[Claim]:
    """N-gram heads, plain attention, and the table of 3-grams."""
    ngram, plain, three = (
        of(table, NGRAM, "distance"),
        of(table, PLAIN, "distance"),
        of(table, NGRAM, "3-gram distance"),
    )
    yield about(
        "n_gram_heads_help",
        "Two layers with three n-gram heads come nearer to the automaton's language than with softmax heads alone, "
        f"after equally many steps (total variation {ngram.mean():.3f} and {plain.mean():.3f}; in the paper n-gram "
        "heads close the gap to the n-gram predictors, and take 1.14, or 6.7 %, off the perplexity of a language "
        "model of 340 million parameters).",
        (plain - ngram).dropna(),
        "softmax's distance less that with n-gram heads",
        table,
        (NGRAM, PLAIN),
        above=0.02,
        section=f"{PAPER}, section 6",
    )
    yield about(
        "as_good_as_the_table",
        "A model with three n-gram heads comes as near to the automaton's language as the in-context 3-gram model "
        f"({three.mean():.3f}).",
        ngram - three,
        "the model's distance less the 3-gram model's",
        table,
        (NGRAM,),
        within=around(0, 0.02),
        also=[bound("legal symbols less the 3-gram's", legal(table, NGRAM), within=around(0, 0.03))],
    )
    yield about(
        "attention_alone_is_below",
        "A model with softmax attention alone stays below the in-context 3-gram model after as many steps (legal "
        f"symbols {of(table, PLAIN, 'legal').mean():.3f} and {of(table, PLAIN, '3-gram legal').mean():.3f}).",
        legal(table, PLAIN),
        "legal symbols less the 3-gram's",
        table,
        (PLAIN,),
        below=-0.02,
    )


def legal(table: DataFrame, kind: str) -> Series:
    """How much oftener than the 3-gram model's a kind's likeliest symbol is legal."""
    return of(table, kind, "legal") - of(table, kind, "3-gram legal")


def about_recurrence(table: DataFrame) -> Iterator[Claim]:
    """Linear attention, which is a recurrent model."""
    plain, linear = of(table, PLAIN, "distance"), of(table, LINEAR, "distance")
    yield about(
        "recurrence_is_below_attention",
        "A model with linear attention, a recurrence, stays farther from the automaton's language than one with "
        f"softmax attention ({linear.mean():.3f} and {plain.mean():.3f}; paper: attention is ahead of recurrent and "
        "state-space models).",
        (linear - plain).dropna(),
        "its distance less softmax's",
        table,
        (PLAIN, LINEAR),
        above=0,
        provided=bound("the number of its seeds", len(linear), at_least=5),
        section=f"{PAPER}, section 4",
    )


def about_floors(table: DataFrame) -> Iterator[Claim]:
    """What can be known without a model, and without training."""
    one, three = (of(table, NGRAM, f"{order}-gram legal") for order in (1, 3))
    yield about(
        "longer_contexts_are_legal",
        "The in-context 3-gram model names symbols that the automaton allows more often than the 1-gram model does "
        f"({three.mean():.3f} and {one.mean():.3f}).",
        three - one,
        "share of legal symbols, 3-gram less 1-gram",
        table,
        (NGRAM,),
        above=0.05,
        source="ours; long strings, after five of them: 0.96 and 0.48",
    )
    source = of(table, NGRAM, "source loss")
    yield about(
        "the_source_is_far",
        "A model with n-gram heads stays far above the loss of a predictor that knows the automaton "
        f"({source.mean():.3f} nats).",
        of(table, NGRAM, "loss") - source,
        "expected loss less the source's entropy, nats",
        table,
        (NGRAM,),
        above=0.1,
    )
    untrained = table[(table.kind == PLAIN) & (table.quantity == "course distance") & (table.step == 0)]
    yield about(
        "untrained_knows_nothing",
        "Control: before training a model's distance from the automaton's language is that of an even guess.",
        untrained.groupby("seed").value.last(),
        "distance",
        table,
        (PLAIN,),
        above=0.8,
    )

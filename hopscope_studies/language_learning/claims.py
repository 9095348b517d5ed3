"""The claims of `language_learning`, about the paper's statements and our own, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, around, bound
from hopscope.experiments.quantities import Quantities

PAPER = "Akyürek et al. (2024)"
NGRAM, PLAIN, LINEAR = "n-gram heads", "softmax", "linear"


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims, in the order of the study's page."""
    told = Quantities(table, PAPER)
    yield from about_heads(told)
    yield from about_recurrence(told)
    yield from about_floors(told)


def about_heads(told: Quantities) -> Iterator[Claim]:
    """Claims about n-gram heads, plain attention, and the 3-gram model."""
    ngram, plain, three = (
        told.of(NGRAM, "distance"),
        told.of(PLAIN, "distance"),
        told.of(NGRAM, "3-gram distance"),
    )
    yield told.claim(
        "n_gram_heads_help",
        "After as many steps, a two-layer model with three n-gram heads comes nearer to the automaton's next-symbol "
        "distribution than one with softmax heads alone (paper: n-gram heads close the gap to n-gram predictors).",
        (plain - ngram).dropna(),
        "softmax's distance less that with n-gram heads",
        (NGRAM, PLAIN),
        above=0.02,
        section=f"{PAPER}, section 6",
    )
    yield told.claim(
        "as_good_as_the_table",
        "A model with three n-gram heads comes as near to the automaton's next-symbol distribution as a 3-gram model "
        "counted in the context.",
        ngram - three,
        "the model's distance less the 3-gram model's",
        (NGRAM,),
        within=around(0, 0.02),
        also=[bound("legal symbols less the 3-gram's", legal(told, NGRAM), within=around(0, 0.03))],
    )
    yield told.claim(
        "attention_alone_is_below",
        "A model with softmax attention alone predicts a symbol that the automaton allows less often than a 3-gram "
        "model counted in the context.",
        legal(told, PLAIN),
        "legal symbols less the 3-gram's",
        (PLAIN,),
        below=-0.02,
    )


def legal(told: Quantities, kind: str) -> Series:
    """How much more often a kind's likeliest symbol is legal than the 3-gram model's, by seed."""
    return told.of(kind, "legal") - told.of(kind, "3-gram legal")


def about_recurrence(told: Quantities) -> Iterator[Claim]:
    """The claim about linear attention, which is a recurrent model."""
    plain, linear = told.of(PLAIN, "distance"), told.of(LINEAR, "distance")
    yield told.claim(
        "recurrence_is_below_attention",
        "A model with linear attention, a recurrence, stays farther from the automaton's next-symbol distribution than "
        "one with softmax attention (paper: attention is ahead of recurrent and state-space models).",
        (linear - plain).dropna(),
        "excess of its distance over softmax's",
        (PLAIN, LINEAR),
        above=0,
        provided=bound("the number of its seeds", len(linear), at_least=5),
        section=f"{PAPER}, section 4",
    )


def about_floors(told: Quantities) -> Iterator[Claim]:
    """Claims about n-gram models, the automaton's own law, and models before training."""
    one, three = (told.of(NGRAM, f"{order}-gram legal") for order in (1, 3))
    yield told.claim(
        "longer_contexts_are_legal",
        "A 3-gram model counted in the context predicts an allowed symbol more often than a 1-gram model does.",
        three - one,
        "share of legal symbols, 3-gram less 1-gram",
        (NGRAM,),
        above=0.05,
        source="ours; long strings, after five of them: 0.96 and 0.48",
    )
    source = told.of(NGRAM, "source loss")
    yield told.claim(
        "the_source_is_far",
        "The loss of a model with three n-gram heads stays far above that of a predictor that knows the automaton.",
        told.of(NGRAM, "loss") - source,
        "expected loss less the source's entropy, nats",
        (NGRAM,),
        above=0.1,
    )
    course = told.course(PLAIN, "course distance")
    yield told.claim(
        "untrained_knows_nothing",
        "Control: before training a model is as far from the automaton's next-symbol distribution as a uniform guess.",
        course[course.step == 0].groupby("seed").value.last(),
        "distance",
        (PLAIN,),
        above=0.8,
    )

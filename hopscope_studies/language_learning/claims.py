"""The claims of `language_learning`, about the paper's statements and our own, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, Series

from hopscope.core.intervals import interval_of_mean
from hopscope.experiments.judging import Claim, around, bound
from hopscope.experiments.quantities import Quantities

PAPER = "Akyürek et al. (2024)"
NGRAM, PLAIN, LINEAR, SHIFT = "n-gram heads", "softmax", "linear", "KV shift"
CONVOLVED, LSTM = ("state space", "delta rule"), "LSTM"
LAST = 0.2  # share of the steps over which a run that has converged hardly improves
#: Sections of the paper whose statements are judged, by the claim's id; all other claims are ours.
SECTIONS = {"n_gram_heads_help": 6} | dict.fromkeys(
    ("recurrence_is_below_attention", "convolved_beat_softmax", "lstm_is_below_attention"), 4
)
#: What is claimed, by id.
SENTENCES = {
    "n_gram_heads_help": "After the same number of steps, a two-layer model with three n-gram heads comes nearer to "
    "the automaton's next-symbol distribution than one with softmax heads alone (paper: n-gram heads close the gap to "
    "n-gram predictors).",
    "as_good_as_the_table": "A model with three n-gram heads comes as near to the automaton's next-symbol distribution "
    "as a 3-gram model counted in the context.",
    "attention_alone_is_below": "A model with softmax attention alone predicts a symbol that the automaton allows less "
    "often than a 3-gram model counted in the context.",
    "recurrence_is_below_attention": "A model with linear attention, a recurrence, stays farther from the automaton's "
    "next-symbol distribution than one with softmax attention (paper: attention is ahead of recurrent and state-space "
    "models).",
    "shift_is_enough": "Two layers of KV shifting attention come as near to the automaton's next-symbol distribution "
    "as a 2-gram model counted in the context.",
    "n_gram_heads_beyond_shift": "A model with three n-gram heads comes nearer to the automaton's next-symbol "
    "distribution than one with KV shifting attention.",
    "convolved_beat_softmax": "A state space and a delta rule, each with a short convolution, come nearer to the "
    "automaton's next-symbol distribution than softmax attention does (paper: attention is ahead of them).",
    "lstm_is_below_attention": "An LSTM stays farther from the automaton's next-symbol distribution than softmax "
    "attention does (paper: attention is ahead of recurrent models).",
    "softmax_stays": "Softmax attention alone comes no nearer to the automaton's next-symbol distribution in the last "
    "seven eighths of its steps.",
    "all_have_converged": "No model comes much nearer to the automaton's next-symbol distribution in the last fifth of "
    "its steps.",
    "untrained_knows_nothing": "Control: before training a model is as far from the automaton's next-symbol "
    "distribution as a uniform guess.",
}


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims, in the order of the study's page; those on rivals only where there are any."""
    told, kinds = Quantities(table, "ours"), tuple(dict.fromkeys(table.kind))
    yield from about_attention(told)
    if SHIFT in kinds:
        yield from about_rivals(told)
        falls = [each for kind in kinds for each in fall(told, kind, LAST)]
        yield said(told, "all_have_converged", falls, kinds, "fall of the distance", below=0.01)
    courses = (told.course(kind, "course distance") for kind in kinds)
    starts = [value for course in courses for value in course[course.step == 0].value]
    yield said(told, "untrained_knows_nothing", starts, kinds, "distance", above=0.8)


def about_attention(told: Quantities) -> Iterator[Claim]:
    """Claims about n-gram heads, softmax and linear attention, which every scale has."""
    ngram, plain = told.of(NGRAM, "distance"), told.of(PLAIN, "distance")
    yield said(told, "n_gram_heads_help", (plain - ngram).dropna(), (NGRAM, PLAIN), above=0.02)
    what, away = "legal symbols less the 3-gram's", ngram - told.of(NGRAM, "3-gram distance")
    also = [bound(what, legal(told, NGRAM), within=around(0, 0.03))]
    yield said(told, "as_good_as_the_table", away, (NGRAM,), within=around(0, 0.02), also=also)
    yield said(told, "attention_alone_is_below", legal(told, PLAIN), (PLAIN,), what, below=-0.02)
    yield more(told, "recurrence_is_below_attention", told.of(LINEAR, "distance") - plain, (PLAIN, LINEAR))


def about_rivals(told: Quantities) -> Iterator[Claim]:
    """Claims about rules with shifted keys or a convolution, about an LSTM, and about softmax attention over time."""
    ngram, plain, shift, lstm = (told.of(kind, "distance") for kind in (NGRAM, PLAIN, SHIFT, LSTM))
    yield said(told, "shift_is_enough", shift - told.of(SHIFT, "2-gram distance"), (SHIFT,), below=0.02)
    yield more(told, "n_gram_heads_beyond_shift", shift - ngram, (SHIFT, NGRAM), 0.02)
    gains = [gain for kind in CONVOLVED for gain in (plain - told.of(kind, "distance")).dropna()]
    yield said(told, "convolved_beat_softmax", gains, (PLAIN, *CONVOLVED), above=0.02)
    yield more(told, "lstm_is_below_attention", lstm - plain, (PLAIN, LSTM))
    yield said(told, "softmax_stays", fall(told, PLAIN, 7 / 8), (PLAIN,), "fall of the distance", below=0.02)


def said(told: Quantities, id: str, values: Any, kinds: tuple[str, ...], what: str = "difference", **how: Any) -> Claim:
    """One of `SENTENCES` as a claim."""
    section = f"{PAPER}, section {SECTIONS[id]}" if id in SECTIONS else ""
    return told.claim(id, SENTENCES[id], values, what, kinds, section=section, **how)


def more(told: Quantities, id: str, excess: Series, kinds: tuple[str, ...], than: float = 0.0) -> Claim:
    """A claim that the mean excess of a distance is above a bound, and so is the lower end of its interval."""
    each = excess.dropna()
    low, high = interval_of_mean(each.tolist())
    also = [bound(f"lower end of the 95 % interval ({low:.3f} to {high:.3f})", low, above=than)]
    enough = bound("the number of seeds", len(each), at_least=5)
    return said(told, id, each, kinds, of="mean", above=than, also=also, provided=enough)


def legal(told: Quantities, kind: str) -> Series:
    """How much more often a kind's likeliest symbol is legal than the 3-gram model's, by seed."""
    return told.of(kind, "legal") - told.of(kind, "3-gram legal")


def fall(told: Quantities, kind: str, share: float) -> Series:
    """By how much the distance falls in the last share of the steps, run by run."""
    rows = told.course(kind, "course distance")
    late = rows[rows.step >= (1 - share) * rows.step.max()].groupby("seed").value
    return late.first() - late.last()

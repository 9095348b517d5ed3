"""The claims of `text_by_attention`, judged from the table alone: differences from plain attention, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from pandas import DataFrame, Series

from hopscope.core.intervals import interval_of_mean
from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Claim, Evidence, telling

ALIKE = 0.02  # nats within which losses count as equal, as in the study `switch_head`
COPIES = 0.2  # induction score from which a head counts as an induction head
SURGE = 0.03  # nats by which a fall of the loss may exceed the fall before it without a phase change
EARLY = 200  # steps after which phase changes are looked for: the loss first falls to that of frequencies and pairs
#: What is claimed, by id.
SENTENCES = {
    "kv_shift_helps": "On text, KV shifting attention ends with a lower held-out loss than softmax attention with as "
    "many parameters and maps.",
    "kv_shift_is_sooner": "On text, KV shifting attention needs fewer steps than softmax attention to reach the "
    "held-out loss of a table of pairs of characters.",
    "one_layer_inducts": "On text, a head in the first layer of KV shifting attention becomes an induction head.",
    "kv_shift_copies": "A stretch of held-out text that was shown just before costs models with KV shifting attention "
    "less than after another stretch.",
    "shuffled_does_not": "Control: for no rule of attention does a stretch of held-out text cost less after its own "
    "characters in shuffled order than after another stretch.",
    "fewer_maps_are_enough": "On text, SwitchHead with half as many attention maps and as many parameters ends with "
    "the held-out loss of softmax attention.",
    "experts_matter": "Control: with as few maps and as many parameters as SwitchHead, softmax attention ends with a "
    "higher held-out loss than SwitchHead, so the experts make up for the maps.",
    "h_minus_one_helps": "On text, a mixture of h experts that each leave out one of h heads ends with a lower "
    "held-out loss than softmax attention with as many parameters.",
    "no_phase_change": "On text, the held-out loss has no phase change in any run: after the first 200 steps no fall "
    "between two logged losses is much larger than the fall before it.",
    "untrained_text": "Control: before training, every model's held-out loss on text is that of a guess among all "
    "characters.",
}
told = telling(SENTENCES)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about three rules, the course of losses, and controls; thresholds were committed before the runs."""
    ends = last(table)
    at_end = ends[ends.rule == "kv_shift"]
    yield compared("kv_shift_helps", ends, "softmax", "kv_shift", above=0.0)
    claim = partial(told, Evidence(at_end, "Xu et al., 2024", among=table))
    yield claim("kv_shift_is_sooner", less(sooner(table), "softmax", "kv_shift"), "steps saved", above=0)
    yield claim("one_layer_inducts", at_end.layer_0, "score of the best head", at_least=COPIES)
    copied = at_end.other - at_end.same
    yield told_interval("kv_shift_copies", at_end, copied, "loss after another less after itself", above=ALIKE)
    yield told(Evidence(ends, "control"), "shuffled_does_not", ends.other - ends.shuffled, "nats saved", below=ALIKE)
    yield compared("fewer_maps_are_enough", ends, "switch_head", "softmax", below=ALIKE)
    yield compared("experts_matter", ends, "softmax, 2 heads", "switch_head", above=0.0)
    yield compared("h_minus_one_helps", ends, "softmax", "h_minus_one", above=0.0)
    yield told(Evidence(ends, "ours"), "no_phase_change", surges(table), "growth of a fall (nats)", below=SURGE)
    starts = table[table.step == 0]
    off = (starts.loss - starts.guess).abs()
    yield told(Evidence(starts, "control"), "untrained_text", off, "difference (nats)", below=0.05)


def last(rows: DataFrame) -> DataFrame:
    """The rows of each run's last step."""
    return rows[rows.step == rows.groupby("run").step.transform("max")]


def less(values: Series, one: str, other: str) -> Series:
    """The values of one rule less those of another, by seed; both were trained on the same sequences."""
    each = values.unstack("rule").reindex(columns=[one, other])
    return (each[one] - each[other]).dropna()


def compared(id: str, ends: DataFrame, one: str, other: str, **limit: Any) -> Claim:
    """A claim on the difference of final held-out losses of two rules."""
    saved = less(ends.set_index(["rule", "seed"]).loss, one, other)
    return told_interval(id, ends[ends.rule.isin((one, other))], saved, f"{one} less {other} (nats)", **limit)


def told_interval(id: str, rows: DataFrame, values: Series, what: str, **limit: Any) -> Claim:
    """A claim that both ends of the 95 % interval of a mean are beyond a limit; undecided if the limit is within."""
    ends, said = interval_of_mean(values.tolist()), f"ends of the 95 % interval of the mean of {what}"
    how: dict[str, Any] = {"n": len(values), "number": float(values.mean()), "unanimous": True}
    return told(Evidence(rows, "ours"), id, ends, said, **how, **limit)


def sooner(table: DataFrame) -> Series:
    """The step at which each run's held-out loss falls below that of a table of pairs; ∞ if it never does."""
    by_run = table.groupby(["rule", "seed"])
    steps = by_run.apply(lambda rows: crossing(rows.step.tolist(), rows.loss.tolist(), float(rows.pairs.iloc[0])))
    return steps.fillna(math.inf)


def surges(table: DataFrame) -> Series:
    """By run, the most by which a fall of the held-out loss after the first steps exceeds the fall before it."""
    falls = -table.groupby("run").loss.diff()
    growth = falls.groupby(table.run).diff()
    return growth.where(table.step > EARLY).groupby(table.run).max()

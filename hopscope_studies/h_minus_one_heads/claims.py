"""The claims of `h_minus_one_heads`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from pandas import DataFrame

from hopscope.experiments.judging import Claim, Evidence, bound, telling

HEADS = 4  # of a layer, at `cpu`
UNEVEN = 0.9  # share of ln h below which gates count as uneven (ours)
TOLD = 0.8  # area from which a gate tells kinds apart (ours)
IN_TURN = "With gates and experts trained in turn, a mixture of h experts that each leave out one of h heads"
BEATS = IN_TURN + (
    " reaches a lower loss on fresh sequences than {}, by more than the latter's standard deviation over seeds."
)
#: What is claimed, by id.
SENTENCES = {
    "measures_know_gates_made_by_hand": "Control: the measures recognise hand-set gates that leave out one head for "
    "each kind of sequence, and uniform gates, which say nothing about the kind.",
    "in_turn_beats_plain": BEATS.format("plain attention of as many parameters"),
    "in_turn_beats_dropout": BEATS.format("dropout of one random head (a mixture with uniform gates)"),
    "in_turn_beats_jointly": BEATS.format("the same mixture trained jointly"),
    "gates_are_uneven": IN_TURN + " has uneven gates: in some layer their entropy is well below ln h, that of uniform "
    "gates.",
    "gates_tell_kinds_apart": "In a mixture of h experts that each leave out one of h heads, gates depend on the kind "
    "of sequence, and more so than before training.",
    "the_lightest_head_matters_least": "In a trained mixture of h experts that each leave out one of h heads, removing "
    "the head to which the gates give the least weight raises the loss less than removing a random head.",
    "untrained_models_guess": "Control: before training no model, with or without gates on its heads, does better than "
    "a guess.",
}
told = telling(SENTENCES)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the measures, three rivals, the gates, and a control."""
    ends = table[table.kind == "end"]
    yield by_hand_claim(table[table.kind == "by hand"])
    rivals = {"plain": "abstract (+0.8 BLEU)", "dropout": "ablations", "jointly": "ablations"}
    yield from (rival_claim(ends, rival, section) for rival, section in rivals.items())
    yield from gate_claims(of(ends, "in turn"), ends)
    starts = ends.drop_duplicates(["seed", "start_loss"])  # models of one shape and seed start alike
    claim = partial(told, Evidence(starts, "control"), "untrained_models_guess")
    yield claim(starts.start_loss / starts.guess, "loss at step 0, in times a guess's", above=0.95)


def of(ends: DataFrame, trained: str) -> DataFrame:
    """The rows of runs trained in one way."""
    return ends[ends.trained == trained]


def by_hand_claim(rows: DataFrame) -> Claim:
    """The control claim about the measures on hand-set gates."""
    hand, even = rows[rows.trained == "by hand"], rows[rows.trained == "even"]
    also = [
        bound("area of even gates", even.auc, equals=0.5),
        bound("distance of even gates", even["apart"], below=1e-6),
        bound("entropy of even gates", even.entropy, above=math.log(HEADS) - 1e-3),
    ]
    departures = [*(1 - hand.auc), *(1 - hand.apart), *hand.entropy, *hand.cost_least.abs()]
    claim = partial(told, Evidence(rows, "control", source="exact"), "measures_know_gates_made_by_hand")
    return claim(departures, "departure from what is known", below=1e-3, also=also)


def rival_claim(ends: DataFrame, rival: str, section: str) -> Claim:
    """The claim that held-out loss is below a rival's, seed by seed, by more than the rival's spread."""
    block, other = of(ends, "in turn"), of(ends, rival)
    saved = (other.set_index("seed").loss - block.set_index("seed").loss).dropna()
    spread = float(other.loss.std()) if len(other) > 1 else 0.0
    claim = partial(told, Evidence(block, section, among=ends), f"in_turn_beats_{rival}")
    return claim(saved, "nats saved", above=spread, of="mean")


def gate_claims(block: DataFrame, ends: DataFrame) -> Iterator[Claim]:
    """Claims that gates are uneven, depend on the kind of sequence, and leave out the least important heads."""
    claim = partial(told, Evidence(block, "analysis (experts specialise)", among=ends))
    yield claim("gates_are_uneven", block.entropy / math.log(HEADS), "entropy in shares of ln h", below=UNEVEN)
    further = bound("gain in distance", block["apart"] - block.start_apart, above=0)
    what = "area by which a gate tells the kind"
    yield claim("gates_tell_kinds_apart", block.auc, what, above=TOLD, also=[further])
    claim = partial(told, Evidence(block, "ours", among=ends), "the_lightest_head_matters_least")
    yield claim(block.cost_random - block.cost_least, "nats saved", above=0)

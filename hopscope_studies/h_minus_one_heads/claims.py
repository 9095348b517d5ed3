"""The claims of `h_minus_one_heads`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.judging import Claim, Evidence, bound

HEADS = 4  # of a layer, at `cpu`
UNEVEN = 0.9  # share of ln h below which gates count as uneven (ours)
TOLD = 0.8  # area from which a gate tells kinds apart (ours)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the measures, three rivals, the gates, and a control."""
    ends = table[table.kind == "end"]
    yield by_hand_claim(table[table.kind == "by hand"])
    yield rival_claim(ends, "plain", "plain attention of as many parameters", "abstract (+0.8 BLEU)")
    yield rival_claim(ends, "dropout", "dropout of one random head (a mixture with uniform gates)", "ablations")
    yield rival_claim(ends, "jointly", "the same mixture trained jointly", "ablations")
    yield from gate_claims(of(ends, "in turn"), ends)
    starts = ends.drop_duplicates(["seed", "start_loss"])  # models of one shape and seed start alike
    yield Evidence(starts, "control").claim(
        "untrained_models_guess",
        "Control: before training no model, with or without gates on its heads, does better than a guess.",
        starts.start_loss / starts.guess,
        "loss at step 0, in times a guess's",
        above=0.95,
    )


def of(ends: DataFrame, trained: str) -> DataFrame:
    """The rows of runs trained in one way."""
    return ends[ends.trained == trained]


def by_hand_claim(rows: DataFrame) -> Claim:
    """The control claim about the measures on hand-set gates."""
    hand, even = rows[rows.trained == "by hand"], rows[rows.trained == "even"]
    return Evidence(rows, "control", source="exact").claim(
        "measures_know_gates_made_by_hand",
        "Control: the measures recognise hand-set gates that leave out one head for each kind of sequence, and uniform "
        "gates, which say nothing about the kind.",
        [*(1 - hand.auc), *(1 - hand.apart), *hand.entropy, *hand.cost_least.abs()],
        "departure from what is known",
        below=1e-3,
        also=[
            bound("area of even gates", even.auc, equals=0.5),
            bound("distance of even gates", even["apart"], below=1e-6),
            bound("entropy of even gates", even.entropy, above=math.log(HEADS) - 1e-3),
        ],
    )


def rival_claim(ends: DataFrame, rival: str, words: str, section: str) -> Claim:
    """The claim that held-out loss is below a rival's, seed by seed, by more than the rival's spread."""
    block, other = of(ends, "in turn"), of(ends, rival)
    saved = (other.set_index("seed").loss - block.set_index("seed").loss).dropna()
    spread = float(other.loss.std()) if len(other) > 1 else 0.0
    return Evidence(block, section, among=ends).claim(
        f"in_turn_beats_{rival}",
        "With gates and experts trained in turn, a mixture of h experts that each leave out one of h heads reaches a "
        f"lower loss on fresh sequences than {words}, by more than the latter's standard deviation over seeds.",
        saved,
        "nats saved",
        above=spread,
        of="mean",
    )


def gate_claims(block: DataFrame, ends: DataFrame) -> Iterator[Claim]:
    """Claims that gates are uneven, depend on the kind of sequence, and leave out the least important heads."""
    yield Evidence(block, "analysis (experts specialise)", among=ends).claim(
        "gates_are_uneven",
        "With gates and experts trained in turn, a mixture of h experts that each leave out one of h heads has uneven "
        "gates: in some layer their entropy is well below ln h, that of uniform gates.",
        block.entropy / math.log(HEADS),
        "entropy in shares of ln h",
        below=UNEVEN,
    )
    yield Evidence(block, "analysis (experts specialise)", among=ends).claim(
        "gates_tell_kinds_apart",
        "In a mixture of h experts that each leave out one of h heads, gates depend on the kind of sequence, and more "
        "so than before training.",
        block.auc,
        "area by which a gate tells the kind",
        above=TOLD,
        also=[bound("gain in distance", block["apart"] - block.start_apart, above=0)],
    )
    yield Evidence(block, "ours", among=ends).claim(
        "the_lightest_head_matters_least",
        "In a trained mixture of h experts that each leave out one of h heads, removing the head to which the gates "
        "give the least weight raises the loss less than removing a random head.",
        block.cost_random - block.cost_least,
        "nats saved",
        above=0,
    )

"""The loop: hypotheses are proposed, tried on the examples that are shown, and proposed again; and who proposes.

In each of T rounds N hypotheses are proposed. The best so far goes back to the proposer, and the loop ends when one
gives every example rightly (Qiu et al., ICLR 2024, arXiv:2310.08559, section 2). Models that propose are scripted here:
each hypothesis is the right rule with probability p, by itself, and else a wrong one. While examples leave one rule and
are not noisy, the right one is then found with probability 1 − (1 − p)^(NT).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.base_hypotheses import Domain, Example

#: Given the best hypothesis so far ("" at first) and how many are wanted, hypotheses.
Proposer = Callable[[str, int], Sequence[str]]
PERCENT = 100


@dataclass(frozen=True)
class Refined:
    """What a loop came to.

    Attributes:
        rule: the best hypothesis; of equally good ones the first.
        fits: whether it gives every example rightly.
        rounds: that were needed.
        proposed: hypotheses that were tried.
    """

    rule: str
    fits: bool
    rounds: int
    proposed: int


def refine(world: Domain, examples: Sequence[Example], propose: Proposer, hypotheses: int, rounds: int) -> Refined:
    """Propose and try, until a hypothesis fits or rounds are spent.

    Args:
        world: whose rules they are.
        examples: that are shown, noisy or not.
        propose: the proposer.
        hypotheses: in a round, N.
        rounds: at most, T.
    """
    best, kept, tried = "", -1, 0
    for number in range(1, rounds + 1):
        for rule in propose(best, hypotheses):
            tried += 1
            if (right := world.kept(rule, examples)) > kept:
                best, kept = rule, right
        if kept == len(examples):
            return Refined(best, True, number, tried)
    return Refined(best, False, rounds, tried)


def scripted(world: Domain, right: str, percent: int, draw: Draw) -> Proposer:
    """A proposer that is right with a probability in percent, each time by itself; feedback does not move it."""
    wrong = [rule for rule in world.rules if rule != right]

    def one() -> str:
        return right if draw.below(PERCENT) < percent else wrong[draw.below(len(wrong))]

    return lambda _, wanted: [one() for _ in range(wanted)]


def found_by_chance(percent: int, hypotheses: int, rounds: int) -> float:
    """1 − (1 − p)^(NT)."""
    return 1 - (1 - percent / PERCENT) ** (hypotheses * rounds)


def spared(noise: int, examples: int) -> float:
    """(1 − e)^n: how often none of n examples is spoilt, of which each is with a probability in percent."""
    return (1 - noise / PERCENT) ** examples

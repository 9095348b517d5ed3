"""The loop: hypotheses are proposed, tried on the examples and proposed again; and scripted proposers.

In each of T rounds N hypotheses are proposed. The best so far goes back to the proposer, and the loop ends when a
hypothesis fits every example (Qiu et al., ICLR 2024, arXiv:2310.08559, section 2). Proposers are scripted here: each
hypothesis is the right rule with probability p, independently, and otherwise a wrong one. If the examples leave one
rule and are not noisy, the right rule is found with probability 1 − (1 − p)^(NT).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopscope.formulations.base_draw import Draw
from hopscope.language.domains.base import Domain, Example

#: Given the best hypothesis so far ("" at first) and how many are wanted, hypotheses.
Proposer = Callable[[str, int], Sequence[str]]
PERCENT = 100


@dataclass(frozen=True)
class Refined:
    """The result of a loop.

    Attributes:
        rule: the best hypothesis; of equally good ones the first.
        fits: whether it fits every example.
        rounds: the number of rounds that were used.
        proposed: the number of hypotheses that were tested.
    """

    rule: str
    fits: bool
    rounds: int
    proposed: int


def refine(world: Domain, examples: Sequence[Example], propose: Proposer, hypotheses: int, rounds: int) -> Refined:
    """Propose and test hypotheses until one fits or all rounds are used.

    Args:
        world: the domain of the rules.
        examples: the shown examples, noisy or not.
        propose: the proposer.
        hypotheses: number of hypotheses per round, N.
        rounds: the most rounds, T.
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
    """A proposer that is right with a probability in percent, independently each time; it ignores feedback."""
    wrong = [rule for rule in world.rules if rule != right]

    def one() -> str:
        return right if draw.below(PERCENT) < percent else wrong[draw.below(len(wrong))]

    return lambda _, wanted: [one() for _ in range(wanted)]


def found_by_chance(percent: int, hypotheses: int, rounds: int) -> float:
    """The probability that the loop finds the right rule, 1 − (1 − p)^(NT)."""
    return 1 - (1 - percent / PERCENT) ** (hypotheses * rounds)


def spared(noise: int, examples: int) -> float:
    """(1 − e)^n: the probability that none of n examples is corrupted; `noise` is e in percent."""
    return (1 - noise / PERCENT) ** examples

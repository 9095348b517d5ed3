"""Five templates of two hops with invented names, among distractors (after Guo et al., 2025, arXiv:2502.13913).

As in the task of symbols, the two facts of each chain a, b, c are interleaved at random, with each chain's order kept.
A question leaves the last word open. Two hops ask from a for c, and one hop asks from b for c in the same text. The
wordings are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.formulations.base_draw import Draw
from hopscope.problem.oracle import Fact, Problem

CHAINS = (1, 2, 3, 4)
ONSETS, VOWELS, CODAS = "bdfgklmnprstvz", "aeiou", "lmnrst"


@dataclass(frozen=True)
class Template:
    """The wordings of a template, with a, b and c for the symbols of a chain.

    Attributes:
        first: the wording of the fact from a to b.
        second: the wording of the fact from b to c.
        two: the beginning of a sentence from a that ends in c.
        one: the same from b.
    """

    first: str
    second: str
    two: str
    one: str


TEMPLATES: dict[str, Template] = {
    "mothers": Template(
        "{a} is the mother of {b}.",
        "{b} is the mother of {c}.",
        "Therefore, {a} is the grandmother of",
        "Therefore, {b} is the mother of",
    ),
    "places": Template(
        "{a} is a town in the province of {b}.",
        "{b} is a province of the country {c}.",
        "Therefore, {a} is a town in the country",
        "Therefore, {b} is a province of the country",
    ),
    "students": Template(
        "The student of {a} is {b}.",
        "The student of {b} is {c}.",
        "Therefore, the student of the student of {a} is",
        "Therefore, the student of {b} is",
    ),
    "owners": Template(
        "{a} works for {b}.",
        "{b} belongs to {c}.",
        "Therefore, the company that {a} works for belongs to",
        "Therefore, {b} belongs to",
    ),
    "kinds": Template(
        "Every {a} is a {b}.",
        "Every {b} is a {c}.",
        "Therefore, in two steps, every {a} is a",
        "Therefore, every {b} is a",
    ),
}


@dataclass(frozen=True)
class Asked:
    """One text with its two questions.

    Attributes:
        facts: the text.
        chains: names a, b, c of every chain; the first is asked about.
        two: the question of two hops, after the text.
        one: that of one hop.
        problem: the oracle, with the facts in their order.
    """

    facts: str
    chains: tuple[tuple[str, str, str], ...]
    two: str
    one: str
    problem: Problem

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers on offer: every chain's end, the right one first, then every chain's middle."""
        return (*(c for _, _, c in self.chains), *(b for _, b, _ in self.chains))

    def text(self, hops: int) -> str:
        """The text that the model continues with a space and a name."""
        return f"{self.facts} {self.one if hops == 1 else self.two}"


def asked(template: str, n_chains: int, seed: int, index: int) -> Asked:
    """Text number `index` of a template under a seed: equal arguments give equal bytes."""
    words, draw = (
        TEMPLATES[template],
        Draw("two_hop templates", {"template": template, "chains": n_chains}, seed, index),
    )
    names = distinct(draw, 3 * n_chains)
    chains = tuple((names[3 * i], names[3 * i + 1], names[3 * i + 2]) for i in range(n_chains))
    left = [[(words.first, i, 1), (words.second, i, 2)] for i in range(n_chains)]
    facts: list[tuple[str, int, int]] = []
    while open_ := [chain for chain in left if chain]:  # any order in which each chain's own order is kept
        facts.append(pick(draw, open_).pop(0))
    said = [wording.format(**named(chains[i])) for wording, i, _ in facts]
    steps = tuple(Fact((chains[i][hop - 1],), chains[i][hop], hop) for _, i, hop in facts)
    problem = Problem(steps, queries=chains[0][:2])
    two, one = (each.format(**named(chains[0])) for each in (words.two, words.one))
    return Asked(" ".join(said), chains, two, one, problem)


def pick(draw: Draw, open_: list[list[tuple[str, int, int]]]) -> list[tuple[str, int, int]]:
    """A random chain in proportion to its remaining facts, so that every interleaving is equally likely."""
    place = draw.below(sum(map(len, open_)))
    return next(chain for i, chain in enumerate(open_) if place < sum(map(len, open_[: i + 1])))


def named(chain: tuple[str, str, str]) -> dict[str, str]:
    """The names of a chain by letter."""
    return dict(zip("abc", chain, strict=True))


def distinct(draw: Draw, n: int) -> list[str]:
    """Different invented names of two syllables and a consonant, such as Dovan."""
    found: list[str] = []
    while len(found) < n:
        syllables = [ONSETS[draw.below(len(ONSETS))] + VOWELS[draw.below(len(VOWELS))] for _ in range(2)]
        name = ("".join(syllables) + CODAS[draw.below(len(CODAS))]).capitalize()
        if name not in found:
            found.append(name)
    return found

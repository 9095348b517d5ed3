"""Prompts with a hidden rule, in a familiar form and with the familiar answers replaced (Song et al., 2024).

Four kinds of prompts (arXiv:2408.09503 asks language models for such; words and numbers are ours):

- `copy`: six letters, and the first three of them again in the other case. Which is next? In the familiar form the
  letters are in the order of the alphabet.
- `names`: two people meet, and one of them gives something to the other. Symbols replace their names.
- `labels`: six words with the label animal or fruit, and a seventh word. Two symbols replace the labels.
- `pairs`: five countries with their capitals, and one of these countries again. Symbols replace the capitals.

    >>> print(prompt("pairs", "replaced", 0, 0).text)
    - Austria: ^
    - Iran: %
    - Russia: &
    - Iraq: @
    - Japan: =
    - Russia:

The model chooses among a few answers. If the examples are *shuffled* they say nothing about the right one, so that its
share is exactly `CHANCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mode
from string import ascii_lowercase

from hopscope.formulations.base_draw import Draw

FORMS = ("familiar", "replaced", "shuffled")  # the last has the answers replaced, too
CHANCE = {"copy": 1 / 3, "names": 1 / 2, "labels": 1 / 2, "pairs": 1 / 5}
LISTED, AGAIN, ALIKE, PAIRS = 6, 3, 3, 5  # letters, letters given twice, words of each label, countries

# Each of these words and symbols is one token of SmolLM2, with the space before it.
SYMBOLS = tuple("@#$%&+=~^?!§£€°×")
NAMES = (
    "Mary", "John", "Tom", "Anna", "James", "Peter", "Paul", "Alice", "Sarah", "David", "Emma", "Jack", "Kate", "Lucy",
    "Robert", "Jane",
)  # fmt: skip
PLACES, THINGS = ("store", "park", "school", "station"), ("book", "ring", "letter", "cup")
ANIMALS = ("wolf", "fox", "bear", "lion", "tiger", "rabbit", "mouse", "deer", "goat", "duck", "horse", "sheep")
FRUITS = ("apple", "banana", "orange", "lemon", "grape", "peach", "cherry", "pear", "mango")
CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Spain": "Madrid", "Germany": "Berlin", "Russia": "Moscow",
    "China": "Beijing", "Egypt": "Cairo", "England": "London", "Greece": "Athens", "Cuba": "Havana", "Peru": "Lima",
    "Ireland": "Dublin", "Austria": "Vienna", "Poland": "Warsaw", "Norway": "Oslo", "Canada": "Ottawa",
    "Sweden": "Stockholm", "Iraq": "Baghdad", "Iran": "Tehran",
}  # fmt: skip


@dataclass(frozen=True)
class Prompt:
    """A text to continue, the right answer, and all answers to choose from, in alphabetical order."""

    text: str
    answer: str
    choices: tuple[str, ...]


def prompt(kind: str, form: str, seed: int, index: int) -> Prompt:
    """Prompt number `index`, from 0, under a seed; the forms of one number differ in nothing else."""
    text, answer, choices = KINDS[kind](Draw(kind, {}, seed, index), form != "familiar", form == "shuffled")
    return Prompt(text, answer, tuple(sorted(choices)))


Made = tuple[str, str, Sequence[str]]


def some(draw: Draw, among: Sequence[str], count: int) -> list[str]:
    """Different items in random order."""
    return [among[at] for at in draw.permutation(len(among))[:count]]


def copy(draw: Draw, replaced: bool, shuffled: bool) -> Made:
    """Letters, and some of them again in the other case."""
    start, letters = draw.below(len(ascii_lowercase) - LISTED + 1), some(draw, ascii_lowercase, LISTED)
    if not replaced:
        letters = list(ascii_lowercase[start : start + LISTED])
    first, again = some(draw, letters, LISTED) if shuffled else letters, [letter.upper() for letter in letters]
    return f"One: {' '.join(first)}\nTwo: {' '.join(again[:AGAIN])}", again[AGAIN], again[AGAIN:]


def names(draw: Draw, replaced: bool, shuffled: bool) -> Made:
    """Two people, one of whom gives something to the other."""
    people, symbols = some(draw, NAMES, 2), some(draw, SYMBOLS, 2)
    (one, other), (gives, gets) = (symbols if replaced else people), draw.permutation(2)
    place, thing, giver = draw.below(len(PLACES)), draw.below(len(THINGS)), draw.below(2) if shuffled else gives
    said = f"Then {one} and {other} went to the {PLACES[place]}. {(one, other)[giver]} gave a {THINGS[thing]} to"
    return said, (one, other)[gets], (one, other)


def labels(draw: Draw, replaced: bool, shuffled: bool) -> Made:
    """Words of two groups with the label of their group, and one more word."""
    groups = some(draw, ANIMALS, ALIKE + 1), some(draw, FRUITS, ALIKE + 1)
    symbols, asked = some(draw, SYMBOLS, 2), draw.below(2)
    called = symbols if replaced else ["animal", "fruit"]
    shown = [(word, label) for group, label in zip(groups, called, strict=True) for word in group[1:]]
    shown = [shown[at] for at in draw.permutation(len(shown))]
    return listed(draw, shown, groups[asked][0], shuffled), called[asked], called


def pairs(draw: Draw, replaced: bool, shuffled: bool) -> Made:
    """Countries with their capitals, and one of them again."""
    countries, symbols = some(draw, tuple(CAPITALS), PAIRS), some(draw, SYMBOLS, PAIRS)
    values, asked = symbols if replaced else [CAPITALS[country] for country in countries], draw.below(PAIRS)
    return listed(draw, list(zip(countries, values, strict=True)), countries[asked], shuffled), values[asked], values


def listed(draw: Draw, shown: list[tuple[str, str]], asked: str, shuffled: bool) -> str:
    """A line for each word with its value, and the word that is asked for; `shuffled` permutes the values."""
    words, given = zip(*shown, strict=True)
    values = some(draw, given, len(given)) if shuffled else list(given)
    return "".join(f"- {word}: {value}\n" for word, value in zip(words, values, strict=True)) + f"- {asked}:"


KINDS: dict[str, Callable[[Draw, bool, bool], Made]] = {"copy": copy, "names": names, "labels": labels, "pairs": pairs}


def followed(kind: str, asked: Prompt) -> str:
    """The answer of a script that knows the kind's rule and reads nothing but the text and the choices.

    If the rule gives no answer to choose, it takes the first.
    """
    lines = asked.text.split("\n")
    if kind == "copy":
        first, again = (line.split()[1:] for line in lines)
        found = "".join(first[first.index(again[-1].lower()) + 1 :][:1]).upper()
    elif kind == "names":
        found = min(asked.choices, key=asked.text.split().count)
    else:
        shown, word = dict(line[2:].split(": ") for line in lines[:-1]), lines[-1][2:-1]
        alike = next((group for group in (ANIMALS, FRUITS) if word in group), (word,))
        found = mode(label for one, label in shown.items() if one in alike)
    return found if found in asked.choices else asked.choices[0]

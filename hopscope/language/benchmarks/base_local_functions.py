"""Input strictly local functions on strings: their rules, their outputs, examples that determine them, and a learner.

A function reads letters one by one. Its output for a letter depends on that letter and on at most the k − 1 letters
before it (Hua et al., InductionBench, 2025, arXiv:2502.15823, section 3; Chandlee, 2014). It is given by rules: a
suffix of 2 to k letters of the input read so far, and the output for its last letter, which is another letter or
nothing. No rule's suffix is a suffix of another rule's. A letter without a rule is copied.

All strings of up to k letters are a characteristic sample, from which `learned` finds the rules exactly. A suffix is a
rule if its output is the same after any prefix and is not a copy, and if no shorter suffix of it is a rule. This never
holds for a proper suffix v of a rule's suffix: as a whole string, v is copied, because no rule is a suffix of a rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product

from hopscope.formulations.base_draw import Draw
from hopscope.language.protocols.base import bare

#: The output for the last letter of each suffix.
Rules = Mapping[str, str]
EMPTY = "''"  # the empty output in the text of a rule
RULE = r"([a-z]+)\s*(?:->|→)\s*([a-z](?![a-z])|''|\"\")"


@lru_cache(maxsize=64)
def strings(letters: str, longest: int) -> tuple[str, ...]:
    """All strings of 1 to `longest` letters, sorted by length, then alphabetically."""
    return tuple("".join(s) for length in range(1, longest + 1) for s in product(letters, repeat=length))


@lru_cache(maxsize=64)
def all_rules(letters: str, k: int) -> tuple[tuple[str, str], ...]:
    """Every possible rule: suffixes of 2 to k letters, each with another letter or the empty output."""
    suffixes = (s for s in strings(letters, k) if len(s) > 1)
    return tuple((suffix, written) for suffix in suffixes for written in outputs(letters, suffix))


def outputs(letters: str, suffix: str) -> list[str]:
    """The possible outputs of a rule for a suffix: all but a copy."""
    return [*(letter for letter in letters if letter != suffix[-1]), ""]


def drawn(draw: Draw, letters: str, k: int, count: int) -> dict[str, str]:
    """A random function with `count` rules, at most len(letters)²: one suffix of k letters, then any that fit."""
    rules: dict[str, str] = {}
    while len(rules) < count:
        free = [s for s in strings(letters, k) if len(s) > 1 and not any(clash(s, other) for other in rules)]
        some = free if rules else [s for s in free if len(s) == k]
        suffix = some[draw.below(len(some))]
        written = outputs(letters, suffix)
        rules[suffix] = written[draw.below(len(written))]
    return in_order(rules)


def clash(one: str, other: str) -> bool:
    """Whether one suffix is a suffix of the other."""
    return one.endswith(other) or other.endswith(one)


def in_order(rules: Rules) -> dict[str, str]:
    """The same rules, sorted by length of their suffixes, then alphabetically."""
    return {suffix: rules[suffix] for suffix in sorted(rules, key=lambda s: (len(s), s))}


def applied(rules: Rules, text: str) -> str:
    """The output of a function for a string; if several rules match, the longest one applies."""
    return "".join(written_for(rules, text[: end + 1]) for end in range(len(text)))


def written_for(rules: Rules, read: str) -> str:
    """The output for the last letter of the input read so far."""
    suffixes = (read[start:] for start in range(len(read) - 1))
    return next((rules[suffix] for suffix in suffixes if suffix in rules), read[-1])


def learned(examples: Mapping[str, str], k: int) -> dict[str, str]:
    """The rules that follow from examples: exactly the function's, if they include all strings of up to k letters.

    Args:
        examples: the output for each string.
        k: the most letters of a rule.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    for string, written in last_letters(examples):
        for start in range(max(0, len(string) - k), len(string) - 1):
            seen[string[start:]].add(written)
    rules: dict[str, str] = {}
    for suffix in sorted(seen, key=lambda s: (len(s), s)):
        constant = len(seen[suffix]) == 1 and seen[suffix] != {suffix[-1]}
        if constant and not any(suffix.endswith(shorter) for shorter in rules):
            (rules[suffix],) = seen[suffix]
    return rules


def last_letters(examples: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The output for the last letter of each string, if the output for the letters before it is known."""
    known = {"": "", **examples}
    for string, written in examples.items():
        before = known.get(string[:-1])
        if before is not None and written.startswith(before):
            yield string, written[len(before) :]


# Rules as text --------------------------------------------------------------------------------------------------------


def as_text(rules: Rules) -> str:
    """Rules as text: `ab -> c, bca -> ''`."""
    return ", ".join(f"{suffix} -> {written or EMPTY}" for suffix, written in rules.items())


def read_rules(text: str, letters: str, k: int) -> list[tuple[str, str]] | None:
    """The rules in a text that has nothing else, separated by commas, semicolons or line ends; otherwise None.

    A full stop at the end is allowed.
    """
    pieces = [piece.strip() for piece in re.split(r"[,;\n]", bare(text))]
    matches = [re.fullmatch(RULE, piece) for piece in pieces if piece]
    rules = [rule_of(match) for match in matches if match is not None]
    whole = bool(rules) and len(rules) == len(matches) and all(is_rule(rule, letters, k) for rule in rules)
    return list(dict.fromkeys(rules)) if whole else None


def rules_in(text: str, letters: str, k: int) -> list[tuple[str, str]]:
    """The rules that occur anywhere in a text, each once."""
    rules: Iterable[tuple[str, str]] = map(rule_of, re.finditer(rf"(?<![a-z]){RULE}", text))
    return list(dict.fromkeys(rule for rule in rules if is_rule(rule, letters, k)))


def rule_of(match: re.Match[str]) -> tuple[str, str]:
    """The suffix and the output of a match of `RULE`."""
    return match[1], match[2].strip("'\"")


def is_rule(rule: tuple[str, str], letters: str, k: int) -> bool:
    """Whether it is one of `all_rules`."""
    suffix, written = rule
    fits = 2 <= len(suffix) <= k and set(suffix) <= set(letters)
    return fits and written != suffix[-1] and (not written or written in letters)

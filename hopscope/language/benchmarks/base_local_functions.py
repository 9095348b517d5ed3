"""Input strictly local functions on strings: rules, what they write, which examples show them, and who learns them.

A function reads letters one by one. What it writes for a letter depends on that letter and on the k − 1 before it at
most (Hua et al., InductionBench, 2025, arXiv:2502.15823, section 3; Chandlee, 2014). It is told by rules: a suffix of
what was read, of 2 to k letters, and what is then written in place of its last letter, another letter or none. No
rule's suffix is one of another's, and what no rule is for is copied.

All strings of up to k letters are a characteristic sample: `learned` finds the rules exactly. A suffix is a rule if the
same is written, and no copy, whatever stands before it, and if that is so of no shorter one. It never is of a proper
suffix v of a rule's: alone, v is copied, for no rule is a suffix of a rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product

from hopscope.formulations.base_draw import Draw
from hopscope.language.protocols.base import bare

#: What is written for the last letter of each suffix.
Rules = Mapping[str, str]
EMPTY = "''"  # nothing, in a rule that is written down
RULE = r"([a-z]+)\s*(?:->|→)\s*([a-z](?![a-z])|''|\"\")"


@lru_cache(maxsize=64)
def strings(letters: str, longest: int) -> tuple[str, ...]:
    """All strings of 1 to `longest` letters, the shortest first, then by alphabet."""
    return tuple("".join(s) for length in range(1, longest + 1) for s in product(letters, repeat=length))


@lru_cache(maxsize=64)
def all_rules(letters: str, k: int) -> tuple[tuple[str, str], ...]:
    """Every rule that there may be: suffixes of 2 to k letters, each with another letter or none."""
    suffixes = (s for s in strings(letters, k) if len(s) > 1)
    return tuple((suffix, written) for suffix in suffixes for written in outputs(letters, suffix))


def outputs(letters: str, suffix: str) -> list[str]:
    """What a rule may write for a suffix: all but the copy."""
    return [*(letter for letter in letters if letter != suffix[-1]), ""]


def drawn(draw: Draw, letters: str, k: int, count: int) -> dict[str, str]:
    """A function with so many rules, at most len(letters)²: one of k letters, then any that may stand beside it."""
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
    """The same rules, the shortest first, then by alphabet."""
    return {suffix: rules[suffix] for suffix in sorted(rules, key=lambda s: (len(s), s))}


def applied(rules: Rules, text: str) -> str:
    """What a function writes for a string; of several rules the longest counts."""
    return "".join(written_for(rules, text[: end + 1]) for end in range(len(text)))


def written_for(rules: Rules, read: str) -> str:
    """What is written for the last letter of what has been read."""
    suffixes = (read[start:] for start in range(len(read) - 1))
    return next((rules[suffix] for suffix in suffixes if suffix in rules), read[-1])


def learned(examples: Mapping[str, str], k: int) -> dict[str, str]:
    """The rules that examples show: exactly the function's, if all strings of up to k letters are among them.

    Args:
        examples: what is written for each string.
        k: how far the function looks.
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
    """What is written for the last letter of each string: that of the string without what is written before it."""
    known = {"": "", **examples}
    for string, written in examples.items():
        before = known.get(string[:-1])
        if before is not None and written.startswith(before):
            yield string, written[len(before) :]


# Rules as text --------------------------------------------------------------------------------------------------------


def as_text(rules: Rules) -> str:
    """`ab -> c, bca -> ''`."""
    return ", ".join(f"{suffix} -> {written or EMPTY}" for suffix, written in rules.items())


def read_rules(text: str, letters: str, k: int) -> list[tuple[str, str]] | None:
    """The rules that a text consists of, separated by commas, semicolons or lines; None if it is anything else.

    One full stop at the end is forgiven.
    """
    pieces = [piece.strip() for piece in re.split(r"[,;\n]", bare(text))]
    found = [re.fullmatch(RULE, piece) for piece in pieces if piece]
    rules = [rule_of(match) for match in found if match is not None]
    whole = bool(rules) and len(rules) == len(found) and all(is_rule(rule, letters, k) for rule in rules)
    return list(dict.fromkeys(rules)) if whole else None


def rules_in(text: str, letters: str, k: int) -> list[tuple[str, str]]:
    """The rules that stand anywhere in a text, each once."""
    rules: Iterable[tuple[str, str]] = map(rule_of, re.finditer(rf"(?<![a-z]){RULE}", text))
    return list(dict.fromkeys(rule for rule in rules if is_rule(rule, letters, k)))


def rule_of(match: re.Match[str]) -> tuple[str, str]:
    """A rule that was found in a text."""
    return match[1], match[2].strip("'\"")


def is_rule(rule: tuple[str, str], letters: str, k: int) -> bool:
    """Whether it is one of `all_rules`."""
    suffix, written = rule
    fits = 2 <= len(suffix) <= k and set(suffix) <= set(letters)
    return fits and written != suffix[-1] and (not written or written in letters)

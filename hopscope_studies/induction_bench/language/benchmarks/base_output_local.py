"""Output strictly local functions: their outputs, the shortest examples that determine them, and a learner.

A function reads letters one by one. Its output for a letter depends on that letter and on at most the k − 1 letters
written before it (Hua et al., InductionBench, 2025, arXiv:2502.15823, section 3; Chandlee, Eyraud and Heinz, 2015).
Rules look as those of input strictly local functions: a context and a letter, and what is written for the letter.

The last k − 1 letters written are the function's state. A characteristic sample has the shortest input to every state
that the function reaches, followed by every letter. Other rules than these cannot be told from any examples: a context
that is never written is no state. A set of rules is *shown* if every suffix of the context of every rule is a state.
Then no other set of as many rules or fewer agrees with it on the sample, and `learned` finds it:

- For a rule's suffix s the sample has the state that s continues, so that another set of rules has to write the same
  there, by s or by a shorter suffix v of s.
- v is none of the rules, because no rule's suffix is a suffix of another's. So at the state that v continues its last
  letter is copied in the sample, and no rule for v agrees with that.
"""

from __future__ import annotations

from collections.abc import Mapping

from hopscope.language.benchmarks.base_local_functions import Rules, last_letters, written_for


def applied(rules: Rules, text: str) -> str:
    """The output of a function for a string, which is read from left to right."""
    written = ""
    for letter in text:
        written += written_for(rules, written + letter)
    return written


def sample(rules: Rules, letters: str, k: int) -> dict[str, str]:
    """The characteristic sample: inputs in order of length, then alphabetically, and their outputs."""
    states, shortest, examples = {""}, [""], {}
    for string in shortest:  # which grows
        for longer in (string + letter for letter in letters):
            examples[longer] = applied(rules, longer)
            state = examples[longer][1 - k :]
            if state not in states:
                states.add(state)
                shortest.append(longer)
    return examples


def is_shown(rules: Rules, letters: str, k: int) -> bool:
    """Whether every suffix of every rule's context is a state, so that the sample determines the rules."""
    states = {written[1 - k :] for written in sample(rules, letters, k).values()}
    return all(suffix[start:-1] in states for suffix in rules for start in range(len(suffix) - 1))


def learned(examples: Mapping[str, str], k: int) -> dict[str, str]:
    """The rules that follow from examples: exactly the function's, if they include its characteristic sample.

    A context and a letter are a rule if the letter was not copied after this context, and if no shorter rule says so.

    Args:
        examples: the output for each string.
        k: the most letters of a rule.
    """
    seen = {examples.get(s[:-1], "")[1 - k :] + s[-1]: written for s, written in last_letters(examples)}
    rules: dict[str, str] = {}
    for suffix in sorted(seen, key=lambda s: (len(s), s)):
        if seen[suffix] != suffix[-1] and not any(suffix.endswith(shorter) for shorter in rules):
            rules[suffix] = seen[suffix]
    return rules

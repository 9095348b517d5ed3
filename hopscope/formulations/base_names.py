"""Names shared by formulations, in the paper's order (Musat, ICLR 2025, appendix A), followed by ours."""

from __future__ import annotations

import string


def listed(names: str) -> tuple[str, ...]:
    """Names from a text in which spaces separate them."""
    return tuple(names.split())


#: Appendix A.1 and A.4 use a, b, c … without gaps.
LETTERS = tuple(string.ascii_lowercase + string.ascii_uppercase)
#: Appendix A.2 and A.3 use Alice … Tom, one for each letter; the names from Ursula on are ours.
PEOPLE = listed(
    """
    Alice Bob Charlie David Eve Frank Grace Henry Isabelle Jack Kate Larry Mary Nick Olivia Peter Queen Rose Sam Tom
    Ursula Victor Wendy Xavier Yvonne Zach
    Adam Beth Clara Dana Emil Felix Gina Hugo Irene James Karen Leo Martin Nora Oscar Paula Quentin Ruth Simon Tina
    Ulrich Vera William Ximena Yusuf Zoe
    """
)

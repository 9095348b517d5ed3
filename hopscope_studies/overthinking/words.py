"""Our own words, in sets of three kinds: `unnatural`, and another.

Halawi et al. (2023, arXiv:2307.09476, section 2) made `unnatural` of thirty plants, sports and animals, after Rong
(2021, "Extrapolating to unnatural language processing with GPT-3's in-context learning"). None of the words here is
theirs.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

#: The labels of each set, each with its words.
SETS: dict[str, dict[str, tuple[str, ...]]] = {
    name: {label: tuple(words.split()) for label, words in kinds.items()}
    for name, kinds in tomllib.loads((Path(__file__).parent / "data" / "words.toml").read_text()).items()
}

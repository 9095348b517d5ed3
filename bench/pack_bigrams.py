"""Packs a text's bigram counts into the package: `python -m bench.pack_bigrams tinyshakespeare.txt`.

Writes hopscope_studies/birth/data/tinyshakespeare_bigrams.json, which the task `trigger_bigrams` draws from. The text
is the 1,115,394 characters of Shakespeare's plays (public domain) known as tiny Shakespeare, the corpus of the
published figures; of it only the counts are kept, so nobody needs the text.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

from hopscope.core.storage import write_file

ASSET = Path(__file__).parents[1] / "hopscope_studies" / "birth" / "data" / "tinyshakespeare_bigrams.json"
SOURCE = (
    "Bigram counts of tiny Shakespeare: 1,115,394 characters of Shakespeare's plays (public domain), as collected by "
    "A. Karpathy (char-rnn). Row: a character; column: the one after it. Made by bench/pack_bigrams.py."
)


def pack(text: str) -> str:
    """The asset: source, characters in order of their code points, and a row of counts per character."""
    characters, counts = sorted(set(text)), Counter(pairwise(text))
    rows = [[counts[first, second] for second in characters] for first in characters]
    lines = ",\n  ".join(str(row).replace(" ", "") for row in rows)
    head = f'"source": {json.dumps(SOURCE)},\n "characters": {json.dumps("".join(characters))}'
    return f'{{{head},\n "counts": [\n  {lines}\n ]}}\n'


if __name__ == "__main__":
    write_file(ASSET, pack(Path(sys.argv[1]).read_text()).encode())

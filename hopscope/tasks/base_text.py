"""A text as tokens: its characters, or byte pairs merged out of them (Gage, 1994; Sennrich et al., ACL 2016)."""

from __future__ import annotations

import bz2
from functools import cache
from pathlib import Path

import numpy
from jaxtyping import Int

from hopscope.core.settings import BadInput

#: Tiny Shakespeare: 1,115,394 characters of Shakespeare's plays (public domain), as collected by A. Karpathy in
#: github.com/karpathy/char-rnn (data/tinyshakespeare/input.txt), compressed; not a character is changed.
PLAYS = Path(__file__).parents[1] / "assets" / "tinyshakespeare.txt.bz2"

#: Different tokens where byte pairs are merged: all pairs of them are counted at once.
MOST = 8192

Tokens = Int[numpy.ndarray, "place"]


class Corpus:
    """A text, cut in two by position, as tokens. What is merged is counted in the first part alone.

    Attributes:
        symbols: the characters that each token stands for.
        parts: the tokens of `training`, the beginning, and of `held_out`, the rest. Their characters are the text's.
    """

    def __init__(self, text: str, held_out: float, merges: int):
        """Raises BadInput for more merges than can be counted, or than there are pairs that come twice."""
        cut = int(len(text) * (1 - held_out))
        self.symbols = sorted(set(text))
        if merges and len(self.symbols) + merges > MOST:
            raise BadInput(f"merges and different characters, {len(self.symbols)} here, must be at most {MOST} in all")
        self.pairs: list[tuple[int, int]] = []
        training = self.encode(text[:cut])
        for _ in range(merges):
            pair = commonest(training, len(self.symbols))
            if pair is None:
                raise BadInput(f"merges must be at most {len(self.pairs)} for this text, then no pair comes twice")
            training = merged(training, pair, len(self.symbols))
            self.pairs.append(pair)
            self.symbols.append(self.symbols[pair[0]] + self.symbols[pair[1]])
        self.parts = {"training": training, "held_out": self.encode(text[cut:])}

    def encode(self, text: str) -> Tokens:
        """Tokens of a text: the pairs merged in the order in which they were found. Raises BadInput."""
        numbers = {symbol: number for number, symbol in enumerate(self.symbols) if len(symbol) == 1}
        if unknown := sorted(set(text) - numbers.keys()):
            raise BadInput(f"{unknown[0]!r} is no character of the text; write with those that it has")
        tokens = numpy.array([numbers[character] for character in text], dtype=numpy.int64)
        for number, pair in enumerate(self.pairs, len(numbers)):
            tokens = merged(tokens, pair, number)
        return tokens

    def decode(self, tokens: list[int]) -> str:
        """The inverse of `encode`."""
        return "".join(self.symbols[token] for token in tokens)


def commonest(tokens: Tokens, n: int) -> tuple[int, int] | None:
    """The pair of neighbours that comes most often, of equals the lowest; None if none of the n · n comes twice."""
    counts = numpy.bincount(tokens[:-1] * n + tokens[1:], minlength=1)
    if counts.max() < 2:
        return None
    first, second = divmod(int(counts.argmax()), n)
    return first, second


def merged(tokens: Tokens, pair: tuple[int, int], number: int) -> Int[numpy.ndarray, "fewer"]:
    """The tokens with one in place of every such pair, from left to right: of `aaa` the first two are merged."""
    found = (tokens[:-1] == pair[0]) & (tokens[1:] == pair[1])
    if pair[0] == pair[1]:
        places = numpy.arange(len(found))
        before = numpy.maximum.accumulate(numpy.where(found, -1, places))  # the last place before a run of pairs
        found &= (places - before) % 2 == 1
    starts = numpy.flatnonzero(found)
    tokens = tokens.copy()
    tokens[starts] = number
    return numpy.delete(tokens, starts + 1)


@cache
def corpus(file: str, held_out: float, merges: int) -> Corpus:
    """The corpus of a text file (by default of the plays), read once. Raises BadInput."""
    return Corpus(read(Path(file or PLAYS)), held_out, merges)


def read(path: Path) -> str:
    """The text of a file. Raises BadInput for one that is missing, or holds no text."""
    try:
        text = path.read_bytes()
        if path == PLAYS:
            text = bz2.decompress(text)
        found = text.decode()
    except OSError as error:
        raise BadInput(f"could not read the text {path}: {error.strerror}; name a text file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text in UTF-8 (byte {error.start}); convert it, or name another file") from error
    if "\0" in found:
        raise BadInput(f"{path} holds zero bytes, so it is no text; name another file")
    return found

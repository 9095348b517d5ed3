"""Lines of code, without blank lines, comments and docstrings: `python -m tools.size`, or `make size`.

A line counts if a token of the program is on it, so that neither prose nor layout is charged for. Rooms are the
folders of a package; tests in them are not counted.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LABORATORY, STUDIES = ROOT / "hopscope", ROOT / "hopscope_studies"
#: Tokens that are no code.
NOTHING = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(source: str) -> int:
    """How many lines of a file hold code.

    >>> lines_of_code('def f():\\n    "What it is."\\n\\n    return (  # why\\n        1\\n    )\\n')
    4
    """
    prose = set(docstring_lines(ast.parse(source)))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOTHING:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """The lines of every docstring."""
    for node in ast.walk(tree):
        opens = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if opens and ast.get_docstring(node, clean=False) is not None:
            yield from range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def sizes(folder: Path) -> Counter[str]:
    """By room of a folder, the lines of code in it; what lies loose is in `.`."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        inner = path.relative_to(folder)
        if "tests" not in inner.parts:
            found[inner.parts[0] if len(inner.parts) > 1 else "."] += lines_of_code(path.read_text())
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; with --rooms, every room of the laboratory and every study, too."""
    rooms = "--rooms" in (sys.argv[1:] if arguments is None else arguments)
    for name, found in {"laboratory": sizes(LABORATORY), "studies": sizes(STUDIES)}.items():
        print(f"{name:24}{sum(found.values()):>8,}")
        for room, lines in found.most_common() if rooms else ():
            print(f"  {room:22}{lines:>8,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

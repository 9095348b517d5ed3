"""Small coloured grids: one operation on the cells, or two in sequence (ours, after ARC, Chollet, 2019)."""

from __future__ import annotations

from itertools import product

from hopscope.formulations.base_draw import Draw
from hopscope.language.domains.base_sequences import WHICH, Sequences

Grid = tuple[tuple[int, ...], ...]


class Grids(Sequences):
    """Three rows of three cells with colours from 0 to 2; 0 is the background."""

    OPERATIONS = {  # noqa: RUF012
        "mirror": lambda grid: tuple(row[::-1] for row in grid),
        "turn": lambda grid: tuple(zip(*grid[::-1], strict=True)),
        "swap": lambda grid: tuple(tuple((0, 2, 1)[cell] for cell in row) for row in grid),
        "erase": lambda grid: tuple(tuple(cell % 2 for cell in row) for row in grid),
        "fill": lambda grid: tuple(tuple(cell or 2 for cell in row) for row in grid),
        "fall": lambda grid: tuple(zip(*(sorted(column, key=bool) for column in zip(*grid, strict=True)), strict=True)),
        "slide": lambda grid: tuple((row[-1], *row[:-1]) for row in grid),
        "copy": lambda grid: (grid[0],) * 3,
    }
    PROBES = tuple(tuple(zip(*[iter(cells)] * 3, strict=True)) for cells in product(range(3), repeat=9))[::97]
    ASK_OUTPUT = "What is f({})? Say directly only the grid, without any other words."
    ASK_RULE = WHICH.format(
        "mirror (left and right), turn (clockwise), swap (1 and 2), erase (2), fill (0 becomes 2), fall (all but 0), "
        "slide (right, around the edge), copy (the first row)",
        "turn then fall",
    )

    def drawn(self, draw: Draw) -> Grid:
        return tuple(tuple(draw.below(3) for _ in range(3)) for _ in range(3))

    def told(self, given: Grid) -> str:
        return "/".join("".join(map(str, row)) for row in given)

    def read_output(self, text: str, lenient: bool) -> str | None:
        return self.last(r"(?<!\w)[0-2]{3}(?:/[0-2]{3}){2}(?!\w)", text, lenient)

"""Functions: f(2) = 3, g = f, a = 2, what is g(a)? Conditional retrieval (Musat, ICLR 2025, sections 4 and A.4)."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.core.settings import setting
from hopscope.formulations.base import Formulation, Question, check_rounds
from hopscope.formulations.base_draw import Draw
from hopscope.formulations.base_names import LETTERS
from hopscope.formulations.base_words import Statement, Word, compose, written
from hopscope.problem.oracle import Fact

CLOSING = (
    "What is the value of {}({})? Say directly only the numeric value, without any other words.",
    "print({}({}))\n# output:",
)


@dataclass(frozen=True)
class Functions(Formulation):
    """N functions are given by tables; N letters are further names of them, and N letters are names of 0 … N − 1.

    ```
    a(0) = 1     key[3a](key[3b]) = value[3]
    a(1) = 0
    b(0) = 0
    b(1) = 1
    c = b        key[1] = value[1]
    d = a
    e = 1        key[2] = value[2]
    f = 0
    What is the value of c(e)? Say directly only the numeric value, without any other words.
    ```

    There are two rounds of retrieval: c gives b, and e gives 1, at once; b and 1 together give the answer. As in A.4,
    letters run on from a and lines are in alphabetical order: only right-hand sides are random.

    Chain j has the j-th function letter, and the argument letter j places after a random one, cyclically, so that every
    pair is asked about equally often. Each chain needs one row of the tables; the other rows belong to no chain.

    In A.4 tables are independent permutations. A model that ignores the function but knows the argument can then guess
    the value that most tables have for it, and is right about half the time. `latin` tables differ from one another at
    every argument, so that ignoring either premise leaves N possible values.
    """

    n_hops: int = setting(2, "rounds of retrieval; this wording has 2: both letters, then the table")
    n_chains: int = setting(4, "functions, arguments, and numbers to choose from, N (A.4: 4)", low=2, high=17)
    tables: str = setting(
        "latin",
        "tables as a Latin square, or drawn independently of one another (A.4)",
        choices=("latin", "independent"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds("functions", self.n_hops, 2)

    @property
    def chance(self) -> float:
        return 1 / self.n_chains

    def question(self, seed: int, index: int) -> Question:
        n, draw = self.n_chains, Draw(self.name(), self.identifying(), seed, index)
        functions, aliases, arguments = (LETTERS[start : start + n] for start in (0, n, 2 * n))
        tables, function_of, number_of = self.drawn_tables(draw), draw.permutation(n), draw.permutation(n)
        shift, asked = draw.below(n), draw.below(n)
        argument_of = [(chain + shift) % n for chain in range(n)]
        chain_of_row = {(function_of[c], number_of[argument_of[c]]): c for c in range(n)}
        statements = [
            table_row(functions[f], x, tables[f][x], chain_of_row.get((f, x))) for f in range(n) for x in range(n)
        ]
        statements += [new_name(1, aliases[c], functions[function_of[c]], c) for c in range(n)]
        statements += [new_name(2, arguments[i], str(number_of[i]), argument_of.index(i)) for i in range(n)]
        function, number = function_of[asked], number_of[argument_of[asked]]
        query = (aliases[asked], arguments[argument_of[asked]])
        return compose(
            self,
            seed,
            index,
            statements,
            closing=CLOSING,
            query=query,
            asked=asked,
            chain=(*query, functions[function], str(number), str(tables[function][number])),
            acceptable=tuple(map(str, range(n))),
        )

    def drawn_tables(self, draw: Draw) -> list[list[int]]:
        """Each function's values at 0 … N − 1."""
        n = self.n_chains
        if self.tables == "independent":
            return [draw.permutation(n) for _ in range(n)]
        rows, columns, values = (draw.permutation(n) for _ in range(3))
        return [[values[(row + column) % n] for column in columns] for row in rows]


def table_row(function: str, x: int, value: int, chain: int | None) -> Statement:
    """A line such as `a(0) = 3`."""
    words = (Word(function, "key[3a]", chain), Word(str(x), "key[3b]", chain), Word(str(value), "value[3]", chain))
    return Statement(Fact((function, argument(str(x))), str(value), 3), written("{}({}) = {}", *words))


def new_name(k: int, letter: str, symbol: str, chain: int) -> Statement:
    """A line such as `e = b` or `i = 0`."""
    line = written("{} = {}", Word(letter, f"key[{k}]", chain), Word(symbol, f"value[{k}]", chain))
    return Statement(Fact((letter,), symbol if k == 1 else argument(symbol), k), line)


def argument(number: str) -> str:
    """The oracle's symbol for a number as an argument: 3 as a value is not the same symbol as 3 to be looked up."""
    return f"({number})"

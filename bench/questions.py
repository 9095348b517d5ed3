"""A million questions answered by the independent solver, and every shortcut measured: bench/questions.json.

    python -m bench.questions --count 1000000

It takes about ten minutes on one core. The tests do the same with ten thousand questions.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

from hopscope.core import catalogue
from hopscope.core.storage import write_json
from hopscope.formulations.base import Formulation
from hopscope.formulations.base_draw import VERSION
from hopscope.formulations.functions import Functions
from tests.shortcuts import SHORTCUTS, Look, without_function
from tests.solver import solve

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "equations": [{}, {"n_hops": 1}, {"n_hops": 2}, {"n_hops": 3}, {"n_hops": 8}],
    "lives_with": [{}, {"n_hops": 1}, {"n_hops": 2}, {"n_hops": 8}],
    "kingdoms": [{}, {"n_hops": 1}, {"n_hops": 3}, {"n_chains": 10}],
    "functions": [{}, {"n_chains": 2}, {"n_chains": 6}, {"tables": "independent"}],
    "relatives": [{}, {"n_chains": 2}, {"n_chains": 5}],
}
N_FOR_SHORTCUTS = 20_000


def answered(formulation: Formulation, count: int) -> dict[str, Any]:
    """How many questions the solver answers otherwise than the generator."""
    start, disagreements = time.perf_counter(), 0
    for index in range(count):
        made = formulation.question(0, index)
        disagreements += solve(made.prompt) != made.answer
    seconds = time.perf_counter() - start
    found = {"formulation": formulation.name(), **formulation.as_dict(), "questions": count}
    print(found, f"{seconds:.0f} s, {disagreements} disagreements", file=sys.stderr, flush=True)
    return {**found, "disagreements": disagreements, "seconds": round(seconds, 1)}


def shortcuts(formulation: Formulation) -> dict[str, Any]:
    """Accuracy of each shortcut, and the 99.9 % band of a guesser's."""
    looks = [(Look(made), made.answer) for made in (formulation.question(1, i) for i in range(N_FOR_SHORTCUTS))]
    accuracy = {
        name: sum(way(look) == answer for look, answer in looks) / len(looks) for name, way in SHORTCUTS.items()
    }
    chance = formulation.chance
    half = 3.29 * math.sqrt(chance * (1 - chance) / len(looks))
    return {
        "questions": len(looks),
        "chance": chance,
        "band": [round(chance - half, 4), round(chance + half, 4)],
        "accuracy": {name: round(value, 4) for name, value in accuracy.items()},
    }


def overlooking_the_function(tables: str) -> float:
    """Accuracy in F4 of who knows the argument alone."""
    made = [Functions(tables=tables).question(1, i) for i in range(N_FOR_SHORTCUTS)]
    return round(sum(without_function(m) == m.answer for m in made) / len(made), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "questions.json")
    given = parser.parse_args()
    formulations = [catalogue.find("formulations", name)(**s) for name, many in SETTINGS.items() for s in many]
    each = math.ceil(given.count / len(formulations))
    solved = [answered(formulation, each) for formulation in formulations]
    record = {
        "python": sys.version.split()[0],
        "generator": VERSION,
        "questions": sum(row["questions"] for row in solved),
        "disagreements": sum(row["disagreements"] for row in solved),
        "seconds": round(sum(row["seconds"] for row in solved), 1),
        "solved": solved,
        "shortcuts": {name: shortcuts(catalogue.find("formulations", name)()) for name in SETTINGS},
        "functions_overlooking_the_function": {t: overlooking_the_function(t) for t in ("latin", "independent")},
    }
    write_json(given.out, record)


if __name__ == "__main__":
    main()

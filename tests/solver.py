"""An independent solver: it reads a prompt and answers it. It imports nothing from hopscope; tests compare the two.

It knows only the sentences of the paper's appendix A (and the shorter questions about kingdoms), builds tables from
them, and follows these: no chains, roles, problems or orders.
"""

from __future__ import annotations

import re


def solve(prompt: str) -> str:
    """The answer to a prompt of any of the five formulations."""
    *facts, closing = prompt.split("\n")
    readers = {
        r"What is the value of (\w)\((\w)\)\?": solve_function,
        r"What is the value of (\w)\?": solve_equation,
        r"Who (\w+(?: in)?) (\w+)\?": solve_kingdom,
        r"Where does (\w+) live\?": solve_dwelling,
    }
    for pattern, read in readers.items():
        if asked := re.match(pattern, closing):
            return read(facts, *asked.groups())
    raise AssertionError(f"no question is known that reads {closing!r}")


def solve_equation(facts: list[str], variable: str) -> str:
    value = {}
    for fact in facts:
        left, right = fact.split(" = ")
        assert left not in value, "a variable has two values"
        value[left] = right
    while not variable.isdigit():
        variable = value.pop(variable)
    return variable


def solve_function(facts: list[str], function: str, letter: str) -> str:
    value = dict(fact.split(" = ") for fact in facts)
    assert len(value) == len(facts), "something has two values"
    return value[f"{value[function]}({value[letter]})"]


def solve_kingdom(facts: list[str], verb: str, thing: str) -> str:
    """Run through everybody: follow them forward, from where they live to what they end with."""
    lives, believes, eats, contains, causes = {}, {}, {}, {}, {}
    for fact in facts:
        left, middle, right = re.fullmatch(r"(\w+) (lives in|believe in|eat|contains|causes) (\w+)\.", fact).groups()
        table = {"lives in": lives, "believe in": believes, "eat": eats, "contains": contains, "causes": causes}[middle]
        assert left not in table, "a subject has two predicates"
        table[left] = right
    found = []
    for person, kingdom in lives.items():
        belief = believes.get(kingdom + "ns")
        food = eats.get(belief[:1].upper() + belief[1:-1] + "ts") if belief else None
        mineral = contains.get(food[:1].upper() + food[1:]) if food else None
        reached = {
            "lives in": kingdom,
            "believes in": belief,
            "eats": food,
            "consumes": mineral,
            "has": causes.get(mineral),
        }
        if reached[verb] == thing:
            found.append(person)
    assert len(found) == 1, f"{found} are said to fit"
    return found[0]


def solve_dwelling(facts: list[str], person: str) -> str:
    """For the lives-with formulation and for the relatives, whichever sentences are there."""
    country, partner, relative, partner_of_job, job = {}, {}, {}, {}, {}
    for fact in facts:
        fact = fact.rstrip(".")
        if found := re.fullmatch(r"(\w+)s live with their (\w+)s", fact):
            partner_of_job[found[1].lower()] = found[2]
        elif found := re.fullmatch(r"(\w+) lives in (\w+)", fact):
            country[found[1]] = found[2]
        elif found := re.fullmatch(r"(\w+) lives with (\w+)", fact):
            partner[found[1]] = found[2]
        elif found := re.fullmatch(r"(\w+)s (\w+) is (\w+)", fact):
            relative[found[1], found[2]] = found[3]
        elif found := re.fullmatch(r"(\w+) works as an? (\w+)", fact):
            job[found[1]] = found[2]
        else:
            raise AssertionError(f"no fact is known that reads {fact!r}")
    assert len(facts) == sum(map(len, (country, partner, relative, partner_of_job, job))), "two facts say the same"
    if job:
        return country[relative[person, partner_of_job[job[person]]]]
    while person not in country:
        person = partner.pop(person)
    return country[person]

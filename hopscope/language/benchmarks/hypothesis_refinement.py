"""Hypothesis refinement: find a rule from eight examples, or its output for a ninth input (Qiu et al., 2310.08559)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.base import CHOICES, Benchmark, Exercise, Mark
from hopscope.language.domains.base import Domain, Example

DOMAINS = tuple(catalogue.names("language.domains"))
SEEN, TESTS = 8, 8  # examples that are shown, and on which a rule is tested (paper, list functions)
ATTEMPTS = 1000  # draws of examples until only one rule is consistent; a few usually suffice


@dataclass(frozen=True)
class Instance:
    """A rule with examples that no other rule is consistent with.

    Attributes:
        rule: its wording.
        seen: the examples, with the outputs of the rule.
        shown: the same examples as the prompt has them, with noise or shuffled outputs.
        tests: further examples with the outputs of the rule; the first one is asked for if the answer is an output.
    """

    rule: str
    seen: tuple[Example, ...]
    shown: tuple[Example, ...]
    tests: tuple[Example, ...]


@dataclass(frozen=True)
class HypothesisRefinement(Benchmark):
    """Eight examples of a rule; the question asks for the output for a ninth input, or for the rule.

    ```
    f([3, 1, 2]) = [2, 1]
    …
    What is f([4, 0, 7])? Say directly only the list, without any other words.
    ```

    Examples are drawn until no other rule of the grammar is consistent with all eight, so trying all rules finds the
    answer. Measures are the paper's: the share of test inputs with the right output (raw), and whether all outputs are
    right (task). If the question asks for an output there is one test input, and both are equal. For lights, on and off
    are right equally often.
    """

    MEASURES: ClassVar[tuple[str, ...]] = ("raw", "task")
    MAX_TOKENS: ClassVar[int] = 24

    domain: str = setting("lists", "which kind of inputs and rules", choices=DOMAINS)
    answers: str = setting("output", "what is asked for", choices=("output", "rule"))
    noise: int = setting(0, "probability, in percent, that an example is wrong (paper: 12.5 to 50)", low=0, high=50)
    labels: str = setting("true", "examples as they are, or with outputs shuffled", choices=("true", "shuffled"))

    @property
    def world(self) -> Domain:
        """The inputs and rules of `domain`."""
        return domain_named(self.domain)

    @property
    def chance(self) -> float:
        return 1 / (self.world.OUTPUTS if self.answers == "output" else CHOICES)

    def instance(self, seed: int, index: int) -> Instance:
        """Rule and examples number `index` under a seed, the same for both kinds of question."""
        rule, seen, tests = instance(self.domain, seed, index)
        draw = Draw(f"{self.name()} examples", {"domain": self.domain, "noise": self.noise}, seed, index)
        world = self.world
        shown = [(x, world.spoilt(y, x, draw) if draw.below(100) < self.noise else y) for x, y in seen]
        if self.labels == "shuffled":
            order = draw.permutation(len(shown))
            shown = [(x, shown[i][1]) for (x, _), i in zip(shown, order, strict=True)]
        return Instance(rule, seen, tuple(shown), tests)

    def question(self, seed: int, index: int) -> Exercise:
        one, world = self.instance(seed, index), self.world
        statements = [world.STATEMENT.format(world.told(x), y) for x, y in one.shown]
        draw = Draw(f"{self.name()} choices", {"domain": self.domain, "answers": self.answers}, seed, index)
        if self.answers == "rule":
            wrong = [rule for rule in world.rules if world.kept(rule, one.tests) < TESTS]
            return self.exercise(
                seed, index, statements, world.ASK_RULE, world.STEM_RULE, (one.rule, among(one.rule, wrong, draw))
            )
        given, right = one.tests[0]
        wrong = [made for made in world.outputs(given) if made != right]
        ask, stem = (text.format(world.told(given)) for text in (world.ASK_OUTPUT, world.STEM_OUTPUT))
        return self.exercise(seed, index, statements, ask, stem, (right, among(right, wrong, draw)))

    def floors(self, exercise: Exercise) -> dict[str, float]:
        marks = [self.scores(exercise, rule) for rule in self.world.rules]
        return {name: sum(mark[name] for mark in marks) / len(marks) for name in self.MEASURES}

    def guess(self, exercise: Exercise, number: int) -> str:
        rules = list(self.world.rules)
        rule = rules[number % len(rules)]
        return rule if self.answers == "rule" else self.world.applied(rule, self.tests(exercise)[0][0])

    def tests(self, exercise: Exercise) -> tuple[Example, ...]:
        """The examples on which an answer is tested."""
        _, _, tests = instance(self.domain, exercise.seed, exercise.index)
        return tests if self.answers == "rule" else tests[:1]

    def scores(self, exercise: Exercise, rule: str) -> dict[str, float]:
        """The measures of an answer by a rule."""
        tests = self.tests(exercise)
        return measured(self.world.kept(rule, tests), len(tests))

    def mark(self, exercise: Exercise, text: str, lenient: bool) -> Mark:
        if self.answers == "rule":
            rule = self.world.read_rule(text, lenient)
            return self.malformed() if rule is None else Mark(True, self.scores(exercise, rule))
        made = self.world.read_output(text, lenient)
        return self.malformed() if made is None else Mark(True, measured(int(made == exercise.answer), 1))


def measured(right: int, of: int) -> dict[str, float]:
    """The measures for `right` right outputs of `of`."""
    return {"raw": right / of, "task": float(right == of)}


@cache
def domain_named(name: str) -> Domain:
    """The domain of a file in `hopscope.language.domains`, or in the folder of that name in a study or a plug-in."""
    return catalogue.find("language.domains", name)()


@lru_cache(maxsize=4096)
def instance(domain: str, seed: int, index: int) -> tuple[str, tuple[Example, ...], tuple[Example, ...]]:
    """A rule, examples with which no other rule is consistent, and test examples."""
    world = domain_named(domain)
    draw = Draw("hypothesis_refinement rule", {"domain": domain}, seed, index)
    rule, wanted = list(world.rules)[draw.below(len(world.rules))], draw.below(2)
    for attempt in range(ATTEMPTS):
        draw = Draw("hypothesis_refinement", {"domain": domain, "attempt": attempt}, seed, index)
        inputs: dict[Any, None] = {}
        while len(inputs) < SEEN + TESTS:
            inputs[world.drawn(draw)] = None
        examples = [(given, world.applied(rule, given)) for given in inputs]
        seen, tests = tuple(examples[:SEEN]), tuple(examples[SEEN:])
        if askable(world, tests[0], wanted) and world.consistent(seen) == [rule]:
            return rule, seen, tests
    raise RuntimeError(f"no examples determine the rule {rule!r}")


def askable(world: Domain, test: Example, wanted: int) -> bool:
    """Whether a test may be asked for: it has at least `CHOICES` possible outputs; or two, of which it has `wanted`."""
    made = world.outputs(test[0])
    return made[wanted] == test[1] if len(made) == 2 else len(made) >= CHOICES


def among(right: str, wrong: Sequence[str], draw: Draw) -> list[str]:
    """The right answer and wrong ones, at most `CHOICES` in total, in random order."""
    some = [right, *(wrong[i] for i in draw.permutation(len(wrong))[: CHOICES - 1])]
    return [some[i] for i in draw.permutation(len(some))]

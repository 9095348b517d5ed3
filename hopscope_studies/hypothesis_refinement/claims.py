"""Claims on hypothesis refinement: the loop's closed form, noise, and language models against chance."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.benchmark_claims import ends, of, plainly, series, tested
from hopscope.experiments.judging import Claim, Evidence, bound

ERRORS = 4  # standard errors that chance hardly ever exceeds, in two dozen numbers (ours)
BEYOND = "true beyond shuffled"
EVEN = 0.5  # lights are on as often as off


def as_foretold(rows: DataFrame) -> Series:
    """Whether means lie within four standard errors of their closed form."""
    error = (rows.chance * (1 - rows.chance) / rows.n) ** 0.5
    return (rows.value - rows.chance).abs() <= ERRORS * error + 1e-6  # the table has five digits


def gap(one: DataFrame, other: DataFrame) -> Series:
    """By how much the interval of each row in one table lies above that in another."""
    return Series(series(one, "low").to_numpy() - series(other, "high").to_numpy())


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the loop, noise, scripted models, and language models."""
    yield from about_the_loop(table[table.part == "proposers"])
    yield from about_noise(table[table.part == "proposers"])
    yield from about_scripts(table[table.part == "scripted"])
    yield from about_models(table[table.part == "language"])


def about_the_loop(rows: DataFrame) -> Iterator[Claim]:
    """Claims about what N hypotheses in each of T rounds find."""
    every = of(rows, "found", labels="every rule")
    yield Evidence(every, "2").claim(
        "every_rule_tried_is_exact",
        "Eight examples leave only one rule possible: a scripted proposer that tries every rule finds the right one.",
        every.value,
        "share of rules that are found",
        at_least=1.0,
    )
    grid = of(rows[rows.labels.str.startswith("p ")], "found")
    grid = grid[grid.labels != "p 0 N 5 T 3"]
    yield Evidence(grid, "2").claim(
        "found_by_closed_form",
        "With N hypotheses in each of T rounds, a scripted proposer that is right with probability p finds the rule "
        "with probability 1 − (1 − p)^(NT).",
        as_foretold(grid),
        "means within four standard errors of the closed form",
        of="share of",
        equals=1.0,
    )
    low, high = (of(grid, "found", labels=f"p 20 {size}") for size in ("N 1 T 1", "N 5 T 3"))
    yield Evidence(grid, "2").claim(
        "more_hypotheses_find_more",
        "A scripted proposer that is right with probability 0.2 finds more rules with five hypotheses in each of three "
        "rounds than with a single hypothesis.",
        list(high.value.to_numpy() - low.value.to_numpy()),
        "difference of the shares",
        also=[bound("gap between their intervals", list(gap(high, low)), above=0.0)],
        above=0.0,
    )
    yield wrong_rules(rows[rows.labels == "p 0 N 5 T 3"])


def wrong_rules(wrong: DataFrame) -> Claim:
    """The claim about what a proposer that is never right can still reach."""
    return Evidence(wrong, "2").claim(
        "wrong_rules_fall_to_the_best_partial",
        "A scripted proposer that is never right finds no rule that fits all examples, but the best of its rules gives "
        "some test outputs correctly.",
        series(of(wrong, "raw"), "value"),
        "raw accuracy",
        also=[
            bound("lower end of its interval", series(of(wrong, "raw"), "low"), above=0.0),
            bound("share of rules found", series(of(wrong, "found"), "value"), at_most=0.0),
            bound("share of examples kept", series(of(wrong, "examples kept"), "value"), below=1.0),
        ],
        above=0.0,
    )


def about_noise(rows: DataFrame) -> Iterator[Claim]:
    """Claims about the loop with partly corrupted examples."""
    fits = of(rows, "right rule fits")
    yield Evidence(fits, "4").claim(
        "noise_breaks_exact_filtering",
        "If each of eight examples is corrupted with probability e, the right rule fits all of them with "
        "probability (1 − e)^8.",
        as_foretold(fits),
        "means within four standard errors of the closed form",
        of="share of",
        equals=1.0,
    )
    quarter = rows[rows.labels == "noise 25"]
    best, exact = (of(quarter, f"found by what fits{best}") for best in (" best", ""))
    yield Evidence(quarter, "4").claim(
        "the_best_fit_survives_noise",
        "With a quarter of the examples corrupted, the rule that fits most examples is the right one more often "
        "than a rule that must fit all of them.",
        list(best.value.to_numpy() - exact.value.to_numpy()),
        "difference of the shares",
        also=[bound("gap between their intervals", list(gap(best, exact)), above=0.0)],
        above=0.0,
    )


def about_scripts(rows: DataFrame) -> Iterator[Claim]:
    """Control claims about scripted models with known scores."""
    oracle = rows[(rows.model == "known:oracle") & (rows.labels != BEYOND)]
    yield Evidence(oracle, "3").claim(
        "whoever_knows_scores_one",
        "Control: a scripted model that knows the outputs scores 1 in every measure, however its answers are read.",
        oracle.value,
        "measure",
        at_least=1.0,
    )
    guesses = rows[(rows.model == "known:uniform") & (rows.labels != BEYOND) & rows.chance.notna()]
    guesses = guesses[guesses.measure.isin(["raw", "task"])]
    yield Evidence(guesses, "3").claim(
        "guessing_scores_chance",
        "Control: a scripted model that answers by a random rule has, on average, the mean score of all rules.",
        as_foretold(guesses),
        "means within four standard errors of the mean over all rules",
        of="share of",
        equals=1.0,
    )


def about_models(rows: DataFrame) -> Iterator[Claim]:
    """Claims about language models that are asked for outputs."""
    names = " and ".join(sorted(set(rows.model)))
    lists = of(rows, "raw", labels="true", protocol="greedy_lenient", domain="lists", layout="code")
    yield Evidence(lists, "3").claim(
        "lists_beyond_guessing",
        f"After eight examples of a list function, {names} gives the right output for a ninth list more often than a "
        "random rule of the grammar does.",
        [*(lists.low - lists.chance), *(lists.high - lists.chance)],
        "end of the interval, less the mean over all rules,",
        number=float((lists.value - lists.chance).mean()),
        above=0.0,
        unanimous=True,
    )
    shuffled = f"After eight examples, {names} {{}} more often than after the same examples with shuffled outputs."
    some = of(rows, "raw", protocol="greedy_lenient", domain="lists", labels=BEYOND, layout="code")
    yield tested("lists_beyond_shuffled", shuffled.format("gives the right output list"), some, "exercises", "3")
    yield from about_lights(rows, names, shuffled)
    form = of(rows, "valid", labels="true", protocol="greedy_strict", domain="lists")
    code, (plain, how) = form[form.layout == "code"], plainly(form)
    yield Evidence(form, "3").claim(
        "form_of_lists",
        f"Asked to complete an equation, {names} mostly answers with a list alone; asked {how}, it mostly does not.",
        ends(code),
        "end of the interval of the format rate as an equation",
        number=float(code.value.mean()),
        also=[bound(f"end of that {how}", ends(plain), below=EVEN, unanimous=True)],
        above=EVEN,
        unanimous=True,
    )


def about_lights(rows: DataFrame, names: str, shuffled: str) -> Iterator[Claim]:
    """Claims about the likelier of two states; `shuffled` is the sentence of a comparison."""
    lights = of(rows, "choice", labels="true", domain="lights", layout="code")
    yield Evidence(lights, "3").claim(
        "lights_beyond_even",
        f"After eight examples of which objects switch a light on, {names} gives the light's right state (on or off) "
        "the higher probability in more than half of the exercises.",
        ends(lights),
        "end of the interval of the share",
        number=float(lights.value.mean()),
        above=EVEN,
        unanimous=True,
    )
    some = of(rows, "choice", domain="lights", labels=BEYOND, layout="code")
    yield tested(
        "lights_beyond_shuffled",
        shuffled.format("gives a light's right state (on or off) the higher probability"),
        some,
        "exercises",
        "3",
    )

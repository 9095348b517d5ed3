"""Claims on hypothesis refinement: the loop's closed form, noise, and language models against chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.experiments.benchmark_claims import ends, of, plainly, series, tested
from hopscope.experiments.judging import Claim, Evidence, bound

ERRORS = 4  # standard errors that chance hardly ever exceeds, in two dozen numbers (ours)
BEYOND = "true beyond shuffled"
NEVER = "p 0 N 5 T 3"  # the proposer that is never right
MOSTLY = 0.5  # share of answers in the right form (ours)

#: What is claimed, by id, or by the end of an id that begins with a domain; `{model}` is the model asked.
SENTENCES = {
    "every_rule_tried_is_exact": "Eight examples leave only one rule possible: a scripted proposer that tries every "
    "rule finds the right one.",
    "found_by_closed_form": "With N hypotheses in each of T rounds, a scripted proposer that is right with probability "
    "p finds the rule with probability 1 − (1 − p)^(NT).",
    "more_hypotheses_find_more": "A scripted proposer that is right with probability 0.2 finds more rules with five "
    "hypotheses in each of three rounds than with a single hypothesis.",
    "wrong_rules_fall_to_the_best_partial": "A scripted proposer that is never right finds no rule that fits all "
    "examples, but the best of its rules gives some test outputs correctly.",
    "noise_breaks_exact_filtering": "If each of eight examples is corrupted with probability e, the right rule fits "
    "all of them with probability (1 − e)^8.",
    "the_best_fit_survives_noise": "With a quarter of the examples corrupted, the rule that fits most examples is the "
    "right one more often than a rule that must fit all of them.",
    "whoever_knows_scores_one": "Control: a scripted model that knows the outputs scores 1 in every measure, however "
    "its answers are read.",
    "guessing_scores_chance": "Control: a scripted model that answers by a random rule has, on average, the mean score "
    "of all rules.",
    "beyond_guessing": "After eight examples of {rule}, {model} gives the right output for a ninth {given} more often "
    "than a random rule of the grammar does.",
    "beyond_shuffled": "After eight examples, {model} gives the right output {made} more often than after the same "
    "examples with shuffled outputs.",
    "lights_beyond_even": "After eight examples of which objects switch a light on, {model} gives the light's right "
    "state (on or off) the higher probability in more than half of the exercises.",
    "lights_beyond_shuffled": "After eight examples, {model} gives a light's right state (on or off) the higher "
    "probability more often than after the same examples with shuffled outputs.",
    "chosen_beyond_guessing": "After eight examples of {rule}, {model} gives the right one of four outputs for a ninth "
    "{given} the highest probability in more than a quarter of the exercises.",
    "chosen_beyond_shuffled": "After eight examples of {rule}, {model} gives the right one of four outputs the highest "
    "probability more often than after the same examples with shuffled outputs.",
    "form": "Asked to complete an equation, {model} mostly answers with {form} alone; asked {how}, it mostly does not.",
}
#: Words for a domain's rule, input and output, and for the form of an answer.
WORDS = {
    "lists": {"rule": "a list function", "given": "list", "made": "list", "form": "a list"},
    "lights": {"rule": "what turns a light on", "form": "on or off"},
    "grids": {"rule": "a rule on grids", "given": "grid", "made": "grid", "form": "a grid"},
    "commands": {"rule": "what words mean", "given": "command", "made": "colours", "form": "colours"},
}
PROTOCOLS = {"valid": "greedy_strict", "raw": "greedy_lenient", "choice": "log_likelihood"}  # by measure
#: What is compared with chance and with shuffled examples: a domain, a measure, and the ends of the claims' ids.
JUDGED = (
    ("lists", "raw", "beyond_guessing", "beyond_shuffled"),
    ("lights", "choice", "beyond_even", "beyond_shuffled"),
    *((domain, "raw", "beyond_guessing", "beyond_shuffled") for domain in ("grids", "commands")),
    *((domain, "choice", "chosen_beyond_guessing", "chosen_beyond_shuffled") for domain in ("grids", "commands")),
)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the loop, noise, scripted models, and language models."""
    yield from about_the_loop(table[table.part == "proposers"])
    yield from about_noise(table[table.part == "proposers"])
    yield from about_scripts(table[table.part == "scripted"])
    yield from about_models(table[table.part == "language"])


def told(rows: DataFrame, section: str, id: str, *measured: Any, **how: Any) -> Claim:
    """A claim whose sentence has no blanks; the further arguments are those of `Evidence.claim`."""
    return Evidence(rows, section).claim(id, SENTENCES[id], *measured, **how)


def as_foretold(rows: DataFrame, section: str, id: str, form: str = "closed form") -> Claim:
    """The claim that means lie within four standard errors of their closed form."""
    error = (rows.chance * (1 - rows.chance) / rows.n) ** 0.5
    inside = (rows.value - rows.chance).abs() <= ERRORS * error + 1e-6  # the table has five digits
    what = f"means within four standard errors of the {form}"
    return told(rows, section, id, inside, what, of="share of", equals=1.0)


def higher(rows: DataFrame, section: str, id: str, one: DataFrame, other: DataFrame) -> Claim:
    """The claim that shares, with their intervals, are above those in another table, row by row."""
    gaps = series(one, "low").to_numpy() - series(other, "high").to_numpy()
    differences = list(one.value.to_numpy() - other.value.to_numpy())
    also = [bound("gap between their intervals", list(gaps), above=0.0)]
    return told(rows, section, id, differences, "difference of the shares", also=also, above=0.0)


def about_the_loop(rows: DataFrame) -> Iterator[Claim]:
    """Claims about what N hypotheses in each of T rounds find, and about a proposer that is never right."""
    every = of(rows, "found", labels="every rule")
    yield told(every, "2", "every_rule_tried_is_exact", every.value, "share of rules that are found", at_least=1.0)
    wrong, grid = rows[rows.labels == NEVER], of(rows[rows.labels.str.startswith("p ")], "found")
    grid = grid[grid.labels != NEVER]
    yield as_foretold(grid, "2", "found_by_closed_form")
    one, many = (of(grid, "found", labels=f"p 20 {size}") for size in ("N 1 T 1", "N 5 T 3"))
    yield higher(grid, "2", "more_hypotheses_find_more", many, one)
    raw = of(wrong, "raw")
    also = [
        bound("lower end of its interval", series(raw, "low"), above=0.0),
        bound("share of rules found", series(of(wrong, "found"), "value"), at_most=0.0),
        bound("share of examples kept", series(of(wrong, "examples kept"), "value"), below=1.0),
    ]
    id = "wrong_rules_fall_to_the_best_partial"
    yield told(wrong, "2", id, series(raw, "value"), "raw accuracy", also=also, above=0.0)


def about_noise(rows: DataFrame) -> Iterator[Claim]:
    """Claims about the loop with partly corrupted examples."""
    yield as_foretold(of(rows, "right rule fits"), "4", "noise_breaks_exact_filtering")
    quarter = rows[rows.labels == "noise 25"]
    best, exact = (of(quarter, f"found by what fits{best}") for best in (" best", ""))
    yield higher(quarter, "4", "the_best_fit_survives_noise", best, exact)


def about_scripts(rows: DataFrame) -> Iterator[Claim]:
    """Control claims about scripted models with known scores."""
    rows = rows[rows.labels != BEYOND]
    oracle, guesses = (rows[rows.model == f"known:{kind}"] for kind in ("oracle", "uniform"))
    yield told(oracle, "3", "whoever_knows_scores_one", oracle.value, "measure", at_least=1.0)
    guesses = guesses[guesses.chance.notna() & guesses.measure.isin(["raw", "task"])]
    yield as_foretold(guesses, "3", "guessing_scores_chance", "mean over all rules")


def about_models(rows: DataFrame) -> Iterator[Claim]:
    """Claims about language models that are asked for outputs; what was not asked is not judged."""
    names = " and ".join(sorted(set(rows.model)))
    for domain, measure, *endings in JUDGED:
        asked = of(rows, measure, protocol=PROTOCOLS[measure], domain=domain, layout="code")
        ids = {f"{domain}_{end}": end for end in endings}
        said = [(SENTENCES.get(id) or SENTENCES[end]).format(model=names, **WORDS[domain]) for id, end in ids.items()]
        one, other = zip(ids, said, strict=True)
        if len(asked):
            yield beyond_guessing(asked[asked.labels == "true"], measure, *one)
            yield tested(*other, asked[asked.labels == BEYOND], "exercises", "3")
    for domain, words in WORDS.items():
        form = of(rows, "valid", labels="true", protocol=PROTOCOLS["valid"], domain=domain)
        if len(form[form.layout != "code"]):
            yield form_of(domain, form, SENTENCES["form"].format(model=names, how=plainly(form)[1], **words))


def form_of(domain: str, rows: DataFrame, sentence: str) -> Claim:
    """The claim that most answers have the right form as the end of an equation, and not where a model is asked so."""
    (plain, how), code = plainly(rows), rows[rows.layout == "code"]
    what, mean = "end of the interval of the format rate as an equation", float(code.value.mean())
    also, id = [bound(f"end of that {how}", ends(plain), below=MOSTLY, unanimous=True)], f"form_of_{domain}"
    claim = Evidence(rows, "3").claim
    return claim(id, sentence, ends(code), what, number=mean, also=also, above=MOSTLY, unanimous=True)


def beyond_guessing(rows: DataFrame, measure: str, id: str, sentence: str) -> Claim:
    """The claim that intervals lie above chance, which is the same for all choices, and of other outputs is known."""
    level, less = (float(rows.chance.mean()), 0.0) if measure == "choice" else (0.0, rows.chance)
    what = "end of the interval" + (" of the share" if measure == "choice" else ", less the mean over all rules,")
    both, mean = [*(rows.low - less), *(rows.high - less)], float((rows.value - less).mean())
    return Evidence(rows, "3").claim(id, sentence, both, what, number=mean, above=level, unanimous=True)

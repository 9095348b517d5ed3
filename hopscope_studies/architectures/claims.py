"""The claims of the bench, and the summaries of its table that claims, figure and page share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pandas import DataFrame

from hopscope.experiments.judging import Bound, Claim, Evidence, bound, telling
from hopscope_studies.architectures.candidates import REFERENCE, Candidate
from hopscope_studies.architectures.cells import HOPS, LAYERS, MAIN, SEEDS

CELL = ["candidate", "task", "D", "layers"]
UNTRAINED = 0.9  # share of a guess's loss below which a model knows something before training
EQUAL = 0.05  # by which parameters may differ: widths are multiples of 4
PLAIN, UNPRIMED = REFERENCE.name, Candidate(positions=None).name
SHIFTED = Candidate("kv_shift", positions=None).name
SECTION = "beyond"
#: What is claimed, by id, where it does not depend on the table.
SENTENCES = {
    "plain_attention_reaches_its_minimum": "With a prior, a head that at first attends to the previous token, plain "
    f"attention in {LAYERS} layers learns in every seed exactly the hops that theory allows it.",
    "every_rule_reaches_its_minimum": f"With {LAYERS} layers, the best run of every attention rule, with or without a "
    "prior for the previous token, learns every hop that theory allows for that rule at this depth.",
    "kv_shift_goes_further": f"Asked for {max(HOPS)} hops, models with KV shifting attention learn more than the 3 "
    "that plain attention can learn with as many layers.",
    "the_prior_is_needed": "Without a prior, a head that at first attends to the previous token, plain attention "
    "learns fewer hops than with it in as many steps, in every pair of runs.",
    "parameters_are_equal": "Models of every attention rule have as many parameters as models of plain attention, to "
    "within 5 %.",
    "untrained_knows_nothing": "Control: before training, the loss of no model is much below that of a guess at any "
    "hop.",
}
told = telling(SENTENCES)


def hops_learnt(table: DataFrame) -> DataFrame:
    """A row per run, in the table's order.

    Columns: `CELL`, seed, learnt (hops that ended below the threshold), reach (hops within the exact minimum depth),
    asked, sequences (until the last of the learnt hops; NaN: none), flops (of one sequence's forward pass), parameters.
    """
    rows = table[table.k > 0]
    ended = rows.loss < rows.below
    rows = rows.assign(ended=ended, within=rows.least <= rows.layers, at=(rows.learnt * rows.batch).where(ended))
    each = rows.groupby("run", sort=False)
    first = each[["version", "seed", *CELL, "attention", "positions", "parameters", "flops"]].first()
    known = each.least.count() == each.k.count()
    found = first.assign(learnt=each.ended.sum(), asked=each.k.count(), reach=each.within.sum().where(known))
    return found.assign(sequences=each["at"].max()).reset_index()


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about minimum depths, about which rules reach theirs, and about controls."""
    each = hops_learnt(table)
    main = each[(each.task == MAIN) & (each.layers == LAYERS) & each.D.isin(HOPS)]
    rules = main[(main.candidate == main.attention) | (main.candidate == main.attention + UNPRIMED.removeprefix(PLAIN))]
    yield below_the_minimum(table)
    yield from reaching_claims(main, rules, table)
    yield seeds_agree(each, table)
    yield from controls(rules, table)


def below_the_minimum(table: DataFrame) -> Claim:
    """The claim that no candidate learns a hop that its layers cannot reach."""
    deep = table[(table.k > 0) & (table.least > table.layers)]
    return Evidence(deep, "5 (sharpened), " + SECTION, source="the paper's bound for learnt", among=table).claim(
        "nothing_below_the_minimum",
        f"No attention rule learns a hop with fewer layers than the hop's exact minimum depth ({deep.run.nunique()} "
        f"runs of {deep.candidate.nunique()} attention rules, with or without a prior, were asked for such hops).",
        deep.loss / deep.below,
        "final loss of such a hop, over the threshold of learning",
        at_least=1,
    )


def reaching_claims(main: DataFrame, rules: DataFrame, table: DataFrame) -> Iterator[Claim]:
    """Claims that rules reach what theory allows them, KV shift further than others, and a control without a prior."""
    named = dict(list(main.groupby("candidate")))
    plain, shifted, unprimed = (named.get(one, main[:0]) for one in (PLAIN, SHIFTED, UNPRIMED))
    claim = partial(told, Evidence(plain, SECTION, among=table), "plain_attention_reaches_its_minimum")
    what = "number of hops learnt less those within reach"
    yield claim(plain.learnt - plain.reach, what, equals=0, number="mean", provided=all_hops(plain))
    best = rules.groupby(["attention", "D"], sort=False)[["learnt", "reach"]].max()  # with the prior or without
    claim = partial(told, Evidence(rules, SECTION, among=table), "every_rule_reaches_its_minimum")
    what = "number of hops within reach that the best seed did not learn"
    yield claim(best.reach - best.learnt, what, equals=0, number="highest", provided=all_hops(rules))
    shifted = shifted[shifted.D.eq(max(HOPS))]
    enough = bound("number of seeds", len(shifted), at_least=SEEDS["cpu"])
    claim = partial(told, Evidence(shifted, SECTION, among=table), "kv_shift_goes_further")
    yield claim(shifted.learnt, "number of hops learnt", above=3, provided=enough)
    pairs = plain.merge(unprimed, on=["D", "seed"])
    claim = partial(told, Evidence(unprimed, SECTION, among=table), "the_prior_is_needed")
    yield claim(pairs.learnt_x - pairs.learnt_y, "number of hops learnt with the prior less without", above=0)


def seeds_agree(each: DataFrame, table: DataFrame) -> Claim:
    """The claim that the seeds of a cell learn about as many hops."""
    groups = each.groupby(CELL, sort=False).learnt
    spread = (groups.max() - groups.min())[groups.count() > 1]
    return Evidence(each, SECTION, among=table).claim(
        "seeds_agree",
        "Models of the same attention rule, task and depth learn the same number of hops from every seed, give or take "
        f"one (all seeds agree in {(spread == 0).sum()} of {len(spread)} such groups).",
        spread,
        "difference of hops learnt between a cell's seeds",
        at_most=1,
    )


def controls(rules: DataFrame, table: DataFrame) -> Iterator[Claim]:
    """Claims that parameters are equal (operations differ; the page gives them) and that untrained models guess."""
    plain = rules[rules.candidate == PLAIN].groupby("D").first()
    known = rules[rules.D.isin(plain.index)]
    apart = (known.parameters / known.D.map(plain.parameters) - 1).abs()
    claim = partial(told, Evidence(known, SECTION, among=table))
    yield claim("parameters_are_equal", apart, "relative difference", at_most=EQUAL)
    asked = table[table.k > 0].drop_duplicates(["seed", "first"])  # models of one shape and seed start alike
    claim = partial(told, Evidence(asked, SECTION, among=table), "untrained_knows_nothing")
    yield claim(asked["first"] / asked.guess, "loss before training, over a guess's", at_least=UNTRAINED)


def all_hops(each: DataFrame) -> Bound:
    """The condition that every D of the small bench was trained."""
    return bound("number of different D", each.D.nunique(), at_least=len(HOPS))


# What the figure and the page show -----------------------------------------------------------------------------------


def columns_of(each: DataFrame) -> list[tuple[str, int, int]]:
    """The columns (task, D, layers) in the table: the main task first, then in the table's order."""
    found = list(dict.fromkeys(zip(each.task, each.D.astype(int), each.layers.astype(int), strict=True)))
    tasks = list(dict.fromkeys(task for task, _, _ in found))
    return sorted(found, key=lambda place: (place[0] != MAIN, tasks.index(place[0]), place[2], place[1]))


def label(task: str, hops: int, layers: int) -> str:
    """The label of a column."""
    return f"{'' if task == MAIN else task + chr(10)}D = {hops}\nL = {layers}"


def at(rows: DataFrame, place: tuple[str, int, int]) -> DataFrame:
    """One candidate's runs in a column."""
    task, hops, layers = place
    return rows[(rows.task == task) & (hops == rows.D) & (rows.layers == layers)].sort_values("seed")


def thousands(runs: DataFrame) -> str:
    """`16 k` or `16–23 k` sequences, of seeds that learnt anything."""
    known = (runs.sequences / 1000).dropna().round().astype(int)
    if not len(known):
        return ""
    low, high = known.min(), known.max()
    return f"{low} k" if low == high else f"{low}–{high} k"

"""Which heads of a language model do one hop? (beyond Musat, section 4, which asks models and does not open them)

The paper shows that large models retrieve, and finds stacked heads in small ones. `hopscope lm heads` opens
SmolLM2-135M on the equations (docs/heads.md) and reports scores of all heads, a minimal set of heads, and the
connections between them. Here its report is judged, with questions of two seeds. The experiment links sections 4 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import OfModel, Row, names, row, table_of
from hopscope.experiments.variants import seeds_of
from hopscope.experiments.work import Finished
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 360, "paper": 900}
SEEDS = {"quick": 1, "cpu": 2, "paper": 5}
REPORT = "heads.json"
FEW = 0.05  # share of all heads (ours)
IDLE = 0.2  # share of the metric that sets without the hop may keep (ours)
told = telling("language_heads")


def rows_of(report: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of a report, for claims and figure."""
    hop, ablation, found = report["hop"], report["ablation"], report["minimal"]
    yield row("hop", "accuracy", hop["accuracy"], low=hop["low"], high=hop["high"])
    yield row("hop", "chance", hop["chance"])
    yield row("hop", "questions", hop["n"])
    yield row("repeat", "as it is", ablation["loss"])
    yield row("repeat", "without induction heads", ablation["without_top"])
    yield from (row("repeat", "without random heads", loss) for loss in ablation["without_random"])
    yield from (row("induction", one["head"], one["score"]) for one in report["scores"]["top"]["induction"])
    yield row("heads", "in the set", found["size"])
    yield row("heads", "of the model", found["of"])
    yield from (row("set", head["head"], 1) for head in report["heads"] if head["minimal"])
    yield kept("the set", found["set"])
    yield kept("all but the set", found["without_set"])
    yield from (kept("random heads", one) for one in found["random_sets"])
    yield from (row("stack", head, place) for place, head in enumerate(report["depth"]["stack"]))
    yield row("depth", "least by theory", report["depth"]["min_layers"])


def kept(name: str, found: Mapping[str, float]) -> Row:
    """The share of the metric that some heads keep."""
    return row("kept", name, found["faithfulness"], low=found["low"], high=found["high"])


@dataclass(frozen=True)
class Heads(OfModel):
    """The report of `hopscope lm heads`."""

    label = "heads"
    file = REPORT

    model: str = setting("smollm2", "which")
    count: int = setting(200, "questions")
    seed: int = setting(0, "of the questions")
    tests: int = setting(40, "sets of heads that the search may try")

    rows = staticmethod(rows_of)

    def report(self) -> dict[str, Any]:
        from hopscope_studies.stacked_heads.language.hop import HeadStudy
        from hopscope_studies.stacked_heads.language.study import study

        formulation = catalogue.find("formulations", "equations")(n_hops=1)
        layout = catalogue.find("language.layouts", "code")()
        settings = HeadStudy(count=self.count, seed=self.seed, tests=self.tests)
        return study(self.opened(), formulation, layout, settings, lambda _: None).report


def runs(scale: str) -> Iterator[Heads]:
    """The model, with the questions of several seeds."""
    for seed in range(SEEDS[scale]):
        yield Heads("made_up" if scale == "quick" else "smollm2", seed=seed)


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number or head of a report.

    Columns: those of `table_of`, with kind, name (of a head or a quantity), value, low, high (its interval, if any).
    """
    return table_of(runs)


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the loss on repeated tokens without some heads. Right: the share of the hop that sets of heads keep."""
    shown = picture(9.2, 3.4)
    for ax, kind, title in zip(
        shown.subplots(1, 2),
        ("repeat", "kept"),
        ("Loss on repeated random tokens (nats)", "Share of the hop that is kept"),
        strict=True,
    ):
        rows = table[table.kind == kind]
        names = list(dict.fromkeys(rows.name))
        for seed in seeds_of(rows):
            part = rows[rows.seed == seed]
            places = [names.index(name) + 0.16 * (seed - 0.5) for name in part.name]
            ax.plot(part.value, places, ls="", marker="o", ms=4, color=colour(seed), label=f"questions of seed {seed}")
            ax.hlines(places, part.low, part.high, color=colour(seed), lw=1)
        name_rows(ax, names)
        ax.axvline(0, color=GREY, lw=0.8, ls=":")
        ax.set_title(title)
    ax.legend(loc="lower right")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether a few stacked heads of a language model do one hop."""
    yield from about_scores(table)
    yield from about_the_set(table)
    yield from about_the_stack(table)


def numbers(table: DataFrame, kind: str, name: str, column: str = "value") -> Any:
    """A number of every run, by run; the largest if a run has several."""
    return table[(table.kind == kind) & (table.name == name)].groupby("run")[column].max()


def about_scores(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether the model does one hop, and whether its induction heads matter."""
    evidence = Evidence(table, "beyond (4)")
    found = numbers(table, "hop", "accuracy", "low") - numbers(table, "hop", "chance")
    yield told(evidence, "one_hop_above_chance", found, "lower end less chance", above=0, said={"model": names(table)})
    random = numbers(table, "repeat", "without random heads")
    evidence = Evidence(table, "beyond (Olsson et al., 2022)")
    found = numbers(table, "repeat", "without induction heads") - random
    yield told(evidence, "induction_heads_matter", found, "loss beyond that of the worst random set (nats)", above=0)


def about_the_set(table: DataFrame) -> Iterator[Claim]:
    """Claims on the heads that do the hop, compared with others."""
    size, whole = numbers(table, "heads", "in the set"), numbers(table, "heads", "of the model")
    sets = table[table.kind == "set"].groupby("run").name.agg(lambda names: ", ".join(sorted(names)))
    evidence, what = Evidence(table, "beyond (8.2)"), "share of the model's heads"
    yield told(evidence, "few_heads_do_the_hop", size / whole, what, at_most=FEW, said={"model": names(table)})
    evidence = Evidence(table, "beyond (E)")
    yield told(evidence, "they_keep_the_metric", numbers(table, "kept", "the set"), "share kept", at_least=0.8)
    for id, others in (("random_heads_do_not", "random heads"), ("others_do_not", "all but the set")):
        yield told(evidence, id, numbers(table, "kept", others), "share kept", at_most=IDLE)
    evidence, what = Evidence(table, "beyond (8.2)", source=""), "number of different sets"
    provided = bound("the number of sets of questions", len(sets), above=1)
    yield told(evidence, "same_heads_for_other_questions", sets.nunique(), what, equals=1, provided=provided)


def about_the_stack(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether the stack of heads is as deep as theory requires."""
    induction = {run: set(part.name) for run, part in table[table.kind == "induction"].groupby("run")}
    sets = table[table.kind == "set"].groupby("run").name.agg(set)
    evidence = Evidence(table, "beyond (8.2, i)")
    found = [bool(heads & induction[str(run)]) for run, heads in sets.items()]
    yield told(evidence, "an_induction_head_is_among_them", found, "sets with such a head", of="share of", equals=1)
    stacks = table[table.kind == "stack"].groupby("run").name
    what, found = "number of stacked heads beyond the least", stacks.size() - numbers(table, "depth", "least by theory")
    yield told(Evidence(table, "beyond (5)", source=""), "stack_is_deep_enough", found, what, at_least=0)

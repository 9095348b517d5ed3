"""Rule induction beside rule application (Qiu et al., 2024, arXiv:2310.08559, section 4).

A language model chooses among four rules after eight examples, and on the same exercises among outputs for a ninth
input. Answers are compared by their log-likelihoods. The same examples with shuffled outputs are the control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.core.intervals import sign_test, wilson_of_mean
from hopscope.core.settings import setting
from hopscope.drawing.curves import points
from hopscope.drawing.style import GREY, PALETTE, picture, styled
from hopscope.experiments.judging import Claim, Evidence, bound, significant, telling
from hopscope.experiments.reports import Report
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.formulations.base import Question
from hopscope.language.backends.base import Backend
from hopscope.language.benchmarking import measured
from hopscope.language.benchmarks.base import CHOICES
from hopscope.language.benchmarks.hypothesis_refinement import HypothesisRefinement, domain_named
from hopscope.language.controlled import LABELS
from hopscope.language.layouts.code import Code
from hopscope.language.opening import open_backend
from hopscope.language.protocols.log_likelihood import best
from hopscope_studies.hypothesis_refinement.claims import ERRORS, WORDS

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 720, "paper": 14400}
MODELS = {"quick": ("known:last_line",), "cpu": ("smollm2",), "paper": ("smollm2", "gemma3-270m")}
SCRIPTED = KNOWS, INDIFFERENT = "known:oracle", "known:refuses"  # to the second all answers are equally likely
COUNTS = {"quick": (4, 2), "cpu": (100, 10), "paper": (400, 100)}  # exercises: of scripted models, and for each seed
#: What is compared: of log p of an answer after the examples, log p without them, and its text. The first is judged.
WAYS: dict[str, Callable[[float, float, str], float]] = {
    "beyond prior": lambda given, prior, text: given - prior,
    "sum": lambda given, prior, text: given,
    "per character": lambda given, prior, text: given / len(text),
}
PROTOCOL = next(iter(WAYS))
EVERY = "all"
RULES = {domain: words["rule"] for domain, words in WORDS.items()} | {EVERY: "a rule of any of the four kinds"}
COMPARED = {"rule_beyond_shuffled": ("rule", "rule_shuffled"), "rule_before_output": ("rule_paired", "output")}
SENTENCES = {
    "rule_beyond_guessing": "After eight examples of {rule}, {model} chooses the right one of four rules in more than "
    "a quarter of the exercises.",
    "rule_beyond_shuffled": "After eight examples of {rule}, {model} chooses the right one of four rules more often "
    "than after the same examples with shuffled outputs.",
    "rule_before_output": "After eight examples of {rule}, {model} chooses the right rule more often than the rule's "
    "output for a ninth input, among as many.",
    "whoever_knows_chooses_right": "Control: a scripted model that knows the answers always chooses the right one.",
    "indifference_scores_chance": "Control: a scripted model that finds all answers equally likely is right by chance.",
}
told = telling(SENTENCES)


@dataclass(frozen=True)
class Chosen(Report):
    """A model that chooses rules and outputs, after true and after shuffled examples."""

    label, file, part = "rules-chosen", "rules.json", "rules"

    model: str = setting("smollm2", "which")
    domain: str = setting("lists", "of the rules")
    count: int = setting(10, "exercises")
    seed: int = setting(0, "of the exercises")

    def report(self) -> dict[str, Any]:
        backend = open_backend(self.model, threads=1)
        pairs = zip(*(self.scored(backend, answers) for answers in ("rule", "output")), strict=True)
        return {"rows": [self.choices(way, *pair) for pair, way in product(pairs, WAYS)]}

    def scored(self, backend: Backend, answers: str) -> list[tuple[Question, list[list[float]]]]:
        """Questions with the log-likelihoods of their choices after true and shuffled examples, and without any."""
        layout, asked = Code(), list[Question]()
        for labels in LABELS:
            bench = HypothesisRefinement(self.domain, answers, labels=labels)
            backend.learn(bench, layout, self.seed, range(self.count))
            asked += [bench.question(self.seed, index) for index in range(self.count)]
        asked += [question.without_facts() for question in asked[: self.count]]
        scores = backend.log_likelihoods([layout.render(bench, question) for question in asked])
        return [(asked[index], scores[index :: self.count]) for index in range(self.count)]

    def choices(self, way: str, *asked: tuple[Question, list[list[float]]]) -> dict[str, Any]:
        """Whether each choice of an exercise is right, as 1 or 0."""
        right: dict[str, Any] = {"domain": self.domain, "way": way, "of": domain_named(self.domain).OUTPUTS}
        for name, (question, (*after, prior)) in zip(("rule", "output"), asked, strict=True):
            true, shuffled = (list(map(WAYS[way], given, prior, question.acceptable)) for given in after)
            right |= {name: picked(question, true), f"{name}_shuffled": picked(question, shuffled)}
            right.setdefault("rule_paired", picked(question, true, right["of"]))
        return right


def picked(question: Question, scores: Sequence[float], of: int = CHOICES) -> int:
    """1 if the right answer has the highest score among itself and the first `of` − 1 wrong ones, else 0.

    Of equal scores the first is the highest.
    """
    right = question.acceptable.index(question.answer)
    some = sorted([right, *[i for i in range(len(scores)) if i != right][: of - 1]])
    return int(some[best([scores[i] for i in some])] == right)


def runs(scale: str) -> Iterator[Work]:
    """The work on scripted models and on SmolLM2; at `paper` also on Gemma."""
    scripted, asked = COUNTS[scale]
    yield from (Chosen(model, domain, scripted) for model, domain in product(SCRIPTED, WORDS))
    yield from (Chosen(model, domain, asked, seed) for model, domain, seed in product(MODELS[scale], WORDS, range(5)))


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per exercise and way of comparing answers.

    Columns: run, version, seed, model, part, domain, way, of, and 1 or 0 for right and wrong choices: rule,
    rule_shuffled, rule_paired, output, output_shuffled. `of` is the number of outputs to choose from, and of rules in
    `rule_paired`.
    """
    return rows_of(runs)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about scripted models, and about language models in each domain and in all together."""
    knows, judged = table[table.model == KNOWS], table[table.way == PROTOCOL]
    shares, what = knows.filter(regex="rule|output").mean(), "share of right choices"
    yield told(Evidence(knows, "4"), "whoever_knows_chooses_right", shares, what, at_least=1.0)
    alike, asked = judged[judged.model == INDIFFERENT], judged[~judged.model.isin(SCRIPTED)]
    away = [abs((alike[one] - 1 / alike.of).mean()) for one in ("rule_paired", "output")]
    error = 0.5 / max(1, len(alike)) ** 0.5  # the largest standard error that a share can have
    what, most = f"distance of a {what} from chance", ERRORS * error
    yield told(Evidence(alike, "4"), "indifference_scores_chance", away, what, at_most=most)
    for domain, rule in RULES.items():
        rows, tests = (asked, 1) if domain == EVERY else (asked[asked.domain == domain], len(WORDS))
        yield from about_rules(rows, domain, tests, {"rule": rule, "model": " and ".join(asked.model.unique())})


def about_rules(rows: DataFrame, domain: str, tests: int, said: dict[str, str]) -> Iterator[Claim]:
    """Claims about rules: against a quarter, shuffled outputs and application; `tests` corrects the last two."""
    seeds, evidence = rows.groupby("seed"), Evidence(rows, "4")
    ends = wilson_of_mean(list(rows.rule)) if len(rows) else []
    above = bound(f"end of the interval over {len(rows)} exercises", ends, above=1 / CHOICES, unanimous=True)
    how: dict[str, Any] = {"sentence": "rule_beyond_guessing", "number": "mean", "said": said}
    yield told(evidence, f"{domain}_rule_beyond_guessing", seeds.rule.mean(), also=[above], **how)
    for id, (one, other) in COMPARED.items():
        wins, losses = (int((rows[a] > rows[b]).sum()) for a, b in ((one, other), (other, one)))
        chances = [min(1.0, tests * sign_test(side, wins + losses)) for side in (wins, losses)]
        test = significant(f"more exercises won ({wins}) than lost ({losses}), × {tests},", *chances)
        gaps = seeds[one].mean() - seeds[other].mean()
        yield told(evidence, f"{domain}_{id}", gaps, also=[test], **how | {"sentence": id})


@styled
def figure(table: DataFrame) -> Figure:
    """Right choices of a language model by domain, compared as the protocol says; and of rules by what is compared."""
    shown, rows = picture(12.0, 3.7), table[~table.model.isin(SCRIPTED)]
    left, right = shown.subplots(1, 2, width_ratios=[1.3, 1.0])
    domains = rows[rows.way == PROTOCOL].groupby("domain", sort=False)
    title = f"{' and '.join(rows.model.unique())}: choices among four (outputs of lights: two)"
    draw(left, {(domain, asked): group for domain, group in domains for asked in ("rule", "output")}, title)
    ways = {(way, "rule"): group for way, group in rows.groupby("way", sort=False)}
    draw(right, ways, "Rules of all domains, by what is compared")
    return shown


def draw(ax: Axes, groups: dict[tuple[Any, str], DataFrame], title: str) -> None:
    """Draw shares of right choices after true and shuffled examples; dashes are chance."""
    for labels, ink, shift in (("", PALETTE[0], -0.15), ("_shuffled", PALETTE[1], 0.15)):
        shares = DataFrame([measured("", list(group[asked + labels])) for (_, asked), group in groups.items()])
        points(ax, list(shares.index + shift), shares, ink, f"examples {labels.strip('_') or 'true'}")
    chance = [1 / CHOICES if asked == "rule" else (1 / group.of).mean() for (_, asked), group in groups.items()]
    ax.hlines(chance, list(shares.index - 0.4), list(shares.index + 0.4), color=GREY, ls="--", lw=1)
    ax.set_xticks(range(len(groups)), ["\n".join(kind) for kind in groups], fontsize=7)
    ax.set(ylim=(-0.02, 1.05), ylabel="right choices", title=title)
    ax.legend(loc="upper right")

"""The heads that do one hop in a real model: paths, a minimal set, connections between heads, and the controls.

There are three disjoint ranges of questions: for means and attribution (discovery), for exact effects and the search
for a minimal set (selection), and for every number that is reported about that set (report).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import Settings, setting
from hopscope.language.lens.ablation import Head, random_heads, short
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import estimate
from hopscope.language.lens.prompts import Prompts
from hopscope.language.readings.base import Watch
from hopscope.problem.paths import RELATIONS, Path
from hopscope.problem.roles import Roles
from hopscope.theory.depth import minimum_depth
from hopscope_studies.stacked_heads.language.emptied import emptied
from hopscope_studies.stacked_heads.language.minimal import LEVEL, Minimal, search
from hopscope_studies.stacked_heads.language.role_paths import (
    Base,
    ByHand,
    KnockOut,
    Looked,
    Traced,
    attributions,
    base,
    means_of,
    ranked,
)
from hopscope_studies.stacked_heads.language.stacking import CUT, Link, cut, longest_stack, screen

CONFIRMED = 30  # paths whose effect is computed exactly,
CONFIRMED_ON = 40  # on at most this many of the selection questions
CONTROLS = 5  # random sets of heads; paths knocked out with shuffled labels
MOST_STACKED = 16  # heads among which connections are screened


@dataclass(frozen=True)
class HeadStudy(Settings):
    """The extent of the measurements."""

    count: int = setting(200, "questions; a third each for discovery, selection and report", low=48, high=3000)
    seed: int = setting(0, "of the questions and of everything random", low=0)
    tests: int = setting(40, "sets of heads that the search for a minimal one may try", low=8, high=3000)


@dataclass
class Hop:
    """The analysis of one hop, step by step.

    Attributes:
        lens: the model.
        prompts: all questions.
        looked: their attention and answers.
        settings: the extent of the measurements.
        n_hops: D.
        watch: receives a line of text on progress.
        table: for each column a value per head.
    """

    lens: Lens
    prompts: Prompts
    looked: Looked
    settings: HeadStudy
    n_hops: int
    watch: Watch
    table: dict[str, Tensor] = field(default_factory=dict)

    def measure(self) -> dict[str, Any]:
        """All steps, as in heads.json."""
        third = len(self.prompts) // 3
        discovery, selection = self.prompts.part(0, third), self.prompts.part(third, 2 * third)
        report = self.prompts.part(2 * third, len(self.prompts))
        self.watch(f"attribution over {len(discovery)} questions, one backward pass each")
        self.means = means_of(self.lens, discovery)
        heads, paths = attributions(self.lens, discovery, self.means.patterns)
        self.table["attribution"] = heads
        on = base(self.lens, selection)
        few = base(self.lens, selection.part(0, CONFIRMED_ON))
        confirmed = self.confirm(few, ranked(paths, self.prompts.roles, CONFIRMED))
        found = self.minimal_set(on, heads)
        links, cuts = self.stacks(on, found, confirmed)
        return {
            "splits": {"discovery": third, "selection": third, "confirmed_on": len(few.odds), "report": len(report)},
            "paths": confirmed,
            "minimal": self.judge(base(self.lens, report), found),
            "heads": [self.portrait(head, heads, paths, head in found.heads) for head in shown(found, cuts)],
            "stacking": {"screened": len(links), "prompts": len(selection), "cut": cuts},
            "depth": self.depth(links[: len(cuts)], cuts, found),
        }

    def confirm(self, on: Base, paths: Sequence[tuple[Path, float]]) -> list[dict[str, Any]]:
        """Exact effects of paths knocked out and of paths made ideal; the most needed also with shuffled labels."""
        rows = []
        self.watch(f"confirming {len(paths)} paths exactly")
        for path, guess in paths:
            out = on.odds_with(self.lens, KnockOut([path], on.prompts.roles)) - on.odds
            ideal = on.odds_with(self.lens, ByHand([path], on.prompts.roles)) - on.odds
            row = {"path": str(path), **path.as_dict(), "strength": self.strength(path), "attribution": guess}
            rows.append({**row, "knocked_out": estimate(out), "by_hand": estimate(ideal), "shuffled": None})
        rows.sort(key=lambda row: row["knocked_out"]["mean"])
        shuffled = on.prompts.shuffled(self.settings.seed + 1).roles
        crossing = [row for row in rows if row["chain"] == "same" and crosses(row)][:CONTROLS]
        for row in crossing:
            effect = on.odds_with(self.lens, KnockOut([Path.from_dict(row)], shuffled)) - on.odds
            row["shuffled"] = estimate(effect)
        return rows

    def strength(self, path: Path, control: bool = False) -> float | None:
        """Mean attention on a path over all questions; None if the path has no entries."""
        roles = self.prompts.roles
        place = (path.layer, RELATIONS.index(path.chain), path.head, roles.index(path.query), roles.index(path.key))
        value = float((self.looked.control if control else self.looked.strengths)[place])
        return value if value == value else None

    def minimal_set(self, on: Base, heads: Tensor) -> Minimal:
        """The search for a minimal set, over heads in the order of their attribution."""
        order = [divmod(i, heads.shape[1]) for i in heads.flatten().argsort().tolist()]
        empty = emptied(self.lens, on, self.means.patterns)

        def keeps(kept: frozenset[Head]) -> float:
            value = empty.faithfulness(empty.odds_keeping(self.lens, kept))
            self.watch(f"{len(kept)} heads keep {value:.2f} of the metric")
            return value

        return search(order, keeps, self.settings.tests)

    def judge(self, on: Base, found: Minimal) -> dict[str, Any]:
        """The set, its complement and random sets, on questions that the search has not seen."""
        self.watch(f"judging the set on {len(on.prompts)} other questions, beside random sets")
        empty = emptied(self.lens, on, self.means.patterns)
        seed, others = self.settings.seed, [head for head in self.lens.heads if head not in found.heads]

        def judged(kept: Sequence[Head]) -> dict[str, float]:
            odds = empty.odds_keeping(self.lens, kept)
            low, high = empty.interval(odds, seed)
            return {"faithfulness": empty.faithfulness(odds), "low": low, "high": high}

        size = len(found.heads)
        draws = [random_heads(others, size, seed + 100 + draw) for draw in range(CONTROLS)] if size else []
        return {
            "level": LEVEL,
            "size": size,
            "of": len(self.lens.heads),
            "prefix": found.prefix,
            "tests": found.tests,
            "finished": found.finished,
            "log_odds": {"model": estimate(on.odds), "none": estimate(empty.odds)},
            "set": judged(found.heads),
            "without_set": judged(others),
            "random_sets": [{"heads": [short(head) for head in draw], **judged(draw)} for draw in draws],
        }

    def stacks(
        self, on: Base, found: Minimal, confirmed: Sequence[dict[str, Any]]
    ) -> tuple[list[Link], list[dict[str, Any]]]:
        """Connections among the set's heads and those of other needed paths: screened, then cut."""
        needed = [(row["layer"], row["head"]) for row in confirmed if row["knocked_out"]["high"] < 0]
        among = sorted(list(dict.fromkeys([*found.heads, *needed]))[:MOST_STACKED])
        self.watch(f"path patching among {len(among)} heads")
        links = screen(self.lens, on, among, self.means.outputs)
        with torch.no_grad():
            seen = Traced()
            self.lens.run(on.streams[0], seen)
        cuts = []
        for link in links[:CUT]:
            effect = cut(self.lens, on, link, self.means.outputs, seen.kept["z"][link.sender[0]])
            names = {"sender": short(link.sender), "receiver": short(link.receiver), "part": link.part}
            cuts.append({**names, "attribution": link.estimate, "cut": estimate(effect)})
        return links, cuts

    def portrait(self, head: Head, heads: Tensor, paths: Tensor, minimal: bool) -> dict[str, Any]:
        """A head of the set, or one that feeds it: its most important path, and its attention by role."""
        layer, number = head
        own = torch.zeros_like(paths)
        own[layer, :, number] = paths[layer, :, number].nan_to_num(0).clamp(max=0)
        path, worth = ranked(own, self.prompts.roles, 1)[0]
        strengths = self.looked.strengths[layer, :, number]
        return {
            "head": short(head),
            "layer": layer,
            "number": number,
            "minimal": minimal,
            "attribution": float(heads[head]),
            "path": str(path),
            "path_attribution": worth,
            "strength": self.strength(path),
            "shuffled_strength": self.strength(path, control=True),
            "strengths": [[[v if v == v else None for v in row] for row in grid] for grid in strengths.tolist()],
        }

    def depth(self, links: Sequence[Link], cuts: Sequence[dict[str, Any]], found: Minimal) -> dict[str, Any]:
        """The depth of the stack of heads, and the fewest layers that the hop needs in theory."""
        sure = [link for link, row in zip(links, cuts, strict=True) if row["cut"]["high"] < 0]
        order = presented(self.prompts.roles)
        plain = all(re.fullmatch(r"\w+(\[\d+\])?", name) for name in self.prompts.roles.names)
        least = minimum_depth(self.n_hops, "causal", "many", order).min_layers if plain else None
        return {
            "hops": self.n_hops,
            "order": order,
            "min_layers": least,  # the theory is for plain chains
            "stack": [short(head) for head in longest_stack(sure)],
            "certain_links": len(sure),
            "layers_used": len({layer for layer, _ in found.heads}),
            "model_layers": self.lens.n_layers,
        }


def shown(found: Minimal, cuts: Sequence[dict[str, Any]]) -> list[Head]:
    """The heads of the set, and those at either end of a connection whose cut certainly harms the answer."""
    ends = {row[end] for row in cuts if row["cut"]["high"] < 0 for end in ("sender", "receiver")}
    others = [(int(layer), int(head)) for layer, head in (name[1:].split("H") for name in ends)]
    return sorted({*found.heads, *others})


def crosses(row: dict[str, Any]) -> bool:
    """Whether a path leads to a fact from outside it; within a fact, shuffling chains role by role changes nothing."""
    steps = {re.sub(r"\D", "", row["query"]), re.sub(r"\D", "", row["key"])}
    return len(steps) > 1


def presented(roles: Roles) -> str:
    """The order of the steps in the first prompt, as theory names it."""
    first = {
        int(found[1]): int((roles.chain[0, i] >= 0).float().argmax())
        for i, name in enumerate(roles.names)
        if (found := re.match(r"value\[(\d+)", name))
    }
    steps = sorted(first, key=lambda step: first[step])
    return "deepest_first" if steps == sorted(steps, reverse=True) else ",".join(map(str, steps))

"""Measurements of language models, as an experiment's work, and the counts that the authors released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, Report
from hopscope_studies.retrieval_heads.published import MODELS
from hopscope_studies.retrieval_heads.reading import needles, released

REPORT = "retrieval.json"


@dataclass(frozen=True)
class Needles(OfModel):
    """A report on needles in hay, asked of a language model, of a hand-set model, or of an untrained one."""

    label = "needles"
    file = REPORT

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(12, "needles")
    seed: int = setting(0, "of needles, hay and random heads")
    brief: bool = setting(False, "scores alone")

    rows = staticmethod(needles)

    def report(self) -> dict[str, Any]:
        from hopscope.language.lens.by_hand import by_hand
        from hopscope_studies.retrieval_heads.language.study import RetrievalStudy, retrieval_study

        return retrieval_study(self.opened(by_hand), RetrievalStudy(self.count, self.seed, self.brief), print)


@dataclass(frozen=True)
class Published(Report):
    """A report with the authors' counts, unchanged."""

    label, part = "published", "published"
    file = REPORT

    seed: int = setting(0, "there is none")

    def report(self) -> dict[str, Any]:
        return {"models": MODELS}

    rows = staticmethod(released)

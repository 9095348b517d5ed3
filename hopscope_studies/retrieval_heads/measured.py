"""What is measured of language models, kept as an experiment's work; and what the authors released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.reports import OfModel
from hopscope.experiments.work import Work
from hopscope_studies.retrieval_heads.made_up import REPORT as MADE_UP
from hopscope_studies.retrieval_heads.published import MODELS

REPORT = "retrieval.json"


@dataclass(frozen=True)
class Needles(OfModel):
    """Needles in hay, asked of a language model, of one made by hand, or of one that has learnt nothing."""

    label = "needles"
    file, made_up = REPORT, MADE_UP

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(12, "needles")
    seed: int = setting(0, "of needles, hay and random heads")
    brief: bool = setting(False, "scores alone")

    def report(self) -> dict[str, Any]:
        from hopscope.language.lens.by_hand import by_hand
        from hopscope_studies.retrieval_heads.language.study import RetrievalStudy, retrieval_study

        return retrieval_study(self.opened(by_hand), RetrievalStudy(self.count, self.seed, self.brief), print)


@dataclass(frozen=True)
class Published(Work):
    """The authors' counts, as they stand."""

    label = "published"

    seed: int = setting(0, "there is none")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, {"models": [asdict(one) for one in MODELS]})

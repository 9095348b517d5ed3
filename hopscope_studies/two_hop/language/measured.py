"""A language model's answers to the templates, as an experiment's work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel
from hopscope_studies.two_hop.language.templates import CHAINS, TEMPLATES, Asked, asked

if TYPE_CHECKING:
    from hopscope.language.backends.base import Backend

REPORT = "templates.json"
Row = dict[str, Any]


@dataclass(frozen=True)
class Templates(OfModel):
    """How often a model continues with the right name, by template, number of chains and of hops."""

    label = "two-hop-templates"
    file = REPORT

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(8, "texts of each template and number of chains", low=1)
    seed: int = setting(0, "of texts, and of weights that are not trained")

    def report(self) -> dict[str, Any]:
        """The rows of the table. Raises BadInput if the model is not installed."""
        from hopscope.language.backends.hugging_face import HuggingFace

        opened = self.opened()
        rows = list(rows_of(HuggingFace(opened), self.count, self.seed))
        return {"model": opened.name, "identity": opened.identity, "rows": rows}


def rows_of(backend: Backend, count: int, seed: int) -> Iterator[Row]:
    """A row for every template, number of chains and of hops."""
    for template in TEMPLATES:
        for n_chains in CHAINS:
            texts = [asked(template, n_chains, seed, index) for index in range(count)]
            for hops in (1, 2):
                scores = backend.log_likelihoods([request(text, hops) for text in texts])
                yield {"template": template, "chains": n_chains, "hops": hops, **counted(scores, n_chains)}


def request(text: Asked, hops: int) -> Any:
    """A question as given to the model, with every end and every middle as an answer."""
    from hopscope.language.layouts.base import Rendered, spaced

    return Rendered(text.text(hops), False, spaced(text.choices), ())


def counted(scores: Sequence[Sequence[float]], n_chains: int) -> Row:
    """Counts of texts: in `right` the right end is the likeliest end; in `ends` an end is the likeliest name; in `own`
    it is the right chain's middle."""
    best = [max(range(len(each)), key=each.__getitem__) for each in scores]
    right = [max(range(n_chains), key=each.__getitem__) == 0 for each in scores]
    return {
        "asked": len(scores),
        "right": sum(right),
        "ends": sum(place < n_chains for place in best),
        "own": sum(place == n_chains for place in best),
    }

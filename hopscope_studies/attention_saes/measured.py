"""The work of `attention_saes`: measurements of hand-set layers and of language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, Report
from hopscope.probes.sparse_autoencoder import SparseTraining
from hopscope_studies.attention_saes import reading
from hopscope_studies.attention_saes.known import by_hand_report

REPORT = "attention_saes.json"


@dataclass(frozen=True)
class Known(Report):
    """A report on an autoencoder of the hand-set layer."""

    label, part = "known-features", "by hand"
    file = REPORT

    seed: int = setting(0, "of directions, sequences and the autoencoder")
    sequences: int = setting(2048, "that are read; as many others judge")
    steps: int = setting(1500, "updates of the autoencoder")
    l1: float = setting(2.0, "weight of the features' sum")

    def report(self) -> dict[str, Any]:
        return by_hand_report(self.seed, self.sequences, SparseTraining(steps=self.steps, l1=self.l1))

    rows = staticmethod(reading.known)


@dataclass(frozen=True)
class Prefixes(OfModel):
    """A report on a language model's heads by prefix length."""

    label = "prefix-heads"
    file = REPORT

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(48, "sequences, a half each for choosing and judging")
    seed: int = setting(0, "of sequences and random heads")
    brief: bool = setting(False, "nothing is cut")

    rows = staticmethod(reading.prefixes)

    def report(self) -> dict[str, Any]:
        from hopscope.language.lens.attention import Lens
        from hopscope_studies.attention_saes.heads import heads_report

        return heads_report(Lens(self.opened()), self.count, self.seed, self.brief, print)


@dataclass(frozen=True)
class Layer(OfModel):
    """A report on an autoencoder of one layer of a language model."""

    label, part = "layer-features", "layer"
    file = REPORT

    model: str = setting("smollm2", "which")
    layer: int = setting(18, "whose attention outputs")
    train: int = setting(240, "blocks of text to train on")
    held: int = setting(20, "blocks of other text to judge by")
    expansion: float = setting(2.0, "features per dimension")
    l1: str = setting("4,8", "weights of the features' sum that are tried, separated by commas")
    steps: int = setting(800, "updates of 512 vectors")
    seed: int = setting(0, "of the autoencoder; odd ones swap the halves of the text")

    rows = staticmethod(reading.layer)

    def report(self) -> dict[str, Any]:
        from hopscope.language.lens.attention import Lens
        from hopscope_studies.attention_saes.features import layer_report

        lens = Lens(self.opened())
        training = SparseTraining(expansion=self.expansion, steps=self.steps, seed=self.seed)
        tried = [float(part) for part in self.l1.split(",")]
        return layer_report(lens, self.layer, training, tried, (self.train, self.held), print)


@dataclass(frozen=True)
class SourceKinds(OfModel):
    """Rows on features by kind of source, in a planted layer (`by_hand`) or in layers of a language model."""

    label = "source-kinds"
    file = REPORT

    model: str = setting("smollm2", "which")
    layers: str = setting("6,12,18", "whose attention outputs, separated by commas; by_hand has one")
    train: int = setting(112, "blocks of text, or planted sequences, to train on")
    held: int = setting(48, "blocks of other text to judge by; as many planted sequences as to train on")
    expansion: float = setting(2.0, "features per dimension")
    l1: float = setting(4.0, "weight of the features' sum")
    steps: int = setting(300, "updates of 512 vectors")
    seed: int = setting(0, "of the autoencoder and planted directions; odd ones swap the halves of the text")

    def report(self) -> dict[str, Any]:
        from hopscope.language.lens.attention import Lens
        from hopscope_studies.attention_saes.features import layer_kinds
        from hopscope_studies.attention_saes.planted import planted_rows

        training = SparseTraining(expansion=self.expansion, l1=self.l1, steps=self.steps, seed=self.seed)
        if self.model == "by_hand":
            return {"rows": list(planted_rows(self.seed, self.train, training))}
        layers = [int(layer) for layer in self.layers.split(",")]
        return {"rows": list(layer_kinds(Lens(self.opened()), layers, training, (self.train, self.held), print))}

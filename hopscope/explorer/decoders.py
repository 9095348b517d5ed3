"""Linear decoders of residual streams, for the page's scene.

They are the probes of `hopscope.probes.reach`: a ridge regression predicts a symbol of the position's chain, and the
nearest of the symbols at that place of the sequence's chains is the answer. Decoders are fitted on some sequences and
tested on others. The page only uses those that are right in at least 95 % of cases (`LEAST`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from jaxtyping import Float

from hopscope.core.storage import Damaged, to_json
from hopscope.core.strangers import json_of
from hopscope.explorer.bundle import Block
from hopscope.explorer.measuring import place
from hopscope.models.transformer import Transformer
from hopscope.probes import reach
from hopscope.probes.linear import Probe
from hopscope.problem.paths import role_name
from hopscope.runs.kept import kept, weights
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

LEAST = 0.95  # least accuracy of a decoder that is shown
SEQUENCES = {"train": 2000, "select": 500, "test": 1000}
SEED = 0
VERSION = 1  # of the fit; raised whenever its results may change


@dataclass(frozen=True)
class Decoders:
    """The decoders of one checkpoint.

    Attributes:
        cells: of every stream (layers passed, from 0), role and hop (symbol x_hop): `layer`, `role`, `hop`, and the
            share of right answers `accuracy`, 0–1, on the test sequences.
        read: block, a row for each cell of at least LEAST: the map (d_model, d_symbol), its bias, the mean of the
            symbol (both d_symbol), and the slope by which candidates are drawn to that mean.
    """

    cells: list[dict[str, Any]]
    read: Block

    def entry(self, step: int, block: str) -> dict[str, Any]:
        """The entry in the manifest."""
        return {"step": step, "n": SEQUENCES["test"], "least": LEAST, "cells": self.cells, "block": block}


def decoders_of(run: Run, step: int) -> Decoders | None:
    """A checkpoint's decoders, fitted or from the cache. Raises Damaged.

    Only hopscope's own transformer on plain retrieval has some; None for any other run.
    """
    task, model = run.task, run.at(step)
    if type(task) is not Retrieval or type(model) is not Transformer:
        return None
    about = {"weights": weights(run, [step]), "sequences": SEQUENCES, "seed": SEED, "version": VERSION}
    return kept(run, "decoders", about, lambda: fitted(model, task), files_of, decoders_in, place=place())


@torch.no_grad()
def fitted(model: Transformer, task: Retrieval) -> Decoders:
    """Fit and test a decoder for every stream, role and hop."""
    probes, score = reach.fitted(model, task, SEQUENCES, SEED)
    shares = score.sums[0, :, :, ::2] / score.n  # stream place hop: symbols stand at every second piece
    cells, rows = [], []
    for layer, number, hop in numpy.ndindex(shares.shape):
        accuracy = float(shares[layer, number, hop])
        cells.append({"layer": layer, "role": role_name(number), "hop": hop, "accuracy": accuracy})
        if accuracy >= LEAST:
            rows.append(row_of(probes[layer][number], hop, task.d_symbol))
    width = model.architecture.d_model * task.d_symbol + 2 * task.d_symbol + 1
    return Decoders(cells, Block.of(numpy.array(rows, numpy.float32).reshape(-1, width)))


def row_of(probe: Probe, hop: int, d_symbol: int) -> Float[numpy.ndarray, "number"]:
    """The numbers of one decoder as a row of `Decoders.read`."""
    own, piece = slice(2 * hop * d_symbol, (2 * hop + 1) * d_symbol), 2 * hop
    parts = [probe.weight[:, own].flatten(), probe.bias[own], probe.mean[piece], probe.slope[piece, None]]
    return torch.cat(parts).numpy()


def files_of(found: Decoders) -> dict[str, bytes]:
    """The files in the cache."""
    return {"read": found.read.data, "about.json": to_json({"cells": found.cells, "block": found.read.entry()})}


def decoders_in(files: Mapping[str, bytes]) -> Decoders:
    """The inverse of `files_of`. Raises Damaged."""
    try:
        about = json_of(files["about.json"])
        return Decoders(about["cells"], Block.from_entry(files["read"], about["block"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the cached decoders are damaged: {error!r}") from error

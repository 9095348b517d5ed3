"""The paper's own setting, its measurements and claims: noise is a rare character, and tests have no noise.

After the authors' code (leichen2018/ATTN_vs_MLP, `ihead_basic_main.py`). Probabilities are means over the second and
later triggers of sequences without noise. One feed-forward matrix at a time keeps a share of its rank.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.values import lags
from hopscope.interventions.truncation import Laser
from hopscope.measures import observe
from hopscope.measures.base import Observation
from hopscope.problem.roles import ABSENT, NO_CHAIN
from hopscope.runs.run import Run
from hopscope_studies.noisy_bigram.measures.global_association import global_association
from hopscope_studies.noisy_bigram.measures.in_context_recall import in_context_recall
from hopscope_studies.noisy_bigram.measures.recall_margin import recall_margin
from hopscope_studies.noisy_bigram.models.frozen_embeddings import FrozenEmbeddingsTransformer
from hopscope_studies.noisy_bigram.tasks.noisy_characters import NoisyCharacters

TALK = "Bietti's talk on arXiv:2406.03068"
#: What is claimed, by id: the sentence, what each value is, and where the source says it.
CLAIMS = tomllib.loads((Path(__file__).parent / "data" / "claims.toml").read_text())
SHARES = (0.0, 0.1, 0.2)  # of the rank, kept (the code's)
MATRICES = ("W_in", "W_out")
LAYERS = {0: "early", 1: "late"}


# Measuring -------------------------------------------------------------------------------------------------------


def rows_of_official(run: Run, about: dict[str, Any], sequences: int) -> Iterator[dict[str, Any]]:
    """Rows on a run's checkpoints, then on its answers with one matrix truncated; sequences have no noise."""
    task, random = run.task, generator(run.config.training.seed_eval, "without noise")
    assert isinstance(task, NoisyCharacters)
    clean, noisy = task.but(alpha=0.0).sample(sequences, random), task.sample(sequences, random)
    for step in run.steps:
        model = run.at(step)
        assert isinstance(model, FrozenEmbeddingsTransformer)
        yield {"kind": "official curve", **about, "step": step, **answers(observe(model, clean))} | {
            **margins(model, task),
            **attended(observe(model, noisy)),
        }
    laser = Laser(run.model)
    for layer, name in LAYERS.items():
        for matrix in MATRICES:
            for share in SHARES:
                with laser([layer], share, matrix=matrix):
                    place = {"layers": name, "matrix": matrix, "share": share, "step": run.step}
                    yield {"kind": "official truncation", **about, **place, **answers(observe(run.model, clean))}


def answers(seen: Observation) -> dict[str, float]:
    """Both probabilities, the margin, and how often the context's answer is the likeliest token."""
    recalled = seen.task.recalled(seen.batch.draw)[..., 0]  # type: ignore[attr-defined]
    right = (seen.outputs.argmax(-1) == recalled)[recalled >= 0]
    numbers = {**in_context_recall(seen), **global_association(seen), **recall_margin(seen)}
    return {**numbers, "top": float(right.float().mean())}


@torch.no_grad()
def margins(model: FrozenEmbeddingsTransformer, task: NoisyCharacters) -> dict[str, float]:
    """By how much each MLP, given the trigger's embedding alone, prefers noise to the next best character (logits)."""
    said = model.association(task.trigger)
    others = said.clone()
    others[:, task.noise] = -torch.inf
    found = (said[:, task.noise] - others.amax(-1)).tolist()
    return {f"margin_{name}": margin for name, margin in zip(LAYERS.values(), found, strict=True)}


def attended(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) of layer 2 from triggers that are asked to answers, and to noise, after earlier triggers."""
    pattern, roles = seen.cache["blocks.1.attn.hook_pattern"][:, 0], seen.batch.roles
    asks = roles.chain[:, roles.index("query")] != ABSENT
    values = roles.chain[:, roles.index("value[1]")]
    return {
        name: float((pattern * (values == chain)[:, None]).sum(-1)[asks].mean())
        for name, chain in (("attended", 0), ("attended_noise", NO_CHAIN))
    }


# Judging ---------------------------------------------------------------------------------------------------------


def official_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the talk's and the paper's statements, in the paper's setting."""
    curves, cut = (table[table.kind == f"official {kind}"] for kind in ("curve", "truncation"))
    ends = curves[curves.step == curves.groupby("run").step.transform("max")].set_index("run", drop=False)
    yield from trained_claims(curves, ends)
    yield from removed_claims(ends, cut)
    yield from low_rank_claims(cut)


def told(rows: DataFrame, id: str, values: Any, *fills: Any, among: DataFrame | None = None, **how: Any) -> Claim:
    """A claim of `data/claims.toml` about some rows; `fills` are the numbers that its sentence leaves open."""
    about = CLAIMS[id]
    evidence = Evidence(rows, about["section"], about.get("source", "ours"), among)
    return evidence.claim(id, about["sentence"].format(*fills), values, about["what"], **how)


#: The same with the mean over runs as the number, though the bound is on each of them.
mean = partial(told, number="mean")


def trained_claims(curves: DataFrame, ends: DataFrame) -> Iterator[Claim]:
    """Claims about what is learnt by the end of training, and in which order."""
    yield mean(ends, "noise_as_often_as_it_comes", (ends.noise - ends.alpha).abs(), below=0.1)
    moments = []
    for _, curve in curves.groupby("run"):
        steps, margin = curve.step.tolist(), curve[["margin_early", "margin_late"]].max(axis=1)
        recall = crossing(steps, (-curve.attended).tolist(), -0.5 * float(curve.attended.max()))
        moments.append((crossing(steps, (-margin).tolist(), -1e-9), recall))
    leads = lags(moments)
    yield mean(curves, "noise_before_recall", leads, n=len(leads), above=0)
    yield mean(
        ends,
        "attention_leaves_noise_out",
        ends.attended - ends.attended_noise,
        ends.attended.mean(),
        ends.attended_noise.mean(),
        above=0,
    )


def removed_claims(ends: DataFrame, cut: DataFrame) -> Iterator[Claim]:
    """Claims about removing one matrix; without biases, removing either matrix of an MLP removes the MLP."""
    late = cut[(cut.layers == "late") & (cut.share == 0) & (cut.matrix == MATRICES[0])].set_index("run", drop=False)
    early = cut[(cut.layers == "early") & (cut.share == 0) & (cut.matrix == MATRICES[0])].set_index("run", drop=False)
    yield mean(
        late,
        "removal_turns_to_the_context",
        late.margin,
        ends.noise.mean(),
        late.noise.mean(),
        above=0,
        also=[bound("ratio of p(noise) to what it was", late.noise / ends.noise, below=0.5)],
    )
    yield mean(late, "removal_makes_recall_certain", late.correct, above=0.9)
    yield mean(early, "early_layer_is_no_substitute", early.margin, at_most=0)


def low_rank_claims(cut: DataFrame) -> Iterator[Claim]:
    """Claims about a low rank of one matrix, at the shares of the authors' code."""
    low = cut[(cut.layers == "late") & (cut.share > 0)]
    for id, matrix in (("truncation_turns_to_the_context", "W_in"), ("output_truncation_turns_too", "W_out")):
        rows = low[low.matrix == matrix]
        yield mean(rows, id, rows.sort_values("margin").groupby("run").tail(1).margin, above=0)

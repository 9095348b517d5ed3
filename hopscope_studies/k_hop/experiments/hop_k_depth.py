"""hop-k by depth: the table of errors of Sanford, Hsu and Telgarsky (2024, arXiv:2402.09268), at two sizes.

Their transformers of L layers learn up to 2^(L−2) hops, and err more and more beyond that. One layer finds what
followed the letter's last occurrence, and each further layer doubles the hops. `PUBLISHED` holds their errors with four
heads and width 128 (length 100, k to 16, 100,000 steps; undefined answers left out). At scale `cpu` our runs are
smaller in every way (docs/fidelity.md), so we compare the shape and order of the tables, not the numbers. At scale
`long` length, k, width, heads, MLPs and batch are theirs. Positions are rotary, and Muon takes 1,500 steps. One layer
that runs four times is trained there, too, and four layers whose batches draw ever more hops. Where positions are
rotary, errors are also counted at twice that length.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from pandas import DataFrame, Series, concat, read_csv

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.tables import rows_of
from hopscope.experiments.values import ratios
from hopscope.measures import observe
from hopscope.models.transformer import Architecture, Transformer
from hopscope.runs.run import Run
from hopscope.tasks.hop_k import HopK

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 600, "long": 10_800, "paper": 200_000}
#: Of one run of `long`, the longest, on one core.
CELL_SECONDS = 1000

PAPER = "Sanford, Hsu and Telgarsky (2024), experiments"
DATA = Path(__file__).parents[1] / "data"
SENTENCES = tomllib.loads((DATA / "sentences.toml").read_text())
#: Error (share of defined answers) by layers and k, from the authors' errors.json (with eight heads: width 256).
PUBLISHED = read_csv(DATA / "published_errors.csv").query("heads == 4").set_index(["layers", "k"]).error
SMALL = 0.1  # error below which k hops count as learnt (ours)
LONGER = 0.25  # error at twice the length; set after one run (.21) was measured there (ours)
LOOPED = 4  # loops of the looped layer at `long`, and layers of the models beside it
STAGED = "staged"  # the curriculum at `long` that is trained beside none

OURS = Architecture(n_heads=2, d_model=64, mlp=False, positions="rotary", init="early_layers")
THEIRS = Architecture(n_heads=4, d_model=128, mlp=True, init="early_layers")
TRAINING = Training(weight_decay=0.01, checkpoints="100000", log_every=100)
FEW = TRAINING.but(steps=4, batch=4, log_every=2, val_size=16)
LINEAR = TRAINING.but(batch=32, schedule="linear")
MUON = {"optimizer": "muon", "lr": 3e-3, "warmup": 100, "clip": 1.0, "weight_decay": 0.0}
SIXTEEN = HopK(length=100, n_hops=16)

#: Task, layers, seeds, model, training.
SIZES: dict[str, tuple[HopK, tuple[int, ...], int, Architecture, Training]] = {
    "quick": (HopK(length=8, n_hops=2), (1, 2), 1, OURS.but(d_model=16), FEW),
    "cpu": (HopK(length=32, n_hops=4), (2, 3, 4), 5, OURS, TRAINING.but(steps=2000, batch=64, lr=3e-3)),
    "long": (SIXTEEN, (4, 2, 3, 5, 6), 5, THEIRS.but(positions="rotary"), LINEAR.but(steps=1500, **MUON)),
    "paper": (SIXTEEN, (2, 3, 4, 5, 6), 3, THEIRS, LINEAR.but(steps=100_000, lr=1e-4, warmup=1000, log_every=1000)),
}
FRESH = {"quick": 64, "cpu": 2048, "long": 4096, "paper": 4096}  # sequences behind the errors


def runs(scale: str) -> Iterator[Config]:
    """Every depth with every seed, at `paper` with the authors' learned positions.

    At `long` a looped layer, too, and as many layers that are trained in stages.
    """
    task, depths, seeds, model, training = SIZES[scale]
    pairs = [(task, model.but(n_layers=layers)) for layers in depths]
    if scale == "long":
        pairs.insert(1, (task, model.but(n_layers=LOOPED, loops=LOOPED)))
        pairs.append((task.but(curriculum=STAGED), model.but(n_layers=LOOPED)))
    for posed, one in pairs:
        yield from (Config(posed, one, training.but(seed=seed)) for seed in range(seeds))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, length and k.

    Columns: run, version, seed, layers, loops, curriculum, length, k, error (share of defined answers), answers.
    """
    return rows_of(runs, lambda run: errors(run, FRESH[scale]))


def errors(run: Run, sequences: int) -> Iterator[dict[str, Any]]:
    """Errors on fresh sequences of the trained length, by number of hops; and on an eighth as many of twice the length.

    Learned positions end at the trained length.
    """
    task, shape = run.task, run.config.model
    assert isinstance(task, HopK) and isinstance(shape, Architecture)
    yield from errors_at(run, task, sequences)
    if shape.positions == "rotary":
        yield from errors_at(run, task.but(length=2 * task.length), sequences // 8)


def errors_at(run: Run, task: HopK, sequences: int) -> Iterator[dict[str, Any]]:
    """Errors on fresh sequences of a task, by number of hops."""
    shape, model = run.config.model, run.model
    assert isinstance(shape, Architecture) and isinstance(model, Transformer)
    longer = model.looped(shape.loops, n_positions=task.n_positions)
    about = {"layers": shape.n_layers, "loops": shape.loops, "curriculum": task.curriculum, "length": task.length}
    seen = observe(longer, task.sample(sequences, generator(run.config.training.seed_eval, "errors")))
    said, answers = seen.outputs.argmax(-1), seen.batch.targets
    for k in range(task.n_hops + 1):
        defined = (answers[..., k] >= 0) & (answers[..., k] != task.undefined)
        wrong = (said != answers[..., k])[defined]
        yield {**about, "k": k, "error": float(torch.mean(wrong.float())), "answers": int(defined.sum())}


# Judging ---------------------------------------------------------------------------------------------------------


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the published table, and four of ours: on our errors beside it, a looped layer, stages, length."""
    staged, table = table[table.curriculum == STAGED], table[table.curriculum == "none"]
    table, longer = table[table.length == table.length.min()], table[table.length > table.length.min()]
    stacked, looped = table[table.loops == 1], table[table.loops > 1]
    errors = stacked.groupby(["layers", "k"]).error.median()
    hardest = errors[errors.index.get_level_values("k") == table.k.max()]
    fills = {
        "depths": ", ".join(map(str, sorted(set(stacked.layers)))),
        "hardest": table.k.max(),
        "errors": ", ".join(f"{error:.3f}" for error in hardest),
    }

    def told(id: str, values: Series, what: str, rows: DataFrame = stacked, section: str = PAPER, **more: Any) -> Claim:
        evidence = Evidence(rows, section, among=table)
        return evidence.claim(id, SENTENCES[id].format(**fills), values, what, n=len(values), **more)

    within, reach = stacked[reached(stacked.k, stacked.layers)], f"error within reach (below {SMALL})"
    yield told("each_depth_learns_its_hops", within.groupby("run").error.max(), reach, below=SMALL)
    falls = Series([b - a for _, run in stacked.sort_values("k").groupby("run") for a, b in pairwise(run.error)])
    yield told("errors_rise_with_hops", falls, "change of error from one k to the next", at_least=-0.02)
    further = -hardest.diff().dropna()
    yield told("deeper_is_better_beyond", further, "fall of the median error with one more layer", above=0)
    cells = concat([errors, PUBLISHED], axis=1, join="inner", keys=["ours", "published"])
    rows: list[tuple[float, float]] = list(zip(cells.ours, cells.published, strict=True))
    pairs = [(a, b) for a in rows for b in rows if a[1] - b[1] >= 0.05]
    same, some = Series([a > b for (a, _), (b, _) in pairs], dtype=bool), bound("pairs", len(pairs), above=1)
    what = f"{len(same)} pairs of cells, 0.05 apart in the paper, that are in its order"
    yield told("order_as_published", same, what, of="share of", at_least=0.9, provided=some)
    compared, whole = cells[cells.published >= 0.01], bound("hops asked", float(table.k.max()), equals=16)
    less, what = compared.ours < compared.published, f"{len(compared)} settings with a smaller error"
    yield told("below_published", less, what, section="ours", of="share of", at_least=0.9, provided=whole)
    repeated = looped[reached(looped.k, looped.layers)].groupby("run").error.max()
    yield told("looped_layer_learns_hops", repeated, reach, looped, "ours", below=SMALL)
    taught = staged[staged.length == table.length.min()]
    change = ratios(beyond(taught), beyond(stacked[stacked.layers == LOOPED]))
    what = "ratio of the mean error beyond reach to that without stages"
    yield told("stages_help", change, what, taught, "ours", below=1)
    far = longer[reached(longer.k, longer.layers)].groupby("run").error.max()
    what = "highest error within reach at twice the length"
    yield told("longer_sequences", far, what, longer, "ours", of="median", below=LONGER)


def beyond(rows: DataFrame) -> Series:
    """By seed, the mean error of the numbers of hops that are beyond the paper's construction."""
    return rows[~reached(rows.k, rows.layers)].groupby("seed").error.mean()


def reached(k: Series, layers: Series) -> Series:
    """Whether the paper's construction answers k hops with this many layers."""
    return (layers >= 2) & (k <= 2.0 ** (layers - 2))


@styled
def figure(table: DataFrame) -> Figure:
    """Errors by number of hops, a line per depth (the median of runs), dashed for a looped layer; dotted: published."""
    shown = picture(8.4, 3.9)
    ax = shown.subplots()
    table = table[(table.length == table.length.min()) & (table.curriculum == "none")]
    for index, layers in enumerate(sorted(set(table.layers))):
        for loops, part in table[table.layers == layers].groupby("loops"):
            how: dict[str, Any] = {"color": colour(index), "ls": "-" if loops == 1 else "--"}
            for _, run in part.groupby("run"):
                ax.plot(run.k, run.error, lw=0.6, alpha=0.4, **how)
            median = part.groupby("k").error.median()
            name = f"{layers} layers" if loops == 1 else f"one layer, {loops} times"
            ax.plot(median.index, median, lw=2, marker="o", ms=4, label=name, **how)
        if layers in PUBLISHED:
            published = PUBLISHED[layers].loc[: table.k.max()]
            ax.plot(published.index, published, color=colour(index), ls=":", marker="x", label="_")
    ax.plot([], [], color=GREY, ls=":", marker="x", label="published (length 100)")
    ax.set(xlabel="k, hops asked", ylabel="error on defined answers", title="hop-k by depth", ylim=(0, None))
    shown.legend(loc="outside right upper")
    return shown

"""Associative memories: gradients write them, and how much they hold (Bietti's talk, card 1).

The lemma and one gradient step are of Bietti, Cabannes, Bouchacourt, Jégou & Bottou (2023, lemma 1); capacities and
their laws of Nichani, Lee & Bietti (2024, section 4 and their code): a trained matrix holds N pairs with N log N ≈
d²/1.3, an MLP N log N ≈ m d/0.35, or N ≈ m d/1.2 where all share 32 answers. Storage without training stands beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.core.storage import read_json
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.capacity import ENOUGH, capacity, tries_of
from hopscope.experiments.judging import Claim, Limit, around, between, bound, factor, judge, power_law
from hopscope.experiments.work import Finished, Work
from hopscope.studies.memories.work import Capacity, Lemma, Recall

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 420, "paper": 100_000}
CLAIMS = (
    "gradient_is_a_memory",
    "deep_gradient_is_a_memory",
    "one_step_recalls",
    "unwritten_recalls_nothing",
    "outer_product_curve",
    "outer_product_law",
    "trained_holds_more",
    "linear_law",
    "mlp_law",
    "mlp_32_answers_law",
    "overlap_costs_outer_products",
    "one_step_withstands_overlap",
)

TALK = "card 1 (Bietti)"
EXACT = 1e-10
WIDE = 32  # narrower, two random directions overlap too much for a law
#: Memory and answers: what grows as a power of the parameters, and the published constant.
LAWS = {("linear", 0): (True, 1 / 1.3), ("mlp", 0): (True, 1 / 0.35), ("mlp", 32): (False, 1 / 1.2)}

SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "lemmas": 1,
        "seeds": 1,
        "written": (32, 64),
        "linear": (4, 6),
        "mlp": ((4, 6), (1,)),
        "steps": (200, 200),
        "precision": 1.2,
    },
    "cpu": {
        "lemmas": 5,
        "seeds": 2,
        "written": (32, 64, 128, 256),
        "linear": (8, 11, 16, 22, 32, 45),
        "mlp": ((8, 11, 16), (1, 2, 4)),
        "steps": (4096, 4096),
        "precision": 1.03,
    },
    "paper": {
        "lemmas": 5,
        "seeds": 5,
        "written": (32, 64, 128, 256),
        "linear": tuple(int(2**i) for i in numpy.arange(3, 8.5, 0.5)),
        "mlp": (tuple(int(2**i) for i in numpy.arange(3, 7, 0.5)), (1, 2, 4, 8)),
        "steps": (1 << 12, 1 << 15),
        "precision": 1.01,
    },
}
LOADS = (0.25, 0.5, 1, 2, 4)  # pairs per width of the recall curves
OVERLAPS = (0.0, 0.05, 0.1, 0.2, 0.4)


def runs(scale: str) -> Iterator[Work]:
    """The lemma; recall of what is written in one go; the search for every memory's capacity."""
    sizes = SIZES[scale]
    for seed in range(sizes["lemmas"]):
        yield Lemma(seed=seed)
    for seed in range(sizes["seeds"]):
        yield from recalls(sizes["written"], seed)
        yield from capacities(sizes, seed)


def recalls(widths: tuple[int, ...], seed: int) -> Iterator[Recall]:
    """Random directions at several loads, orthonormal ones, overlapping ones, and a matrix that holds nothing."""
    for d in widths:
        for load in LOADS:
            for memory in ("outer_product", "one_step"):
                yield Recall(memory, d, round(load * d), seed=seed)
        yield Recall("one_step", d, d, orthonormal=True, seed=seed)
        yield Recall("random", d, d, seed=seed)
    for overlap in OVERLAPS[1:]:
        for memory in ("outer_product", "one_step", "pseudo_inverse"):
            yield Recall(memory, widths[1], widths[1], overlap, seed=seed)


def capacities(sizes: dict[str, Any], seed: int) -> Iterator[Capacity]:
    """Outer products, trained matrices, and trained MLPs with answers of their own or 32 among them."""
    linear_steps, mlp_steps = sizes["steps"]
    for d in sorted({*sizes["written"], *sizes["linear"]}):
        yield Capacity(max(2, d // 4), max(d, d * d // 8), memory="outer_product", d=d, seed=seed)
    for d in sizes["linear"]:
        about = {"precision": sizes["precision"], "d": d, "steps": linear_steps, "seed": seed}
        yield Capacity(d, d * d // 2, memory="linear", **about)
    widths, ratios = sizes["mlp"]
    for d in widths:
        for ratio in ratios:
            for n_classes in (0, 32):
                about = {"precision": sizes["precision"], "d": d, "ratio": ratio, "steps": mlp_steps, "seed": seed}
                low, high = (d, ratio * d * d) if not n_classes else (max(32, d), max(64, 2 * ratio * d * d))
                yield Capacity(low, high, memory="mlp", n_classes=n_classes, lr=0.03, **about)


def table(finished: list[Finished], scale: str) -> DataFrame:
    """A row per error of the lemma, per memory written, per size tried in a search (with what it came to)."""
    rows: list[dict[str, Any]] = []
    for one in finished:
        work = one.work.as_dict()
        about = {"run": one.work.identity, "version": one.version, "seed": work["seed"], "kind": one.work.label}
        for name in ("memory", "d", "ratio", "n_classes", "overlap", "orthonormal", "n"):
            about[name] = work.get(name)
        if isinstance(one.work, Lemma):
            rows += [{**about, "memory": what, "error": x} for what, x in read_json(one.path / "errors.json").items()]
        elif isinstance(one.work, Recall):
            rows.append({**about, **read_json(one.path / "recall.json")})
        elif isinstance(one.work, Capacity):
            tries = tries_of(one.path)
            about |= {"capacity": capacity(tries), "parameters": one.work.n_parameters}
            rows += [{**about, "n": n, "recall": recall} for n, recall in sorted(tries.items())]
    return DataFrame(rows)


def searches(table: DataFrame, memory: str, n_classes: int = 0) -> DataFrame:
    """A row per finished search of one kind of memory, with `law`: what should grow as its parameters do."""
    kind = (table.kind == "capacity") & (table.memory == memory) & (table.n_classes == n_classes)
    found = table[kind].drop_duplicates("run").assign(law=lambda rows: rows.capacity)
    if LAWS.get((memory, n_classes), (True, 0))[0]:
        found = found.assign(law=found.capacity * numpy.log(found.capacity))
    return found.assign(size=found.parameters / (2 if memory == "mlp" else 1))  # d² or m d, as the laws have it


@styled
def figure(table: DataFrame) -> Figure:
    """Recall curves, capacities of matrices, of MLPs, and what overlap costs."""
    shown = picture(10.0, 7.4)
    curves, matrices, mlps, overlap = shown.subplots(2, 2).flatten()
    recall_curves(curves, table)
    for index, memory in enumerate(("outer_product", "linear")):
        points(matrices, searches(table, memory), colour(index), memory.replace("_", " "))
    law_line(matrices, searches(table, "linear"), 1 / 1.3, "N log N = d²/1.3", grows=True)
    matrices.set(xscale="log", yscale="log", xlabel="d²", ylabel="N, pairs held", title="What a d × d matrix holds")
    for index, n_classes in enumerate((0, 32)):
        found = searches(table, "mlp", n_classes)
        points(mlps, found, colour(index), "32 answers" if n_classes else "every input its own answer")
        grows, constant = LAWS["mlp", n_classes]
        words = "N log N = m d/0.35" if grows else "N = m d/1.2"
        law_line(mlps, found, constant, words, grows, "-." if n_classes else "--")
    mlps.set(xscale="log", yscale="log", xlabel="m d", ylabel="N, pairs held", title="What an MLP holds")
    overlap_panel(overlap, table)
    for ax in (curves, matrices, mlps, overlap):
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=7)
    return shown


def recall_curves(ax: Axes, table: DataFrame) -> None:
    """Recall of outer products over n / d, dots; what is expected, lines."""
    rows = table[(table.kind == "recall") & (table.memory == "outer_product") & (table.overlap == 0)]
    for index, d in enumerate(sorted(rows.d.unique())):
        part = rows[rows.d == d]
        ax.plot(part.n / part.d, part.recall, "o", ms=4, color=colour(index), alpha=0.7)
        line = part.drop_duplicates("n").sort_values("n")
        ax.plot(line.n / line.d, line.expected, "-", lw=1.0, color=colour(index), label=f"d = {d:.0f}")
    ax.set(xscale="log", ylim=(0, 1.03), xlabel="pairs / d", ylabel="recall", title="Outer products (lines: expected)")
    ax.set_xticks(LOADS, [f"{load:g}" for load in LOADS])
    ax.set_xticks([], minor=True)


def points(ax: Axes, found: DataFrame, tint: str, label: str) -> None:
    ax.plot(found["size"], found.capacity, "o", ms=4, color=tint, alpha=0.8, label=label)


def law_line(ax: Axes, found: DataFrame, constant: float, words: str, grows: bool, style: str = "--") -> None:
    """The published law over the range of what was measured."""
    known = found.capacity.dropna()
    if len(known):
        n = numpy.geomspace(max(2.0, known.min() / 1.3), known.max() * 1.3, 50)
        ax.plot(n * (numpy.log(n) if grows else 1) / constant, n, style, lw=1.0, color=GREY, label=f"{words} (paper)")


def overlap_panel(ax: Axes, table: DataFrame) -> None:
    """Recall by mean inner product of the embeddings."""
    for index, (memory, part) in enumerate(overlapping(table).groupby("memory")):
        means = part.groupby("overlap").recall.mean()
        style = ("-o", "-s", "--^")[index]  # two of them may lie on each other
        ax.plot(means.index, means, style, ms=4, lw=1.2, color=colour(index), label=str(memory).replace("_", " "))
    ax.set(ylim=(0, 1.03), xlabel="mean inner product of two embeddings", ylabel="recall", title="d pairs that overlap")


def overlapping(table: DataFrame) -> DataFrame:
    """Recall at every overlap, of width and number of pairs alike."""
    rows = table[table.kind == "recall"]
    d = rows[rows.overlap > 0].d.max()
    same = (rows.d == d) & (rows.n == d) & (rows.orthonormal == False)  # noqa: E712 (a column)
    return rows[same & rows.memory.isin(("outer_product", "one_step", "pseudo_inverse"))]


def claims(table: DataFrame) -> Iterator[Claim]:
    """The lemma, one step, the laws, overlap."""
    yield from lemma_claims(table)
    yield from recall_claims(table)
    yield from capacity_claims(table)
    yield from overlap_claims(table)


def lemma_claims(table: DataFrame) -> Iterator[Claim]:
    """Autograd against the sum of outer products."""
    for name, which, sentence in (
        (
            "gradient_is_a_memory",
            "one matrix",
            "The population loss's gradient is Σ_k E_z[(p̂(k|z) − p(k|z)) u_k e_z^T], at random weights and for noisy "
            "answers.",
        ),
        (
            "deep_gradient_is_a_memory",
            "among layers",
            "The same holds of a matrix with layers below and above, with backward vectors for u_k and activations for "
            "e_z.",
        ),
    ):
        rows = table[(table.kind == "lemma") & (table.memory == which)]
        sentence = f"{sentence} (Greatest difference {rows.error.max():.1e}.)"
        what = "difference to autograd's entries (float64)"
        yield judge(name, sentence, rows.error, what, section=TALK, rows=rows, below=EXACT)


def recall_claims(table: DataFrame) -> Iterator[Claim]:
    """What is written in one go."""
    written = table[(table.kind == "recall") & (table.overlap == 0)]
    one = written[(written.memory == "one_step") & (written.n == written.d) & (written.d >= 64)]
    yield judge(
        "one_step_recalls",
        "After one gradient step from 0 on the population loss all of N = d pairs are recalled, from orthonormal and "
        "from random directions (d ≥ 64).",
        one.recall,
        "recall",
        section=TALK,
        rows=one,
        among=written,
        at_least=ENOUGH,
        source="talk: near-perfect",
    )
    control = written[written.memory == "random"]
    yield judge(
        "unwritten_recalls_nothing",
        "A random matrix, which holds nothing, recalls about one pair by chance.",
        control.recall,
        "recall",
        section=TALK,
        rows=control,
        number="mean",
        also=[bound("number of pairs recalled", control.recall * control.n, within=around(1, 5))],
        source="ours",
    )
    curve = written[(written.memory == "outer_product") & (written.d >= 64)]
    yield judge(
        "outer_product_curve",
        "Recall of Σ u_i e_i^T follows the curve expected of random directions, from N = d/4 to 4 d (d ≥ 64).",
        (curve.recall - curve.expected).abs(),
        "difference of recall",
        section="card 1, ours",
        rows=curve,
        among=written,
        below=0.1,
        source="ours; the curve takes scores as independent",
    )


def capacity_claims(table: DataFrame) -> Iterator[Claim]:
    """Laws with their fitted exponents and constants."""
    outer, linear = searches(table, "outer_product"), searches(table, "linear")
    wide = outer[outer.d >= WIDE]
    yield judge(
        "outer_product_law",
        f"What outer products hold grows nearly as the number of parameters d² (d ≥ {WIDE}).",
        power_law(wide["size"], wide.capacity)[1],
        "exponent of N in d²",
        section="card 1 (Bietti): capacity ≈ number of parameters",
        rows=wide,
        within=between(0.75, 1.1),
        source="ours",
    )
    both = linear.merge(outer[["d", "seed", "capacity"]], on=["d", "seed"], suffixes=("", "_untrained"))
    yield judge(
        "trained_holds_more",
        "A trained matrix holds more pairs than outer products in the same width (number: how many times as many).",
        both.capacity / both.capacity_untrained,
        "ratio",
        section=TALK,
        rows=both,
        above=1,
        source="ours",
    )
    for (memory, n_classes), name in zip(LAWS, ("linear_law", "mlp_law", "mlp_32_answers_law"), strict=True):
        yield law(name, memory, searches(table, memory, n_classes), *LAWS[memory, n_classes])


def law(name: str, memory: str, found: DataFrame, grows: bool, constant: float) -> Claim:
    """Whether N log N (or N) is a constant times the parameters, and whether the constant is the published one."""
    _, exponent = power_law(found["size"], found.law)
    shares = (found.law / found["size"]).dropna()
    ratio = float(numpy.exp(numpy.log(shares).mean())) / constant
    what, size = "N log N" if grows else "N", "m d" if memory == "mlp" else "d²"
    return judge(
        name,
        f"A trained {'MLP' if memory == 'mlp' else 'matrix'} holds {what} ≈ {size}/{1 / constant:.3g} pairs"
        f"{'' if grows else ' of 32 answers'} (fitted exponent of {size}: {exponent:.2f}; ours is {ratio:.2f} times "
        "the published constant).",
        shares,
        f"constant ({what} over {size})",
        section="card 1 (Bietti); Nichani et al., 4",
        rows=found,
        number="mean",
        of="geometric mean",
        within=factor(constant, 1.5),
        also=[bound("the exponent", exponent, within=between(0.85, 1.15))],
        source="paper's lines; bounds ours",
    )


def overlap_claims(table: DataFrame) -> Iterator[Claim]:
    """Embeddings that share a part."""
    rows = overlapping(table)
    most = rows[rows.overlap == rows.overlap.max()]
    kinds: tuple[tuple[str, str, str, Limit], ...] = (
        (
            "overlap_costs_outer_products",
            "outer_product",
            "Outer products of embeddings that are far from orthogonal (mean inner product 0.4) lose most of their "
            "recall: what inputs share adds the same vector to every score.",
            {"below": 0.5},
        ),
        (
            "one_step_withstands_overlap",
            "one_step",
            "One gradient step, which subtracts the mean output, recalls them all the same.",
            {"at_least": 0.9},
        ),
    )
    for name, memory, sentence, limit in kinds:
        part = most[most.memory == memory]
        about: dict[str, Any] = {"section": "card 1, ours", "rows": part, "number": "mean", "source": "ours"}
        yield judge(name, sentence, part.recall, "recall", **about, **limit)

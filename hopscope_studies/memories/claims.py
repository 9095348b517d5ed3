"""The claims of `memories`: the lemma, one step, the laws of capacity, overlap; judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
from pandas import DataFrame

from hopscope.experiments.capacity import ENOUGH
from hopscope.experiments.judging import Claim, Evidence, around, between, bound, factor, telling
from hopscope.experiments.values import power_law

LEMMA, CAPACITY = "Bietti et al. (2023), lemma 1", "Nichani et al. (2024), 4"
EXACT = 1e-10
WIDE = 32  # in narrower matrices two random directions overlap too much for a law
#: By memory and number of answers: whether N log N is proportional to the parameters (else N), and the constant.
LAWS = {("linear", 0): (True, 1 / 1.3), ("mlp", 0): (True, 1 / 0.35), ("mlp", 32): (False, 1 / 1.2)}
#: What is claimed, by id.
SENTENCES = {
    "gradient_is_a_memory": "At random weights, the gradient of the population loss for one weight matrix is the sum "
    "of outer products Σ_k E_z[(p̂(k|z) − p(k|z)) u_k e_z^T] of output embeddings u_k and input embeddings e_z.",
    "deep_gradient_is_a_memory": "The gradient of the population loss for a matrix inside a deep model is a sum over "
    "outputs k of outer products of a backward vector and an activation, weighted by the errors p̂(k|z) − p(k|z).",
    "one_step_recalls": "After one gradient step from 0 on the population loss, a d × d matrix recalls all of d "
    "pairs of an input and an output, for orthonormal and for random embeddings (d ≥ 64).",
    "unwritten_recalls_nothing": "Control: a random matrix, into which no pairs were written, recalls only about "
    "one of d pairs, by chance.",
    "outer_product_curve": "A sum of outer products Σ u_i e_i^T of random embeddings recalls the share of pairs "
    "(e_i, u_i) that a closed form predicts (d ≥ 64).",
    "outer_product_law": "The number of pairs that a sum of outer products holds grows nearly in proportion to the "
    f"number of parameters, d² (d ≥ {WIDE}).",
    "trained_holds_more": "A trained matrix holds more pairs than a sum of outer products of the same width.",
    "linear_law": "The number N of pairs that a trained d × d matrix holds follows {law}.",
    "mlp_law": "The number N of pairs that a trained MLP of width m on d inputs holds follows {law}.",
    "mlp_32_answers_law": "The number N of pairs with 32 answers that a trained MLP of width m on d inputs holds "
    "follows {law}.",
    "overlap_costs_outer_products": "If embeddings are far from orthogonal (mean inner product 0.4), a sum of outer "
    "products loses most of its recall.",
    "one_step_withstands_overlap": "Even if embeddings are far from orthogonal (mean inner product 0.4), a matrix "
    "recalls the pairs after one gradient step, because the step subtracts the mean output.",
}
told = telling(SENTENCES)


def searches(table: DataFrame, memory: str, n_classes: int = 0) -> DataFrame:
    """A row per finished search of a kind of memory; `law` should be proportional to the number of parameters."""
    kind = (table.kind == "capacity") & (table.memory == memory) & (table.n_classes == n_classes)
    found = table[kind].drop_duplicates("run").assign(law=lambda rows: rows.capacity)
    if LAWS.get((memory, n_classes), (True, 0))[0]:
        found = found.assign(law=found.capacity * numpy.log(found.capacity))
    return found.assign(size=found.parameters / (2 if memory == "mlp" else 1))  # d² or m d, as the laws have it


def overlapping(table: DataFrame) -> DataFrame:
    """Recall at every overlap, with as many pairs as dimensions."""
    rows = table[table.kind == "recall"]
    d = rows[rows.overlap > 0].d.max()
    same = (rows.d == d) & (rows.n == d) & (rows.orthonormal == False)  # noqa: E712 (a column)
    return rows[same & rows.memory.isin(("outer_product", "one_step", "pseudo_inverse"))]


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims on the lemma, one gradient step, the laws of capacity, and overlap."""
    yield from lemma_claims(table)
    yield from recall_claims(table)
    yield from capacity_claims(table)
    yield from overlap_claims(table)


def lemma_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that autograd's gradients are sums of outer products."""
    what = "difference to autograd's entries (float64)"
    for id, which in (("gradient_is_a_memory", "one matrix"), ("deep_gradient_is_a_memory", "among layers")):
        rows = table[(table.kind == "lemma") & (table.memory == which)]
        yield told(Evidence(rows, LEMMA, source=""), id, rows.error, what, below=EXACT)


def recall_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the recall of memories that are written without training."""
    written = table[(table.kind == "recall") & (table.overlap == 0)]
    one = written[(written.memory == "one_step") & (written.n == written.d) & (written.d >= 64)]
    evidence = Evidence(one, LEMMA, source="Bietti's talk: near-perfect", among=written)
    yield told(evidence, "one_step_recalls", one.recall, "recall", at_least=ENOUGH)
    control = written[written.memory == "random"]
    also = [bound("number of pairs recalled", control.recall * control.n, within=around(1, 5))]
    id = "unwritten_recalls_nothing"
    yield told(Evidence(control, LEMMA), id, control.recall, "recall", number="mean", also=also)
    curve = written[(written.memory == "outer_product") & (written.d >= 64)]
    evidence = Evidence(curve, "ours", source="ours; the curve takes scores as independent", among=written)
    gap = (curve.recall - curve.expected).abs()
    yield told(evidence, "outer_product_curve", gap, "difference of recall", below=0.1)


def capacity_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the laws of capacity, with fitted exponents and constants."""
    outer, linear = searches(table, "outer_product"), searches(table, "linear")
    wide = outer[outer.d >= WIDE]
    exponent = power_law(wide["size"], wide.capacity)[1]
    what = "exponent of N in d²"
    yield told(Evidence(wide, CAPACITY), "outer_product_law", exponent, what, within=between(0.75, 1.1))
    both = linear.merge(outer[["d", "seed", "capacity"]], on=["d", "seed"], suffixes=("", "_untrained"))
    ratio = both.capacity / both.capacity_untrained
    yield told(Evidence(both, CAPACITY), "trained_holds_more", ratio, "ratio", above=1)
    for (memory, n_classes), name in zip(LAWS, ("linear_law", "mlp_law", "mlp_32_answers_law"), strict=True):
        yield law(name, memory, searches(table, memory, n_classes), *LAWS[memory, n_classes])


def law(name: str, memory: str, found: DataFrame, grows: bool, constant: float) -> Claim:
    """The claim that N log N (or N) is proportional to the parameters, with the published constant."""
    _, exponent = power_law(found["size"], found.law)
    shares = (found.law / found["size"]).dropna()
    what, size = "N log N" if grows else "N", "m d" if memory == "mlp" else "d²"
    return Evidence(found, CAPACITY, source="paper's lines; bounds ours").claim(
        name,
        SENTENCES[name].format(law=f"{what} ≈ {size}/{1 / constant:.3g}"),
        shares,
        f"constant ({what} over {size})",
        number="mean",
        of="geometric mean",
        within=factor(constant, 1.5),
        also=[bound("the exponent", exponent, within=between(0.85, 1.15))],
    )


def overlap_claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the cost of overlapping embeddings."""
    rows = overlapping(table)
    most = rows[rows.overlap == rows.overlap.max()]
    outer, one = (most[most.memory == memory] for memory in ("outer_product", "one_step"))
    evidence = Evidence(outer, "ours")
    yield told(evidence, "overlap_costs_outer_products", outer.recall, "recall", number="mean", below=0.5)
    evidence = Evidence(one, "ours")
    yield told(evidence, "one_step_withstands_overlap", one.recall, "recall", number="mean", at_least=0.9)

"""The board: hops × layers × parameters × sequences × seconds, each row run again on fresh sequences (ours).

The problem is the paper's (Musat, ICLR 2025, section 6): four chains, symbols of four dimensions. A row is a recipe
with its last weights. Its hops, layers, parameters, sequences and seconds are taken from its run; its losses are
measured again here. The paper's bound on depth (theorem 1; exact numbers: docs/theory.md) holds for every row.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.core.storage import read_json
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.work import Finished
from hopscope.runs.kept import weights
from hopscope_studies.board.rerun import Rerun
from hopscope_studies.board.row import LEARNT, rows_in

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 150, "paper": 600}
#: Fresh sequences of each row.
SEQUENCES = {"quick": 64, "cpu": 4096, "paper": 16_384}
CLOSE = 0.01  # largest difference of a loss between two draws of 4,096 fresh sequences (ours)


def runs(scale: str) -> Iterator[Rerun]:
    """A work item for every row, to measure its losses again."""
    for row in rows_in():
        step = row.run.step
        yield Rerun(row.name, row.run.config.identity, weights(row.run, [step])[str(step)], SEQUENCES[scale])


def table(finished: list[Finished], scale: str) -> DataFrame:
    """A row per row of the board.

    Columns: run, version, seed, prior; row, hops (learnt, on fresh sequences), asked, layers (run), loops, heads,
    parameters, sequences (seen in training), seconds (of its training, on its own machine), loss (the greatest of its
    hops' losses), d_symbol, order, attention, curriculum; least (the fewest layers with which its hops can be answered,
    missing if no bound is known); stated (hops learnt according to its own report), off (the greatest difference of a
    loss from that in its report).
    """
    every = {row.name: row for row in rows_in()}
    rows = []
    for one in finished:
        row, again = every[one.work.as_dict()["row"]], read_json(one.path / "losses.json")
        differences = [abs(now - row.hop_losses[hop]) for hop, now in again.items()]
        more = {"stated": row.as_dict()["hops"], "off": max(differences)}
        rows.append({"run": one.work.identity, "version": one.version, **row.as_dict(again), **more})
    return DataFrame(rows)


@styled
def figure(table: DataFrame) -> Figure:
    """Hops over layers, with the most hops that one head per layer allows in theory; and hops over sequences seen."""
    shown = picture(9.0, 3.6)
    depth, cost = shown.subplots(1, 2, sharey=True)
    curricula = sorted(set(table.curriculum))
    for ax, what in ((depth, "layers"), (cost, "sequences")):
        for index, curriculum in enumerate(curricula):
            for prior, marker in ((False, "o"), (True, "^")):
                part = table[(table.curriculum == curriculum) & ((table.prior != "none") == prior)]
                words = f"curriculum: {curriculum}{', with a prior' * prior}" if len(part) else None
                ax.plot(part[what], part.hops, marker, ms=6, alpha=0.7, color=colour(index), label=words)
        ax.set(xlabel=what)
    layers = range(1, int(table.layers.max()) + 1)
    for of, line, most in (("", "-", lambda n: (2**n - 1) // 2), (", with KV shift", ":", lambda n: 2**n - 1)):
        words = f"most hops of one head, causal{of}"
        depth.step([*layers], [most(layer) for layer in layers], line, where="mid", color=GREY, lw=1, label=words)
    depth.set(ylabel="hops learnt", ylim=(-0.4, table.hops.max() + 3))
    cost.set(xscale="log", xlabel="sequences seen in training")
    cost.legend(*depth.get_legend_handles_labels(), fontsize=7, loc="center left")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that rows have the losses that their reports state, and respect the exact minimum depth."""
    yield Evidence(table, "ours").claim(
        "rows_run_again",
        "On fresh sequences every board model, with a prior or without one, has its report's losses, to within "
        f"{CLOSE}, and as many learnt hops.",
        table.off,
        "difference of any hop's loss",
        at_most=CLOSE,
        also=[bound("hops learnt less those stated, by row", (table.hops - table.stated).abs().max(), equals=0)],
    )
    bounded = table[table.least.notna()]
    without = len(table) - len(bounded)
    unknown = f" (no bound is known for {without} of the models)" if without else ""
    yield Evidence(bounded, "4 (theorem 1)", among=table).claim(
        "no_row_is_below_the_exact_depth",
        "No model on the board, with a prior or without one, has fewer layers than theory requires for its learnt "
        f"hops, given its attention, mask, order of facts and, for softmax, number of heads{unknown}.",
        bounded.layers - bounded.least,
        "number of layers above the exact minimum depth",
        at_least=0,
    )
    alone = table[table.curriculum == "none"]
    yield Evidence(alone, "7.2", among=table).claim(
        "no_curriculum_learns_at_most_two_hops",
        "No model on the board that is asked for the last hop alone, without an implicit curriculum, learns more than "
        f"two hops ({(alone.asked > 2).sum()} of {len(alone)} such models are asked for more).",
        alone.hops,
        f"hops learnt (loss below {LEARNT})",
        at_most=2,
    )

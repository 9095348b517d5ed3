"""The figure of the study: the circuit, the share of the metric that it keeps, and why two hops fail."""

from __future__ import annotations

from ast import literal_eval

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, PALETTE, name_rows, picture, styled
from hopscope.experiments.variants import seeds_of
from hopscope_studies.real_hop.language.picture import Shown, draw_hop

#: The rows of the panel of shares: kind, name, and label.
KEPT = (
    ("nodes", "the circuit"),
    ("places", "at single tokens"),
    ("edges", "its edges alone"),
    ("random nodes", "random nodes"),
    ("random edges", "random edges"),
)


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the first seed's circuit. Right: shares kept on other facts, the second hop's deadline, and changes."""
    shown = picture(13.0, 8.2)
    grid = shown.add_gridspec(3, 2, width_ratios=[2.1, 1.0])
    main, two = table[table.part == "one hop"], table[table.part == "two hops"]
    draw_circuit(shown.add_subplot(grid[:, 0]), main[main.seed == main.seed.min()])
    draw_kept(shown.add_subplot(grid[0, 1]), main)
    draw_deadline(shown.add_subplot(grid[1, 1]), two)
    draw_changes(shown.add_subplot(grid[2, 1]), main)
    return shown


def draw_circuit(ax: Axes, rows: DataFrame) -> None:
    """Draw the circuit of one seed, from its rows."""
    places, edges, tokens = (rows[rows.kind == kind] for kind in ("place", "edge", "token"))
    facts = rows[rows.kind == "facts"].name
    drawn: list[tuple[str, str, str, float]] = []
    for name, part, value in zip(edges.name, edges.other.fillna(""), edges.value, strict=True):
        sender, _, receiver = name.partition("->")
        drawn.append((sender, receiver, part, float(value)))
    seen = places.dropna(subset="value")
    shown = Shown(
        list(places.name),
        drawn,
        {name: readable(token) for name, token in zip(tokens.name, tokens.other, strict=True)},
        dict(zip(seen.name, seen.value, strict=True)),
        literal_eval(facts.iloc[0]).rpartition("\n")[0] if len(facts) else "",
    ).on_the_way()
    draw_hop(ax, shown)
    ax.set_title(f"{rows.model.iloc[0]}: which fact is asked about, from the query to the answer", fontsize=12)


def readable(token: str) -> str:
    """A token as text, such as `c`; blank ones are quoted."""
    plain = str(literal_eval(token))
    return plain.strip() if plain.strip() else token


def draw_kept(ax: Axes, rows: DataFrame) -> None:
    """Draw the share of the metric that sets keep on facts the search never saw; a point per seed or random set."""
    for height, (name, _) in enumerate(KEPT):
        some = rows[(rows.kind == "kept") & (rows.name == name)]
        random = name.startswith("random")
        for seed in seeds_of(some):
            part = some[some.seed == seed]
            at = [height + 0.16 * (int(seed) - 1)] * len(part)
            ink = GREY if random else PALETTE[0]
            ax.plot(part.value, at, ls="", marker="o", ms=3 if random else 5, color=ink, alpha=0.6 if random else 1)
            if not random:
                ax.hlines(at, part.low, part.high, color=ink, lw=1)
    for x in (0, 1):
        ax.axvline(x, color=GREY, lw=0.8, ls=":")
    name_rows(ax, [words for _, words in KEPT])
    ax.set_title("Share of the hop that is kept, on other facts")


def draw_deadline(ax: Axes, rows: DataFrame) -> None:
    """Draw the metric when the first hop's answer is patched in before a layer, and the probes' accuracy there."""
    handed = rows[rows.kind == "handed in: metric"].sort_values("step")
    run_lines(ax, handed, color=PALETTE[0], label="answer, if it is handed in before", lw=1.6, alpha=1)
    for seed in seeds_of(rows):
        one, given = rows[rows.seed == seed], handed[handed.seed == seed]
        ax.fill_between(given.step, given.low, given.high, color=PALETTE[0], alpha=0.12, lw=0)
        base = one[(one.kind == "answers: metric") & (one.name == "two hops")]
        ax.axhline(float(base.value.iloc[0]), color=GREY, lw=1, ls="--", label="answer, as it is" if not seed else None)
    ax.set_ylabel("logit difference (nats)", color=PALETTE[0])
    ax.set_xlabel("layer")
    other = ax.twinx()
    probe = rows[(rows.kind == "probe x_1") & rows.name.str.startswith("query")].sort_values("step")
    run_lines(other, probe, color=PALETTE[1], label="it is there, by a probe", lw=1.2, alpha=1)
    other.axhline(0.25, color=PALETTE[1], lw=0.8, ls=":")
    other.set_ylim(0, 1)
    other.set_ylabel("accuracy of the probe", color=PALETTE[1])
    other.spines["right"].set_visible(True)
    handles = [*ax.get_legend_handles_labels()[0], *other.get_legend_handles_labels()[0]]
    other.legend(handles=handles, loc="upper right", fontsize=7.5)
    ax.set_title("Two hops: the first hop's answer comes too late")


def draw_changes(ax: Axes, rows: DataFrame) -> None:
    """Draw the metric as it is, with heads changed, and with the same change to random heads."""
    kinds = (
        ("perfect: metric", "all of these", "lookups perfect"),
        ("louder: metric", "the heads", "circuit louder"),
        ("quieter: metric", "the heads", "opponents quieter"),
    )
    now = rows[(rows.kind == "answers") & (rows.name == "metric")]
    ax.plot(now.value, [0] * len(now), ls="", marker="o", ms=5, color=PALETTE[0])
    for height, (kind, name, _) in enumerate(kinds, 1):
        one, random = (rows[(rows.kind == kind) & (rows.name == which)] for which in (name, "random heads"))
        ax.plot(random.value, [height + 0.18] * len(random), ls="", marker="o", ms=3, color=GREY, alpha=0.6)
        ax.plot(one.value, [height] * len(one), ls="", marker="o", ms=5, color=PALETTE[0])
        ax.hlines([height] * len(one), one.low, one.high, color=PALETTE[0], lw=1)
    name_rows(ax, ["as it is", *(words for _, _, words in kinds)])
    ax.axvline(0, color=GREY, lw=0.8, ls=":")
    ax.set_xlabel("logit difference (nats); random heads in grey")
    ax.set_title("What would have to change")

"""Figures say what the tables say: texts, arcs, lines and images are read back from the artists."""

from __future__ import annotations

import math
from collections import Counter

import matplotlib
import numpy
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from pandas import DataFrame

from hopscope.drawing import attention_maps, compared_curves, hop_curves, mean_role_attention, problem_diagram, save
from hopscope.drawing.attention_maps import groups
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import picture, rendered
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.retrieval import Retrieval

RUN = DataFrame({"step": [0, 20, 40], "train_loss": [None, 0.9, 0.5], "val_loss": [1, 0.8, 0.4], "x1": [1, 0.7, 0.1]})
BASELINES = {"predict zero": 1.0, "right step, no chain followed": 0.75, "solved": 0.0}


@pytest.mark.parametrize(
    ("task", "arcs"),
    [
        (Retrieval(), 2),
        (Retrieval(n_hops=3, order="deepest_first"), 3),
        (ConditionalRetrieval(n_chains=2), 4),  # a>x and a>y look up a, xy>z looks up x and y
    ],
)
def test_the_diagram_shows_every_symbol_and_the_hops_of_one_query(task, arcs):
    problem = task.sample(1).problem(0)
    ax = problem_diagram(problem).axes[0]
    texts = Counter(text.get_text() for text in ax.texts)
    symbols = Counter(s for fact in problem.facts for s in (*fact.premises, fact.conclusion))
    symbols.update(problem.queries)
    assert {s: n for s, n in texts.items() if not s.startswith(("step", "queries"))} == symbols
    drawn = Counter(patch.get_gid() for patch in ax.patches if isinstance(patch, FancyArrowPatch))
    assert drawn == {f"hop of {query}": arcs for query in problem.queries}
    assert len(ax.lines) == len(problem.facts)
    steps = {fact.step for fact in problem.facts}
    assert {text for text in texts if text.startswith("step")} == {f"step {k}" for k in steps}


def test_the_diagram_names_the_chain_of_the_query_asked_for():
    problem = Retrieval(n_hops=3).sample(1).problem(0)
    title = problem_diagram(problem, problem.queries[2]).axes[0].get_title(loc="left")
    assert " → ".join([problem.queries[2], *problem.successors(problem.queries[2])]) in title


def test_curves_are_the_table():
    ax = hop_curves(RUN, ["x1"], BASELINES).axes[0]
    line = next(line for line in ax.lines if line.get_label() == "x1")
    assert line.get_xydata().tolist() == [[0, 1], [20, 0.7], [40, 0.1]]
    assert {round(line.get_ydata()[0], 3) for line in ax.lines if line.get_linestyle() == "--"} == {1.0, 0.75}
    assert any("right step, no chain followed" in text.get_text() for text in ax.texts)


def test_compared_curves_have_a_panel_per_value_and_a_median():
    rows = [
        {"run": f"{c}{s}", "curriculum": c, "step": t, "hop": "x1", "hop_loss": loss}
        for c in ("implicit", "none")
        for s, losses in enumerate(([1, 0.1], [1, 0.2], [1, 0.6]))
        for t, loss in enumerate(losses)
    ]
    figure = compared_curves(DataFrame(rows), "curriculum", BASELINES)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "curriculum: implicit (3 runs)",
        "curriculum: none (3 runs)",
    ]
    median = next(line for line in figure.axes[0].lines if line.get_label() == "x1, median")
    assert median.get_ydata().tolist() == [1, 0.2]


def test_compared_curves_of_what_is_changed_at_test_time():
    """A panel for each layer, a thin line for each seed; where the axis is another than steps it is read linearly."""
    rows = [
        {"run": str(seed), "layer": layer, "factor": factor, "hop": "x1", "loss": factor * (layer + seed)}
        for seed in (0, 1, 5)
        for layer in (0, 1)
        for factor in (0.0, 1.0, 2.0)
    ]
    first, second = compared_curves(DataFrame(rows), "layer", x="factor", y="loss").axes
    assert (second.get_xlabel(), second.get_ylabel(), second.get_yscale()) == ("factor", "loss", "linear")
    assert [line.get_ydata().tolist() for line in second.lines] == [[0, 1, 2], [0, 2, 4], [0, 6, 12], [0, 2, 4]]
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["x1, median"]


def test_lines_of_runs_are_named_once():
    rows = DataFrame([{"run": run, "step": t, "value": v} for run, v in (("a", 1), ("b", 3)) for t in (0, 1)])
    ax = Figure().subplots()
    run_lines(ax, rows, color="red", label="each")
    run_lines(ax, rows, color="red", label="all", middle="mean")
    assert ax.get_legend_handles_labels()[1] == ["each", "all"]
    assert [line.get_ydata()[0] for line in ax.lines] == [1, 3, 1, 3, 2]


def test_maps_are_the_patterns_and_axes_name_roles():
    batch = Retrieval().sample(1)
    patterns = torch.rand(3, 1, 20, 20, generator=torch.Generator().manual_seed(0))
    figure = attention_maps(patterns, batch.roles.labels(0))
    maps = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title(loc="left") for ax in maps] == ["L0H0", "L1H0", "L2H0"]
    for ax, pattern in zip(maps, patterns[:, 0], strict=True):
        assert numpy.allclose(ax.images[0].get_array(), pattern)
    assert [tick.get_text() for tick in maps[0].get_yticklabels()] == batch.roles.labels(0)
    assert [tick.get_text() for tick in maps[0].get_xticklabels()] == batch.roles.labels(0)


def test_maps_too_small_for_every_role_name_the_steps():
    labels = Retrieval(n_hops=2).sample(1).roles.labels(0)
    assert groups(labels) == [(3.5, "step 2"), (11.5, "step 1"), (17.5, "query")]
    figure = attention_maps(torch.rand(8, 8, 20, 20), labels)
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["step 2", "step 1", "query"]
    assert len([ax for ax in figure.axes if ax.images]) == 64


def test_role_maps_are_the_strengths():
    task = Retrieval()
    batch = task.sample(4)
    pattern = batch.roles.pairs("query", "value[1]", "same").float()[:, None]
    strengths = batch.roles.strengths(pattern)[None]
    figure = mean_role_attention(strengths, batch.roles.names)
    same, other = [ax for ax in figure.axes if ax.images]
    names = batch.roles.names
    assert same.images[0].get_array()[names.index("query"), names.index("value[1]")] == 1
    assert numpy.nansum(same.images[0].get_array()) == 1
    assert numpy.nansum(other.images[0].get_array()) == 0
    assert [text.get_text() for text in same.texts] == ["1.00"]
    assert [t.get_text() for t in same.get_yticklabels()] == list(names)


def test_the_same_figure_gives_the_same_files(tmp_path):
    for name in ("a", "b"):
        save(hop_curves(RUN, ["x1"], BASELINES), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_drawing_changes_no_settings_and_shows_itself_in_notebooks():
    before = dict(matplotlib.rcParams)
    figure = problem_diagram(Retrieval().sample(1).problem(0))
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before


def test_attention_may_be_negative():
    figure = attention_maps(torch.tensor([[[[-0.5, 0.5], [1.0, 0.0]]]]), ["a query", "a query"])
    image = next(ax for ax in figure.axes if ax.images).images[0]
    assert image.get_clim() == (-1, 1)
    assert math.isclose(image.get_array()[0, 0], -0.5)


@pytest.mark.parametrize("missing", [True, False])
def test_grey_is_promised_only_where_there_is_some(missing):
    strengths = torch.zeros(1, 2, 1, 2, 2)
    if missing:
        strengths[0, 1, 0, 0, 1] = torch.nan
    figure = mean_role_attention(strengths, ["query", "key[1]"])
    assert ("grey" in figure._supxlabel.get_text()) is missing


def test_role_maps_are_drawn_of_strengths_that_carry_a_gradient():
    """Who calls a model without `no_grad` and asks for the picture, as the lecture does."""
    strengths = torch.full((1, 2, 1, 2, 2), 0.25, requires_grad=True) * 2
    figure = mean_role_attention(strengths, ["query", "key[1]"])
    image = next(ax for ax in figure.axes if ax.images).images[0]
    assert image.get_array().tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_layouts_are_rounded_for_their_solver_differs_in_the_last_bit():
    """Nested panels, too; else every so often one decimal of an SVG differs between two drawings of one table."""
    figure = picture(6, 4)
    above, below = figure.subfigures(2, 1, height_ratios=[1.25, 1])
    for panel in (above, below):
        for ax in panel.subplots(1, 3):
            ax.set_title("a title that takes room")
    rendered(figure, "svg")
    positions = [ax.get_position(original=True).get_points() for ax in figure.axes]
    positions += [panel.bbox_relative.get_points() for panel in (above, below)]
    assert len(figure.axes) == 6
    assert all((points == points.round(7)).all() for points in positions)
    assert len({tuple(points[0]) for points in positions[:6]}) >= 3  # they were laid out at all

"""The circuit's picture says what the circuit is: arrows, boxes, labels and captions are read back from the artists."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from hopscope.circuits.words import symbols_at
from hopscope.core.settings import BadInput
from hopscope.drawing import circuit_diagram
from hopscope.drawing.circuit_layout import BOX, place, positions, stack, wired
from hopscope.problem.paths import Path
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.algorithms.doubling import doubling

DEMO = ["L1H0 value[1]->key[1]", "L1H0 value[2]->key[2]", "L2H0 query->value[1]", "L3H0 query->value[2]"]
CONDITIONAL = ["L0H0 value[3]->key[3,1]", "L0H1 value[3]->key[3,2]", "L1H0 query->value[3]"]
INDUCTION = ["L0H3 value[1]->key[1]", "L1H2 query->value[1]"]


def parsed(texts):
    return [Path.parse(text) for text in texts]


def drawn(texts, task, row=0, **more):
    batch = task.sample(4, 1)
    return circuit_diagram(parsed(texts), batch.roles, symbols_at(batch, row), row=row, **more)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def arrows(figure):
    return {patch.get_gid(): patch for patch in figure.axes[0].patches if isinstance(patch, PathPatch)}


def caption(figure):
    return " ".join(next(text for text in texts(figure) if text.startswith("Time runs")).split())


@pytest.mark.parametrize(
    ("task", "paths", "roles"),
    [
        (Retrieval(order="nearest_first"), DEMO, ["key[1]", "value[1]", "key[2]", "value[2]", "query"]),
        (Retrieval(order="deepest_first"), DEMO, ["key[2]", "value[2]", "key[1]", "value[1]", "query"]),
        (Induction(length=8), INDUCTION, ["key[1]", "value[1]", "query"]),
        (
            ConditionalRetrieval(n_chains=2, order="nearest_first"),
            CONDITIONAL,
            ["key[1]", "value[1]", "key[2]", "value[2]", "key[3,1]", "key[3,2]", "value[3]", "query"],
        ),
    ],
)
def test_the_chain_is_in_order_and_every_path_is_an_arrow(task, paths, roles):
    figure = drawn(paths, task)
    named = [(text.get_position()[0], text.get_text()) for text in figure.axes[0].texts if text.get_text() in roles]
    assert [name for _, name in sorted(named)] == roles
    assert set(arrows(figure)) == {str(path) for path in parsed(paths)}


def test_an_arrow_leads_from_the_attended_position_up_to_the_attending_one():
    figure = drawn(DEMO, Retrieval())
    at = {text.get_text(): text.get_position()[0] for text in figure.axes[0].texts}
    for path in parsed(DEMO):
        ends = arrows(figure)[str(path)].get_path().vertices
        assert ends[0][0] == pytest.approx(at[path.key])
        assert ends[-1][0] == pytest.approx(at[path.query])
        assert ends[0][1] < ends[-1][1]


def test_the_first_layer_is_lowest_and_unused_ones_are_named():
    figure = drawn(DEMO, Retrieval(), n_layers=12)
    heights = {t.get_text(): t.get_position()[1] for t in figure.axes[0].texts if t.get_text().startswith("layer")}
    assert list(heights) == ["layer 1", "layer 2", "layer 3"]
    assert heights["layer 1"] < heights["layer 2"] < heights["layer 3"]
    assert "Layers 0 and 4–11 are not used." in caption(figure)
    assert figure.axes[0].get_title(loc="left") == "4 paths, 3 heads, 3 of 12 layers"
    assert "not used" not in caption(drawn(DEMO, Retrieval()))


@pytest.mark.parametrize(
    ("task", "paths"),
    [(Retrieval(), DEMO), (Retrieval(n_hops=3), DEMO), (ConditionalRetrieval(n_chains=2), CONDITIONAL)],
)
def test_only_the_chain_of_one_query_is_drawn(task, paths):
    """By the oracle: the symbols that follow from the query, at all positions of facts among them."""
    batch = task.sample(1, 5)
    problem = batch.problem(0)
    facts = [(*fact.premises, fact.conclusion) for fact in problem.facts]
    for query in problem.queries:
        figure = circuit_diagram(parsed(paths), batch.roles, symbols_at(batch, 0), query=query)
        shown = {query, *problem.successors(query)}
        assert {text for text in texts(figure) if text in {*problem.queries, *itertools.chain(*facts)}} == shown
        folded = sum(int(text) for text in texts(figure) if text.startswith("+"))
        assert folded + 1 + sum(len(fact) for fact in facts if shown.issuperset(fact)) == task.n_positions


def test_without_symbols_boxes_hold_x0_x1_and_so_on():
    batch = Retrieval(order="nearest_first").sample(1)
    boxes = [text for text in texts(circuit_diagram(parsed(DEMO), batch.roles)) if text.startswith("x")]
    assert boxes == ["x0", "x1", "x1", "x2", "x0"]


def test_a_query_that_is_not_there_is_refused():
    batch = Retrieval().sample(1)
    with pytest.raises(BadInput, match="no query 'q'"):
        circuit_diagram(parsed(DEMO), batch.roles, symbols_at(batch, 0), query="q")


def test_numbers_stand_at_their_arrows():
    first, last = parsed(DEMO)[0], parsed(DEMO)[-1]
    figure = drawn(
        DEMO, Retrieval(), strengths={first: 0.987, last: 0.4}, removal={last: 0.107}, onsets={first: 1234.4}
    )
    assert {"L1H0  0.99", "L3H0  0.40", "without 0.11", "from step 1,234"} <= set(texts(figure))
    strong, weak = (arrows(figure)[str(path)] for path in (first, last))
    assert strong.get_linewidth() > weak.get_linewidth()
    assert "loss without it and the step at which it emerged" in caption(figure)


def test_interchangeable_paths_are_dashed_and_added():
    twin = Path.parse("L3H1 query->value[2]")
    figure = drawn(DEMO, Retrieval(), interchangeable=[parsed(DEMO)[-1], twin])
    dashed = {gid for gid, arrow in arrows(figure).items() if arrow.get_linestyle() != "-" and arrow._dash_pattern[1]}
    assert dashed == {"L3H0 query->value[2]", "L3H1 query->value[2]"}
    assert "Dashed: interchangeable" in caption(figure)


def test_other_chains_are_one_faint_box():
    figure = drawn([*DEMO, "L2H1 query->value[1] (other)"], Retrieval())
    assert "other\nchains" in texts(figure) and "their value[1]" in texts(figure)
    assert "other\nchains" not in texts(drawn(DEMO, Retrieval()))


def test_what_the_sequence_lacks_is_named():
    figure = drawn(["L0H0 value[1]->key[1]", "L1H0 query->value[9]"], Retrieval())
    assert "Not in this sequence: L1H0 query->value[9]." in caption(figure)


def test_positions_may_hold_several_roles_and_attend_to_themselves():
    batch = HopK(length=12).sample(16, 1)
    held = batch.roles.held().sum(1)
    row = next(i for i in range(16) if int(held[i].max()) > 1)
    figure = drawn_row(batch, ["L0H0 query->query", "L0H0 value[1]->key[1]"], row)
    assert any("\n" in text and "[" in text for text in texts(figure))
    assert "L0H0 query->query" in arrows(figure)


def drawn_row(batch, paths, row):
    return circuit_diagram(parsed(paths), batch.roles, symbols_at(batch, row), row=row)


@pytest.mark.parametrize("n_hops", [1, 2, 3, 4])
@pytest.mark.parametrize("order", ["nearest_first", "deepest_first"])
def test_labels_never_meet(n_hops, order):
    """Whatever the algorithm, also with all of its paths once more in other heads."""
    task = Retrieval(n_hops=n_hops, order=order)
    steps = sorted(range(1, n_hops + 1), reverse=order == "deepest_first")
    once = doubling(n_hops, steps, True, "query")
    paths = [*once, *(Path(p.layer, head, p.query, p.key) for p in once for head in (1, 2))]
    batch = task.sample(1)
    figure = circuit_diagram(paths, batch.roles, symbols_at(batch, 0), strengths=dict.fromkeys(paths, 1.0))
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in figure.axes[0].texts if t.get_text().startswith("L")]
    assert len(boxes) == len(paths)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_lanes_hold_arrows_that_do_not_meet():
    batch = Retrieval(n_hops=3).sample(1)
    spots = place(positions(batch.roles, symbols_at(batch, 0), 0, None), others=False)
    paths = [Path(0, head, "query", key) for head in range(3) for key in ("value[1]", "value[3]")]
    wires = [wire for path in paths for wire in wired(path, spots)]
    bands = stack(wires)
    assert list(bands) == [0] and bands[0].bottom > BOX / 2
    for one, other in itertools.combinations(wires, 2):
        assert one.lane != other.lane or one.reach[1] <= other.reach[0] or other.reach[1] <= one.reach[0]
    assert len({wire.arrives for wire in wires}) == len(wires)


def test_it_draws_where_it_is_told_and_an_empty_circuit_too():
    ax = Figure().add_subplot()
    batch = Retrieval().sample(1)
    assert circuit_diagram(parsed(DEMO), batch.roles, ax=ax) is ax.figure
    assert len(ax.patches) > 8
    figure = circuit_diagram([], batch.roles, n_layers=2)
    assert "Layers 0 and 1 are not used." in caption(figure)


def test_a_loop_strikes_through_no_label_and_stays_in_its_lane():
    """Of the line as it is drawn, no point lies within a label's box, its own or another's."""
    task = Retrieval(n_hops=2)
    paths = parsed(["L0H0 query->query", "L0H1 query->query", "L0H2 query->value[2]", "L1H0 value[1]->value[1]"])
    batch = task.sample(1)
    strengths, removal = dict.fromkeys(paths, 1.0), dict.fromkeys(paths, 0.5)
    figure = circuit_diagram(paths, batch.roles, symbols_at(batch, 0), strengths=strengths, removal=removal)
    figure.draw_without_rendering()
    [ax] = figure.axes
    labels = [text.get_window_extent() for text in ax.texts if text.get_text().startswith(("L", "without"))]
    assert len(labels) == 2 * len(paths)
    loops = [p for p in ax.patches if isinstance(p, PathPatch) and p.get_gid() in map(str, (*paths[:2], paths[3]))]
    assert len(loops) == 3
    for loop in loops:
        line = ax.transData.transform(loop.get_path().interpolated(50).vertices)
        curve = ax.transData.transform(loop.get_path().to_polygons(closed_only=False)[0])
        for box in labels:
            assert not any(box.contains(x, y) for x, y in (*curve, *line[:50], *line[-50:]))


def test_the_title_counts_the_circuit_and_names_the_rest():
    paths, other = parsed(DEMO), Path.parse("L2H0 query->key[1]")
    batch = Retrieval(n_hops=2).sample(1)
    how = {"interchangeable": [other, paths[0]], "n_layers": 4, "title": "a"}
    title = circuit_diagram(paths, batch.roles, symbols_at(batch, 0), **how).axes[0].get_title(loc="left")
    assert title == "a: 4 paths, 3 heads, 3 of 4 layers, one alternative dashed"
    assert "alternative" not in circuit_diagram(paths, batch.roles, symbols_at(batch, 0)).axes[0].get_title(loc="left")

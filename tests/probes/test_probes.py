"""Probes on models whose pieces are known: by construction, by hand, or because there can be none."""

from __future__ import annotations

import itertools

import numpy
import pytest
import torch
from pandas import DataFrame

from hopscope import Architecture, Transformer
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.probes.breach import breach
from hopscope.probes.linear import interval
from hopscope.probes.pieces import piece_names, reach_of
from hopscope.probes.reach import probe
from hopscope.problem.paths import role_name
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.stacked_heads.experiments.thm1 import claims

TASK = Retrieval(n_hops=2)
OWN = {(role_name(i), piece) for i in range(5) for piece in piece_names(2)[max(i - 1, 0) : i + 1]}


def untrained(task: Retrieval = TASK, seed: int = 0, **shape) -> Transformer:
    shape = {"n_layers": 1, "d_model": 32, **shape}
    return Transformer.for_task(Architecture(**shape), task, generator(seed, "init"))


def pieces(found: DataFrame, layer: int, which: str = "decoded") -> set[tuple[str, str]]:
    rows = found[(found["layer"] == layer) & found[which]]
    return set(zip(rows["role"], rows["piece"], strict=True))


def cell(found: DataFrame, layer: int, role: str, piece: str):
    return found[(found["layer"] == layer) & (found["role"] == role) & (found["piece"] == piece)].iloc[0]


class Copying(torch.nn.Module):
    """A stand-in for a model of one layer, whose last stream is the first with, added, what a pattern attends to."""

    def __init__(self, pattern):
        super().__init__()
        self.pattern = pattern
        self.architecture = Architecture(n_layers=1, d_model=16)
        self.device = torch.device("cpu")

    def forward(self, inputs, cache, at):
        copied = self.pattern(inputs) @ inputs
        stream = torch.cat([inputs, copied], -1)
        embedding = torch.cat([inputs, torch.zeros_like(inputs)], -1)
        return None, {"blocks.0.hook_resid_pre": embedding, "blocks.0.hook_resid_post": stream}


@pytest.fixture
def roles_of_each_batch(monkeypatch):
    """The roles of the batch that was last drawn: what a hand-set pattern needs to know."""
    kept = {}
    draw = Retrieval.draw

    def spied(self, n, random):
        kept["roles"] = self.roles(made := draw(self, n, random))
        return made

    monkeypatch.setattr(Retrieval, "draw", spied)
    return kept


@pytest.mark.parametrize("order", ["nearest_first", "deepest_first", "shuffled"])
def test_the_embedding_holds_exactly_a_positions_own_pieces(order):
    found = probe(untrained(TASK.but(order=order)), TASK.but(order=order), 800, 200, 800)
    assert pieces(found, 0) == pieces(found, 0, "allowed") == OWN
    own = found[(found["layer"] == 0) & found["decoded"]]
    assert own["accuracy"].min() > 0.999
    assert own["r2"].min() > 0.999


def test_what_is_copied_is_decoded_and_nothing_else(roles_of_each_batch):
    """Queries attend to their chain's value[2]: they come to hold its symbol and its place, far beyond their reach."""
    attend = lambda _: roles_of_each_batch["roles"].pairs("query", "value[2]", "same").float()  # noqa: E731
    found = probe(Copying(attend), TASK, 400, 100, 400)
    assert pieces(found, 1) == OWN | {("query", "x2"), ("query", "p2")}
    assert cell(found, 1, "query", "x2").r2 > 0.999
    assert not cell(found, 1, "query", "x2").allowed


def test_a_head_spread_over_a_step_reaches_r2_of_one_nth_but_names_nothing(roles_of_each_batch):
    def attend(_):
        roles = roles_of_each_batch["roles"]
        pairs = roles.pairs("query", "value[2]", "same") | roles.pairs("query", "value[2]", "other")
        return pairs.float() / TASK.n_chains

    row = cell(probe(Copying(attend), TASK, 2000, 500, 2000), 1, "query", "x2")
    assert row.r2 == pytest.approx(row.r2_floor, abs=0.02) == pytest.approx(0.25, abs=0.02)
    assert row.low <= row.floor <= row.high
    assert not row.decoded


def test_what_is_known_by_exclusion_alone_is_no_breach(roles_of_each_batch):
    """Far end first, key[1] sees every x1 in step 2, and in its own step those of the pairs before it: not its own."""

    def attend(_):
        roles = roles_of_each_batch["roles"]
        every = roles.pairs("key[1]", "key[2]", "same") | roles.pairs("key[1]", "key[2]", "other")
        before = roles.pairs("key[1]", "value[1]", "other").float().tril()
        return every.float() - before

    found = probe(Copying(attend), TASK.but(order="deepest_first"), 1000, 500, 1000)
    row = cell(found, 1, "key[1]", "x1")
    assert row.decoded and row.excludable and not row.allowed
    assert row.accuracy > 0.4
    assert pieces(found[~found["excludable"]], 1) == OWN


def test_one_hop_in_one_layer_by_hand_is_flagged():
    task = Retrieval(n_hops=1, position_base=100.0)
    model, batch = breach(task), task.sample(1000)
    with torch.no_grad():
        assert task.correct(model(batch.inputs, at=task.query_positions), batch).float().mean() > 0.98
    found = probe(model, task, 600, 200, 600)
    beyond = found[found["decoded"] & ~found["allowed"] & ~found["excludable"]]
    assert list(zip(beyond["layer"], beyond["role"], beyond["piece"], strict=True)) == [(1, "query", "x1")]
    assert beyond["accuracy"].iloc[0] > 0.98


def test_other_numbers_of_chains_and_of_dimensions():
    task = Retrieval(n_hops=1, n_chains=3, d_symbol=6)
    row = cell(probe(breach(task), task, 400, 100, 400), 1, "query", "x1")
    assert row.decoded and row.floor == pytest.approx(1 / 3)


def test_nothing_is_decoded_of_a_randomly_drawn_chain():
    """An exact null: of some hundred cells not one is decoded, and the intervals of each alone are honest."""
    found = probe(untrained(seed=3, n_layers=3), TASK, 600, 200, 1000, shuffled=True)
    assert not found["decoded"].any()
    alone = probe(untrained(seed=3, n_layers=3), TASK, 600, 200, 1000, shuffled=True, tests=1)
    outside = (alone["low"] > alone["floor"]) | (alone["high"] < alone["floor"])
    assert outside.mean() <= 0.12  # of 100 cells, which depend on each other, 5 are expected


@pytest.mark.parametrize("alike", [0.0, 0.6])
def test_intervals_cover_as_often_as_they_say(alike):
    """Answers of 4 chains by chance 1/4, within a sequence independent or (often) the same."""
    random = numpy.random.default_rng(0)
    own, shared = random.random((2000, 300, 4)) < 0.25, random.random((2000, 300, 1)) < 0.25
    share = numpy.where(random.random((2000, 300, 1)) < alike, shared, own).mean(-1)
    low, high = interval(share.mean(1), (share**2).mean(1), 300, 4)
    assert 0.935 <= ((low <= 0.25) & (high >= 0.25)).mean() <= 0.975
    wider = interval(share.mean(1), (share**2).mean(1), 300, 4, tests=100)
    assert ((wider[0] <= 0.25) & (wider[1] >= 0.25)).mean() > 0.998


def test_certainty_has_an_interval_too():
    low, high = interval(numpy.array([0.0, 1.0]), numpy.array([0.0, 1.0]), 100, 4)
    assert low.tolist() == pytest.approx([0.0, 100 / (100 + 1.96**2)], abs=1e-4)
    assert high.tolist() == pytest.approx([1.96**2 / (100 + 1.96**2), 1.0], abs=1e-4)


def held_by_brute_force(order: tuple[int, ...], n_layers: int, causal: bool) -> list[list[set[int]]]:
    """Every position's pieces after each layer, as sets, from the order in which tokens are written down."""
    written = [(k, token) for k in order for token in ("first", "second")] + ["query"]
    place = {(k, token): 2 * k - (token == "first") for k in order for token in ("first", "second")} | {"query": 0}
    holds = {s: {place[s] - 1, place[s]} - {-1} for s in written}
    streams = [holds]
    for _ in range(n_layers):
        holds = {
            s: set().union(*(holds[o] for j, o in enumerate(written) if (j <= i or not causal) and holds[s] & holds[o]))
            for i, s in enumerate(written)
        }
        streams.append(holds)
    return [[held[s] for s in sorted(written, key=place.__getitem__)] for held in streams]


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_the_reach_is_that_of_brute_force(hops, causal):
    for order in itertools.permutations(range(1, hops + 1)):
        task = Retrieval(n_hops=hops, order=",".join(map(str, order)))
        found = reach_of(task, 4, causal).allowed
        for stream, held in zip(found, held_by_brute_force(order, 4, causal), strict=True):
            assert [set(numpy.flatnonzero(row)) for row in stream] == held


@pytest.mark.parametrize(("causal", "hops_by_layers"), [(True, [0, 0, 1, 3, 7]), (False, [0, 0, 2, 6])])
def test_the_query_reaches_as_far_as_the_formulas_say(causal, hops_by_layers):
    """2^(L-1) - 1 hops with a mask; without it pieces up to (3^L - 1)/2, two for each hop."""
    for layers, hops in enumerate(hops_by_layers):
        held = reach_of(Retrieval(n_hops=8), layers, causal).allowed[layers, 0]
        assert held[: 2 * hops + 1].all()
        assert not held[2 * hops + 2 :].any()


def test_shuffled_steps_allow_what_some_order_allows():
    orders = [reach_of(Retrieval(n_hops=2, order=order), 3, True).allowed for order in ("1,2", "2,1")]
    assert (reach_of(Retrieval(n_hops=2, order="shuffled"), 3, True).allowed == orders[0] | orders[1]).all()
    with pytest.raises(BadInput, match="at most 6"):
        reach_of(Retrieval(n_hops=7, order="shuffled"), 1, True)


def test_without_a_mask_nothing_is_excludable():
    assert not reach_of(TASK, 3, False).excludable.any()
    assert not (reach_of(TASK, 3, True).excludable & reach_of(TASK, 3, True).allowed).any()


def test_equal_seeds_give_equal_tables():
    first, again = (probe(untrained(), TASK, 50, 20, 50, seed=1) for _ in range(2))
    assert first.equals(again)
    assert not first.equals(probe(untrained(), TASK, 50, 20, 50, seed=2))


def test_what_cannot_be_probed_is_refused():
    with pytest.raises(BadInput, match="plain retrieval"):
        probe(untrained(), Induction())
    with pytest.raises(BadInput, match="at least 2"):
        probe(untrained(), TASK, n_test=1)
    with pytest.raises(BadInput, match="one hop"):
        breach(TASK)


def judged(*changed: tuple[str, int, str, str]) -> dict[str, str]:
    """Verdicts on a made-up table: allowed is what is decoded, but for `changed` (model, layer, role, piece)."""
    parts = []
    for name, layers, task in (("trained", 4, TASK), ("untrained", 4, TASK), ("built by hand", 1, TASK.at(1))):
        within = reach_of(task, layers, True)
        for layer, place, piece in numpy.ndindex(within.allowed.shape):
            key = (name, layer, role_name(place), piece_names(task.n_hops)[piece])
            allowed, excludable = (bool(x[layer, place, piece]) for x in (within.allowed, within.excludable))
            usual = (allowed and name == "trained") or (name, key[2:]) == ("built by hand", ("query", "x1"))
            decoded = usual != (key in changed)
            row = {"allowed": allowed, "excludable": excludable, "decoded": decoded, "accuracy": 0.25 + 0.5 * decoded}
            row |= {"kind": "position" if piece % 2 else "symbol", "hops": task.n_hops, "n": 100, "seed": 0, "run": "a"}
            parts.append({**dict(zip(("model", "layer", "role", "piece"), key, strict=True)), **row})
    table = DataFrame(parts).assign(last_hop_learnt=True)
    table = DataFrame(
        [*table.to_dict("records"), *table.assign(model="random chain", decoded=False).to_dict("records")]
    )
    return {claim.id: claim.verdict for claim in claims(table)}


def test_claims_hold_where_the_reach_is_kept():
    assert set(judged().values()) == {"holds"}


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        (("trained", 1, "query", "x1"), {"nothing_beyond_reach", "no_sooner_than_the_minimum_depth"}),
        (("trained", 2, "key[1]", "x1"), set()),  # by exclusion
        (("trained", 4, "query", "x2"), {"answer_arrives"}),
        (("untrained", 4, "query", "x2"), {"answer_arrives"}),
        (("untrained", 1, "query", "p2"), {"untrained_holds_nothing_beyond"}),
        (("built by hand", 1, "query", "x1"), {"breach_by_hand_is_found"}),
    ],
)
def test_claims_fail_where_they_should(changed, fails):
    assert {name for name, verdict in judged(changed).items() if verdict == "fails"} == fails

"""x"""
from __future__ import annotations
from hopscope.studies.plateau.cells import Changes, bias, cells, combined, taken, whole

SECONDS = {"quick": 10, "cpu": 700, "paper": 10000}
CLAIMS = ()

STRONG = {"model": bias(4)}
AHEAD = taken(range(5), [("value[1]", "value[2]"), ("value[2]", "value[3]"), ("value[1]", "value[3]")])
NEAREST = combined(STRONG, {"task": {"order": "nearest_first"}, "training": {"steps": 400}})
ALONE = combined(STRONG, {"task": {"curriculum": "none"}, "training": {"clamps": whole(3)}})
FIRST, SECOND = "L1H0 query->value[1] ideal@0", "L2H0 query->value[2] ideal@0"
FIVE = combined(STRONG, {"task": {"n_hops": 5}, "model": {"n_layers": 6, "mlp": True}})
TRAPS: dict[str, Changes] = {
    "nearest first": NEAREST,
    "nearest first, facts whole": combined(NEAREST, {"training": {"clamps": whole(3)}}),
    "nearest first, no mask": combined(NEAREST, {"model": {"causal": False}}),
    "deepest first, no mask": combined(STRONG, {"model": {"causal": False}}),
    "deepest first, no look-ahead": combined(STRONG, {"training": {"clamps": AHEAD}}),
    "last hop alone": ALONE,
    "last hop alone, 1 given": combined(ALONE, {"training": {"clamps": f"{whole(3)};{FIRST}"}}),
    "last hop alone, 2 given": combined(ALONE, {"training": {"clamps": f"{whole(3)};{FIRST};{SECOND}"}}),
    "5 hops, 1 head": FIVE,
    "5 hops, 1 head, facts whole": combined(FIVE, {"training": {"clamps": whole(5)}}),
    "5 hops, 1 head, stronger": combined(FIVE, {"model": bias(6)}),
    "5 hops, 8 heads": combined(FIVE, {"model": {"n_heads": 8}}),
    "5 hops, 1 head, no MLP": combined(FIVE, {"model": {"mlp": False}}),
}

def runs(scale: str):
    return cells(TRAPS, range(3), scale)
def table(runs, scale): ...
def figure(table): ...
def claims(table): ...

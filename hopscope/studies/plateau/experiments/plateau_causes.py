"""x"""
from __future__ import annotations
from hopscope.studies.plateau.cells import Changes, bias, cells, combined, taken, whole

SECONDS = {"quick": 10, "cpu": 700, "paper": 10000}
CLAIMS = ()
HOPS = (1, 2, 3)

#: Layer 0's queries see only themselves and other queries: whatever else they see is taken away.
BLIND = ";".join(
    f"L0H0 query->{role}[{k}]{chain} off@0" for k in HOPS for role in ("key", "value") for chain in ("", " (other)")
)
#: No later layer's query sees a key of step 2, which holds x1 as the value of step 1 does.
DETOUR = ";".join(f"L{layer}H0 query->key[2]{chain} off@0" for layer in range(1, 5) for chain in ("", " (other)"))
POINTERS = "blocks.0.attn.positions.beta,blocks.0.attn.?_QKV"
WEAK, STRONG, NONE = ({"model": bias(start)} for start in (1, 4, 0))
CAUSES: dict[str, Changes] = {
    "no prior": NONE,
    "facts whole": combined(NONE, {"training": {"clamps": whole(3)}}),
    "weak prior": WEAK,
    "weak prior, frozen": combined(WEAK, {"training": {"frozen": POINTERS}}),
    "weak prior, queries blind in layer 0": combined(WEAK, {"training": {"clamps": BLIND}}),
    "no prior, queries blind in layer 0": combined(NONE, {"training": {"clamps": BLIND}}),
    "weak prior, no detour": combined(WEAK, {"training": {"clamps": DETOUR}}),
    "no prior, no detour": combined(NONE, {"training": {"clamps": DETOUR}}),
    "strong prior, frozen": combined(STRONG, {"training": {"frozen": POINTERS}}),
    "weak prior, a second head": combined(WEAK, {"model": {"n_heads": 2, "positions": "relative(start='L0H0 1:1')"}}),
    "strong prior": STRONG,
    "strong prior, facts not in layer 0": combined(
        STRONG, {"training": {"clamps": taken([0], [(f"value[{k}]", f"key[{k}]") for k in HOPS])}}
    ),
    "strong prior, later layers frozen": combined(STRONG, {"training": {"frozen": "blocks.[1234].*"}}),
    "no prior, 2 chains": combined(NONE, {"task": {"n_chains": 2}}),
    "weak prior, 2 chains": combined(WEAK, {"task": {"n_chains": 2}}),
    "no prior, 1 hop": combined(NONE, {"task": {"n_hops": 1}}),
    "no prior, nearest first": combined(NONE, {"task": {"order": "nearest_first"}}),
    "one code per fact": {"task": {"position_code": "pair"}},
    "rotary positions": {"model": {"positions": "rotary"}},
    "learnt positions": {"model": {"positions": "learned"}},
    "released at 200": combined(NONE, {"training": {"clamps": whole(3, "0-200"), "steps": 1000, "stop_below": None, "checkpoints": "200"}}),
}


def runs(scale: str):
    return cells(CAUSES, range(3), scale)
def table(runs, scale): ...
def figure(table): ...
def claims(table): ...

"""x"""
from __future__ import annotations
from hopscope.studies.plateau.cells import Changes, bias, cells, combined, whole

SECONDS = {"quick": 10, "cpu": 700, "paper": 10000}
CLAIMS = ()

PRIORS: dict[str, Changes] = {
    "none": {},
    "biased start, 2": {"model": bias(2)},
    "biased start, 4": {"model": bias(4)},
    "kv shift": {"model": {"attention": "kv_shift"}},
    "initial weights, 1": {"model": {"look_back": 1.0}},
    "initial weights, 2": {"model": {"look_back": 2.0}},
    "initial weights, 4": {"model": {"look_back": 4.0}},
    "initial weights, 20": {"model": {"look_back": 20.0}},
    "code of the token before": {"task": {"position_code": "token_and_before"}},
    "clamp until 200": {"training": {"clamps": whole(3, "0-200"), "stop_below": None}},
    "4 times the sequences": {"training": {"batch": 512}},
}

def runs(scale: str):
    return cells(PRIORS, range(3), scale)
def table(runs, scale): ...
def figure(table): ...
def claims(table): ...

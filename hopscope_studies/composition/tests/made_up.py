"""A minimal table for quick tests: two heads share a bridge, and copying needs them."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

PAIR = ("L3H1", "L2H0")
MAIN = 8


def row(kind: str, name: str, value: float, by: float | None = 0.01, **more: Any) -> Row:
    """A number, with its interval unless `by` is None."""
    ends = {} if by is None else {"low": value - by, "high": value + by}
    return {"kind": kind, "name": name, "value": value, **ends, **more}


def bridges(pairs: float = 0.6, random: float = 0.2, place: float = 0.9, diagonal: float = 1.0) -> list[Row]:
    """Rows on overlaps and diagonal scores of the chosen heads, of random heads, and of random directions."""
    later, earlier = PAIR
    rows = [
        row("asks", "sequences", 24, None),
        row("asks", "tokens that count", 180, None),
        row("chosen", "induction", 1, None, other=later),
        row("chosen", "previous", 1, None, other=earlier),
        row("score: induction", later, 0.9, None),
        row("score: previous", earlier, 0.9, None),
        row("place", "previous among all earlier", place),
        row("best", later, pairs, None, other=earlier),
        row("ranks", "overlap and induction", place - 0.5),
        row("diagonal", "induction on previous", diagonal),
    ]
    for rank in (10, 5):
        for kind in ("overlap", "best overlap"):
            rows.append(row(kind, "induction on previous", pairs, step=rank))
            names = [f"{name} {draw}" for name in ("random", "random earlier") for draw in range(2)]
            rows += [row(kind, name, random, None, step=rank) for name in names]
        rows += [row("overlap", f"turned {draw}", 0.13, None, step=rank) for draw in range(2)]
        rows.append(row("overlap", "in theory", (rank / 576) ** 0.5, None, step=rank))
    return rows + [row("diagonal", f"{name} {draw}", 0.1, None) for name in ("random", "shuffled") for draw in range(2)]


def cut(lost: float = 0.53, random: float = 0.05, text: float = 0.1) -> list[Row]:
    """Rows on the cost of ablation: a loss of accuracy, and ten times as much in nats."""
    rows = [row("main", "induction", MAIN, None, other=PAIR[0])]
    for measure, times, whole in (("accuracy", 1.0, 0.55), ("log_p", 10.0, -3.0)):
        rows.append(row(measure, "whole", whole))
        sets = {f"induction {size}": lost * min(size, MAIN) / MAIN for size in (1, 4, MAIN, 16)} | {"previous": lost}
        sets |= {f"{name} {size} {draw}": random for size in (MAIN, 16) for name in ("random",) for draw in range(2)}
        sets |= {f"same layers {MAIN} {draw}": random for draw in range(2)}
        for name, value in sets.items():
            rows += [
                row(measure, name, whole - times * value, other=PAIR[0]),
                row(f"lost {measure}", name, times * value),
            ]
        for name in (f"induction {MAIN}", "induction 16", "previous"):
            for control in ("random", "same layers")[: 1 if name.endswith("16") else 2]:
                rows += [
                    row(f"beyond the {of} {control}: {measure}", name, times * (sets[name] - random))
                    for of in ("worst", "mean")
                ]
        where = f"{measure} on plain text"
        rows.append(row(where, "whole", whole))
        for name, value in ((f"induction {MAIN}", text * lost), (f"random {MAIN} 0", 0.01)):
            rows += [row(where, name, whole - times * value, other=PAIR[0]), row(f"lost {where}", name, times * value)]
        rows += [
            row(f"beyond the {of} random: {where}", f"induction {MAIN}", times * (text * lost - 0.01))
            for of in ("worst", "mean")
        ]
    return rows


ROWS: list[Row] = [*bridges(), *cut()]
TOY: list[Row] = [
    one
    for seed in range(2)
    for one in (
        row("overlap", "toy", 0.75, None, step=5, seed=seed),
        row("overlap", "in theory", (5 / 32) ** 0.5, None, step=5, seed=seed),
        row("diagonal", "toy", 2.5, None, step=5, seed=seed),
    )
]


def hidden(induction: float = 0.0, random: float = 0.9, capitals: float = 0.9, shuffled: float = 0.0) -> list[Row]:
    """Right answers of 24 to hidden-rule prompts; shares are of what is above guessing, where the whole model has 1."""
    rows = []
    for kind, chance in {"copy": 1 / 3, "names": 1 / 2, "labels": 1 / 2, "pairs": 1 / 5}.items():
        sets = [f"{name} {draw}" for name in ("random", "same layers") for draw in range(2)]
        left = {"nothing": 1.0, "induction": induction, **dict.fromkeys(sets, random)}
        shares = {("replaced", cut): share for cut, share in left.items()} | {("shuffled", "nothing"): shuffled}
        shares |= {("familiar", cut): share for cut, share in left.items()} | {("familiar", "induction"): capitals}
        for (form, cut), share in shares.items():
            about = {"kind": kind, "form": form, "cut": cut, "chance": chance, "n": 24}
            rows.append({**about, "right": round(24 * (chance + share * (1 - chance)))})
    return rows


#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"bridges": {"rows": ROWS}, "toy-bridges": {"rows": TOY}, "hidden-rules": {"rows": hidden()}}

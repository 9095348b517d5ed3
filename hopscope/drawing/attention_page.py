"""Attention as it is, by hand, and the difference, side by side: one HTML file that works offline.

Nothing is fetched: style, script and data are in the file, whose content security policy forbids anything else. Data
are JSON in a block that is no script, with every `<` escaped, and the script writes text only as text: no name of a
symbol or role can become markup. `attention_page.html` beside this file is the template.
"""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from hopscope.drawing.page_policy import as_data, hashes
from hopscope.drawing.views import Views

TEMPLATE = Path(__file__).with_suffix(".html")
UNIT = 1000  # attention is rounded to thousandths, and stored as whole numbers of them


def attention_page(views: Views, title: str = "Attention") -> str:
    """The page, as a whole file's text.

    Every head has its actual pattern, that by hand, and their difference, on any of the instances; with the mouse or
    the arrow keys each entry is read off with the roles and symbols of its positions. Paths of the circuit are links
    that outline their entries. Light or dark as the reader's system is.

    Args:
        views: `hopscope.drawing.views.views`.
        title: of the page.
    """
    data = json.dumps(page_data(views), separators=(",", ":"), allow_nan=False)
    page = TEMPLATE.read_text(encoding="utf-8")
    before, after = page.split("@DATA@")  # not by replacing, in which backslashes or a second marker would matter
    return before.replace("@POLICY@", policy()).replace("@TITLE@", html.escape(title)) + as_data(data) + after


def policy() -> str:
    """What the page may do: draw, by its own style and script."""
    found = hashes(TEMPLATE)
    styles, scripts = (" ".join(found[tag]) for tag in ("style", "script"))
    return f"default-src 'none'; style-src {styles}; script-src {scripts}; img-src data:"


def page_data(views: Views) -> dict[str, Any]:
    """What the script reads. Equal patterns are stored once, of causal ones the lower triangles."""
    table: dict[tuple[int, ...], int] = {}
    numbers = {
        name: [
            [
                [table.setdefault(packed(pattern, views.causal), len(table)) for pattern in instance]
                for instance in layer
            ]
            for layer in patterns
        ]
        for name, patterns in (("actual", views.actual), ("byHand", views.by_hand))
    }
    return {
        "unit": UNIT,
        "causal": views.causal,
        "instances": [{"symbols": s, "roles": r} for s, r in zip(views.symbols, views.roles, strict=True)],
        "patterns": list(table),
        **numbers,
        "rows": [
            {"layer": v.row.layer, "head": v.row.head, "role": v.row.query, "rule": v.rule, "loss": number(v.loss)}
            for v in views.rows
        ],
        "paths": [
            {
                "name": str(found.path),
                "layer": found.path.layer,
                "head": found.path.head,
                "role": found.path.query,
                "strength": number(found.strength),
                "removal": number(found.removal_loss),
                "rule": found.hypothesis,
                "cells": cells,
            }
            for found, cells in zip(views.paths, views.cells, strict=True)
        ],
        "losses": {name: number(loss) for name, loss in views.losses.items()},
        "words": views.words,
    }


def packed(pattern: Float[Tensor, "query key"], causal: bool) -> tuple[int, ...]:
    """A pattern row by row in thousandths; of a causal one each row up to itself."""
    rows = (pattern * UNIT).round().int().tolist()
    return tuple(value for q, row in enumerate(rows) for value in (row[: q + 1] if causal else row))


def number(value: float) -> float | None:
    """Four digits that count; null for what is none."""
    return float(f"{value:.4g}") if math.isfinite(value) else None

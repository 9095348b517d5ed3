"""Attention as computed, by hand, and their difference, side by side: one HTML file that works offline.

Nothing is fetched: style, script and data are in the file, and its content security policy forbids everything else.
Data are JSON in a block that is not a script, with every `<` escaped, and the script writes text only as text, so no
name of a symbol or role can become markup. The template is `attention_page.html` beside this file.
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
UNIT = 1000  # attention is rounded to thousandths, and stored as integers


def attention_page(views: Views, title: str = "Attention") -> str:
    """The text of the whole HTML file.

    Every head has its actual pattern, its pattern by hand, and their difference, for every instance. The mouse or the
    arrow keys show each entry with the roles and symbols of its positions. Paths of the circuit are links that outline
    their entries. The page is light or dark as the reader's system.

    Args:
        views: from `hopscope.drawing.views.views`.
        title: of the page.
    """
    data = json.dumps(page_data(views), separators=(",", ":"), allow_nan=False)
    page = TEMPLATE.read_text(encoding="utf-8")
    before, after = page.split("@DATA@")  # split rather than replace: data may contain the marker
    return before.replace("@POLICY@", policy()).replace("@TITLE@", html.escape(title)) + as_data(data) + after


def policy() -> str:
    """The page's content security policy: it may only use its own style and script."""
    sources = hashes(TEMPLATE)
    styles, scripts = (" ".join(sources[tag]) for tag in ("style", "script"))
    return f"default-src 'none'; style-src {styles}; script-src {scripts}; img-src data:"


def page_data(views: Views) -> dict[str, Any]:
    """The data that the script reads. Equal patterns are stored once, causal ones as lower triangles."""
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
                "name": str(part.path),
                "layer": part.path.layer,
                "head": part.path.head,
                "role": part.path.query,
                "strength": number(part.strength),
                "removal": number(part.removal_loss),
                "rule": part.hypothesis,
                "cells": cells,
            }
            for part, cells in zip(views.paths, views.cells, strict=True)
        ],
        "losses": {name: number(loss) for name, loss in views.losses.items()},
        "words": views.words,
    }


def packed(pattern: Float[Tensor, "query key"], causal: bool) -> tuple[int, ...]:
    """A pattern in thousandths, row by row; of a causal one each row up to the diagonal."""
    rows = (pattern * UNIT).round().int().tolist()
    return tuple(value for q, row in enumerate(rows) for value in (row[: q + 1] if causal else row))


def number(value: float) -> float | None:
    """A number with four significant digits; None if it is not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None

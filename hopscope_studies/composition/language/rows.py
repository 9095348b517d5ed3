"""Rows of the table: a number, with its interval where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]


def row(kind: str, name: str, found: Any = None, **more: Any) -> Row:
    """One row; `found` is a number, or one with an interval."""
    if isinstance(found, Mapping):
        return {"kind": kind, "name": name, "value": found["mean"], "low": found["low"], "high": found["high"], **more}
    return {"kind": kind, "name": name, "value": found, **more}

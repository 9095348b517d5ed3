"""The paper's sentences, each with its verdicts, and its settings, each with the presets' values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hopscope_studies.stacked_heads import recipe, sentences


def paper(claims: Iterable[Mapping[str, Any]]) -> str:
    """Both tables in Markdown; `claims` are those of all results."""
    return f"{sentences.page(claims)}\n{recipe.page()}"

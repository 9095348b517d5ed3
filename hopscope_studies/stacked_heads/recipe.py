"""The presets for the paper's runs, compared with the paper setting by setting (Musat, ICLR 2025, sections 6 to 9).

`data/recipe.toml` has every setting of a retrieval run, with what the paper says about it or why it is open. The values
are read from the presets, so the page shows where a preset differs from the paper.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.configuration.presets import AS_WRITTEN, PAPER, recipe

LISTED = Path(__file__).parent / "data" / "recipe.toml"


@dataclass(frozen=True)
class Said:
    """What the paper says about one setting.

    Attributes:
        part: `task`, `model` or `training`.
        name: the setting's field there.
        says: a statement of the paper, in our words; empty if the setting is open.
        section: its section.
        value: the value that it requires, of all presets or by preset.
        open: why the paper does not determine it.
    """

    part: str
    name: str
    says: str = ""
    section: str = ""
    value: Any = None
    open: str = ""

    def asked_of(self, preset: str) -> Any:
        """The value that it requires of a preset, for either order of the facts."""
        return self.value[preset.removesuffix("_deepest")] if isinstance(self.value, Mapping) else self.value

    def differing(self) -> dict[str, Any]:
        """The presets that differ from the paper in this setting, with their values."""
        if self.open:
            return {}
        values = {name: value_in(name, self.part, self.name) for name in PAPER}
        return {name: value for name, value in values.items() if value != self.asked_of(name)}


def value_in(preset: str, part: str, name: str) -> Any:
    """A preset's setting, with dependent defaults resolved."""
    config = recipe(preset).config()
    given = getattr(getattr(config, part), name)
    return getattr(config.parts[part], name) if given is None else given


def settings() -> list[Said]:
    """All settings, in the order of the file."""
    listed = tomllib.loads(LISTED.read_text())
    return [Said(part, name, **entry) for part, entries in listed.items() for name, entry in entries.items()]


def page() -> str:
    """All settings as a Markdown table: the presets' values, what the paper says, and whether they agree."""
    lines = ["| setting | the presets | section | the paper says | as written? |", "|---|---|---|---|---|"]
    for said in settings():
        verdict = "open" if said.open else ", ".join(differences(said)) or "yes"
        shown = "; ".join(values(said))
        lines.append(f"| {said.part} `{said.name}` | {shown} | {said.section} | {said.says or said.open} | {verdict} |")
    return "\n".join(lines) + "\n"


def values(said: Said) -> Iterator[str]:
    """The presets' values, each with the presets that have it; the value alone if all have it."""
    having: dict[str, list[str]] = {}
    for preset in PAPER if said.name == "order" else AS_WRITTEN:
        having.setdefault(in_words(value_in(preset, said.part, said.name)), []).append(f"`{preset}`")
    for value, presets in having.items():
        yield value if len(having) == 1 else f"{value} ({', '.join(presets)})"


def differences(said: Said) -> Iterator[str]:
    """The presets that differ from the paper, each with its differing settings."""
    for preset, value in said.differing().items():
        yield f"**no**: `{preset}` has {in_words(value)}, not {in_words(said.asked_of(preset))}"


def in_words(value: Any) -> str:
    """A value as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.12g}"
    return "none" if value in (None, "") else str(value)

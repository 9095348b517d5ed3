"""The content security policy of our pages: only the scripts and styles of the template run, known by their hashes.

A policy with hashes (CSP level 3, section 6.7.3) lets nothing else run, whatever untrusted text becomes. So the
template's scripts and styles must not be modified, and data go into a block that is not a script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

BLOCKS = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


def hashes(template: Path) -> dict[str, list[str]]:
    """The hashes of a template's styles and scripts in the policy's syntax, by tag."""
    sources: dict[str, list[str]] = {"style": [], "script": []}
    for tag, text in BLOCKS.findall(template.read_text(encoding="utf-8")):
        sources[tag].append(hash_of(text))
    return sources


def hash_of(text: str) -> str:
    """The policy's name for an element's text: its sha256."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def as_data(text: str) -> str:
    """JSON in which `<`, `>` and `&` are escaped, so that it cannot end an element."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

"""What a page of ours may run: exactly the scripts and styles that are in its template, known by their hashes.

A content security policy with hashes (CSP level 3, section 6.7.3) lets nothing else run, whatever a stranger's text
becomes. What is in the template must therefore stay as it is: data go into a block that is no script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

BLOCKS = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


def hashes(template: Path) -> dict[str, list[str]]:
    """The sources, as a policy names them, of a template's styles and scripts, by tag."""
    found: dict[str, list[str]] = {"style": [], "script": []}
    for tag, text in BLOCKS.findall(template.read_text(encoding="utf-8")):
        found[tag].append(hash_of(text))
    return found


def hash_of(text: str) -> str:
    """What a policy calls an element's text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def as_data(text: str) -> str:
    """JSON that can end no element."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

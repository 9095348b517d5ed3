"""The explorer's page, as one file that works from disk, and as the server sends it.

The file fetches nothing: script, style, manifest and blocks are in it. Its content security policy allows script
and style by their hashes, and WebAssembly made from the script's own bytes. Data are in script elements of data types,
with every `<` escaped or in base64, so that no name of a run or symbol can become markup.
"""

from __future__ import annotations

import base64
import gzip
import html
from pathlib import Path

from hopscope.core.settings import BadInput
from hopscope.core.storage import write_file
from hopscope.drawing.page_policy import as_data, hash_of
from hopscope.explorer.building import Builder
from hopscope.explorer.bundle import Bundle

STATIC = Path(__file__).with_name("static")
SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{head}
<title>{title}</title>
{style}
</head>
<body>
<div id="explorer"><noscript>This page computes: allow its script.</noscript></div>
{body}
</body>
</html>
"""
#: The policy that all pages share: nothing from elsewhere, no base addresses, no forms.
NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; worker-src blob:"
FROM_HERE = "script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'"
SERVED = f"{NOTHING_ELSE}; {FROM_HERE}; frame-ancestors 'none'"


def static(name: str) -> str:
    """One of the page's files, which `make explorer` builds. Raises BadInput if it does not exist."""
    path = STATIC / name
    if not path.is_file():
        raise BadInput(f"{path} is missing: this copy of hopscope was made without the explorer's page")
    return path.read_text(encoding="utf-8")


def served_page(title: str) -> str:
    """The page as the server sends it; it fetches the rest from the server."""
    style, body = '<link rel="stylesheet" href="page.css">', '<script src="page.js"></script>'
    early = '<link rel="preload" href="bundle.json" as="fetch" crossorigin>'  # while the script is read
    head = f'<link rel="icon" href="data:,">\n{early}'
    return SHELL.format(head=head, title=html.escape(title), style=style, body=body)


def export(builder: Builder, path: Path, title: str = "") -> Bundle:
    """Build a complete bundle, and write it with the page as one file. Raises CannotSave, BadInput."""
    script, style = inline(static("page.js")), static("page.css")
    check_place(path)
    bundle = builder.build()
    write_file(path, page_of(bundle, builder.text, script, style, title or name_of(bundle)).encode())
    return bundle


def check_place(path: Path) -> None:
    """Raise BadInput for a file that cannot be written, before the bundle is built."""
    if not path.parent.is_dir():
        raise BadInput(f"could not write {path}: there is no folder {path.parent}; choose one that exists")
    if path.is_dir():
        raise BadInput(f"could not write {path}: it is a folder; choose a file in it")


def name_of(bundle: Bundle) -> str:
    """The title of a page."""
    names = ", ".join(run["name"] for run in bundle.manifest["runs"])
    if bundle.manifest["opens"] == "claims":
        return "hopscope: claims"
    return f"{names} · hopscope explorer" if names else "hopscope explorer"


def page_of(bundle: Bundle, manifest: str, script: str, style: str, title: str) -> str:
    """The text of an exported file."""
    policy = f"{NOTHING_ELSE}; script-src {hash_of(script)} 'wasm-unsafe-eval'; style-src {hash_of(style)}"
    data = [f'<script type="application/json" id="bundle">{as_data(manifest)}</script>']
    for name, block in bundle.blocks.items():
        kind, coded = packed(block.data)
        data.append(f'<script type="application/{kind};base64" id="block:{html.escape(name)}">{coded}</script>')
    return SHELL.format(
        head=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<link rel="icon" href="data:,">',
        title=html.escape(title),
        style=f"<style>{style}</style>",
        body="\n".join([*data, f"<script>{script}</script>"]),
    )


def packed(data: bytes) -> tuple[str, str]:
    """The encoding of a block and its base64 text: gzip if that at least halves its size, else the bytes themselves."""
    small = gzip.compress(data, mtime=0)
    kind, shown = ("gzip", small) if 2 * len(small) < len(data) else ("octet-stream", data)
    return kind, base64.b64encode(shown).decode()


def inline(script: str) -> str:
    """A script that cannot end its element; the escapes are in strings and regular expressions, and change nothing."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")

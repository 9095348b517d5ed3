"""Makes pages of docs' notebooks, with the outputs that they keep: mkdocs calls it as it collects the files."""

import base64
import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
LINK = re.compile(r"\]\((\w+)\.ipynb\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """`NAME.ipynb` is the page `NAME_notebook.md`."""
    for notebook in sorted(DOCS.glob("*.ipynb")):
        text, pictures = page_of(notebook)
        files.append(File.generated(config, f"{notebook.stem}_notebook.md", content=text))
        for place, picture in pictures.items():
            files.append(File.generated(config, place, content=picture))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Other pages' links to a notebook lead to its page."""
    own = page.file.src_uri.endswith("_notebook.md")
    return markdown if own else LINK.sub(r"](\1_notebook.md)", markdown)


def page_of(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as a page in Markdown, and its pictures by their places in the site."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", ())})
            if "image/png" in data:
                place = f"images/{notebook.stem}_{len(pictures)}.png"
                pictures[place] = base64.b64decode(data["image/png"])
                parts.append(f"![What the cell above draws]({place})")
            elif "text/html" in data:
                parts.append(f'<div class="output">{"".join(data["text/html"])}</div>')
            else:
                text = "".join(data["text/plain"]).rstrip()
                parts.append(f'<div class="output" markdown>\n\n```text\n{text}\n```\n\n</div>')
    parts.insert(1, f"This page is [a notebook]({notebook.name}), with its outputs.")
    return "\n\n".join(parts), pictures

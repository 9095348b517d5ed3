"""Shows every figure so wide that its smallest letters can be read: mkdocs calls it for every page.

Where there is not as much room, one scrolls the figure sideways; a click opens it alone.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LEAST = 9  # CSS pixels of the smallest letters
FIGURE = re.compile(r'<img ([^>]*?)src="((?:\.\./)*((?:hopscope_studies|images)/[^"]+\.svg))"([^>]*)>')
WIDTH = re.compile(r'<svg[^>]* width="([\d.]+)pt"')
LETTERS = re.compile(r"scale\((0\.\d+) -\1\)")  # matplotlib's glyphs are drawn at 100 points


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page, with its figures as links to themselves that are not narrower than they may be."""
    return FIGURE.sub(framed, html)


def framed(found: re.Match[str]) -> str:
    """An image's element, with what it is read at."""
    before, source, place, after = found.groups()
    least = f' style="--least: {least_width(file_of(place).read_text()):.0f}px"'
    return f'<a class="figure" href="{source}"><img {before}src="{source}"{after.rstrip("/")}{least}></a>'


def file_of(place: str) -> Path:
    """Where a picture of the site is in the tree."""
    return ROOT / place if place.startswith("hopscope_studies/") else ROOT / "docs" / place


def least_width(svg: str) -> float:
    """In pixels of CSS the width at which a picture's smallest letters are as high as they must be; at most its own."""
    width = float(WIDTH.search(svg)[1]) * 4 / 3  # type: ignore[index]
    letters = [float(scale) * 100 * 4 / 3 for scale in LETTERS.findall(svg)]
    return min(width, width * LEAST / min(letters, default=LEAST))

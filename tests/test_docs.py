"""What the site's pages are made by: notebooks with their outputs, and figures that can be read."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
pytest.importorskip("mkdocs", reason="the site's packages are not installed: make docs installs them")


@pytest.fixture(autouse=True)
def hooks(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))


def test_a_notebook_is_a_page_with_what_its_cells_said_and_drew(tmp_path):
    from notebook_pages import page_of

    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "b"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]},
        {"cell_type": "code", "source": ["print()"], "outputs": [{"output_type": "stream", "text": ["said\n"]}]},
        {"cell_type": "code", "source": ["x"], "outputs": [{"data": {"image/png": base64.b64encode(b"png").decode()}}]},
        {"cell_type": "code", "source": ["y"], "outputs": [{"data": {"text/html": ["<b>", "y</b>"]}}]},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    text, pictures = page_of(tmp_path / "n.ipynb")
    assert pictures == {"images/n_0.png": b"png"} and "](images/n_0.png)" in text and text.startswith("# A\nb\n\nThis")
    places = [text.index(part) for part in ("1 + 1", "```text\n2\n", "print()", "```text\nsaid\n", "<b>y</b>")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["lecture", "your_model"])
def test_the_notebooks_keep_outputs(name):
    cells = [c for c in json.loads((DOCS / f"{name}.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
    kinds = {kind for cell in cells for output in cell["outputs"] for kind in output.get("data", {})}
    assert kinds & {"image/png", "text/html"} and "text/plain" in kinds
    assert all(cell["execution_count"] for cell in cells) and str(ROOT) not in json.dumps(cells)


def test_a_figure_is_as_wide_as_its_smallest_letters_ask_and_no_wider_than_drawn():
    """900 points are 1200 px. Letters of 6 points are 8 px, and may not shrink; letters of 9 may, by a quarter."""
    from readable_figures import FIGURE, framed, least_width

    svg = '<svg width="900pt"><g transform="scale(0.09 -0.09)"/><g transform="scale({} -{})"/></svg>'
    assert least_width(svg.format("0.06", "0.06")) == 1200
    assert least_width(svg.format("0.09", "0.09")) == pytest.approx(1200 * 9 / 12)
    assert least_width('<svg width="300pt"></svg>') == 400
    html = '<p><img alt="a" src="../images/problem.svg" /></p>'
    made = FIGURE.sub(framed, html)
    assert made.startswith('<p><a class="figure" href="../images/problem.svg"><img alt="a" ') and "--least: " in made


def test_every_study_stands_in_the_navigation_once():
    from mkdocs.config.defaults import MkDocsConfig
    from study_pages import on_config

    config = MkDocsConfig()
    config.nav = [{"Learn": []}, {"Studies": [{"All claims": "claims.md"}]}]
    first, *groups = on_config(config).nav[1]["Studies"]
    assert first == {"All claims": "claims.md"} and len(groups) >= 4  # a study in no group adds "Others"
    pages = [
        page for group in groups for (entries,) in [group.values()] for entry in entries for page in entry.values()
    ]
    assert sorted(pages) == sorted(f"{readme.parent.name}.md" for readme in ROOT.glob("hopscope_studies/*/README.md"))


def test_a_link_to_a_removed_study_is_its_words():
    from study_pages import on_page_markdown

    said = "[here](../hopscope_studies/plateau/README.md#claims) and [there](../hopscope_studies/removed/README.md)"
    assert on_page_markdown(said, None, None, None) == "[here](plateau.md#claims) and there"


def test_every_page_stands_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    made = {f"{notebook.stem}_notebook.md" for notebook in DOCS.glob("*.ipynb")}
    assert not [page for page in {page.name for page in DOCS.glob("*.md")} | made if page not in text]

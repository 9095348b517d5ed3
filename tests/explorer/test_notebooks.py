"""The widget in JupyterLab and in marimo: it shows the run, and its state goes both ways."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.explorer.chromium import PATIENCE, chromium, need

pytestmark = pytest.mark.notebooks

#: Of the environment that `make notebooks` builds.
PYTHON = os.environ.get("HOPSCOPE_NOTEBOOKS_PYTHON", "")
ROOT = Path(__file__).parents[2]
OPEN = "import hopscope\nview = hopscope.explore({run!r})\nview"
MARIMO = """import marimo
app = marimo.App()

@app.cell
def _():
    import hopscope
    view = hopscope.explore({run!r})
    view
    return (view,)

@app.cell
def _(view):
    from pathlib import Path
    view.observe(lambda change: Path("state.txt").write_text(change["new"]), "state")
    return
"""


@pytest.fixture(scope="module")
def browser() -> Iterator:
    need("" if Path(PYTHON).is_file() else "there are no notebooks here; run make notebooks")
    with chromium() as found:
        yield found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextmanager
def serving(folder: Path, *command: str) -> Iterator[int]:
    """A notebook server in a folder, in a home of its own; its port."""
    port = free_port()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    env |= {"HOPSCOPE_CACHE": os.environ["HOPSCOPE_CACHE"]}
    words = [PYTHON, "-m", *(word.format(port=port) for word in command)]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        for _ in range(PATIENCE // 100):
            with socket.socket() as asking:
                if asking.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(30)


def told(page, text: str) -> None:
    """Wait for a text in the widget."""
    page.locator(".hopscope-explorer", has_text=re.compile(re.escape(text))).wait_for(timeout=PATIENCE)


def test_jupyterlab_shows_it(browser, small, tmp_path):
    """The cell shows the run; another cell sets the state; what is chosen in the page comes back to Python."""
    save = "from pathlib import Path\nPath('state.txt').write_text(view.state)"
    cells = [OPEN.format(run=str(small.path)), "view.state = 'view=circuit&step=8'", save]
    about = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    written = [{**about, "id": f"cell-{i}", "source": cell} for i, cell in enumerate(cells)]
    (tmp_path / "nb.ipynb").write_text(
        json.dumps({"cells": written, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
    )
    words = ("jupyterlab", "--no-browser", "--allow-root", "--port={port}", "--ServerApp.token=t")
    with serving(tmp_path, *words) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/lab/tree/nb.ipynb?token=t", timeout=PATIENCE)
        page.locator(".jp-Notebook .jp-Cell .cm-content").first.click(timeout=PATIENCE)
        page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(timeout=PATIENCE)
        page.keyboard.press("Shift+Enter")
        told(page, "Loss of each hop")
        page.locator(".jp-Notebook .jp-Cell .cm-content").nth(1).click()
        page.keyboard.press("Shift+Enter")
        told(page, "Everything by hand")
        page.locator(".hopscope-explorer").get_by_text("Heads", exact=True).first.click()
        page.locator(".jp-Notebook .jp-Cell .cm-content").nth(2).click()
        page.keyboard.press("Shift+Enter")
        assert "step=8" in came_back(tmp_path, "view=heads")
        page.close()


def test_marimo_shows_it(browser, small, tmp_path):
    (tmp_path / "nb.py").write_text(MARIMO.format(run=str(small.path)))
    words = ("marimo", "run", "nb.py", "--headless", "--no-token", "--host=127.0.0.1", "--port={port}")
    with serving(tmp_path, *words) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/", timeout=PATIENCE)
        told(page, "Loss of each hop")
        page.locator(".hopscope-explorer").get_by_text("Circuit", exact=True).first.click()
        told(page, "Everything by hand")
        came_back(tmp_path, "view=circuit")
        page.close()


def came_back(folder: Path, words: str) -> str:
    """The state in Python, once it has these words."""
    file, said = folder / "state.txt", ""
    for _ in range(PATIENCE // 100):
        if words in (said := file.read_text() if file.is_file() else ""):
            return said
        time.sleep(0.1)
    raise AssertionError(f"the state in Python is {said!r}, without {words}")

"""`hopscope.explore(run)`: the explorer as a widget in JupyterLab or marimo."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from hopscope.core.settings import BadInput

if TYPE_CHECKING:
    from hopscope.explorer.widget import Explorer
    from hopscope.runs.run import Run


def explore(*runs: Run | Path | str, results: Path | str | None = None, height: int = 720) -> Explorer:
    """The interactive page on some runs as a widget.

    It shows the newest checkpoint first, and measures the others in the background. Its `state` is what the user has
    chosen, in the form of the text after `#` in the page's address. It can be read and set.

    >>> view = hopscope.explore("packaged")  # doctest: +SKIP
    >>> view.state = "view=circuit&step=160"  # doctest: +SKIP

    Args:
        runs: results of `hopscope.load`, or its arguments.
        results: a folder of results whose claims are also shown.
        height: of the widget, in CSS pixels.

    Raises:
        BadInput: a run does not exist, or the extra `explorer` is not installed.
        Damaged: a run cannot be read.
    """
    if importlib.util.find_spec("anywidget") is None:
        raise BadInput("the explorer in a notebook needs anywidget: run pip install 'hopscope[explorer]'")
    from hopscope.explorer.building import Builder
    from hopscope.explorer.widget import Explorer

    folders = [run if isinstance(run, str | Path) else run.path for run in runs]
    shown = None if results is None else Path(results)
    return Explorer(Builder(folders, which="all", dtype="float32", results=shown), height)

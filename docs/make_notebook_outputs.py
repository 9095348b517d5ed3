"""Runs the notebooks of docs/ and keeps in them what their cells show, for those who read them without running them.

    python docs/make_notebook_outputs.py [lecture] [your_model]

`your_model` needs TransformerLens: give it the Python of the environment that `make peers` builds.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

DOCS = Path(__file__).parent


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook with the outputs of its cells, which are run in an empty folder, without a kernel."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, cell in enumerate(cells, 1):
            said, value = result("".join(cell["source"]), names)
            cell["execution_count"], cell["outputs"] = number, list(outputs(said, value, number))
    return notebook


def result(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell: what it prints, and the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None
    return said.getvalue(), value


def outputs(said: str, value: Any, number: int) -> Any:
    """What a notebook keeps of both (nbformat 4)."""
    if said:
        yield {"output_type": "stream", "name": "stdout", "text": said.splitlines(keepends=True)}
    if value is None:
        return
    data: dict[str, Any] = {"text/plain": [repr(value).replace(f"{DOCS.parent}/", "")]}  # wherever it was run
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    elif hasattr(value, "_repr_html_"):
        data = {"text/plain": [f"<{type(value).__name__}>"], "text/html": value._repr_html_().splitlines(keepends=True)}
    yield {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}


def main() -> None:
    """The notebooks that are named, or all."""
    for name in sys.argv[1:] or sorted(file.stem for file in DOCS.glob("*.ipynb")):
        file = DOCS / f"{name}.ipynb"
        made = run(json.loads(file.read_text(encoding="utf-8")))
        file.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

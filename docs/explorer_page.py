"""Puts the packaged run's page, which runs its model, into the documentation: mkdocs calls it as it collects files."""

from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NAME = "explorer-demo.html"
LARGEST = 5_000_000  # bytes: it stands in the first page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """`explorer-demo.html`: the run that comes with the package, with its final weights."""
    from hopscope.explorer.building import Builder
    from hopscope.explorer.page import export

    with TemporaryDirectory() as folder:
        page = Path(folder) / NAME
        export(Builder(["packaged"]), page, "The packaged model · hopscope explorer")
        content = page.read_bytes()
    assert len(content) < LARGEST, f"{NAME} is too large for a first page"
    files.append(File.generated(config, NAME, content=content))
    return files

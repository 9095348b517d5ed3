"""Puts the demo's page, which runs its model, into the documentation: mkdocs calls it when everything else is written."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

LARGEST = 5_000_000  # bytes: it stands in the first page


def on_post_build(config: MkDocsConfig) -> None:
    """`explorer-demo.html`: the run that comes with the package, with its final weights."""
    from hopscope.explorer.building import Builder
    from hopscope.explorer.page import export

    page = Path(config.site_dir) / "explorer-demo.html"
    export(Builder(["demo"]), page, "The demo's model · hopscope explorer")
    assert page.stat().st_size < LARGEST, f"{page} is too large for a first page"

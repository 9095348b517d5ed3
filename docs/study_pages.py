"""Makes pages of the studies' READMEs: mkdocs calls it when it has collected the files of docs/."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

STUDIES = Path(__file__).parents[1] / "hopscope" / "studies"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """`hopscope/studies/NAME/README.md` is the page `NAME.md`; its links into docs/ are links between pages."""
    for readme in sorted(STUDIES.glob("*/README.md")):
        text = readme.read_text().replace("](../../../docs/", "](")
        files.append(File.generated(config, f"{readme.parent.name}.md", content=text))
    return files

"""Makes pages of the studies' READMEs: mkdocs calls it when it has collected the files of docs/.

Into "The paper, claim by claim" goes the table of the paper's sentences, with the verdicts of `results/`; all claims
are a page of their own.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from hopscope.experiments.overview import claims_page
from hopscope.experiments.results import all_claims
from hopscope.studies.stacked_heads.sentences import page

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "hopscope" / "studies"
SENTENCES = "<!-- sentences: hopscope report --paper -->"  # where the table goes


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """`hopscope/studies/NAME/README.md` is the page `NAME.md`; its links into docs/ are links between pages."""
    claims = all_claims(ROOT / "results")
    files.append(File.generated(config, "claims.md", content=claims_page(claims, "{}.md")))
    for readme in sorted(STUDIES.glob("*/README.md")):
        text = readme.read_text().replace("](../../../docs/", "](")
        if SENTENCES in text:
            text = text.replace(SENTENCES, page(claims))
        files.append(File.generated(config, f"{readme.parent.name}.md", content=text))
    return files

"""Makes pages of the studies' READMEs: mkdocs calls it when it has collected the files of docs/.

Into "The paper, claim by claim" goes the table of the paper's sentences, with the verdicts of `results/`; all claims
are a page of their own.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hopscope.core import catalogue
from hopscope.experiments.overview import claims_page, title_of
from hopscope.experiments.results import all_claims
from hopscope.studies.stacked_heads import recipe, sentences

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "hopscope" / "studies"
EVERY = re.compile(r"<!-- every ([a-z.]+) -->")
FIRST = ("stacked_heads", "plateau")
#: Where the tables of `hopscope report --paper` go.
SENTENCES, SETTINGS = "<!-- sentences: hopscope report --paper -->", "<!-- settings: hopscope report --paper -->"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation's "Studies" are the studies there are: the paper's first, then by title."""
    titles = {readme.parent.name: title_of(readme.parent) for readme in STUDIES.glob("*/README.md")}
    first = sorted(
        titles, key=lambda name: (name not in FIRST, FIRST.index(name) if name in FIRST else 0, titles[name])
    )
    pages = [{titles[name]: f"{name}.md"} for name in first]
    config.nav = [{"Studies": pages} if entry == {"Studies": []} else entry for entry in config.nav or ()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """`hopscope/studies/NAME/README.md` is the page `NAME.md`; its links into docs/ are links between pages."""
    claims = all_claims(ROOT / "results")
    files.append(File.generated(config, "claims.md", content=claims_page(claims, "{}.md")))
    for readme in sorted(STUDIES.glob("*/README.md")):
        text = readme.read_text().replace("](../../../docs/", "](")
        if SENTENCES in text:
            text = text.replace(SENTENCES, sentences.page(claims)).replace(SETTINGS, recipe.page())
        files.append(File.generated(config, f"{readme.parent.name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """`<!-- every tasks -->` on a page becomes the reference of all tasks there are; so for any folder of variants."""
    return EVERY.sub(lambda found: reference(found[1]), markdown)


def reference(folder: str) -> str:
    """A line for each of a folder's variants, which mkdocstrings makes a reference of."""
    ours = {name: home for name, home in catalogue.homes(folder).items() if not home.outside}
    return "\n".join(f"::: {home.package}.{folder}.{name}" for name, home in sorted(ours.items()))

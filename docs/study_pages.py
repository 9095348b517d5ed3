"""Makes pages of the studies' READMEs: mkdocs calls it when it has collected the files of docs/.

Pictures are taken from where they are: `hopscope_studies/NAME/results/EXPERIMENT/figure.svg` has that address in the
site, too. Into "The paper, claim by claim" goes the table of the paper's sentences, with their verdicts; all claims are
a page of their own.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hopscope.core import catalogue
from hopscope.experiments.overview import claims_page, title_of
from hopscope.experiments.results import all_claims
from hopscope_studies.stacked_heads import recipe, sentences

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "hopscope_studies"
PICTURES = ("*/results/*/*.svg", "*/images/*")
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
    """`hopscope_studies/NAME/README.md` is the page `NAME.md`; its links are from there."""
    claims = all_claims(STUDIES)
    for picture in (picture for pattern in PICTURES for picture in sorted(STUDIES.glob(pattern))):
        files.append(File(str(picture.relative_to(ROOT)), str(ROOT), config.site_dir, config.use_directory_urls))
    files.append(File.generated(config, "claims.md", content=claims_page(claims, "{}.md")))
    for readme in sorted(STUDIES.glob("*/README.md")):
        text = linked(readme.read_text(), readme.parent.name)
        if SENTENCES in text:
            text = text.replace(SENTENCES, sentences.page(claims)).replace(SETTINGS, recipe.page())
        files.append(File.generated(config, f"{readme.parent.name}.md", content=text))
    return files


def linked(text: str, study: str) -> str:
    """A README's links, from the top of the site: into docs/, and to pictures of the study."""
    return re.sub(r"\]\((?=results/|images/)", f"](hopscope_studies/{study}/", text.replace("](../../docs/", "]("))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """`<!-- every tasks -->` on a page becomes the reference of all tasks there are; so for any folder of variants.

    Studies are beside docs/, and below it in the site.
    """
    markdown = markdown.replace("](../hopscope_studies/", "](hopscope_studies/")
    return EVERY.sub(lambda found: reference(found[1]), markdown)


def reference(folder: str) -> str:
    """A line for each of a folder's variants, which mkdocstrings makes a reference of."""
    ours = {name: home for name, home in catalogue.homes(folder).items() if not home.outside}
    return "\n".join(f"::: {home.package}.{folder}.{name}" for name, home in sorted(ours.items()))

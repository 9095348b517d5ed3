"""Makes pages of the studies' READMEs: mkdocs calls it when it has collected the files of docs/.

Pictures are taken from where they are: `hopscope_studies/NAME/results/EXPERIMENT/figure.svg` has that address in the
site, too. Into "The paper, claim by claim" goes the table of the paper's sentences, with their verdicts. Every study's
page ends with its claims, which the site's search finds; all of them are a page of their own, `hopscope report --html`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hopscope.core import catalogue
from hopscope.experiments.counting import Claim, at_last, counted, is_control
from hopscope.experiments.overview import by_study, noted, notes_markdown, show, title_of
from hopscope.experiments.results import all_claims
from hopscope.explorer.building import Builder
from hopscope.explorer.page import export
from hopscope_studies.stacked_heads import recipe, sentences

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "hopscope_studies"
PICTURES = ("*/results/*/*.svg", "*/images/*")
OF_STUDY = re.compile(r"\[([^\]]+)\]\(\.\./hopscope_studies/(\w+)/README\.md(#[^)]*|)\)")
EVERY = re.compile(r"<!-- every ([a-z.]+) -->")
FRAMED = "claims-report.html"  # the page of all claims
#: Where studies stand in the navigation; one that is named nowhere stands under "Others".
GROUPS = {
    "Stacked heads": "stacked_heads plateau k_hop more_hops board two_hop census architectures kv_shift switch_head "
    "non_target_heads sparse_attention capacity mixers",
    "Induction heads": "induction_formation birth abrupt_learning composition causal_structure noisy_bigram "
    "false_demonstrations h_minus_one_heads multi_token repeated_data language_learning",
    "Real language models": "real_hop retrieval_heads recall_mechanisms overthinking episodic_memory attention_saes "
    "hypothesis_refinement induction_bench",
    "Memories and algorithms": "memories facts gradient_descent sequential_functions",
}
#: Where the tables of `hopscope report --paper` go.
SENTENCES, SETTINGS = "<!-- sentences: hopscope report --paper -->", "<!-- settings: hopscope report --paper -->"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation's "Studies" go on with the studies there are, in groups."""
    titles = {readme.parent.name: title_of(readme.parent) for readme in sorted(STUDIES.glob("*/README.md"))}
    groups = {group: [name for name in names.split() if name in titles] for group, names in GROUPS.items()}
    named = {name for names in groups.values() for name in names}
    if others := [name for name in titles if name not in named]:
        groups["Others"] = others
    [studies] = [entry["Studies"] for entry in config.nav or () if "Studies" in entry]
    studies += [{group: [{titles[name]: f"{name}.md"} for name in names]} for group, names in groups.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """`hopscope_studies/NAME/README.md` is the page `NAME.md`; its links are from there."""
    claims = all_claims(STUDIES)
    for picture in (picture for pattern in PICTURES for picture in sorted(STUDIES.glob(pattern))):
        files.append(File(str(picture.relative_to(ROOT)), str(ROOT), config.site_dir, config.use_directory_urls))
    files.append(File.generated(config, "claims.md", content=claims_page(claims)))
    files.append(File.generated(config, FRAMED, content=report()))
    of_study = {study.name: some for study, some in by_study(claims)}
    for readme in sorted(STUDIES.glob("*/README.md")):
        text = linked(readme.read_text(), readme.parent.name)
        if SENTENCES in text:
            text = text.replace(SENTENCES, sentences.page(claims)).replace(SETTINGS, recipe.page())
        text += claims_of(of_study.get(readme.parent.name, ()))
        files.append(File.generated(config, f"{readme.parent.name}.md", content=text))
    return files


def report() -> bytes:
    """What `hopscope report --html` writes."""
    with TemporaryDirectory() as folder:
        export(Builder([], results=STUDIES, opens="claims"), file := Path(folder) / FRAMED)
        return file.read_bytes()


def claims_page(claims: Sequence[Claim]) -> str:
    """The count of all claims, and the page in which one searches them."""
    return (
        f"---\nhide: [navigation, toc]\n---\n# All claims\n\n{counted(claims)}\n\n"
        f"Search them here, or [in a window of its own]({FRAMED}); the site's search finds them on the pages of their "
        "studies.\n\n"
        f'<iframe src="../{FRAMED}" title="All claims" style="height: 52rem"></iframe>\n'
    )


def claims_of(claims: Sequence[Claim]) -> str:
    """What of a study was judged, at the end of its page."""
    if not claims:
        return ""
    notes: list[str] = []
    lines = ["| verdict | claim | our number | spread |", "|---|---|---|---|"]
    for row in at_last(claims):
        low, high = (show(x) for x in row["spread"])
        kind = "control, " if is_control(row) else ""
        number = f"{show(row['number'])} | {low} to {high}"
        lines.append(
            f"| **{row['verdict']}** | {noted(row['sentence'], notes)} *({kind}{row['section']})* | {number} |"
        )
    table = "\n".join(lines) + "\n" + notes_markdown(notes)
    return f"\n\n## Every claim of this study\n\n{counted(claims)} ([how](contracts.md#results))\n\n{table}"


def linked(text: str, study: str) -> str:
    """A README's links, from the top of the site: into docs/, and to pictures of the study."""
    return re.sub(r"\]\((?=results/|images/)", f"](hopscope_studies/{study}/", text.replace("](../../docs/", "]("))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """`<!-- every tasks -->` on a page becomes the reference of all tasks there are; so for any folder of variants.

    Studies are beside docs/, and below it in the site. A link to a study that was removed is its words.
    """
    page_of = lambda found: f"[{found[1]}]({found[2]}.md{found[3]})" if has(found[2]) else found[1]  # noqa: E731
    markdown = OF_STUDY.sub(page_of, markdown)
    markdown = markdown.replace("](../hopscope_studies/", "](hopscope_studies/")
    return EVERY.sub(lambda found: reference(found[1]), markdown)


def has(study: str) -> bool:
    """Whether there is a study of this name."""
    return (STUDIES / study / "README.md").is_file()


def reference(folder: str) -> str:
    """A line for each of a folder's variants, which mkdocstrings makes a reference of."""
    ours = {name: home for name, home in catalogue.homes(folder).items() if not home.outside}
    return "\n".join(f"::: {home.package}.{folder}.{name}" for name, home in sorted(ours.items()))

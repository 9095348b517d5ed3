"""Writes the tables of studies, README.md's and hopscope_studies/README.md's, from the studies that there are."""

from __future__ import annotations

import re
from pathlib import Path

from hopscope.cli.commands.report import ALL_STUDIES, STUDY_PAGES
from hopscope.experiments.overview import studies_markdown
from hopscope.experiments.results import all_claims

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"(<!-- hopscope report --[a-z-]+ -->\n).*?(\n<!-- end of studies -->)", re.DOTALL)


def main() -> None:
    """Between the two comments of each page."""
    claims = all_claims(ROOT / "hopscope_studies")
    short = studies_markdown(claims, STUDY_PAGES, ALL_STUDIES)
    for page, table in {"README.md": short, ALL_STUDIES: studies_markdown(claims, "{}/README.md")}.items():
        text = (ROOT / page).read_text()
        (ROOT / page).write_text(TABLE.sub(lambda found, table=table: found[1] + table.strip() + found[2], text))


if __name__ == "__main__":
    main()

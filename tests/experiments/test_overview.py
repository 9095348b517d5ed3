"""Claims for readers: a row per study and the page of all claims, counted by hand."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from hopscope.core import catalogue
from hopscope.core.storage import Damaged
from hopscope.experiments.overview import claims_markdown, claims_page, found_by, studies_markdown
from hopscope.experiments.results import claims_in, room


def claim(experiment, verdict, number=0.25, id="first", scale="cpu", seeds=3):
    return {
        "id": id,
        "experiment": experiment,
        "sentence": f"{experiment} says.",
        "section": "7",
        "scale": scale,
        "number": number,
        "spread": [0.1, None],
        "n": 3,
        "seeds": list(range(seeds)),
        "verdict": verdict,
    }


CLAIMS = [
    claim("birth", "holds"),
    claim("fig4", "holds"),
    claim("fig6", "fails"),
    claim("fig4", "undecided", None, id="second"),
]


def test_a_row_per_study_counts_its_claims():
    header, _, *rows = studies_markdown(CLAIMS, "{}.md").splitlines()
    assert header == "| study | what was found | hold | fail | undecided | controls that hold |"
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [
        "[The paper, claim by claim](stacked_heads.md)",
        "[Birth of an induction head](birth.md)",
    ]
    assert [row.split(" | ")[2:] for row in rows] == [["1", "1", "1", "– |"], ["1", "0", "0", "– |"]]


def test_a_short_table_has_first_sentences_and_sums_up_the_rest():
    table = studies_markdown([*CLAIMS, claim("facts", "fails")], "{}.md", "all.md", most=2).splitlines()[2:]
    assert table == [
        "| [The paper, claim by claim](stacked_heads.md) | "
        "Trained as the paper says, Transformer D has the paper's circuit in two of three seeds. | 1 | 1 | 1 | – |",
        "| [2 more studies](all.md) | – | 1 | 1 | 0 | – |",
    ]
    assert len(studies_markdown(CLAIMS, "{}.md", "all.md", most=2).splitlines()) == 2 + 2  # all have a row


def test_all_scales_of_a_claim_are_shown_and_one_is_counted():
    several = [claim("birth", "holds", scale="long"), claim("birth", "fails"), claim("birth", "holds", id="by_control")]
    assert studies_markdown(several, "{}.md").splitlines()[-1].split(" | ")[2:] == ["1", "0", "0", "1 of 1 |"]
    page = claims_page(several, "{}.md")
    assert "1 claim: 1 holds. 1 control, counted apart: 1 holds. A claim that was judged at several scales" in page
    assert page.count("birth says.") == 3


def test_the_page_has_every_claim_once_below_its_study():
    page = claims_page(CLAIMS, "{}.md")
    assert "is at the end of the spread that decides" in page and "middle of" not in page
    assert page.startswith("# All claims\n") and "4 claims: 2 hold, 1 fails and 1 is undecided. " in page
    assert [line for line in page.splitlines() if line.startswith("##")] == [
        "## [The paper, claim by claim](stacked_heads.md)",
        "### `fig4`",
        "### `fig6`",
        "## [Birth of an induction head](birth.md)",
        "### `birth`",
    ]
    assert Counter(line.split(" | ")[0] for line in page.splitlines() if "says." in line) == {
        "| fig4 says.": 2,
        "| fig6 says.": 1,
        "| birth says.": 1,
    }
    assert "| fig4 says. | 7 | cpu | none | 0.1 to none | – | 3 | **undecided** |" in page


def test_a_prior_is_said_once_below_the_table():
    some = "A model learns. (With a prior: attention's bias by distance starts at 4 for distance 1 in L0.)"
    other = "Another learns. (With a prior: attention's bias by distance starts at 2 for distance 1 in L0.)"
    rows = [claim("birth", "holds") | {"sentence": sentence} for sentence in (some, "None has one.", other, some)]
    *table, first, second = [line for line in claims_markdown(rows).splitlines() if line][2:]
    assert [line.split(" | ")[0] for line in table] == [
        "| A model learns.<sup>1</sup>",
        "| None has one.",
        "| Another learns.<sup>2</sup>",
        "| A model learns.<sup>1</sup>",
    ]
    assert first == "<sup>1</sup> With a prior: attention's bias by distance starts at 4 for distance 1 in L0."
    assert second == "<sup>2</sup> With a prior: attention's bias by distance starts at 2 for distance 1 in L0."


@pytest.mark.parametrize("study", catalogue.studies(), ids=lambda root: root.path.name)
def test_every_study_says_what_was_found(study):
    assert found_by(study.path).endswith("."), "in its __init__'s docstring: a paragraph 'Found: …'"


def test_a_study_that_does_not_say_so_has_a_dash(tmp_path):
    (tmp_path / "__init__.py").write_text('"""About something.\n\nNothing else."""\n')
    assert found_by(tmp_path) == "–"


@pytest.mark.parametrize("change", [{"seeds": 3.7}, {"seeds": ["0"]}, {"n": "<script>"}], ids=repr)
def test_a_claim_of_another_shape_is_refused_where_it_is_read(change, tmp_path):
    """Of an older folder, which has no manifest to be held against."""
    folder = tmp_path / "fig2"
    folder.mkdir()
    rows = json.loads((room("fig2") / "fig2" / "claims.json").read_text())
    (folder / "claims.json").write_text(json.dumps([rows[0] | change]))
    with pytest.raises(Damaged, match="not a list of claims"):
        claims_in(folder / "claims.json")

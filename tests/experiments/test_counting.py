"""One way to count claims: by hand on few, by another rule on all, and the same in every place that says a number."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hopscope.cli import main
from hopscope.cli.commands.report import STUDY_PAGES
from hopscope.experiments.counting import counted, is_control
from hopscope.experiments.overview import claims_page
from hopscope.experiments.results import all_claims
from hopscope.explorer.building import Builder

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "hopscope_studies"
SCALES = ("quick", "cpu", "long", "paper")  # from the smallest


def claim(id="a", verdict="holds", scale="cpu", seeds=3, **more):
    row = {"experiment": "fig4", "id": id, "section": "7", "sentence": "So it is.", "verdict": verdict, "scale": scale}
    return {**row, "seeds": list(range(seeds)), "n": seeds, **more}


def test_each_claim_counts_once_as_the_scale_with_the_most_seeds_says():
    twice = [claim(verdict="holds", scale="long"), claim(verdict="fails", scale="cpu")]
    assert dict(counted(twice).claims) == {"holds": 1}  # of equals the largest
    assert dict(counted([claim(verdict="fails", seeds=5), claim(scale="paper")]).claims) == {"fails": 1}
    nobody = claim(verdict="undecided", seeds=5, n=0)  # its seeds are those among which no run can judge it
    assert dict(counted([nobody, claim(verdict="fails", scale="paper")]).claims) == {"fails": 1}
    apart = [claim(), claim(experiment="fig5"), claim("b", "undecided")]
    assert str(counted(apart)) == "3 claims: 2 hold and 1 is undecided."


def test_controls_are_apart():
    rows = [claim(), claim("b", "fails", section="control (ours)"), claim("c", sentence="Control: it guesses.")]
    assert str(counted(rows)) == "1 claim: 1 holds. 2 controls, counted apart: 1 holds and 1 fails."
    assert str(counted(rows[1:2])) == "1 control, counted apart: 1 fails." and str(counted([])) == "No claims."


@pytest.mark.parametrize(
    ("words", "so"),
    [
        ({"section": "control"}, True),
        ({"sentence": "Positive control: it does."}, True),
        ({"sentence": "Before training it guesses (control)."}, True),
        ({"id": "control_has_no_phase"}, True),
        ({"sentence": "Uncontrolled growth, which nobody controlled."}, False),
        ({}, False),
    ],
)
def test_a_control_says_so(words, so):
    assert is_control(claim(**words)) is so


def test_what_is_asked_of_untrained_models_and_of_ones_by_hand_is_a_control():
    """Whoever adds one calls it so: else it would be counted among the findings."""
    asked = [row for row in all_claims(STUDIES) if re.match("untrained_|by_hand", row["id"])]
    assert len(asked) > 30 and not [f"{row['experiment']}.{row['id']}" for row in asked if not is_control(row)]


def by_another_rule() -> dict[tuple[bool, str], int]:
    """The files themselves, counted without any code of ours."""
    last: dict[tuple[str, str], tuple[int, int, dict]] = {}
    for file in STUDIES.glob("*/results/*/claims.json"):
        for row in json.loads(file.read_text()):
            seeds = len(row["seeds"]) if row["n"] > 0 else 0
            key, weight = (file.parent.name, row["id"]), (seeds, SCALES.index(row["scale"]))
            if key not in last or weight > last[key][:2]:
                last[key] = (*weight, row)
    found: dict[tuple[bool, str], int] = {}
    for _, _, row in last.values():
        words = re.split(r"[^a-z]+", f"{row['id']} {row['section']} {row['sentence']}".lower())
        key = ("control" in words or "controls" in words, row["verdict"])
        found[key] = found.get(key, 0) + 1
    return found


@pytest.fixture(scope="module")
def told() -> str:
    """The count of all committed claims in a sentence, which agrees with the files."""
    tally = counted(all_claims(STUDIES))
    both = {(False, v): n for v, n in tally.claims.items()} | {(True, v): n for v, n in tally.controls.items()}
    assert both == by_another_rule()
    return str(tally)


def test_command_report_and_page_say_the_same(told, tmp_path, capsys):
    assert main(["report", "--results", str(STUDIES)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == told
    assert told in claims_page(all_claims(STUDIES), STUDY_PAGES)
    manifest = Builder([], results=STUDIES).bundle.manifest
    assert manifest["counts"]["told"] == told
    counting = [row for row in manifest["claims"] if row["counts"]]
    assert len({(row["experiment"], row["id"]) for row in counting}) == len(counting)
    shown = {
        (kind, v): sum(row["control"] == kind and row["verdict"] == v for row in counting)
        for kind, v in by_another_rule()
    }
    assert shown == by_another_rule()


def test_the_readmes_rows_add_up_to_it(told):
    rows = [re.split(r" \| ", line.strip("| ")) for line in (ROOT / "README.md").read_text().splitlines()]
    rows = [row for row in rows if row[0].startswith("[") and "hopscope_studies/" in row[0] and len(row) == 6]
    columns = list(zip(*(row[2:] for row in rows), strict=True))
    held, failed, undecided = (sum(map(int, column)) for column in columns[:3])
    controls = [list(map(int, cell.split(" of "))) for cell in columns[3] if cell != "–"]
    found = by_another_rule()
    assert (held, failed, undecided) == tuple(found[False, verdict] for verdict in ("holds", "fails", "undecided"))
    assert sum(one[0] for one in controls) == found[True, "holds"]
    assert sum(one[1] for one in controls) == sum(n for (kind, _), n in found.items() if kind)


def test_the_documentation_says_it(told):
    """Its page of claims says the very sentence (`docs/study_pages.py`), and no other page a number of all claims."""
    import sys

    sys.path.insert(0, str(ROOT / "docs"))
    pages = pytest.importorskip("study_pages")
    assert told in pages.claims_page(all_claims(STUDIES))
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        assert not re.search(r"\b[5-9]\d\d claims\b", page.read_text()), page

"""`hopscope report --html`: the explorer's view of claims as one file, complete, escaped, and without a request."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopscope.cli import main
from hopscope.experiments.results import all_claims
from tests.explorer.chromium import Opened, chromium
from tests.small_runs import trained

RESULTS = Path(__file__).parents[2] / "hopscope_studies"
ELEMENT = re.compile(r'<script type="([^"]*)" id="([^"]*)">(.*?)</script>', re.DOTALL)
CLAIM = {
    "id": "a",
    "section": "7.2",
    "sentence": "x < y & <script>alert(1)</script>",
    "scale": "cpu",
    "number": None,
    "spread": [0.25, None],
    "n": 3,
    "seeds": [0],
    "threshold": "> 0",
    "verdict": "fails",
    "runs": ["r"],
    "version": "v1",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", "--results", str(RESULTS), "--html", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def elements(page: Path) -> dict[str, tuple[str, str]]:
    """What a page holds: by the element's id its type and its text."""
    return {id: (kind, text) for kind, id, text in ELEMENT.findall(page.read_text(encoding="utf-8"))}


def manifest_in(page: Path) -> dict[str, Any]:
    return json.loads(elements(page)["bundle"][1])


def test_every_claim_figure_and_table_is_on_it_in_five_megabytes_and_figures(page):
    held, manifest = elements(page), manifest_in(page)
    assert [(c["experiment"], c["id"], c["scale"]) for c in manifest["claims"]] == [
        (c["experiment"], c["id"], c["scale"]) for c in all_claims(RESULTS)
    ]
    assert manifest["opens"] == "claims" and manifest["runs"] == []
    figures = 0
    for folder in (path.parent for path in RESULTS.glob("*/results/*/claims.json")):
        for kind, file in (("figure", "figure.svg"), ("table", "table.csv")):
            how, coded = held[f"block:claims/{folder.name}/{kind}"]
            data = base64.b64decode(coded)
            assert (gzip.decompress(data) if "gzip" in how else data) == (folder / file).read_bytes()
            figures += len(coded) if kind == "figure" else 0
    assert page.stat().st_size - figures < 5e6


def test_a_run_comes_with_its_circuit_and_its_model(tmp_path, monkeypatch):
    monkeypatch.setattr("hopscope.explorer.part.Part.wants_circuit", False)
    run = trained(tmp_path / "run")
    where = ["--results", str(RESULTS / "k_hop"), "--html", str(tmp_path / "page.html")]
    assert main(["report", *where, "--run", str(run.path)]) == 0
    manifest = manifest_in(tmp_path / "page.html")
    assert [one["identity"] for one in manifest["runs"]] == [run.config.identity]
    assert manifest["opens"] == "claims" and manifest["runs"][0]["checkpoints"][-1]["weights"]


def test_what_cannot_be_shown_is_said(tmp_path, capsys):
    where = ["--results", str(RESULTS)]
    assert main(["report", *where, "--html", str(tmp_path / "p.html"), "--run", str(tmp_path)]) == 2
    assert f"{tmp_path} is not a run folder" in capsys.readouterr().err
    assert main(["report", *where, "--run", str(tmp_path)]) == 2
    assert "--html FILE" in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()


# In a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_it_opens_on_claims_and_asks_nobody(page, browser):
    opened = Opened(browser, page.as_uri())
    manifest = manifest_in(page)
    assert opened.page.get_by_text(manifest["counts"]["told"], exact=True).is_visible()
    assert opened.page.locator("nav .tab").all_text_contents() == ["Claims"]
    assert opened.page.locator(".study").count() == len(manifest["counts"]["studies"])
    assert opened.page.locator(".claim").count() == 0  # folded
    assert (
        not opened.said and {address for address in opened.asked if not address.startswith(("file:", "blob:"))} == set()
    )
    opened.close()


@pytest.mark.heavy
def test_claims_are_found_by_study_verdict_scale_and_words(page, browser):
    """Each filter shows as many rows as the files have, counted here; a figure and a table open."""
    rows = manifest_in(page)["claims"]
    asked = {
        "scale=paper": [row for row in rows if row["scale"] == "paper"],
        "verdict=undecided": [row for row in rows if row["counts"] and row["verdict"] == "undecided"],
        f"study={rows[0]['study']}": [row for row in rows if row["counts"] and row["study"] == rows[0]["study"]],
        "find=curriculum%20last": [
            row for row in rows if row["counts"] and all(word in json.dumps(row) for word in ("curriculum", "last"))
        ],
    }
    opened = Opened(browser, page.as_uri())
    for state, wanted in asked.items():
        opened.go(f"view=claims&{state}")
        shown = opened.page.locator(".claim").count()
        assert shown == len(wanted) if "find" not in state else 0 < shown <= len(wanted), state
        assert opened.page.locator(".filters [role=status]").inner_text() == f"{shown} shown"
    opened.go("view=claims&claim=fig6.hops_in_order@cpu")  # whose last word is of another scale
    opened.page.locator("img.figure").wait_for()
    assert opened.page.locator("img.figure").evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
    opened.page.get_by_text("Table, ").click()
    assert opened.page.locator("td").first.is_visible()
    opened.page.get_by_role("button", name="paper holds").click()
    assert "claim=fig6.hops_in_order@paper" in opened.page.url.replace("%40", "@")
    assert opened.said == []
    opened.close()


HOSTILE = """</title></pre><script>document.title = "HACKED"</script><img src=x onerror='document.title="HACKED"'>"""


def hostile_results(folder: Path) -> Path:
    """Results in which every text, and every number, wants to be a script."""
    (results := folder / "results" / "fig4").mkdir(parents=True)
    row = {name: HOSTILE if isinstance(value, str) else value for name, value in CLAIM.items()}
    claim = row | {
        "verdict": "holds",
        "scale": "cpu",
        "number": HOSTILE,
        "spread": [HOSTILE, HOSTILE],
        "runs": [HOSTILE],
    }
    (results / "claims.json").write_text(json.dumps([claim]))
    (results / "table.csv").write_text(f"a,b\n{HOSTILE},{HOSTILE}\n")
    (results / "figure.svg").write_text(
        f"<svg xmlns='http://www.w3.org/2000/svg'><script>parent.document.title='HACKED'</script>{HOSTILE}</svg>"
    )
    return folder / "results"


@pytest.mark.heavy
def test_no_script_of_a_hostile_folder_runs(tmp_path, browser, capsys):
    file = tmp_path / "page.html"
    assert main(["report", "--results", str(hostile_results(tmp_path)), "--html", str(file)]) == 0, capsys.readouterr()
    opened = Opened(browser, file.as_uri())
    opened.page.locator(".study > summary").click()
    opened.page.locator(".claim > summary").click()
    opened.page.get_by_text("Table, ").click()
    opened.page.wait_for_timeout(500)
    assert opened.page.title() == "hopscope: claims" and opened.page.locator("main img:not(.figure)").count() == 0
    assert HOSTILE in opened.page.locator(".claim").inner_text()
    opened.close()


@pytest.mark.heavy
def test_the_page_shows_neither_backticks_nor_paths_from_the_root(page, browser):
    """Nor in what is folded: a search for the letter e opens every study."""
    opened = Opened(browser, f"{page.as_uri()}#view=claims&find=e")
    opened.page.locator(".claim").first.wait_for()
    text = opened.page.locator("main").inner_text()
    assert len(text) > 50_000 and "`" not in text and not re.search(r"(?<![\w./<-])/(home|tmp|work|root|Users)/", text)
    assert opened.page.locator(".sentence code").count() > 0
    opened.close()

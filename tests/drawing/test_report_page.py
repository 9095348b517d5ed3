"""The page of all claims and figures: complete, escaped, and without a request to anywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from hopscope.cli import main
from hopscope.drawing.report_page import Opened, Section, prose, report_page
from hopscope.experiments.results import all_claims

RESULTS = Path(__file__).parents[2] / "hopscope_studies"
FIG4 = RESULTS / "stacked_heads" / "results" / "fig4"
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


class Reader(HTMLParser):
    """Tags, and the page's text by tag."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.cells, self.inside = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data):
        if "td" in self.inside:  # also within code
            self.cells[-1] += data

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", "--results", str(RESULTS), "--html", str(file)]) == 0
    return file


def test_every_claim_and_every_figure_is_on_it(page):
    reader = Reader(page.read_text())
    claims = sorted(all_claims(RESULTS), key=lambda row: row["experiment"])
    sentences = [row["sentence"].replace("`", "") for row in claims]
    assert [cell for cell in reader.cells if cell in {*sentences}] == sentences
    figures = [attrs["src"] for tag, attrs in reader.tags if tag == "img"]
    assert len(figures) == len(list(RESULTS.glob("*/results/*/figure.svg")))
    assert all(source.startswith("data:image/svg+xml;base64,") for source in figures)


def test_it_asks_nobody_for_anything(page):
    """No address but in the page, and a policy that forbids the rest."""
    reader = Reader(page.read_text())
    for tag, attrs in reader.tags:
        for name in ("src", "href", "action", "data", "poster"):
            assert re.match(r"data:|#|$", attrs.get(name) or ""), (tag, attrs)
        assert tag not in ("script", "object", "embed", "base", "form")
    [policy] = [attrs["content"] for tag, attrs in reader.tags if attrs.get("http-equiv")]
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"@import|url\(", page.read_text())


def test_text_never_becomes_markup(tmp_path):
    circuit = {"verdict": "<b>", "reason": "&", "loss": {"model": 0.5}, "paths": [], "protocol": {"a": "</pre>"}}
    made = report_page([Section("<i>", "Asks <u>.\n\nMore.", tmp_path, [CLAIM])], [Opened("<s>", circuit, tmp_path)])
    reader = Reader(made)
    assert not {"script", "i", "u", "s"} & {tag for tag, _ in reader.tags}
    assert CLAIM["sentence"] in reader.cells and "0.25 to none" in reader.cells


def test_a_circuit_is_shown_with_its_losses_and_its_view(tmp_path, capsys):
    path = {"layer": 1, "head": 0, "query": "query", "key": "value[1]", "chain": "other"}
    found = {"strength": 0.75, "removal_loss": 0.9, "hypothesis": "role → value[1]"}
    circuit = {"verdict": "circuit", "reason": "it fits", "loss": {"model": 0.01, "null": 0.9}, "protocol": {}}
    (tmp_path / "pictures").mkdir()
    (tmp_path / "circuit.json").write_text(json.dumps(circuit | {"paths": [path | found]}))
    (tmp_path / "pictures" / "attention.html").write_text('<p title="a">view</p>')
    where = ["--results", str(RESULTS), "--html", str(tmp_path / "page.html")]
    assert main(["report", *where, "--run", str(tmp_path)]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "L1H0 query-&gt;value[1] (other)" in page and "0.75" in page
    assert f"hopscope explore {tmp_path.name}<" in page and str(tmp_path) not in page
    assert "<a href" not in page.partition("Circuit of")[2]
    [frame] = [attrs for tag, attrs in Reader(page).tags if tag == "iframe"]
    assert frame["srcdoc"] == '<p title="a">view</p>' and frame["sandbox"] == "allow-scripts"


def test_a_circuit_links_to_the_page_in_which_its_model_runs(tmp_path):
    """Where the page was exported into the run's folder, relative to the report."""
    run = tmp_path / "my runs" / "a"
    run.mkdir(parents=True)
    (run / "explorer.html").write_text("")
    circuit = {"verdict": "none", "reason": "", "loss": {}, "paths": [], "protocol": {}}
    (run / "circuit.json").write_text(json.dumps(circuit))
    (tmp_path / "pages").mkdir()
    where = ["--results", str(RESULTS), "--html", str(tmp_path / "pages" / "page.html")]
    assert main(["report", *where, "--run", str(run)]) == 0
    links = [attrs["href"] for tag, attrs in Reader((tmp_path / "pages" / "page.html").read_text()).tags if tag == "a"]
    assert "../my%20runs/a/explorer.html#view=circuit" in links


def test_claims_link_to_the_explorers_page_on_the_same_results(tmp_path):
    """Where it was exported into their folder, each to its place there; what no page holds is told as a command."""
    shutil.copytree(FIG4, tmp_path / "my results" / "fig4")
    where = ["--results", str(tmp_path / "my results"), "--html", str(tmp_path / "page.html")]
    assert main(["report", *where]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "hopscope explore --results &#39;my results&#39;" in page and str(tmp_path) not in page
    assert not [attrs for tag, attrs in Reader(page).tags if tag == "a" and "explorer.html" in attrs["href"]]
    exported = tmp_path / "my results" / "explorer.html"
    assert main(["explore", "--results", str(tmp_path / "my results"), "--export", str(exported)]) == 0
    assert main(["report", *where]) == 0
    links = [attrs["href"] for tag, attrs in Reader((tmp_path / "page.html").read_text()).tags if tag == "a"]
    claims = json.loads((FIG4 / "claims.json").read_text())
    places = [f"fig4.{claim['id']}@{claim['scale']}" for claim in claims]
    assert places and all(
        f"my%20results/explorer.html#view=claims&claim={quote(place, safe='')}" in links for place in places
    )


HOSTILE = """</title></pre><script>document.title = "HACKED"</script><img src=x onerror='document.title="HACKED"'>"""


def hostile_folders(folder: Path) -> tuple[Path, Path]:
    """Results and a run in which every text, and every number, wants to be a script."""
    (results := folder / "results" / "fig4").mkdir(parents=True)
    row = {name: HOSTILE if isinstance(value, str) else value for name, value in CLAIM.items()}
    claim = row | {"verdict": "holds", "number": HOSTILE, "spread": [HOSTILE, HOSTILE], "runs": [HOSTILE]}
    (results / "claims.json").write_text(json.dumps([claim]))
    (results / "table.csv").write_text(f"a,b\n{HOSTILE},{HOSTILE}\n")
    (results / "figure.svg").write_text(
        f"<svg xmlns='http://www.w3.org/2000/svg'><script>parent.document.title='HACKED'</script>{HOSTILE}</svg>"
    )
    path = dict.fromkeys(("layer", "head", "query", "key", "chain", "strength", "removal_loss", "hypothesis"), HOSTILE)
    circuit = {"verdict": HOSTILE, "reason": HOSTILE, "loss": {HOSTILE: HOSTILE}, "paths": [path], "protocol": HOSTILE}
    (run := folder / f"run {HOSTILE.replace('/', '')}").mkdir()
    (run / "pictures").mkdir()
    (run / "circuit.json").write_text(json.dumps(circuit))
    (run / "pictures" / "attention.html").write_text("<script>top.document.title='HACKED'; console.log('RAN')</script>")
    (run / "pictures" / "circuit.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    return folder / "results", run


def test_a_hostile_results_folder_is_text_alone(tmp_path, capsys):
    results, run = hostile_folders(tmp_path)
    file = tmp_path / "page.html"
    assert main(["report", "--results", str(results), "--html", str(file), "--run", str(run)]) == 0, capsys.readouterr()
    page = file.read_text()
    reader = Reader(page)
    assert not {"script", "object", "embed"} & {tag for tag, _ in reader.tags}
    assert not [name for _, attrs in reader.tags for name in attrs if name.startswith("on")]
    assert all(attrs["src"].startswith("data:image/svg+xml") for tag, attrs in reader.tags if tag == "img")
    [policy] = [attrs["content"] for tag, attrs in reader.tags if attrs.get("http-equiv")]
    assert "unsafe" not in policy


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed; run apt install chromium")
def test_in_a_browser_no_script_of_a_hostile_folder_runs_and_ours_does(tmp_path):
    results, run = hostile_folders(tmp_path)
    file = tmp_path / "page.html"
    assert main(["report", "--results", str(results), "--html", str(file), "--run", str(run)]) == 0
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=2000",
        "--enable-logging=stderr",
    ]
    done = subprocess.run(
        ["chromium", *options, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120
    )
    assert "<title>hopscope: claims and figures</title>" in done.stdout and "RAN" not in done.stderr
    assert "HACKED</title>" not in done.stdout


def test_what_cannot_be_shown_is_said(tmp_path, capsys):
    where = ["--results", str(RESULTS)]
    assert main(["report", *where, "--html", str(tmp_path / "p.html"), "--run", str(tmp_path)]) == 2
    assert "'hopscope circuit" in capsys.readouterr().err
    assert main(["report", *where, "--run", str(tmp_path)]) == 2
    assert "--html FILE" in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed; run apt install chromium")
def test_a_browser_opens_it_from_disk_without_complaint(page, tmp_path):
    """Beside it a page that does ask and complain, so that silence means something."""
    bad = tmp_path / "bad.html"
    bad.write_text('<img src="https://example.org/x.png"><script>nosuch()</script>')
    assert "example.org" in (seen := opened(bad, tmp_path))[0] and "CONSOLE" in seen[1]
    hosts, said = opened(page, tmp_path)
    assert not hosts and "CONSOLE" not in said


def opened(page: Path, folder: Path) -> tuple[set[str], str]:
    """The hosts that a page asks for, but for the browser's own errands, and what the browser says."""
    log, shot = folder / "net.json", folder / "page.png"
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,2000", "--enable-logging=stderr"]
    command = ["chromium", *options, f"--screenshot={shot}", f"--log-net-log={log}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert shot.stat().st_size > 0
    hosts = set(re.findall(r'"url":"https?://([^/"]+)', log.read_text()))
    return {host for host in hosts if not re.search(r"(google|googleapis|gvt1)\.com$", host)}, done.stderr


def test_backticks_are_code_and_the_rest_is_escaped():
    assert prose("a `b<c>` d & ``e``") == "a <code>b&lt;c&gt;</code> d &amp; <code>e</code>"
    assert prose("one\n\ntwo ` three") == "one</p><p>two ` three"


def test_the_page_shows_neither_backticks_nor_paths_from_the_root(page):
    text = re.sub(r"<pre>.*?</pre>", "", page.read_text(), flags=re.DOTALL)
    body = re.sub(r'src="[^"]*"|href="[^"]*"', "", text.partition("<body>")[2])
    assert "`" not in body and not re.search(r"(?<![\w./<-])/(home|tmp|work|root|Users)/", body)

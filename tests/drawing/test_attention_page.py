"""The attention page is one file that needs nothing else, and no name in it can become markup."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from hopscope.circuits.circuit import Found
from hopscope.circuits.units import Row
from hopscope.drawing.attention_page import attention_page
from hopscope.drawing.views import RowView, Views
from hopscope.problem.paths import Path

EVIL = "</script><script>window.broken=1</script><img src=x onerror=broken()> \\u003c & \" ' \u2028 @DATA@"
VOID = {"meta", "link", "br", "img", "input"}


def views(layers=2, heads=2, n=5, instances=2, causal=True, **more) -> Views:
    random = torch.Generator().manual_seed(0)
    sees = torch.ones(n, n).tril() if causal else torch.ones(n, n)
    actual = torch.rand(layers, instances, heads, n, n, generator=random) * sees
    by_hand = (sees / sees.sum(-1, keepdim=True)).expand_as(actual)
    found = Found(Path.parse("L1H0 query->value[1]"), 0.991, "after the same symbol", 5.0, 0.86, 1.2)
    return Views(
        symbols=[[f"s{i}" for i in range(n)]] * instances,
        roles=[["a key[1]", "a value[1]", *[""] * (n - 3), "a query"]] * instances,
        actual=actual / actual.sum(-1, keepdim=True),
        by_hand=by_hand,
        causal=causal,
        rows=[RowView(Row(1, 0, "query"), "after the same symbol", 0.0045)],
        paths=[found],
        cells=[[[(n - 1, 1)]] * instances],
        losses={"model": 0.0051, "null": float("nan")},
        **more,
    )


class Reader(HTMLParser):
    """Tags, attributes and what is in scripts; and whether tags close in the order in which they open."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.scripts, self.open = [], [], [], []
        self.title = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += text
        if self.open and self.open[-1] == "title":
            self.title += text


def data(page: str):
    return json.loads(Reader(page).scripts[0])


def unpacked(values, name, layer, instance, head):
    flat = values["patterns"][values[name][layer][instance][head]]
    n = len(values["instances"][instance]["symbols"])
    rows = torch.zeros(n, n)
    for q in range(n):
        width = q + 1 if values["causal"] else n
        start = q * (q + 1) // 2 if values["causal"] else q * n
        rows[q, :width] = torch.tensor(flat[start : start + width]) / values["unit"]
    return rows


@pytest.mark.parametrize("causal", [True, False])
def test_the_page_holds_the_patterns(causal):
    given = views(causal=causal)
    values = data(attention_page(given))
    for layer in range(2):
        for instance in range(2):
            for head in range(2):
                for name, patterns in (("actual", given.actual), ("byHand", given.by_hand)):
                    shown = unpacked(values, name, layer, instance, head)
                    assert torch.allclose(shown, patterns[layer, instance, head], atol=6e-4)
    assert len(values["patterns"]) == 9  # all those by hand are one


def test_the_page_holds_rows_paths_and_losses():
    values = data(attention_page(views(words="In words.")))
    assert values["rows"] == [{"layer": 1, "head": 0, "role": "query", "rule": "after the same symbol", "loss": 0.0045}]
    assert values["paths"][0]["name"] == "L1H0 query->value[1]"
    assert values["paths"][0]["cells"] == [[[4, 1]], [[4, 1]]]
    assert values["losses"] == {"model": 0.0051, "null": None}
    assert values["words"] == "In words."


def test_the_page_is_well_formed_and_fetches_nothing():
    page = attention_page(views(), "A page")
    read = Reader(page)
    assert read.open == [] and read.title == "A page"
    assert read.tags.count("script") == 2 and "iframe" not in read.tags
    sources = [value for _, name, value in read.attributes if name in ("src", "href", "action", "srcset")]
    assert sources == ["data:,"]
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(|@import|url\(|innerHTML|eval\(", page)
    policy = next(value for tag, name, value in read.attributes if tag == "meta" and "default-src" in (value or ""))
    assert "default-src 'none'" in policy
    assert not any(name.startswith("on") for _, name, _ in read.attributes)
    assert "prefers-color-scheme: dark" in page


def test_names_cannot_become_markup():
    plain = Reader(attention_page(views()))
    given = views(words=EVIL)
    given = replace(
        given,
        symbols=[[EVIL] * 5] * 2,
        roles=[[EVIL] * 5] * 2,
        rows=[RowView(Row(1, 0, EVIL), EVIL, 0.1)],
        paths=[replace(given.paths[0], path=Path(1, 0, EVIL, EVIL), hypothesis=EVIL)],
        losses={EVIL: 0.1},
    )
    page = attention_page(given, EVIL)
    read = Reader(page)
    assert read.tags == plain.tags
    assert read.title == EVIL and html.escape(EVIL) in page
    values = data(page)
    assert values["instances"][0]["symbols"][0] == EVIL
    assert values["rows"][0]["role"] == EVIL


def test_a_large_model_gives_a_small_file():
    """12 layers, 28 positions, 4 instances: less than 3 MB, and less than 1."""
    assert len(attention_page(views(12, 1, 28, 4)).encode()) < 1e6
    assert len(attention_page(views(12, 4, 28, 4, causal=False)).encode()) < 3e6


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed; run apt install nodejs")
def test_the_script_parses(tmp_path):
    file = tmp_path / "page.js"
    file.write_text(Reader(attention_page(views())).scripts[1])
    subprocess.run(["node", "--check", str(file)], check=True, capture_output=True)


PROBE = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const said = [], note = () => said.push(document.getElementById("told").textContent);
  const maps = document.querySelectorAll("#maps canvas"), press = (key) =>
    maps[0].dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true, bubbles: true }));
  note();
  press("ArrowUp"); note();
  for (let i = 0; i < 9; i++) press("ArrowRight");
  note();
  const box = maps[2].getBoundingClientRect();
  maps[2].dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + 34 + 1, clientY: box.top + 34 + 1 }));
  note();
  document.querySelectorAll("#heads button")[0].click(); note();
  const select = document.getElementById("instance");
  select.value = "1";
  select.dispatchEvent(new Event("change")); note();
  location.hash = "#p0";
  setTimeout(() => {
    note();
    said.push(document.getElementById("head").textContent);
    said.push(document.querySelectorAll("[aria-current=true]").length + " current");
    const result = document.createElement("pre");
    result.id = "result";
    result.textContent = JSON.stringify({ said, errors: window.errors, broken: window.broken || 0 });
    document.body.append(result);
  }, 50);
}, 50));
</script>
"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed; run apt install chromium")
def test_the_page_works_in_a_browser(tmp_path):
    """Arrow keys, pointer, heads, instances and links to paths, with names that try to break out; without an error."""
    given = replace(views(), symbols=[[f"{i}{EVIL}" for i in range(5)]] * 2)
    page = re.sub(r"script-src '[^;]*'", "script-src 'unsafe-inline'", attention_page(given))  # for the probe
    page = page.replace("<head>", "<head><script>errors=[];onerror=m=>errors.push(m)</script>")
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", PROBE + "</body>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    command += ["--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "CONSOLE" not in done.stderr
    result = json.loads(html.unescape(re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.S)[1]))
    assert result["errors"] == [] and result["broken"] == 0
    nothing, first, right, pointed, head, instance, path, title, current = result["said"]
    assert nothing == head == instance == "No entry chosen."
    assert first.startswith(f"4 4{EVIL} [a query]  attends to  0 0")
    assert right.startswith("4 4") and "attends to  4 4" in right
    assert pointed.startswith("0 0") and "Actual 1.000    By hand 1.000    Actual − by hand 0.000" in pointed
    assert path.startswith("4 4") and "attends to  1 1" in path and "[a value[1]]" in path
    assert (title, current) == ("L1H0", "1 current")

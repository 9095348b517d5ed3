"""The page as one file: that it holds all it needs, fetches nothing, and that no name in it is more than a name."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hopscope import BadInput
from hopscope.explorer import page
from hopscope.explorer.building import Builder
from hopscope.explorer.bundle import Block

HOSTILE = "</script><script>alert(1)</script><!-- \u202e ]]> &lt; \\u003c" + "x" * 10_000


class Parsed(HTMLParser):
    """Elements with their attributes and text, as a browser splits them: a script ends at the first end tag."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def handle_endtag(self, tag):
        self.found.append((f"/{tag}", {}, ""))

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


@pytest.fixture
def builder(small) -> Builder:
    return Builder([small.path], which="last")


@pytest.fixture
def parsed(builder, tmp_path) -> Parsed:
    page.export(builder, tmp_path / "page.html")
    return Parsed((tmp_path / "page.html").read_text(encoding="utf-8"))


def scripts(parsed: Parsed) -> list[str]:
    """What is run."""
    return [text for attributes, text in parsed.named("script") if "type" not in attributes]


def test_a_file_holds_the_bundle(builder, parsed):
    data = {attributes["id"]: text for attributes, text in parsed.named("script") if "id" in attributes}
    kinds = {attributes["id"]: attributes["type"] for attributes, _ in parsed.named("script") if "id" in attributes}
    manifest = json.loads(data["bundle"])
    assert manifest == builder.bundle.manifest and manifest["progress"]["complete"]
    assert set(data) == {"bundle", *(f"block:{name}" for name in manifest["blocks"])}
    for name, entry in manifest["blocks"].items():
        found = base64.b64decode(data[f"block:{name}"], validate=True)
        found = gzip.decompress(found) if kinds[f"block:{name}"] == "application/gzip;base64" else found
        assert Block.from_entry(found, entry).entry() == entry


def test_its_policy_allows_its_own_script_and_style_alone(parsed):
    (policy,) = [a["content"] for a, _ in parsed.named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(part.split(" ", 1) for part in policy.split("; "))
    ((_, style),), (script,) = parsed.named("style"), scripts(parsed)
    for kind, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules[kind].split()
    assert rules["script-src"].count("'") == 4 and "'wasm-unsafe-eval'" in rules["script-src"]
    assert rules["default-src"] == "'none'" and rules["worker-src"] == "blob:" and "connect-src" not in rules
    assert "unsafe-inline" not in policy and "unsafe-eval'" not in policy.replace("'wasm-unsafe-eval'", "")


def test_nothing_is_fetched(parsed):
    for tag, attributes, _ in parsed.found:
        assert not attributes.keys() & {"src", "srcset", "action", "ping"}, tag
        assert attributes.get("href", "data:,") == "data:,"
    assert not {"iframe", "object", "embed", "base", "form"} & {tag for tag, _, _ in parsed.found}


@pytest.mark.parametrize("name", [HOSTILE, "</title><script>alert(1)</script>", 'x" onload="alert(1)', "\u2028\u2029"])
def test_a_hostile_name_is_a_name(builder, tmp_path, name):
    """Of the run, a symbol, a warning and a claim: the file has the same elements, and gives the name back."""
    page.export(builder, tmp_path / "plain.html")
    entry = builder.parts[0].entry
    entry["name"] = name
    entry["warnings"].append(name)
    entry["batch"]["instances"][0]["symbols"][0] = name
    page.export(builder, tmp_path / "hostile.html")
    plain, hostile = (Parsed((tmp_path / f"{word}.html").read_text("utf-8")) for word in ("plain", "hostile"))
    assert [tag for tag, _, _ in plain.found] == [tag for tag, _, _ in hostile.found]
    assert scripts(plain) == scripts(hostile)
    manifest = json.loads(next(text for a, text in hostile.named("script") if a.get("id") == "bundle"))
    (run,) = manifest["runs"]
    assert run["name"] == name == run["warnings"][-1] == run["batch"]["instances"][0]["symbols"][0]
    ((_, title),) = hostile.named("title")
    assert title.startswith(name)


def test_a_script_that_names_an_end_tag_is_kept_whole():
    script = page.inline('const end = "</script>", open = "<!--"; // </SCRIPT is not ours')
    assert "</script" not in script and "<!--" not in script
    assert re.sub(r"<\\([/!])", r"<\1", script) == 'const end = "</script>", open = "<!--"; // </SCRIPT is not ours'


def test_a_copy_without_the_built_page_says_so(monkeypatch, builder, tmp_path):
    monkeypatch.setattr(page, "STATIC", tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"page\.js is missing: this copy of hopscope was made without"):
        page.export(builder, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_weights_are_in_float16_and_the_demo_is_small():
    """The first page of the documentation holds the demo: final weights alone, under 5 MB."""
    builder = Builder(["packaged"])
    part = builder.parts[0]
    for step in part.run.steps[-2:]:
        part.measure(step)
    size = sum(len(block.data) for name, block in part.blocks.items() if "/1000/" in name or "/batch/" in name)
    other = sum(len(block.data) for name, block in part.blocks.items() if "/600/" in name)
    assert (size + 16 * other) * 4 / 3 < 5e6 and other < 20_000


def test_the_built_page_is_in_the_checkout():
    for name in ("page.js", "page.css", "widget.js"):
        assert (Path(page.STATIC) / name).is_file()

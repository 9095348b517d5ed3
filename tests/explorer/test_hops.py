"""The page on three and on five hops, at three widths, light and dark: nothing off its row, nothing over another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from hopscope.explorer.tour import tour_of
from tests.explorer.chromium import Opened, chromium
from tests.explorer.hops import STEPS, circuit_paths, page_of_hops
from tests.explorer.test_scene import UNLIT

pytestmark = pytest.mark.heavy

HOPS, WIDTHS = (3, 5), (1440, 900, 360)
KNOCKED = "view=circuit&off=L2H0.query.value[2].same"

#: Pairs of texts of the drawing that lie over each other, and texts that hang over its edge.
OVERLAPS = """() => {
  const frame = document.querySelector('svg.diagram').getBoundingClientRect();
  const all = [...document.querySelectorAll('svg.diagram text')];
  const texts = all.map(one => [one.textContent, one.getBoundingClientRect()]);
  const over = texts.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1);
  const pairs = texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3
  ).map(([two]) => `${one} × ${two}`));
  return [...over.map(([one]) => one), ...pairs];
}"""
#: How far the middle of each label of a map's rows is from its row's, in rows.
OFF_ROW = """() => {
  const face = document.querySelector('.map-face').getBoundingClientRect();
  const labels = [...document.querySelector('.map-rows').children];
  const row = face.height / labels.length;
  const off = (label, i) => {
    const box = label.getBoundingClientRect();
    return Math.abs((box.top + box.bottom) / 2 - face.top - (i + 0.5) * row) / row;
  };
  return Math.max(...labels.map(off));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[int, str]:
    """By the number of hops, a page's address."""
    folder = tmp_path_factory.mktemp("hops")
    return {hops: page_of_hops(hops, folder) for hops in HOPS}


@pytest.fixture
def opened(browser) -> Iterator[Any]:
    found: list[Opened] = []

    def make(address: str, width: int = 1440, **more: Any) -> Opened:
        found.append(
            Opened(browser, address, viewport={"width": width, "height": 800}, reduced_motion="reduce", **more)
        )
        return found[-1]

    yield make
    for page in found:
        assert page.said == []
        page.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hops", HOPS)
def test_the_drawing_keeps_still_and_no_label_lies_over_another(pages, opened, hops, width):
    page = opened(f"{pages[hops]}#view=circuit", width)
    page.losses()
    heights = []
    for step in STEPS:
        page.go(f"view=circuit&step={step}")
        heights.append(page.page.locator("svg.diagram").bounding_box()["height"])
        assert page.page.evaluate(OVERLAPS) == [], step
    assert len(set(heights)) == 1


#: Pairs of neighbouring boxes of the drawing that lie over each other, and texts that are wider than their boxes.
CROWDED = """() => {
  const places = [...document.querySelectorAll('svg.diagram g:has(> text.symbol)')].map(one => [
    one.querySelector('text.symbol').textContent,
    one.querySelector('rect').getBoundingClientRect(),
    one.querySelector('text.symbol').getBoundingClientRect(),
  ]);
  const wide = places.filter(([, box, text]) => text.width > box.width + 1).map(([name]) => name);
  const over = places.flatMap(([one, a], i) => places.slice(i + 1, i + 2).filter(([, b]) => b.left < a.right)
    .map(([two]) => `${one} × ${two}`));
  return places.length > 4 ? [...wide, ...over] : ['no boxes'];
}"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hops", HOPS)
def test_in_the_scene_every_name_stands_in_a_box_of_its_own(pages, opened, hops, width):
    page = opened(f"{pages[hops]}#view=scene", width)
    page.page.locator("[data-answered=yes]").wait_for()
    assert page.page.evaluate(CROWDED) == [] == page.page.evaluate(OVERLAPS)
    page.page.evaluate("document.querySelector('.brand bdi').textContent = '…/a-rather-long-folder-of/runs-42'")
    name, tools = (page.page.locator(f"header.top {part}").bounding_box() for part in (".brand bdi", ".tools"))
    assert name["x"] + name["width"] <= tools["x"] or name["y"] + name["height"] <= tools["y"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_knock_out_shows_in_view_and_one_name_has_one_number(pages, opened, width, scheme):
    page = opened(f"{pages[3]}#{KNOCKED}", width, color_scheme=scheme)
    losses = page.losses()
    for hop in ("x1", "x2", "x3"):
        told = page.page.locator(f"[data-where={hop}]")
        box = told.bounding_box()
        assert box["y"] + box["height"] <= 800 and box["x"] + box["width"] <= width
        numbers = [float(number) for number in re.findall(r"\d+\.\d+", told.inner_text())]
        assert numbers == pytest.approx(losses[hop], rel=6e-3)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hops", HOPS)
def test_labels_of_maps_stand_at_their_rows(pages, opened, hops, width):
    page = opened(f"{pages[hops]}#view=heads&head=L0H0", width)
    page.page.locator(".big-map").first.wait_for()
    if page.page.locator(".map-rows").count():  # of few positions alone
        assert page.page.evaluate(OFF_ROW) < 0.2


def test_the_chain_stands_in_the_order_of_the_sequence_and_other_chains_in_a_box_of_their_own(pages, opened):
    page = opened(f"{pages[3]}#view=circuit")
    page.losses()
    roles = page.page.locator("svg.diagram .role").all_text_contents()
    assert roles == ["key[3]", "value[3]", "key[2]", "value[2]", "key[1]", "value[1]", "query"]
    left = page.page.locator("svg.diagram text", has_text="other chains").bounding_box()["x"]
    assert left < page.page.locator("svg.diagram .role").first.bounding_box()["x"]
    other = next(path for path in circuit_paths(3) if path.chain == "other")
    assert "others’ key[3]" in page.page.locator(f'[data-path="{other}"]').text_content()


def test_the_tour_of_three_hops_names_arrows_that_are_there_and_lit(pages, opened):
    """Its own way is hop by hop; it sketches the other for two hops, and three in three layers."""
    page = opened(f"{pages[3]}#view=scene")
    page.page.locator("[data-answered=yes]").wait_for()
    for number in range(1, 5):
        text = page.page.locator(".told").inner_text()
        assert (" reads " in text) and page.page.evaluate(UNLIT) == [], number
        page.page.locator(".told").get_by_role("button", name="Next").click()
    assert "value[1] reads value[2]" not in page.page.locator(".told").inner_text()
    page.page.locator(".told").get_by_role("button", name="Next").click()
    page.page.get_by_text("6 of 6").wait_for()
    assert page.page.locator(".sketch .layer", has_text="layer").count() == 3
    held = page.page.locator(".sketch .chip text").all_text_contents()
    assert page.page.locator(".sketch .arrow").count() == 6 and {"bob", "cy", "dee"} <= set(held)


def test_the_hint_for_typed_facts_is_one_that_the_task_accepts(pages, opened):
    page = opened(f"{pages[3]}#view=try")
    field = page.page.get_by_label("Facts")
    field.fill("")
    hint = page.page.locator("#typing-told")
    hint.get_by_text("every chain of this task").wait_for()
    field.fill(hint.inner_text().split("has the facts ")[1].rstrip("."))
    page.page.get_by_text("1 of 4 chains typed").wait_for()
    page.page.locator(".share").nth(2).wait_for()  # the worker's answers come after the count of chains
    right = [int(text.split()[0]) for text in page.page.locator(".share").all_inner_texts()]
    marks = page.page.locator(".answer b span[aria-hidden]").all_inner_texts()
    assert len(right) == 3 and all(count >= 18 for count, mark in zip(right, marks, strict=True) if mark == "✓")


def test_the_tour_stops_at_steps_of_the_run():
    """By hand: the pair passes one half at 30 of checkpoints 0, 20 … 100; hops are learnt at 50 and 81."""
    steps = [{"step": step, "state": "ready"} for step in range(0, 101, 20)]
    pair = {"layer": 0, "head": 0, "query": "value[1]", "key": "key[1]", "chain": "same"}
    run = {
        "checkpoints": steps,
        "circuit": {"paths": [pair]},
        "task": {"hop_names": ["x1", "x2"]},
        "learnt": {"x1": {"step": 50}, "x2": {"step": 81}},
        "onsets": {"L0H0 value[1]->key[1]": {"status": "seen", "step": 30}},
    }
    assert tour_of(run) == [0, 20, 40, 60, 100, 100]
    assert tour_of({**run, "onsets": {"L0H0 value[1]->key[1]": {"status": "already", "step": None}}})[2] == 0
    assert tour_of({**run, "circuit": None}) is None

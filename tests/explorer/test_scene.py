"""The scene: its decoders judged in Python, and the page by keyboard alone, with the packaged model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from hopscope import Architecture
from hopscope.cli import main
from hopscope.explorer.decoders import LEAST, fitted
from hopscope.tasks.retrieval import Retrieval
from tests.explorer.chromium import Opened, chromium


@pytest.fixture(scope="module")
def young():
    """Decoders of a model that was never trained."""
    task = Retrieval(n_hops=2, n_chains=4)
    model = Architecture(n_layers=2, n_heads=1, d_model=16, d_head=16).build(task, torch.Generator().manual_seed(0))
    return fitted(model, task)


def test_before_any_layer_a_position_holds_its_own_symbol_alone(young):
    """The embedding is linear in the symbol, and knows of no other: those are named by chance, one of four."""
    own = {"query": 0, "key[1]": 0, "value[1]": 1, "key[2]": 1, "value[2]": 2}
    for cell in young.cells:
        if cell["layer"] == 0 and own[cell["role"]] == cell["hop"]:
            assert cell["accuracy"] > 0.999
        elif cell["layer"] == 0:
            assert cell["accuracy"] == pytest.approx(1 / 4, abs=0.05)


def test_what_is_below_the_threshold_has_no_decoder(young):
    good = [cell for cell in young.cells if cell["accuracy"] >= LEAST]
    assert young.read.array().shape == (len(good), 16 * 4 + 2 * 4 + 1)
    assert 0 < len(good) < len(young.cells)


# In a browser --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scene(tmp_path_factory, request) -> Iterator[Any]:
    """The packaged run's page, opened where it opens by itself."""
    file = tmp_path_factory.mktemp("scene") / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPSCOPE_CACHE", str(request.config.cache.mkdir("explorer_demo")))
        assert main(["explore", "packaged", "--export", str(file)]) == 0
    with chromium() as browser:
        yield lambda state="", **more: Opened(browser, f"{file.as_uri()}{state}", reduced_motion="reduce", **more)


def answers(page: Opened, wrong: int = 0) -> list[str]:
    """What is answered, the farthest first, once so many of both answers are wrong."""
    from playwright.sync_api import expect  # which chromium() asks for

    expect(page.page.locator(".said .wrong")).to_have_count(wrong, timeout=90_000)
    expect(page.page.locator(".said .fine")).to_have_count(2 - wrong, timeout=90_000)
    return page.page.locator(".said b").all_inner_texts()


ACTIVE = "document.activeElement.id || document.activeElement.textContent.trim()"
#: Arrows that the tour's text names and that are not lit in the picture.
UNLIT = """() => [...document.querySelector('.told').textContent.matchAll(
  /(the query|(?:key|value)\\[\\d+\\]) reads ((?:key|value)\\[\\d+\\]) in layer (\\d+)/g
)].filter(([, query, key, layer]) => {
  const ends = ` ${query.replace('the ', '')}->${key}`;
  const arrows = [...document.querySelectorAll('.arrow:not(.faint)')].map(one => one.dataset.path);
  return !arrows.some(path => path.startsWith(`L${layer}H`) && path.endsWith(ends));
}).map(found => found[0])"""


#: Whether nothing cuts or covers the top of the drawing, where answers stand.
PICTURE_IS_IN_VIEW = """() => {
  const picture = document.querySelector('.diagram'), box = picture.getBoundingClientRect();
  return picture.closest('section').contains(document.elementFromPoint(box.x + box.width / 2, box.y + 2));
}"""


@pytest.mark.heavy
def test_by_keyboard_alone_the_answer_flips_and_the_link_keeps_it(scene):
    page = scene()
    keys = page.page.keyboard
    assert page.page.locator("[data-view=scene]").get_attribute("aria-current") == "page"
    assert "Who is two steps from ann?" in page.page.locator(".question").inner_text()
    assert answers(page) == ["cy ✓", "bob ✓"]
    page.tab_to('[data-path="L1H0 query->value[1]"]')
    keys.press("Enter")
    flipped = answers(page, wrong=2)
    assert [answer[-1] for answer in flipped] == ["✗", "✗"]
    link = page.page.evaluate("location.href")
    page.tab_to(".picture .actions button:nth-child(2)")
    keys.press("Enter")
    assert answers(page) == ["cy ✓", "bob ✓"]
    assert page.page.evaluate(ACTIVE) == "Put all arrows back"
    again = scene(f"#{link.partition('#')[2]}")
    assert answers(again, wrong=2) == flipped
    page.tab_to(".ask .main")
    keys.press("Enter")
    assert page.page.locator("[data-view=train]").get_attribute("aria-current") == "page"
    assert page.page.evaluate(ACTIVE) == "view"
    assert page.said == again.said == []


@pytest.mark.heavy
def test_the_first_tab_stop_skips_to_the_view_and_arrows_follow_in_reading_order(scene):
    page = scene()
    answers(page)
    keys = page.page.keyboard
    keys.press("Tab")
    keys.press("Enter")
    assert page.page.evaluate(ACTIVE) == "view"
    stops = []
    while len(stops) < 12 and (not stops or "Shuffle" not in stops[-1]):
        keys.press("Tab")
        stops.append(page.page.evaluate("document.activeElement.dataset.path ?? document.activeElement.textContent"))
    assert stops[:3] == ["Train a model here", "Back", "Next"]
    pairs = ["L0H0 value[1]->key[1]", "L0H0 value[2]->key[2]"]
    looks = ["L1H0 query->value[1]", "L2H0 query->value[2]", "L3H0 query->value[2]"]
    assert [sorted(stops[3:5]), stops[5:8]] == [pairs, looks]
    assert page.said == []


@pytest.mark.heavy
def test_chips_say_what_the_answer_says(scene):
    """At the top of the query's stream stands what is answered, right or wrong; what is lost is struck out."""
    page = scene()
    answers(page)
    held = page.page.locator(".chip.held text").all_text_contents()
    assert {"ann", "bob", "cy"} <= set(held)
    assert page.page.locator(".chip.gone, .chip.wrong").count() == 0
    page.page.locator('[data-path="L0H0 value[2]->key[2]"]').click()
    given = [answer.split()[0] for answer in reversed(answers(page, wrong=1))]
    assert given[1] != "cy"
    top = "[...document.querySelectorAll('.chip')].map(one => [one.getBoundingClientRect(), one.textContent.trim()])"
    chips = page.page.evaluate(f"{top}.map(([box, text]) => [box.x, box.y, text])")
    query = max(x for x, _, _ in chips)
    assert [text for x, _, text in sorted(chips, key=lambda chip: chip[1]) if abs(x - query) < 25][:2] == given
    assert "cy" in page.page.locator(".chip.gone text").all_text_contents()
    focused = page.page.locator('[data-path="L0H0 value[2]->key[2]"]')
    assert focused.evaluate("one => getComputedStyle(one).outlineStyle") == "none"  # no frame over the picture
    assert page.said == []


@pytest.mark.heavy
@pytest.mark.parametrize("width", [1440, 900, 360])
def test_the_tour_is_told_in_five_paragraphs_that_move_the_picture(scene, width):
    """Arrows that it names are there and lit; it takes one away, and sketches the way that this model does not go.

    On a narrow screen the picture stands above the words, and comes into view with them.
    """
    page = scene(viewport={"width": width, "height": 800})
    answers(page)
    told = page.page.locator(".told")
    for number in range(1, 6):
        assert f"{number} of 5" in told.inner_text()
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        assert page.page.locator(".sketch").count() == (number == 5)
        assert page.page.locator(".arrow.off").count() == (number == 3)
        if number != 5:
            assert page.page.evaluate(UNLIT) == []
        if number == 2:
            assert page.page.locator(".arrow.faint").count() == 3
        if number == 3:
            assert "✗" in "".join(answers(page, wrong=2))
        if number < 5:
            told.get_by_role("button", name="Next").click()
            assert page.page.evaluate(PICTURE_IS_IN_VIEW)
    assert "nothing can be clicked" in told.inner_text()
    assert "This model finds cy in another way." in told.inner_text()
    told.get_by_role("button", name="From the start").click()
    assert page.page.locator(".sketch, .arrow.off").count() == 0
    page.page.evaluate("document.querySelector('main').scrollTo(0, 0)")
    top = page.page.locator(".picture").bounding_box()["y"]
    ask = page.page.locator(".ask").bounding_box()
    assert 0 <= top - ask["y"] - ask["height"] < 20  # directly under the question
    assert page.said == []


@pytest.mark.heavy
def test_the_tour_trains_the_model_of_one_layer(scene):
    page = scene("#tell=3")
    page.page.locator(".told").get_by_role("button", name="one layer").press("Enter")
    knobs = page.page.locator(".knobs")
    knobs.get_by_text("One layer cannot learn one hop, which takes at least two layers.").wait_for()
    assert "hops=1&layers=1" in page.page.evaluate("location.hash")
    assert page.said == []

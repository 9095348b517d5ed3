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


def answers(page: Opened, how: str = "fine") -> list[str]:
    """What is answered, the farthest first, once both answers are fine, or wrong."""
    page.page.locator(f".said .{how}").nth(1).wait_for()
    return page.page.locator(".said b").all_inner_texts()


@pytest.mark.heavy
def test_by_keyboard_alone_the_answer_flips_and_the_link_keeps_it(scene):
    page = scene()
    assert page.page.locator("[data-view=scene]").get_attribute("aria-current") == "page"
    assert "Who is two steps from ann?" in page.page.locator(".question").inner_text()
    assert answers(page) == ["cy ✓", "bob ✓"]
    page.tab_to('[data-path="L1H0 query->value[1]"]')
    page.page.keyboard.press("Enter")
    flipped = answers(page, "wrong")
    assert [answer[-1] for answer in flipped] == ["✗", "✗"]
    link = page.page.evaluate("location.href")
    page.page.keyboard.press("z")
    assert answers(page) == ["cy ✓", "bob ✓"]
    again = scene(f"#{link.partition('#')[2]}")
    assert answers(again, "wrong") == flipped
    page.tab_to(".ask .main")
    page.page.keyboard.press("Enter")
    assert page.page.locator("[data-view=train]").get_attribute("aria-current") == "page"
    assert page.said == again.said == []


@pytest.mark.heavy
def test_chips_say_what_the_answer_says(scene):
    """The query's stream after the last layer holds what is answered; knocked out, it does not hold it any more."""
    page = scene()
    answers(page)
    last = page.page.locator(".chip:not(.wrong) text").all_text_contents()
    assert "bob" in last and "cy" in last and "ann" in last
    page.page.locator('[data-path="L1H0 query->value[1]"]').focus()
    page.page.keyboard.press("Enter")
    page.page.locator(".chip.wrong").first.wait_for()
    assert page.said == []


@pytest.mark.heavy
@pytest.mark.parametrize("width", [1440, 900, 360])
def test_the_tour_is_told_in_five_paragraphs_that_move_the_picture(scene, width):
    page = scene(viewport={"width": width, "height": 800})
    answers(page)
    told = page.page.locator(".told")
    for number in range(1, 6):
        assert f"{number} of 5" in told.inner_text()
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        if 1 < number < 5:
            assert page.page.locator(".arrow.faint").count() > 0
        if number < 5:
            told.get_by_role("button", name="Next").click()
    assert page.page.locator(".arrow.off").count() == 1
    page.page.locator(".said .wrong").first.wait_for()
    told.get_by_role("button", name="From the start").click()
    assert page.page.locator(".arrow.off").count() == 0
    assert page.said == []

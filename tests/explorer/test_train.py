"""Training in the page, by keyboard alone: the model learns, a link gives it again, and it is saved as a run."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import pytest
import torch

import hopscope
from hopscope.explorer.building import Builder
from hopscope.explorer.page import export
from tests.explorer.chromium import Opened, chromium

pytestmark = pytest.mark.heavy

LEARNT = 0.2


@pytest.fixture(scope="module")
def train(once, searched, tmp_path_factory) -> Iterator[Any]:
    """Opens a page at the view where a model is trained; the page is of some run, which has no part in it."""
    file = tmp_path_factory.mktemp("train") / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPSCOPE_CACHE", str(searched))
        export(Builder([once]), file)
    with chromium() as browser:
        yield lambda state="", **more: Opened(
            browser, f"{file.as_uri()}#view=train{state}", reduced_motion="reduce", **more
        )


def settled(page: Opened) -> int:
    """Waits until nothing is trained any more and all of the last step is shown; that step."""
    page.page.locator("[data-train=paused]").wait_for()
    page.page.locator("[data-settled=yes]").wait_for()
    return int(page.page.locator("[data-step]").get_attribute("data-step"))


def losses(page: Opened) -> list[float]:
    return [float(text) for text in page.page.locator(".legend b").all_inner_texts()]


def saved(page: Opened, folder: File) -> hopscope.Run:
    """The run that the page offers, unpacked."""
    with page.page.expect_download() as offered:
        page.page.get_by_role("button", name="Save as a run").press("Enter")
    offered.value.save_as(folder / "saved.tar")
    with tarfile.open(folder / "saved.tar") as packed:
        packed.extractall(folder, filter="data")
    return hopscope.load(folder / offered.value.suggested_filename.removesuffix(".tar"))


def test_by_keyboard_alone_two_hops_are_learnt_and_the_link_gives_the_same_model(train, tmp_path):
    page = train()
    assert settled(page) == 0
    page.tab_to("[data-train]")
    page.page.keyboard.press("Enter")
    page.page.locator(".outcome", has_text="Learnt").wait_for()
    step = settled(page)
    assert max(losses(page)) < LEARNT
    assert page.page.locator(".said .fine").count() == 2
    told = page.page.locator(".outcome").inner_text()
    assert "facts join first (value[1] reads value[2] in layer 1 and the query reads value[1] in layer 2)" in told
    assert page.page.locator('.arrow.faint[data-path="L1H0 query->value[1]"]').count() == 1
    assert page.page.locator('[data-path="L0H0 value[1]->key[1]"]').count() == 1
    run = saved(page, tmp_path)
    assert run.step == step
    batch = run.task.sample(256, 9)
    with torch.no_grad():
        found = run.task.hop_losses(run.model(batch.inputs, at=run.task.query_positions), batch.targets)
    assert found.max() < LEARNT + 0.1
    link = page.page.evaluate("location.hash")
    again = train(link.removeprefix("#view=train"))
    assert settled(again) == step
    (tmp_path / "again").mkdir()
    other = saved(again, tmp_path / "again")
    assert other.config.identity == run.config.identity
    assert all(torch.equal(value, other.model.state_dict()[name]) for name, value in run.model.state_dict().items())
    assert page.said == again.said == []


def test_a_knocked_out_arrow_flips_the_answer(train):
    page = train("&trained=200")
    settled(page)
    assert page.page.locator(".said .fine").count() == 2
    page.page.locator('[data-path="L0H0 value[1]->key[1]"]').press("Enter")
    page.page.locator(".said .wrong").first.wait_for()
    link = page.page.evaluate("location.hash")
    again = train(link.removeprefix("#view=train"))
    again.page.get_by_text("the same model is trained again, from step 0").wait_for()
    again.page.locator(".outcome", has_text="Learnt").wait_for()
    settled(again)
    assert again.page.locator(".arrow.off").count() == 1
    assert again.page.locator(".said").inner_text() == page.page.locator(".said").inner_text()
    page.page.keyboard.press("z")
    page.page.locator(".said .wrong").first.wait_for(state="detached")
    assert page.said == []


def test_one_layer_fails_and_the_page_says_why(train):
    page = train("&layers=1")
    settled(page)
    knobs = page.page.locator(".knobs").inner_text()
    assert "One layer cannot learn two hops, which take at least three layers." in knobs
    page.page.locator("[data-train]").press("Enter")
    page.page.locator(".outcome", has_text="One layer cannot").wait_for()
    settled(page)
    assert min(losses(page)) > 0.6
    assert page.said == []


def test_it_pauses_steps_and_pauses_by_itself_when_nobody_looks(train):
    page = train("&prior=0&layers=4")
    settled(page)
    assert "about a minute" in page.page.locator(".knobs").inner_text()
    train_button = page.page.locator("[data-train]")
    train_button.press("Enter")
    page.page.locator("[data-step]:not([data-step='0'])").wait_for()  # it stays so, however fast steps pass
    train_button.press("Enter")
    step = settled(page)
    page.page.get_by_role("button", name="One step").press("Enter")
    page.page.locator(f"[data-step='{step + 1}']").wait_for()
    settled(page)
    train_button.press("Enter")
    page.page.locator("[data-train=running]").wait_for()
    page.page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    settled(page)
    assert page.said == []


def test_the_picture_stands_beside_the_losses_in_one_view(train):
    page = train("&trained=20", viewport={"width": 1440, "height": 900})
    settled(page)
    picture, falls = (page.page.locator(f"{part} svg").last.bounding_box() for part in (".picture", ".falls"))
    assert max(box["y"] + box["height"] for box in (picture, falls)) <= 900
    assert picture["x"] + picture["width"] <= falls["x"]
    assert page.said == []


@pytest.mark.parametrize("width", [1440, 900, 360])
def test_nothing_is_wider_than_the_screen(train, width):
    page = train("&trained=20&hops=2", viewport={"width": width, "height": 800})
    settled(page)
    assert page.page.evaluate("document.documentElement.scrollWidth") == width
    assert page.said == []


def test_the_lab_has_its_own_model(train):
    """What is knocked out of the model that was trained here is not of the run's, whose numbers come when it shows."""
    page = train("&trained=5")
    settled(page)
    page.page.locator("[data-path]").first.press("Enter")
    page.page.locator(".arrow.off").wait_for()
    page.page.locator("[data-view=circuit]").press("Enter")
    found = page.losses()
    assert found and all(len(set(values)) == 1 for values in found.values())
    assert page.said == []


def test_values_that_no_knob_has_are_ignored_and_told(train):
    page = train("&layers=9&seed=x")
    settled(page)
    assert page.page.locator(".notes p").count() == 2
    assert page.page.get_by_label("Seed").input_value() == "0"

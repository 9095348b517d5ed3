"""A browser for tests: Debian's Chromium without a screen, and what pages say and ask for while they are open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

EXPLORER = Path(__file__).parents[2] / "explorer"
PATIENCE = 90_000  # milliseconds: machines that run tests may be busy


def need(lacking: str | None) -> None:
    """Skips with what is lacking; in CI that is a failure."""
    if lacking and os.environ.get("HOPSCOPE_NO_SKIPS"):
        pytest.fail(lacking)
    if lacking:
        pytest.skip(lacking)


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; skips where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        need("Playwright is not installed: pip install playwright")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    need(None if found else "no Chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page with all that it said and asked for.

    Attributes:
        page: Playwright's.
        said: console messages, errors and dialogs.
        asked: addresses of requests.
    """

    def __init__(self, browser: Any, address: str, **context: Any):
        self.said: list[str] = []
        self.asked: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.page.locator("main#view").wait_for()

    def tab_to(self, selector: str, most: int = 80) -> None:
        """Go to a control by the Tab key alone."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("s => document.activeElement?.matches(s) ?? false", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    def go(self, state: str) -> None:
        """To another state of the page, as a link in it would lead there."""
        self.page.evaluate("state => { location.hash = state }", state)
        self.page.wait_for_timeout(600)

    def losses(self) -> dict[str, list[float]]:
        """By hop the live losses that stand in the page, as it is and changed, once all sequences are done."""
        self.page.locator("[data-ready=yes]").wait_for(state="attached")
        cells = (
            "rows => rows.map(r => [r.dataset.hop, [...r.querySelectorAll('[data-value]')].map(c => +c.dataset.value)])"
        )
        return dict(self.page.locator("tr[data-hop]").evaluate_all(cells))

    def close(self) -> None:
        self.context.close()

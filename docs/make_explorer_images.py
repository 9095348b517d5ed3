"""Takes the pictures of docs/explorer.md: every view and the tour, light and dark, in headless Chromium.

    python docs/make_explorer_images.py [--runs runs]

Beside the demo stands the same training, shorter and with other seeds: runs/demo-seed-1, trained if it is not there.
Claims are those of the studies. Pictures are quantised to few colours, which flat pages bear well.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hopscope import Config, load, train  # noqa: E402
from hopscope.explorer.building import Builder  # noqa: E402
from hopscope.explorer.page import export  # noqa: E402
from tests.explorer.chromium import Opened, chromium  # noqa: E402

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1280, "height": 860}
SIZES = {"train": {"width": 1440, "height": 1160}, "train_narrow": {"width": 360, "height": 1640}}  # of tall pages
COLOURS = 256
SEEDS = {"seed": 1, "seed_init": 1, "seed_data": 1}
#: By picture the state that it shows, as it stands in the page's address.
STATES = {
    "scene": "tell=3",
    "train": "view=train&trained=160",
    "train_narrow": "view=train&trained=160",
    "run": "view=run&step=240",
    "circuit": "view=circuit&off=L1H0.query.value[1].same",
    "heads": "view=heads&head=L1H0",
    "try": "view=try",
    "compare": "view=compare",
    "census": "view=census",
    "claims": "view=claims&paper=Musat (2025)&claim=fig4.later_hops_are_harder@cpu",
    "tour": "tour=4",
}


def other_run(runs: Path) -> Path:
    """The demo's training, shorter and with other seeds, trained unless it is there."""
    demo = load("packaged").config
    config = Config(demo.task, demo.model, replace(demo.training, steps=500, **SEEDS))
    folder = runs / "demo-seed-1"
    if not folder.exists() or not load(folder).done:
        train(config, folder)
    return folder


def settle(opened: Opened, name: str) -> None:
    """Wait until all that a view computes is there."""
    page = opened.page
    if name == "circuit":
        opened.losses()
    if name == "scene":
        page.locator("[data-answered=yes]").wait_for()
    if name.startswith("train"):
        page.locator(".outcome", has_text="Learnt").wait_for()
        page.locator("[data-settled=yes]").wait_for()
    if name == "heads":
        page.locator(".big-map").nth(2).wait_for()
        page.locator(".map-face").first.click(position={"x": 67, "y": 225})  # pinned, and read out
    if name == "try":
        page.get_by_text("of 20").nth(3).wait_for()
    if name == "claims":
        page.locator("img.figure").wait_for()
    page.wait_for_timeout(1500)


def shoot(browser: Any, address: str, name: str, scheme: str) -> Path:
    """One picture."""
    size = SIZES.get(name, SIZE)
    opened = Opened(browser, f"{address}#{STATES[name]}", color_scheme=scheme, reduced_motion="reduce", viewport=size)
    settle(opened, name)
    file = IMAGES / f"explorer_{name}{'_dark' if scheme == 'dark' else ''}.png"
    opened.page.screenshot(path=file)
    opened.close()
    if opened.said:
        raise RuntimeError(f"{name}: {opened.said}")
    Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    return file


def main() -> None:
    """All of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=STATES, default=list(STATES), help="these pictures alone")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where the other run is, or is to be trained")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "page.html"
        beside = {"compare", "census"} & set(given.only)
        runs = ["packaged", *([other_run(given.runs)] if beside else [])]
        export(Builder(runs, which="all", results=ROOT / "hopscope_studies"), file)
        made = [shoot(browser, file.as_uri(), name, scheme) for name in given.only for scheme in ("light", "dark")]
    print(f"{len(made)} pictures, {sum(one.stat().st_size for one in made) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

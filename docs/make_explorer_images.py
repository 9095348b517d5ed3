"""Takes the pictures of docs/explorer.md: every view and the tour, light and dark, in headless Chromium.

    python docs/make_explorer_images.py [--runs runs]

The model of three hops, which also stands beside the packaged run, is runs/three-hops, trained if it is not there.
That of five is hardly trained, and its circuit is written by hand, as in tests. Claims are those of the studies.
Pictures are quantised to few colours, which flat pages bear well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hopscope import Architecture, Config, Training, load, train  # noqa: E402
from hopscope.explorer.building import Builder  # noqa: E402
from hopscope.explorer.page import export  # noqa: E402
from hopscope.tasks.retrieval import Retrieval  # noqa: E402
from tests.explorer.chromium import Opened, chromium  # noqa: E402
from tests.explorer.hops import page_of_hops  # noqa: E402
from tests.explorer.test_learning import PRIOR  # noqa: E402

IMAGES = Path(__file__).parent / "images"
SIZE = (1280, 860)
SIZES = {"train": (1440, 900), "train_narrow": (360, 1640), "scene_narrow": (360, 800)}
COLOURS = 256
#: By picture the state that it shows, as it stands in the page's address.
STATES = {
    "scene": "tell=2",
    "scene_narrow": "view=scene",
    "one_layer": "tell=3&off=L0H0.value[1].key[1].same",
    "facts_join": "tell=5",
    "train": "view=train&trained=160",
    "train_narrow": "view=train&trained=160",
    "run": "view=run&step=240",
    "circuit": "view=circuit&off=L1H0.query.value[1].same",
    "heads": "view=heads&head=L1H0",
    "try": "view=try",
    "compare": "view=compare",
    "census": "view=census",
    "claims": "view=claims&study=The paper, claim by claim&find=fig4 hop&claim=fig4.later_hops_are_harder@cpu",
    "three_hops": "tell=5",
    "three_hops_narrow": "tell=5",
    "three_layers": "tell=6",
    "five_hops": "view=scene",
    "five_hops_narrow": "view=scene",
}
#: By picture of more hops how many, and its size in pixels of CSS.
HOPS = {
    "three_hops": (3, (1440, 900)),
    "three_hops_narrow": (3, (360, 1300)),
    "three_layers": (3, (1440, 900)),
    "five_hops": (5, (900, 980)),
    "five_hops_narrow": (5, (360, 1300)),
}


def three_hops(runs: Path) -> Path:
    """A model of three hops that begins with attention to the token before, trained unless it is there."""
    task = Retrieval(n_hops=3, position_base=100.0)
    shape = Architecture(n_layers=4, n_heads=1, init="early_layers", positions=PRIOR)
    recipe = Training(steps=800, batch=128, schedule="linear", decay_steps=400, checkpoints="20:400,100")
    folder = runs / "three-hops"
    if not folder.exists() or not load(folder).done:
        train(Config(task, shape, recipe), folder)
    return folder


def settle(opened: Opened, name: str) -> None:
    """Wait until all that a view computes is there."""
    page = opened.page
    if name == "circuit":
        opened.losses()
    if name in ("scene", "scene_narrow", "one_layer", "facts_join") or name in HOPS:
        page.locator("[data-answered=yes]").wait_for()
    if name.startswith("train"):
        page.locator(".outcome", has_text="Learnt").wait_for()
        page.locator("[data-settled=yes]").wait_for()
    if name == "heads":
        page.locator(".big-map").nth(2).wait_for()
        face = page.locator(".map-face").first
        side = face.bounding_box()["width"]  # of twenty positions: ann, who is asked about, finds bob
        face.click(position={"x": 3.5 / 20 * side, "y": 16.5 / 20 * side})  # pinned, and read out
    if name == "try":
        page.get_by_text("of 20").nth(3).wait_for()
    if name == "claims":
        page.locator("img.figure").wait_for()
    page.wait_for_timeout(1500)


def shoot(browser: Any, address: str, name: str, scheme: str) -> Path:
    """One picture."""
    width, height = HOPS[name][1] if name in HOPS else SIZES.get(name, SIZE)
    view = {"color_scheme": scheme, "reduced_motion": "reduce", "viewport": {"width": width, "height": height}}
    opened = Opened(browser, f"{address}#{STATES[name]}", **view)
    settle(opened, name)
    file = IMAGES / f"explorer_{name}{'_dark' if scheme == 'dark' else ''}.png"
    opened.page.screenshot(path=file)
    opened.close()
    if opened.said:
        raise RuntimeError(f"{name}: {opened.said}")
    Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    return file


def pages_of(names: list[str], runs: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Addresses of pages, each with the pictures that are taken of it."""
    if usual := [name for name in names if name not in HOPS]:
        beside = {"compare", "census"} & set(usual)
        shown = ["packaged", *([three_hops(runs)] if beside else [])]
        export(Builder(shown, which="all", results=ROOT / "hopscope_studies"), folder / "page.html")
        yield (folder / "page.html").as_uri(), usual
    for hops in (3, 5):
        if wanted := [name for name in names if name in HOPS and HOPS[name][0] == hops]:
            if hops == 3:
                export(Builder([three_hops(runs)], which="tour"), folder / "three.html")
            yield (folder / "three.html").as_uri() if hops == 3 else page_of_hops(hops, folder), wanted


def main() -> None:
    """All of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=STATES, default=list(STATES), help="these pictures alone")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where three-hops is, or is to be trained")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, chromium() as browser:
        made = [
            shoot(browser, address, name, scheme)
            for address, names in pages_of(given.only, given.runs, Path(folder))
            for name in names
            for scheme in ("light", "dark")
        ]
    print(f"{len(made)} pictures, {sum(one.stat().st_size for one in made) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

"""Packs a finished demo run into the package: `python -m bench.pack_demo demo` writes hopscope/assets/packaged.

The last checkpoint keeps its float32 weights; the earlier ones, which show how heads emerge, are halved to float16 (a
relative rounding of 5e-4, far below what attention patterns show), and optimizers are left out.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import safetensors.torch

from hopscope.core.storage import LISTING, write_folder
from hopscope.runs.run import Run, load

ASSET = Path(__file__).parent.parent / "hopscope" / "assets" / "packaged"
KEPT = [0, *range(60, 300, 20), *range(300, 401, 50), 600, 1000]


def pack(source: Path) -> None:
    run = load(source)
    if not run.done:
        raise SystemExit(f"{source} is not finished")
    shutil.rmtree(ASSET, ignore_errors=True)
    (ASSET / "checkpoints").mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl", "sessions.jsonl", "report.json"):
        shutil.copy(run.path / name, ASSET / name)
    for step in sorted({*KEPT} & {*run.steps}):
        manifest, [weights] = run.stored(step, "model")
        if step != run.step:
            weights = {name: value.half() for name, value in weights.items()}
        about = {k: v for k, v in manifest.items() if k != "files"}
        write_folder(
            ASSET / "checkpoints" / f"step_{step:08d}", {"model.safetensors": safetensors.torch.save(weights)}, about
        )
    Run(ASSET).seal()
    (ASSET / LISTING).unlink()


if __name__ == "__main__":
    pack(Path(sys.argv[1]))

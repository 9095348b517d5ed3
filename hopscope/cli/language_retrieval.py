"""`hopscope heads --needles`: the retrieval heads of a language model, in words, as tables and as a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hopscope.cli.options import console, print_json, say
from hopscope.core.storage import clear_errors, enlist, listed, unlist, write_file, write_json
from hopscope.core.terminal import Narrator

SHOWN = 12  # heads that are told; table.csv has all


def run_needles(model: str, count: int | None, seed: int, threads: int | None, out: Path | None, as_json: bool) -> None:
    """Ask, store, draw, tell."""
    from hopscope.language.checkpoints import open_model
    from hopscope.language.retrieval.study import RetrievalStudy, retrieval_study

    settings = RetrievalStudy(count=RetrievalStudy().count if count is None else count, seed=seed)
    with Narrator() as watch:
        watch(f"opening {model}")
        opened = open_model(model, threads=threads or min(2, os.cpu_count() or 1))
        report = retrieval_study(opened, settings, watch)
        files = store(report, out or Path("heads") / f"{opened.name}-needles")
    if as_json:
        print_json(report)
        return
    for line in lines(report):
        console().print(line, markup=False, soft_wrap=True)
    say("".join(f"{file}\n" for file in files), nl=False)


def store(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """retrieval.json, table.csv and the picture, each wholly or not at all. Raises CannotSave."""
    from pandas import DataFrame

    from hopscope.drawing.heads import head_maps
    from hopscope.drawing.style import save

    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    table = DataFrame(report["heads"])
    unlist(folder, listed(folder))
    write_json(folder / "retrieval.json", report)
    write_file(folder / "table.csv", table.to_csv(index=False, float_format="%.6g").encode())
    picture = head_maps(table.rename(columns={"forced": "retrieval"}), report["model"])
    files = [folder / "retrieval.json", folder / "table.csv", *save(picture, folder / "scores")]
    enlist(folder, [file.name for file in files])
    return files


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report for people."""
    asked, answers = report["asks"], report["answers"]
    yield (
        f"{report['model']}: {asked['n']} asks for {asked['needles']} needles of {told_range(asked['needle_tokens'])} "
        f"tokens in {told_range(asked['tokens'])}"
    )
    yield f"found by itself: {told(answers['answered'])}; log-probability per token {told(answers['log_p'])}"
    for way, found in report["sparsity"].items():
        yield (
            f"retrieval heads, {way}: {found['retrieval_heads']} of {found['heads']}, {told(found['share'])}; "
            f"highest score {found['highest']:.2f}"
        )
    for one in report["firing"][:SHOWN]:
        yield f"  {one['head']:8} score {one['score']:.2f}, hits something in {one['active']:.2f} of the asks"
    both = report["induction"]
    yield (
        f"rank agreement with induction scores: {told(both['ranks'])}; of the {both['of']} highest {both['shared']} "
        f"are shared (by chance {both['by_chance']:.1f})"
    )
    yield from mask_lines(report["masking"])


def mask_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What masking costs."""
    yield "\nnats per token of the needle lost with heads masked, on needles by which they were not chosen (95 %):"
    lost = {one["set"]: one["lost"] for one in found["log_p"] if "lost" in one}
    for name, value in lost.items():
        kind, _, size = name.partition(" ")
        if kind == "retrieval":
            random = [one["mean"] for which, one in lost.items() if which.startswith(f"random {size} ")]
            yield f"  the highest {size:>2}: {told(value)}; random sets {', '.join(f'{x:.2f}' for x in random)}"


def told(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.2f} ({value['low']:.2f} to {value['high']:.2f})"


def told_range(ends: list[int]) -> str:
    """`7`, or `7 to 9`."""
    low, high = ends
    return str(low) if low == high else f"{low} to {high}"

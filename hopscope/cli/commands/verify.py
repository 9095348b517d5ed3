"""`hopscope verify DIR …`: check that the files of runs and results are unchanged."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopscope.cli.options import PATH, as_json, print_json, progress, say
from hopscope.core.settings import BadInput
from hopscope.core.terminal import Narrator
from hopscope.core.wording import count

if TYPE_CHECKING:
    from hopscope.runs.integrity import Checked


@click.command("verify")
@click.argument("folders", metavar="DIR…", nargs=-1, required=True, type=PATH)
@click.option("--write", is_flag=True, help="Write the missing manifest of a finished folder that has no fault.")
@progress
@as_json
def command(folders: tuple[Path, ...], write: bool, as_json: bool) -> None:
    """Check every file of runs and results against its manifest, and each run for consistency.

    DIR is a run, the results of an experiment, or a folder of these, such as runs, or of studies. Each fault is a line:
    which file, what was found, what was expected, what to do. The exit code is 2 if there is one. Files that no
    manifest lists are called unverified: they are older than manifests, or the program was killed while writing them.
    """
    from hopscope.experiments.results import HERE, gone
    from hopscope.runs.integrity import check, folders_in, vouch
    from hopscope.runs.run import SHIPPED, is_shipped

    if missed := [folder for folder in folders if HERE in (folder, folder.parent) and not folder.exists()]:
        raise BadInput(gone(missed[0]))
    found = [each for folder in folders for each in folders_in(SHIPPED if is_shipped(folder) else folder)]
    total, done = sum(map(size, found)), 0
    with Narrator("verifying") as narrator:

        def watch(read: int) -> None:
            nonlocal done
            done += read
            narrator.now_at(f"verifying: {done / 1e6:.0f} of {total / 1e6:.0f} MB")

        checked = [with_records(check(folder, watch)) for folder in found]
    for index, one in enumerate(checked):
        if write and one.state == "unverified":
            vouch(one.folder)
            checked[index] = check(one.folder)
    print_json([asdict(one) | {"folder": str(one.folder)} for one in checked]) if as_json else tell(checked)
    if any(one.faults for one in checked):
        click.get_current_context().exit(2)


def with_records(one: Checked) -> Checked:
    """The result, with the fault of kept answers of language models, which `lm evaluate` would find."""
    from hopscope.language.records import Records
    from hopscope.runs.integrity import found_by

    damage = found_by(lambda: Records(one.folder).load("rb"))
    return one if damage is None else replace(one, state="damaged", faults=(*one.faults, str(damage)))


def size(folder: Path) -> int:
    """The size of a folder's files in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def tell(checked: list[Checked]) -> None:
    """Print a line per folder, and one per fault."""
    for one in checked:
        say(f"{one.folder}: {one.state}, {count(one.files, 'file')} as written{without_manifest(one)}")
        for fault in one.faults:
            say(f"  {fault}")
    faults = sum(len(one.faults) for one in checked)
    say(f"{count(len(checked), 'folder')} checked: {count(faults, 'fault') if faults else 'no faults'}")


def without_manifest(one: Checked, shown: int = 4) -> str:
    """The files without a manifest, except in an unfinished run, which has no manifest yet."""
    if not one.unverified or one.state == "unfinished":
        return ""
    more = f" and {len(one.unverified) - shown} more" if len(one.unverified) > shown else ""
    return f", {len(one.unverified)} unverified ({', '.join(one.unverified[:shown])}{more})"

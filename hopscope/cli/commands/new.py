"""`hopscope new KIND NAME`: write the skeleton of a task, an attention variant, a measure, a model, a study, ….

A skeleton is a small working example that passes the contract tests of its kind. It is written into the user's folder
(`--with`, HOPSCOPE_PATH) if there is one, else into this checkout.
"""

from __future__ import annotations

import ast
import keyword
import os
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

import click

from hopscope.cli.options import say
from hopscope.core import catalogue, outside
from hopscope.core.settings import BadInput
from hopscope.core.storage import TEMPORARY, clear_errors, discard, make_folder, write_file

TEMPLATES = Path(__file__).parents[1] / "templates"
CONTRACTS = catalogue.LIBRARY.path.parent / "tests" / "contracts"
#: A name must do for a file and in the names of tests, and keep lines below 120 characters.
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True)
class Kind:
    """A kind of skeleton.

    Attributes:
        folder: where its files are; dots separate nested folders.
        help: a description.
        then: commands to try it with.
    """

    folder: str
    help: str
    then: tuple[str, ...]


KINDS = {
    "task": Kind("tasks", "A task, with its answers by brute force.", ("sample {name}", "train {name} --steps 200")),
    "attention": Kind(
        "models.attention",
        "An attention variant with two settings.",
        ("train induction --attention '{name}(temperature=0.5)' --steps 200",),
    ),
    "positions": Kind(
        "models.positions",
        "A position code with a setting.",
        ("train induction --positions '{name}(slope=1)' --steps 200",),
    ),
    "measure": Kind(
        "measures",
        "A measure, with its range and what it needs.",
        ("train retrieval --measures {name} --steps 200",),
    ),
    "model": Kind(
        "models",
        "A model other than the transformer, which can be trained, resumed and searched for circuits.",
        ("train retrieval --model '{name}(width=32)' --steps 200 --out runs/{name}", "circuit runs/{name}"),
    ),
    "optimizer": Kind(
        "training.optimizers", "An optimizer with a setting.", ("train retrieval --optimizer {name} --steps 200",)
    ),
    "curriculum": Kind("curricula", "A curriculum.", ("train retrieval --curriculum {name} --steps 200",)),
    "formulation": Kind("formulations", "The problem in other words.", ("ask {name} --hops 3",)),
    "study": Kind(
        "studies",
        "A study: its README, an experiment, a claim.",
        ("reproduce {name} --scale quick", "reproduce {name} --scale cpu"),
    ),
}
#: The files of a study, each from a template.
STUDY = {
    "__init__.py": "opening",
    "README.md": "readme",
    "experiments/__init__.py": "folder",
    "experiments/{name}.py": "experiment",
}


@click.group("new", subcommand_metavar="KIND NAME")
def command() -> None:
    """Write the skeleton of a task, an attention variant, a measure, a study, …, which passes its contract tests."""


def begin(kind: str, name: str) -> None:
    """Write the skeleton, and print what to do next. Raises BadInput for a name that is invalid or taken."""
    check_name(name)
    check_free(kind, name)
    check_words(kind, name)
    root = home()
    path = write_study(studies_of(root) / name, name) if kind == "study" else write_variant(root, kind, name)
    for line in next_steps(root, kind, name, path):
        say(line)


def home() -> Path:
    """The folder to write into. Raises BadInput if hopscope is installed as a package and no folder is named."""
    if brought := outside.folders():
        return brought[0]
    if CONTRACTS.is_dir():
        return catalogue.LIBRARY.path
    raise BadInput(
        f"hopscope is installed as a package, and its folder is not for your files; make a folder and name it: "
        f"hopscope --with DIR new KIND NAME, or {outside.VARIABLE}=DIR"
    )


def studies_of(root: Path) -> Path:
    """The folder of studies: that of this checkout, or `studies/` in the user's folder."""
    return catalogue.ours()[0].path if root == catalogue.LIBRARY.path else root / "studies"


# Names -----------------------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Raise BadInput unless the name can be that of a file, a class and a function."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name) or keyword.iskeyword(class_name(name)):
        raise BadInput(
            f"a name must be at most 32 small letters, digits and underscores, begin with a letter, and be no keyword "
            f"of Python; got {name!r}"
        )
    if name.startswith("base"):
        raise BadInput(f"files whose names begin with base are shared by variants and are not variants; got {name!r}")


def check_free(kind: str, name: str) -> None:
    """Raise BadInput if the name is taken, also as the former name of a variant; the message gives the file."""
    if kind == "study":
        taken = next((root.path for root in catalogue.studies() if root.path.name == name), None)
        if taken:
            raise BadInput(f"there is a study {name!r} already, in {taken}; choose another name")
    folder = "experiments" if kind == "study" else KINDS[kind].folder
    known, today = catalogue.homes(folder), catalogue.current(folder, name)
    if today in known:
        what = "an experiment" if kind == "study" else f"one of {folder}"
        file = known[today].folder(folder) / f"{today}.py"
        raise BadInput(f"{name!r} is {what} already, in {file}; choose another name")


def check_words(kind: str, name: str) -> None:
    """Raise BadInput if the skeleton's code already uses the name."""
    if kind == "study":
        return
    used = {node.id for node in ast.walk(ast.parse(rendered(kind, "a_name"))) if isinstance(node, ast.Name)}
    if taken := used & {name, class_name(name), f"{class_name(name)}Model"}:
        raise BadInput(f"{min(taken)} means something else in the skeleton; choose another name than {name!r}")


def class_name(name: str) -> str:
    """`two_step` as `TwoStep`."""
    return "".join(part.capitalize() for part in name.split("_"))


# Files -----------------------------------------------------------------------------------------------------------


def rendered(template: str, name: str) -> str:
    """A template with the name filled in."""
    text = (TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
    title = name.replace("_", " ").strip().capitalize()
    return Template(text).substitute(name=name, Class=class_name(name), Title=title)


def write_variant(root: Path, kind: str, name: str) -> Path:
    """Write the file of a variant. Raises BadInput if it exists."""
    path = catalogue.Root("", root).folder(KINDS[kind].folder) / f"{name}.py"
    if path.exists():
        raise BadInput(f"{path} is there already; choose another name")
    make_folder(path.parent)
    write_file(path, rendered(kind, name).encode())
    return path


def write_study(path: Path, name: str) -> Path:
    """Write the folder of a study, completely or not at all. Raises BadInput if it exists."""
    if path.exists():
        raise BadInput(f"{path} is there already; choose another name")
    temporary = path.with_name(f"{TEMPORARY}{name}")
    with clear_errors(path):
        try:
            discard(temporary)
            (temporary / "experiments").mkdir(parents=True)
            for file, template in STUDY.items():
                write_file(temporary / file.format(name=name), rendered(f"study/{template}", name).encode())
            os.rename(temporary, path)
        finally:
            discard(temporary)
    return path


def next_steps(root: Path, kind: str, name: str, path: Path) -> list[str]:
    """Lines that say what was written, and what to run."""
    ours = root == catalogue.LIBRARY.path
    hopscope = "hopscope" if ours else f"hopscope --with {shown(root)}"
    tests = f"pytest tests/contracts -k {name}"
    there = f"{outside.VARIABLE}={root} {tests}    # in a clone of hopscope"
    tests = f"make check && make docs && {tests}" if ours else there
    steps = [f"{hopscope} {then.format(name=name)}" for then in KINDS[kind].then]
    said = f"{shown(path)} is written: a skeleton that works. Make it yours, then:"
    return [said, *(f"  {step}" for step in (tests, *steps))]


def shown(path: Path) -> str:
    """The path relative to the current folder if it lies inside that folder, else the path unchanged."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) and path != here else path)


def subcommand(kind: str) -> click.Command:
    """`hopscope new KIND`."""
    return click.Command(
        kind,
        params=[click.Argument(["name"], metavar="NAME")],
        callback=lambda name: begin(kind, name),
        help=KINDS[kind].help,
    )


for each in KINDS:
    command.add_command(subcommand(each))

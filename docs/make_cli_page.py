"""Writes docs/cli.md from every command's own --help; with --check says whether the page is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hopscope.cli import LANGUAGE, hopscope
from hopscope.cli.options import EVERY
from hopscope.core import catalogue

PAGE = Path(__file__).parent / "cli.md"
PER_VARIANT = {"lm ask": "equations", "sample": "retrieval", "train": "retrieval"}  # with an example


def help_of(command: click.Command, path: list[str]) -> str:
    """A command's help text, at a fixed width so that the page does not depend on the terminal."""
    context = click.Context(hopscope, info_name="hopscope", terminal_width=100, max_content_width=100)
    context.meta[EVERY] = True
    for name in path[:-1]:
        group = hopscope.get_command(context, name)
        assert isinstance(group, click.Group)
        context = click.Context(group, info_name=name, parent=context)
    return command.get_help(click.Context(command, info_name=path[-1], parent=context))


def page() -> str:
    """The whole page."""
    parts = [
        "# Command line\n",
        "Generated from `--help` by `docs/make_cli_page.py`. Exit codes: 0 done, 2 bad input (one sentence on "
        "stderr), 1 a fault of ours or of a server, 130 interrupted (resumable).\n",
        "`hopscope --with DIR COMMAND …` also searches a folder of your own ([extending](extending.md)).\n",
    ]
    context = click.Context(hopscope, info_name="hopscope")
    of_language = [f"lm {name}" for name in catalogue.names(LANGUAGE)]
    for name in sorted([*catalogue.names("cli.commands"), *of_language]):
        command = hopscope.get_command(context, name.removeprefix("lm "))
        assert command is not None
        example, told = PER_VARIANT.get(name), help_of(command, name.split())
        if example:  # a variant that is added later is in `hopscope list`, and leaves the page as it is
            told = f"{told.partition(chr(10) + 'Commands:')[0].rstrip()}\n\nCommands: names that hopscope list shows."
        parts.append(f"## hopscope {name}\n\n```text\n{told}\n```\n")
        if example:
            assert isinstance(command, click.Group)
            variant = command.get_command(context, example)
            assert variant is not None
            words = help_of(variant, [*name.split(), example])
            parts.append(f"### hopscope {name} {example}\n\n```text\n{words}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        current = PAGE.read_text() if PAGE.is_file() else ""
        sys.exit(0 if current == page() else "docs/cli.md is out of date: run python docs/make_cli_page.py")
    PAGE.write_text(page())

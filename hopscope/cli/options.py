"""Settings as command-line options: one option, with help, for each field of a task, an architecture or a recipe."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from hopscope.core import catalogue
from hopscope.core.environment import check_threads
from hopscope.core.memory import memory_free
from hopscope.core.settings import Settings, flag_of, guess, hints_of, types_of
from hopscope.core.terminal import PROGRESS, Narrator, console as console, shown as visibly


def few_enough(_: click.Context, __: click.Parameter, threads: int | None) -> int | None:
    """Raise BadInput for more threads than the machine can use, before anything is written."""
    check_threads(threads)
    return threads


def completed(folder: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Shell completion for the names of variants in a folder; imports none of them."""
    return lambda _, __, begun: [name for name in catalogue.names(folder) if name.startswith(begun)]


class Place(click.Path):
    """The path of a file or folder. An empty path is refused, because it would mean the current folder."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not os.fspath(value):
            self.fail("an empty path names no file or folder; the folder you are in is ./", param, ctx)
        return super().convert(value, param, ctx)


PATH = Place(path_type=Path)


class Between(click.FloatRange):
    """A number within bounds. NaN is refused, too, though it is neither below nor above a bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number", param, ctx) if math.isnan(number) else number


def ask_for_progress(_: click.Context, __: click.Parameter, wanted: bool) -> None:
    """Switch progress on, for this command and the processes that it starts."""
    if wanted:
        os.environ[PROGRESS] = "1"


# Options that many commands share ---------------------------------------------------------------------------------

Decorator = Callable[[Any], Any]


def json_option(help: str) -> Decorator:
    """`--json`, with help of its own."""
    return click.option("--json", "as_json", is_flag=True, help=help)


def threads_option(help: str) -> Decorator:
    """`--threads`, with help of its own."""
    return click.option("--threads", type=click.IntRange(1), callback=few_enough, help=help)


def out_option(help: str, metavar: str = "DIR") -> Decorator:
    """`--out`, the folder to write into."""
    return click.option("--out", type=PATH, metavar=metavar, help=help)


as_json = json_option("Print JSON instead of text.")
threads = threads_option("CPU threads.")
device = click.option("--device", default="auto", show_default=True, metavar="auto|cpu|cuda", help="Where to train.")
run_folder = click.argument("folder", metavar="DIR", type=PATH)
dry_run = click.option("--dry-run", is_flag=True, help="Only estimate memory and time; nothing is written.")
progress = click.option(
    "--progress",
    is_flag=True,
    expose_value=False,
    callback=ask_for_progress,
    help="Show progress, also if stderr is no terminal.",
)
opened = click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")

#: How to install PyTorch where it is missing.
WITHOUT_TORCH = "run pip install torch --index-url https://download.pytorch.org/whl/cpu"


MOST = 15  # options in a command's --help
EVERY = "hopscope.every"  # key in a context's meta: --help-all was given


class Brief(click.Command):
    """A command whose --help shows at most `MOST` options, and whose --help-all shows every one.

    Args:
        common: names of the options that are always shown; others fill up the rest in order.
    """

    def __init__(self, *args: Any, common: Sequence[str] = (), **more: Any):
        super().__init__(*args, **more)
        self.common = common

    def every(self, ctx: click.Context) -> list[click.Parameter]:
        """Every parameter of the command."""
        return super().get_params(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = self.every(ctx)
        return [*params, HELP_ALL] if len(listed(params)) > MOST else params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        every = listed(self.get_params(ctx))
        if HELP_ALL in every and EVERY not in ctx.meta:
            first = [one for one in every if one.name in self.common or one in (HELP_ALL, self.get_help_option(ctx))]
            first += [one for one in every if one not in first][: MOST - len(first)]
            every = [one for one in every if one in first]
        with formatter.section("Options"):
            formatter.write_dl([record for one in every if (record := one.get_help_record(ctx))])


def listed(params: Iterable[click.Parameter]) -> list[click.Option]:
    """The options that are not hidden."""
    return [one for one in params if isinstance(one, click.Option) and not one.hidden]


def show_every(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print help with every option, and exit."""
    if wanted and not ctx.resilient_parsing:
        ctx.meta[EVERY] = True
        click.echo(ctx.get_help())
        ctx.exit()


#: The further option of a command with more options than --help shows.
HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show_every, help="Show every option."
)


class Setting(click.Option):
    """The option of a settings field; None if it is not given, so that a preset's value can be used."""

    def __init__(self, _: Sequence[str], field: dataclasses.Field[Any], field_type: Any):
        kind = next(t for t in types_of(field_type) if t is not type(None))
        flag = flag_of(field)
        default = "" if field.default is None or field.default == "" else f"  [default: {shown(field.default)}]"
        choices = field.metadata.get("choices")
        super().__init__(
            [f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}", field.name],
            type=kind,
            default=None,
            metavar=None if kind is bool else "|".join(choices) if choices else kind.__name__.upper(),
            help=field.metadata["help"] + default,
        )


def shown(value: object) -> str:
    """A default as help shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def options_of(settings: type[Settings]) -> list[click.Parameter]:
    """One option per field, in order of declaration."""
    return [Setting((), field, hints_of(settings)[field.name]) for field in dataclasses.fields(settings)]


def setting_options(settings: type[Settings], *but: str) -> Decorator:
    """Add one option per field to a command, except for the fields `but`."""

    def added(command: Any) -> Any:
        for field in reversed(dataclasses.fields(settings)):
            if field.name not in but:
                command = click.option(cls=Setting, field=field, field_type=hints_of(settings)[field.name])(command)
        return command

    return added


def pick(settings: type[Settings], given: Mapping[str, Any], otherwise: Mapping[str, Any] | None = None) -> Any:
    """Settings from the command line; a field that was not given comes from `otherwise`, else from its default."""
    names = [field.name for field in dataclasses.fields(settings)]
    chosen = {name: given[name] for name in names if given.get(name) is not None}
    return settings.from_dict({**(otherwise or {}), **chosen})


class Listed(click.Group):
    """A group of the commands in a folder; its help reads the first lines of their files and imports none of them."""

    folder: str

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        folder = self.folder_of(name)
        return self.command_in(folder, name) if name in catalogue.names(folder) else None

    def command_in(self, folder: str, name: str) -> click.Command:
        """The command of a folder's file."""
        with Narrator("loading"):  # PyTorch, for most
            return catalogue.module(folder, name).command

    def folder_of(self, name: str) -> str:
        """The folder of a command."""
        return self.folder

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands with their summaries, and options of the group; imports no variant."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.short_help_of(name)) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a name; the error for an unknown name suggests the nearest one."""
        try:
            return super().resolve_command(context, args)
        except click.UsageError:
            near = guess(args[0], self.nameable(context))
            if not near:
                raise
            what = "command" if self.folder.startswith("cli.") else self.folder.removesuffix("s")
            raise click.UsageError(f"there is no {what} {args[0]!r}{near}", context) from None

    def list_commands(self, context: click.Context) -> list[str]:
        return catalogue.names(self.folder)

    def nameable(self, context: click.Context) -> list[str]:
        """The names that may be suggested for an unknown one."""
        return self.list_commands(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.short_help_of(name)) for name in self.list_commands(context)])

    def short_help_of(self, name: str) -> str:
        """The first line of the file's docstring; of a command ("`hopscope list`: everything …") without its name."""
        line = catalogue.summary(self.folder_of(name), name)
        said = line.partition("`: ")[2]
        return said[:1].upper() + said[1:] or line


class PerVariant(Listed):
    """A command whose argument is a task or a formulation, and whose options include the settings of this variant.

    Args:
        folder: the folder of the variants, `tasks` or `formulations`.
        params: the options that all variants share.
        callback: called with the class of the variant and with all options by name.
        common: as of `Brief`.
    """

    def __init__(
        self,
        name: str,
        *,
        folder: str,
        params: list[click.Parameter],
        callback: Callable[[Any, dict[str, Any]], None],
        common: Sequence[str] = (),
        **more: Any,
    ):
        super().__init__(name, subcommand_metavar=f"{folder.removesuffix('s').upper()} [OPTIONS]", **more)
        self.folder, self.shared, self.run, self.common = folder, params, callback, common

    def command_in(self, folder: str, name: str) -> click.Command:
        kind: type[Settings] = catalogue.find(folder, name)
        return Brief(
            name,
            common=self.common,
            params=[*options_of(kind), *self.shared],
            callback=lambda **given: self.run(kind, given),
            help=catalogue.summary(folder, name),
        )


class Several(click.Option):
    """An option with one or more values, written one after the other (`--hops 1 2 3`) or each with its own flag."""


several = partial(click.option, cls=Several, multiple=True)


class SeveralCommand(Brief):
    """A command without arguments, so that every word after an option of several values is one of its values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {flag for option in self.params if isinstance(option, Several) for flag in option.opts}
        repeated: list[str] = []  # the arguments with the flag before each of its values
        flag: str | None = None
        needs_value = False  # whether the flag has no value yet
        for word in args:
            if word.startswith("-") and len(word) > 1:
                flag, needs_value = (word if word in flags else None), True
                repeated.append(word)
            else:
                repeated += [word] if flag is None or needs_value else [flag, word]
                needs_value = False
        return super().parse_args(ctx, repeated)


def say(words: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print words on stdout or stderr, with control characters made visible: part of them may come from a stranger."""
    where = sys.stderr if err else sys.stdout  # passed on, because click's own choice may write more than ASCII
    click.echo(visibly(str(words)), file=where, nl=nl)


def tell_files(files: Iterable[tuple[Iterable[Path], str]]) -> None:
    """Print the files that were written, one a line, and what they show."""
    for paths, words in files:
        say("\n".join(map(str, paths)) + f"\n    {words}")


UNVERIFIED = "finished before there were manifests; 'hopscope verify --write' writes one"


def say_unverified(folders: Iterable[Path], mend: str = "'hopscope verify --write' writes them") -> None:
    """Print on stderr which finished folders have no manifest, and how to write one. Raises Damaged."""
    from hopscope.runs.integrity import is_unverified

    old = [str(folder) for folder in folders if is_unverified(folder)]
    more = f" and {len(old) - 3} more" if len(old) > 3 else ""
    if old:
        say(f"hopscope: unverified, because there is no manifest: {', '.join(old[:3])}{more}; {mend}", err=True)


def free_words() -> str:
    """The free memory, as the end of a sentence; empty if the system does not report it."""
    from hopscope.runs.demand import gib

    return "" if (free := memory_free()) is None else f"; {gib(free)} are free"


def show_page(file: Path) -> None:
    """Open a page in the browser; print a message if there is none."""
    import webbrowser

    if not webbrowser.open(file.resolve().as_uri()):
        say(f"hopscope: no browser was found to open {file} with", err=True)


def print_json(value: Any) -> None:
    """Print one JSON value on stdout."""
    click.echo(json.dumps(value, indent=1, allow_nan=False))

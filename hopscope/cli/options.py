"""Settings as command-line options: every field of a task, an architecture or a recipe is one, with its help."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from hopscope.core import catalogue
from hopscope.core.environment import check_threads
from hopscope.core.memory import memory_free
from hopscope.core.settings import Settings, flag_of, hints_of, types_of
from hopscope.core.terminal import PROGRESS, Narrator, console as console, shown as visibly


def few_enough(_: click.Context, __: click.Parameter, threads: int | None) -> int | None:
    """Refuse more threads than could help anybody, before anything is written."""
    check_threads(threads)
    return threads


def completed(folder: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What the shell completes a name of a folder of variants with; none of them is imported."""
    return lambda _, __, begun: [name for name in catalogue.names(folder) if name.startswith(begun)]


class Place(click.Path):
    """The path of a file or folder; an empty text, which would mean the folder one stands in, is refused."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not os.fspath(value):
            self.fail("an empty path names no file or folder; the folder you are in is ./", param, ctx)
        return super().convert(value, param, ctx)


PATH = Place(path_type=Path)


def ask_for_progress(_: click.Context, __: click.Parameter, wanted: bool) -> None:
    """For this command, and the processes that it starts."""
    if wanted:
        os.environ[PROGRESS] = "1"


# Options that many commands share ---------------------------------------------------------------------------------

Decorator = Callable[[Any], Any]


def json_option(help: str) -> Decorator:
    """`--json`, where what is printed is more than the text."""
    return click.option("--json", "as_json", is_flag=True, help=help)


def threads_option(help: str) -> Decorator:
    """`--threads`, where more is to be said of it."""
    return click.option("--threads", type=click.IntRange(1), callback=few_enough, help=help)


def out_option(help: str, metavar: str = "DIR") -> Decorator:
    """`--out`, the folder to write into."""
    return click.option("--out", type=PATH, metavar=metavar, help=help)


as_json = json_option("Print JSON instead of text.")
threads = threads_option("CPU threads.")
device = click.option("--device", default="auto", show_default=True, metavar="auto|cpu|cuda", help="Where to train.")
run_folder = click.argument("folder", metavar="DIR", type=PATH)
dry_run = click.option(
    "--dry-run", is_flag=True, help="Only say how much memory and time it would take; nothing is written."
)
progress = click.option(
    "--progress",
    is_flag=True,
    expose_value=False,
    callback=ask_for_progress,
    help="Say how far it is, also where stderr is no terminal.",
)
opened = click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")

#: What to do about it.
WITHOUT_TORCH = "run pip install torch --index-url https://download.pytorch.org/whl/cpu"


MOST = 15  # options in a command's --help
EVERY = "hopscope.every"  # in a context's meta: all of them are asked for


class Brief(click.Command):
    """A command whose --help shows at most `MOST` options, and --help-all every one.

    Args:
        common: names of those that come first; then others are shown as long as there is room.
    """

    def __init__(self, *args: Any, common: Sequence[str] = (), **more: Any):
        super().__init__(*args, **more)
        self.common = common

    def every(self, ctx: click.Context) -> list[click.Parameter]:
        """All that can be given here."""
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
    """The options of which help tells."""
    return [one for one in params if isinstance(one, click.Option) and not one.hidden]


def show_every(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Help with all options."""
    if wanted and not ctx.resilient_parsing:
        ctx.meta[EVERY] = True
        click.echo(ctx.get_help())
        ctx.exit()


#: Where there are more options than help shows.
HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show_every, help="Show every option."
)


class Setting(click.Option):
    """An option made of a settings field; its value is None when it is not given, so that presets can step in."""

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
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def options_of(settings: type[Settings]) -> list[click.Parameter]:
    """One option per field, in order of declaration."""
    return [Setting((), field, hints_of(settings)[field.name]) for field in dataclasses.fields(settings)]


def setting_options(settings: type[Settings], *but: str) -> Decorator:
    """The same for a command, but for some fields."""

    def added(command: Any) -> Any:
        for field in reversed(dataclasses.fields(settings)):
            if field.name not in but:
                option = click.option(cls=Setting, field=field, field_type=hints_of(settings)[field.name])
                command = option(command)
        return command

    return added


def pick(settings: type[Settings], given: Mapping[str, Any], otherwise: Mapping[str, Any] | None = None) -> Any:
    """The settings as given on the command line, else as `otherwise` has them, else by default."""
    values = dict(otherwise or {})
    for field in dataclasses.fields(settings):
        if given.get(field.name) is not None:
            values[field.name] = given[field.name]
    return settings.from_dict(values)


class Listed(click.Group):
    """A group of the commands in a folder; its help reads the files' first lines, and imports none of them."""

    folder: str

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        folder = self.folder_of(name)
        if name not in catalogue.names(folder):
            return None
        with Narrator("loading"):  # PyTorch, for most
            return catalogue.module(folder, name).command

    def folder_of(self, name: str) -> str:
        """Where one of them stands."""
        return self.folder

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names with what they are, of a group's options too; no variant is imported."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.short_help_of(name)) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; of one that there is not, the nearest is named."""
        try:
            return super().resolve_command(context, args)
        except click.UsageError:
            near = get_close_matches(args[0], self.nameable(context), 1)
            if not near:
                raise
            what = "command" if self.folder.startswith("cli.") else self.folder.removesuffix("s")
            raise click.UsageError(f"there is no {what} {args[0]!r}; did you mean {near[0]!r}?", context) from None

    def list_commands(self, context: click.Context) -> list[str]:
        return catalogue.names(self.folder)

    def nameable(self, context: click.Context) -> list[str]:
        """What may have been meant."""
        return self.list_commands(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.short_help_of(name)) for name in self.list_commands(context)])

    def short_help_of(self, name: str) -> str:
        """The first line; of a command's, "`hopscope list`: everything …", what follows the name."""
        line = catalogue.summary(self.folder_of(name), name)
        said = line.partition("`: ")[2]
        return said[:1].upper() + said[1:] or line


class PerVariant(Listed):
    """A command with a task or a formulation as its argument, whose options then include the variant's own settings.

    Args:
        folder: where the variants are, `tasks` or `formulations`.
        params: the options that all of them share.
        callback: given the variant and all options.
        common: as those of `Brief`.
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

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        folder = self.folder_of(name)
        if name not in catalogue.names(folder):
            return None
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
    """A command without arguments, so that what follows an option of several values is another of its values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = {flag for option in self.params if isinstance(option, Several) for flag in option.opts}
        spread: list[str] = []
        of: str | None = None
        fresh = False  # whether the flag still waits for its first value
        for word in args:
            if word.startswith("-") and len(word) > 1:
                of, fresh = (word if word in flags else None), True
                spread.append(word)
            else:
                spread += [word] if of is None or fresh else [of, word]
                fresh = False
        return super().parse_args(ctx, spread)


def say(words: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print words on stdout, or on stderr, their control characters visible: part of them may be a stranger's."""
    where = sys.stderr if err else sys.stdout  # said, for click would not keep to ASCII
    click.echo(visibly(str(words)), file=where, nl=nl)


def tell_files(files: Iterable[tuple[Iterable[Path], str]]) -> None:
    """What was written, each file on a line of its own, and what it shows."""
    for paths, words in files:
        say("\n".join(map(str, paths)) + f"\n    {words}")


UNVERIFIED = "finished before there were manifests; 'hopscope verify --write' writes one"


def say_unverified(folders: Iterable[Path], mend: str = "'hopscope verify --write' writes them") -> None:
    """Once, on stderr: which finished folders nothing vouches for, and what mends that. Raises Damaged."""
    from hopscope.runs.integrity import is_unverified

    old = [str(folder) for folder in folders if is_unverified(folder)]
    more = f" and {len(old) - 3} more" if len(old) > 3 else ""
    if old:
        say(f"hopscope: unverified, for want of a manifest: {', '.join(old[:3])}{more}; {mend}", err=True)


def free_words() -> str:
    """How much memory is free, to follow what is needed; nothing where the system does not say."""
    from hopscope.runs.demand import gib

    return "" if (free := memory_free()) is None else f"; {gib(free)} are free"


def show_page(file: Path) -> None:
    """Open a page that was written in whatever shows pages here; say so where nothing does."""
    import webbrowser

    if not webbrowser.open(file.resolve().as_uri()):
        say(f"hopscope: no browser was found to open {file} with", err=True)


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    click.echo(json.dumps(value, indent=1, allow_nan=False))

"""The command line: `hopscope COMMAND`. Commands are files of `hopscope/cli/commands`, found by name.

Exit codes: 0 done; 2 bad input, with one sentence on stderr; 1 a fault of hopscope or of a server;
130 interrupted, resumable.
"""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EACCES, EEXIST, EISDIR, ENAMETOOLONG, ENOENT, ENOMEM, ENOTDIR, EPERM, EROFS
from typing import Any

import click

from hopscope.cli.options import WITHOUT_TORCH, Listed
from hopscope.core import catalogue, outside
from hopscope.core.environment import package_version
from hopscope.core.settings import BadInput
from hopscope.core.storage import CannotSave
from hopscope.core.strangers import visible
from hopscope.core.terminal import PLAIN, PROGRESS

#: Errors of writing that the user can avoid by choosing another place; they exit with 2.
USERS_CHOICE = (EACCES, EPERM, EROFS, ENOENT, ENOTDIR, EEXIST, EISDIR, ENAMETOOLONG)


LANGUAGE = "cli.lm"  # commands about language models
#: Commands as `hopscope --help` shows them.
GROUPS = {
    "Start here": ("demo", "list", "sample", "explore"),
    "Train": ("train", "show", "draw", "runs", "sweep", "import", "build"),
    "Read circuits": ("circuit", "emerge", "depth", "export"),
    "Language models": ("lm",),
    "Reproduce": ("reproduce", "report", "board"),
    "Keep house": ("verify", "doctor", "new"),
}


class Commands(Listed):
    """All commands, each loaded when it is called."""

    folder = "cli.commands"

    def folder_of(self, name: str) -> str:
        """The folder of a command. Commands of `hopscope lm` also work by their old names, without `lm`."""
        return LANGUAGE if name in catalogue.names(LANGUAGE) else self.folder

    def nameable(self, context: click.Context) -> list[str]:
        return [*self.list_commands(context), *(f"lm {name}" for name in catalogue.names(LANGUAGE))]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group; a command that is in no group of `GROUPS` is listed under "Others"."""
        left = {name: self.short_help_of(name) for name in self.list_commands(context)}
        for title, names in {**GROUPS, "Others": tuple(left)}.items():
            rows = [(name, left.pop(name)) for name in names if name in left]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def bring(context: click.Context, _: click.Parameter, folders: tuple[str, ...]) -> None:
    """Put the user's folders before the known ones, for this command and the processes that it starts."""
    if folders:
        os.environ[outside.VARIABLE] = outside.added(folders)
        outside.folders()  # raises BadInput for one that does not exist


@contextmanager
def for_one_command() -> Iterator[None]:
    """Restore `HOPSCOPE_PATH` and `HOPSCOPE_PROGRESS` on exit, because one process may run several commands."""
    variables = (outside.VARIABLE, PROGRESS)
    before = {name: os.environ[name] for name in variables if name in os.environ}
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_version(), prog_name="hopscope")
@click.option(
    "--with",
    multiple=True,
    metavar="DIR",
    is_eager=True,
    expose_value=False,
    callback=bring,
    help="Also use the tasks, models, studies, … in this folder of yours, as HOPSCOPE_PATH does; repeatable.",
)
def hopscope() -> None:
    """A laboratory for multi-hop retrieval in transformers.

    Start with `hopscope demo`: it trains a model on the retrieval problem and draws what it learnt.
    """


def sentence(error: click.UsageError) -> str:
    """click's error message as one sentence, with the command that shows help."""
    message = plainly(" ".join(error.format_message().split()).rstrip("."))
    where = error.ctx.command_path if error.ctx else "hopscope"
    return f"{message[:1].lower()}{message[1:]}; see '{where} --help'"


def unnamed(context: click.Context) -> click.UsageError:
    """The error for a group without a subcommand, where click would only print help."""
    group = context.command
    assert isinstance(group, click.Group)
    what, names = group.subcommand_metavar.split()[0], ", ".join(group.list_commands(context))
    return click.UsageError(f"missing argument {what!r}: choose one of {names}", context)


#: Patterns in click's error messages, and their replacements.
PLAINLY = (
    (r"is not a valid (integer|float) range$", r"is not a valid \1"),
    (r"is not a valid float$", "is not a number"),
    (r"(\S+) is not in the range ([^<>=\s]+)<=x<=(\S+)$", r"it must be from \2 to \3; got \1"),
    (r"(\S+) is not in the range x>=(\S+)$", r"it must be at least \2; got \1"),
    (r"(\S+) is not in the range x<=(\S+)$", r"it must be at most \2; got \1"),
    (r"[.;] [Dd]id you mean (.*?)\??$", r" (did you mean \1?)"),
    (r"\. \(Did you mean one of: (.*)\?\)$", r" (did you mean one of: \1?)"),
    (r"\. \(Possible options: (.*)\)$", r" (is it one of \1?)"),
    (r"[Uu]nexpected extra arguments? \((.*)\)$", r"more than was expected: \1"),
)


def plainly(message: str) -> str:
    """click's message in simpler words, so that it fits into one sentence."""
    for theirs, ours in PLAINLY:
        message = re.sub(theirs, ours, message)
    return message


def warn_plainly(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a warning on one line, without its place in the source."""
    print(f"hopscope: warning: {visible(message)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of hopscope; return its exit code."""
    return run_command(hopscope, "hopscope", arguments)


def run_command(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a click command, of hopscope or of a tool, with hopscope's handling of errors; return its exit code."""
    warnings.showwarning = warn_plainly
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN)
    with for_one_command():
        return answer(command, name, arguments)


def answer(command: click.Command, name: str, arguments: Sequence[str] | None) -> int:
    """Run a command; turn every error into one sentence on stderr and an exit code."""
    try:
        code = command.main(args=arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
        return code if type(code) is int else 0  # of click's Exit, which it hands back; commands return nothing
    except click.exceptions.NoArgsIsHelpError as error:
        if error.ctx is not None and error.ctx.parent is not None:
            return complain(sentence(unnamed(error.ctx)), 2)
        print(error.format_message())
        return 2
    except click.UsageError as error:
        return complain(sentence(error), 2)
    except BadInput as error:
        return complain(str(error), 2)
    except CannotSave as error:
        return complain(str(error.strerror), 2 if error.errno in USERS_CHOICE else 1)
    except (KeyboardInterrupt, click.Abort) as stop:
        words = str(stop.__cause__ or stop)  # click wraps the interrupt in an Abort
        return complain(words or "interrupted; the same command goes on from what was kept, or starts anew", 130)
    except (BrokenPipeError, SystemExit) as closed:  # by the reader, such as `head`; click then exits with 1
        if getattr(closed, "code", 1) != 1:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            return complain(f"this needs PyTorch, which is not installed; {WITHOUT_TORCH}", 2)
        if known := short_of_memory(error) or out_of_reach(error) or outside.fault(error):
            return complain(known, 2)
        traceback.print_exc()
        return complain("this is a fault of ours, not yours; please report it with the lines above", 1)


#: PyTorch's messages for a failed allocation, on the CPU and on a GPU; only the first kind gives the bytes.
TOO_LITTLE = re.compile(r"can't allocate memory|not enough memory|out of memory|std::bad_alloc")
WANTED = re.compile(r"tried to allocate (\d+) bytes")


def short_of_memory(error: Exception) -> str | None:
    """The sentence for an error of memory; None for any other error."""
    known = isinstance(error, RuntimeError) and TOO_LITTLE.search(str(error))
    if not (isinstance(error, MemoryError) or known or (isinstance(error, OSError) and error.errno == ENOMEM)):
        return None
    match = WANTED.search(str(error))
    wanted = f": {int(match[1]) / (1 << 30):.1f} GiB more are needed" if match else ""
    return f"there is not enough memory here{wanted}; choose smaller sizes, or free some memory"


def out_of_reach(error: Exception) -> str | None:
    """The sentence for a path that is too long, or that others may not look at; None for any other error."""
    if isinstance(error, OSError) and error.errno in (EACCES, ENAMETOOLONG):
        return f"could not read {error.filename}: {error.strerror}"
    return None


def complain(message: str, code: int) -> int:
    """Print an error message on stderr; return the exit code."""
    print(f"hopscope: {visible(message)}", file=sys.stderr)
    return code

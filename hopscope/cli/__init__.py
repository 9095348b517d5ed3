"""The command line: `hopscope COMMAND`. Commands are files of `hopscope/cli/commands`, found by name.

Exit codes: 0 done; 2 bad input, with one sentence on stderr; 1 a fault of ours, or a server's;
130 interrupted, resumable.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from hopscope.cli.options import WITHOUT_TORCH, Listed
from hopscope.core import catalogue, outside
from hopscope.core.environment import package_version
from hopscope.core.settings import BadInput
from hopscope.core.storage import CannotSave
from hopscope.core.strangers import visible
from hopscope.core.terminal import PLAIN, PROGRESS

#: Errors of writing that choosing another place mends.
USERS_CHOICE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


LANGUAGE = "cli.lm"  # commands about language models
#: Commands as `hopscope --help` shows them.
GROUPS = {
    "Start here": ("demo", "list", "sample", "explore"),
    "Train": ("train", "show", "draw", "runs", "sweep", "import", "build"),
    "Read circuits": ("circuit", "emerge", "depth", "export"),
    "Language models": ("lm",),
    "Reproduce": ("reproduce", "report"),
    "Keep house": ("verify", "doctor", "new"),
}


class Commands(Listed):
    """All commands, loaded when they are needed."""

    folder = "cli.commands"

    def folder_of(self, name: str) -> str:
        """Commands of `hopscope lm` once stood here: their old names go on working, and are not listed."""
        return LANGUAGE if name in catalogue.names(LANGUAGE) else self.folder

    def nameable(self, context: click.Context) -> list[str]:
        return [*self.list_commands(context), *(f"lm {name}" for name in catalogue.names(LANGUAGE))]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """By what people want; a command that no group names, such as a new one, is among the others."""
        left = {name: self.short_help_of(name) for name in self.list_commands(context)}
        for title, names in {**GROUPS, "Others": tuple(left)}.items():
            rows = [(name, left.pop(name)) for name in names if name in left]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def bring(context: click.Context, _: click.Parameter, folders: tuple[str, ...]) -> None:
    """Put folders of one's own before those that are known, for this command and the processes that it starts."""
    if folders:
        os.environ[outside.VARIABLE] = outside.added(folders)
        outside.folders()  # complain about any that is not there


@contextmanager
def for_one_command() -> Iterator[None]:
    """Leave folders and progress as they were asked for before: a process may run several commands."""
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
    """click's complaint as one sentence that also says where help is."""
    message = plainly(" ".join(error.format_message().split()).rstrip("."))
    where = error.ctx.command_path if error.ctx else "hopscope"
    return f"{message[:1].lower()}{message[1:]}; see '{where} --help'"


def unnamed(context: click.Context) -> click.UsageError:
    """The complaint that nothing follows a group's name, where click would print its help alone."""
    group = context.command
    assert isinstance(group, click.Group)
    what = group.subcommand_metavar.split()[0]
    return click.UsageError(
        f"missing argument {what!r}: choose one of {', '.join(group.list_commands(context))}", context
    )


#: What click says, and how we put it.
PLAINLY = (
    (r"is not a valid (integer|float) range$", r"is not a valid \1"),
    (r"is not a valid float$", "is not a number"),
    (r"(\S+) is not in the range ([^<>=\s]+)<=x<=(\S+)$", r"it must be from \2 to \3; got \1"),
    (r"(\S+) is not in the range x>=(\S+)$", r"it must be at least \2; got \1"),
    (r"(\S+) is not in the range x<=(\S+)$", r"it must be at most \2; got \1"),
    (r"\. Did you mean (.*?)\??$", r" (did you mean \1?)"),
    (r"; did you mean (.*?)\??$", r" (did you mean \1?)"),
    (r"\. \(Did you mean one of: (.*)\?\)$", r" (did you mean one of: \1?)"),
    (r"\. \(Possible options: (.*)\)$", r" (is it one of \1?)"),
    (r"[Uu]nexpected extra arguments? \((.*)\)$", r"more than was expected: \1"),
)


def plainly(message: str) -> str:
    """click's words in a plainer order, as part of one sentence."""
    for theirs, ours in PLAINLY:
        message = re.sub(theirs, ours, message)
    return message


def warn_plainly(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Warnings as one line, without the place in the source where they arose."""
    print(f"hopscope: warning: {visible(message)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of hopscope; returns the exit code."""
    return run_command(hopscope, "hopscope", arguments)


def run_command(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command, ours or a tool's, as all are run; returns the exit code."""
    warnings.showwarning = warn_plainly
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN)
    with for_one_command():
        return answer(command, name, arguments)


def answer(command: click.Command, name: str, arguments: Sequence[str] | None) -> int:
    """Run a command; whatever goes wrong is told in one sentence, and in the exit code."""
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
        words = str(stop.__cause__ or stop)  # click hides what interrupted it behind an Abort
        return complain(words or "interrupted; the same command starts again", 130)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            return complain(f"this needs PyTorch, which is not installed; {WITHOUT_TORCH}", 2)
        if too_little := short_of_memory(error):
            return complain(too_little, 2)
        if sentence_of_theirs := outside.fault(error):
            return complain(sentence_of_theirs, 2)
        traceback.print_exc()
        return complain("this is a fault of ours, not yours; please report it with the lines above", 1)


#: How PyTorch says that memory cannot be had, on the CPU and on a GPU; only of the first does it name the bytes.
TOO_LITTLE = re.compile(r"can't allocate memory|not enough memory|out of memory|std::bad_alloc")
WANTED = re.compile(r"tried to allocate (\d+) bytes")


def short_of_memory(error: Exception) -> str | None:
    """What is said where memory could not be had; None of any other fault."""
    known = isinstance(error, RuntimeError) and TOO_LITTLE.search(str(error))
    if not (isinstance(error, MemoryError) or known or (isinstance(error, OSError) and error.errno == errno.ENOMEM)):
        return None
    wanted = (
        f": {int(found[1]) / (1 << 30):.1f} GiB more were asked for" if (found := WANTED.search(str(error))) else ""
    )
    return f"there is not enough memory here{wanted}; make what you ask for smaller, or free some"


def complain(message: str, code: int) -> int:
    print(f"hopscope: {visible(message)}", file=sys.stderr)
    return code

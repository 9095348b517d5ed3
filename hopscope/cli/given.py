"""Which options of the running command were given, and refusing those that would have no effect."""

from __future__ import annotations

import click
from click.core import ParameterSource

from hopscope.core.settings import BadInput


def given_here(name: str) -> bool:
    """Whether an option of the running command was given on its command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_beside(what: str, *names: str) -> None:
    """Raise BadInput for an option that was given and would have no effect; `what` says why, after the option."""
    for name in filter(given_here, names):
        raise BadInput(f"{option_of(name)} {what}; leave it out")


def option_of(name: str) -> str:
    """The flag of an option of the running command."""
    command = click.get_current_context().command
    return next(max(one.opts, key=len) for one in command.params if one.name == name)

"""`hopscope doctor`: check the machine and the optional parts, and say what to install for those that are missing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click

from hopscope.cli.options import WITHOUT_TORCH, as_json, console, print_json
from hopscope.core.environment import cpp_compiler, package_version
from hopscope.core.memory import memory_free

GIB = 1 << 30


class Finding(NamedTuple):
    """One check: what was looked for, whether it is there, details, and what to do if it is not."""

    what: str
    there: bool
    about: str
    otherwise: str = ""


@click.command("doctor")
@as_json
def command(as_json: bool) -> None:
    """Check PyTorch, memory, cores, folders and optional parts, and say what to install for those that are missing."""
    found = [*machine(), *parts()]
    if as_json:
        print_json([one._asdict() for one in found])
    else:
        tell(found)
    if not next(one.there for one in found if one.what == "PyTorch"):
        click.get_current_context().exit(2)


def machine() -> list[Finding]:
    """Check the machine, PyTorch, and the folder for runs."""
    free, here = memory_free(), Path.cwd()
    disk = shutil.disk_usage(here).free
    memory = f"{free / GIB:.1f} GiB free" if free is not None else "unknown on this system"
    return [
        Finding("hopscope", True, f"{package_version()} on Python {platform.python_version()}, {sys.platform}"),
        torch_build(),
        Finding("memory", free is None or free > 2 * GIB, memory, "training takes some 2 GiB: close other programs"),
        Finding("cores", True, f"{os.cpu_count()}"),
        Finding("disk", disk > GIB, f"{disk / GIB:.1f} GiB free at {here}", "free some space"),
        Finding("folder", os.access(here, os.W_OK), f"{here}", "go to a folder that you may write to"),
    ]


def torch_build() -> Finding:
    """Check PyTorch: its version, build, threads and GPU."""
    if find_spec("torch") is None:
        return Finding("PyTorch", False, "not installed", WITHOUT_TORCH)
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU"
    return Finding("PyTorch", True, f"{torch.__version__}, {build}, {torch.get_num_threads()} threads, {gpu}")


#: Optional parts: a module or program, what it is for, and how to get it.
MODULES = {
    "transformers": ("language models in this process", "pip install 'hopscope[language]'"),
    "httpx2": ("language models behind HTTP", "pip install 'hopscope[language]'"),
    "inspect_ai": ("inspect tasks", "pip install 'hopscope[inspect]'"),
    "ray": ("sweeps over several machines", "pip install 'hopscope[ray]'"),
    "anywidget": ("the explorer in a notebook", "pip install 'hopscope[explorer]'"),
}


def parts() -> list[Finding]:
    """Check the optional parts."""
    found = [Finding(name, find_spec(name) is not None, *about) for name, about in MODULES.items()]
    compiler, use = cpp_compiler() is not None, "torch.compile, which speeds up large runs"
    return [*found, Finding("C++ compiler", compiler, use, "install g++")]


def tell(found: list[Finding]) -> None:
    """Print a line per check: whether it passed, details, and what to do."""
    from hopscope.core.terminal import tinted

    out = console()
    for what, there, about, otherwise in found:
        mark = tinted("yes", "green") if there else tinted(" no", "yellow")
        out.print(mark, f"{what}: {about}" + ("" if there or not otherwise else f" \u2014 {otherwise}"))

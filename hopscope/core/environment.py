"""What a run's bits depend on beside its configuration: code, PyTorch, threads, device, compilation.

PyTorch is imported where it is asked, for the command line also starts here, and not every command needs it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@cache
def code_version() -> str:
    """The package's version, and a hash of its source: what a number in `results/` was made with."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{package_version()}+{digest.hexdigest()[:8]}"


def package_version() -> str:
    """The installed version, or that of a bare checkout."""
    try:
        return version("hopscope")
    except PackageNotFoundError:
        return "0.0.0"


def describe(device: torch.device, compiled: bool) -> dict[str, str | int | bool]:
    """Everything that must not change for a resumed run to be bit-identical."""
    import torch

    cuda = device.type == "cuda"
    return {
        "code": code_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if cuda else f"cpu {platform.machine()}",
        "compiled": compiled,
    }


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where there is one. Raises BadInput for a device that is not there."""
    import torch

    from hopscope.core.settings import BadInput

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise BadInput(f"device must be auto, cpu or cuda; got {name!r}")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput("device cuda was asked for, but PyTorch sees no GPU here; use --device cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise BadInput(f"device must be auto, cpu or cuda, or one GPU such as cuda:1; got {name!r}") from error


def has_compiler() -> bool:
    """Whether `torch.compile` can make code for the CPU here."""
    names = (os.environ.get("CXX", ""), "g++", "clang++", "c++")
    return any(name and shutil.which(name) for name in names)

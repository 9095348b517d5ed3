"""Durable files: written under a temporary name, synced and renamed; read only if unaltered.

A folder's manifest holds the size and sha256 of each file. Without it a flipped bit inside a tensor, or a changed digit
in a table, would load without an error. A checkpoint is written at once, with its manifest. A folder that grows file by
file lists each file when it is complete (`enlist`), and unlists it before rewriting it (`unlist`). A kill in between
leaves an unlisted file, never one that seems damaged. Formats are safetensors, JSON and text; nothing is unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import filelock

from hopscope.core.settings import BadInput
from hopscope.core.strangers import json_of, misfit

MANIFEST = "manifest.json"
LISTING = ".manifest.lock"  # held while a manifest is rewritten, because two commands may write into one folder
TEMPORARY = ".tmp-"


class CannotSave(OSError):
    """Something could not be written; what was complete before still is."""


class Damaged(BadInput):
    """A file is missing, cut short or altered; the message names it."""


class Busy(BadInput):
    """Another process holds the lock of the folder."""


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into CannotSave: one sentence with the file, the reason and what to do."""
    try:
        yield
    except CannotSave:
        raise
    except OSError as error:
        advice = {
            errno.ENOSPC: "free some space, then run the same command again",
            errno.EDQUOT: "free some of your quota, then run the same command again",
            errno.EROFS: "choose a folder that is not read-only",
            **dict.fromkeys((errno.EACCES, errno.EPERM), "choose a folder that you may write to"),
            errno.ENAMETOOLONG: "choose a shorter name",
            errno.ENOENT: "choose a folder that there is",
            errno.ENOTDIR: "choose a folder: part of this path is a file",
            errno.EEXIST: "choose a folder: there is a file of that name",
            errno.EISDIR: "choose a file: there is a folder of that name",
        }.get(error.errno or 0, "then run the same command again")
        reason = error.strerror or str(error)
        raise CannotSave(error.errno, f"could not write {path}: {reason}; {advice}") from error


def make_folder(path: Path) -> None:
    """Make a folder, with its parents, unless it exists. Raises CannotSave."""
    with clear_errors(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def alone(lock: Path, otherwise: str) -> Iterator[None]:
    """Hold a lock. Raises Busy, with the sentence `otherwise`, if another process holds it; CannotSave if it fails."""
    held = filelock.FileLock(lock)
    with clear_errors(lock):
        try:
            held.acquire(timeout=0)
        except filelock.Timeout as error:  # an OSError too, so it must be caught first
            raise Busy(otherwise) from error
    try:
        yield
    finally:
        held.release()


def cache_folder() -> Path:
    """The folder of files that can be recomputed: `$HOPSCOPE_CACHE`, else `~/.cache/hopscope`."""
    return Path(os.environ.get("HOPSCOPE_CACHE") or Path.home() / ".cache" / "hopscope").expanduser()


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
    """Replace a file atomically. Raises CannotSave."""
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
    """Replace a JSON file atomically. Raises CannotSave."""
    write_file(path, to_json(value))


def to_json(value: Any) -> bytes:
    """Indented JSON as bytes. Raises ValueError for NaN and infinities, which JSON does not have."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """A JSON file's value. Raises Damaged if it is missing or not JSON."""
    return parse_json(path, read_file(path))


def parse_json(path: Path, data: bytes) -> Any:
    """The value of a JSON file's bytes. Raises Damaged, naming `path`, if they are not JSON."""
    try:
        return json_of(data)
    except ValueError as error:
        raise Damaged(f"{path} is cut short or altered: it is not JSON") from error


def parse_shaped(path: Path, data: bytes, shape: Any) -> Any:
    """As `parse_json`, and check the value's shape (`hopscope.core.strangers.misfit`). Raises Damaged."""
    value = parse_json(path, data)
    if (bad := misfit(value, shape, "its value")) is not None:
        raise Damaged(f"{path} is altered: {bad.removeprefix('its value.')} is missing, or is not what it should be")
    return value


def parse_lines(path: Path, data: bytes) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file, without a last line that a kill cut short. Raises Damaged."""
    try:
        values = [json_of(line) for line in data.split(b"\n")[:-1]]
    except ValueError as error:
        raise Damaged(f"{path} is altered: a line of it is not JSON") from error
    if not all(isinstance(value, dict) for value in values):
        raise Damaged(f"{path} is altered: one of its lines is not a JSON object")
    return values


def read_file(path: Path) -> bytes:
    """A file's bytes. Raises Damaged if it is missing, BadInput if it cannot be read or is no regular file (a pipe)."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"could not read {path}: it is not a regular file")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise Damaged(f"{path} is missing") from error
    except OSError as error:
        raise BadInput(f"could not read {path}: {error.strerror}") from error


def append(path: Path, data: bytes) -> None:
    """Append to a file; durable only after `sync_file`. Raises CannotSave."""
    with clear_errors(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            write_all(handle, data)
        finally:
            os.close(handle)


def sync_file(path: Path) -> int:
    """Make appended bytes durable; returns the file's length in bytes."""
    with clear_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.fsync(handle)
            return os.fstat(handle).st_size
        finally:
            os.close(handle)


def write_folder(path: Path, files: Mapping[str, bytes], about: Mapping[str, Any]) -> None:
    """Replace a folder atomically, with a manifest that holds `about` and every file's size and sha256.

    Raises CannotSave.
    """
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    manifest = to_manifest({name: entry(data) for name, data in files.items()}, about)
    with clear_errors(path):
        try:
            discard(temporary)
            os.mkdir(temporary)
            for name, data in {**files, MANIFEST: manifest}.items():
                write_synced(temporary / name, data)
            put_folder(temporary, path)
        except BaseException:
            discard(temporary)
            raise


def put_folder(temporary: Path, path: Path) -> None:
    """Rename a folder of synced files to its final name, replacing a damaged one."""
    sync_folder(temporary)
    discard(path)  # only a damaged folder can be here: an undamaged one is never written twice
    os.replace(temporary, path)
    sync_folder(path.parent)


# Manifests -------------------------------------------------------------------------------------------------------


def entry(data: bytes) -> dict[str, Any]:
    """A file's entry in a manifest: its size in bytes and its sha256."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def to_manifest(files: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest with these entries, the values of `about` and a hash of itself."""
    manifest = {"files": files, **about}
    return to_json({**manifest, "manifest_sha256": fingerprint(manifest)})


def fingerprint(value: Any) -> str:
    """The sha256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """A folder's manifest. Raises Damaged if it is missing or altered."""
    if os.path.lexists(path / MANIFEST) and not (path / MANIFEST).is_file():
        raise Damaged(f"{path / MANIFEST} is altered: it is not a regular file")
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise Damaged(f"{path / MANIFEST} is altered: it lists no files")
    stated = manifest.pop("manifest_sha256", None)
    if stated != fingerprint(manifest):
        raise Damaged(f"{path / MANIFEST} is altered: its sha256 does not match")
    if not all(is_entry(name, about) for name, about in manifest["files"].items()):
        raise Damaged(f"{path / MANIFEST} is altered: one of its entries is not valid")
    return manifest


def is_entry(name: str, about: object) -> bool:
    """Whether a manifest's entry is valid: a path within the folder, a size and a sha256."""
    inside = not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
    return inside and isinstance(about, dict) and type(about.get("bytes")) is int and type(about.get("sha256")) is str


def read_folder(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Some of a folder's files, checked against the manifest. Raises Damaged, naming what differs."""
    listed = read_manifest(path)["files"]
    return {name: read_checked(path / name, listed.get(name)) for name in names}


def read_checked(path: Path, expected: Mapping[str, Any] | None) -> bytes:
    """A file's bytes, if size and sha256 match its manifest entry. Raises Damaged."""
    if expected is None:
        raise Damaged(f"{path} is not in its folder's manifest")
    if not path.exists():
        raise Damaged(f"{path} is missing, though its folder's manifest lists it")
    try:
        if (size := path.stat().st_size) != expected["bytes"]:  # checked first, for the file may be of any size
            raise Damaged(f"{path} is cut short or grown: {size} bytes, not {expected['bytes']}")
        data = read_file(path)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    if (digest := hashlib.sha256(data).hexdigest()) != expected["sha256"]:
        short = f"{digest[:8]}…, not {expected['sha256'][:8]}…"
        raise Damaged(f"{path} is altered: its sha256 does not match the manifest ({short})")
    return data


def listed(folder: Path) -> dict[str, Any]:
    """A folder's manifest entries, by file name; empty if it has no manifest. Raises Damaged."""
    return read_manifest(folder)["files"] if os.path.lexists(folder / MANIFEST) else {}


def read_listed(folder: Path, name: str) -> bytes:
    """A file's bytes, checked if the folder's manifest lists it. Raises Damaged."""
    while True:
        stamp = manifest_stamp(folder)
        if (expected := listed(folder).get(name)) is None:
            return read_file(folder / name)
        try:
            return read_checked(folder / name, expected)
        except Damaged as damage:
            if manifest_stamp(folder) == stamp:  # else it was being rewritten: try again
                raise Damaged(f"{damage}; 'hopscope verify {folder}' says what to do") from None


def manifest_stamp(folder: Path) -> bytes:
    """The manifest's bytes, to see whether it was rewritten; empty if there is none."""
    return (folder / MANIFEST).read_bytes() if (folder / MANIFEST).is_file() else b""


def enlist(folder: Path, names: Iterable[str], *, instead_of: Iterable[str] = (), **about: Any) -> None:
    """Add files, as they are now, to the manifest of their folder, which is made if there is none.

    Args:
        folder: whose manifest it is.
        names: files, as paths relative to the folder.
        instead_of: names to remove from the manifest.
        about: further values for the manifest.

    Raises:
        CannotSave: it cannot be written. Damaged: the manifest that is there is altered, or a file is missing.
    """
    relist(folder, {name: entry(read_file(folder / name)) for name in names}, instead_of, about)


def unlist(folder: Path, names: Iterable[str]) -> None:
    """Remove files from the manifest of their folder, before they are rewritten. Raises CannotSave, Damaged."""
    if set(listed(folder)) & {*names}:
        relist(folder, {}, names, {})


def write_listed(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, made if need be, and add them to its manifest. Raises CannotSave, Damaged."""
    make_folder(folder)
    unlist(folder, files)
    for name, data in files.items():
        write_file(folder / name, data)
    enlist(folder, files)
    return [folder / name for name in files]


def relist(folder: Path, add: Mapping[str, Any], drop: Iterable[str], about: Mapping[str, Any]) -> None:
    with clear_errors(folder / LISTING), filelock.FileLock(folder / LISTING):
        before = read_manifest(folder) if os.path.lexists(folder / MANIFEST) else {"files": {}}
        kept = {name: value for name, value in before.pop("files").items() if name not in {*drop, *add}}
        write_file(folder / MANIFEST, to_manifest(kept | dict(add), before | dict(about)))


def discard(path: Path) -> None:
    """Remove a file or folder if it exists; errors are ignored.

    A folder is renamed first, so that a kill never leaves half of it under its name. A leftover temporary folder is
    harmless: nothing reads it, and the next call tries again.
    """
    try:
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
        elif not path.name.startswith(TEMPORARY):
            shutil.rmtree(path.with_name(f"{TEMPORARY}gone-{path.name}"), ignore_errors=True)
            path = path.rename(path.with_name(f"{TEMPORARY}gone-{path.name}"))
    except OSError:
        pass  # rmtree below tries once more under the old name
    shutil.rmtree(path, ignore_errors=True)

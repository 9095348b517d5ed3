"""Files that survive a crash: written whole under a temporary name, synced, renamed; read only if unaltered.

A folder of files carries a manifest with the size and sha256 of each, because a flipped bit inside a tensor loads
without any error in every common format, and a changed digit in any table. A checkpoint is written at once, with its
manifest; a folder that grows file by file lists each when it is whole (`enlist`), and takes it off the list before it
is written anew (`unlist`), so that a kill leaves a file that nothing vouches for, never one that seems damaged.
Everything is safetensors, JSON or text; nothing is ever unpickled.
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
LISTING = ".manifest.lock"  # held while a manifest is rewritten: two commands may write into a folder at once
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


def make_folder(path: Path) -> None:
    """A folder, with those that it is in, unless it is there. Raises CannotSave."""
    with clear_errors(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def alone(lock: Path, otherwise: str) -> Iterator[None]:
    """Be the one process that holds a lock. Raises CannotSave; and Busy, in these words, where another holds it."""
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
    """Where what can be made again is kept: `$HOPSCOPE_CACHE`, else `~/.cache/hopscope`."""
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
    return parse_json(path, read_file(path))


def parse_json(path: Path, data: bytes) -> Any:
    """The value of what a JSON file holds. Raises Damaged."""
    try:
        return json_of(data)
    except ValueError as error:
        raise Damaged(f"{path} is cut short or altered: it is no JSON") from error


def parse_shaped(path: Path, data: bytes, shape: Any) -> Any:
    """The value of what a JSON file holds, if it is of a shape (`hopscope.core.strangers.misfit`). Raises Damaged."""
    value = parse_json(path, data)
    if (bad := misfit(value, shape, "its value")) is not None:
        raise Damaged(f"{path} is altered: {bad.removeprefix('its value.')} is missing, or is not what it should be")
    return value


def parse_lines(path: Path, data: bytes) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; a last line cut short by a kill is left out. Raises Damaged."""
    try:
        values = [json_of(line) for line in data.split(b"\n")[:-1]]
    except ValueError as error:
        raise Damaged(f"{path} is altered: a line of it is no JSON") from error
    if not all(isinstance(value, dict) for value in values):
        raise Damaged(f"{path} is altered: a line of it is no JSON object")
    return values


def read_file(path: Path) -> bytes:
    """A file's bytes. Raises Damaged if there is none; what is no file, such as a pipe, is not waited for."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"could not read {path}: it is no file")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise Damaged(f"{path} is missing") from error
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
    """Give a folder whose files are synced its name; what is damaged under that name goes."""
    sync_folder(temporary)
    discard(path)  # only a damaged folder can stand here: whole ones are not made twice
    os.replace(temporary, path)
    sync_folder(path.parent)


# Manifests -------------------------------------------------------------------------------------------------------


def entry(data: bytes) -> dict[str, Any]:
    """What a manifest says of a file."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def to_manifest(files: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]) -> bytes:
    """A manifest of these entries, with what else it says, and a hash of itself."""
    manifest = {"files": files, **about}
    return to_json({**manifest, "manifest_sha256": fingerprint(manifest)})


def fingerprint(value: Mapping[str, Any]) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """A folder's manifest. Raises Damaged if it is missing or altered."""
    if os.path.lexists(path / MANIFEST) and not (path / MANIFEST).is_file():
        raise Damaged(f"{path / MANIFEST} is altered: it is no file")
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise Damaged(f"{path / MANIFEST} is altered: it lists no files")
    stated = manifest.pop("manifest_sha256", None)
    if stated != fingerprint(manifest):
        raise Damaged(f"{path / MANIFEST} is altered: its sha256 does not match")
    if not all(is_entry(name, about) for name, about in manifest["files"].items()):
        raise Damaged(f"{path / MANIFEST} is altered: an entry of it is none")
    return manifest


def is_entry(name: str, about: object) -> bool:
    """Whether a manifest may say this: of a file within its folder, how long it is and its sha256."""
    inside = not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
    return inside and isinstance(about, dict) and type(about.get("bytes")) is int and type(about.get("sha256")) is str


def read_folder(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Some of a folder's files, checked against the manifest. Raises Damaged, naming what differs."""
    listed = read_manifest(path)["files"]
    return {name: read_checked(path / name, listed.get(name)) for name in names}


def read_checked(path: Path, expected: Mapping[str, Any] | None) -> bytes:
    """A file's bytes, if they are those that a manifest's entry tells of. Raises Damaged."""
    if expected is None:
        raise Damaged(f"{path} is not in its folder's manifest")
    if not path.exists():
        raise Damaged(f"{path} is missing, though its folder's manifest lists it")
    try:
        if (size := path.stat().st_size) != expected["bytes"]:  # before it is read: it might have grown without end
            raise Damaged(f"{path} is cut short or grown: {size} bytes, not {expected['bytes']}")
        data = read_file(path)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    if (found := hashlib.sha256(data).hexdigest()) != expected["sha256"]:
        short = f"{found[:8]}…, not {expected['sha256'][:8]}…"
        raise Damaged(f"{path} is altered: its sha256 does not match the manifest ({short})")
    return data


def listed(folder: Path) -> dict[str, Any]:
    """What a folder's manifest says of its files, by name; nothing where it has none. Raises Damaged."""
    return read_manifest(folder)["files"] if os.path.lexists(folder / MANIFEST) else {}


def read_listed(folder: Path, name: str) -> bytes:
    """A file of a folder: as the manifest lists it, or as it is where none does. Raises Damaged."""
    while True:
        stamp = manifest_stamp(folder)
        if (expected := listed(folder).get(name)) is None:
            return read_file(folder / name)
        try:
            return read_checked(folder / name, expected)
        except Damaged as damage:
            if manifest_stamp(folder) == stamp:  # else it was just being written anew
                raise Damaged(f"{damage}; 'hopscope verify {folder}' says what to do") from None


def manifest_stamp(folder: Path) -> bytes:
    """By which one sees whether a manifest was rewritten."""
    return (folder / MANIFEST).read_bytes() if (folder / MANIFEST).is_file() else b""


def enlist(folder: Path, names: Iterable[str], *, instead_of: Iterable[str] = (), **about: Any) -> None:
    """List files, as they are now, in the manifest of their folder, which is made if there is none.

    Args:
        folder: whose manifest it is.
        names: files in it, as paths relative to it.
        instead_of: names to take off the list.
        about: what else the manifest shall say.

    Raises:
        CannotSave: it cannot be written. Damaged: the manifest that is there is altered, or a file is missing.
    """
    relist(folder, {name: entry(read_file(folder / name)) for name in names}, instead_of, about)


def unlist(folder: Path, names: Iterable[str]) -> None:
    """Take files off the manifest of their folder, before they are written anew. Raises CannotSave, Damaged."""
    if set(listed(folder)) & {*names}:
        relist(folder, {}, names, {})


def write_listed(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, which is made if it is not there, and list them. Raises CannotSave, Damaged."""
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
    """Remove a file or folder if it is there; never the reason for which something fails.

    A folder loses its name first, so that a kill leaves no half of it: a leftover temporary is harmless, for it is
    never read, and the next start tries again.
    """
    try:
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
        elif not path.name.startswith(TEMPORARY):
            shutil.rmtree(path.with_name(f"{TEMPORARY}gone-{path.name}"), ignore_errors=True)
            path = path.rename(path.with_name(f"{TEMPORARY}gone-{path.name}"))
    except OSError:
        pass  # then it is removed under its name, or not at all
    shutil.rmtree(path, ignore_errors=True)

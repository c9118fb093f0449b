"""Atomic file writes: a file appears complete or not at all.

Data is written to a temporary file in the target's folder, which is fsynced and renamed to the target. Then the folder
is fsynced.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bloomery.base.errors import BloomeryError, InputError, NoSpaceError, ResourceError, TryAgainError
from bloomery.base.json_text import parse_json
from bloomery.base.unreadable import why_unreadable

_DAY_SECONDS = 86_400
_EXPLAINED = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this process may write (ulimit -f)",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.EPERM: "operation not permitted",
    errno.EEXIST: "there is a file where a folder should be",
    errno.ENOTDIR: "there is a file where a folder should be",
    errno.EISDIR: "there is a folder where a file should be",
}
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ESHUTDOWN}
"""Errors of a network file system whose server is unreachable or was unreachable a short time ago. A failing disk
reports EIO, too."""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the disk into an error that names the path.

    Raises:
        TryAgainError: the fault may be temporary.
        ResourceError: the disk is full or read-only, the quota is used up, permission is missing, or the path is of the
            wrong kind.
    """
    try:
        yield
    except OSError as error:
        known = known_error(error)
        if known is None:
            raise
        expected = known.expected
        if isinstance(known, ResourceError):
            expected = "a folder that this user may write to, with free disk space; no incomplete file was left there"
        raise type(known)(f"cannot write: {known.what}", where=str(path), expected=expected) from error


def known_error(error: BloomeryError | OSError) -> BloomeryError | None:
    """Return a user-readable error for `error`, or None if `error` is an `OSError` of another cause.

    A `BloomeryError` is returned unchanged. An `OSError` about space, permissions or the kind of a path becomes a
    `ResourceError`. An `OSError` that may be temporary becomes a `TryAgainError`. The path of the `OSError`, if any, is
    kept.
    """
    if isinstance(error, BloomeryError):
        return error
    number, where = error.errno or 0, str(error.filename) if error.filename is not None else None
    if number in _PASSING:
        expected = "a disk or file server that responds; run the command again, and check the disk if the error returns"
        return TryAgainError(os.strerror(number), where=where, expected=expected)
    if number in _EXPLAINED:
        expected = "a path that this user may read and write, with free space"
        kind = NoSpaceError if number in _NO_SPACE else ResourceError
        return kind(_EXPLAINED[number], where=where, expected=expected)
    return None


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success, fsync the file and rename it to `target`.

    The temporary name contains the host and the process id, so that two processes that write the same target never
    share a temporary file. On failure the temporary file is removed and `target` is unchanged. A killed process cannot
    remove its temporary file; the next call for the same target removes it.

    Raises:
        ResourceError: the disk is full or read-only, the quota is used up, or permission is missing.
        TryAgainError: the disk or file server has a temporary fault.
    """
    target = Path(target)
    temporary = target.with_name(f".{target.name}.{_host()}.{os.getpid()}.tmp")
    try:
        with explained(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_stale(target)
            yield temporary
            with temporary.open("rb") as handle:
                os.fsync(handle.fileno())
            temporary.replace(target)
            fsync_folder(target.parent)
    finally:
        # In a folder that is not writable the removal fails too. The first error is the one to report.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _host() -> str:
    """Return this host's name without dots, because dots separate the parts of a temporary name."""
    return os.uname().nodename.replace(".", "-").replace("/", "-") or "host"


def _remove_stale(target: Path) -> None:
    """Remove the target's temporary files whose process is dead. Files of another host are removed if they are older
    than a day."""
    prefix = f".{target.name}."
    for name in target.parent.glob(f"{glob.escape(prefix)}*.tmp"):
        host, _, pid = name.name.removeprefix(prefix).removesuffix(".tmp").partition(".")
        if not host or not pid.isdecimal():
            continue  # belongs to another target whose name has the same beginning
        with contextlib.suppress(OSError):
            stale = not _runs(int(pid)) if host == _host() else time.time() - name.stat().st_mtime > _DAY_SECONDS
            if stale:
                name.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Return whether a process of this host is alive."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def fsync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(target: Path, data: bytes) -> None:
    """Write `data` to `target` atomically."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(data)


def write_text(target: Path, text: str) -> None:
    """Write `text` as UTF-8 to `target` atomically."""
    write_bytes(target, text.encode("utf-8"))


def dump_json(value: Any) -> str:
    """Serialise a value as JSON in this project's format: sorted keys, two spaces, UTF-8, a newline at the end. NaN
    raises ValueError."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(target: Path, value: Any) -> None:
    """Write `value` as JSON to `target` atomically."""
    write_text(target, dump_json(value))


def write_if_changed(target: Path, text: str) -> bool:
    """Write `text` only if the content differs, so that the file's modification time is that of its last change. Return
    True if the file was written."""
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return False
    write_text(target, text)
    return True


def read_json(path: Path, *, any_integer: bool = False) -> Any:
    """Read a JSON file.

    A value that `bloomery.base.json_text` refuses, such as NaN or a repeated key, counts as damage.

    `any_integer` accepts integers beyond 2^63, which other programs write into their own files.

    Raises:
        InputError: the file is missing, unreadable or damaged.
        TryAgainError: the disk or file server does not respond, so the file itself may be intact.
    """
    return read_json_and_bytes(path, any_integer=any_integer)[0]


def read_json_and_bytes(path: Path, *, any_integer: bool = False) -> tuple[Any, bytes]:
    """Read a JSON file. Return its value and the bytes of the file. Raises the errors of `read_json`."""
    try:
        content = path.read_bytes()
        return parse_json(content, any_integer=any_integer), content
    except FileNotFoundError as error:
        expected = "an existing file; check the path, or run the stage of the workflow that writes this file"
        raise InputError("no such file", where=str(path), expected=expected) from error
    except OSError as error:
        known = known_error(error)
        if isinstance(known, TryAgainError):
            raise known from error
        expected = "a file that this user may read"
        raise InputError(f"the file cannot be read ({error.strerror})", where=str(path), expected=expected) from error
    except ValueError as error:
        expected = "a complete JSON file; restore it, or run the stage that writes it again"
        raise InputError(why_unreadable(error), where=str(path), expected=expected) from error

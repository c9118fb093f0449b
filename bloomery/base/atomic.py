"""Files appear whole or not at all: write to a temporary name beside the target, fsync, rename, fsync the folder."""

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

from bloomery.base.errors import BloomeryError, InputError, ResourceError, TryAgainError

_DAY_SECONDS = 86_400
_EXPLAINED = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.EPERM: "operation not permitted",
    errno.EEXIST: "there is a file where a folder should be",
    errno.ENOTDIR: "there is a file where a folder should be",
    errno.EISDIR: "there is a folder where a file should be",
}
_PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ESHUTDOWN}
"""What a network file system says while its server is away, or after; a disk that dies says the first, too."""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the disk into a `ResourceError` that names the path, one that may pass into a
    `TryAgainError`."""
    try:
        yield
    except OSError as error:
        known = known_error(error)
        if known is None:
            raise
        expected = known.expected
        if isinstance(known, ResourceError):
            expected = "a writable folder with free space (nothing was left half-written)"
        raise type(known)(f"cannot write: {known.what}", where=str(path), expected=expected) from error


def known_error(error: BloomeryError | OSError) -> BloomeryError | None:
    """What an error means to a person: one of ours itself; None for what is no fault of the disk.

    An `OSError` about space, permission, a place or a disk that fails is a `ResourceError` or, where the fault may
    pass, a `TryAgainError`; with the path that it names, if any.
    """
    if isinstance(error, BloomeryError):
        return error
    number, where = error.errno or 0, str(error.filename) if error.filename is not None else None
    if number in _PASSING:
        expected = "a disk or file server that answers: look at it where this comes again"
        return TryAgainError(os.strerror(number), where=where, expected=expected)
    if number in _EXPLAINED:
        expected = "a place that this user may read and write, with free space"
        return ResourceError(_EXPLAINED[number], where=where, expected=expected)
    return None


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success fsync it and rename it over `target`.

    The temporary name holds the host and the process id, so that two processes that make the same file never share it.
    On failure the temporary file is removed and `target` is untouched. A process that was killed could not remove its
    own: what it left for the same target is removed here, by one look into the folder.

    Raises:
        ResourceError: disk full, quota, read-only or no permission.
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
        # A folder that cannot be written cannot be tidied either: the first error is the one to tell.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _host() -> str:
    """This host's name without dots, which separate the parts of a temporary name."""
    return os.uname().nodename.replace(".", "-").replace("/", "-") or "host"


def _remove_stale(target: Path) -> None:
    """Remove the target's temporary files of dead processes; another host's ones when they are older than a day."""
    prefix = f".{target.name}."
    for name in target.parent.glob(f"{glob.escape(prefix)}*.tmp"):
        host, _, pid = name.name.removeprefix(prefix).removesuffix(".tmp").partition(".")
        if not host or not pid.isdecimal():
            continue  # of a target whose name only begins like this one's
        with contextlib.suppress(OSError):
            stale = not _runs(int(pid)) if host == _host() else time.time() - name.stat().st_mtime > _DAY_SECONDS
            if stale:
                name.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Whether a process of this host is alive."""
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
    """JSON as this project writes it: sorted keys, two spaces, UTF-8, a newline at the end; NaN is refused."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(target: Path, value: Any) -> None:
    """Write `value` as JSON to `target` atomically."""
    write_text(target, dump_json(value))


def write_if_changed(target: Path, text: str) -> bool:
    """Write only when the content differs, so that the file's time says when its content changed. True if written."""
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return False
    write_text(target, text)
    return True


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        InputError: it is missing, unreadable or damaged.
        TryAgainError: it may be fine: the disk or file server does not answer.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("no such file", where=str(path)) from error
    except OSError as error:
        known = known_error(error)
        if isinstance(known, TryAgainError):
            raise known from error
        raise InputError(f"cannot be read ({error.strerror})", where=str(path)) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid JSON ({error})", where=str(path)) from error

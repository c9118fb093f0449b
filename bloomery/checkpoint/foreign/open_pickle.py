"""Open files that `torch.save` wrote in another project, without running any code that they name.

Such files hold objects of classes of Megatron, DeepSpeed, argparse and NumPy. Torch's restricted unpickler
(`weights_only=True`) reads them. Each of these names is replaced by a stand-in, which only keeps what the file states.
A file with any other name is refused before its objects are made.
"""

from __future__ import annotations

import errno
import pickletools
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.checkpoint.files import only_safe

_PACKAGES = ("megatron", "deepspeed", "fp16")
"""Packages whose classes get stand-ins. Old versions of Megatron had a top-level package `fp16`."""
_NAMES = {
    "argparse.Namespace",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
}
"""Other names that get stand-ins: the arguments of the training, and states of random number generators."""
_LEGACY_PICKLES = 4
"""Number of pickles at the start of a file in torch's format before version 1.6: a magic number, the version of the
format, facts about the machine, and the saved object."""


class StandIn:
    """Object in the place of an object of another project. It has no behaviour."""

    arguments: tuple[Any, ...]
    """Arguments of the constructor, such as the value of an enumeration."""
    values: dict[str, Any]
    """Attributes of the object."""

    def __new__(cls, *arguments: Any) -> StandIn:
        """Keep the arguments."""
        made = super().__new__(cls)
        made.arguments, made.values = arguments, {}
        return made

    def __init__(self, *_arguments: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        """Keep the attributes. A state of another form is dropped."""
        if isinstance(state, dict):
            self.values = state


def can_be_mapped(path: Path) -> bool:
    """Return whether the file can be memory-mapped. Files in torch's format before version 1.6 cannot."""
    return zipfile.is_zipfile(path)


def open_pickle(path: Path) -> dict[str, Any]:
    """Open a file of `torch.save`. Its tensors stay on the disk until they are read.

    Files in torch's format before version 1.6 cannot be memory-mapped. They are read into memory, and a message is
    printed.

    Raises:
        InputError: the file is not a dictionary of tensors and plain data, or it names code of other packages.
    """
    import torch

    try:
        mapped = can_be_mapped(path)
        names = _global_names(path, mapped)
        refused = sorted(name for name in names if not _has_stand_in(name) and not _is_torch(name))
        stand_ins = [(type("StandIn", (StandIn,), {}), name) for name in sorted(names) if _has_stand_in(name)]
    except MemoryError as error:
        # Names are short, so a lack of memory means that a length in the file is damaged.
        raise _damaged(path, ValueError(str(error))) from error
    except Exception as error:
        raise _damaged(path, error) from error
    if refused:
        raise InputError(
            f"the file names code that Bloomery does not run: {', '.join(refused[:3])}",
            where=str(path),
            expected="a file that holds only tensors, plain data and objects of Megatron, DeepSpeed, argparse and "
            "NumPy; nothing of this file was run",
        )
    if not mapped:
        _tell(path.parent)
    try:
        with only_safe(stand_ins):
            state = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except Exception as error:
        raise _damaged(path, error) from error
    if not isinstance(state, dict):
        raise InputError(
            f"the file contains a {type(state).__name__}",
            where=str(path),
            expected="a dictionary, as DeepSpeed saves it",
        )
    return dict(state)


@cache
def _tell(folder: Path) -> None:
    """Print once for each folder that its files are read into memory."""
    say(f"files in {folder} have torch's format before version 1.6: each one is read into memory as a whole")


def _damaged(path: Path, error: Exception) -> Exception:
    """Return the error for a file that cannot be read, or `error` itself if it is not about the file's content."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno not in (errno.EINVAL, None)):
        return error
    return InputError(
        "torch cannot read the file safely: it is damaged, or it holds more than tensors and plain data",
        where=str(path),
        expected="a file that torch.save wrote; copy this file again from its origin",
    )


def _has_stand_in(name: str) -> bool:
    return name in _NAMES or name.partition(".")[0] in _PACKAGES


def _is_torch(name: str) -> bool:
    """Return whether torch's own list of safe names decides about this name."""
    return name.partition(".")[0] in ("torch", "collections", "builtins", "__builtin__", "_codecs")


def _global_names(path: Path, mapped: bool) -> set[str]:
    """Return the names of all classes and functions that the file refers to, without unpickling the file."""
    if not mapped:
        with path.open("rb") as file:
            return {name for _ in range(_LEGACY_PICKLES) for name in _names_in(file)}
    with zipfile.ZipFile(path) as archive:
        (entry,) = [each for each in archive.namelist() if each.rpartition("/")[2] == "data.pkl"]
        with archive.open(entry) as data:
            return set(_names_in(data))


def _names_in(file: IO[bytes]) -> Iterator[str]:
    """Yield the names in the pickle at the position of `file`, and leave the position after the pickle."""
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif opcode.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            raise ValueError(f"torch.save writes no {opcode.name}")

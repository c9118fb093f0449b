"""The command line of this process, in a form that a person can type again."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def typed_command(arguments: Sequence[str] | None = None, executable: str | None = None) -> str:
    """Return the command that started this process, quoted for a shell in the current folder.

    A program on PATH is given by its name. Any other program is given by its path, which is relative if the program is
    below the current folder. `python -m NAME` stays in that form.

    Args:
        arguments: the command and its arguments; None for `sys.argv`.
        executable: path of the Python interpreter; None for `sys.executable`.
    """
    program, *rest = sys.argv if arguments is None else arguments
    python = executable or sys.executable
    if Path(program).name == "__main__.py":
        words = [_callable(python), "-m", Path(program).parent.name]
    elif program == "-c":
        # Python does not keep the text of a program that was given on the command line.
        words = [_callable(python), "-c", "..."]
    elif program.endswith(".py"):
        words = [_callable(python), _short(program)]
    else:
        words = [_callable(program)]
    return shlex.join([*words, *rest])


def _callable(program: str) -> str:
    """Return the shortest name under which the shell starts `program`."""
    name = Path(program).name
    found = shutil.which(name)
    if found is not None and Path(found).absolute() == Path(shutil.which(program) or program).absolute():
        return name
    return _short(program)


def _short(path: str) -> str:
    """Return `path`, relative to the current folder if `path` is below that folder."""
    absolute, here = Path(path).absolute(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else path

"""Call `bloomery` hundreds of times. Each call is a fork of this process, which has already imported the modules."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adapter


@dataclass(frozen=True)
class Answer:
    """How one call ended."""

    code: int
    stdout: str
    stderr: str

    def record(self, folder: Path) -> dict[str, Any]:
        """Return the answer as JSON. JSON on stdout becomes the value, and all other output becomes text."""
        value = None
        with contextlib.suppress(ValueError):
            value = json.loads(self.stdout)
        text = self.stderr if value is not None else self.stdout + self.stderr
        return {"exit_code": self.code, "value": value, "text": normalised(text, folder)}


def normalised(text: str, folder: Path) -> str:
    """Replace the paths of the checkout and of the temporary folder by placeholders."""
    return text.replace(str(folder), "<folder>").replace(str(adapter.ROOT), "<root>")


class CommandLine:
    """The command `bloomery`, called in `folder`, which must contain the files of all relative paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._main = adapter.main_program()
        environment = adapter.environment()
        os.environ.clear()
        os.environ.update(environment)
        # Import the modules that most calls need once, in this process.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for words in (("config", "check"), ("config", "show"), ("plan",)):
                self._call([*words, str(adapter.ROOT / adapter.SAMPLE), "--json"])

    def __call__(self, *words: str, **environment: str) -> Answer:
        """Call `bloomery WORDS` with additional environment variables."""
        with tempfile.TemporaryDirectory() as name:
            files = [Path(name) / "stdout", Path(name) / "stderr"]
            if (child := os.fork()) == 0:
                self._run(files, list(words), environment)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return Answer(code, *(file.read_text(encoding="utf-8") for file in files))

    def _run(self, files: list[Path], words: list[str], environment: dict[str, str]) -> None:
        """Run the command in the child process. Never return."""
        for number, file in enumerate(files, start=1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        os.environ.update(environment)
        os.chdir(self._folder)
        code = 1
        try:
            code = self._call(words)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _call(self, words: list[str]) -> int:
        sys.argv = ["bloomery", *words]
        try:
            return self._main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)

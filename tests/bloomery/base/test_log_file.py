from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bloomery.base.errors import InputError, ResourceError
from bloomery.base.log_file import stderr_in_log


def test_text_printed_to_stderr_is_also_written_to_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs" / "a.log"
    before = sys.stderr
    with stderr_in_log(path):
        print("one", file=sys.stderr)
        print("two, unfinished", file=sys.stderr, end="")
        assert path.read_text() == "one\n"
    assert sys.stderr is before
    assert path.read_text() == "one\ntwo, unfinished\n"
    assert capsys.readouterr().err == "one\ntwo, unfinished\n"


def test_an_error_is_logged_and_raised_but_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    with pytest.raises(InputError), stderr_in_log(path):
        raise InputError("no such file", where="x.yaml")
    assert path.read_text() == "error: x.yaml: no such file\n"
    assert capsys.readouterr().err == ""


def test_a_closed_terminal_does_not_stop_the_work(tmp_path: Path) -> None:
    path = tmp_path / "a.log"

    def closed(_line: str) -> None:
        raise BrokenPipeError

    with stderr_in_log(path) as stream:
        stream.show = closed
        print("still written", file=sys.stderr)
    assert path.read_text() == "still written\n"


def test_an_unwritable_log_raises_an_error_that_names_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="file"), stderr_in_log(tmp_path / "file" / "a.log"):
        pass

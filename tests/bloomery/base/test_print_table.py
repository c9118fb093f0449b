from __future__ import annotations

import io
import sys

import pytest

from bloomery.base.print_table import print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_text_has_tabs_and_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("1", "2"), ("3", "4")], title="numbers", styles=["red"])
    assert capsys.readouterr().out == "1\t2\n3\t4\n"


def test_control_characters_of_a_cell_are_shown_and_not_executed(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("", ""), [("error", "\x1b[2Jgone")])
    assert capsys.readouterr().out == "error\t\\x1b[2Jgone\n"


def test_a_terminal_has_a_table_with_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(("state", "name"), [("ok", "[/data]"), ("missing", "disk"), ("plain", "x")], styles=["green", "red"])
    shown = terminal.getvalue()
    assert "[/data]" in shown
    assert "\x1b[32m" in shown
    assert "\x1b[31m" in shown

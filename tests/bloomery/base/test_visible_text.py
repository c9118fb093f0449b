from __future__ import annotations

import pytest

from bloomery.base.visible_text import visible_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 3.1\tok\nnext", "loss 3.1\tok\nnext"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("50 %\r100 %", "50 %\\x0d100 %"),
        ("line\r\n", "line\n"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("Ünïcödé 汉字 🙂", "Ünïcödé 汉字 🙂"),
    ],
)
def test_control_characters_become_escapes_and_other_text_is_unchanged(text: str, shown: str) -> None:
    assert visible_text(text) == shown

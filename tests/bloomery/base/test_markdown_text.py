"""Test that any text is shown literally by a Markdown page."""

from __future__ import annotations

import pytest

from bloomery.base.markdown_text import markdown_code, markdown_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("CC-BY-4.0", "CC-BY-4.0"),
        ("fr_text/web 1.0 (é)", "fr_text/web 1.0 (é)"),
        ("a | b", "a \\| b"),
        ("a\nb\r\n\n# c", "a b # c"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("&lt;b&gt;", "&amp;lt;b&amp;gt;"),
        ("[x](http://evil) ![y](z)", "\\[x\\](http://evil) !\\[y\\](z)"),
        ("**bold** _it_ `code` ~~no~~", "\\*\\*bold\\*\\* \\_it\\_ \\`code\\` \\~\\~no\\~\\~"),
        ("\\| \\", "\\\\\\| \\\\"),
        ("\x1b[31m\u202e\0", "\\\\x1b\\[31m\\\\u202e\\\\x00"),
    ],
)
def test_text_becomes_one_line_without_markup(text: str, shown: str) -> None:
    assert markdown_text(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run-1", "`run-1`"),
        ("a`b", "`` a`b ``"),
        ("``", "``` `` ```"),
        ("a|b\n<i>", "`a\\|b <i>`"),
    ],
)
def test_code_becomes_one_line_within_a_fence_that_the_text_does_not_close(text: str, shown: str) -> None:
    assert markdown_code(text) == shown

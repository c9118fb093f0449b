"""Test that errors in broken YAML are explained in plain words, with file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.errors import ConfigError
from bloomery.config.yaml_text import read_yaml

PYYAML = ("while scanning", "while parsing", "found ", "expected <", "could not", "mapping values", 'in "<', "mark")


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("a:\n\tb: 1\n", "line 2, column 1", "a tab; expected: spaces"),
        ("a: b: c\n", "line 1, column 5", "a second ':' in a value"),
        ("a:1\nb: 2\n", "line 2, column 2", "a space after each ':' of this line and of the line before"),
        (
            "name: x\nmodel\ntraining: 1\n",
            "line 3, column 1",
            "a line without ':'; expected: `key: value`, with a space",
        ),
        (
            "a:\n  b: 1\n c: 2\n",
            "line 3, column 2",
            "do not match the lines above it; expected: the same number of spaces",
        ),
        ("a: 'x\n", "line 2, column 1", "a quote that is not closed"),
        (
            "a: [1, 2\nb: 3\n",
            "line 2, column 2",
            "a bracket that is not closed; expected: a comma between entries and ']'",
        ),
        ("a: *x\n", "line 1, column 4", "an alias (`*name`) without its anchor"),
        ("a: !foo 1\n", "line 1, column 4", "a tag (`!name`)"),
        ('a: "\\d"\n', "line 1, column 6", "expected: single quotes around text with backslashes"),
        ("a: @x\n", "line 1, column 4", "a value that begins with '@'; expected: quotes around"),
        ("a: |x\n  b\n", "line 1, column 5", "text after '|' or '>'"),
        ("---\na: 1\n---\nb: 1\n", "line 3, column 1", "a second document after `---`"),
        ("b: 1\na: \x07\n", "line 2, column 4", "a control character"),
        ("a: &\n", "line 1, column 5", "'&' or '*' without a name"),
        ("a: 1\na: 2\n", "line 2, column 1", "the key 'a' is written twice"),
    ],
)
def test_broken_yaml_is_explained(tmp_path: Path, text: str, place: str, says: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    said = str(caught.value)
    assert said.startswith(f"{path}, {place}: not valid YAML: ")
    assert says in said
    assert not any(part in said.replace(str(path), "") for part in PYYAML)


def test_a_date_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("a: 2024-99-99\n")
    with pytest.raises(
        ConfigError, match="looks like a date or a number, but is not a valid one; expected: a valid date"
    ):
        read_yaml(path)

"""Read YAML, reject mistakes that PyYAML would accept silently, and explain YAML errors in plain words."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from bloomery.base.errors import ConfigError
from bloomery.base.unreadable import why_unreadable

_MAX_DEPTH = 50
_MAX_VALUES = 1_000_000
_OWN = re.compile("a key must be a word, not a list or a mapping|the key .+ is written twice")
_CAUSES = {
    r"found character '\\t'": ("a tab", "spaces, because YAML allows no tabs before a key or a value"),
    r"found character '(.)'": ("a value that begins with {}", "quotes around a value that begins with {}"),
    "mapping values are not allowed": (
        "a second ':' in a value, or a key that is indented too much",
        "one `key: value` per line, a space after each ':' of this line and of the line before, and quotes around text "
        "with ': '",
    ),
    "could not find expected ':'": ("a line without ':'", "`key: value`, with a space after the ':'"),
    "expected ',' or '(.)'": ("a bracket that is not closed", "a comma between entries and {} at the end"),
    "found unexpected end of stream": ("a quote that is not closed", "a quote of the same kind at the end of the text"),
    "expected <block end>": (
        "the indentation or the quotes of this line do not match the lines above it",
        "the same number of spaces before all keys of a section, and quotes doubled inside quoted text",
    ),
    "found undefined alias": (
        "an alias (`*name`) without its anchor (`&name`)",
        "the anchor above the alias, or quotes around text that begins with '*'",
    ),
    "could not determine a constructor for the tag": (
        "a tag (`!name`), which is not allowed",
        "plain values; put text that begins with '!' in quotes",
    ),
    "unknown escape character|expected escape sequence": (
        "a backslash in double quotes before a character that cannot follow it",
        "single quotes around text with backslashes",
    ),
    "another document": ("a second document after `---`", "one document per file"),
    "chomping or indentation": ("text after '|' or '>'", "the text on the following lines, indented"),
    "expected alphabetic or numeric": ("'&' or '*' without a name", "quotes around text that begins with '&' or '*'"),
    "special characters are not allowed": ("a control character", "printable text only"),
}
"""Map from a pattern in PyYAML's message to what is wrong in the document and what would be right."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that rejects duplicate keys, which PyYAML would silently overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # a mapping may override keys that `<<: *anchor` merges into it
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a word, not a list or a mapping", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is written twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> Any:
    """Parse a YAML file.

    Raises:
        ConfigError: the file is missing, unreadable or not YAML, contains a key twice, or is nested too deeply.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        right = "the path of a YAML file, such as config/sample.yaml"
        raise ConfigError("no such file", where=str(path), expected=right) from error
    except (OSError, UnicodeDecodeError) as error:
        what, right = f"cannot be read ({why_unreadable(error)})", "a UTF-8 text file that you may read"
        raise ConfigError(what, where=str(path), expected=right) from error
    try:
        value = yaml.load(text, Loader=_UniqueKeyLoader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: an impossible date or number
        raise _not_yaml(error, text, path) from error
    except RecursionError as error:
        raise _too_deep(str(path)) from error
    refuse_endless(value, str(path))
    return value


def _too_deep(where: str) -> ConfigError:
    return ConfigError(
        f"values are nested deeper than {_MAX_DEPTH} levels, or an anchor contains itself",
        where=where,
        expected=f"at most {_MAX_DEPTH} levels, and no alias (`*name`) inside the value of its own anchor (`&name`)",
    )


def refuse_endless(value: Any, where: str) -> None:
    """Raise ConfigError if the document is nested too deeply, or if aliases make it endless or far larger than its
    text."""
    waiting, values = [(value, 0)], 0
    while waiting:
        item, depth = waiting.pop()
        values += 1
        if depth > _MAX_DEPTH:
            raise _too_deep(where)
        if values > _MAX_VALUES:
            raise ConfigError(
                f"the file has more than {_MAX_VALUES:,} values after its aliases (`*name`) are expanded",
                where=where,
                expected=f"at most {_MAX_VALUES:,} values; write fewer aliases, or aliases of smaller values",
            )
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        waiting += [(each, depth + 1) for each in inner]


def _not_yaml(error: Exception, text: str, path: Path) -> ConfigError:
    """Return the error for a document that PyYAML cannot read."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    place = _place(error, text)
    if _OWN.fullmatch(problem):
        right = "a word as the key, and each key only once in its section"
        return ConfigError(f"not valid YAML: {problem}", where=f"{path}{place}", expected=right)
    for pattern, (wrong, right) in _CAUSES.items():
        if match := re.search(pattern, f"{problem} {getattr(error, 'context', '')}"):
            character = repr(match.group(1)) if match.groups() else ""
            return ConfigError(
                f"not valid YAML: {wrong.format(character)}",
                where=f"{path}{place}",
                expected=right.format(character),
            )
    if not isinstance(error, yaml.YAMLError):
        wrong = "a value that looks like a date or a number, but is not a valid one"
        right = "a valid date or number, or quotes around the value if it is text"
        return ConfigError(f"not valid YAML: {wrong}", where=f"{path}{place}", expected=right)
    return ConfigError(
        "not valid YAML: this line cannot be read",
        where=f"{path}{place}",
        expected="`key: value` with a space after the ':', indented with spaces",
    )


def _place(error: Exception, text: str) -> str:
    """Return the place of the error in the text, such as `, line 3, column 5`. It is empty if the place is unknown."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return f", line {mark.line + 1}, column {mark.column + 1}"
    position = getattr(error, "position", None)
    if position is None:
        return ""
    before = text[:position]
    return f", line {before.count(chr(10)) + 1}, column {position - before.rfind(chr(10))}"

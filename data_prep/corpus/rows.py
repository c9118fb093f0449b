"""A row of a source, good or bad. This module checks the content of rows from every kind of source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bloomery.config.languages import language_profiles
from bloomery.config.section import LANGUAGE_CODE

EXCERPT_CHARACTERS = 200
MAX_DEPTH = 100
"""Deepest nesting of objects in a row. A deeper row is bad, because recursion over it could overflow Python's stack."""
_NESTED = (dict, list, tuple, Mapping)


@dataclass(frozen=True, slots=True)
class Row:
    """One document of a source. `key` identifies it within the source; `meta` has the other fields of the row."""

    key: str
    text: str
    language: str
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is quarantined. `reason` is one of a few fixed phrases, which are counted; `detail` explains it.

    Characters that UTF-8 cannot encode are escaped in every string, because the strings may come from the bad row.
    """

    file: str
    line: int | None
    reason: str
    detail: str = ""
    excerpt: str = ""

    @property
    def place(self) -> str:
        """The file and the line of the row, or the file alone if the whole file is bad."""
        return self.file if self.line is None else f"{self.file}, line {self.line}"

    def __post_init__(self) -> None:
        for name in ("file", "reason", "detail", "excerpt"):
            object.__setattr__(self, name, printable(getattr(self, name)))


Item = Row | BadRow
Observe = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of a source's fields, and the values that apply to all of its rows."""

    text: str = "text"
    language: str | None = None
    identity: str | None = None
    fixed_language: str | None = None
    max_bytes: int = 1 << 63
    observe: Observe | None = None
    """Function that is called with the fields of every row, before the row is checked."""


def printable(text: str) -> str:
    """Return the text with characters that UTF-8 cannot encode (lone surrogates) escaped like `\\udcff`.

    Python uses lone surrogates for undecodable bytes in file names.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def excerpt_of(data: bytes | str) -> str:
    """Return the first characters of a row as text that UTF-8 can encode."""
    text = data[: 4 * EXCERPT_CHARACTERS].decode("utf-8", "replace") if isinstance(data, bytes) else data
    return printable(text[:EXCERPT_CHARACTERS])[:EXCERPT_CHARACTERS]


def name_of(path: str) -> str:
    """Return the file's name within its source, as used in keys and in the quarantine.

    The name is the part of `path` after `/./`. `parts.plan_parts` inserts this mark after the folder that all files of
    the source share. Without the mark, the file is in that folder itself, and its name is the last part of `path`.
    """
    _, mark, inside = path.rpartition("/./")
    return printable(inside if mark else path.rsplit("/", 1)[-1])


def language_of_file(file: str) -> str | None:
    """Return the language code that a file's name begins with (`fr.jsonl.zst` gives `fr`), or None if unknown."""
    stem = file.rsplit("/", 1)[-1].split(".", 1)[0]
    return stem if stem != "default" and stem in language_profiles() else None


def text_fault(text: str, max_bytes: int) -> str | None:
    """Return why a text cannot become a document, or None if it can."""
    if not text or text.isspace():
        return "empty text"
    if "\0" in text:
        return "NUL byte"
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return "lone surrogate"
    return "too long" if size > max_bytes else None


def too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested deeper than `MAX_DEPTH`. The walk uses no recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        children: list[Any] = []
        for item in level:
            members = item.values() if isinstance(item, Mapping) else item
            # Nearly all members are strings, and `isinstance` with Mapping is slow.
            children += [each for each in members if type(each) is not str and isinstance(each, _NESTED)]
        if not children:
            return False
        level = children
    return True


def row_from_fields(values: Mapping[str, Any], fields: Fields, file: str, line: int) -> Item:
    """Make a `Row` from an object's fields, or a `BadRow` with the reason why that is not possible.

    The language comes from the row's language field, else from the source, else from the file's name. All fields except
    text, language and identity go to `meta`. If the only other field is an object named `meta`, it becomes `meta`.
    """

    def bad(reason: str, detail: str = "") -> BadRow:
        return BadRow(file, line, reason, detail, excerpt_of(str(values)))

    if fields.observe is not None:
        fields.observe(values)
    text = values.get(fields.text)
    if too_deep(values):
        shown = excerpt_of(text) if isinstance(text, str) else ""
        return BadRow(file, line, "too deep", f"nested deeper than {MAX_DEPTH} levels", shown)
    if text is None and fields.text in values:
        return bad("missing text", f"field {fields.text!r} is null")
    if text is None:
        return bad(
            "missing text", f"no field {fields.text!r}; the row has the fields {', '.join(map(str, values))[:200]}"
        )
    if not isinstance(text, str):
        return bad("text is not a string", f"field {fields.text!r} has a value of type {type(text).__name__}")
    fault = text_fault(text, fields.max_bytes)
    if fault:
        return BadRow(file, line, fault, "", excerpt_of(text))
    language = values.get(fields.language) if fields.language else None
    if language is None:
        language = fields.fixed_language or language_of_file(file)
    if language is None:
        return bad("no language", f"field {fields.language!r} is missing" if fields.language else "")
    if not isinstance(language, str) or not LANGUAGE_CODE.fullmatch(language):
        return bad("invalid language", f"{language!r}"[:80])
    key = f"{file}:{line}"
    if fields.identity:
        identity = values.get(fields.identity)
        if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
            return bad("missing id", f"field {fields.identity!r} is neither a non-empty string nor an integer")
        key = str(identity)
        if not key.isprintable() and text_fault(key, fields.max_bytes):
            return bad("missing id", f"field {fields.identity!r} is not valid text")
    taken = {fields.text, fields.language, fields.identity}
    meta = {name: value for name, value in values.items() if name not in taken}
    if set(meta) == {"meta"} and isinstance(meta["meta"], dict):
        meta = meta["meta"]
    return Row(key, text, language, meta)

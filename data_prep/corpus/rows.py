"""A row of a source, good or bad. Everything that makes a row bad is decided here, whatever the kind of source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bloomery.config.languages import language_profiles

EXCERPT_CHARACTERS = 200
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Row:
    """One document as its source gives it; `key` identifies it within the source, `meta` is the rest of the row."""

    key: str
    text: str
    language: str
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is quarantined. `reason` is one of few phrases (they are counted), `detail` says more."""

    file: str
    line: int | None
    reason: str
    detail: str = ""
    excerpt: str = ""


Item = Row | BadRow


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a source keeps what a row needs, and what it says for all of them."""

    text: str = "text"
    language: str | None = None
    identity: str | None = None
    fixed_language: str | None = None
    max_bytes: int = 1 << 63


def excerpt_of(data: bytes | str) -> str:
    """The first characters of a row, readable whatever it holds."""
    text = data[: 4 * EXCERPT_CHARACTERS].decode("utf-8", "replace") if isinstance(data, bytes) else data
    return text[:EXCERPT_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def language_of_file(file: str) -> str | None:
    """Language that a file's name states (`fr.jsonl.zst` -> `fr`), if its first part is a known code."""
    stem = file.rsplit("/", 1)[-1].split(".", 1)[0]
    return stem if stem != "default" and stem in language_profiles() else None


def text_fault(text: str, max_bytes: int) -> str | None:
    """Why a text cannot become a document, or None."""
    if not text or text.isspace():
        return "empty text"
    if "\0" in text:
        return "NUL byte"
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return "lone surrogate"
    return "too long" if size > max_bytes else None


def row_from_fields(values: Mapping[str, Any], fields: Fields, file: str, line: int) -> Item:
    """Make a row of an object's fields, or say why that is not possible.

    The language is that of the row's language field, else the source's, else that which the file's name states.
    Everything but text, language and identity goes to `meta`; an object named `meta` is taken as it is.
    """

    def bad(reason: str, detail: str = "") -> BadRow:
        return BadRow(file, line, reason, detail, excerpt_of(str(values)))

    text = values.get(fields.text)
    if text is None:
        return bad("missing text", f"no field {fields.text!r}; the row has {', '.join(map(str, values))[:200]}")
    if not isinstance(text, str):
        return bad("text is not a string", f"field {fields.text!r} is {type(text).__name__}")
    fault = text_fault(text, fields.max_bytes)
    if fault:
        return BadRow(file, line, fault, "", excerpt_of(text))
    language = values.get(fields.language) if fields.language else None
    if language is None:
        language = fields.fixed_language or language_of_file(file)
    if language is None:
        return bad("no language", f"field {fields.language!r} is missing" if fields.language else "")
    if not isinstance(language, str) or not _LANGUAGE.fullmatch(language):
        return bad("invalid language", f"{language!r}"[:80])
    key = f"{file}:{line}"
    if fields.identity:
        identity = values.get(fields.identity)
        if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
            return bad("missing id", f"field {fields.identity!r}")
        key = str(identity)
        if not key.isprintable() and text_fault(key, fields.max_bytes):
            return bad("missing id", f"field {fields.identity!r} is not text")
    taken = {fields.text, fields.language, fields.identity}
    meta = {name: value for name, value in values.items() if name not in taken}
    if set(meta) == {"meta"} and isinstance(meta["meta"], dict):
        meta = meta["meta"]
    return Row(key, text, language, meta)

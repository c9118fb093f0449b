"""Change the bytes of a file as damage, a careless editor or an attacker would."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

_DEEP = "[" * 200_000
RAW = {
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@huge@": "1e999",
    "@digits@": "9" * 5000,
    "@deep@": _DEEP + "]" * 200_000,
    "@nested@": "[" * 90 + "]" * 90,
    "@half@": '"\\ud800"',
    "@nul@": '"a\\u0000b"',
}
"""Marker -> the text that replaces the marker in a JSON file. `json.dumps` cannot write some of these texts."""
HOSTILE: tuple[Any, ...] = (
    *RAW,
    None,
    True,
    0,
    -1,
    1,
    7,
    10**9,
    2**31,
    2**62,
    2**63,
    10**30,
    0.5,
    -0.0,
    1e-320,
    1e300,
    "",
    " ",
    "..",
    "../..",
    "../../outside.txt",
    "../../../../../../../../etc/hostname",
    "/etc/hostname",
    "a/../../b",
    "x" * 5000,
    "a\nb | <script>alert(1)</script>",
    "\u202e\x1b[31m",
    "2026-99-99",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+14:00",
    "2026-01-01",
    "step00000200",
    "finished",
    "rolled_back",
    "fp32",
    "float64",
    [],
    {},
    [None],
    [[1, 2], 3],
    {"a": {"b": 1}},
    [10**12],
    {"../x": 1},
)
"""Values that replace a value of a JSON file."""
TEXTS = (
    b"",
    b"\0",
    b"\0" * 4096,
    b"null",
    b"[]",
    b"{}",
    b"1e999",
    b'{"a": 1, "a": 2}',
    b"\xff\xfe{\0}\0",
    b"\xef\xbb\xbf{}",
    _DEEP.encode(),
    b'{"format": 2}',
    b"<html>404</html>",
    b"version https://git-lfs.github.com/spec/v1\n",
)
"""Contents that replace a whole file or a line, or that are appended to a file."""


def mutate(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return changed bytes, and a description of the change."""
    change = rng.choice(_CHANGES)
    changed = change(data, rng)
    return changed, change.__name__.strip("_").replace("_", " ")


def _flip_bytes(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 32))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 255, 10, 34, rng.randrange(256)))
    return bytes(changed)


def _flip_bytes_of_the_beginning(data: bytes, rng: random.Random) -> bytes:
    return _flip_bytes(data[:64], rng) + data[64:]


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _cut_the_beginning(data: bytes, rng: random.Random) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _append(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((*TEXTS, data, b"\n{}\n"))


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((b"\0", b"\xff", b"[" * 300, b"9" * 400, b'"', b"\n", b"\\ud800")) + data[at:]


def _replace_the_file(data: bytes, rng: random.Random) -> bytes:
    return rng.choice(TEXTS)


def _change_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.choice(("repeat", "remove", "swap", "replace"))
    if kind == "repeat":
        lines.insert(other, lines[at])
    elif kind == "remove":
        del lines[at]
    elif kind == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = rng.choice(TEXTS)
    return b"\n".join(lines)


def _change_json(data: bytes, rng: random.Random) -> bytes:
    """Change one to five values or keys of a JSON file, a line of JSON Lines, or the header of a safetensors file."""
    for decode in (_whole, _line, _safetensors):
        try:
            value, encode = decode(data, rng)
        except (ValueError, struct.error, UnicodeDecodeError):
            continue
        if isinstance(value, dict | list) and value:
            for _ in range(rng.choice((1, 1, 1, 2, 5))):
                value = _changed(value, rng)
            return encode(dumped(value))
    return _flip_bytes(data, rng)


_CHANGES = (
    *([_change_json] * 10),
    _flip_bytes,
    _flip_bytes_of_the_beginning,
    _cut,
    _cut_the_beginning,
    _append,
    _insert,
    _replace_the_file,
    _change_lines,
)

Encode = Callable[[str], bytes]


def _whole(data: bytes, _: random.Random) -> tuple[Any, Encode]:
    return json.loads(data), lambda text: text.encode("utf-8", "surrogatepass")


def _line(data: bytes, rng: random.Random) -> tuple[Any, Encode]:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))

    def encode(text: str) -> bytes:
        return b"\n".join([*lines[:at], text.encode("utf-8", "surrogatepass"), *lines[at + 1 :]])

    return json.loads(lines[at]), encode


def _safetensors(data: bytes, rng: random.Random) -> tuple[Any, Encode]:
    (size,) = struct.unpack("<Q", data[:8])

    def encode(text: str) -> bytes:
        header = text.encode("utf-8", "surrogatepass")
        stated = rng.choice((len(header),) * 8 + (0, 2**63, len(data) * 2))
        return struct.pack("<Q", stated) + header + data[8 + size :]

    return json.loads(data[8 : 8 + size]), encode


def dumped(value: Any) -> str:
    """Return a value as JSON, with the texts of `RAW` in place of their markers."""
    text = json.dumps(value)
    for marker, raw in RAW.items():
        text = text.replace(json.dumps(marker), raw)
    return text


def _changed(value: Any, rng: random.Random) -> Any:
    places = list(places_of(value))
    if not places:
        return value
    parent, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.7:
        parent[key] = _hostile(parent[key], rng)
    elif kind < 0.8:
        del parent[key]
    elif isinstance(parent, dict):
        other = rng.choice(("extra", "../..", "", "a\nb|<b>", "x" * 300, "@nul@"))
        parent[other] = parent[key]
        if kind < 0.9:
            parent.pop(key, None)
    else:
        parent.insert(key, parent[key])
    return value


def _hostile(value: Any, rng: random.Random) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.4:
        return rng.choice((value + 1, value - 1, 2 * value, -value, value // 2, value * 10**6, str(value)))
    if isinstance(value, str) and rng.random() < 0.2:
        return rng.choice((value + "x", value[:-1], value.upper(), f"../{value}", f"{value}/", f"./{value}"))
    return rng.choice(HOSTILE)


def places_of(value: Any) -> list[tuple[Any, Any]]:
    """Return every (list or object, index or key) in a value, without recursion."""
    found, level = [], [value]
    while level:
        item = level.pop()
        if isinstance(item, dict | list):
            keys = list(item) if isinstance(item, dict) else range(len(item))
            found += [(item, key) for key in keys]
            level += [item[key] for key in keys]
    return found

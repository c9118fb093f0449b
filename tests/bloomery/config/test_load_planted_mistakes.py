"""Test the errors for sixty random mistakes in configurations. Each names the key and says what would be right."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from changed_sample import SAMPLE, message

from bloomery.config.key_reference import Key, sections

PYDANTIC = (
    *(
        "Input should",
        "input should",
        "Extra inputs",
        "Field required",
        "String should",
        "string should",
        "List should",
    ),
    *(
        "Value error",
        "valid dictionary",
        "instance of",
        "unable to parse",
        "to be a",
        "type=",
        "input_value",
        "pydantic",
    ),
    *("Dictionary should", "Tuple should", "does not match", "For further information"),
)
SOURCES: dict[str, dict[str, Any]] = {
    "jsonl": {"paths": ["x"]},
    "parquet": {"paths": ["x"]},
    "text": {"paths": ["x"]},
    "warc": {"paths": ["x"]},
    "hub": {"dataset": "a/b"},
    "udhr": {},
    "megatron": {"paths": ["x"], "language": "fr"},
}
KEYS = [(title, key) for title, _, keys in sections() for key in keys]
EXAMPLES = {key.path: json.loads(key.example) for _, key in KEYS if key.example is not None}
BOUND = re.compile(r"([≥>≤<]) (2\^\d+|[\d.e+-]+)")


def _wrong_type(key: Key) -> Any:
    if re.match("integer|number|size", key.kind):
        return "many"
    return {"text": 5, "true or false": "perhaps", "list": 5, "map": 5, "section": 5}.get(
        next((word for word in ("true or false", "list", "map", "section", "text") if key.kind.startswith(word)), ""),
        5.5,
    )


def _beyond(key: Key) -> Any:
    sign, limit = BOUND.findall(key.kind)[0]
    number = 2 ** int(limit[2:]) if limit.startswith("2^") else float(limit)
    return {"≥": number - 1, ">": number, "≤": number + 1, "<": number}[sign]


def _is_plain(key: Key) -> bool:
    return re.match("integer|number", key.kind) is not None


MISTAKES: dict[str, tuple[Callable[[Key], bool], Callable[[Key], Any]]] = {
    "a wrong type": (lambda key: not key.path.endswith(".kind"), _wrong_type),
    "out of range": (lambda key: _is_plain(key) and BOUND.search(key.kind) is not None, _beyond),
    "a misspelt key": (lambda key: not key.path.endswith(".kind"), lambda key: 1),
    "a wrong choice": (lambda key: key.kind.startswith("`"), lambda key: "nothing-of-this"),
    "a list for a number": (_is_plain, lambda key: [1]),
    "a section that is a text": (lambda key: "section" in key.kind, lambda key: "text"),
    "null where it is not allowed": (lambda key: "null" not in key.kind, lambda key: None),
}


@dataclass(frozen=True)
class Mistake:
    name: str
    title: str
    key: Key


def drawn() -> list[Mistake]:
    """Draw sixty different mistakes with a fixed seed, equally many of each kind."""
    rng, found = random.Random(60), list[Mistake]()
    while len(found) < 60:
        name = list(MISTAKES)[len(found) % len(MISTAKES)]
        mistake = Mistake(name, *rng.choice([(title, key) for title, key in KEYS if MISTAKES[name][0](key)]))
        if mistake not in found:
            found.append(mistake)
    return found


def planted(mistake: Mistake) -> tuple[dict[str, Any], str]:
    """Return the sample's configuration with the mistake, and the path of the wrong key."""
    raw = copy.deepcopy(SAMPLE)
    if mistake.key.path.startswith("sources[]"):
        kind = re.findall(r"`(\w+)`", mistake.title.replace("`sources[]`", "")) or ["jsonl"]
        raw["sources"] = [{"name": "s", "kind": kind[0], **SOURCES[kind[0]]}]
    place: Any = raw
    *parents, last = mistake.key.path.split(".")
    path, pattern = "", ""
    for part in parents:
        name = part.removesuffix("[]")
        pattern += f".{part}" if pattern else part
        if name == "<language>":
            name = next(iter(place))
        if isinstance(place.get(name), dict | list) and place[name]:
            pass
        else:
            place[name] = copy.deepcopy(EXAMPLES.get(pattern.removesuffix("[]"), {}))
        place, path = place[name], f"{path}.{name}" if path else name
        if part.endswith("[]"):
            place, path = place[0], f"{path}[0]"
    if mistake.name == "a misspelt key":
        place.pop(last, None)
        # The last letter stays, because it is all that distinguishes `beta1` from `beta2`.
        last = f"{last[:-2]}q{last[-1]}" if len(last) > 4 else f"{last}q"
    place[last] = MISTAKES[mistake.name][1](mistake.key)
    return raw, f"{path}.{last}" if path else last


@pytest.mark.parametrize("mistake", drawn(), ids=lambda mistake: f"{mistake.name}: {mistake.key.path}")
def test_the_answer_names_the_key_and_what_would_be_right(mistake: Mistake) -> None:
    raw, path = planted(mistake)
    text = message(raw)
    lines = [line for line in text.splitlines() if line.startswith(f"  {path}: ")]
    assert lines, text
    for part in PYDANTIC:
        assert part not in text, text
    if mistake.name == "a misspelt key":
        right = mistake.key.path.rsplit(".", 1)[-1].removesuffix("[]")
        assert "unknown key" in lines[0]
        assert re.search(rf"(did you mean '[^']*\b{right}'|the keys of this section are .*\b{right}\b)", lines[0]), (
            lines[0]
        )
        return
    # The section of a source is chosen by its `kind`, so a kind that is null counts as missing.
    is_missing = mistake.name.startswith("null") and mistake.key.path == "sources[].kind"
    assert f" {'missing' if is_missing else 'is not valid'}; expected: " in lines[0], lines[0]
    expected = lines[0].split("expected: ", 1)[1]
    assert re.match(r"(an? |one of |true or false|text|'|keys )", expected), expected
    if mistake.name == "a wrong choice":
        for choice in re.findall(r"`([^`]+)`", mistake.key.kind):
            assert choice in expected
    if mistake.name == "out of range":
        sign, limit = BOUND.findall(mistake.key.kind)[0]
        assert {"≥": "at least", ">": "above", "≤": "at most", "<": "below"}[sign] in expected
        assert limit in expected
    if mistake.key.example is not None:
        assert "for example" in expected
    if mistake.key.default not in ("required", "`null`", "`[]`", "`{}`") and mistake.key.kind != "true or false":
        assert re.search("for example|one of|such as", expected), expected

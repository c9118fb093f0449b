"""Compare two recordings: `python bench/refactor/compare.py BEFORE AFTER`. The exit code is 1 on any difference.

Text for users is separated from values. A piece is one JSON file of a recording. If only text for users differs in a
piece, it is reported as `message only`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

TEXT_KEYS = {"text", "message", "reason", "suggestion", "notes", "description"}
"""Keys of the recordings whose content is text for users."""


class Difference(NamedTuple):
    """One value that differs between the recordings."""

    path: tuple[str, ...]
    before: Any
    after: Any

    @property
    def is_message(self) -> bool:
        """Return whether the value is text for users."""
        return bool(TEXT_KEYS & set(self.path))

    def __str__(self) -> str:
        """Return the path and the first characters that differ."""
        before, after = (each if isinstance(each, str) else json.dumps(each) for each in (self.before, self.after))
        same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
        start = max(0, (min(len(before), len(after)) if same is None else same) - 60)
        where = f" (from character {start})" if start else ""
        short = [repr(each[start : start + 200]) for each in (before, after)]
        return f"  {' > '.join(self.path)}{where}\n    before {short[0]}\n    after  {short[1]}"


class _Absent:
    """Marker for a missing value."""


def differences(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Yield every value that differs. Numbers must be equal bit for bit and have the same type. NaN equals NaN."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key, _Absent), after.get(key, _Absent), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, (*path, str(number)))
    elif before is _Absent or after is _Absent:
        shown = ["<absent>" if each is _Absent else each for each in (before, after)]
        yield Difference(path, *shown)
    elif type(before) is not type(after) or json.dumps(before) != json.dumps(after):
        yield Difference(path, before, after)


def leaves(value: Any) -> int:
    """Count the values of a recording."""
    if isinstance(value, dict | list):
        return sum(leaves(each) for each in (value.values() if isinstance(value, dict) else value))
    return 1


def main() -> int:
    """Compare the files of both folders, and return 1 if any file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--most",
        type=int,
        default=10,
        help="Greatest number of differences to show for each kind (value, message) and file.",
    )
    options = parser.parse_args()
    names = sorted({path.name for folder in (options.before, options.after) for path in folder.glob("*.json")})
    if not names:
        parser.error("these folders contain no recordings (*.json); write them with bench/refactor/record.py")
    differs = False
    for name in names:
        files = [folder / name for folder in (options.before, options.after)]
        if missing := [str(file) for file in files if not file.exists()]:
            print(f"{name}: not recorded in {' and '.join(str(Path(each).parent) for each in missing)}")
            differs = True
            continue
        before, after = (json.loads(file.read_text(encoding="utf-8")) for file in files)
        found = list(differences(before, after))
        values = [each for each in found if not each.is_message]
        messages = [each for each in found if each.is_message]
        if not found:
            print(f"{name}: equal ({leaves(before):,} values)")
            continue
        differs = True
        kind = "" if values else ", message only"
        print(f"{name}: different{kind}: {len(values)} values and {len(messages)} messages of {leaves(before):,}")
        for title, each in (("values", values), ("message only", messages)):
            if each:
                print(f" {title}, the first {min(len(each), options.most)}:")
                print("\n".join(map(str, each[: options.most])))
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())

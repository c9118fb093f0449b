"""Write ``unicode_table.hpp``, the run-length coded Unicode properties that the text kernel needs.

Run this script with the Python whose ``unicodedata`` should be recorded. The header is committed, so that every machine
classifies characters in the same way:

    python csrc/text/generate_unicode_table.py > csrc/text/unicode_table.hpp

The values come from the Unicode Character Database through Python's ``unicodedata`` and ``str.lower``; the header names
the version. The scripts of letters come from the package ``regex``, because ``unicodedata`` has no Script property.
Scripts written without spaces are recognised by the prefix of a character's name.
"""

import sys
import textwrap
import unicodedata
from collections.abc import Iterator
from itertools import groupby

import regex

CODE_POINTS = sys.maxunicode + 1
CATEGORIES = (
    *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    *("Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"),
)
UNSPACED_NAMES = (
    *("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC ITERATION MARK", "VERTICAL IDEOGRAPHIC"),
    *("HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "HENTAIGANA", "BOPOMOFO", "YI SYLLABLE"),
    *("THAI", "LAO ", "KHMER", "MYANMAR", "TIBETAN"),
)
SCRIPTS = (
    *("Latin", "Arabic", "Devanagari", "Bengali", "Gujarati", "Gurmukhi", "Kannada", "Malayalam", "Oriya", "Tamil"),
    *("Telugu", "Han", "Hiragana", "Katakana", "Hangul", "Cyrillic", "Greek", "Hebrew", "Thai", "Ethiopic"),
)
"""Unicode's names of scripts. Hiragana and Katakana are counted as `Kana`. Unlisted scripts are counted as `Other`."""
SHARED_LETTERS = regex.compile(r"[\p{Script=Common}\p{Script=Inherited}]")
"""Letters that many scripts use, such as the modifier apostrophe and mathematical letters. They have no script."""


def category_runs() -> list[int]:
    """Return ``length << 5 | category`` of each run of code points with the same general category, in order."""
    indices = (CATEGORIES.index(unicodedata.category(chr(code))) for code in range(CODE_POINTS))
    return [(sum(1 for _ in run) << 5) | category for category, run in groupby(indices)]


def unspaced_ranges() -> Iterator[tuple[int, int]]:
    """Yield ``first, last`` of each range of letters that belong to a script written without spaces between words."""
    first = None
    for code in range(CODE_POINTS + 1):
        character = chr(code) if code < CODE_POINTS else "a"
        inside = unicodedata.category(character)[0] == "L" and unicodedata.name(character, "").startswith(
            UNSPACED_NAMES
        )
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            yield first, code - 1
            first = None


def counted_as(script: str) -> str:
    """Return the name under which a script's letters are counted."""
    return "Kana" if script in ("Hiragana", "Katakana") else script


def script_names() -> list[str]:
    """Return the names of the scripts. Script number n is the n-th name; number 0 means no script."""
    return [*dict.fromkeys(map(counted_as, SCRIPTS)), "Other"]


def script_ranges() -> list[tuple[int, int, int]]:
    """Return ``first, last, number`` of ranges whose letters all have one script. Ranges may contain non-letters."""
    patterns = [(regex.compile(rf"\p{{Script={script}}}"), counted_as(script)) for script in SCRIPTS]
    names = script_names()
    ranges: list[tuple[int, int, int]] = []
    for code in range(CODE_POINTS):
        character = chr(code)
        if unicodedata.category(character)[0] != "L":
            continue
        found = next((name for pattern, name in patterns if pattern.match(character)), "Other")
        number = 0 if SHARED_LETTERS.match(character) else names.index(found) + 1
        if ranges and ranges[-1][2] == number:
            ranges[-1] = (ranges[-1][0], code, number)
        else:
            ranges.append((code, code, number))
    return [row for row in ranges if row[2]]


def lower_ranges() -> list[tuple[int, int, int, int]]:
    """Return ``first, last, stride, delta`` of ranges whose code points have the lower case ``code + delta``.

    Only U+0130 has a full lower case of two characters. The first of these, "i", is its simple lower case.
    """
    ranges: list[tuple[int, int, int, int]] = []
    for code in range(CODE_POINTS):
        delta = ord(chr(code).lower()[0]) - code
        if not delta:
            continue
        if ranges:
            first, last, stride, previous = ranges[-1]
            step = code - last
            if delta == previous and step <= 2 and (first == last or step == stride):
                ranges[-1] = (first, code, step, delta)
                continue
        ranges.append((code, code, 1, delta))
    return ranges


def render() -> str:
    """Return the text of the header."""
    runs = category_runs()
    unspaced = list(unspaced_ranges())
    scripts = script_ranges()
    names = script_names()
    lower = lower_ranges()

    def wrap(items: list[str]) -> str:
        return textwrap.fill(", ".join(items), width=118, initial_indent="    ", subsequent_indent="    ")

    braces = ["{" + ",".join(map(str, row)) + "}" for row in unspaced]
    script_braces = ["{" + ",".join(map(str, row)) + "}" for row in scripts]
    lower_braces = ["{" + ",".join(map(str, row)) + "}" for row in lower]
    return "\n".join(
        [
            "// Generated by generate_unicode_table.py from Python's unicodedata and regex; do not edit.",
            "#pragma once",
            "",
            "#include <cstdint>",
            "",
            "namespace bloomery::text::table {",
            "",
            f'inline constexpr char UNICODE_VERSION[] = "{unicodedata.unidata_version}";',
            "",
            f"enum Category : std::uint8_t {{ {', '.join(CATEGORIES)} }};",
            "",
            "// Runs of code points from U+0000 on, each length << 5 | category.",
            f"inline constexpr std::uint32_t CATEGORY_RUNS[{len(runs)}] = {{",
            wrap([str(run) for run in runs]),
            "};",
            "",
            "struct Range { std::uint32_t first, last; };",
            "// Letters of scripts written without spaces between words.",
            f"inline constexpr Range UNSPACED_RANGES[{len(unspaced)}] = {{",
            wrap(braces),
            "};",
            "",
            "// Names of scripts. Script number n is SCRIPT_NAMES[n - 1]; number 0 means no script.",
            f"inline constexpr const char* SCRIPT_NAMES[{len(names)}] = {{",
            wrap([f'"{name}"' for name in names]),
            "};",
            "",
            "struct ScriptRange { std::uint32_t first, last, script; };",
            "// Scripts of letters. Other characters in these ranges have no script.",
            f"inline constexpr ScriptRange SCRIPT_RANGES[{len(scripts)}] = {{",
            wrap(script_braces),
            "};",
            "",
            "struct LowerRange { std::uint32_t first, last, stride; std::int32_t delta; };",
            "// The simple lower case is code point + delta for first, first + stride, ..., last.",
            f"inline constexpr LowerRange LOWER_RANGES[{len(lower)}] = {{",
            wrap(lower_braces),
            "};",
            "",
            "}  // namespace bloomery::text::table",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(render())

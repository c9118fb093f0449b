"""Write ``unicode_table.hpp``: what the text kernel must know of Unicode, run-length coded.

Run it with the Python whose ``unicodedata`` should be recorded; the header is committed, so that a build needs no
table of its own and every machine classifies a character alike:

    python csrc/text/generate_unicode_table.py > csrc/text/unicode_table.hpp

Source of every value: the Unicode Character Database of the version in the header, as Python's ``unicodedata`` and
``str.lower`` give it; scripts of its letters as the package ``regex`` gives them, since ``unicodedata`` has no Script
property. Scripts written without spaces are recognised by the prefix of a character's name.
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
"""Scripts by Unicode's names; the two of Japanese count as `Kana`, all others as `Other`."""
SHARED_LETTERS = regex.compile(r"[\p{Script=Common}\p{Script=Inherited}]")
"""Letters that many scripts use, such as the modifier apostrophe and mathematical letters: of no script."""


def category_runs() -> list[int]:
    """General categories of all code points in order: ``length << 5 | category`` of each run."""
    indices = (CATEGORIES.index(unicodedata.category(chr(code))) for code in range(CODE_POINTS))
    return [(sum(1 for _ in run) << 5) | category for category, run in groupby(indices)]


def unspaced_ranges() -> Iterator[tuple[int, int]]:
    """``first, last`` of each range of letters that belong to a script written without spaces between words."""
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
    """Name under which a script's letters are counted."""
    return "Kana" if script in ("Hiragana", "Katakana") else script


def script_names() -> list[str]:
    """What letters count as, in the table's order; the first is number 1, and 0 is what has no script."""
    return [*dict.fromkeys(map(counted_as, SCRIPTS)), "Other"]


def script_ranges() -> list[tuple[int, int, int]]:
    """``first, last, number`` of ranges whose letters are all of one script; what is no letter may lie between them."""
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
    """``first, last, stride, delta``: code points whose single-character lower case is ``delta`` away.

    U+0130 is the one letter whose full lower case is two characters; its first, "i", is the simple mapping.
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
    """The header's text."""
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
            "// length << 5 | category, from U+0000 on",
            f"inline constexpr std::uint32_t CATEGORY_RUNS[{len(runs)}] = {{",
            wrap([str(run) for run in runs]),
            "};",
            "",
            "struct Range { std::uint32_t first, last; };",
            "// letters of scripts written without spaces between words",
            f"inline constexpr Range UNSPACED_RANGES[{len(unspaced)}] = {{",
            wrap(braces),
            "};",
            "",
            "// what letters count as, from number 1 on",
            f"inline constexpr const char* SCRIPT_NAMES[{len(names)}] = {{",
            wrap([f'"{name}"' for name in names]),
            "};",
            "",
            "struct ScriptRange { std::uint32_t first, last, script; };",
            "// scripts of letters; what is no letter has none, wherever it stands",
            f"inline constexpr ScriptRange SCRIPT_RANGES[{len(scripts)}] = {{",
            wrap(script_braces),
            "};",
            "",
            "struct LowerRange { std::uint32_t first, last, stride; std::int32_t delta; };",
            "// simple lower case: code point + delta for first, first + stride, ..., last",
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

r"""Presets of the pre-tokenizer, which splits text into pieces; pieces are counted, and no token crosses their borders.

Preset `bloom` equals BLOOM's pre-tokenizer. A piece is a run of non-separators with at most one space before the run.
The text between two such pieces is also a piece, so runs of spaces stay whole, which suits code. The pattern has a
nested character class, which only Oniguruma supports. The separators are therefore white space, the punctuation in the
inner brackets, and, by accident, `(`, `|` and `)`. Other engines read the pattern differently, so BLOOM's tokenizer is
not portable.

Preset `modern` is one portable pattern. The first of these alternatives that matches is taken:

    [^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}][\p{L}\p{M}\u200C\u200D]*    a word: letters with their marks, and at most one
                                            other character before them, which is neither a number nor a line break
    \p{N}{1,3}                              up to three numeric characters
    ␣?[^\p{White_Space}\p{L}\p{M}\p{N}]+[\r\n]*    punctuation and symbols, with a space before and line breaks after
    \p{White_Space}*[\r\n]+                 line breaks with the white space before them
    \p{White_Space}+(?!\P{White_Space})     white space; its last character is left out if other text follows
    \p{White_Space}+                        the character that the previous alternative left out

Marks belong to words, so vowel signs of Indic scripts and of Arabic do not split a word. The zero-width joiner and
non-joiner also belong to words, because Bengali, Malayalam and Persian words would otherwise be split. There are no
rules for English contractions. The pattern uses the Unicode property White_Space, because `\s` differs in JavaScript.
The pattern means the same in every engine with Unicode properties and negative look-ahead: Oniguruma, JavaScript with
the flag `u`, Rust's fancy-regex, and PCRE. Only the engine's Unicode version can make a difference.

`split_digits` then makes every numeric character a separate piece (`Digits`, Rust's `char::is_numeric`).

The C++ implementation of this split (`csrc/bpe/split.hpp`) finds exactly the same pieces. Its character table is
generated from `tokenizers` (version 0.23.3, where Oniguruma has Unicode 16 and `Digits` has Unicode 17). A test
compares the C++ implementation with `tokenizers` for every code point.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

BLOOM_PATTERN = " ?[^(\\s|[.,!?…。，、।۔،])]+"
"""The pattern in BLOOM's tokenizer.json, unchanged."""

MODERN_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}][\p{L}\p{M}\u200C\u200D]*",
        r"\p{N}{1,3}",
        r" ?[^\p{White_Space}\p{L}\p{M}\p{N}]+[\r\n]*",
        r"\p{White_Space}*[\r\n]+",
        r"\p{White_Space}+(?!\P{White_Space})",
        r"\p{White_Space}+",
    )
)

PRESETS: Mapping[str, str] = MappingProxyType({"bloom": BLOOM_PATTERN, "modern": MODERN_PATTERN})
"""Oniguruma pattern of each preset. Both the matches and the text between matches are pieces."""


def build(name: str, split_digits: bool = False) -> Any:
    """Return a preset as the `tokenizers.pre_tokenizers.Sequence` that goes into tokenizer.json.

    The last step of the sequence is `ByteLevel`. Raises KeyError for a name that is not in `PRESETS`.
    """
    from tokenizers import Regex, pre_tokenizers

    steps: list[Any] = [pre_tokenizers.Split(Regex(PRESETS[name]), behavior="isolated", invert=False)]
    if split_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False))
    return pre_tokenizers.Sequence(steps)


def recognise(tokenizer_json: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Return the preset and split_digits of a tokenizer.json (its parsed value), or None if it uses no preset.

    Only the key `pre_tokenizer` is checked. The caller must check the normaliser and the added tokens.
    """
    steps = _steps(tokenizer_json.get("pre_tokenizer"))
    for name in PRESETS:
        for split_digits in (False, True):
            if steps == _wanted(name, split_digits):
                return name, split_digits
    return None


def _wanted(name: str, split_digits: bool) -> list[dict[str, Any]]:
    return [
        {"type": "Split", "pattern": {"Regex": PRESETS[name]}, "behavior": "Isolated", "invert": False},
        *([{"type": "Digits", "individual_digits": True}] if split_digits else []),
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
    ]


def _steps(pre_tokenizer: Any) -> list[Any] | None:
    """Return the steps of a sequence without `trim_offsets`, which affects the offsets of tokens but not the tokens."""
    if not isinstance(pre_tokenizer, dict) or pre_tokenizer.get("type") != "Sequence":
        return None
    steps = pre_tokenizer.get("pretokenizers")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return None
    return [{key: value for key, value in step.items() if key != "trim_offsets"} for step in steps]

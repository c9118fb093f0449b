r"""Presets of the pre-tokenizer: how a text is cut into the pieces that are counted and that no token crosses.

`bloom`: BLOOM's, faithfully. A piece is a run of what is no separator, with at most one space before it; what lies
between two such pieces is a piece as well, so runs of spaces stay whole (good for code). The inner bracket of its
pattern is a nested class, which only Oniguruma understands: the separators are white space, the punctuation in it, and
by accident `(`, `|` and `)`. Other engines read the pattern differently, so BLOOM's tokenizer is not portable.

`modern`: one portable pattern; its alternatives, of which the first that fits is taken:

    [^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}][\p{L}\p{M}\u200C\u200D]*    a word: letters with their marks, and at most one
                                            other character before it, which is neither a number nor a line break
    \p{N}{1,3}                              numbers by three
    ␣?[^\p{White_Space}\p{L}\p{M}\p{N}]+[\r\n]*    punctuation and symbols, a space before, line breaks after
    \p{White_Space}*[\r\n]+                 line breaks with the white space before them
    \p{White_Space}+(?!\P{White_Space})     white space, but for the last before something else
    \p{White_Space}+                        the last

Marks belong to words, so that no vowel sign of Indic scripts or of Arabic cuts one, and so do the zero-width joiner and
non-joiner, without which Bengali, Malayalam or Persian words fall apart. There are no rules for English contractions.
White space is spelt by its Unicode property, because JavaScript's `\s` is another set. The pattern means the same in
every engine that has Unicode properties and a negative look-ahead (Oniguruma, JavaScript with the flag `u`, Rust's
fancy-regex, PCRE), up to the version of Unicode that it knows.

`split_digits` makes every numeric character a piece of its own afterwards (`Digits`, Rust's `char::is_numeric`).

The compiled split (`csrc/bpe/split.hpp`) finds the very same pieces; its table of characters comes from `tokenizers`
(0.23.3: Oniguruma's is Unicode 16, `Digits` knows 17), and a test compares them over every code point.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

BLOOM_PATTERN = " ?[^(\\s|[.,!?…。，、।۔،])]+"
"""As it stands in BLOOM's tokenizer.json."""

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
"""Oniguruma pattern of each preset; its matches are pieces, and so is what lies between them."""


def build(name: str, split_digits: bool = False) -> Any:
    """The `tokenizers.pre_tokenizers.Sequence` of a preset, byte-level at its end, as it goes into tokenizer.json.

    Raises KeyError for a name that is not in `PRESETS`.
    """
    from tokenizers import Regex, pre_tokenizers

    steps: list[Any] = [pre_tokenizers.Split(Regex(PRESETS[name]), behavior="isolated", invert=False)]
    if split_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False))
    return pre_tokenizers.Sequence(steps)


def recognise(tokenizer_json: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Preset and split_digits of a tokenizer.json (its parsed value); None when it cuts texts in another way.

    Looks at the key `pre_tokenizer` alone: normaliser and added tokens are for the caller to judge.
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
    """Steps of a sequence without what concerns only the offsets of tokens in the text, not the tokens."""
    if not isinstance(pre_tokenizer, dict) or pre_tokenizer.get("type") != "Sequence":
        return None
    steps = pre_tokenizer.get("pretokenizers")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return None
    return [{key: value for key, value in step.items() if key != "trim_offsets"} for step in steps]

"""BLOOM's split of text into pre-tokens, for counting.

The published pattern (below; behaviour "isolated") is written for Oniguruma, where the inner bracket is a nested class:
the separators are white space, the punctuation, and by accident `(`, `|` and `)`. A piece is a run of other characters
with at most one space before it; what lies between two such pieces is a piece as well, so runs of spaces stay whole.
`split` says the same for Python's `re`, which finds all pieces of a text in one C call (several
times faster than asking `tokenizers` for pieces with offsets); a test holds it to `tokenizers` over every character.
"""

from __future__ import annotations

import re

BLOOM_PATTERN = " ?[^(\\s|[.,!?…。，、।۔،])]+"
"""As it stands in BLOOM's tokenizer.json."""

# Oniguruma's \s is Unicode's White_Space. Python's \s also has U+001C..U+001F, so the class is spelt out.
_SEPARATORS = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000(|).,!?…。，、।۔،"
# Between two pieces: separators, but for a last space when a piece follows, which then begins that piece.
_SPLIT = re.compile(f" ?[^{_SEPARATORS}]+|[{_SEPARATORS}]+(?= [^{_SEPARATORS}])|[{_SEPARATORS}]+")

split = _SPLIT.findall
"""`split(text)` -> pieces, a list of strings that joined give the text."""

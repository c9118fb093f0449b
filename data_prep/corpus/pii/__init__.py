"""Find personal data in a text, validate them, and replace them by fixed placeholders.

`passage` is the input of a finder. The finders (`emails`, `addresses`, `phones`, `banking`, `identifiers`,
`secret_keys`, `handles`) are pure functions of a passage that yield spans. `redaction` lists the finders and combines
their spans. Rules that differ between countries are tables: `calling_codes`, `countries` and `identifiers`.
"""

from __future__ import annotations

from data_prep.corpus.pii.redaction import FINDERS, PLACEHOLDERS, find_spans, redact
from data_prep.corpus.pii.spans import Span

__all__ = ["FINDERS", "PLACEHOLDERS", "Span", "find_spans", "redact"]

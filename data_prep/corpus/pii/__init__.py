"""Personal data: spans over the original text, each one validated, replaced once by fixed placeholders.

`passage` is what a finder looks at, each finder (`emails`, `addresses`, `phones`, `banking`, `identifiers`, `keys`,
`handles`) is a pure function of it, and `redaction` lists them and puts their spans together. What differs between
countries is data: `calling_codes`, `countries`, and the table of `identifiers`.
"""

from __future__ import annotations

from data_prep.corpus.pii.redaction import FINDERS, PLACEHOLDERS, find_spans, redact
from data_prep.corpus.pii.spans import Span

__all__ = ["FINDERS", "PLACEHOLDERS", "Span", "find_spans", "redact"]

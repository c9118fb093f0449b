"""Content hashes of documents. Exact duplicates have equal hashes."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data_prep.corpus import _text

CONTENT_HASH_BYTES = 16


def content_hashes(data: Any, offsets: npt.NDArray[np.int64]) -> pa.Array:
    """Hash each text with BLAKE2b-128; return fixed-size binary [n].

    Before hashing, a text is converted to NFC, each run of white space becomes one space, and both ends are stripped.

    Args:
        data: the texts in UTF-8, one after another.
        offsets: int64 [n + 1]; text i is data[offsets[i]:offsets[i + 1]].
    """
    forms, bounds, settled = _text.normal_forms(data, offsets)
    view = memoryview(forms)
    cuts = bounds.tolist()
    found = []
    for start, end, done in zip(cuts[:-1], cuts[1:], settled.tolist(), strict=True):
        form: Any = view[start:end]
        if not done:
            form = unicodedata.normalize("NFC", str(form, "utf-8")).encode("utf-8")
        found.append(blake2b(form, digest_size=CONTENT_HASH_BYTES).digest())
    return pa.array(found, pa.binary(CONTENT_HASH_BYTES))

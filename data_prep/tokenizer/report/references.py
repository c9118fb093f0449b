"""Load the reference tokenizers of a report, each from a folder, a tokenizer.json file, or a Hub repository."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from bloomery.base.errors import BloomeryError
from bloomery.config.tokenizer_report import ReferenceTokenizer
from bloomery.contracts.tokenizer import TOKENIZER, load_tokenizer
from bloomery.orchestration.tokenizer_origin import find_tokenizer
from data_prep.tokenizer.report.reported_tokenizer import ReportedTokenizer


def load_references(references: Sequence[ReferenceTokenizer]) -> dict[str, tuple[ReportedTokenizer, str | None]]:
    """Return the reference tokenizers by name, in the given order, each with the commit of its Hub repository.

    The commit is None for a tokenizer that does not come from a Hub.

    Raises:
        InputError: if a reference does not exist or is not a tokenizer.
        ConfigError, TryAgainError: if a reference cannot be read from the Hub.
    """
    found = {}
    for reference in references:
        try:
            found[reference.name] = _load(reference.tokenizer)
        except BloomeryError as error:
            message = f"reference tokenizer {reference.name!r}: {error.what}"
            raise type(error)(message, where=error.where, expected=error.expected) from error
    return found


def _load(name: str) -> tuple[ReportedTokenizer, str | None]:
    origin = find_tokenizer(name)
    with tempfile.TemporaryDirectory(prefix="bloomery-tokenizer-") as folder:
        path = Path(folder) / TOKENIZER
        path.write_bytes(origin.files[TOKENIZER])
        try:
            return ReportedTokenizer.of(load_tokenizer(path)), origin.commit
        except BloomeryError as error:  # Report `name`; the path of the temporary folder would not help the user.
            raise type(error)(error.what, where=name, expected=error.expected) from error

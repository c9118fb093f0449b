"""Loads the tokenizers that a report compares with: a folder, a tokenizer.json, or a repository of the Hub."""

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
    """The references by name, in order, each with its commit if it comes from a Hub.

    Raises InputError, or ConfigError and TryAgainError of the Hub, at the first that cannot be had.
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
        except BloomeryError as error:  # what lies in the temporary folder means nothing to a reader
            raise type(error)(error.what, where=name, expected=error.expected) from error

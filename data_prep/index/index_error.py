"""Make the error for a failed check of an index."""

from __future__ import annotations

from bloomery.base.errors import CheckFailedError

BUILD_AGAIN = "delete index.json and build the index again"


def index_error(what: str, where: object, expected: str, remedy: str = BUILD_AGAIN) -> CheckFailedError:
    """Return an error that states what is wrong and where, what was expected, and how a user gets a valid index."""
    return CheckFailedError(what, where=str(where), expected=f"{expected}; {remedy}")

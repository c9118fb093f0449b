"""The error that ends a segment because of what the preflight found."""

from __future__ import annotations

from typing import Any

from bloomery.base.errors import TryAgainError
from bloomery.contracts.segment import Fault, FirstFailure


class PreflightError(TryAgainError):
    """A node failed the preflight. The segment counts as crashed, and the next segment may run on other nodes."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        first_failure: FirstFailure | None = None,
    ) -> None:
        super().__init__(what, where=where, expected=expected)
        self.first_failure = first_failure

    @property
    def record(self) -> dict[str, Any]:
        """The fields `fault` and `first_failure` of the segment's record, as JSON."""
        failure = self.first_failure
        return {
            "fault": Fault.PREFLIGHT.value,
            "first_failure": None if failure is None else failure.model_dump(mode="json"),
        }

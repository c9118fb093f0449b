"""Find validation sets, such as languages, whose loss rises while the training continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bloomery.detect.finding import Finding, Kind, Severity

if TYPE_CHECKING:
    from bloomery.contracts.metrics_record import ValidationRecord

_SUCCESSIVE = 2
"""Number of successive validations in which the loss must be too high."""


def validation_rises(records: Sequence[ValidationRecord], rise: float) -> list[Finding]:
    """Return a finding for each set whose loss is too high in the last two validations.

    Args:
        records: validations, oldest first.
        rise: rise above the lowest earlier loss from which a set is reported, as a fraction.
    """
    if not records:
        return []
    found = []
    for name in sorted(records[-1].validation):
        losses = [(each.iteration, loss) for each in records if (loss := each.validation.get(name)) is not None]
        earlier, last = losses[:-_SUCCESSIVE], losses[-_SUCCESSIVE:]
        if not earlier:
            continue
        best_iteration, best = min(earlier, key=lambda each: each[1])
        if best > 0 and all(loss >= best * (1 + rise) for _, loss in last):
            iteration, now = last[-1]
            what = (
                f"The validation loss of {name} rose by {100 * (now / best - 1):.1f} %, from {best:.4g} after "
                f"iteration {best_iteration} to {now:.4g} after iteration {iteration}."
            )
            found.append(Finding(Kind.VALIDATION, Severity.WARNING, what, subject=name))
    return found

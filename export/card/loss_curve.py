"""Draw the loss curve of the model card. The Hub shows images of the repository that the card names by relative path.

The figure is a PNG, because a card must look the same on the Hub, in an editor and in a browser. Equal records give
equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bloomery.base.reduce_curve import reduce
from bloomery.base.render_figure import COLOUR, SECOND_COLOUR, png

if TYPE_CHECKING:
    from bloomery.contracts.metrics_record import MetricsRecord, ValidationRecord

LOSS_CURVE_NAME = "loss_curve.png"
_DOTS_PER_INCH = 110


def loss_curve(steps: Sequence[MetricsRecord], validations: Sequence[ValidationRecord]) -> bytes:
    """Return a PNG of the training loss and the mean validation loss over the consumed tokens.

    Losses that are not finite leave a gap.
    """

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        axes.set_xlabel("consumed tokens")
        axes.set_ylabel("loss (nats per token)")
        if steps:
            curve = reduce([step.consumed_tokens for step in steps], [_number(step.loss) for step in steps])
            if curve.merged:
                axes.fill_between(curve.x, curve.low, curve.high, color=COLOUR, alpha=0.2, linewidth=0)
            axes.plot(curve.x, curve.mean, color=COLOUR, label="training")
        if validations:
            tokens = [record.consumed_tokens for record in validations]
            means = [_number(record.validation_mean) for record in validations]
            axes.plot(tokens, means, color=SECOND_COLOUR, marker=".", markersize=4, label="validation, mean")
        axes.legend(fontsize=8)

    return png(draw, dots_per_inch=_DOTS_PER_INCH)


def _number(value: float | None) -> float:
    return math.nan if value is None else value

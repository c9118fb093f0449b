"""Decide which segment of the training the workflow runs next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snakemake.exceptions import WorkflowError

from bloomery.contracts.segment import SegmentStatus, read_segment


def next_segment(chain: Sequence[str], max_segments: int) -> int | None:
    """Return the number of the segment that follows those in `chain`, or None if the training is finished.

    `chain` lists the segment files that exist, in order.

    Raises:
        InputError: the last file is not a segment's file.
        WorkflowError: the chain has `max_segments` segments and none of them finished the training.
    """
    if chain and read_segment(Path(chain[-1])).status is SegmentStatus.FINISHED:
        return None
    if len(chain) >= max_segments:
        raise WorkflowError(
            f"the training is not finished after {len(chain)} segments; expected: a larger "
            "training.segment.max_segments"
        )
    return len(chain) + 1

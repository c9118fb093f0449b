"""Test when a job of SLURM has ended for the workflow."""

from __future__ import annotations

import pytest

from bloomery.orchestration.job_outcome import Outcome, outcome


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("COMPLETED", Outcome.SUCCEEDED),
        ("TIMEOUT", Outcome.FAILED),
        ("PREEMPTED", Outcome.FAILED),
        ("NODE_FAIL", Outcome.FAILED),
        ("CANCELLED", Outcome.FAILED),
        # A requeued job is pending again.
        ("PENDING", Outcome.ACTIVE),
        ("COMPLETING", Outcome.ACTIVE),
        ("SUSPENDED", Outcome.ACTIVE),
        ("REQUEUED", Outcome.ACTIVE),
    ],
)
def test_only_final_states_end_a_job(state: str, expected: Outcome) -> None:
    assert outcome(state, 0) is expected


def test_a_job_is_forgotten_only_after_several_answers_without_it() -> None:
    assert [outcome(None, looks) for looks in (1, 2, 3)] == [Outcome.ACTIVE, Outcome.ACTIVE, Outcome.FORGOTTEN]

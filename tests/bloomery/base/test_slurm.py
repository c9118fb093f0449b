"""Test the scheduler client on a machine without a scheduler.

tests/integration/cluster tests the client with a real scheduler.
"""

from __future__ import annotations

import pytest

from bloomery.base import slurm
from bloomery.base.errors import ResourceError, TryAgainError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:07", 7.0),
        ("19:59:30", 71_970.0),
        ("4-03:59:59", 4 * 86_400 + 3 * 3_600 + 59 * 60 + 59.0),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_durations_are_parsed_in_squeues_format(text, seconds):
    assert slurm.parse_duration(text) == seconds


def test_a_missing_program_is_named_in_the_error():
    with pytest.raises(ResourceError, match="no-such-program: no such program"):
        slurm.call("no-such-program")


def test_a_failing_program_raises_a_retryable_error():
    with pytest.raises(TryAgainError, match=r"ls /no/such/folder: .*No such file"):
        slurm.call("ls", "/no/such/folder")


def test_a_hanging_program_is_stopped_after_the_time_limit(monkeypatch):
    monkeypatch.setattr(slurm, "_CALL_SECONDS", 0.2)
    with pytest.raises(TryAgainError, match="no answer within"):
        slurm.call("sleep", "60")


def test_squeue_is_not_called_without_job_names():
    assert slurm.queue() == []


@pytest.mark.parametrize(
    ("comment", "rule"),
    [
        ("rule_train_segment_wildcards_12", "train_segment"),
        ("rule_all", "all"),
        ("group_read_wildcards_x", "read"),
        ("rule_group_texts", "group_texts"),
        ("(null)", "(null)"),
        ("", ""),
    ],
)
def test_the_rule_or_group_is_read_from_a_jobs_comment(comment, rule):
    assert slurm.QueuedJob("1", "u", comment, "RUNNING", None, 1, "node1", "N/A").rule == rule

"""The scheduler client where there is no scheduler; tests/integration/cluster asks a real one."""

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
def test_durations_are_read_as_squeue_writes_them(text, seconds):
    assert slurm.parse_duration(text) == seconds


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ResourceError, match="no-such-program: no such program"):
        slurm.call("no-such-program")


def test_a_failing_program_may_be_asked_again():
    with pytest.raises(TryAgainError, match=r"ls /no/such/folder: .*No such file"):
        slurm.call("ls", "/no/such/folder")


def test_a_program_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(slurm, "_CALL_SECONDS", 0.2)
    with pytest.raises(TryAgainError, match="no answer within"):
        slurm.call("sleep", "60")


def test_nothing_is_asked_for_when_no_job_is_named():
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
def test_the_comment_of_a_job_says_its_rule_or_group(comment, rule):
    assert slurm.QueuedJob("1", "u", comment, "RUNNING", None, 1, "node1", "N/A").rule == rule

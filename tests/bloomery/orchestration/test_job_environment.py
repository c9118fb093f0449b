"""Test the environment of a run's jobs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bloomery.base.follow_parent import PARENT_VARIABLE
from bloomery.orchestration.job_environment import prepare_environment


def test_jobs_find_the_programs_of_this_python_environment_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv(PARENT_VARIABLE, "1")
    prepare_environment(follow_workflow=True)
    prepare_environment(follow_workflow=True)
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    assert os.environ[PARENT_VARIABLE] == str(os.getpid())
    prepare_environment(follow_workflow=False)
    assert PARENT_VARIABLE not in os.environ

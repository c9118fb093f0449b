"""Settings that every test shares."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from repository import ROOT

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

# In tests/support.
pytest_plugins = ["workflow_fixtures"]

# Time limits on single examples fail on a busy machine and say nothing about the code; derandomised, so that a green
# run stays green and a failure is found again by running again.
settings.register_profile("bloomery", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bloomery")

# Tests that a shell runs in the background inherit that Ctrl-C is ignored, and so would programs that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that was left out has failed: what it needs must be installed there."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"left out, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def bloom() -> RunConfig:
    """BLOOM-176B."""
    from bloomery.checks.load_config import load_config

    return load_config(ROOT / "config/models/tr11-176b.yaml")

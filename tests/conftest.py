"""Define settings and fixtures that all tests share."""

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

# This module is in tests/support.
pytest_plugins = ["workflow_fixtures"]

# There is no deadline, because time limits on single examples fail on a busy machine. Examples are derandomised, so
# every run tests the same examples and a failure can be reproduced.
settings.register_profile("bloomery", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bloomery")

# A shell starts background processes with SIGINT ignored. Restore the default, because programs that the tests
# interrupt inherit this setting.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failure in CI, because everything that tests need must be installed there."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def bloom() -> RunConfig:
    """Return the configuration of BLOOM-176B."""
    from bloomery.checks.load_config import load_config

    return load_config(ROOT / "config/models/tr11-176b.yaml")

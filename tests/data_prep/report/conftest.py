"""Fixture of the corpus report of the sample run."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def report(sample_run: Any) -> tuple[dict[str, Any], str]:
    """Return the report as JSON data and as an HTML page."""
    found: tuple[dict[str, Any], str] = sample_run.report()
    return found

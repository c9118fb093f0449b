"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser, browser_program


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if browser_program() is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium fonts-noto-core fonts-wqy-microhei)")
    with Browser.start() as running:
        yield running

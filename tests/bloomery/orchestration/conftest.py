"""Fixture of a folder without a site file."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in `tmp_path`, where no site.yaml is found unless the test writes one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BLOOMERY_SITE", raising=False)

"""Which distributions are installed, and which packages only share a name with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.installed import Apex, apex


def test_the_real_apex_is_told_from_its_namesake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert apex() is Apex.ABSENT
    (tmp_path / "apex/normalization").mkdir(parents=True)
    (tmp_path / "apex/__init__.py").write_text("raise SystemExit('imported')\n")
    assert apex() is Apex.OTHER
    (tmp_path / "apex/normalization/fused_layer_norm.py").write_text("class FusedLayerNorm: ...\n")
    assert apex() is Apex.SOURCE
    for extension in ("fused_layer_norm_cuda", "amp_C"):
        (tmp_path / f"{extension}.py").write_text("")
    assert apex() is Apex.REAL

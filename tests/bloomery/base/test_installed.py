"""Test the detection of installed packages, also when another package has the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.installed import Apex, apex


def test_nvidias_apex_is_distinguished_from_another_package_named_apex(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

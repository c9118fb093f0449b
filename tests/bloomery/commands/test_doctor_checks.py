"""Test the checks that `bloomery doctor` makes on a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_doctor_names_the_kernels_that_training_would_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bloomery doctor` chooses kernels for the GPU that PyTorch detects by the same rules as training."""
    from bloomery.base.installed import Apex
    from bloomery.commands import doctor_checks

    def found(capability: list[int]) -> dict[str, str]:
        facts = {"version": "2.11", "cuda": "13.0", "gloo": True, "nccl": True, "gpus": ["NVIDIA H200"]}
        output = json.dumps(facts | {"capability": capability})
        monkeypatch.setattr(doctor_checks, "_run_python", lambda code: (True, output))
        return {finding.name: finding.found for finding in doctor_checks.torch()}

    monkeypatch.setattr(doctor_checks.installed, "apex", lambda: Apex.REAL)
    monkeypatch.setattr(doctor_checks.installed, "has", lambda module: module == "flash_attn")
    monkeypatch.setattr(doctor_checks.installed, "version", lambda distribution: (2, 8, 3))
    assert found([9, 0]) == {
        "PyTorch": "2.11, CUDA 13.0, gloo, nccl",
        "GPU": "1 x NVIDIA H200",
        "training.kernels.attention": "flash (flash-attn computes ALiBi from the slopes and reads no bias matrix)",
        "training.kernels.layer_norm": "apex (NVIDIA's apex is installed)",
        "training.kernels.optimizer": "apex (NVIDIA's apex is installed)",
    }
    assert found([7, 0])["training.kernels.attention"].startswith("sdpa ('flash' is not used: the GPU is older than ")


def test_doctor_warns_about_the_wrong_apex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    from bloomery.commands.doctor_checks import FindingState, apex

    (tmp_path / "apex").mkdir()
    (tmp_path / "apex/__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert apex().state is FindingState.WARN
    assert "not NVIDIA's apex" in apex().found
    (tmp_path / "apex/normalization").mkdir()
    (tmp_path / "apex/normalization/fused_layer_norm.py").write_text("class FusedLayerNorm: ...\n")
    assert "without its CUDA kernels" in apex().found


def test_doctor_reports_a_missing_module_and_a_full_disk() -> None:
    from bloomery.commands import doctor_checks

    assert doctor_checks._run_python("import a_module_that_is_not_there") == (
        False,
        "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
    )
    assert doctor_checks.disk(Path("/proc")).state is not doctor_checks.FindingState.OK

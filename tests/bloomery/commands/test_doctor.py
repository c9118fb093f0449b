"""Test the verb `bloomery doctor`."""

from __future__ import annotations

import json
import re

import pytest
from command_line import bloomery


@pytest.mark.slow
def test_doctor_prints_json_and_never_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret_of_this_test")
    done = bloomery("doctor", "--json")
    assert done.returncode == 0, done.stdout
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert {"Python", "CPU cores", "memory", "disk", "PyTorch", "DeepSpeed", "apex", "SLURM", "Hub", "npm"} <= set(
        findings
    )
    for kind in ("attention", "layer_norm", "optimizer"):
        assert re.fullmatch(r"\w+ \(.{6,}\)", findings[f"training.kernels.{kind}"]["found"]), kind
    assert "a token is set" in findings["Hub"]["found"]
    assert "hf_secret" not in done.stdout + done.stderr

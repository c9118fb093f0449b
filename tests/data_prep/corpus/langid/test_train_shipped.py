"""Test the program that trained the shipped model."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bloomery.config.languages import SHIPPED_FALLBACK


@pytest.mark.slow
def test_the_training_program_reproduces_the_shipped_model(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm client on this machine (apt-get install npm)")
    output = tmp_path / "model.safetensors"
    command = [sys.executable, "-m", "data_prep.corpus.langid.train_shipped", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode and "npm failed" in done.stderr:
        pytest.skip("the npm client cannot reach a registry")
    assert done.returncode == 0, done.stderr
    assert output.read_bytes() == SHIPPED_FALLBACK.read_bytes()

"""Test that the training package imports and trains without the packages that only the workflow needs.

A GPU machine may lack these packages.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from repository import ROOT

ABSENT = (
    *("codecarbon", "datasets", "huggingface_hub", "matplotlib", "pyarrow", "pycld2", "regex", "rich", "snakemake"),
    *("tensorboard", "tokenizers", "transformers", "typer", "zstandard"),
)
"""Packages that only other rooms and the command line need."""

BLOCK = f"""
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

EVERY_MODULE = """
import importlib, pkgutil
import training

for module in pkgutil.walk_packages(training.__path__, "training."):
    if not module.name.endswith(".cli"):  # the command lines need typer
        importlib.import_module(module.name)
"""

ONE_STEP = """
import sys
sys.argv = ["step.py", "--shape", "tiny"]
sys.path.insert(0, "bench/gpu")
import step
step.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [EVERY_MODULE, ONE_STEP], ids=["every module", "a step of bench/gpu"])
def test_training_needs_no_package_of_the_workflow(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", BLOCK + program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr

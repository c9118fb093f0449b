"""Everything that the recorders assume about this checkout: programs, verbs, options and paths of files.

The same recorders run before and after a refactoring. No recorder imports a module of the packages, and neither does
this file: they use the command line, `snakemake`, and the files of a run. When a verb, an option or a path changes,
this is the only file to edit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The recorded checkout."""
CONFIGS = sorted([*(ROOT / "config").glob("*.yaml"), *(ROOT / "config/models").glob("*.yaml")])
"""Every shipped configuration of a run."""
SITE = ROOT / "config/sites/eight-gpus.yaml"
SAMPLE = "config/sample.yaml"
SNAKEFILE = ["--snakefile", str(ROOT / "Snakefile")]
SNAKEMAKE = [sys.executable, "-m", "snakemake"]
LOCAL = ["--profile", str(ROOT / "workflow/profiles/local")]
SLURM = ["--profile", str(ROOT / "workflow/profiles/slurm")]
TRAINING_RULE = "train_segment"


def main_program() -> Callable[[], int]:
    """Return the function behind the command `bloomery`, as the installed package declares it."""
    (script,) = entry_points(group="console_scripts", name="bloomery")
    function: Callable[[], int] = script.load()
    return function


def segment_command(run: str, number: int) -> list[str]:
    """Return the command that trains one segment of the run in the folder `run`."""
    command = [str(Path(sys.executable).with_name("bloomery")), "train", "segment"]
    command += ["--config", f"{run}/config/train.json", "--run", run, "--number", str(number)]
    return [*command, "--output", segment_file(run, number)]


def segment_file(run: str, number: int) -> str:
    """Return the path of the file that records how a segment ended."""
    return f"{run}/train/segments/{number}.json"


def metrics_file(run: Path) -> Path:
    """Return the path of the file with one record per iteration."""
    return run / "train/logs/metrics.jsonl"


def environment(**more: str) -> dict[str, str]:
    """Return a small environment that is the same for every recording: no token, no network, no GPU, fixed hashes."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "USER", "TMPDIR") if name in os.environ}
    fixed = {
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PYTHONHASHSEED": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "HF_TOKEN": "",
        "SCRATCH": "/scratch",
        # Hide the site file of the current user.
        "XDG_CONFIG_HOME": "/nonexistent",
    }
    return kept | fixed | more


MEASURED_FIELDS = {
    *("time", "seconds", "tokens_per_second", "tflops_hardware", "tflops_model", "samples_per_second", "mfu"),
    *("fastest_rank", "fastest_seconds", "slowest_rank", "slowest_seconds"),
}
"""Fields of metrics.jsonl that depend on a clock. All other fields are recorded."""

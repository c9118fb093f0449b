"""Claim: on two cores, the first iteration of a training ends within 5 minutes after `bloomery init`, on 46 languages.

python bench/first_token.py > bench/results/first_token.json

The program starts in an empty folder. It runs `bloomery init` on all files of the benchmark corpus (`BLOOMERY_CORPUS`)
and then the workflow, until the first iteration is in metrics.jsonl. Then it stops the workflow. The installation is
not counted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _support import CORPUS, languages, machine, report, workflow_command, workflow_environment

LIMIT_SECONDS = 300.0
_LOOK_EVERY_SECONDS = 0.2


def measure(folder: Path) -> dict[str, Any]:
    """Return the seconds of `init` and of the workflow up to the end of the first iteration."""
    began = time.perf_counter()
    init = [sys.executable, "-m", "bloomery.cli", "init", "--source", str(CORPUS / "*.jsonl.zst"), "--name", "all"]
    subprocess.run(
        [*init, "--minutes", "10", "--output", "all.yaml", "--yes"], cwd=folder, stdout=sys.stderr, check=True
    )
    written = time.perf_counter()
    command = workflow_command(folder, folder / "all.yaml", "train")
    process = subprocess.Popen(
        command, stdout=sys.stderr, cwd=folder, env=workflow_environment(), start_new_session=True
    )
    metrics = folder / "runs/all/train/logs/metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(_LOOK_EVERY_SECONDS)
    ended = time.perf_counter()
    trained = process.poll() is None
    # As Ctrl-C at a terminal, the signal reaches the jobs too.
    os.killpg(process.pid, signal.SIGINT)
    process.wait()
    assert trained, "the workflow ended before the first iteration"
    return {"init_seconds": round(written - began, 1), "workflow_seconds": round(ended - written, 1)}


def main() -> int:
    """Measure and print; exit code 1 if the limit is exceeded."""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    seconds = round(found["init_seconds"] + found["workflow_seconds"], 1)
    result = {
        "languages": len(languages()),
        "megabytes_compressed": round(sum(path.stat().st_size for path in CORPUS.glob("*.jsonl.zst")) / 1e6, 1),
        **found,
        "seconds": seconds,
        "limit_seconds": LIMIT_SECONDS,
        "machine": machine(),
    }
    return report("first_token", result, passed=seconds <= LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())

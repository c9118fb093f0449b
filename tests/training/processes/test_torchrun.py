"""Test that each failed process of a segment is reported in one line, without a traceback of the launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import FirstFailure
from training.processes.end_of_ranks import first_failure

PROGRAM = """
import os, signal, sys, time
if os.environ["RANK"] == "1":
    {end}
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.parametrize(
    ("end", "said"),
    [("os.kill(os.getpid(), signal.SIGKILL)", "was ended by signal SIGKILL"), ("sys.exit(3)", "ended with code 3")],
    ids=["killed", "exited"],
)
def test_a_failed_rank_is_reported_in_one_line_and_recorded(tmp_path: Path, end: str, said: str) -> None:
    program = tmp_path / "rank.py"
    program.write_text(PROGRAM.format(end=end))
    command = [
        sys.executable,
        "-m",
        "training.processes.torchrun",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(program),
    ]
    command += ["--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    failed = [line for line in done.stderr.splitlines() if line.startswith("rank ")]
    assert failed[0].startswith("rank 1 (process ")
    assert failed[0].endswith(said)
    assert "Traceback" not in done.stderr
    assert "more ranks" not in done.stderr
    recorded = first_failure(RunPaths(tmp_path).heartbeats)
    assert recorded == FirstFailure(rank=1, host=os.uname().nodename, ending=said)

"""Test that a rank's output goes to its log file and to the terminal, even if the rank crashes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from training.loop.rank_log import open_rank_log
log = open_rank_log(Path(sys.argv[1]), 3, 2)
log.note("to the file")
log.note_memory()
print("to stdout")
print("to stderr", file=sys.stderr)
os.write(2, b"from C\\n")
subprocess.run(["echo", "from a child"])
if sys.argv[2] == "raise":
    raise RuntimeError("it broke")
if sys.argv[2] == "fault":
    import ctypes
    ctypes.string_at(0)
"""


def run(folder: Path, end: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, str(folder), end], capture_output=True, text=True)


@pytest.mark.slow
def test_python_text_goes_to_both_and_output_of_libraries_only_to_the_file(tmp_path: Path) -> None:
    done = run(tmp_path, "well")
    assert (done.returncode, done.stdout, done.stderr) == (0, "to stdout\n", "to stderr\n")
    head, note, memory, *said = (tmp_path / "ranks/3.log").read_text().splitlines()
    assert "rank 3, process" in head
    assert head.endswith(", segment 2")
    assert note.endswith("] to the file")
    assert re.search(r"at most \d+\.\d [MG]iB of main memory", memory)
    assert sorted(said) == ["from C", "from a child", "to stderr", "to stdout"]


@pytest.mark.slow
def test_an_exception_is_written_to_both_and_the_next_process_appends_to_the_file(tmp_path: Path) -> None:
    done = run(tmp_path, "raise")
    assert done.returncode == 1
    assert "RuntimeError: it broke" in done.stderr
    run(tmp_path, "well")
    text = (tmp_path / "ranks/3.log").read_text()
    assert text.count("RuntimeError: it broke") == 1
    assert text.count("rank 3, process") == 2


@pytest.mark.slow
def test_a_segmentation_fault_writes_its_stack_to_the_file(tmp_path: Path) -> None:
    done = run(tmp_path, "fault")
    assert done.returncode == -signal.SIGSEGV
    text = (tmp_path / "ranks/3.log").read_text()
    assert "Segmentation fault" in text
    assert "string_at" in text

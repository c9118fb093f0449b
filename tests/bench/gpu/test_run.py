"""Test the runner of the GPU measurements with its smallest group, and with scripts that fail or hang."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from itertools import chain, repeat
from types import SimpleNamespace

import pytest
from repository import ROOT

RUN = ROOT / "bench/gpu/run.py"


@pytest.mark.slow
def test_the_smallest_pieces_are_measured_only_once(tmp_path):
    command = [sys.executable, str(RUN), "--output", str(tmp_path), "--shape", "tiny"]
    command += ["--pieces", "attention", "dropout"]
    first = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    (measured,) = json.loads((tmp_path / "attention.json").read_text())
    found = {(each["back_end"], each["positions"]): each for each in measured["back_ends"]}
    for positions in ("alibi", "none"):
        assert found["sdpa", positions]["within"]
        assert found["sdpa", positions]["seconds"] > 0
    assert "attention sdpa, positions alibi" in first.stdout
    assert "dropout of attention weights: right" in first.stdout
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout, "the second run must not repeat the measurement"
    assert not again.stderr


SCRIPT = """
import json, pathlib, sys, time
count = pathlib.Path(__file__).with_suffix(".count")
count.write_text(count.read_text() + "x" if count.exists() else "x")
{action}
step = {{"median": 2.0, "least": 1.0, "greatest": 3.0}}
print("talk of a library")
print(json.dumps({{"step_seconds": step, "tokens_per_second": 1234.5, "model_tflops": 500.0, "mfu": 0.5056,
    "peak_memory_gib": 71.25, "shape": "1b3", "who": "ours"}}))
"""


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """Load run.py with one group of four scripts instead of the measurements: good, bad, hung and late."""
    specification = importlib.util.spec_from_file_location("gpu_run", RUN)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    actions = {
        "good": "",
        "bad": "raise RuntimeError('CUDA out of memory')",
        "hung": "time.sleep(60)",
        "late": "",
    }
    for name, action in actions.items():
        (scripts / f"{name}.py").write_text(SCRIPT.format(action=action))
    monkeypatch.setattr(module, "HERE", scripts)
    monkeypatch.setattr(module, "_pieces", lambda _shape: {"piece": [[f"{name}.py"] for name in actions]})
    monkeypatch.setattr(module, "LEAST_SECONDS", 0.5)
    # These are the values of the clock: the first at the start of the group, and then one before each of the four
    # scripts. When run.py is called a second time, the clock stays at 0.
    passed = chain([0.0, 0.0, 0.0, module.PIECE_SECONDS - 1.0, module.PIECE_SECONDS], repeat(0.0))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(passed)))
    monkeypatch.setattr(sys, "argv", ["run.py", "--output", str(tmp_path / "out")])
    module.scripts = scripts
    return module


def _starts(runner) -> dict[str, int]:
    """Return how often each script was run, without the script that hangs, which may be killed before it is counted."""
    counts = {path.stem: len(path.read_text()) for path in runner.scripts.glob("*.count")}
    counts.pop("hung", None)
    return counts


def test_failed_and_hanging_variants_are_reported_and_only_they_are_retried(runner, tmp_path, capsys):
    assert runner.main() == 1
    said = capsys.readouterr().out
    lines = {line.split()[0]: line for line in said.splitlines() if line}
    assert lines["good.py"].split()[1:] == ["2.000", "1,234", "500.0", "50.6", "%", "71.2"]
    assert "RuntimeError: CUDA out of memory" in lines["bad.py"]
    assert "did not finish within 1 s" in lines["hung.py"]
    assert "skipped: 450 s, the time limit of a piece, are over" in lines["late.py"]
    assert "1b3: best MFU 50.6 %, goal 50 %" in said
    assert _starts(runner) == {"good": 1, "bad": 1}
    for name in ("bad", "hung"):
        (runner.scripts / f"{name}.py").write_text(SCRIPT.format(action=""))
    assert runner.main() == 0
    assert _starts(runner) == {"good": 1, "bad": 2, "late": 1}
    written = json.loads((tmp_path / "out" / "piece.json").read_text())
    assert [each["command"] for each in written] == ["good.py", "bad.py", "hung.py", "late.py"]
    assert not any("error" in each for each in written)


def test_an_unknown_piece_is_refused_with_the_known_names(runner, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--pieces", "other"])
    with pytest.raises(SystemExit, match="2"):
        runner.main()
    assert "unknown piece other; known pieces: piece" in capsys.readouterr().err

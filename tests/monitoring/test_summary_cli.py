"""Test the verb `bloomery summary`."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import bloomery


def test_the_summary_of_an_unstarted_run_has_empty_sections(tmp_path: Path) -> None:
    empty = bloomery("summary", "--run", str(tmp_path))
    assert (empty.returncode, empty.stdout) == (1, "")
    assert "not a run, because it has no config/parts.json; expected: the folder of a run" in empty.stderr
    (tmp_path / "config").mkdir()
    (tmp_path / "config/parts.json").write_text("[]")
    done = bloomery("summary", "--run", str(tmp_path), "--json")
    facts = json.loads(done.stdout)
    assert (facts["corpus"], facts["training"], facts["models"]) == (None, None, [])
    assert facts["next"] == "the command that started the run (to resume the run)"
    missing = bloomery("summary", "--run", str(tmp_path / "absent"))
    assert missing.returncode == 1
    assert "no such folder" in missing.stderr

"""Test the verb `bloomery config`."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import bloomery


def test_check_prints_the_sizes_of_the_run() -> None:
    done = bloomery("config", "check", "config/sample.yaml", "--json")
    figures = json.loads(done.stdout)
    assert figures["world_size"] == 4
    assert figures["stages"] == ["embed|2", "2|head"]
    plain = bloomery("config", "check", "config/sample.yaml").stdout
    assert f"{figures['parameters']:,}" in plain
    assert f"{figures['iterations']:,}" in plain


def test_show_prints_a_configuration_that_can_be_loaded_again(tmp_path: Path) -> None:
    shown = tmp_path / "shown.yaml"
    shown.write_text(bloomery("config", "show", "config/sample.yaml").stdout)
    first = bloomery("config", "show", "config/sample.yaml", "--json").stdout
    assert bloomery("config", "show", str(shown), "--json").stdout == first
    deepspeed = json.loads(bloomery("config", "show", "config/sample.yaml", "--deepspeed").stdout)
    assert deepspeed["bf16"]["enabled"] is True

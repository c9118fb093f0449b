"""Test which parity.json is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.parity import Parity, read_parity

VALUES: dict[str, Any] = {
    "model": "m",
    "checkpoint": "step00000100",
    "dtype": "bfloat16",
    "tolerance": 1e-4,
    "max_difference": 0.0,
    "max_absolute_difference": 0.0,
    "max_logit": 1.0,
    "argmax_agreement": 1.0,
    "prompt": "",
    "text": "",
    "versions": {},
    "files": {"model.safetensors": {"bytes": 1, "sha256": "0" * 64}},
    **dict.fromkeys(("iteration", "consumed_tokens", "parameters", "vocabulary_rows", "samples", "tokens"), 1),
}


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_json(tmp_path / "parity.json", VALUES)
    assert read_parity(tmp_path) == Parity.model_validate(VALUES)


@pytest.mark.parametrize("name", ["../../etc/hostname", "/etc/hostname", "a/../../b", ""])
def test_a_file_outside_of_the_model_is_refused(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / "parity.json", VALUES | {"files": {name: {"bytes": 1, "sha256": "0" * 64}}})
    with pytest.raises(InputError, match=r"not a parity report: files.*a relative path below this folder"):
        read_parity(tmp_path)


@pytest.mark.parametrize("change", [{"checkpoint": "../../x"}, {"iteration": -1}, {"parameters": 10**18 * 9 + 10**18}])
def test_other_impossible_values_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    write_json(tmp_path / "parity.json", VALUES | change)
    with pytest.raises(InputError):
        read_parity(tmp_path)

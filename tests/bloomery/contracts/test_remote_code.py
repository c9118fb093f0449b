"""Test that files of transformers which name Python code to run are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.remote_code import refuse_remote_code

CODE = {"AutoTokenizer": ["evil.Tokenizer", None]}


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"auto_map": CODE}, "auto_map"),
        ({"text_config": {"auto_map": CODE}}, "auto_map"),
        ({"a": [{"b": {"trust_remote_code": True}}]}, "trust_remote_code"),
    ],
)
def test_a_file_that_names_code_is_refused_with_its_key(tmp_path: Path, value: object, key: str) -> None:
    write_json(tmp_path / "config.json", value)
    with pytest.raises(InputError, match=rf"config\.json: the key '{key}' makes transformers run Python code"):
        refuse_remote_code(tmp_path / "config.json")


def test_other_files_are_accepted(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "bloom", "note": "auto_map", "ids": [1, None]})
    refuse_remote_code(tmp_path / "config.json")

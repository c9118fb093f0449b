"""Test the reading of one value of a JSON file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.base.json_member import read_member


@pytest.mark.parametrize(
    "content", [None, [], 1, "a", {}, {"a": None}, {"a": []}, {"a": {"b": 1}}, {"a": {"b": ["c"]}}]
)
def test_a_value_that_is_missing_or_of_another_type_is_an_input_error(tmp_path: Path, content: object) -> None:
    path = tmp_path / "x.json"
    write_json(path, content)
    with pytest.raises(InputError, match=r"x\.json: a\.b is missing or has the wrong type; expected: a file that the"):
        read_member(path, "a", "b", kind=str)
    write_json(path, {"a": {"b": "c"}})
    assert read_member(path, "a", "b", kind=str) == "c"
    assert read_member(path, kind=dict) == {"a": {"b": "c"}}

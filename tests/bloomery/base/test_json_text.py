"""Test that JSON texts which fail later in the program are refused when they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.base.json_text import MAX_DEPTH, parse_json

REFUSED = {
    b"[" * 200_000: "nested more than 100 levels deep",
    b"[" * 101 + b"]" * 101: "nested more than 100 levels deep",
    b'{"a":' * 101 + b"1" + b"}" * 101: "nested more than 100 levels deep",
    b'{"a": 1e999}': "the number 1e999 is too large",
    b'{"a": -1e999}': "the number -1e999 is too large",
    b'{"a": NaN}': "NaN is not a JSON number",
    b"[-Infinity]": "-Infinity is not a JSON number",
    b"[9223372036854775809]": "9223372036854775809 is beyond 2^63",
    b"9" * 5000: "9... is beyond 2^63",
    b'{"a": 1, "b": 2, "a": 3}': "the key 'a' occurs more than once",
    b'{"a": "\\ud800"}': "half of a surrogate pair",
    b'{"\\uDFFF": 1}': "half of a surrogate pair",
    b"": "the text is empty",
    b"\0\0\0": "not valid JSON",
    b'{"a": "\0"}': "control character",
    b"\xff": "not UTF-8 text",
    b"\xef\xbb\xbf{}": "not valid JSON",
}


@pytest.mark.parametrize("text", REFUSED, ids=[f"{number}" for number in range(len(REFUSED))])
def test_a_file_with_such_a_text_is_an_input_error(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_json(path)
    assert REFUSED[text] in caught.value.what
    assert caught.value.where == str(path)
    assert len(str(caught.value)) < 500
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)


@pytest.mark.parametrize(
    "value",
    [{"a": [1, -2.5, None, True, "é\n😀", 2**63, -(2**63)]}, [[]] * 1000, 0.1 + 0.2, 1e308, 5e-324, {"": {}}],
)
def test_every_other_value_is_read_as_by_the_standard_library(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text) == parse_json(text.encode()) == value


def test_the_deepest_accepted_value_can_be_read_and_written() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json.dumps(parse_json(text)) == text


def test_a_file_of_another_program_may_have_larger_integers(tmp_path: Path) -> None:
    # transformers writes int(1e30) for a tokenizer without a largest length.
    (tmp_path / "tokenizer_config.json").write_text(f'{{"model_max_length": {int(1e30)}}}')
    with pytest.raises(InputError, match=r"beyond 2\^63"):
        read_json(tmp_path / "tokenizer_config.json")
    assert read_json(tmp_path / "tokenizer_config.json", any_integer=True) == {"model_max_length": int(1e30)}

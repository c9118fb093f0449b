"""Test JSON files that contain a digest of their own content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bloomery.base.errors import InputError
from bloomery.base.self_digest import check_file, write_with_own_digest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_with_own_digest(tmp_path / "a.json", {"number": 17, "names": ["x", "y"]})
    return tmp_path / "a.json"


def test_an_unchanged_file_gives_its_content(path: Path) -> None:
    assert check_file(path, restore="again") == {"number": 17, "names": ["x", "y"]}


def test_a_change_of_any_byte_is_found(path: Path) -> None:
    content = path.read_bytes()
    for position in range(len(content)):
        for byte in {content[position] ^ 1, ord("7"), ord(" ")} - {content[position]}:
            path.write_bytes(content[:position] + bytes([byte]) + content[position + 1 :])
            with pytest.raises(InputError):
                check_file(path, restore="again")


@pytest.mark.parametrize("text", ['{\n  "a": 1\n}\n', "[]\n"])
def test_a_file_without_digest_cannot_be_checked(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError, match="no digest of its own"):
        check_file(path, restore="again")
    assert check_file(path, restore="again", required=False) == json.loads(text)

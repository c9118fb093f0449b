"""Test that the special ids of an exported model are those of its tokenizer, trained or existing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, models

from bloomery.base.atomic import write_json
from bloomery.base.errors import CheckFailedError
from export.write_configs import read_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a tokenizer whose documents end with id 4. Ids 2 and 3 are unused, and the greatest id is 5."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "<|endoftext|>": 4, "<|pad|>": 5}, unk_token="a"))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True), AddedToken("<|pad|>", special=True)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    write_json(tmp_path / "tokenizer_config.json", {"eos_token": {"content": "<|endoftext|>"}, "bos_token": None})
    write_json(tmp_path / "special_tokens_map.json", {"pad_token": "<|pad|>"})
    return tmp_path


def test_special_ids_follow_the_roles_that_the_folder_names(folder: Path) -> None:
    facts = read_tokenizer(folder, 6)
    assert facts.special_ids == {"bos": None, "eos": 4, "pad": 5}


def test_the_vocabulary_size_is_the_greatest_id_plus_one(folder: Path) -> None:
    assert read_tokenizer(folder, 6).size == 6
    with pytest.raises(CheckFailedError, match="has 6 entries"):
        read_tokenizer(folder, 4)

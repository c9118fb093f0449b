"""Test that special tokens are found in the folder of any tokenizer."""

import pytest
from tokenizers import Tokenizer, models

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.tokenizer import end_of_document, load_tokenizer, special_tokens, vocabulary_size


@pytest.fixture
def folder(tmp_path):
    Tokenizer(models.WordLevel({"a": 0, "</s>": 1, "<end>": 9})).save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def end(folder):
    path = folder / "tokenizer.json"
    return end_of_document(path, load_tokenizer(path))


def test_tokenizer_config_takes_precedence_over_the_map_and_tokens_may_be_objects(folder):
    write_json(folder / "special_tokens_map.json", {"eos_token": "</s>", "pad_token": "a"})
    assert end(folder) == 1
    write_json(
        folder / "tokenizer_config.json", {"eos_token": {"content": "<end>", "special": True}, "pad_token": None}
    )
    assert end(folder) == 9
    assert special_tokens(folder) == {"eos": "<end>", "pad": "a"}


def test_a_folder_without_an_end_of_document_is_refused_with_the_reason(folder):
    with pytest.raises(InputError, match="does not define eos_token"):
        end(folder)
    write_json(folder / "tokenizer_config.json", {"eos_token": "<|endoftext|>"})
    with pytest.raises(InputError, match=r"eos_token '<\|endoftext\|>' is not in tokenizer\.json"):
        end(folder)
    (folder / "tokenizer_config.json").write_text("[]")
    with pytest.raises(InputError, match="not a JSON object"):
        end(folder)
    with pytest.raises(InputError, match="no such file"):
        load_tokenizer(folder / "none.json")
    (folder / "none.json").write_text("{}")
    with pytest.raises(InputError, match="not a tokenizer"):
        load_tokenizer(folder / "none.json")


def test_the_vocabulary_size_includes_unused_ids(folder):
    assert vocabulary_size(load_tokenizer(folder / "tokenizer.json")) == 10

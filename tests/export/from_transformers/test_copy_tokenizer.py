"""Test the tokenizer of an imported model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fabricated_export import make_tokenizer
from transformers import GPT2Config

from bloomery.base.errors import InputError
from export.from_transformers.copy_tokenizer import copy_tokenizer

CONFIG = GPT2Config(bos_token_id=1, eos_token_id=2, pad_token_id=None)


def test_the_tokenizer_is_copied_and_its_roles_are_completed_from_the_model(tmp_path: Path) -> None:
    make_tokenizer(tmp_path / "source")
    (tmp_path / "source/special_tokens_map.json").unlink()
    # GPT-2 on the Hub has such a file. Only its class in transformers knows the special tokens.
    values = {"model_max_length": 1024, "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    (tmp_path / "source/tokenizer_config.json").write_text(json.dumps(values))
    assert copy_tokenizer(str(tmp_path / "source"), tmp_path / "out", CONFIG, 290) == 290
    written = json.loads((tmp_path / "out/tokenizer_config.json").read_text())
    assert {key: written[key] for key in ("bos_token", "eos_token")} == {"bos_token": "<s>", "eos_token": "</s>"}
    assert not {"auto_map", "pad_token"} & written.keys()
    own = (tmp_path / "source/tokenizer.json").read_bytes()
    assert (tmp_path / "out/tokenizer.json").read_bytes() == own


def test_a_tokenizer_that_the_embedding_has_no_rows_for_is_refused(tmp_path: Path) -> None:
    make_tokenizer(tmp_path / "source")
    with pytest.raises(InputError, match="the tokenizer has 290 entries, but the embedding of the model has 289 rows"):
        copy_tokenizer(str(tmp_path / "source"), tmp_path / "out", CONFIG, 289)


def test_a_model_without_tokenizer_json_needs_the_option(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/vocab.json").write_text("{}")
    with pytest.raises(InputError, match=r"has vocab\.json but no tokenizer\.json; .*or the option --tokenizer"):
        copy_tokenizer(str(tmp_path / "source"), tmp_path / "out", CONFIG, 290)

"""Test the folder of a trained tokenizer: its files, and that transformers encodes with it like `tokenizers`."""

import json

import pytest
from tokenizer_training import train_tokenizer
from tokenizers import Tokenizer
from trained_texts import TEXTS, WEIGHTS

from bloomery.base.errors import ConfigError, InputError
from bloomery.config.stages import TokenizerStage
from bloomery.config.tokens import TokenizerConfig

FILES = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "training.json"]


def test_autotokenizer_encodes_as_tokenizers_does(train):
    transformers = pytest.importorskip("transformers")
    folder = train()
    ours, theirs = (
        Tokenizer.from_file(str(folder / "tokenizer.json")),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    assert (theirs.unk_token_id, theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id) == (0, 1, 2, 3)
    assert len(theirs) == ours.get_vocab_size()
    for text in [*(text for of in TEXTS.values() for text in of), "", " ", "a  b ,c", "x</s>y", "👍🏽\0", " <s> <pad>"]:
        encoded = ours.encode(text)
        assert theirs(text)["input_ids"] == encoded.ids
        assert theirs(text, return_offsets_mapping=True)["offset_mapping"] == encoded.offsets
        assert theirs.decode(encoded.ids) == text == ours.decode(encoded.ids, skip_special_tokens=False)


def test_bytes_depend_on_neither_order_nor_number_of_shards(train, tmp_path):
    one = train("one")
    parts = {f"s/{n:05d}": {code: TEXTS[code]} for n, code in enumerate(sorted(TEXTS))}
    two, three = train("two", parts=parts), train("three", parts=dict(reversed(parts.items())))
    assert sorted(path.name for path in one.iterdir()) == FILES
    for name in FILES:
        if name != "training.json":  # training.json names its inputs
            assert (one / name).read_bytes() == (two / name).read_bytes()
        assert (two / name).read_bytes() == (three / name).read_bytes()


def test_a_small_corpus_gives_a_smaller_vocabulary_and_a_message(train, capsys):
    folder = train(vocabulary_size=5000)
    report = json.loads((folder / "training.json").read_text())
    assert report["vocabulary_asked"] == 5000
    assert report["vocabulary"] == 4 + 3 + 256 + report["merges"] < 5000
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size() == report["vocabulary"]
    assert "instead of 5000" in capsys.readouterr().err


def test_no_token_is_longer_than_max_token_bytes(train):
    vocabulary = Tokenizer.from_file(str(train(vocabulary_size=5000, max_token_bytes=4) / "tokenizer.json")).get_vocab()
    assert max(len(token) for token, number in vocabulary.items() if number >= 7) <= 4


def test_a_vocabulary_without_room_for_the_bytes_is_refused(train):
    with pytest.raises(ConfigError, match="too small"):
        train(vocabulary_size=262)


def test_missing_counts_are_an_input_error(make_mixture, tmp_path):
    stage = TokenizerStage(tokenizer=TokenizerConfig())
    with pytest.raises(InputError, match="no such file"):
        train_tokenizer(stage, tmp_path, ["s/00000"], make_mixture(WEIGHTS), tmp_path / "tokenizer.json")

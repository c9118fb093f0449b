"""The trained folder: what is in it, and that transformers reads it as tokenizers does."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizer_training import train_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bloomery.base.errors import ConfigError, InputError
from bloomery.config.stages import CountStage, TokenizerStage
from bloomery.config.tokens import TokenizerConfig
from data_prep.tokenizer.count import count_shards
from data_prep.tokenizer.pre_tokenizer import build
from data_prep.tokenizer.vocabulary import SPECIAL_TOKENS, build_tokenizer, byte_characters, reserved_tokens

# Article 1 of the Universal Declaration of Human Rights, and code with tags that spell special tokens.
TEXTS = {
    "en": ["All human beings are born free and equal in dignity and rights. " * 3, "reason and conscience"],
    "fr": ["Tous les êtres humains naissent libres et égaux en dignité et en droits."],
    "hi": ["सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।"],
    "zhs": ["人人生而自由，在尊严和权利上一律平等。"],
    "code": ["<s><s><s></s></s>    return x\n" * 5 + "<reserved_1><reserved_1>"],
}
WEIGHTS = {"en": 0.4, "fr": 0.2, "hi": 0.2, "zhs": 0.1, "code": 0.1}
FILES = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "training.json"]


@pytest.fixture
def train(make_shard, make_mixture, tmp_path):
    """`train(folder, parts, weights, **settings)` -> path of the folder."""

    def run(name="tokenizer", parts=None, weights=WEIGHTS, **settings):
        parts = parts or {"s/00000": TEXTS}
        for part, texts in parts.items():
            counts = tmp_path / f"counts/{part}.parquet"
            count_shards(CountStage(pre_tokenizer="bloom"), [make_shard(part, texts)], counts)
        config = TokenizerConfig.model_validate({"vocabulary_size": 340, "reserved_tokens": 3} | settings)
        folder = tmp_path / name
        train_tokenizer(
            TokenizerStage(tokenizer=config),
            tmp_path / "counts",
            list(parts),
            make_mixture(weights),
            folder / "tokenizer.json",
        )
        return folder

    return run


def test_ids_are_special_reserved_bytes_merges(train):
    tokenizer = Tokenizer.from_file(str(train() / "tokenizer.json"))
    fixed = [*SPECIAL_TOKENS, *reserved_tokens(3), *sorted(byte_characters())]
    assert [tokenizer.id_to_token(number) for number in range(len(fixed))] == fixed
    assert tokenizer.get_vocab_size() == 340
    assert sorted(tokenizer.get_vocab().values()) == list(range(340))


def test_merges_are_those_of_tokenizers_on_the_same_text(make_shard, train):
    texts = [text for text in TEXTS["en"] for _ in range(2)]
    ours = Tokenizer.from_file(str(train(parts={"s/00000": {"en": texts}}, weights={"en": 1.0}) / "tokenizer.json"))
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = ours.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=337,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
        special_tokens=list(SPECIAL_TOKENS),
    )
    theirs.train_from_iterator(texts, trainer)
    assert json.loads(ours.to_str())["model"]["merges"] == json.loads(theirs.to_str())["model"]["merges"]


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


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.text())
def test_any_text_survives(text):
    tokenizer = build_tokenizer(np.array([[72, 101], [256, 32]], np.int32), 2, build("bloom"))
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert min(ids, default=6) >= 6, "no text gives a special or reserved token"


def test_bytes_depend_on_neither_order_nor_number_of_shards(train, tmp_path):
    one = train("one")
    parts = {f"s/{n:05d}": {code: TEXTS[code]} for n, code in enumerate(sorted(TEXTS))}
    two, three = train("two", parts=parts), train("three", parts=dict(reversed(parts.items())))
    assert sorted(path.name for path in one.iterdir()) == FILES
    for name in FILES:
        if name != "training.json":  # it names its inputs
            assert (one / name).read_bytes() == (two / name).read_bytes()
        assert (two / name).read_bytes() == (three / name).read_bytes()


def test_a_small_corpus_gives_a_smaller_vocabulary_and_says_so(train, capsys):
    folder = train(vocabulary_size=5000)
    report = json.loads((folder / "training.json").read_text())
    assert report["vocabulary_asked"] == 5000
    assert report["vocabulary"] == 4 + 3 + 256 + report["merges"] < 5000
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size() == report["vocabulary"]
    assert "instead of 5000" in capsys.readouterr().err


def test_no_token_is_longer_than_asked(train):
    vocabulary = Tokenizer.from_file(str(train(vocabulary_size=5000, max_token_bytes=4) / "tokenizer.json")).get_vocab()
    assert max(len(token) for token, number in vocabulary.items() if number >= 7) <= 4


def test_a_vocabulary_without_room_for_the_bytes_is_refused(train):
    with pytest.raises(ConfigError, match="too small"):
        train(vocabulary_size=262)


def test_missing_counts_are_an_input_error(make_mixture, tmp_path):
    stage = TokenizerStage(tokenizer=TokenizerConfig())
    with pytest.raises(InputError, match="no such file"):
        train_tokenizer(stage, tmp_path, ["s/00000"], make_mixture(WEIGHTS), tmp_path / "tokenizer.json")

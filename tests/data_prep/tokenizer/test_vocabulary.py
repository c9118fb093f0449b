"""Test the ids of a trained vocabulary."""

import json

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from trained_texts import TEXTS

from data_prep.tokenizer.pre_tokenizer import build
from data_prep.tokenizer.vocabulary import SPECIAL_TOKENS, build_tokenizer, byte_characters, reserved_tokens


def test_ids_are_ordered_as_special_reserved_bytes_merges(train):
    tokenizer = Tokenizer.from_file(str(train() / "tokenizer.json"))
    fixed = [*SPECIAL_TOKENS, *reserved_tokens(3), *sorted(byte_characters())]
    assert [tokenizer.id_to_token(number) for number in range(len(fixed))] == fixed
    assert tokenizer.get_vocab_size() == 340
    assert sorted(tokenizer.get_vocab().values()) == list(range(340))


def test_merges_equal_those_of_tokenizers_on_the_same_text(make_shard, train):
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


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.text())
def test_any_text_is_decoded_unchanged(text):
    tokenizer = build_tokenizer(np.array([[72, 101], [256, 32]], np.int32), 2, build("bloom"))
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert min(ids, default=6) >= 6, "no text may give a special or reserved token"

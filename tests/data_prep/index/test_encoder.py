"""Compare the compiled encoder with `tokenizers`, and test which tokenizers the compiled encoder supports."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, trainers

from data_prep.index import encoder
from data_prep.index.encoder import HOSTILE, Encoder, load_encoder
from data_prep.tokenizer.pre_tokenizer import build
from data_prep.tokenizer.vocabulary import byte_characters

pytestmark = pytest.mark.slow

WORDS = [
    *("all", "human", "beings", "are", "born", "free", "and", "equal", "in", "dignity", "12345", "don't", "()"),
    *("tous", "les", "êtres", "humains", "naissent", "libres", "égaux", "सभी", "मनुष्यों", "को", "गौरव", "और"),
    *("अधिकारों", "के", "मामले", "में", "人人", "生而自由", "在尊严", "和权利上", "一律平等"),
    *("  ", "\n\n", "\t\t", "...", "if x:\n    return"),
]
SPECIAL = ("<unk>", "<s>", "</s>", "<pad>")
CHARACTERS = st.sampled_from([*"ab A1'’(|).,!?।、 \t\n\r\0-_人生क्ीé\u0301\u200d👩\ufeff"])
TEXTS = st.text(CHARACTERS | st.characters(exclude_categories=["Cs"]), max_size=80)
WORDY = st.lists(st.sampled_from([*WORDS, *SPECIAL, "…"]), max_size=30)


def published(preset: str, split_digits: bool, seed: int = 0) -> dict[str, Any]:
    """Return a tokenizer.json like BLOOM's: merges are strings, special tokens come first, other ids are shuffled."""
    generator = random.Random(seed)
    texts = ["".join(generator.choice(["", " "]) + generator.choice(WORDS) for _ in range(200)) for _ in range(40)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = build(preset, split_digits)
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=byte_characters(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    value: dict[str, Any] = json.loads(tokenizer.to_str())
    model = value["model"]
    ids = list(range(len(SPECIAL), len(SPECIAL) + len(model["vocab"])))
    generator.shuffle(ids)
    model["vocab"] = {name: number for number, name in enumerate(SPECIAL)} | dict(zip(model["vocab"], ids, strict=True))
    model["merges"] = [" ".join(pair) for pair in model["merges"]]
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    value["added_tokens"] = [{"id": number, "content": name} | flags for number, name in enumerate(SPECIAL)]
    value["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": False}
    value["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}
    return value


def write(folder: Path, value: dict[str, Any]) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(value))
    return path


@pytest.fixture(scope="module", params=[("bloom", False), ("bloom", True), ("modern", False), ("modern", True)])
def loaded(request, tmp_path_factory) -> Encoder:
    made = load_encoder(write(tmp_path_factory.mktemp("tokenizer"), published(*request.param)))
    assert made.kernel is not None
    return made


def tokens_of(made: Encoder, texts: list[str]) -> list[list[int]]:
    tokens, lengths = made.encode(texts)
    assert (tokens.dtype, lengths.dtype) == (np.int32, np.int64)
    ends = np.cumsum(lengths)
    return [tokens[a:b].tolist() for a, b in zip(ends - lengths, ends, strict=True)]


def check(made: Encoder, texts: list[str]) -> None:
    found = tokens_of(made, texts)
    assert found == [one.ids for one in made.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    assert [made.tokenizer.decode(tokens, skip_special_tokens=False) for tokens in found] == texts
    assert not set(SPECIAL) & {made.tokenizer.id_to_token(token) for tokens in found for token in tokens}


@given(texts=st.lists(TEXTS | WORDY.map("".join), max_size=5))
def test_fuzzed_texts_have_the_ids_of_tokenizers_and_decode_to_themselves(loaded, texts):
    check(loaded, texts)


def test_hostile_texts_have_the_ids_of_tokenizers_and_decode_to_themselves(loaded):
    runs = [character * length for character in " \nax\u0301人" for length in (1, 2, 95, 96, 97, 128, 129, 40_000)]
    spelt = ["</s>", "a</s>b", "<s><pad></s><unk>", "< /s>", "</s", " </s> " * 50]
    check(loaded, [*HOSTILE, *runs, *spelt, "".join(random.Random(1).choices([*"ab c\n", "क", "人"], k=50_000))])


def test_an_end_token_follows_every_text_and_is_counted(loaded):
    texts = ["all human beings", "", "</s>"]
    tokens, lengths = loaded.encode(texts, end=2)
    plain = tokens_of(loaded, texts)
    assert tokens.tolist() == [token for one in plain for token in [*one, 2]]
    assert lengths.tolist() == [len(one) + 1 for one in plain]


def test_both_types_of_string_columns_and_their_slices_are_encoded(loaded):
    texts = ["all", "", "human beings", "人人"]
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(["before", *texts, "behind"], kind).slice(1, 4)
        assert np.array_equal(loaded.encode(column)[0], loaded.encode(texts)[0])
    assert [part.tolist() for part in loaded.encode(pa.array([], pa.large_string()))] == [[], []]


def test_truncation_padding_and_dropout_in_the_file_are_ignored(tmp_path):
    value = published("bloom", False)
    value["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    value["padding"] = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_id": 3, "pad_type_id": 0, "pad_token": "x"}
    value["model"]["dropout"] = 0.9
    given_back = load_encoder(write(tmp_path, value))
    assert given_back.kernel is not None
    text = "all human beings are born free and equal"
    (tokens,) = tokens_of(given_back, [text])
    assert given_back.tokenizer.decode(tokens) == text
    assert tokens_of(Encoder(given_back.tokenizer, None), [text]) == [tokens]


def changed(**parts: Any) -> dict[str, Any]:
    return published("bloom", False) | parts


def changed_model(**parts: Any) -> dict[str, Any]:
    value = published("bloom", False)
    return value | {"model": value["model"] | parts}


def without_byte() -> dict[str, Any]:
    value = published("bloom", False)
    lone = byte_characters()[0xFF]
    del value["model"]["vocab"][lone]
    value["model"]["merges"] = [merge for merge in value["model"]["merges"] if lone not in merge]
    return value


WORD = {"id": 950, "content": "human", "special": False} | dict.fromkeys(
    ("single_word", "lstrip", "rstrip", "normalized"), False
)
GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
UNFIT = {
    "not BPE": lambda: changed(model={"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"}),
    "end_of_word_suffix": lambda: changed_model(end_of_word_suffix="</w>"),
    "ignore_merges": lambda: changed_model(ignore_merges=True),
    "normaliser": lambda: changed(normalizer={"type": "NFC"}),
    "neither of the presets `bloom` and `modern`": lambda: changed(pre_tokenizer=GPT2),
    "not special": lambda: changed(added_tokens=[*published("bloom", False)["added_tokens"], WORD]),
    "lacks a token for a byte": without_byte,
}


@pytest.mark.parametrize("reason", UNFIT)
def test_the_library_encodes_unsupported_tokenizers_and_the_log_gives_the_reason(tmp_path, capsys, reason):
    made = load_encoder(write(tmp_path, UNFIT[reason]()))
    assert made.kernel is None
    assert reason in capsys.readouterr().err
    texts = ["all human beings", "", "a  b\n", "人人"]
    wanted = made.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    assert tokens_of(made, texts) == [one.ids for one in wanted]


def test_the_probe_finds_an_encoder_that_differs(tmp_path, capsys, monkeypatch):
    path = write(tmp_path, published("bloom", False))
    assert load_encoder(path, ["all human beings"]).kernel is not None
    monkeypatch.setattr(encoder, "recognise", lambda value: ("modern", False))
    assert load_encoder(path).kernel is None
    assert "the two encoders give different tokens" in capsys.readouterr().err
    # If the hostile texts show no difference, the probe still finds the difference in the texts of the shard.
    monkeypatch.setattr(encoder, "HOSTILE", ("",))
    monkeypatch.setattr(encoder, "_hostile_texts", lambda value: list(encoder.HOSTILE))
    assert load_encoder(path).kernel is not None
    assert load_encoder(path, ["all", "(born)12345  67"]).kernel is None
    assert "the two encoders give different tokens for the text '(born)12345" in capsys.readouterr().err

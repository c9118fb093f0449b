"""Compare merges and ids with those that Hugging Face `tokenizers` learns from the same text."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from real_corpus import corpus_files
from repository import SAMPLE
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bloomery.config.stages import CountStage
from bloomery.config.tokens import TokenizerTraining
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.count_pre_tokens import count_shards
from data_prep.tokenizer.find_count_tables import find_tables
from data_prep.tokenizer.pre_tokenizer import PRESETS, build
from data_prep.tokenizer.train import train
from data_prep.tokenizer.vocabulary import SPECIAL_TOKENS, symbol_order

pytestmark = pytest.mark.slow

LANGUAGES = ["ar", "en", "hi", "sw", "ta", "vi", "yo", "zhs"]


def sample_texts() -> dict[str, list[str]]:
    """Return the sample's texts by language, without special tokens, which only this project's trainer leaves out."""
    found = {}
    for path in sorted(SAMPLE.glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found[path.stem] = [json.loads(line)["text"].replace("<s>", "").replace("</s>", "") for line in lines]
    return found


def made_up_texts(words_per_language: int) -> dict[str, list[str]]:
    """Return texts of invented words by language. Words combine parts of the sample's words, with Zipf frequencies."""
    generator = np.random.default_rng(0)
    found = {}
    for language, texts in sample_texts().items():
        words = sorted({word for text in texts for word in text.split()})
        parts = sorted({word[at : at + 3] for word in words for at in range(0, len(word), 3)})
        drawn = generator.integers(0, len(parts), (words_per_language // 4, 3)).tolist()
        made = ["".join(parts[part] for part in word[: 1 + number % 3]) for number, word in enumerate(drawn)]
        ranks = generator.zipf(1.3, words_per_language) % len(made)
        chosen = [made[rank] for rank in ranks.tolist()]
        found[language] = [" ".join(chosen[at : at + 500]) for at in range(0, len(chosen), 500)]
    return found


def corpus_texts(limit_characters: int) -> dict[str, list[str]]:
    found = {}
    for language, path in zip(LANGUAGES, corpus_files(*LANGUAGES), strict=True):
        with zstandard.open(path, "rt", encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
        kept, size = [], 0
        for text in texts:
            if size < limit_characters and "<s>" not in text and "</s>" not in text:
                kept.append(text)
                size += len(text)
        found[language] = kept
    return found


def ours(folder: Path, texts: dict[str, list[str]], size: int, preset: str, split_digits: bool) -> Tokenizer:
    """Train with this project: write shards and the count table of each, and train on the tables."""
    for language, of_language in texts.items():
        shard = folder / f"shards/{language}.parquet"
        shard.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"language": [language] * len(of_language), "text": of_language}), shard)
        stage = CountStage.model_validate({"pre_tokenizer": preset, "split_digits": split_digits})
        count_shards(stage, [shard], folder / f"counts/{language}.parquet")
    settings = {"pre_tokenizer": preset, "split_digits": split_digits, "max_token_bytes": 1 << 20}
    config = TokenizerTraining.model_validate({"vocabulary_size": size, "reserved_tokens": 0} | settings)
    train(config, find_tables([folder / "counts"]), None, folder / "tokenizer")
    return Tokenizer.from_file(str(folder / "tokenizer/tokenizer.json"))


def theirs(texts: dict[str, list[str]], size: int, preset: str, split_digits: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = build(preset, split_digits)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for of in texts.values() for text in of), trainer)
    return tokenizer


def assert_same(
    folder: Path, texts: dict[str, list[str]], size: int, preset: str = "bloom", split_digits: bool = False
) -> None:
    one, other = ours(folder, texts, size, preset, split_digits), theirs(texts, size, preset, split_digits)
    assert one.get_vocab_size() == size
    assert json.loads(one.to_str())["model"]["merges"] == json.loads(other.to_str())["model"]["merges"]
    assert one.get_vocab() == other.get_vocab()


@pytest.mark.parametrize("split_digits", [False, True])
@pytest.mark.parametrize("preset", list(PRESETS))
def test_merges_and_ids_agree_on_all_languages_of_the_sample(tmp_path: Path, preset: str, split_digits: bool) -> None:
    assert_same(tmp_path, sample_texts(), 6000, preset, split_digits)


@pytest.mark.slow
def test_merges_and_ids_of_32k_tokens_agree_on_made_up_text(tmp_path: Path) -> None:
    assert_same(tmp_path, made_up_texts(40_000), 32_000)


@pytest.mark.slow
@pytest.mark.parametrize("preset", list(PRESETS))
def test_merges_and_ids_of_32k_tokens_agree_on_real_text(tmp_path: Path, preset: str) -> None:
    assert_same(tmp_path, corpus_texts(1_000_000), 32_000, preset)


@pytest.mark.slow
def test_counts_beyond_32_bits_are_exact_here_and_overflow_in_tokenizers() -> None:
    """`tokenizers` counts pairs in 32 bits (tokenizers#2058), so the most frequent pair gets a negative count."""
    word, copies = "a" * 200_001, 11_000
    assert copies * 200_000 > 2**31
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=257, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator((text for text in ["xy", word] for _ in range(copies)), trainer)
    lost = json.loads(tokenizer.to_str())["model"]["merges"]

    counted = _bpe.Trainer(symbol_order(), 2, 1 << 20)
    counted.add(b"xy" + word.encode(), np.array([0, 2, 2 + len(word)]), np.array([copies, copies]))
    order = symbol_order()
    assert counted.train(1).tolist() == [[order[ord("a")], order[ord("a")]]]
    assert lost == [["x", "y"]], "if this fails, tokenizers has fixed the overflow"

"""Compare order `megatron` and the sample starts with megatron-core, on real `.bin/.idx` files."""

import json
import logging
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from packed_rows import packed

from bloomery.base.atomic import write_json, write_text
from bloomery.base.digest import digest_bytes, digest_file
from bloomery.base.errors import ConfigError
from bloomery.config.stages import IndexStage
from bloomery.contracts.index import open_array, write_idx
from bloomery.contracts.sample_reader import SampleReader
from data_prep.formats.shard import write_table
from data_prep.formats.sidecar import SIDECAR_SCHEMA, sidecar_path
from data_prep.index import _index
from data_prep.index.build_index import build_index
from data_prep.index.order import EpochsOrder
from data_prep.index.split import numbers_of
from data_prep.index.split_keys import id_hashes
from data_prep.index.verify_index import verify_index

END = 2


def megatron(module):
    """Import a module of megatron-core. An import at the top of this file would slow down every collection of tests."""
    return pytest.importorskip(f"megatron.core.datasets.{module}")


def write_pair(folder, lengths):
    """Write a tokenizer, a mixture, and a pair of token files with documents of these lengths.

    Return the pair's prefix.
    """
    from tokenizers import Tokenizer, models

    prefix = folder / "index/tokens/s/00000"
    prefix.parent.mkdir(parents=True)
    words = {"<unk>": 0, "<s>": 1, "</s>": END, "<pad>": 3} | {f"w{n}": n for n in range(4, 300)}
    write_text(folder / "tokenizer.json", Tokenizer(models.WordLevel(words, "<unk>")).to_str())
    write_json(folder / "tokenizer_config.json", {"eos_token": "</s>"})
    write_json(folder / "mixture.json", {"languages": {"en": {"weight": 1.0}}})
    ends = np.cumsum(lengths, dtype=np.int64)
    tokens = np.random.default_rng(5).integers(4, 300, size=int(ends[-1])).astype("<u2")
    tokens[ends - 1] = END
    binary = prefix.with_name("00000.bin")
    binary.write_bytes(tokens.tobytes())
    write_idx(prefix.with_name("00000.idx"), np.array(lengths, np.int32), np.dtype("<u2"))
    ids = pa.array([digest_bytes(str(n).encode()) for n in range(len(lengths))])
    columns = {
        "id": ids,
        "source": pa.repeat("s", len(lengths)),
        "language": pa.repeat("en", len(lengths)),
        "shard": pa.repeat("s/00000", len(lengths)),
        "row": np.arange(len(lengths)),
        "first_token": ends - lengths,
        "tokens": np.array(lengths, np.int64),
        "split_key": id_hashes(ids),
    }
    digests = {f"{kind}_digest": digest_file(prefix.with_name(f"00000.{kind}")) for kind in ("bin", "idx")}
    write_table(
        sidecar_path(prefix),
        pa.table(columns, schema=SIDECAR_SCHEMA),
        kind="token_documents",
        inputs={},
        parameters=digest_file(folder / "tokenizer.json"),
        counts={"documents": len(lengths), "tokens": int(ends[-1]), **digests},
    )
    return prefix


def build(folder, sequence_length, samples, seed, order="megatron"):
    stage = IndexStage(
        sequence_length=sequence_length,
        train_samples=samples,
        validation_samples=4,
        validation_share=0.0,
        seed=seed,
        order=order,
    )
    index = folder / "index"
    return build_index(
        stage, index, ["s/00000"], folder / "mixture.json", folder / "tokenizer.json", index / "index.json"
    )


@dataclass
class Tokenizer:
    """The attributes of a tokenizer that Megatron reads when it builds an index."""

    eod: int = END
    vocab_size: int = 300
    unique_identifiers = {"class": "ours"}


def megatron_dataset(prefix, sequence_length, samples, seed):
    gpt_dataset = megatron("gpt_dataset")
    config = gpt_dataset.GPTDatasetConfig(
        random_seed=seed,
        sequence_length=sequence_length,
        blend=([str(prefix)], None),
        split="1,0,0",
        path_to_cache=None,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        tokenizer=Tokenizer(),
        mmap_bin_files=True,
    )
    low_level = megatron("indexed_dataset").IndexedDataset(str(prefix), mmap=True)
    indices = np.arange(len(low_level), dtype=np.int32)
    return gpt_dataset.GPTDataset(low_level, str(prefix), indices, samples, megatron("utils").Split.train, config)


CASES = {
    "one epoch": (40, 16, 10, 1),
    "all of one epoch": (40, 16, 45, 7),
    "several epochs, mixed": (40, 16, 223, 1234),
    "several epochs, the last one apart": (40, 16, 150, 1234),
    "one document": (1, 8, 40, 3),
    "samples longer than an epoch": (2, 64, 9, 11),
    "many": (3000, 128, 2500, 42),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_arrays_and_samples_equal_those_of_megatron(tmp_path, caplog, case):
    documents, sequence_length, samples, seed = case
    caplog.set_level(logging.ERROR)
    lengths = np.random.default_rng(documents).integers(1, 40, size=documents).astype(np.int32)
    prefix = write_pair(tmp_path, lengths)
    manifest = build(tmp_path, sequence_length, samples, seed)
    theirs = megatron_dataset(prefix, sequence_length, samples, seed)
    [entry] = manifest.train
    index = tmp_path / "index"
    assert open_array(index, entry.documents).tolist() == theirs.document_index.tolist()
    assert open_array(index, entry.sample_starts).tolist() == theirs.sample_index.tolist()
    assert open_array(index, entry.shuffle).tolist() == theirs.shuffle_index.tolist()
    reader = SampleReader(index)
    for sample in range(samples):
        found = theirs[sample]
        tokens = reader.train(sample)
        assert tokens[:-1].tolist() == found["tokens"].tolist()
        assert tokens[1:].tolist() == found["labels"].tolist()
    verify_index(index)


def test_the_cases_contain_a_mixed_and_a_separate_last_epoch(tmp_path):
    """Check that the last epoch is mixed with earlier ones in one case and separate in the other, as their names
    state."""
    found = {}
    for name in ("several epochs, mixed", "several epochs, the last one apart"):
        documents, sequence_length, samples, seed = CASES[name]
        lengths = np.random.default_rng(documents).integers(1, 40, size=documents).astype(np.int32)
        write_pair(tmp_path / name, lengths)
        [entry] = build(tmp_path / name, sequence_length, samples, seed).train
        assert entry.epochs > 2
        last = open_array(tmp_path / name / "index", entry.documents)[-documents:]
        found[name] = sorted(last.tolist()) == list(range(documents))
    assert list(found.values()) == [False, True]


@pytest.mark.parametrize("sequence_length", [2, 16, 100])
def test_sample_starts_equal_those_of_megatron_for_the_same_order(sequence_length):
    rng = np.random.default_rng(sequence_length)
    lengths = rng.integers(1, 60, size=500).astype(np.int32)
    order = EpochsOrder(packed(np.arange(500), lengths), int(lengths.sum()), sequence_length, 2500, "x", 1)
    rows = np.concatenate(list(order.documents()))
    ours = _index.SampleWalk(sequence_length, order.samples, 0, 0).advance(rows, False)
    documents = numbers_of(rows).astype(np.int32)
    theirs = megatron("helpers").build_sample_idx(
        lengths, documents, sequence_length, 1, int(lengths[documents].sum(dtype=np.int64))
    )
    assert len(ours) == order.samples + 1
    assert ours.tolist() == theirs[: len(ours)].tolist()


def test_megatron_loses_a_sample_to_float32():
    """With drop_last_partial_sequence=False, Megatron rounds up in float32.

    134,217,988 tokens contain 2,097,157 samples of 64 tokens (the last one partial). Megatron finds one sample less.
    """
    tokens, sequence_length = 134_217_988, 64
    lengths, one = np.array([tokens], np.int32), np.zeros(1, np.int32)
    theirs = megatron("helpers").build_sample_idx(lengths, one, sequence_length, 1, tokens, False, True)
    right = -(-(tokens - 1) // sequence_length)
    assert right == 2_097_157
    assert len(theirs) - 1 == 2_097_156
    order = EpochsOrder(packed(one, lengths), tokens, sequence_length, 2_097_157, "x", 1)
    assert order.samples == right
    ours = _index.SampleWalk(sequence_length, order.samples, 0, 0).advance(
        packed(np.zeros(2), np.tile(lengths, 2)), False
    )
    assert len(ours) - 1 == right


def test_a_seed_that_megatron_cannot_use_is_refused(tmp_path):
    write_pair(tmp_path, np.array([5, 5], np.int32))
    with pytest.raises(ConfigError, match="order `megatron`"):
        build(tmp_path, 4, 2, 2**32)


def test_the_order_is_part_of_the_digest_of_the_index(tmp_path):
    write_pair(tmp_path, np.full(50, 9, np.int32))
    mine, theirs = (build(tmp_path, 8, 40, 1, order=order) for order in ("epochs", "megatron"))
    assert mine.digest != theirs.digest
    assert mine.train[0].identity != theirs.train[0].identity
    assert json.loads((tmp_path / "index/index.json").read_text())["order"] == "megatron"

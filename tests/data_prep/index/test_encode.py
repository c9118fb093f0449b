"""Token files against plain readings of the format, against Megatron's own reader, and against the text."""

import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from bloomery.base.errors import InputError
from bloomery.contracts.index import open_token_file, sidecar_path
from data_prep.index import encode
from data_prep.index.encode import encode_shard

END = 2


def plain_read(prefix: Path) -> list[list[int]]:
    """Documents of a pair, read field by field as facts about the format say, with `struct` alone."""
    idx, binary = Path(f"{prefix}.idx").read_bytes(), Path(f"{prefix}.bin").read_bytes()
    assert idx[:9] == b"MMIDIDX\0\0"
    version, code, sequences, bounds = struct.unpack("<QBQQ", idx[9:34])
    assert (version, bounds) == (1, sequences + 1)
    letter, width = {4: ("i", 4), 8: ("H", 2)}[code]
    lengths = struct.unpack(f"<{sequences}i", idx[34 : 34 + 4 * sequences])
    offsets = struct.unpack(f"<{sequences}q", idx[34 + 4 * sequences : 34 + 12 * sequences])
    assert struct.unpack(f"<{bounds}q", idx[34 + 12 * sequences :]) == tuple(range(bounds))
    return [
        list(struct.unpack(f"<{length}{letter}", binary[offset : offset + width * length]))
        for length, offset in zip(lengths, offsets, strict=True)
    ]


def test_documents_are_the_shards_in_order_with_one_end_each(run):
    tokenizer = Tokenizer.from_file(str(run.tokenizer))
    for part in run.parts:
        documents = plain_read(run.index / "tokens" / part)
        texts = pq.read_table(run.clean(part))["text"].to_pylist()
        assert len(documents) == len(texts)
        for tokens, text in zip(documents, texts, strict=True):
            assert tokens[-1] == END
            assert tokens.count(END) == 1, "text that spells </s> is text"
            assert tokenizer.decode(tokens[:-1], skip_special_tokens=False) == text


def test_a_document_without_text_is_its_end_alone(run):
    part = run.parts[0]
    texts = pq.read_table(run.clean(part))["text"].to_pylist()
    assert "" in texts
    assert plain_read(run.index / "tokens" / part)[texts.index("")] == [END]


def test_sidecar_names_every_document_and_its_span(run):
    for part in run.parts:
        prefix = run.index / "tokens" / part
        sidecar, shard = pq.read_table(sidecar_path(prefix)), pq.read_table(run.clean(part))
        file = open_token_file(prefix)
        for column in ("id", "source", "language"):
            assert sidecar[column].to_pylist() == shard[column].to_pylist()
        assert sidecar["document"].to_pylist() == list(range(shard.num_rows))
        assert np.array_equal(sidecar["tokens"], file.lengths)
        assert np.array_equal(np.asarray(sidecar["first_token"]) * file.dtype.itemsize, file.offsets)


def test_bytes_do_not_depend_on_how_texts_are_grouped(run, tmp_path, monkeypatch):
    part = run.parts[0]
    monkeypatch.setattr(encode, "GROUP_BYTES", 300)
    encode_shard(run.tokenizer, run.clean(part), tmp_path / "00000.idx")
    for suffix in (".bin", ".idx", ".documents.parquet", ".documents.json"):
        assert (tmp_path / f"00000{suffix}").read_bytes() == Path(f"{run.index / 'tokens' / part}{suffix}").read_bytes()


def test_a_tokenizer_that_is_none_is_refused(run, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="not a tokenizer"):
        encode_shard(tmp_path / "tokenizer.json", run.clean(run.parts[0]), tmp_path / "00000.idx")
    assert not list(tmp_path.glob("00000*"))


def test_megatron_reads_and_writes_the_same_bytes(run, tmp_path):
    indexed = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset", reason="megatron-core is not installed: its reader cannot be asked"
    )
    import torch

    prefix = run.index / "tokens" / run.parts[0]
    documents = plain_read(prefix)
    read = indexed.IndexedDataset(str(prefix))
    assert [read[number].tolist() for number in range(len(read))] == documents
    builder = indexed.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.uint16)
    for document in documents:
        builder.add_document(torch.tensor(document), [len(document)])
    builder.finalize(str(tmp_path / "theirs.idx"))
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"theirs{suffix}").read_bytes() == Path(f"{prefix}{suffix}").read_bytes()

"""Compare token files with a plain reader of the format, with Megatron's own reader, and with the text."""

import json
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from typer.testing import CliRunner
from waiting import wait_for

from bloomery.base.digest import digest_file, document_id
from bloomery.base.errors import InputError, ResourceError
from bloomery.contracts.index import open_token_file
from data_prep.corpus.dedup.resolve import SURVIVOR_SCHEMA
from data_prep.formats.shard import DOCUMENT_SCHEMA, read_manifest, write_table
from data_prep.formats.sidecar import sidecar_path
from data_prep.index import encode, encode_cli
from data_prep.index.encode import encode_shards
from data_prep.index.split_keys import id_hashes

END = 2
SUFFIXES = (".bin", ".idx", ".documents.parquet", ".documents.json")


def plain_read(prefix: Path) -> list[list[int]]:
    """Read the documents of a pair field by field, with `struct` only."""
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


def test_documents_have_the_order_of_the_shard_and_one_end_token_each(run):
    tokenizer = Tokenizer.from_file(str(run.tokenizer))
    for part in run.parts:
        documents = plain_read(run.index / "tokens" / part)
        texts = pq.read_table(run.clean(part))["text"].to_pylist()
        assert len(documents) == len(texts)
        for tokens, text in zip(documents, texts, strict=True):
            assert tokens[-1] == END
            assert tokens.count(END) == 1, "</s> in a text must not become an end token"
            assert tokenizer.decode(tokens[:-1], skip_special_tokens=False) == text


def test_a_document_without_text_has_only_its_end_token(run):
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
        assert set(sidecar["shard"].to_pylist()) <= {part}
        assert sidecar["row"].to_pylist() == list(range(shard.num_rows))
        assert np.array_equal(sidecar["tokens"], file.lengths)
        assert np.array_equal(np.asarray(sidecar["first_token"]) * file.dtype.itemsize, file.offsets)
        assert np.array_equal(sidecar["split_key"], id_hashes(shard["id"]))


def test_the_manifest_counts_documents_bytes_and_tokens_of_each_language(run):
    for part in run.parts:
        prefix, shard = run.index / "tokens" / part, pq.read_table(run.clean(part)).to_pylist()
        manifest = read_manifest(sidecar_path(prefix))
        counts, lengths = manifest["counts"], open_token_file(prefix).lengths.tolist()
        assert manifest["inputs"] == {part: digest_file(run.clean(part))}
        assert manifest["parameters"] == digest_file(run.tokenizer)
        assert (counts["documents"], counts["tokens"]) == (len(shard), sum(lengths))
        assert counts["bin_digest"] == digest_file(Path(f"{prefix}.bin"))
        assert counts["idx_digest"] == digest_file(Path(f"{prefix}.idx"))
        for code in {row["language"] for row in shard} | set(counts["languages"]):
            own = [number for number, row in enumerate(shard) if row["language"] == code]
            assert counts["languages"][code] == {
                "documents": len(own),
                "bytes": sum(len(shard[number]["text"].encode()) for number in own),
                "tokens": sum(lengths[number] for number in own),
            }


def test_bytes_do_not_depend_on_the_groups_of_texts_or_on_the_encoder(run, tmp_path, monkeypatch):
    part = run.parts[0]
    (tmp_path / "s").mkdir()
    monkeypatch.setattr(encode, "GROUP_BYTES", 300)
    encode_shards(run.tokenizer, [run.clean(part)], tmp_path / "s/00000")
    load = encode.load_encoder
    monkeypatch.setattr(encode, "load_encoder", lambda *given: encode.Encoder(load(*given).tokenizer, None))
    (tmp_path / "library").mkdir()
    encode_shards(run.tokenizer, [run.clean(part)], tmp_path / "library/00000")
    for suffix in SUFFIXES:
        wanted = Path(f"{run.index / 'tokens' / part}{suffix}").read_bytes()
        assert (tmp_path / f"s/00000{suffix}").read_bytes() == wanted
        assert (tmp_path / f"library/00000{suffix}").read_bytes() == wanted


def test_a_group_of_shards_is_their_concatenation_in_the_given_order(run, tmp_path):
    order = [run.parts[2], run.parts[1], run.parts[0]]
    counts = encode_shards(run.tokenizer, [run.clean(part) for part in order], tmp_path / "x")["counts"]
    alone = [run.index / "tokens" / part for part in order]
    assert plain_read(tmp_path / "x") == [document for prefix in alone for document in plain_read(prefix)]
    sidecar = pq.read_table(sidecar_path(tmp_path / "x"))
    for column in ("id", "shard", "row", "tokens", "split_key"):
        wanted = [value for prefix in alone for value in pq.read_table(sidecar_path(prefix))[column].to_pylist()]
        assert sidecar[column].to_pylist() == wanted
    assert sidecar["first_token"].to_pylist() == np.cumsum([0, *sidecar["tokens"].to_pylist()])[:-1].tolist()
    singles = [read_manifest(sidecar_path(prefix))["counts"] for prefix in alone]
    for key in ("documents", "tokens"):
        assert counts[key] == sum(single[key] for single in singles)
    for code, found in counts["languages"].items():
        for key, value in found.items():
            assert value == sum(single["languages"].get(code, {}).get(key, 0) for single in singles)


def test_documents_of_one_cluster_have_its_key_in_every_shard_of_the_group(run, tmp_path):
    parts = (run.parts[0], run.parts[2])
    ids = {part: pq.read_table(run.clean(part))["id"].to_pylist() for part in parts}
    best, other = ids[parts[0]][3], ids[parts[1]][5]
    rows = [[parts[0], parts[1]], [best, other], [best, best]]
    spans = {"spans": {parts[0]: [0, 1], parts[1]: [1, 2]}}
    survivors = tmp_path / "survivors-0.parquet"
    table = pa.table(rows, schema=SURVIVOR_SCHEMA)
    write_table(survivors, table, kind="survivors", inputs={}, parameters="", counts=spans)
    words = [*(str(run.clean(part)) for part in parts), "--tokenizer", str(run.tokenizer)]
    words += ["--output", str(tmp_path / "x"), "--survivors", str(survivors)]
    result = CliRunner().invoke(encode_cli.app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    keys = {row["id"]: row["split_key"] for row in pq.read_table(sidecar_path(tmp_path / "x")).to_pylist()}
    wanted = {identity: int(identity[:16], 16) for part in parts for identity in ids[part]}
    assert keys == wanted | {other: wanted[best]}


def test_a_shard_given_twice_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="two shards with the name"):
        encode_shards(run.tokenizer, [run.clean(run.parts[0])] * 2, tmp_path / "x")


def test_a_file_that_is_not_a_tokenizer_is_refused(run, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="not a tokenizer"):
        encode_shards(tmp_path / "tokenizer.json", [run.clean(run.parts[0])], tmp_path / "x")
    assert not list(tmp_path.glob("x*"))


def test_the_error_names_a_document_with_more_tokens_than_an_idx_can_hold(run, tmp_path, monkeypatch):
    part = run.parts[0]
    lengths = open_token_file(run.index / "tokens" / part).lengths
    monkeypatch.setattr(encode, "MAX_DOCUMENT_TOKENS", int(lengths.max()) - 1)
    identity = pq.read_table(run.clean(part))["id"].to_pylist()[int(lengths.argmax())]
    with pytest.raises(InputError, match=f"document {identity} has {lengths.max()} tokens"):
        encode_shards(run.tokenizer, [run.clean(part)], tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_cut_shard_is_refused(run, tmp_path):
    clean = tmp_path / "s/00000.parquet"
    clean.parent.mkdir()
    content = run.clean(run.parts[0]).read_bytes()
    clean.write_bytes(content[:-100])
    clean.with_suffix(".json").write_bytes(run.clean(run.parts[0]).with_suffix(".json").read_bytes())
    with pytest.raises(InputError, match="its manifest records"):
        encode_shards(run.tokenizer, [clean], tmp_path / "x")
    clean.with_suffix(".json").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        encode_shards(run.tokenizer, [clean], tmp_path / "x")
    assert not list(tmp_path.glob("x*"))


def test_a_parquet_file_without_a_manifest_is_encoded_with_a_warning(run, tmp_path, capsys):
    foreign = tmp_path / "theirs.parquet"
    table = pq.read_table(run.clean(run.parts[0]), columns=["text", "id", "language", "source"])
    pq.write_table(table.set_column(0, "text", table["text"].cast(pa.string())), foreign, row_group_size=7)
    encode_shards(run.tokenizer, [foreign], tmp_path / "x")
    assert "no manifest beside it" in capsys.readouterr().err
    assert plain_read(tmp_path / "x") == plain_read(run.index / "tokens" / run.parts[0])
    pq.write_table(table.set_column(1, "id", pa.array([f"theirs-{number}" for number in range(len(table))])), foreign)
    encode_shards(run.tokenizer, [foreign], tmp_path / "x")
    sidecar = pq.read_table(sidecar_path(tmp_path / "x")).to_pylist()
    assert [row["id"] for row in sidecar[:2]] == ["theirs-0", "theirs-1"]
    assert [row["split_key"] for row in sidecar] == [int(document_id("s", row["id"])[:16], 16) for row in sidecar]
    pq.write_table(table.drop_columns("language"), foreign)
    with pytest.raises(InputError, match="string columns id, source, language and text"):
        encode_shards(run.tokenizer, [foreign], tmp_path / "x")
    pq.write_table(table.set_column(0, "text", pa.nulls(len(table), pa.string())), foreign)
    with pytest.raises(InputError, match="column text, row 0: is null"):
        encode_shards(run.tokenizer, [foreign], tmp_path / "y")
    assert not list(tmp_path.glob("y*"))


def large_shard(folder: Path, megabytes: int) -> Path:
    """Write one shard of random words, so that a cache of encoded words saves no time."""
    words = np.random.default_rng(1).integers(0, 26**4, megabytes * 16_000)
    spelt = [f" {chr(97 + w % 26)}{chr(97 + w // 26 % 26)}{chr(97 + w // 676)}{w:x}" * 8 for w in words.tolist()]
    texts = ["".join(spelt[start : start + 500]) for start in range(0, len(spelt), 500)]
    ids = [document_id("s", str(number)) for number in range(len(texts))]
    count = len(texts)
    columns = [ids, ["s"] * count, ["en"] * count, texts, [""] * count]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, DOCUMENT_SCHEMA.types, strict=True)]
    path = folder / "s/00000.parquet"
    write_table(path, pa.table(arrays, schema=DOCUMENT_SCHEMA), kind="documents", inputs={}, parameters="")
    return path


@pytest.mark.slow
def test_a_killed_job_leaves_no_idx_and_the_next_job_succeeds(run, tmp_path):
    shard = large_shard(tmp_path / "clean", 24)
    output = tmp_path / "tokens/00000"
    command = [sys.executable, "-m", "bloomery.cli", "encode", str(shard), "--tokenizer", str(run.tokenizer.parent)]
    job = subprocess.Popen([*command, "--output", f"{output}.idx"], stderr=subprocess.DEVNULL)
    begun = "tokens/.00000.bin.*"
    wait_for(lambda: any(path.stat().st_size > 1000 for path in tmp_path.glob(begun)), 60, job, every=0.001)
    assert job.poll() is None, "the job ended before the test could kill it"
    job.send_signal(signal.SIGKILL)
    job.wait()
    assert not list(output.parent.glob("00000*"))
    done = subprocess.run([*command, "--output", str(output)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "bytes per token" in done.stderr
    assert "next: " in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in output.parent.iterdir()) == sorted(f"00000{suffix}" for suffix in SUFFIXES)
    assert len(open_token_file(output).lengths) == pq.read_metadata(shard).num_rows


def test_a_full_disk_leaves_the_old_pair_or_none(run, tmp_path):
    shard = large_shard(tmp_path / "clean", 1)
    encode_shards(run.tokenizer, [run.clean(run.parts[0])], tmp_path / "x")
    before = {suffix: (tmp_path / f"x{suffix}").read_bytes() for suffix in SUFFIXES}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before_signal = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # writing beyond this size fails, as on a full disk
    try:
        for name in ("x", "y"):
            with pytest.raises(ResourceError, match="larger than this process may write"):
                encode_shards(run.tokenizer, [shard], tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before_signal)
    assert {suffix: (tmp_path / f"x{suffix}").read_bytes() for suffix in SUFFIXES} == before
    assert not list(tmp_path.glob("y*"))
    assert not list(tmp_path.glob(".*"))


@pytest.fixture(scope="module")
def wide_tokenizers(run, tmp_path_factory):
    """Map each vocabulary size to a copy of the run's tokenizer.json in which the greatest id is that size minus 1."""
    folder = tmp_path_factory.mktemp("wide")
    value = json.loads(run.tokenizer.read_text())
    used = 1 + max(value["model"]["vocab"].values())
    assert used == 400
    paths = {}
    for size in (65_499, 65_500, 65_535, 65_536):
        # The byte `a` gets the greatest id, so that this id occurs in the tokens.
        vocabulary = value["model"]["vocab"] | {"a": size - 1}
        paths[size] = folder / str(size) / "tokenizer.json"
        paths[size].parent.mkdir()
        paths[size].write_text(json.dumps(value | {"model": value["model"] | {"vocab": vocabulary}}))
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            (paths[size].parent / name).write_bytes((run.tokenizer.parent / name).read_bytes())
    return paths


@pytest.mark.parametrize(("size", "width"), [(65_499, 2), (65_500, 4), (65_535, 4), (65_536, 4)])
def test_megatron_reads_and_writes_the_same_bytes(run, wide_tokenizers, tmp_path, size, width):
    indexed = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset",
        reason="megatron-core is not installed, so its reader cannot be compared",
    )
    import torch

    prefix = tmp_path / "ours"
    encode_shards(wide_tokenizers[size], [run.clean(part) for part in run.parts], prefix)
    documents = plain_read(prefix)
    assert max(map(max, documents)) == size - 1
    read = indexed.IndexedDataset(str(prefix))
    assert [read[number].tolist() for number in range(len(read))] == documents
    dtype = indexed.DType.optimal_dtype(size)
    assert np.dtype(dtype).itemsize == width == open_token_file(prefix).dtype.itemsize
    builder = indexed.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=dtype)
    for document in documents:
        builder.add_document(torch.tensor(document), [len(document)])
    builder.finalize(str(tmp_path / "theirs.idx"))
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"theirs{suffix}").read_bytes() == (tmp_path / f"ours{suffix}").read_bytes()

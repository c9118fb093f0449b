"""Test that `verify_index` finds and names every kind of damage."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.index import open_token_file
from bloomery.contracts.index_manifest import read_index_manifest
from data_prep.formats.shard import read_manifest, write_table
from data_prep.formats.sidecar import sidecar_path
from data_prep.index.cli import app
from data_prep.index.verify_index import verify_index

EN = 1
"""Number of the dataset that is read several times."""


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as handle:
        handle.seek(at)
        handle.write(data)


def rewrite(run, **changes):
    path = run.index / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def redigest(run, kind, number, array, values):
    """Replace an array and update its digest in the manifest, so that only the content is wrong."""
    from bloomery.base.digest import digest_file

    manifest = json.loads((run.index / "index.json").read_text())
    entry = manifest[kind][number][array] if number is not None else manifest[kind]
    np.save(run.index / entry["path"], values)
    entry["digest"] = digest_file(run.index / entry["path"])
    rewrite(run, **manifest)


def load(run, kind, number, array):
    manifest = json.loads((run.index / "index.json").read_text())
    entry = manifest[kind][number][array] if number is not None else manifest[kind]
    return np.load(run.index / entry["path"])


def test_a_new_index_passes(run):
    found = verify_index(run.index)
    assert found["train_samples"] == 700
    assert found["documents"] == 21 * 5
    assert set(found["train"]) == set(run.weights)


def test_the_verb_prints_json_and_fails_with_exit_code_1(own_run):
    result = CliRunner().invoke(app, ["verify", "--index", str(own_run.index), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["token_files"] == 3
    (own_run.index / "tokens/s/00000.bin").write_bytes(b"")
    result = CliRunner().invoke(app, ["verify", "--index", str(own_run.index)])
    assert isinstance(result.exception, CheckFailedError)
    assert result.exception.exit_code == 1


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_a_cut_token_file_is_found(own_run, suffix):
    path = own_run.index / f"tokens/s/00000{suffix}"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(CheckFailedError, match="bytes"):
        verify_index(own_run.index)


@pytest.mark.parametrize("name", ["tokens/s/00000.bin", "tokens/s/00002.idx", "index.json"])
def test_a_missing_file_is_named(own_run, name):
    (own_run.index / name).unlink()
    with pytest.raises(CheckFailedError, match="no such file"):
        verify_index(own_run.index)


def test_swapped_token_files_are_found(own_run):
    tokens = own_run.index / "tokens/s"
    for suffix in (".bin", ".idx"):
        (tokens / f"00000{suffix}").rename(tokens / f"swap{suffix}")
        (tokens / f"00002{suffix}").rename(tokens / f"00000{suffix}")
        (tokens / f"swap{suffix}").rename(tokens / f"00002{suffix}")
    with pytest.raises(CheckFailedError, match="documents with"):
        verify_index(own_run.index)


def last_tokens(run, part):
    """Return the position of the last token of each document of a pair."""
    return np.cumsum(open_token_file(run.index / "tokens" / part).lengths) - 1


def test_a_changed_token_is_found(own_run):
    path = own_run.index / "tokens/s/00000.bin"
    at = next(at for at in range(1000) if at not in last_tokens(own_run, "s/00000"))
    patch(path, 2 * at, bytes([path.read_bytes()[2 * at] ^ 1]))
    with pytest.raises(CheckFailedError, match="not the file that the index was built from"):
        verify_index(own_run.index)


def test_a_token_beyond_the_vocabulary_is_found(own_run):
    patch(own_run.index / "tokens/s/00000.bin", 0, b"\xff\xff")
    with pytest.raises(CheckFailedError, match="token id 65535"):
        verify_index(own_run.index)


def test_a_document_without_its_end_token_is_found(own_run):
    path = own_run.index / "tokens/s/00000.bin"
    patch(path, 2 * int(last_tokens(own_run, "s/00000")[3]), b"\7\0")
    with pytest.raises(CheckFailedError, match="token id 2 at the end"):
        verify_index(own_run.index)


def test_offsets_that_contradict_the_lengths_are_found(own_run):
    path = own_run.index / "tokens/s/00000.idx"
    lengths = np.frombuffer(path.read_bytes()[34:42], "<i4")
    patch(path, 34, np.array([lengths[0] + 1, lengths[1] - 1], "<i4").tobytes())
    with pytest.raises(CheckFailedError, match="offsets do not follow"):
        verify_index(own_run.index)


def test_a_changed_array_is_found(own_run):
    manifest = read_index_manifest(own_run.index / "index.json")
    path = own_run.index / manifest.train[0].shuffle.path
    patch(path, path.stat().st_size - 8, b"\1")
    with pytest.raises(CheckFailedError, match="content changed"):
        verify_index(own_run.index)


def test_an_array_of_another_shape_is_found(own_run):
    manifest = read_index_manifest(own_run.index / "index.json")
    np.save(own_run.index / manifest.blend_sample.path, np.zeros(3, np.int64))
    with pytest.raises(CheckFailedError, match=r"type int64 and shape \[3\]; expected: type uint32 and shape \[700\]"):
        verify_index(own_run.index)


def swap(one, other):
    """Exchange two files."""
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def pair(run, part):
    """Return the paths of all files of a pair."""
    prefix = run.index / "tokens" / part
    sidecar = sidecar_path(prefix)
    return [
        *(prefix.with_name(prefix.name + suffix) for suffix in (".bin", ".idx")),
        sidecar,
        sidecar.with_suffix(".json"),
    ]


def test_two_exchanged_pairs_are_found(own_run):
    for one, other in zip(pair(own_run, "s/00000"), pair(own_run, "s/00002"), strict=True):
        swap(one, other)
    with pytest.raises(CheckFailedError, match="documents with"):
        verify_index(own_run.index)


def test_a_valid_bin_with_other_tokens_is_found(own_run):
    """The file has the right length, and its tokens and ends of documents are valid. Only the digest differs."""
    path = own_run.index / "tokens/s/00000.bin"
    tokens = np.fromfile(path, "<u2")
    ends = last_tokens(own_run, "s/00000")
    begin, end = next((a + 1, b) for a, b in pairwise(ends) if b - a > 9)
    tokens[begin:end] = tokens[begin:end][::-1]
    tokens.tofile(path)
    with pytest.raises(CheckFailedError, match="not the file that the index was built from"):
        verify_index(own_run.index)


def test_the_sidecar_of_another_pair_is_found(own_run):
    for one, other in list(zip(pair(own_run, "s/00000"), pair(own_run, "s/00002"), strict=True))[2:]:
        swap(one, other)
    with pytest.raises(CheckFailedError, match="belongs to another pair"):
        verify_index(own_run.index)


def test_a_sidecar_with_other_split_keys_is_found(own_run):
    """The sidecar has the digests of its pair, but its split keys differ from those that the index was built from."""
    path = sidecar_path(own_run.index / "tokens/s/00000")
    stated, table = read_manifest(path), pq.read_table(path)
    at = table.column_names.index("split_key")
    table = table.set_column(at, table.field(at), [np.arange(len(table), dtype=np.uint64)])
    write_table(
        path, table, kind="token_documents", inputs={}, parameters=stated["parameters"], counts=stated["counts"]
    )
    with pytest.raises(CheckFailedError, match=r"not the sidecar \(table of documents\) that the index was built from"):
        verify_index(own_run.index)


def test_a_sidecar_that_describes_other_documents_is_found(own_run):
    path = sidecar_path(own_run.index / "tokens/s/00000")
    stated, table = read_manifest(path), pq.read_table(path)
    at = table.column_names.index("tokens")
    table = table.set_column(at, table.field(at), [np.roll(np.asarray(table["tokens"]), 1)])
    made = write_table(
        path, table, kind="token_documents", inputs={}, parameters=stated["parameters"], counts=stated["counts"]
    )
    files = json.loads((own_run.index / "index.json").read_text())["token_files"]
    files[0]["sidecar_digest"] = made["file"]["digest"]
    rewrite(own_run, token_files=files)
    with pytest.raises(CheckFailedError, match="describes other documents"):
        verify_index(own_run.index)


def test_an_array_of_another_index_is_found(own_run):
    """The array has the same form but comes from a build with another seed."""
    manifest = read_index_manifest(own_run.index / "index.json")
    mine = [(own_run.index / entry.documents.path).read_bytes() for entry in manifest.train]
    own_run.build(seed=8)
    manifest = read_index_manifest(own_run.index / "index.json")
    (own_run.index / manifest.train[0].documents.path).write_bytes(mine[0])
    with pytest.raises(CheckFailedError, match=r"content changed|expected: type uint32"):
        verify_index(own_run.index)


def test_exchanged_arrays_of_two_datasets_are_found(own_run):
    manifest = read_index_manifest(own_run.index / "index.json")
    one, other = (own_run.index / entry.shuffle.path for entry in manifest.train[:2])
    swap(one, other)
    with pytest.raises(CheckFailedError, match=r"content changed|expected: type uint32"):
        verify_index(own_run.index)


def test_a_document_in_two_datasets_is_found(own_run):
    sets = json.loads((own_run.index / "index.json").read_text())["validation"]
    rewrite(own_run, validation=[*sets, sets[0] | {"name": "again"}])
    with pytest.raises(CheckFailedError, match="also in another dataset"):
        verify_index(own_run.index)


@pytest.mark.parametrize(
    ("array", "change", "what"),
    [
        ("documents", lambda values: values + 10**6, "does not exist"),
        (
            "documents",
            lambda values: np.where(np.arange(len(values)) == 1, values[0], values),
            "is repeated in its epoch",
        ),
        ("documents", lambda values: np.roll(values, 1), "is repeated in its epoch"),
        ("sample_starts", lambda values: values + np.array([0, 1]), "sample starts do not follow"),
        ("shuffle", np.zeros_like, "out of its block"),
        ("shuffle", lambda values: np.where(np.arange(len(values)) == 1, values[0], values), "not a permutation"),
        ("shuffle", lambda values: values[::-1], "out of its block"),
        ("shuffle", lambda values: values + len(values), "out of range"),
    ],
)
def test_a_wrong_dataset_is_found_although_its_digests_agree(own_run, array, change, what):
    assert read_index_manifest(own_run.index / "index.json").train[EN].epochs > 2
    values = load(own_run, "train", EN, array)
    redigest(own_run, "train", EN, array, change(values).astype(values.dtype))
    with pytest.raises(CheckFailedError, match=what):
        verify_index(own_run.index)


@pytest.mark.parametrize(
    ("array", "change", "what"),
    [
        ("blend_dataset", lambda values: values + 99, "dataset"),
        ("blend_sample", lambda values: values[::-1], "in order, each once"),
        ("blend_sample", lambda values: values + 10**6, "in order, each once"),
    ],
)
def test_a_wrong_blend_is_found_although_its_digests_agree(own_run, array, change, what):
    redigest(own_run, array, None, None, change(load(own_run, array, None, None)))
    with pytest.raises(CheckFailedError, match=what):
        verify_index(own_run.index)


def test_a_blend_that_misses_its_quotas_is_found(own_run):
    shares = json.loads((own_run.index / "index.json").read_text())["shares"]
    rewrite(own_run, shares=shares | {"en": 0.1})
    with pytest.raises(CheckFailedError, match=r"the blend reads 280 samples of .en.*share in index\.json"):
        verify_index(own_run.index)

"""Damage of every kind is found and named."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.index import read_index_manifest
from data_prep.index.cli import app
from data_prep.index.verify import verify_index


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as handle:
        handle.seek(at)
        handle.write(data)


def rewrite(run, **changes):
    path = run.index / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def redigest(run, kind, number, array, values):
    """Replace an array and make the manifest agree, so that only the content is wrong."""
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


def test_a_fresh_index_holds(run):
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
def test_a_cut_token_file(own_run, suffix):
    path = own_run.index / f"tokens/s/00000{suffix}"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(CheckFailedError, match="bytes"):
        verify_index(own_run.index)


@pytest.mark.parametrize("name", ["tokens/s/00000.bin", "tokens/s/00002.idx", "index.json"])
def test_a_missing_file(own_run, name):
    (own_run.index / name).unlink()
    with pytest.raises(CheckFailedError, match="no such file"):
        verify_index(own_run.index)


def test_swapped_token_files(own_run):
    tokens = own_run.index / "tokens/s"
    for suffix in (".bin", ".idx"):
        (tokens / f"00000{suffix}").rename(tokens / f"swap{suffix}")
        (tokens / f"00002{suffix}").rename(tokens / f"00000{suffix}")
        (tokens / f"swap{suffix}").rename(tokens / f"00002{suffix}")
    with pytest.raises(CheckFailedError, match="documents of"):
        verify_index(own_run.index)


def test_a_changed_token(own_run):
    path = own_run.index / "tokens/s/00000.bin"
    patch(path, 0, bytes([path.read_bytes()[0] ^ 1]))
    with pytest.raises(CheckFailedError, match="not the file that the index was built from"):
        verify_index(own_run.index)


def test_a_token_beyond_the_vocabulary(own_run):
    patch(own_run.index / "tokens/s/00000.bin", 0, b"\xff\xff")
    with pytest.raises(CheckFailedError, match="token 65535"):
        verify_index(own_run.index)


def test_offsets_that_do_not_follow(own_run):
    path = own_run.index / "tokens/s/00000.idx"
    lengths = np.frombuffer(path.read_bytes()[34:42], "<i4")
    patch(path, 34, np.array([lengths[0] + 1, lengths[1] - 1], "<i4").tobytes())
    with pytest.raises(CheckFailedError, match="offsets do not follow"):
        verify_index(own_run.index)


def test_a_changed_array(own_run):
    manifest = read_index_manifest(own_run.index / "index.json")
    path = own_run.index / manifest.train[0].shuffle.path
    patch(path, path.stat().st_size - 8, b"\1")
    with pytest.raises(CheckFailedError, match="content changed"):
        verify_index(own_run.index)


def test_an_array_of_another_shape(own_run):
    manifest = read_index_manifest(own_run.index / "index.json")
    np.save(own_run.index / manifest.blend_sample.path, np.zeros(3, np.int64))
    with pytest.raises(CheckFailedError, match="expected: int64"):
        verify_index(own_run.index)


@pytest.mark.parametrize(
    ("array", "change", "what"),
    [
        ("documents", lambda values: values + np.array([0, 1000]), "of token file"),
        ("documents", lambda values: values + np.array([9, 0]), "token file"),
        ("documents", lambda values: np.roll(values, 1, axis=0), "sample starts do not follow"),
        ("sample_starts", lambda values: values + np.array([0, 1]), "sample starts do not follow"),
        ("shuffle", lambda values: np.zeros_like(values), "not a permutation"),
        ("shuffle", lambda values: values + len(values), "out of range"),
    ],
)
def test_a_dataset_that_is_wrong_though_its_digests_agree(own_run, array, change, what):
    values = load(own_run, "train", 0, array)
    redigest(own_run, "train", 0, array, change(values).astype(values.dtype))
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
def test_a_blend_that_is_wrong_though_its_digests_agree(own_run, array, change, what):
    redigest(own_run, array, None, None, change(load(own_run, array, None, None)))
    with pytest.raises(CheckFailedError, match=what):
        verify_index(own_run.index)


def test_a_blend_that_misses_its_quotas(own_run):
    shares = json.loads((own_run.index / "index.json").read_text())["shares"]
    rewrite(own_run, shares=shares | {"en": 0.1})
    with pytest.raises(CheckFailedError, match="quota"):
        verify_index(own_run.index)

"""Test the `.bin/.idx` format against its description, and the errors of damaged files."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.base.errors import InputError
from bloomery.contracts import index
from bloomery.contracts.index import open_token_file, token_dtype, write_idx
from bloomery.contracts.index_manifest import ArrayEntry, read_index_manifest


def write_pair(folder, lengths, dtype="<u2"):
    total = sum(lengths)
    np.arange(total).astype(dtype).tofile(folder / "x.bin")
    write_idx(folder / "x.idx", np.array(lengths, np.int32), np.dtype(dtype))
    return folder / "x"


@pytest.mark.parametrize(("size", "dtype"), [(65_499, "<u2"), (65_500, "<i4"), (250_680, "<i4"), (260, "<u2")])
def test_the_token_type_follows_megatrons_rule(size, dtype):
    assert token_dtype(size) == np.dtype(dtype)


@pytest.mark.parametrize(("dtype", "code"), [("<u2", 8), ("<i4", 4)])
def test_the_bytes_of_an_idx_file_follow_the_format_description(tmp_path, dtype, code):
    write_pair(tmp_path, [3, 1, 2], dtype)
    width = np.dtype(dtype).itemsize
    assert (tmp_path / "x.idx").read_bytes() == (
        b"MMIDIDX\0\0"
        + struct.pack("<QBQQ", 1, code, 3, 4)
        + struct.pack("<3i", 3, 1, 2)
        + struct.pack("<3q", 0, 3 * width, 4 * width)
        + struct.pack("<4q", 0, 1, 2, 3)
    )


@given(lengths=st.lists(st.integers(0, 9), max_size=20), dtype=st.sampled_from(["<u2", "<i4"]), check=st.booleans())
def test_written_token_files_are_read_back(tmp_path_factory, lengths, dtype, check):
    file = open_token_file(write_pair(tmp_path_factory.mktemp("x"), lengths, dtype), check=check)
    assert file.dtype == np.dtype(dtype)
    assert file.lengths.tolist() == lengths
    assert file.documents.tolist() == list(range(len(lengths) + 1))
    assert file.tokens.tolist() == list(range(sum(lengths)))


def test_offsets_may_exceed_32_bits(tmp_path):
    with (tmp_path / "x.bin").open("wb") as handle:
        handle.truncate(3 * (2**31 - 1) * 4)  # a sparse file uses no disk space
    write_idx(tmp_path / "x.idx", np.full(3, 2**31 - 1, np.int32), np.dtype("<i4"))
    assert open_token_file(tmp_path / "x").offsets[-1] == 2 * (2**31 - 1) * 4


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (0, b"TNTIDX\0\0\0", "not a Megatron .idx but fairseq's older form"),
        (9, b"\2", "not a Megatron"),
        (17, b"\6", "token type code 6: a floating-point type"),
        (17, b"\x09", "token type code 9: no version of Megatron writes this code"),
        (18, b"\4", "bytes"),
        (34, b"\xff\xff\xff\xff", "negative"),
        (34 + 12, b"\1", "offsets do not follow"),
        (34 + 36, b"\1", "document bounds"),
        (34 + 36 + 8, b"\3", "document bounds"),
    ],
)
def test_a_damaged_idx_is_refused(tmp_path, at, data, what):
    prefix = write_pair(tmp_path, [3, 1, 2])
    raw = bytearray((tmp_path / "x.idx").read_bytes())
    raw[at : at + len(data)] = data
    (tmp_path / "x.idx").write_bytes(raw)
    with pytest.raises(InputError, match=what):
        open_token_file(prefix)


@pytest.mark.parametrize("at", range(34 + 12, 34 + 12 * 6 + 8 * 7, 4))
def test_damage_in_any_chunk_of_the_check_is_found(tmp_path, monkeypatch, at):
    monkeypatch.setattr(index, "_CHECKED", 2)
    prefix = write_pair(tmp_path, [3, 1, 2, 4, 1, 1])
    assert open_token_file(prefix).lengths.tolist() == [3, 1, 2, 4, 1, 1]
    raw = bytearray((tmp_path / "x.idx").read_bytes())
    raw[at + 3] ^= 0x80
    (tmp_path / "x.idx").write_bytes(raw)
    with pytest.raises(InputError):
        open_token_file(prefix)


@pytest.mark.parametrize("cut", [1, 60, 90])
@pytest.mark.parametrize("check", [True, False])
def test_a_truncated_file_is_refused(tmp_path, cut, check):
    prefix = write_pair(tmp_path, [3, 1, 2])
    (tmp_path / "x.idx").write_bytes((tmp_path / "x.idx").read_bytes()[:-cut])
    with pytest.raises(InputError, match="bytes"):
        open_token_file(prefix, check=check)
    prefix = write_pair(tmp_path, [3, 1, 2])
    (tmp_path / "x.bin").write_bytes((tmp_path / "x.bin").read_bytes()[:-1])
    with pytest.raises(InputError, match="bytes"):
        open_token_file(prefix, check=check)


@pytest.mark.parametrize("value", [{"format": 1}, {}, []])
def test_an_index_of_another_format_is_refused_with_the_next_step(tmp_path, value):
    path = tmp_path / "index.json"
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match=r"format 2; delete index\.json and build the index again"):
        read_index_manifest(path)


@pytest.mark.parametrize("name", ["x.idx", "x.bin"])
def test_an_unreadable_token_file_is_refused(tmp_path, name):
    prefix = write_pair(tmp_path, [3, 1])
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        open_token_file(prefix)


def test_an_empty_array_file_is_refused(tmp_path):
    (tmp_path / "x.npy").touch()
    with pytest.raises(InputError, match="not a readable array"):
        index.open_array(tmp_path, ArrayEntry(path="x.npy", dtype="int16", shape=[3], digest=""))

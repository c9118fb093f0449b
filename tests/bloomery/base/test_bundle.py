"""Test the digests of files that are uploaded together, and the search for access tokens in them."""

from __future__ import annotations

from hub_support import TOKEN

from bloomery.base.bundle import LocalFile, contains_token


def test_digests_equal_those_of_sha256sum_and_git(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"hello\n")
    file = LocalFile.of(path)
    # The output of `sha256sum` and `git hash-object` for "hello\n".
    assert file.sha256 == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert file.git_oid == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert LocalFile.of(b"hello\n") == LocalFile(b"hello\n", 6, file.sha256, file.git_oid)


def test_a_token_that_spans_two_read_chunks_is_found(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * ((1 << 20) - 5) + TOKEN.encode() + b"x" * 100)
    assert contains_token(path, TOKEN)
    path.write_bytes(b"x" * (1 << 21))
    assert not contains_token(path, TOKEN)

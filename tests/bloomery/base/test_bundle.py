"""Files that are uploaded together: their digests, and tokens that must not leave."""

from __future__ import annotations

from hub_support import TOKEN

from bloomery.base.bundle import LocalFile, contains_token


def test_digests_are_those_of_sha256sum_and_git(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"hello\n")
    file = LocalFile.of(path)
    # `sha256sum` and `git hash-object` of "hello\n"
    assert file.sha256 == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert file.git_oid == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert LocalFile.of(b"hello\n") == LocalFile(b"hello\n", 6, file.sha256, file.git_oid)


def test_a_token_across_the_border_of_two_pieces_is_found(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * ((1 << 20) - 5) + TOKEN.encode() + b"x" * 100)
    assert contains_token(path, TOKEN)
    path.write_bytes(b"x" * (1 << 21))
    assert not contains_token(path, TOKEN)

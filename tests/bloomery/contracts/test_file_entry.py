"""Test the list of a folder's files with their sizes and hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bloomery.contracts.file_entry import FileEntry, list_files


def test_every_file_is_listed_except_the_omitted_ones_and_known_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/b", "a/list.json", "list.json", "c"):
        (tmp_path / name).write_text(name)
    known = FileEntry(bytes=9, sha256="0" * 64)
    found = list_files(tmp_path, omit={"list.json"}, known={"c": known})
    assert list(found) == ["a/b", "a/list.json", "c"]
    assert found["a/b"] == FileEntry(bytes=3, sha256=hashlib.sha256(b"a/b").hexdigest())
    assert found["c"] is known

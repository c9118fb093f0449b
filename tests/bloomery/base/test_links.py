"""Test links that are made and replaced atomically."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bloomery.base.links import link_atomically, link_files


def test_a_link_replaces_a_link_a_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/x").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("elsewhere")
    for name in ("folder", "file", "link", "new"):
        link_atomically(tmp_path / name, "target")
        assert (tmp_path / name).readlink() == Path("target")
    assert len(list(tmp_path.iterdir())) == 5


def test_a_hard_link_keeps_the_content_and_a_symbolic_link_keeps_its_target(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "theirs").symlink_to("file")
    for _ in range(2):
        link_files({"a/hard": tmp_path / "file", "b/symbolic": tmp_path / "theirs"}, tmp_path / "made")
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").replace(tmp_path / "file")
    assert (tmp_path / "made/a/hard").read_text() == "content"
    assert (tmp_path / "made/b/symbolic").readlink() == tmp_path / "file"
    assert sorted(path.name for path in (tmp_path / "made").rglob("*")) == ["a", "b", "hard", "symbolic"]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.ENOTSUP])
def test_without_hard_links_symbolic_links_are_made_and_a_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/file").write_text("content")
    link_files({"a/x": tmp_path / "run/file"}, tmp_path / "run/made")
    assert "symbolic links were made instead (number: 1);" in capsys.readouterr().err
    (tmp_path / "run").rename(tmp_path / "moved")
    assert (tmp_path / "moved/made/a/x").read_text() == "content"


def test_a_full_disk_is_not_hidden_by_a_symbolic_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="full"):
        link_files({"x": tmp_path / "file"}, tmp_path / "made")

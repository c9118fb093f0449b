"""Test that a folder for temporary files belongs to this user alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.errors import ResourceError
from bloomery.base.private_folder import make_private_folder


def test_the_folder_is_created_for_its_owner_alone_and_then_accepted(tmp_path: Path) -> None:
    for _ in range(2):
        make_private_folder(tmp_path / "fast" / "mine")
    assert (tmp_path / "fast" / "mine").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(ResourceError, match="other users may write to it"):
        make_private_folder(tmp_path)


def test_a_link_is_refused_even_to_a_private_folder(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(ResourceError, match="belongs to another user"):
        make_private_folder(tmp_path / "link")


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ResourceError, match="belongs to another user"):
        make_private_folder(tmp_path / "mine")

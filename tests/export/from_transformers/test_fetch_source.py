"""Test which names mean a folder. The tests of the Hub download from a server (tests/integration/hub)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.errors import InputError
from export.from_transformers.fetch_source import fetch_source


def test_an_existing_folder_is_the_source(tmp_path: Path) -> None:
    source = fetch_source(str(tmp_path))
    assert (source.folder, source.repository, source.commit) == (tmp_path, None, None)


@pytest.mark.parametrize("name", [".", "../model", "../model/", "../link"])
def test_a_folder_has_its_absolute_path_as_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("model")
    monkeypatch.chdir(tmp_path / "model")
    assert fetch_source(name).name == str(tmp_path.resolve() / "model")


@pytest.mark.parametrize("name", ["/no/such/folder", "./none", "~/none", "none", "a/b/c", "a/", "/b"])
def test_a_name_that_is_neither_a_folder_nor_a_repository_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"no such folder; expected: a folder, or OWNER/NAME\[@REVISION\]"):
        fetch_source(name)

"""Test that names and paths in the files of a run cannot lead out of their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.safe_path import checked_name, checked_path, checked_read_path, read_part_names, refuse_outside

OUTSIDE = ["", ".", "..", "../x", "a/../../b", "/etc/hostname", "a//b", "a/", "./a", "a\0", "a\nb", "x" * 300]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_may_leave_its_folder_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="a relative path below this folder"):
        checked_path(path)
    with pytest.raises(ValueError, match="the name of one folder"):
        checked_name(path)


@pytest.mark.parametrize("path", ["a", "arrays/train/fr.npy", "tokens/web/00000", "a b/é.txt", "...", "..a"])
def test_a_path_below_its_folder_is_accepted(path: str) -> None:
    assert checked_path(path) == path


@pytest.mark.parametrize("name", [".hidden", "-option", "a/b", "a b", "step00000100 ", "étape"])
def test_a_name_has_only_letters_digits_and_a_few_signs(name: str) -> None:
    with pytest.raises(ValueError, match="the name of one folder"):
        checked_name(name)
    assert checked_name("step00000100-copy.1_a") == "step00000100-copy.1_a"


def test_a_path_that_is_only_read_may_lead_anywhere_but_must_be_valid() -> None:
    for path in ("../../tokens/00000", "/data/fr", "a"):
        assert checked_read_path(path) == path
    for path in ("", "a\0", "a\nb", "x" * 201, "x/" * 1500):
        with pytest.raises(ValueError, match="the path of a file"):
            checked_read_path(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside").touch()
    (folder / "inside").touch()
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "near").symlink_to("inside")
    refuse_outside(folder, folder / "inside")
    refuse_outside(folder, folder / "near")
    with pytest.raises(InputError, match="link to a place outside of the folder"):
        refuse_outside(folder, folder / "link")


@pytest.mark.parametrize("value", [None, {}, "web/00000", [1], ["web"], ["../x"], ["a/b/c"], ["/x"], [["web/00000"]]])
def test_a_list_of_parts_with_another_value_is_refused(tmp_path: Path, value: object) -> None:
    write_json(tmp_path / "parts.json", value)
    with pytest.raises(InputError, match=r"parts\.json: not a list of part names; expected: a JSON list"):
        read_part_names(tmp_path / "parts.json")
    write_json(tmp_path / "parts.json", ["web/00000"])
    assert read_part_names(tmp_path / "parts.json") == ["web/00000"]

"""Test that a damaged file of a checkpoint raises an error of Bloomery, whatever the bytes of the file are."""

from __future__ import annotations

import io
import pickle
import random
from pathlib import Path

import pytest

from bloomery.base.errors import InputError
from bloomery.checkpoint.files import open_state


def test_a_file_with_damaged_bytes_is_either_read_or_an_input_error(tmp_path: Path) -> None:
    import torch

    path, buffer = tmp_path / "state.pt", io.BytesIO()
    torch.save({"weight": torch.arange(12.0), "nested": [{"step": 3, "x": torch.zeros(2, 3)}]}, buffer)
    whole, drawn, damaged = buffer.getvalue(), random.Random(18), 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        path.write_bytes(data[: drawn.randint(0, len(data))] if drawn.random() < 0.2 else data)
        try:
            open_state(path)
        except InputError:
            damaged += 1
    assert damaged > 30
    path.write_bytes(whole)
    assert open_state(path)["nested"][0]["step"] == 3


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02damaged", b"PK\x03\x04" + bytes(60), pickle.dumps(["a list"]), b"\x80\x02}q\x00X\xff"]
)
def test_a_file_of_another_kind_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(content)
    with pytest.raises(InputError):
        open_state(path)


def test_a_missing_file_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_state(tmp_path / "absent.pt")

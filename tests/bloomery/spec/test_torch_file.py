"""Compare the computed size of a file of `torch.save` with files that torch writes."""

from __future__ import annotations

import io
import zipfile

import pytest

from bloomery.spec.torch_file import named_tensors_bytes, torch_file_bytes


@pytest.mark.parametrize("sizes", [[], [1], [64, 63, 65], list(range(1, 40)), [4096] * 120])
def test_the_layout_of_the_archive_is_exact(sizes: list[int]) -> None:
    import torch

    state = {f"layer.{number}": torch.zeros(size, dtype=torch.uint8) for number, size in enumerate(sizes)}
    file = io.BytesIO()
    torch.save(state, file)
    with zipfile.ZipFile(file) as archive:
        pickled = archive.getinfo("archive/data.pkl").file_size
    assert torch_file_bytes(pickled, sizes) == len(file.getvalue())


def test_the_computed_size_with_descriptions_of_tensors_is_close() -> None:
    import torch

    state = {f"self_attention.{number}.weight": torch.zeros(300, 200) for number in range(12)}
    file = io.BytesIO()
    torch.save(state, file)
    planned = named_tensors_bytes((name, 4 * tensor.numel()) for name, tensor in state.items())
    overhead = len(file.getvalue()) - 12 * 240_000
    assert planned - 12 * 240_000 == pytest.approx(overhead, rel=0.05)


def test_archives_above_4_gib_are_accepted() -> None:
    content = 3 * 2**32
    assert content < torch_file_bytes(1000, [2**32] * 3) < content + 4000

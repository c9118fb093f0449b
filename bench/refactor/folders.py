"""Make folders that contain the files to which a shipped configuration refers."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import adapter
import numpy as np
import zstandard

VARIABLES = {"BLOOMERY_CORPUS": "corpus", "BLOOMERY_TOKENS": "tokens"}
"""Environment variables of the shipped configurations, mapped to folders that `with_inputs` makes."""


def empty_folder(folder: Path) -> Path:
    """Make a folder that contains only the shipped files."""
    folder.mkdir(parents=True)
    (folder / "config").symlink_to(adapter.ROOT / "config")
    return folder


def with_inputs(folder: Path) -> Path:
    """Make a folder that also contains a small corpus and a pair of token files."""
    empty_folder(folder)
    (folder / "corpus").mkdir()
    for language in ("en", "fr"):
        rows = [{"text": f"{language} text number {number}. " * 40, "lang": language} for number in range(200)]
        lines = "".join(json.dumps({"id": str(number)} | row) + "\n" for number, row in enumerate(rows))
        (folder / f"corpus/{language}.jsonl.zst").write_bytes(zstandard.compress(lines.encode()))
    (folder / "tokens/tokenizer").mkdir(parents=True)
    (folder / "tokens/tokenizer/tokenizer.json").write_text("{}")
    lengths = np.array([3, 5], dtype="<i4")
    (folder / "tokens/fr_text_document.bin").write_bytes(np.arange(8, dtype="<u2").tobytes())
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1)
    pointers, documents = np.array([0, 6], dtype="<i8"), np.arange(3, dtype="<i8")
    (folder / "tokens/fr_text_document.idx").write_bytes(
        header + lengths.tobytes() + pointers.tobytes() + documents.tobytes()
    )
    return folder


def name_of(config: Path) -> str:
    """Return the configuration's path relative to the root, which is also valid in the folders made here."""
    return config.relative_to(adapter.ROOT).as_posix()

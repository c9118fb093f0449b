"""Digests that name content. BLAKE2b with 128 bits for identities inside a run, SHA-256 where others must check it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 20


def digest_bytes(data: bytes) -> str:
    """BLAKE2b-128 of `data`, hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def digest_json(value: Any) -> str:
    """BLAKE2b-128 of a JSON value in canonical form (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return digest_bytes(text.encode("utf-8"))


def _digest_file(path: Path, algorithm: Any) -> str:
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            algorithm.update(chunk)
    return str(algorithm.hexdigest())


def digest_file(path: Path) -> str:
    """BLAKE2b-128 of a file's content, streamed."""
    return _digest_file(path, hashlib.blake2b(digest_size=16))


def digest_ends(path: Path) -> str:
    """BLAKE2b-128 of a file's size, first and last MiB: tells models of many gigabytes apart without reading them."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        ends = handle.read(_CHUNK_BYTES)
        handle.seek(max(len(ends), size - _CHUNK_BYTES))
        ends += handle.read(_CHUNK_BYTES)
    return digest_bytes(size.to_bytes(8, "little") + ends)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content, streamed."""
    return _digest_file(path, hashlib.sha256())


def document_id(source: str, key: str) -> str:
    """Identity of a document: BLAKE2b-128 of its source's name and its key within that source."""
    return digest_bytes(f"{source}\0{key}".encode())


def occurrence_id(document: str, occurrence: int) -> str:
    """Identity of the second (2), third, ... document whose key gave the id `document`."""
    return digest_bytes(f"{document}#{occurrence}".encode())


def seed_for(seed: int, name: str) -> int:
    """A 63-bit seed keyed by a *name*, so that nothing drawn depends on the order or the place of drawing."""
    raw = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(raw, "little") & ((1 << 63) - 1)

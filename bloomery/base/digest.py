"""Digests that identify content: BLAKE2b-128 for identities within a run, SHA-256 for digests that other programs
verify."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 20


def digest_bytes(data: bytes) -> str:
    """Return the BLAKE2b-128 digest of `data` in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def digest_json(value: Any) -> str:
    """Return the BLAKE2b-128 digest of a JSON value in canonical form (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return digest_bytes(text.encode("utf-8"))


def _digest_file(path: Path, algorithm: Any) -> str:
    # One buffer for all chunks: new memory for each chunk would take longer than the hash on some machines.
    buffer = memoryview(bytearray(_CHUNK_BYTES))
    with path.open("rb", buffering=0) as handle:
        while count := handle.readinto(buffer):
            algorithm.update(buffer[:count])
    return str(algorithm.hexdigest())


def digest_file(path: Path) -> str:
    """Return the BLAKE2b-128 digest of a file's content, which is streamed."""
    return _digest_file(path, hashlib.blake2b(digest_size=16))


def digest_ends(path: Path) -> str:
    """Return the BLAKE2b-128 digest of a file's size, first MiB and last MiB. It distinguishes models of many gigabytes
    without reading them whole."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        ends = handle.read(_CHUNK_BYTES)
        handle.seek(max(len(ends), size - _CHUNK_BYTES))
        ends += handle.read(_CHUNK_BYTES)
    return digest_bytes(size.to_bytes(8, "little") + ends)


def sha256_file(path: Path) -> str:
    """Return the SHA-256 digest of a file's content, which is streamed."""
    return _digest_file(path, hashlib.sha256())


def document_id(source: str, key: str) -> str:
    """Return a document's id: the BLAKE2b-128 digest of its source's name and of its key within the source."""
    return digest_bytes(f"{source}\0{key}".encode())


def occurrence_id(document: str, occurrence: int) -> str:
    """Return the id of the second (`occurrence` 2), third, ... document whose key gave the id `document`."""
    return digest_bytes(f"{document}#{occurrence}".encode())


def seed_for(seed: int, name: str) -> int:
    """Return a 63-bit seed that depends only on `seed` and `name`. Random numbers with their own `name` thus do not
    depend on when or in which process they are drawn."""
    raw = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(raw, "little") & ((1 << 63) - 1)

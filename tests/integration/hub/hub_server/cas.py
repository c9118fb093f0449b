"""Xet's content-addressed store, which holds xorbs, and files as lists of chunk ranges in xorbs.

Layouts follow huggingface/xet-core (Apache-2.0): openapi/cas.openapi.yaml and its structures.
"""

from __future__ import annotations

import collections
import hashlib
import json
import struct
import threading
from typing import Any

from .store import HttpError, Store, atomic_write
from .xorb import chunk_bytes, hash_text, parse_chunks

Segment = list[Any]
"""A part of a file: the hash of its xorb, its size in bytes, its first chunk, and the chunk after its last one."""

_BOOKEND = b"\xff" * 32
_RECORD = 48


class Cas:
    """The content-addressed store of one server."""

    def __init__(self, store: Store) -> None:
        self.store, self.root, self.lock = store, store.root / "cas", threading.Lock()
        (self.root / "xorbs").mkdir(parents=True, exist_ok=True)
        (self.root / "files").mkdir(exist_ok=True)
        self.stats: collections.Counter[str] = collections.Counter()

    def put_xorb(self, name: str, data: bytes) -> bool:
        """Store a xorb. Return whether the store did not have it before."""
        path = self.root / "xorbs" / name
        if path.exists():
            return False
        atomic_write(path, data)
        self.stats["xorbs"] += 1
        self.stats["xorb_bytes"] += len(data)
        return True

    def put_shard(self, data: bytes) -> None:
        """Store the files of a shard.

        A shard begins with a header of 48 bytes. For each file, it then has a record, the file's segments, and optional
        parts that the record's flags announce.
        """
        if data[:14] != b"HFRepoMetaData":
            raise HttpError(400, "not a shard")
        self.stats["shards"] += 1
        self.stats["shard_bytes"] += len(data)
        position = _RECORD
        while True:
            file_hash = data[position : position + 32]
            flags, count = struct.unpack_from("<II", data, position + 32)
            position += _RECORD
            if file_hash == _BOOKEND:
                return
            segments: list[Segment] = []
            for _ in range(count):
                _, size, first, last = struct.unpack_from("<IIII", data, position + 32)
                segments.append([hash_text(data[position : position + 32]), size, first, last])
                position += _RECORD
            if flags >> 31 & 1:
                position += _RECORD * count  # skip one verification hash for each segment
            sha256 = None
            if flags >> 30 & 1:
                sha256 = hash_text(data[position : position + 32])
                position += _RECORD
            self._add_file(hash_text(file_hash), segments, sha256)

    def _add_file(self, file_hash: str, segments: list[Segment], sha256: str | None) -> None:
        data = self._materialise(segments)
        real = hashlib.sha256(data).hexdigest()
        if sha256 and sha256 != real:
            raise HttpError(400, f"sha256 mismatch for {file_hash}")
        self.store.put_blob(data)
        atomic_write(self.root / "files" / file_hash, json.dumps({"segments": segments, "sha256": real}).encode())
        atomic_write(self.root / "by_sha" / real, file_hash.encode())
        self.stats["files"] += 1
        self.stats["file_bytes"] += len(data)
        self.stats["file_terms"] += len(segments)

    def _materialise(self, segments: list[Segment]) -> bytes:
        parts: list[bytes] = []
        for name, _, first, last in segments:
            try:
                xorb = (self.root / "xorbs" / name).read_bytes()
            except FileNotFoundError:
                raise HttpError(400, f"xorb {name} unknown") from None
            chunks, _ = parse_chunks(xorb)
            parts += [chunk_bytes(xorb, chunk) for chunk in chunks[first:last]]
        return b"".join(parts)

    def xet_hash(self, sha256: str) -> str | None:
        """Return Xet's hash of a file, or None if the file did not come through this store."""
        try:
            return (self.root / "by_sha" / sha256).read_text()
        except FileNotFoundError:
            return None

    def reconstruction(self, file_hash: str, base: str, wanted: tuple[int, int] | None) -> dict[str, Any]:
        """Return where the parts of a file, or of a byte range of the file, can be fetched."""
        try:
            segments: list[Segment] = json.loads((self.root / "files" / file_hash).read_bytes())["segments"]
        except FileNotFoundError:
            raise HttpError(404, "file not found") from None
        skip = 0
        if wanted:
            segments, skip = _cut(segments, *wanted)
        terms, info = [], collections.defaultdict[str, list[dict[str, Any]]](list)
        for name, size, first, last in segments:
            terms.append({"hash": name, "unpacked_length": size, "range": {"start": first, "end": last}})
            chunks, end = parse_chunks((self.root / "xorbs" / name).read_bytes())
            after = chunks[last].offset if last < len(chunks) else end
            entry = {
                "range": {"start": first, "end": last},
                "url": f"{base}/_cas/xorb/{name}",
                "url_range": {"start": chunks[first].offset, "end": after - 1},
            }
            if entry not in info[name]:
                info[name].append(entry)
        return {"offset_into_first_range": skip, "terms": terms, "fetch_info": dict(info)}


def _cut(segments: list[Segment], start: int, end: int) -> tuple[list[Segment], int]:
    """Return the segments that contain the bytes start to end, and the number of bytes to skip in the first segment."""
    position, kept, skip = 0, [], 0
    for segment in segments:
        if position + segment[1] > start and position <= end:
            if not kept:
                skip = start - position
            kept.append(segment)
        position += segment[1]
    if not kept:
        raise HttpError(416, "Range not satisfiable")
    return kept, skip

"""Take a fixed sample of documents per language, and read only a small part of a large corpus.

Shards are visited in the order of their names' digests. Document ids are hashes. Each shard contributes, per language,
at most `PER_PART` documents, those with the smallest ids. A language is complete when it has `PER_LANGUAGE` documents
or `LANGUAGE_BYTES` of text. The same corpus always gives the same sample. In most shards of a large corpus, only the
language column is read. Files without a manifest are read whole.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from bloomery.base.digest import digest_bytes
from bloomery.base.progress import track
from data_prep.formats.documents import open_documents
from data_prep.formats.shard import open_table

PER_PART = 64
PER_LANGUAGE = 256
LANGUAGE_BYTES = 1 << 20


def sample_documents(shards: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return the sampled texts per language, sorted by language code.

    Args:
        shards: path of each shard, by name.

    Raises:
        InputError: if a shard is missing or damaged.
    """
    texts: defaultdict[str, list[str]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    for name in track(sorted(shards, key=lambda name: digest_bytes(name.encode())), "sample", len(shards), "shards"):
        full = {language for language, size in sizes.items() if size >= LANGUAGE_BYTES}
        room = {language: PER_LANGUAGE - len(found) for language, found in texts.items()} | dict.fromkeys(full, 0)
        for language, text in _chosen(shards[name], room):
            if sizes[language] < LANGUAGE_BYTES:
                texts[language].append(text)
                sizes[language] += len(text.encode())
    return {language: texts[language] for language in sorted(texts)}


def _chosen(path: Path, room: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield (language, text) of a shard's sampled documents.

    `room` is the number of documents that each language still needs. A language not in `room` gets `PER_PART`.
    """
    documents = open_documents(path, ("id", "language", "text"))
    if not documents.has_manifest:
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for batch in documents.batches():
            for identity, language, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found[language].append((identity, text))
            for language, rows in found.items():
                found[language] = heapq.nsmallest(min(PER_PART, room.get(language, PER_PART)), rows)
        for language, rows in found.items():
            yield from ((language, text) for _, text in rows)
        return
    with open_table(path) as file:
        chosen = _smallest_ids(file, room)
        groups = {group for rows in chosen.values() for _, group, _ in rows}
        columns = {group: file.read_row_group(group, columns=["text"])["text"] for group in sorted(groups)}
        for language, places in chosen.items():
            for _, group, row in places:
                yield language, columns[group][row].as_py()


def _smallest_ids(file: pq.ParquetFile, room: dict[str, int]) -> dict[str, list[tuple[str, int, int]]]:
    """Return (id, row group, row) of a shard's sampled documents, per language. See `_chosen` for `room`."""
    found: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for group in range(file.num_row_groups):
        languages = file.read_row_group(group, columns=["language"])["language"].to_pylist()
        if not any(room.get(language, PER_PART) > 0 for language in set(languages)):
            continue
        ids = file.read_row_group(group, columns=["id"])["id"].to_pylist()
        for row, (language, identity) in enumerate(zip(languages, ids, strict=True)):
            found[language].append((identity, group, row))
        for language, rows in found.items():
            found[language] = heapq.nsmallest(min(PER_PART, room.get(language, PER_PART)), rows)
    return found

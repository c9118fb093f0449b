"""A fixed sample of documents per language, read from few places of a corpus of any size.

Shards are sorted by document id, which is a hash, so the first rows of a shard are a random sample of it. Parts are
visited in the order of the digest of their name; each gives a language at most `PER_PART` documents until it has
`PER_LANGUAGE` documents or `LANGUAGE_BYTES`. The same corpus always gives the same sample; a large one is read in the
first row group of its shards only, and of most shards only the language column of that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from bloomery.base.digest import digest_bytes
from bloomery.base.progress import track
from bloomery.contracts.shard import open_table

PER_PART = 64
PER_LANGUAGE = 256
LANGUAGE_BYTES = 1 << 20


def sample_documents(clean: Path, parts: list[str]) -> dict[str, list[str]]:
    """Texts per language, sorted by code; within the limits above. Raises InputError for missing shards."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    for part in track(sorted(parts, key=lambda part: digest_bytes(part.encode())), "sample", len(parts), "shards"):
        path = clean / f"{part}.parquet"
        with open_table(path) as file:
            if file.num_row_groups == 0:
                continue
            chosen = _chosen_rows(file.read_row_group(0, columns=["language"])["language"].to_pylist(), texts)
            if chosen:
                column = file.read_row_group(0, columns=["text"])["text"]
                for language, row in chosen:
                    if sizes[language] < LANGUAGE_BYTES:
                        texts[language].append(column[row].as_py())
                        sizes[language] += len(texts[language][-1].encode())
    return {language: texts[language] for language in sorted(texts)}


def _chosen_rows(languages: list[str], have: dict[str, list[str]]) -> list[tuple[str, int]]:
    room = {language: min(PER_PART, PER_LANGUAGE - len(have.get(language, ()))) for language in set(languages)}
    taken: Counter[str] = Counter()
    chosen = []
    for row, language in enumerate(languages):
        if taken[language] < room[language]:
            taken[language] += 1
            chosen.append((language, row))
    return chosen

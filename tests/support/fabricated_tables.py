"""Write the manifests of a finished corpus with any number of shards, without the tables themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bloomery.base.atomic import dump_json, read_json
from bloomery.base.digest import digest_bytes, digest_file, digest_json
from bloomery.base.self_digest import with_own_digest
from bloomery.contracts import lineage
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.safe_path import read_part_names

LANGUAGES = 20
"""Number of languages in the manifest of each clean shard."""


def write_tables(paths: RunPaths, partitions: int = 2) -> None:
    """Write the manifest of every table of the corpus, the counts of pre-tokens, and the mixture.

    The configuration must have been written. No lines are removed, and no evaluation text is searched for.
    """
    corpus = paths.corpus
    parts = read_part_names(paths.config / "parts.json")
    for part in parts:
        ingest = {
            key: value for key, value in read_json(paths.config / f"ingest/{part}.json").items() if key != "files"
        }
        raw = {"documents": 100, "bad_rows": 0, "quarantine_digest": None}
        write_manifest(corpus / f"raw/{part}.json", {"x.jsonl": "0" * 32}, digest_json(ingest), counts=raw)
        documents = {"documents": _digest(corpus / f"raw/{part}.json")}
        write_manifest(corpus / f"measures/{part}.json", documents, _section(paths, "measure"))
        measures = {"measures": _digest(corpus / f"measures/{part}.json")}
        write_manifest(corpus / f"verdicts/{part}.json", measures, _section(paths, "judge"))
        verdicts = {"verdicts": _digest(corpus / f"verdicts/{part}.json")}
        write_manifest(corpus / f"keys/{part}.json", measures | verdicts, _section(paths, "dedup"))
    keys = {"keys": digest_json([_digest(corpus / f"keys/{part}.json") for part in parts])}
    for name in ("candidates", "repeated"):
        for number in range(partitions):
            write_manifest(corpus / f"duplicates/{name}-{number}.json", keys, _of_partition(paths, number))
    candidates = _duplicates(corpus, "candidates", partitions)
    for name in ("clusters", "involved"):
        write_manifest(corpus / f"duplicates/{name}.json", candidates, _section(paths, "dedup"))
    involved = {"involved": _digest(corpus / "duplicates/involved.json")}
    for part in parts:
        texts = {"text": _digest(corpus / f"raw/{part}.json"), "measures": _digest(corpus / f"measures/{part}.json")}
        write_manifest(corpus / f"members/{part}.json", texts | involved, _section(paths, "dedup"))
    members = {"members": digest_json([_digest(corpus / f"members/{part}.json") for part in parts])}
    clusters = {"clusters": _digest(corpus / "duplicates/clusters.json")}
    for name in ("resolved", "survivors"):
        for number in range(partitions):
            write_manifest(
                corpus / f"duplicates/{name}-{number}.json", clusters | members, _of_partition(paths, number)
            )
    found = _duplicates(corpus, "resolved", partitions) | _duplicates(corpus, "repeated", partitions)
    for part in parts:
        own = {name: _digest(corpus / f"{name}/{part}.json") for name in ("raw", "verdicts")}
        size = {"documents": 50, "bytes": 5000}
        languages = {
            f"l{n}": {"in": size, "out": size, "removed": {"min_words": {"documents": 1, "bytes": 9}}}
            for n in range(LANGUAGES)
        }
        counts = {"languages": languages, "out": size}
        for name in ("clean", "removed"):
            write_manifest(corpus / f"{name}/{part}.json", own | found, _section(paths, "clean"), counts=counts)
        documents = {"documents.0": _digest(corpus / f"clean/{part}.json")}
        write_manifest(paths.tokenizer / f"counts/{part}.json", documents, _section(paths, "count"))
    made_from = {
        lineage.TEXTS: lineage.clean_texts(corpus / "clean", parts),
        lineage.SECTION: lineage.section_digest(paths.config / "mixture.json"),
    }
    (corpus / "mixture.json").write_text(dump_json(with_own_digest({"languages": {}, "made_from": made_from})))


def write_result(paths: RunPaths, name: str, made_from: dict[str, str]) -> None:
    """Write the pointer of a result that has no files."""
    value = {"format": 1, "version": "1", "digest": "0" * 32, "files": {}, "made_from": made_from}
    paths.results.mkdir(parents=True, exist_ok=True)
    (paths.results / name).write_text(dump_json(with_own_digest(value)))


def write_tokenizer(paths: RunPaths) -> None:
    """Write the record of a tokenizer that was trained on the counts of pre-tokens."""
    parts = read_part_names(paths.config / "parts.json")
    made_from = {
        lineage.TEXTS: lineage.counted_texts(paths.tokenizer / "counts", parts),
        lineage.COUNTS: lineage.tables_of_counts(paths.tokenizer / "counts", parts),
        lineage.MIXTURE: digest_file(paths.corpus / "mixture.json"),
        lineage.SECTION: _section(paths, "tokenizer"),
    }
    write_result(paths, "tokenizer.json", made_from)


def write_manifest(
    path: Path, inputs: dict[str, str], parameters: str, *, counts: dict[str, Any] | None = None, content: str = ""
) -> None:
    """Write the manifest of a table. The table's digest depends on its path, its inputs and `content`."""
    digest = digest_bytes(f"{path.parent.name}/{path.name}{sorted(inputs.items())}{content}".encode())
    value = {
        "kind": path.parents[1].name,
        "version": "1",
        "inputs": inputs,
        "parameters": parameters,
        "rows": 100,
        "file": {"name": f"{path.stem}.parquet", "bytes": 1000, "digest": digest},
        "counts": counts or {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_json(with_own_digest(value)))


def rewrite(manifest: Path, *, content: str) -> None:
    """Write a manifest again as if its table had been made again from the same inputs, with other content."""
    value = read_json(manifest)
    write_manifest(manifest, value["inputs"], value["parameters"], counts=value["counts"], content=content)


def _digest(manifest: Path) -> str:
    return lineage.table_digest(manifest)


def _section(paths: RunPaths, name: str) -> str:
    return lineage.section_digest(paths.config / f"{name}.json")


def _of_partition(paths: RunPaths, number: int) -> str:
    return digest_json([read_json(paths.config / "dedup.json"), number])


def _duplicates(corpus: Path, name: str, partitions: int) -> dict[str, str]:
    stems = [f"{name}-{number}" for number in range(partitions)]
    return {stem: _digest(corpus / f"duplicates/{stem}.json") for stem in stems}

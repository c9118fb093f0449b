"""Show the content of index.json, as JSON for programs and as tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError
from bloomery.base.units import format_bytes
from bloomery.contracts.index import token_dtype
from bloomery.contracts.index_manifest import IndexManifest, TextRead, read_index_manifest
from bloomery.contracts.paths import RunPaths

FILES_SHOWN = 8
STAGE_DATASETS_SHOWN = 6
Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
"""Title, column names and rows of a table."""


def read_index(folder: Path) -> IndexManifest:
    """Return the index.json of an index folder or of a run. Raises InputError if it is missing or damaged."""
    for path in (folder / "index.json", RunPaths(folder).index_manifest):
        if path.is_file():
            return read_index_manifest(path)
    what = "the folder holds no index.json" if folder.is_dir() else "no such folder"
    raise InputError(
        what, where=str(folder), expected="the folder of an index or of a run whose index stage has finished"
    )


def samples_read(manifest: IndexManifest) -> dict[str, int]:
    """Return the number of training samples that the blend reads of each dataset."""
    found: Counter[str] = Counter()
    for stage in manifest.stages:
        found.update({name: share.taken for name, share in stage.datasets.items()})
    return {entry.name: found[entry.name] for entry in manifest.train}


def facts(manifest: IndexManifest) -> dict[str, Any]:
    """Return the content of the index as an object for JSON."""
    read = samples_read(manifest)
    return {
        "digest": manifest.digest,
        "sequence_length": manifest.sequence_length,
        "order": manifest.order,
        "vocabulary_size": manifest.vocabulary_size,
        "end_of_document": manifest.end_of_document,
        "tokenizer_digest": manifest.tokenizer_digest,
        "documents": sum(file.documents for file in manifest.token_files),
        "tokens": sum(file.tokens for file in manifest.token_files),
        "train_samples": manifest.train_samples,
        "train_tokens": manifest.train_samples * manifest.sequence_length,
        "languages": {code: entry.model_dump() for code, entry in manifest.languages.items()},
        "datasets": [
            {
                "name": entry.name,
                "language": entry.language,
                "documents": entry.unique_documents,
                "tokens": entry.unique_tokens,
                "samples": entry.samples,
                "samples_read": read[entry.name],
                "epochs": read[entry.name] * manifest.sequence_length / max(1, entry.unique_tokens),
                "identity": entry.identity,
            }
            for entry in manifest.train
        ],
        "stages": [stage.model_dump() for stage in manifest.stages],
        "validation": [
            {
                "name": entry.name,
                "language": entry.language,
                "documents": entry.unique_documents,
                "tokens": entry.unique_tokens,
                "samples": entry.samples,
            }
            for entry in manifest.validation
        ],
        "token_files": [file.model_dump() for file in manifest.token_files],
    }


def tables(manifest: IndexManifest) -> Iterator[Table]:
    """Yield the content of the index as tables for people."""
    known = facts(manifest)
    size = format_bytes(known["tokens"] * token_dtype(manifest.vocabulary_size).itemsize)
    yield (
        "Index",
        (),
        [
            ("digest", manifest.digest),
            (
                "samples",
                f"{manifest.train_samples:,}, each with {manifest.sequence_length:,} tokens, order `{manifest.order}`",
            ),
            ("tokens read", f"{known['train_tokens']:,}"),
            (
                "text",
                f"{known['tokens']:,} tokens of {known['documents']:,} documents in {len(manifest.token_files):,} "
                f"files, about {size}",
            ),
            (
                "tokenizer",
                f"{manifest.vocabulary_size:,} tokens, end-of-document token id {manifest.end_of_document}, digest "
                f"{manifest.tokenizer_digest}",
            ),
        ],
    )
    yield "Mixture in tokens", ("language", "tokens", "documents", "mixture", "read", "epochs"), _mixture(manifest)
    yield (
        "Training datasets",
        ("dataset", "tokens", "documents", "samples read", "samples available", "epochs"),
        [
            (
                entry["name"],
                f"{entry['tokens']:,}",
                f"{entry['documents']:,}",
                f"{entry['samples_read']:,}",
                f"{entry['samples']:,}",
                f"{entry['epochs']:.3g}",
            )
            for entry in known["datasets"]
        ],
    )
    if len(manifest.stages) > 1:
        yield "Stages of the blend", ("from sample", "to", "spread to", "samples taken"), _stages(manifest)
    sets: list[tuple[str, ...]] = [
        (entry.name, f"{entry.unique_tokens:,}", f"{entry.unique_documents:,}", f"{entry.samples:,}")
        for entry in manifest.validation
    ]
    if sets:
        yield "Validation sets", ("set", "tokens", "documents", "samples"), sets
    yield "Token files", ("prefix", "documents", "tokens", ".bin digest"), _files(manifest)


def _mixture(manifest: IndexManifest) -> list[tuple[str, ...]]:
    """Return one row per language, largest share first. The rows of a language's sources follow, if it has several."""
    rows: list[tuple[str, ...]] = []
    for code, entry in sorted(manifest.languages.items(), key=lambda item: (-item[1].share, item[0])):
        parts: list[tuple[str, TextRead, str]] = [(code, entry, f"{entry.weight:.2%}")]
        if len(entry.sources) > 1:
            parts += [(f"  {name}", part, "") for name, part in sorted(entry.sources.items())]
        rows += [
            (name, f"{part.tokens:,}", f"{part.documents:,}", weight, f"{part.share:.2%}", f"{part.epochs:.3g}")
            for name, part, weight in parts
        ]
    return rows


def _stages(manifest: IndexManifest) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for stage in manifest.stages:
        taken = sorted(stage.datasets.items(), key=lambda item: (-item[1].taken, item[0]))
        said = [f"{name} {share.taken:,}" for name, share in taken if share.taken]
        more = f", and {len(said) - STAGE_DATASETS_SHOWN} more" if len(said) > STAGE_DATASETS_SHOWN else ""
        rows.append(
            (
                f"{stage.from_sample:,}",
                f"{stage.to_sample:,}",
                f"{stage.spread_to:,}",
                ", ".join(said[:STAGE_DATASETS_SHOWN]) + more,
            )
        )
    return rows


def _files(manifest: IndexManifest) -> list[tuple[str, ...]]:
    files = manifest.token_files
    rows: list[tuple[str, ...]] = [
        (each.prefix, f"{each.documents:,}", f"{each.tokens:,}", each.bin_digest) for each in files[:FILES_SHOWN]
    ]
    if len(files) > FILES_SHOWN:
        rest = files[FILES_SHOWN:]
        documents, tokens = sum(each.documents for each in rest), sum(each.tokens for each in rest)
        rows.append((f"{len(rest):,} more (--json lists them)", f"{documents:,}", f"{tokens:,}", ""))
    return rows

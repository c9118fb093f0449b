"""Compute the digests that record what each artefact of a run was made from.

Every artefact records a digest of each input and of the part of the configuration that it was made from. An artefact is
stale if one of these digests differs from the digest that the input has now, or if one of the inputs is stale
(`bloomery.contracts.stale_artefacts`). Times of files do not matter. The digest of an input that no longer exists is
not compared, because a user may delete what a finished run no longer needs.

| artefact  | record                             | inputs                                               |
|-----------|------------------------------------|------------------------------------------------------|
| corpus    | manifests of tables, mixture.json  | sections, tables of the steps before it              |
| tokenizer | results/tokenizer.json             | texts, counts, mixture, section; or imported files   |
| index     | results/index.json                 | texts, token files, mixture, tokenizer, section      |
| training  | manifest of the checkpoint         | first samples of the index, tokenizer, section       |
| model     | parity.json                        | checkpoint, tokenizer, section                       |
| published | results/publish/<model>.json       | parity.json, section                                 |
| logs      | results/logs.json                  | finished training, reports                           |
| reports   | results/report/<report>.json       | texts, mixture, tokenizer or training, section       |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bloomery.base.atomic import read_json
from bloomery.base.digest import digest_file, digest_json, sha256_file
from bloomery.base.errors import InputError
from bloomery.base.json_member import read_member
from bloomery.config.section import Section
from bloomery.contracts.checkpoint import MANIFEST_NAME
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.tokenizer import TOKENIZER

TEXTS, MIXTURE = "texts", "mixture"
TOKENIZER_INPUT, CHECKPOINT, PARITY, TRAINING, SECTION = "tokenizer", "checkpoint", "model", "training", "configuration"
REPORTS = ("corpus", "tokenizer", "training")
"""Names of the reports. As inputs of the published logs they are `report corpus` and so on."""
COUNTS = "counts"
"""Counts of the pre-tokens that a tokenizer was trained on."""
TOKEN_FILES = "token files"
"""Pairs of token files that the run adopted."""
IMPORTED = "imported "
"""Beginning of the name of a local file that the tokenizer was imported from, such as `imported tokenizer.json`."""


def section_digest(path: Path) -> str:
    """Return the digest of a section of the configuration (`config/<stage>.json`), whatever its formatting."""
    return digest_json(read_json(path))


def texts_digest(shards: Mapping[str, str]) -> str:
    """Return the digest of the clean texts. `shards` maps the name of each shard to the digest of its file."""
    return digest_json(dict(sorted(shards.items())))


def clean_texts(clean: Path, parts: Iterable[str]) -> str:
    """Return the digest of the clean texts as they are now, from the manifests of the shards in the folder `clean`.

    Raises:
        InputError: a manifest is missing or damaged.
    """
    return texts_digest({part: table_digest(clean / f"{part}.json") for part in parts})


def table_digest(manifest: Path) -> str:
    """Return the digest of a table from its manifest.

    Raises:
        InputError: the manifest is missing or damaged.
    """
    return str(_entry(manifest, "file", "digest"))


def inputs_of(manifest: Path) -> dict[str, str]:
    """Return the digests of the inputs that the manifest of a table records.

    Raises:
        InputError: the manifest is missing or damaged.
    """
    found = read_member(manifest, "inputs", kind=dict)
    return {str(name): str(digest) for name, digest in found.items()}


def _entry(manifest: Path, *keys: str) -> Any:
    value = read_json(manifest)
    try:
        for key in keys:
            value = value[key]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"the manifest has no entry {'.'.join(keys)!r}",
            where=str(manifest),
            expected="a manifest that the workflow wrote; delete this file and run the workflow again",
        ) from error
    return value


def counted_texts(counts: Path, parts: Iterable[str]) -> str:
    """Return the digest of the texts whose pre-tokens were counted, from the manifests in the folder `counts`.

    Raises:
        InputError: a manifest is missing or damaged.
    """
    shards: dict[str, str] = {}
    for part in parts:
        found = inputs_of(counts / f"{part}.json")
        shards[part] = next(iter(found.values()), "")
    return texts_digest(shards)


def tables_of_counts(counts: Path, parts: Iterable[str]) -> str:
    """Return the digest of the tables of pre-token counts, from the manifests in the folder `counts`.

    Raises:
        InputError: a manifest is missing or damaged.
    """
    return texts_digest({part: table_digest(counts / f"{part}.json") for part in parts})


def encoded_texts(inputs: Iterable[Mapping[str, str]]) -> str:
    """Return the digest of the texts that were encoded, from the recorded inputs of each pair of token files."""
    shards: dict[str, str] = {}
    for recorded in inputs:
        # A shard's name has a slash. The other inputs are tables of the deduplication, or adopted files.
        shards |= {name: digest for name, digest in recorded.items() if "/" in name}
    return texts_digest(shards)


def adopted_pair(inputs: Mapping[str, str], documents: str) -> dict[str, str]:
    """Return the digests of an adopted pair of token files.

    Args:
        inputs: inputs that the manifest of the pair records: the digests of both files.
        documents: digest of the pair's table of documents.
    """
    return {**inputs, "documents": documents}


def adopted_files(tokens: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the digest of all adopted pairs of token files, by the name of this input (`TOKEN_FILES`).

    The result is empty if no pair was adopted.

    Args:
        tokens: folder of the run's token files.
        names: names of the pairs, such as `web/00000`. Pairs that were encoded from texts are left out.

    Raises:
        InputError: a manifest is missing or damaged.
    """
    pairs = {}
    for name in names:
        manifest = token_manifest(tokens, name)
        inputs = inputs_of(manifest)
        if is_adopted(inputs):
            pairs[name] = adopted_pair(inputs, table_digest(manifest))
    return {TOKEN_FILES: pairs_digest(pairs)} if pairs else {}


def is_adopted(inputs: Mapping[str, str]) -> bool:
    """Return whether a pair of token files with these recorded inputs was adopted, not encoded from texts."""
    return "bin" in inputs and "idx" in inputs


def pairs_digest(pairs: Mapping[str, Mapping[str, str]]) -> str:
    """Return the digest of adopted pairs. `pairs` maps the name of each pair to its `adopted_pair`."""
    return digest_json(dict(sorted(pairs.items())))


def token_manifest(tokens: Path, name: str) -> Path:
    """Return the manifest of the pair of token files `name` in the folder `tokens`."""
    return tokens / f"{name}.documents.json"


def checkpoint_digest(folder: Path) -> str:
    """Return the SHA-256 of a checkpoint's manifest, which lists the hashes of all its files."""
    return sha256_file(folder / MANIFEST_NAME)


def tokenizer_digest(folder: Path) -> str:
    """Return the digest of tokenizer.json in `folder`."""
    return digest_file(folder / TOKENIZER)


def stage_digest(stage: Section) -> str:
    """Return the digest of a section of the configuration. It equals `section_digest` of the section's file."""
    return digest_json(stage.model_dump(mode="json"))


def export_inputs(stage: Section, paths: RunPaths, checkpoint: Path) -> dict[str, str]:
    """Return the digests of the checkpoint, the tokenizer and the section from which a model is exported."""
    return {
        CHECKPOINT: checkpoint_digest(checkpoint),
        TOKENIZER_INPUT: tokenizer_digest(paths.tokenizer),
        SECTION: stage_digest(stage),
    }

"""Builds the index: document, sample, shuffle and blend arrays, and index.json that names them.

A job of its own before any GPU is allocated. Arrays lie in a folder named by the digest of everything they follow from
(token files, tokenizer, mixture, this stage's settings), so a stale array cannot be mistaken for a fresh one;
index.json is renamed into place last, and only then are the folders of other digests removed.

At 500 M documents and 166.8 M samples: sidecars 40 GB and `.idx` 10 GB are streamed once (minutes, by the disk), arrays
are 10 GB on disk (documents 4, sample starts 2.7, shuffle 1.3, blend 2), made one language at a time in about 4 GB of
memory. bench/index.py: 20 M documents and 10 M samples take 14 s and 0.6 GB, so the largest case is about 6 minutes.
Token files themselves are not read: the digest of each `.bin` was taken when it was written.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bloomery.base.atomic import explained, write_json
from bloomery.base.digest import digest_file, digest_json
from bloomery.base.errors import InputError
from bloomery.base.progress import say, track
from bloomery.config.stages import IndexStage
from bloomery.contracts.index import (
    ArrayEntry,
    DatasetEntry,
    IndexManifest,
    LanguageRead,
    TokenFileEntry,
    open_token_file,
    sidecar_path,
    token_dtype,
)
from bloomery.contracts.mixture import Mixture, read_mixture
from bloomery.contracts.shard import read_manifest
from data_prep.index.arrays import write_array
from data_prep.index.blend import blend
from data_prep.index.mix import datasets_of, language_read, sample_quotas
from data_prep.index.samples import Plan, write_train, write_validation
from data_prep.index.split import Rows, Spill
from data_prep.tokenizer.vocabulary import END_OF_DOCUMENT, load_tokenizer

TOKENS_FOLDER = "tokens"
ARRAYS_FOLDER = "arrays"
MANY_EPOCHS = 4
"""Up to about four epochs, repeated text is worth nearly as much as new text (Muennighoff et al. 2023)."""


def build_index(
    stage: IndexStage, index: Path, parts: list[str], mixture: Path, tokenizer_path: Path, output: Path
) -> IndexManifest:
    """Build the index of `parts` and write `output` (index.json in `index`); returns its content.

    Args:
        stage: sequence length, samples, validation share, seed.
        index: the index folder; token files lie in `index/tokens/<part>.{bin,idx}`.
        parts: parts in order; a token file's number is its part's position.
        mixture: mixture.json.
        tokenizer_path: the tokenizer.json that the parts were encoded with.
        output: `index/index.json`.

    Raises:
        InputError: damaged, missing or foreign token files; nothing to train on; less text than the mixture's cap on
            epochs needs.
    """
    wanted, sources = read_mixture(mixture), [part.split("/")[0] for part in parts]
    tokenizer = load_tokenizer(tokenizer_path)
    tokenizer_digest = digest_file(tokenizer_path)
    vocabulary_size = tokenizer.get_vocab_size()
    arrays = index / ARRAYS_FOLDER
    with ExitStack() as stack:
        stack.enter_context(explained(arrays))
        arrays.mkdir(parents=True, exist_ok=True)
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=arrays, prefix=".spill-"))
        spill = stack.enter_context(closing(Spill(Path(folder))))
        files = []
        for number, part in enumerate(track(parts, "index token files", len(parts), "files")):
            prefix = index / TOKENS_FOLDER / part
            files.append(_add_file(spill, number, index, prefix, stage, tokenizer_digest, vocabulary_size))
        digest = digest_json(
            {
                "stage": stage.model_dump(mode="json"),
                "mixture": asdict(wanted),
                "tokenizer": tokenizer_digest,
                "files": [file.model_dump(mode="json") for file in files],
            }
        )
        plan = Plan(index, f"{ARRAYS_FOLDER}/{digest}", stage.sequence_length, stage.seed)
        counts = sample_quotas(wanted, _trainable(spill, wanted, sources, output), stage)
        train, validation, read = _datasets(plan, spill, wanted, sources, counts, stage)
    blend_dataset, blend_sample = _write_blend(plan, [counts[entry.name] for entry in train], stage.train_samples)
    manifest = IndexManifest(
        digest=digest,
        sequence_length=stage.sequence_length,
        vocabulary_size=vocabulary_size,
        end_of_document=tokenizer.token_to_id(END_OF_DOCUMENT),
        tokenizer_digest=tokenizer_digest,
        token_files=files,
        train=train,
        validation=validation,
        blend_dataset=blend_dataset,
        blend_sample=blend_sample,
        train_samples=stage.train_samples,
        shares={entry.name: counts[entry.name] / stage.train_samples for entry in train},
        languages=read,
    )
    write_json(output, manifest.model_dump(mode="json"))
    _remove_stale(arrays, digest)
    return manifest


def _remove_stale(arrays: Path, digest: str) -> None:
    """Arrays of earlier builds, and what a killed build left."""
    for other in arrays.iterdir():
        if other.name != digest and other.is_dir():
            shutil.rmtree(other)


def _add_file(
    spill: Spill, number: int, index: Path, prefix: Path, stage: IndexStage, tokenizer_digest: str, vocabulary_size: int
) -> TokenFileEntry:
    """Check one token file against its sidecar and this tokenizer, and deal its documents."""
    file = open_token_file(prefix)
    sidecar = read_manifest(sidecar_path(prefix))
    if sidecar["parameters"] != tokenizer_digest:
        raise InputError("encoded with another tokenizer", where=f"{prefix}.idx", expected=f"digest {tokenizer_digest}")
    if file.dtype != token_dtype(vocabulary_size):
        raise InputError(
            f"tokens are {file.dtype}",
            where=f"{prefix}.idx",
            expected=f"{token_dtype(vocabulary_size)} for a vocabulary of {vocabulary_size}",
        )
    if len(file.documents) != len(file.lengths) + 1:
        raise InputError("documents of several sequences", where=f"{prefix}.idx", expected="one sequence a document")
    spill.add(number, prefix, file, stage.validation_share)
    return TokenFileEntry(
        prefix=prefix.relative_to(index).as_posix(),
        documents=len(file.lengths),
        tokens=len(file.tokens),
        bin_digest=sidecar["counts"]["bin_digest"],
        idx_digest=digest_file(prefix.with_name(prefix.name + ".idx")),
    )


def _has_text(rows: Rows) -> bool:
    """Whether any document holds more than its end-of-document token."""
    return bool(len(rows) and rows[:, 2].max() > 1)


def _trainable(spill: Spill, mixture: Mixture, sources: list[str], output: Path) -> dict[str, dict[str, int]]:
    """Tokens per dataset of each language, of those with text to train on and weight. Raises InputError for none."""
    found = {}
    for language, rows, _ in spill.languages():
        datasets = datasets_of(mixture, language, rows, sources)
        tokens = {name: int(own[:, 2].sum(dtype=np.int64)) for name, own in datasets.items() if _has_text(own)}
        if tokens:
            found[language] = tokens
    if not found:
        raise InputError(
            "no document to train on",
            where=str(output),
            expected=f"text in a language of the mixture ({', '.join(mixture.languages) or 'which is empty'})",
        )
    return found


def _datasets(
    plan: Plan, spill: Spill, mixture: Mixture, sources: list[str], counts: dict[str, int], stage: IndexStage
) -> tuple[list[DatasetEntry], list[DatasetEntry], dict[str, LanguageRead]]:
    """Write the arrays of every dataset that gives samples; their languages' validation sets; what is read of each."""
    train, validation, read = [], [], {}
    for language, rows, held_out in track(spill.languages(), "build samples", unit="languages"):
        datasets = datasets_of(mixture, language, rows, sources)
        datasets = {name: own for name, own in datasets.items() if counts.get(name, 0) > 0}
        if not datasets:
            continue
        train += [write_train(plan, name, language, own, counts[name]) for name, own in datasets.items()]
        read[language] = language_read(mixture.languages[language], datasets, sources, counts, stage)
        # A source that is left out of the training is left out of its validation.
        kept = list(datasets_of(mixture, language, held_out, sources).values())
        entry = write_validation(plan, language, np.concatenate(kept), stage.validation_samples) if kept else None
        if entry is not None:
            validation.append(entry)
    most = max(train, key=lambda entry: entry.epochs)
    repeated = sum(entry.epochs > MANY_EPOCHS for entry in train)
    if repeated:
        say(
            f"{repeated} of {len(train)} datasets are read more than {MANY_EPOCHS} times "
            f"(most often: {most.name}, {most.epochs} times); more text or fewer train_samples would avoid it"
        )
    return train, validation, read


def _write_blend(plan: Plan, counts: list[int], samples: int) -> tuple[ArrayEntry, ArrayEntry]:
    """The two blend arrays; the blend is made twice rather than held once."""
    kinds: tuple[tuple[str, str, int], ...] = (("blend_dataset", "<i4", 0), ("blend_sample", "<i8", 1))
    entries: list[Any] = [
        write_array(plan.index, f"{plan.folder}/{name}.npy", dtype, (samples,), (pair[side] for pair in blend(counts)))
        for name, dtype, side in kinds
    ]
    return entries[0], entries[1]

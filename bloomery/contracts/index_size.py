"""Compute the bytes of the token index from an estimate of its text: token files, sidecars, arrays and index.json.

The amount of text is not known before the corpus is clean and encoded. `planned_text` estimates it from the
configuration, and lists its assumptions. All other sizes follow from the formats of the files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product
from string import ascii_lowercase
from typing import TYPE_CHECKING

from bloomery.base.atomic import dump_json
from bloomery.base.json_text import GREATEST
from bloomery.config.sources import UdhrSource
from bloomery.config.tokens import token_bytes
from bloomery.contracts.blend import StageEntry, StageShare
from bloomery.contracts.index_manifest import (
    TOKEN_FILES_FOLDER,
    ArrayEntry,
    DatasetEntry,
    IndexManifest,
    LanguageRead,
    TextRead,
    TokenFileEntry,
)
from bloomery.spec.text_size import bytes_per_token
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

TOKENS_PER_DOCUMENT = 683
"""Assumed mean length of a document, in tokens. BLOOM's corpus ROOTS has 341.6 B tokens in about 500 M documents."""
_UDHR_LANGUAGES = 41
"""Languages of a source `udhr` that does not name its languages."""

_IDX_FILE = 34 + 8
"""Bytes of an .idx without its documents: the header and the last document bound."""
_IDX_DOCUMENT = 4 + 8 + 8
"""Bytes of a document in an .idx: its length, its byte offset and its document bound."""
_SIDECAR_FILE = 2_060
"""Bytes of a sidecar without its rows: Parquet's metadata of eight columns. Measured with one row."""
_SIDECAR_DOCUMENT = 36.5
"""Bytes of a document in a sidecar: 16 of its id and 8 of its split key, which are random numbers, and 10 to 13 of the
other columns, compressed by zstd. Measured with 100 to 300,000 rows."""
_ARRAY_HEADER = 128
"""Bytes of the header of an .npy file."""
_NUMBER = 4
"""Bytes of a number in an array: uint32, which holds every number up to 4.3 billion documents."""
_BLOCK = 1 << 20
"""Samples that are shuffled together (`data_prep.index.order`). A dataset holds whole blocks or whole epochs."""
_VERIFIED = 200
"""Bytes of verified.json without its datasets."""
_VERIFIED_DATASET = 56
"""Bytes of a dataset in verified.json."""
_DIGEST = "0" * 32


@dataclass(frozen=True)
class PlannedText:
    """Estimate of the text in the index."""

    tokens: int
    documents: int
    languages: tuple[str, ...]
    assumed: dict[str, str]
    """Keys that the configuration does not set, each with what the plan assumes instead."""


@dataclass(frozen=True)
class IndexSize:
    """Bytes of the parts of an index."""

    tokens: int
    """Token files (.bin)."""
    documents: int
    """Tables of the documents: .idx files, sidecars and their manifests."""
    arrays: int
    """Arrays of the order in which the training reads documents and samples."""
    manifest: int
    """index.json and verified.json."""

    @property
    def total(self) -> int:
        """Sum of all bytes."""
        return self.tokens + self.documents + self.arrays + self.manifest


def planned_text(config: RunConfig) -> PlannedText:
    """Return the estimate of the text in the index: `plan.corpus_*`, and assumptions for what is not stated."""
    plan, assumed = config.plan, dict[str, str]()
    tokens, documents = plan.corpus_tokens, plan.corpus_documents
    if tokens is None:
        # The index stores samples of full length, even if a curriculum shortens them for training.
        end = trajectory(config.model, config.training).end
        tokens = min(end.consumed_samples * config.model.sequence_length, GREATEST)
        assumed["plan.corpus_tokens"] = "the training reads every token once"
    if documents is None:
        documents = -(-tokens // TOKENS_PER_DOCUMENT)
        assumed["plan.corpus_documents"] = f"a document has {TOKENS_PER_DOCUMENT} tokens"
    stated = {code for source in config.sources for code in _stated_languages(source)}
    stated |= set(config.corpus.mixture.weights)
    count = plan.corpus_languages
    if count is None:
        count = max(1, len(stated))
        if any(isinstance(source, UdhrSource) and source.languages is None for source in config.sources):
            count = max(count, _UDHR_LANGUAGES)
        elif not stated:
            assumed["plan.corpus_languages"] = "the text is in one language"
    # The other codes are invented and have two or three letters. Only their lengths matter, for lines and index.json.
    more = ("".join(letters) for length in (2, 3) for letters in product(ascii_lowercase, repeat=length))
    names = [*sorted(stated), *islice((name for name in more if name not in stated), count)][:count]
    return PlannedText(tokens, documents, tuple(names), assumed)


def _stated_languages(source: object) -> list[str]:
    language, several = getattr(source, "language", None), getattr(source, "languages", None)
    return [*([language] if language else []), *(several or [])]


def planned_validation_sets(config: RunConfig, text: PlannedText) -> tuple[str, ...]:
    """Return the names of the validation sets that the index is expected to have.

    A language has a set if its held-out documents fill one sample. Documents are held out by the hash of their id, so
    the number of languages with a set is the expected value of a binomial distribution.
    """
    documents = text.documents // len(text.languages)
    needed = math.ceil((config.model.sequence_length + 1) / max(1.0, text.tokens / max(1, text.documents)))
    chance = _at_least(needed, documents, config.index.validation_share)
    return text.languages[: round(chance * len(text.languages))]


def _at_least(least: int, tries: int, share: float) -> float:
    """Return the probability of at least `least` successes in `tries` tries, each with the probability `share`."""
    if share <= 0 or tries < least:
        return 0.0
    if share >= 1:
        return 1.0
    fewer = sum(
        math.exp(
            math.lgamma(tries + 1)
            - math.lgamma(count + 1)
            - math.lgamma(tries - count + 1)
            + count * math.log(share)
            + (tries - count) * math.log1p(-share)
        )
        for count in range(least)
    )
    return max(0.0, 1.0 - fewer)


def index_size(config: RunConfig, text: PlannedText, validation_sets: Sequence[str]) -> IndexSize:
    """Return the size of the index of `text`. All datasets are assumed to have the same size."""
    length, languages = config.model.sequence_length, len(text.languages)
    samples = trajectory(config.model, config.training).end.consumed_samples
    item = token_bytes(config.tokenizer.vocabulary_size)
    # Token files that Megatron wrote are used where they are. The index only has their sidecars.
    files = _file_count(config, text)
    written = bool(config.text_sources)
    held_out = config.index.validation_share
    trained = max(1.0, text.tokens * (1 - held_out) / languages)
    read = _samples_in_arrays(samples / languages, trained, length)
    entries = read * length / max(1.0, text.tokens / max(1, text.documents))
    arrays = languages * (3 * _ARRAY_HEADER + _NUMBER * (entries + 2 * (read + 1) + read))
    arrays += 2 * _ARRAY_HEADER + samples * (2 + _NUMBER)
    if validation_sets:
        own_documents, own_tokens = (each * held_out / languages for each in (text.documents, text.tokens))
        kept = max(1.0, own_tokens / length)
        shown = min(kept, config.training.validation.samples)
        numbers = own_documents + 2 * (kept + 1) + shown
        arrays += len(validation_sets) * (3 * _ARRAY_HEADER + _NUMBER * numbers)
    documents = text.documents * (_SIDECAR_DOCUMENT + (_IDX_DOCUMENT if written else 0))
    documents += files * (_SIDECAR_FILE + _sidecar_manifest(text, files) + (_IDX_FILE if written else 0))
    # There may be a million files, so the bytes of one file's entry are multiplied.
    one, two = (
        len(dump_json(_manifest(text, validation_sets, count, samples, length).model_dump(mode="json")))
        for count in (1, 2)
    )
    manifest = one + (files - 1) * (two - one)
    verified = _VERIFIED + _VERIFIED_DATASET * languages
    return IndexSize(
        tokens=text.tokens * item if written else 0,
        documents=round(documents),
        arrays=round(arrays),
        manifest=manifest + verified,
    )


def _sidecar_manifest(text: PlannedText, files: int) -> int:
    """Return the bytes of the manifest of a sidecar (`data_prep.formats.shard`)."""
    each = max(1, text.documents // files)
    languages = text.languages[:each]
    of_language = {
        "bytes": text.tokens // files // len(languages) * 3,
        "documents": each // len(languages),
        "tokens": text.tokens // files // len(languages),
    }
    value = {
        "counts": {
            "bin_digest": _DIGEST,
            "documents": each,
            "idx_digest": _DIGEST,
            "languages": dict.fromkeys(languages, of_language),
            "tokens": text.tokens // files,
        },
        "file": {"bytes": round(each * _SIDECAR_DOCUMENT), "digest": _DIGEST, "name": "00000.documents.parquet"},
        "inputs": {"source/00000": _DIGEST},
        "kind": "token_documents",
        "parameters": _DIGEST,
        "rows": each,
        "version": "0.1.0",
    }
    return len(dump_json(value))


def _file_count(config: RunConfig, text: PlannedText) -> int:
    """Return the number of pairs of token files: one for each `index.shards_per_file` shards of a source."""
    shards = text.tokens * bytes_per_token(config.tokenizer.vocabulary_size) / config.corpus.ingest.shard_bytes
    return max(len(config.sources), math.ceil(shards / config.index.shards_per_file))


def _samples_in_arrays(quota: float, tokens: float, length: int) -> float:
    """Return the samples that the arrays of a dataset hold: `quota`, rounded up to a whole block or a whole epoch."""
    per_epoch = tokens / length
    epochs = math.floor(quota / per_epoch)
    in_last = quota - epochs * per_epoch
    return epochs * per_epoch + min(per_epoch, math.ceil(in_last / _BLOCK) * _BLOCK)


def _manifest(
    text: PlannedText, validation_sets: Sequence[str], files: int, samples: int, length: int
) -> IndexManifest:
    """Return an index.json that is about as long as the real one: it has equal names, and numbers of similar length."""

    def array(path: str, *shape: int) -> ArrayEntry:
        return ArrayEntry(path=f"arrays/{_DIGEST}/{path}.npy", dtype="uint32", shape=list(shape), digest=_DIGEST)

    def dataset(kind: str, name: str, read: int, documents: int) -> DatasetEntry:
        return DatasetEntry(
            name=name,
            language=name,
            unique_documents=documents,
            unique_tokens=text.tokens // languages,
            epochs=1,
            samples=read,
            identity=_DIGEST,
            documents=array(f"{kind}/{name}.documents", documents),
            sample_starts=array(f"{kind}/{name}.sample_starts", read + 1, 2),
            shuffle=array(f"{kind}/{name}.shuffle", read),
        )

    languages = len(text.languages)
    each, documents = samples // languages, text.documents // languages
    share = 1 / 3
    read = TextRead(documents=documents, tokens=text.tokens // languages, share=share, epochs=share)
    return IndexManifest(
        digest=_DIGEST,
        sequence_length=length,
        vocabulary_size=10**5,
        end_of_document=2,
        tokenizer_digest=_DIGEST,
        token_files=[
            TokenFileEntry(
                prefix=f"{TOKEN_FILES_FOLDER}/source/00000",
                documents=text.documents // files,
                tokens=text.tokens // files,
                bin_digest=_DIGEST,
                idx_digest=_DIGEST,
                sidecar_digest=_DIGEST,
            )
        ]
        * files,
        train=[dataset("train", name, each, documents) for name in text.languages],
        validation=[dataset("validation", name, 1, 1) for name in validation_sets],
        blend_dataset=array("blend_dataset", samples),
        blend_sample=array("blend_sample", samples),
        train_samples=samples,
        stages=[
            StageEntry(
                from_sample=0,
                to_sample=samples,
                spread_to=samples,
                datasets=dict.fromkeys(
                    text.languages, StageShare(weight=share, quota=each, first_sample=0, taken=each)
                ),
            )
        ],
        shares=dict.fromkeys(text.languages, share),
        languages={
            name: LanguageRead(**read.model_dump(), weight=share, sources={"source": read}) for name in text.languages
        },
    )

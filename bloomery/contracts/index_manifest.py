"""Define index.json, which lists the token files, the arrays and the datasets of an index, and read it.

This module imports no numpy, so that a plan starts fast. `bloomery.contracts.index` reads the files that index.json
lists.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bloomery.base.atomic import read_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values
from bloomery.config.section import Count, NotBool, Positive, Share
from bloomery.contracts.blend import Samples, StageEntry
from bloomery.contracts.safe_path import ReadPath, SafePath

TOKEN_FILES_FOLDER = "token_files"
"""Name of the folder with the links to the token files, in an index that the workflow built."""
BUILD_AGAIN = "delete index.json and build the index again (start the workflow, or run `bloomery index build`)"


class ArrayEntry(BaseModel):
    """One `.npy` array of the index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: SafePath
    """Path relative to the index folder."""
    dtype: str
    shape: list[Count]
    digest: str


class TokenFileEntry(BaseModel):
    """One `.bin/.idx` pair of the index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: ReadPath
    """Path relative to the index folder, without suffix: `token_files/<source>/<part>` in an index of the workflow. The
    token files of an index that was built by hand can be in any folder."""
    documents: Count
    tokens: Count
    bin_digest: str
    idx_digest: str
    sidecar_digest: str
    ends_with_end_of_document: bool = True
    """Whether every document ends with the index's end-of-document token."""

    @property
    def name(self) -> str:
        """Name of the pair in a run: `<source>/<part>`."""
        return self.prefix.partition("/")[2]


class DatasetEntry(BaseModel):
    """One named set of samples, such as a language of the training or validation part.

    Each array has the smaller of its two types if that type can hold all its numbers, else the larger one:

    - `documents`, uint32 or int64 [entries]: document numbers in reading order. The numbers of the documents are
      consecutive over all token files, in the order of the files.
    - `sample_starts`, uint32 or int64 [n + 1, 2] with n >= samples: position in `documents` and token offset in that
      document.
    - `shuffle`, uint32 or int64 [samples]: numbers of samples, each below n.

    Sample i consists of the sequence_length + 1 tokens that begin at sample_starts[shuffle[i]].

    `documents` holds each unique document once for each epoch. With `index.order: epochs` it ends with the document in
    which the last sample ends.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    language: str
    unique_documents: Count
    unique_tokens: Count
    epochs: Count
    samples: Samples
    """Number of samples that can be read."""
    identity: str
    """Digest of everything that determines the sequence of samples, such as text, order, seed and sequence length.

    Unless `index.order` is `megatron`, the digest does not depend on the number of samples that are read.
    """
    documents: ArrayEntry
    sample_starts: ArrayEntry
    shuffle: ArrayEntry


class TextRead(BaseModel):
    """Training text of a language, or of one source in a language, and how much of it the training reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: Count
    tokens: Count
    """Number of unique tokens, including end-of-document tokens and excluding text held out for validation."""
    share: Share
    """Share of this text in all tokens that the training reads."""
    epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Number of times that the training reads these tokens."""


class LanguageRead(TextRead):
    """Training text of one language: how much of it the training reads, its weight, and the same figures for each
    source."""

    weight: Share
    """Weight in mixture.json. `share` differs from this weight because of rounding to whole samples, and more if
    `max_epochs` limits the language."""
    sources: dict[str, TextRead]


class IndexManifest(BaseModel):
    """Content of index.json. The file is written last, and an index without this file counts as missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[2] = 2
    """Version of the format. In version 2 the numbers of the documents are consecutive over all token files, and arrays
    are uint32 if possible."""
    digest: str
    """Digest of everything that the arrays were built from (token files, configuration)."""
    sequence_length: Annotated[int, Field(gt=0, le=2**26), NotBool]
    order: Literal["epochs", "megatron"] = "epochs"
    """Order of the training's documents and samples (`index.order`)."""
    vocabulary_size: Positive
    end_of_document: Count
    tokenizer_digest: str
    token_files: list[TokenFileEntry]
    train: list[DatasetEntry]
    validation: list[DatasetEntry]
    blend_dataset: ArrayEntry
    """Index in `train` of each training sample's dataset: int16 [train_samples], or int32 for more than 32,768
    datasets."""
    blend_sample: ArrayEntry
    """Number of each training sample within its dataset: uint32 [train_samples], or int64 if uint32 is too small."""
    train_samples: Samples
    stages: list[StageEntry]
    """Stages of the blend, in order. Together they contain every training sample once."""
    shares: dict[str, Share]
    """Share of the training samples, by dataset."""
    languages: dict[str, LanguageRead] = {}
    """How much text of each language the training reads, by language code."""

    @property
    def validation_sets(self) -> list[str]:
        """Names of the validation sets that have samples."""
        return [entry.name for entry in self.validation if entry.samples]


def resolve_index(folder: Path) -> Path:
    """Return the folder to which the links in the documented index folder lead at this moment.

    A caller must open all files of the index below the returned folder. The links may lead to a new index a moment
    later, and files that are opened through the links could then belong to different indexes. For an index without
    links, or of an earlier version, return `folder` itself.
    """
    found = (folder / "index.json").resolve().parent
    return found if (found / TOKEN_FILES_FOLDER).is_dir() else folder


def read_index_manifest(path: Path) -> IndexManifest:
    """Read index.json.

    Raises:
        InputError: the file is damaged or of another format version.
    """
    value = read_json(path)
    found = value.get("format") if isinstance(value, dict) else None
    if found != 2:
        raise InputError(
            "the file does not state its format" if found is None else f"the index has format {found}",
            where=str(path),
            expected=f"format 2; {BUILD_AGAIN}",
        )
    try:
        return IndexManifest.model_validate(value)
    except ValidationError as error:
        raise InputError(
            f"not an index manifest: {wrong_values(error, IndexManifest)}",
            where=str(path),
            expected=f"a file that this version of Bloomery wrote; {BUILD_AGAIN}",
        ) from error

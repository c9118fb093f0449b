"""Build the index: the document, sample, shuffle and blend arrays, and index.json, which names them.

This stage is a separate job that runs before any GPU is allocated. The arrays' folder is named after the digest of
everything that the arrays depend on: token files, tokenizer, mixture and this stage's settings. A stale array can
therefore not be mistaken for a new one. index.json is renamed into place last. Only then are the folders with other
digests removed.

For each pair of token files (`.bin`, `.idx`), the build reads only the document lengths and three columns of the
sidecar. It takes the digests of `.bin`, `.idx` and sidecar from the sidecar's manifest; `bloomery index verify`
recomputes them from the files before a training. 500 M documents and 166.8 M samples need 6 GB of reads, 5 GB of arrays
and 7 GB of memory (measured by bench/index.py).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from bloomery.base.atomic import explained, write_json
from bloomery.base.digest import digest_file, digest_json
from bloomery.base.errors import ConfigError, InputError, ResourceError
from bloomery.base.progress import say, track
from bloomery.base.units import format_bytes
from bloomery.config.stages import IndexStage
from bloomery.contracts.index import TokenFile, open_token_file
from bloomery.contracts.index_manifest import DatasetEntry, IndexManifest, LanguageRead, TokenFileEntry
from bloomery.contracts.tokenizer import end_of_document, load_tokenizer, vocabulary_size
from bloomery.spec.batch import global_batch_size, samples_to_read
from bloomery.spec.epochs import samples_of_epochs
from data_prep.formats.mixture import Mixture, read_mixture
from data_prep.formats.shard import manifest_path, read_manifest
from data_prep.formats.sidecar import sidecar_path
from data_prep.index.dataset_identity import dataset_identity
from data_prep.index.mixture_use import datasets_of, language_read
from data_prep.index.plan_blend_stages import Tokens, plan_stages, totals, weighted_tokens
from data_prep.index.sample_arrays import Plan, write_train, write_validation
from data_prep.index.split import TextSize, TrainValidationSplit
from data_prep.index.write_blend import write_blend

TOKENS_FOLDER = "tokens"
ARRAYS_FOLDER = "arrays"
MANY_EPOCHS = 4
"""Up to about four epochs, repeated text is worth nearly as much as new text (Muennighoff et al. 2023)."""
MEGATRON_SEEDS = 1 << 32

Datasets = Mapping[str, Mapping[str, Mapping[str, TextSize]]]
"""Text sizes, keyed by language, dataset and source."""


def build_index(
    stage: IndexStage,
    index: Path,
    parts: Sequence[str],
    mixture: Path | None,
    tokenizer_path: Path,
    output: Path,
    *,
    token_files: str | None = None,
) -> IndexManifest:
    """Build the index of `parts`, write its index.json to `output`, and return the content of index.json.

    Args:
        stage: sequence length, samples, validation share, seed, order and stages of the blend.
        index: the index folder, which holds the token files `tokens/<part>.{bin,idx}`.
        parts: names of the parts in order, or absolute prefixes of pairs in other folders. A token file's number is
            the position of its part in this list.
        mixture: mixture.json, or None to weigh each language by its number of tokens.
        tokenizer_path: the tokenizer.json that the parts were encoded with.
        output: path of index.json. The arrays are written to the folder of this file. The caller must make both
            available in `index`.
        token_files: folder in the complete index that will have links to the token files. index.json names the files by
            these links. If `token_files` is None, index.json names the files themselves, relative to `index`.

    Raises:
        ConfigError: the order is `megatron` and the seed is 2^32 or more.
        InputError: a token file is damaged, missing or from another tokenizer; there is no text to train on; or the
            mixture's cap on epochs leaves too few samples.
        ResourceError: the disk cannot hold the arrays.
    """
    if stage.order == "megatron" and stage.seed >= MEGATRON_SEEDS:
        raise ConfigError(
            f"the seed {stage.seed} is too large for index.order `megatron`",
            where="seed",
            expected=f"a seed less than {MEGATRON_SEEDS}, or index.order `epochs` (--order epochs)",
        )
    tokenizer, tokenizer_digest = load_tokenizer(tokenizer_path), digest_file(tokenizer_path)
    end = end_of_document(tokenizer_path, tokenizer)
    split, files, first = TrainValidationSplit(stage.validation_share), [], 0
    for number, part in enumerate(track(parts, "split documents", len(parts), "files")):
        prefix = index / TOKENS_FOLDER / part
        named = Path(os.path.relpath(prefix, index)) if token_files is None else Path(token_files, part)
        file, entry = _open(prefix, named.as_posix(), tokenizer_digest)
        split.add(number, first, prefix, file)
        files.append(entry)
        first += entry.documents
    wanted = read_mixture(mixture) if mixture is not None else _as_it_is(split)
    digest = digest_json(
        {
            "stage": stage.model_dump(mode="json"),
            "mixture": asdict(wanted),
            "tokenizer": tokenizer_digest,
            "files": [file.model_dump(mode="json") for file in files],
        }
    )
    written = output.parent
    plan = Plan(written, f"{ARRAYS_FOLDER}/{digest}", stage.sequence_length, stage.seed, stage.order, first)
    datasets = {language: datasets_of(wanted, language, texts) for language, texts in split.texts().items()}
    trainable = _trainable(datasets, wanted, output)
    stage = _with_length(stage, wanted, trainable)
    stages = plan_stages(wanted, trainable, stage)
    counts = totals(stages)
    with explained(written / ARRAYS_FOLDER):
        _refuse_too_large(written / ARRAYS_FOLDER, datasets, counts, stage)
        train = _train(plan, split, datasets, counts, stage, files)
        validation = _validation(plan, split, wanted, stage, files)
        blend_dataset, blend_sample = write_blend(written, plan.folder, stages, [entry.name for entry in train])
    _tell_repetition(train)
    manifest = IndexManifest(
        digest=digest,
        sequence_length=stage.sequence_length,
        order=stage.order,
        vocabulary_size=vocabulary_size(tokenizer),
        end_of_document=end,
        tokenizer_digest=tokenizer_digest,
        token_files=files,
        train=train,
        validation=validation,
        blend_dataset=blend_dataset,
        blend_sample=blend_sample,
        train_samples=stage.train_samples,
        stages=stages,
        shares={entry.name: counts[entry.name] / stage.train_samples for entry in train},
        languages=_read(datasets, wanted, counts, stage),
    )
    write_json(output, manifest.model_dump(mode="json"))
    _remove_stale(written / ARRAYS_FOLDER, digest)
    return manifest


def _with_length(stage: IndexStage, mixture: Mixture, tokens: Tokens) -> IndexStage:
    """Return the stage with the exact number of samples, if its length is stated in epochs.

    Raises:
        InputError: the epochs have too few tokens for one batch.
    """
    if stage.epochs is None:
        return stage
    batch, epochs = stage.epochs.batch, stage.epochs.train_epochs
    count = weighted_tokens(mixture, tokens, stage)
    samples = samples_to_read(batch, samples_of_epochs(epochs, count, stage.sequence_length))
    if not samples:
        raise InputError(
            f"{epochs:g} epochs of {count} training tokens do not fill the first batch of "
            f"{global_batch_size(batch, 0)} samples of {stage.sequence_length} tokens",
            where="training.train_epochs",
            expected="more epochs, more text, a smaller training.batch, or a smaller model.sequence_length",
        )
    say(f"{epochs:g} epochs of {count:,} training tokens are {samples:,} samples")
    return stage.model_copy(update={"train_samples": samples})


def _refuse_too_large(arrays: Path, datasets: Datasets, counts: Mapping[str, int], stage: IndexStage) -> None:
    """Raise ResourceError if the disk cannot hold the arrays.

    The arrays take 4 bytes per document read, 12 bytes per sample, and 6 bytes per sample of the blend.
    """
    needed = 18 * stage.train_samples
    for of_language in datasets.values():
        for name, texts in of_language.items():
            documents, tokens = (sum(text[field] for text in texts.values()) for field in (0, 1))
            needed += 4 * counts.get(name, 0) * stage.sequence_length * documents // max(tokens, 1)
    arrays.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(arrays).free
    if needed > free:
        raise ResourceError(
            f"the arrays of {stage.train_samples} samples take {format_bytes(needed)}, but only {format_bytes(free)} "
            "are free",
            where=str(arrays),
            expected="fewer samples (training.train_samples or --samples), or more free space on this disk",
        )


def _remove_stale(arrays: Path, digest: str) -> None:
    """Remove the arrays of earlier and killed builds. Only folders that are named after a digest are removed."""
    for other in arrays.iterdir():
        if other.name != digest and re.fullmatch("[0-9a-f]{32}", other.name) and other.is_dir():
            shutil.rmtree(other)


def _open(prefix: Path, named: str, tokenizer_digest: str) -> tuple[TokenFile, TokenFileEntry]:
    """Open a pair of token files and return it with its entry for index.json. The entry names the pair `named`.

    Raises InputError if the sidecar's manifest states other sizes or another tokenizer.
    """
    file = open_token_file(prefix, check=False)
    sidecar = read_manifest(sidecar_path(prefix))
    counts = sidecar["counts"]
    if not {"bin_digest", "idx_digest", "tokens"} <= counts.keys():
        raise InputError(
            "the manifest of the sidecar (the table of the documents) states no digests of .bin and .idx",
            where=str(manifest_path(sidecar_path(prefix))),
            expected="a sidecar that `bloomery encode` or `bloomery index adopt` wrote. Run that command again",
        )
    if sidecar.get("parameters") != tokenizer_digest:
        raise InputError(
            f"the token file was encoded with another tokenizer, with digest {sidecar['parameters']}",
            where=f"{prefix}.idx",
            expected=f"the tokenizer of the index, with digest {tokenizer_digest}. Use the tokenizer that encoded the "
            "file, or encode the text again",
        )
    if len(file.documents) <= len(file.lengths):
        raise InputError(
            "a document has several sequences",
            where=f"{prefix}.idx",
            expected="one sequence per document. Run Megatron's preprocess_data.py again, without --split-sentences",
        )
    if (len(file.lengths), len(file.tokens)) != (sidecar["rows"], counts["tokens"]):
        raise InputError(
            f"the file has {len(file.lengths)} documents and {len(file.tokens)} tokens",
            where=f"{prefix}.idx",
            expected=f"{sidecar['rows']} documents and {counts['tokens']} tokens, as the sidecar (the table of the "
            "documents) states. Run `bloomery encode` or `bloomery index adopt` again, which write the file and its "
            "sidecar",
        )
    return file, TokenFileEntry(
        prefix=named,
        documents=len(file.lengths),
        tokens=len(file.tokens),
        bin_digest=counts["bin_digest"],
        idx_digest=counts["idx_digest"],
        sidecar_digest=sidecar["file"]["digest"],
        ends_with_end_of_document=counts.get("ends_with_end_of_document", True),
    )


def _as_it_is(split: TrainValidationSplit) -> Mixture:
    """Return a mixture that weighs each language by its number of tokens."""
    weights = {code: float(sum(text.tokens for text in texts.values())) for code, texts in split.texts().items()}
    whole = sum(weights.values()) or 1.0
    return Mixture({code: weight / whole for code, weight in weights.items()}, {}, None)


def _trainable(datasets: Datasets, mixture: Mixture, output: Path) -> dict[str, dict[str, int]]:
    """Return {language: {dataset: number of tokens}} for the datasets that have text to train on.

    Raises:
        InputError: no dataset has text to train on.
    """
    found: dict[str, dict[str, int]] = {}
    for language, own in datasets.items():
        for name, texts in own.items():
            # A document of one token holds only its end-of-document token.
            if max(text.longest for text in texts.values()) > 1:
                found.setdefault(language, {})[name] = sum(text.tokens for text in texts.values())
    if not found:
        raise InputError(
            "there is no document to train on",
            where=str(output),
            expected="token files with at least one document that has text, in a language of the mixture "
            f"({', '.join(mixture.languages) or 'the mixture has no language'})",
        )
    return found


def _identity(name: str, stage: IndexStage, files: list[TokenFileEntry], numbers: Sequence[int], samples: int) -> str:
    own = [files[number] for number in numbers]
    digests = [(file.bin_digest, file.idx_digest, file.sidecar_digest) for file in own]
    return dataset_identity(name, stage, digests, samples)


def _train(
    plan: Plan,
    split: TrainValidationSplit,
    datasets: Datasets,
    counts: Mapping[str, int],
    stage: IndexStage,
    files: list[TokenFileEntry],
) -> list[DatasetEntry]:
    """Write the arrays of every dataset from which the training reads samples."""
    wanted = [(language, name) for language, own in datasets.items() for name in own if counts.get(name, 0) > 0]

    def write(language: str, name: str) -> DatasetEntry:
        sources = list(datasets[language][name])
        identity = _identity(name, stage, files, split.files(language, sources), counts[name])
        return write_train(plan, name, language, split.take(language, sources), counts[name], identity)

    # Two datasets are written at a time, so that one is shuffled while the other waits for the disk.
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [pool.submit(write, language, name) for language, name in wanted]
        try:
            return [job.result() for job in track(jobs, "build samples", len(jobs), "datasets")]
        finally:
            pool.shutdown(cancel_futures=True)


def _validation(
    plan: Plan, split: TrainValidationSplit, mixture: Mixture, stage: IndexStage, files: list[TokenFileEntry]
) -> list[DatasetEntry]:
    """Write a validation set for every language with weight in the mixture, even if the training reads none of it."""
    entries = []
    for language, texts in split.texts(held_out=True).items():
        if mixture.languages.get(language, 0.0) == 0:
            continue
        # Sources without weight in the mixture are left out of the validation set.
        weights = mixture.datasets
        sources = [source for source in texts if weights.get(mixture.dataset(language, source), 0.0) > 0]
        identity = _identity(language, stage, files, split.files(language, sources, held_out=True), 0)
        rows = split.take(language, sources, held_out=True)
        entry = write_validation(plan, language, rows, stage.validation_samples, identity)
        if entry is not None:
            entries.append(entry)
    return entries


def _read(
    datasets: Datasets, mixture: Mixture, counts: Mapping[str, int], stage: IndexStage
) -> dict[str, LanguageRead]:
    found = {}
    for language, own in datasets.items():
        given = {name: texts for name, texts in own.items() if counts.get(name, 0) > 0}
        if given:
            found[language] = language_read(mixture.languages.get(language, 0.0), given, counts, stage)
    return found


def _tell_repetition(train: list[DatasetEntry]) -> None:
    repeated = [entry for entry in train if entry.epochs > MANY_EPOCHS]
    if repeated:
        most = max(repeated, key=lambda entry: entry.epochs)
        say(
            f"the training reads {len(repeated)} of {len(train)} datasets more than {MANY_EPOCHS} times (most often "
            f"{most.name}, {most.epochs} times). To repeat less text, add text or reduce "
            "training.train_samples (--samples)"
        )

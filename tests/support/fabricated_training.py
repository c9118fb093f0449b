"""Make a small real index and a stage configuration for tests of training, using only code of bloomery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bloomery.base.atomic import write_json
from bloomery.base.digest import digest_file
from bloomery.config.stages import TrainStage, write_stage
from bloomery.contracts.blend import StageEntry, StageShare
from bloomery.contracts.index import write_idx
from bloomery.contracts.index_manifest import (
    ArrayEntry,
    DatasetEntry,
    IndexManifest,
    TokenFileEntry,
    read_index_manifest,
)

SEQUENCE, VOCABULARY = 32, 500


def _array(folder: Path, name: str, array: np.ndarray) -> ArrayEntry:
    path = folder / "arrays" / f"{name}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)
    return ArrayEntry(
        path=f"arrays/{name}.npy", dtype=str(array.dtype), shape=list(array.shape), digest=digest_file(path)
    )


def _dataset(folder: Path, name: str, first: int, documents: int, length: int, wanted: int | None) -> DatasetEntry:
    epochs = 1
    while wanted is not None and (epochs * documents * length - 1) // SEQUENCE < wanted:
        epochs += 1
    order = np.array([first + d for _ in range(epochs) for d in range(documents)], dtype=np.uint32)
    samples = (epochs * documents * length - 1) // SEQUENCE
    starts = np.arange(samples + 1, dtype=np.int64) * SEQUENCE
    return DatasetEntry(
        name=name,
        language=name.split("/")[-1],
        unique_documents=documents,
        unique_tokens=documents * length,
        epochs=epochs,
        samples=samples,
        identity=f"{name} of test",
        documents=_array(folder, f"{name.replace('/', '-')}-documents", order),
        sample_starts=_array(
            folder,
            f"{name.replace('/', '-')}-starts",
            np.stack([starts // length, starts % length], axis=1).astype(np.uint32),
        ),
        shuffle=_array(folder, f"{name.replace('/', '-')}-shuffle", np.arange(samples, dtype=np.uint32)),
    )


def make_index(
    run: Path, train_samples: int, seed: int = 1, vocabulary: int = VOCABULARY, tokenizer_digest: str = "none"
) -> None:
    """Write an index of two languages: 60 documents of 50 tokens, with repeating patterns that a model can learn."""
    folder = run / "index"
    tokens_folder = folder / "tokens"
    tokens_folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    length, documents = 50, 60
    patterns = random.integers(0, vocabulary, size=(6, 5))
    tokens = np.stack([np.resize(patterns[d % 6], length) for d in range(documents)]).astype("<u2")
    (tokens_folder / "a.bin").write_bytes(tokens.tobytes())
    write_idx(tokens_folder / "a.idx", np.full(documents, length, dtype=np.int32), np.dtype("<u2"))
    train = [
        _dataset(folder, "train/xx", 0, 26, length, train_samples),
        _dataset(folder, "train/yy", 26, 26, length, train_samples),
    ]
    half = StageShare(weight=0.5, quota=train_samples // 2, first_sample=0, taken=train_samples // 2)
    manifest = IndexManifest(
        digest=f"test-{seed}",
        sequence_length=SEQUENCE,
        vocabulary_size=vocabulary,
        end_of_document=2,
        tokenizer_digest=tokenizer_digest,
        token_files=[
            TokenFileEntry(
                prefix="tokens/a",
                documents=documents,
                tokens=int(tokens.size),
                bin_digest=digest_file(tokens_folder / "a.bin"),
                idx_digest=digest_file(tokens_folder / "a.idx"),
                sidecar_digest="",
            )
        ],
        train=train,
        validation=[
            _dataset(folder, "validation/xx", 52, 5, length, None),
            _dataset(folder, "validation/yy", 57, 3, length, None),
        ],
        blend_dataset=_array(folder, "blend-dataset", (np.arange(train_samples) % 2).astype(np.int32)),
        blend_sample=_array(folder, "blend-sample", np.arange(train_samples, dtype=np.int64) // 2),
        train_samples=train_samples,
        stages=[
            StageEntry(
                from_sample=0,
                to_sample=train_samples,
                spread_to=train_samples,
                datasets={entry.name: half for entry in train},
            )
        ],
        shares={"train/xx": 0.5, "train/yy": 0.5},
    )
    write_json(folder / "index.json", manifest.model_dump(mode="json"))


def change_blend(run: Path, at: int) -> None:
    """Change the blend so that training reads only the second language from sample `at` on, which must be even."""
    folder = run / "index"
    index = read_index_manifest(folder / "index.json")
    samples, half = (
        index.train_samples,
        StageShare(weight=0.5, quota=index.train_samples // 2, first_sample=0, taken=at // 2),
    )
    rest = StageShare(weight=1.0, quota=samples - at, first_sample=at // 2, taken=samples - at)
    names = [entry.name for entry in index.train]
    numbers, within = np.ones(samples, dtype=np.int16), np.arange(samples, dtype=np.uint32) - at // 2
    numbers[:at], within[:at] = np.arange(at) % 2, np.arange(at) // 2
    changed = {
        "digest": f"{index.digest}-changed",
        "blend_dataset": _array(folder, "blend-dataset", numbers),
        "blend_sample": _array(folder, "blend-sample", within),
        "stages": [
            StageEntry(from_sample=0, to_sample=at, spread_to=samples, datasets=dict.fromkeys(names, half)),
            StageEntry(from_sample=at, to_sample=samples, spread_to=samples, datasets={names[1]: rest}),
        ],
    }
    write_json(folder / "index.json", index.model_copy(update=changed).model_dump(mode="json"))


def stage(
    *, tensor: int = 1, pipeline: int = 1, data: int = 1, precision: str = "bf16", samples: int = 64, **training: Any
) -> TrainStage:
    """Return a tiny stage: 2 layers, width 32, and a batch ramp-up from 8 to 16."""
    values: dict[str, Any] = {
        "train_samples": samples,
        "parallel": {"tensor": tensor, "pipeline": pipeline, "data": data},
        "batch": {
            "micro_batch_size": 2,
            "global_batch_size": 16,
            "rampup": {"start": 8, "increment": 8, "samples": 24},
        },
        "optimizer": {"learning_rate": 0.01, "warmup_samples": 16},
        "precision": precision,
        "checkpoint": {"every_iterations": 2},
        "validation": {"every_iterations": 3, "samples": 4},
    }
    return TrainStage.model_validate(
        {
            "name": "test",
            "seed": 7,
            "model": {"layers": 2, "hidden_size": 32, "heads": 4, "sequence_length": SEQUENCE},
            "training": values | training,
        }
    )


def make_run(run: Path, configuration: TrainStage, seed: int = 1) -> Path:
    """Write the configuration of a run, and its index if missing. Return the path of train.json."""
    if not (run / "index").exists():
        make_index(run, configuration.training.train_samples + 64, seed)
    path = run / "config" / "train.json"
    write_stage(path, configuration)
    return path

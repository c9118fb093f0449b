"""Record the whole workflow on the embedded sample: losses, and digests of all files that must not change."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import adapter
import numpy as np
import pyarrow.parquet
from folders import empty_folder
from training_runs import metrics, snakemake


def record(folder: Path) -> dict[str, Any]:
    """Run `snakemake all` as `make run` does, and describe the files that it made. `folder` must be empty."""
    work = empty_folder(folder / "sample")
    shutil.copy(adapter.ROOT / adapter.SAMPLE, work / "run.yaml")
    snakemake(work, "all")
    (run,) = (work / "runs").iterdir()
    arrays = [_array(path) for path in run.glob("index/**/*.npy")]
    return {
        "metrics": metrics(run),
        "tables": _each(run, "corpus/**/*.parquet", _table) | _each(run, "tokenizer/**/*.parquet", _table),
        "tokenizer": _each(run, "tokenizer/*.json", _bytes),
        "tokens": _each(run, "**/*.bin", _bytes) | _each(run, "**/*.idx", _bytes),
        # Names of arrays are digests of their inputs, so only the contents are compared.
        "arrays": sorted(arrays, key=json.dumps),
        "weights": _each(run, "export/**/*.safetensors", _weights),
        "checkpoints": _each(run, "train/checkpoints/*/*.safetensors", _weights),
        "model_config": _each(run, "export/**/config.json", lambda path: json.loads(path.read_text())),
        "parts": _each(run, "config/**/*.json", lambda path: json.loads(path.read_text(encoding="utf-8"))),
        "reports": _each(run, "report/*.json", lambda path: json.loads(path.read_text(encoding="utf-8"))),
        "manifests": _each(run, "corpus/**/*.json", _bytes),
        "files": sorted(_plain_name(path, run) for path in run.rglob("*") if path.is_file()),
    }


def _each(run: Path, pattern: str, describe: Any) -> dict[str, Any]:
    return {path.relative_to(run).as_posix(): describe(path) for path in sorted(run.glob(pattern))}


def _plain_name(path: Path, run: Path) -> str:
    """Return a file's path without digests, and without the time and process number in names of TensorBoard files."""
    name = re.sub(r"[0-9a-f]{32,}", "<digest>", path.relative_to(run).as_posix())
    return re.sub(r"tfevents\..*\.", "tfevents.<process>.", name)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _bytes(path: Path) -> str:
    return _sha256(path.read_bytes())


def _table(path: Path) -> dict[str, Any]:
    """Return digests of a Parquet file's bytes and of its rows."""
    table = pyarrow.parquet.read_table(path)
    rows = json.dumps(table.to_pylist(), ensure_ascii=False, default=repr)
    return {
        "rows": table.num_rows,
        "schema": table.schema.to_string(),
        "contents": _sha256(rows.encode()),
        "bytes": _bytes(path),
    }


def _array(path: Path) -> list[Any]:
    """Return the type, shape and digest of an array."""
    array = np.load(path)
    return [str(array.dtype), list(array.shape), _sha256(array.tobytes())]


def _weights(path: Path) -> dict[str, Any]:
    """Return digests of a safetensors file's bytes and of each tensor."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = [entry["dtype"], entry["shape"], _sha256(data[first:last])]
    return {"bytes": _sha256(data), "tensors": tensors, "metadata": header.get("__metadata__")}

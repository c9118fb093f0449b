"""Estimate how much text a source has, from the beginning of its files and from the rows that were read."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

from data_prep.corpus.inspect_sources import SourceSample

_HEAD_BYTES = 4 << 20
"""Number of compressed bytes at the beginning of a file from which its compression ratio is estimated."""
_MOST_FILES = 100


def estimate_text_bytes(sample: SourceSample) -> int:
    """Return the estimated bytes of text of a source. If all rows were read, the number is exact.

    The share of text in a row comes from the rows that were read. The number of rows comes from the size of the files.
    """
    if sample.complete or not sample.files:
        return sample.text_bytes
    files = [Path(file) for file in sample.files]
    if sample.kind == "parquet":
        return _parquet_bytes(files, sample)
    heads = files[:: max(1, len(files) // _MOST_FILES)][:_MOST_FILES]
    packed = sum(min(_HEAD_BYTES, file.stat().st_size) for file in heads)
    unpacked = sum(head_bytes(file) for file in heads)
    whole = sample.file_bytes * (unpacked / packed if packed else 1.0)
    return round(whole * _text_share(sample))


def estimate_documents(sample: SourceSample) -> int:
    """Return the estimated number of documents of a source. If all rows were read, the number is exact.

    The mean length of a document comes from the rows that were read.
    """
    if sample.complete or not sample.text_bytes:
        return sample.rows
    return round(estimate_text_bytes(sample) * sample.rows / sample.text_bytes)


def _text_share(sample: SourceSample) -> float:
    """Return the share of text in the bytes of the rows that were read."""
    if sample.kind == "text" or not sample.values:
        return 1.0
    # A row in JSON has keys, values, and about six bytes of quotes, colons and commas for each key.
    other = sum(
        len(str(value).encode("utf-8", "replace")) + len(name) + 6
        for name, values in sample.values.items()
        for value in values
    )
    return min(1.0, sample.text_bytes / max(1, other))


def head_bytes(file: Path) -> int:
    """Return the size of a file's beginning after decompression. The beginning has at most `_HEAD_BYTES` bytes."""
    with file.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if file.suffix == ".zst":
        import zstandard

        count = 0
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(head), read_across_frames=True)
        try:
            while block := reader.read(1 << 20):
                count += len(block)
        except zstandard.ZstdError:
            return max(count, len(head))
        return count
    if file.suffix == ".gz":
        try:
            return len(zlib.decompressobj(wbits=31).decompress(head))
        except zlib.error:
            return len(head)
    return len(head)


def _parquet_bytes(files: list[Path], sample: SourceSample) -> int:
    """Return the number of rows of all files, times the mean bytes of text in the rows that were read."""
    import pyarrow.parquet as pq

    rows: int = sum(pq.ParquetFile(file).metadata.num_rows for file in files[:_MOST_FILES])
    rows = rows * len(files) // max(1, min(len(files), _MOST_FILES))
    return round(rows * sample.text_bytes / max(1, len(sample.sizes)))

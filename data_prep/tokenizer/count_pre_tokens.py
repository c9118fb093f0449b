"""Count the pre-tokens of shards; tokenizer training needs only these counts and no text.

A cluster can count each shard in its own job, and one job can then train on all counts. Training with another mixture
or vocabulary size does not read the text again. The same texts always give the same output file, byte for byte. The
order of the shards and the distribution of the texts over the shards do not matter.

Time: the kernel reads about 200 MB/s on one core; the whole job reads about 90 MB/s. Memory: a unique piece of a
language takes about 50 bytes, and 16 more bytes while it is written. When the counts exceed `MEMORY_BYTES`, they are
sorted, compressed and spilled to a temporary file. The file has no name, so the operating system removes it even if
the process is killed. All spilled counts are merged at the end. Peak memory is about 1.7 times `MEMORY_BYTES` plus
three times the longest text. A shard of 256 MB has one to ten million unique pieces and needs less than 700 MB.
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from bloomery.base.atomic import explained
from bloomery.base.digest import digest_json
from bloomery.base.errors import InputError
from bloomery.base.progress import Progress, say
from bloomery.base.units import format_bytes
from bloomery.config.stages import CountStage
from data_prep.corpus.columns import text_buffers
from data_prep.formats.documents import open_documents
from data_prep.formats.shard import TableWriter
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.merge_counts import COUNT_SCHEMA, merge_counts

MEMORY_BYTES = 1 << 30
MAX_LANGUAGES = 1 << 16
_DRAINED_ROWS = 1 << 14


def count_shards(
    stage: CountStage, paths: Sequence[Path], output: Path, memory_bytes: int = MEMORY_BYTES
) -> dict[str, Any]:
    """Count the pre-tokens of the shards per language, write the table (`COUNT_SCHEMA`) and return its manifest.

    The manifest's `counts` hold the preset and `split_digits` under `pre_tokenizer`. For each language they hold the
    number of `pre_tokens`, the `bytes` of text, and the number of `long_pieces` if the language has any. A long piece
    exceeds `_bpe.MAX_PIECE_BYTES` and is counted as several pieces of at most that length.

    Raises:
        InputError: if a shard is missing, damaged, of another kind or listed twice, if `output` does not end in
            `.parquet`, or if `output` is one of the shards.
        ResourceError: if the disk is full.
    """
    _check_paths(paths, output)
    shards = [open_documents(path, ("language", "text")) for path in paths]
    with TableWriter.open(output, COUNT_SCHEMA) as writer, _PreTokens(stage, output, memory_bytes) as counts:
        with Progress("count pre-tokens", sum(shard.rows for shard in shards)) as bar:
            for shard in shards:
                for batch in shard.batches():
                    counts.add(batch, shard.path)
                    bar.advance(batch.num_rows)
        digests = sorted(shard.digest() for shard in shards)
        with Progress("write counts", None, "unique pieces") as bar:
            for table in counts.sorted():
                writer.write(table)
                bar.advance(table.num_rows)
    return writer.manifest(
        kind="pre_token_counts",
        inputs={f"documents.{number}": digest for number, digest in enumerate(digests)},
        parameters=digest_json(stage.model_dump(mode="json")),
        counts={
            "pre_tokenizer": {"preset": stage.pre_tokenizer, "split_digits": stage.split_digits},
            **counts.totals(),
        },
    )


def summary(manifest: Mapping[str, Any], output: Path) -> str:
    """Return a message with the totals of the counts and the command to run next."""
    counts = manifest["counts"]
    long = sum(counts["long_pieces"].values())
    cut = (
        f"; {long} pre-tokens longer than {_bpe.MAX_PIECE_BYTES} bytes were split and counted as several"
        if long
        else ""
    )
    return (
        f"{sum(counts['pre_tokens'].values()):,} pre-tokens, {manifest['rows']:,} unique, in {len(counts['bytes'])} "
        f"languages, {format_bytes(sum(counts['bytes'].values()))} of text{cut}\n"
        f"next: bloomery tokenizer train --counts {shlex.quote(str(output))} --vocab-size 250680 --output DIR"
    )


def _check_paths(paths: Sequence[Path], output: Path) -> None:
    if output.suffix != ".parquet":
        raise InputError(
            "not a valid name for a table of counts", where=str(output), expected="a name that ends in .parquet"
        )
    seen = set()
    for path in paths:
        resolved = path.resolve()
        if resolved == output.resolve():
            raise InputError(
                "--output is one of the shards to be counted", where=str(output), expected="another path for the counts"
            )
        if resolved in seen:
            what = "the shard is listed twice, so its texts would be counted twice"
            raise InputError(what, where=str(path), expected="each shard once")
        seen.add(resolved)


class _PreTokens:
    """Count the pre-tokens of a stream of texts in bounded memory."""

    def __init__(self, stage: CountStage, output: Path, memory_bytes: int) -> None:
        """Spill counts that exceed `memory_bytes` to the folder of `output`."""
        self._counter = _bpe.Counter(stage.pre_tokenizer, stage.split_digits)
        self._output = output
        self._memory_bytes = memory_bytes
        self._numbers: dict[str, int] = {}
        self._files: list[IO[bytes]] = []
        self._open = contextlib.ExitStack()

    def __enter__(self) -> _PreTokens:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, batch: pa.RecordBatch, source: Path) -> None:
        """Count the texts of a batch of `source`."""
        encoded = batch["language"].dictionary_encode()
        codes = encoded.dictionary.to_pylist()
        numbers = np.array([self._numbers.setdefault(code, len(self._numbers)) for code in codes], np.int64)
        if len(self._numbers) > MAX_LANGUAGES:
            what = f"the shards have more than {MAX_LANGUAGES} different values in the column 'language'"
            raise InputError(what, where=str(source), expected="language codes in this column")
        data, offsets = text_buffers(batch["text"])
        self._counter.add(data, offsets, numbers[np.asarray(encoded.indices)])
        if self._counter.memory_bytes > self._memory_bytes:
            self._set_aside()

    def sorted(self) -> Iterator[pa.Table]:
        """Yield all counts, sorted as `COUNT_SCHEMA` requires. Call it once: it empties the counter."""
        if not self._files:
            return (pa.Table.from_batches([batch]) for batch in self._drained())
        return merge_counts([*map(_read_back, self._files), self._drained()])

    def totals(self) -> dict[str, dict[str, int]]:
        """Return the totals of each kind (`pre_tokens`, `bytes`, `long_pieces`) per language code."""
        totals = self._counter.totals().tolist()
        rows = [(code, *totals[number]) for code, number in sorted(self._numbers.items())]
        return {
            "pre_tokens": {code: pieces for code, pieces, _, _ in rows},
            "bytes": {code: size for code, _, size, _ in rows},
            "long_pieces": {code: long for code, _, _, long in rows if long},
        }

    def _drained(self) -> Iterator[pa.RecordBatch]:
        for code, number in sorted(self._numbers.items()):
            while True:
                pieces, offsets, counts = self._counter.drain(number, _DRAINED_ROWS)
                if not len(counts):
                    break
                texts = pa.LargeStringArray.from_buffers(len(counts), pa.py_buffer(offsets), pa.py_buffer(pieces))
                yield pa.record_batch([pa.repeat(code, len(counts)), texts, pa.array(counts)], schema=COUNT_SCHEMA)

    def _set_aside(self) -> None:
        say(f"the counts take {self._counter.memory_bytes >> 20} MiB of memory and are spilled to a temporary file")
        with explained(self._output):
            file = self._open.enter_context(tempfile.TemporaryFile(dir=self._output.parent))  # noqa: SIM115
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with pa.ipc.new_stream(file, COUNT_SCHEMA, options=options) as stream:
                for batch in self._drained():
                    stream.write_batch(batch)
        self._files.append(file)


def _read_back(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    file.seek(0)
    with pa.ipc.open_stream(file) as stream:
        yield from stream

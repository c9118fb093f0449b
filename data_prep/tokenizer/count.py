"""Pre-token counts of shards: all that tokenizer training needs to know of their text.

Counts can be made on a cluster, one job a shard, and trained on centrally; another mixture or vocabulary reads no text
again. Equal texts give equal bytes, however they are distributed over shards and in whatever order these come.

Time: the kernel reads some 200 MB/s on a core, the whole job 90. Memory: a unique piece of a language takes about 50
bytes, and 16 more while it is written; beyond `MEMORY_BYTES` the counts so far are set aside, sorted and compressed, in
a file that has no name (so that nothing is left of it, however this ends), and all are merged at the end. The peak is
about 1.7 times `MEMORY_BYTES`, and three times the longest text. A shard of 256 MB has one to ten million unique
pieces: below 700 MB.
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
from data_prep.tokenizer.sorted_counts import COUNT_SCHEMA, merge_counts

MEMORY_BYTES = 1 << 30
MAX_LANGUAGES = 1 << 16
_DRAINED_ROWS = 1 << 14


def count_shards(
    stage: CountStage, paths: Sequence[Path], output: Path, memory_bytes: int = MEMORY_BYTES
) -> dict[str, Any]:
    """Count the pre-tokens of the shards per language, write them (`COUNT_SCHEMA`) and return the manifest.

    Its counts: `pre_tokenizer` (preset, split_digits), and per language `pre_tokens`, `bytes` of text and, where there
    are any, `long_pieces`: those longer than `_bpe.MAX_PIECE_BYTES`, which were counted in parts of at most that.

    Raises:
        InputError: a shard is missing, damaged, of another kind or given twice, or the output cannot be meant.
        ResourceError: the disk is full.
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
    """What was counted, and the command that comes next."""
    counts = manifest["counts"]
    long = sum(counts["long_pieces"].values())
    cut = f"; {long} longer than {_bpe.MAX_PIECE_BYTES} bytes were counted in parts" if long else ""
    return (
        f"{sum(counts['pre_tokens'].values()):,} pre-tokens, {manifest['rows']:,} unique, in {len(counts['bytes'])} "
        f"languages, {format_bytes(sum(counts['bytes'].values()))} of text{cut}\n"
        f"next: bloomery tokenizer train --counts {shlex.quote(str(output))} --vocab-size 250680 --output DIR"
    )


def _check_paths(paths: Sequence[Path], output: Path) -> None:
    if output.suffix != ".parquet":
        raise InputError("is no name of a table", where=str(output), expected="a name that ends in .parquet")
    seen = set()
    for path in paths:
        resolved = path.resolve()
        if resolved == output.resolve():
            raise InputError("is a shard to be counted", where=str(output), expected="another name for the counts")
        if resolved in seen:
            raise InputError("is given twice: its texts would count twice", where=str(path))
        seen.add(resolved)


class _PreTokens:
    """Counts of a stream of texts in bounded memory."""

    def __init__(self, stage: CountStage, output: Path, memory_bytes: int) -> None:
        """What is set aside lies in the folder of `output`."""
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
            what = f"more than {MAX_LANGUAGES} languages"
            raise InputError(what, where=str(source), expected="codes of languages in the column language")
        data, offsets = text_buffers(batch["text"])
        self._counter.add(data, offsets, numbers[np.asarray(encoded.indices)])
        if self._counter.memory_bytes > self._memory_bytes:
            self._set_aside()

    def sorted(self) -> Iterator[pa.Table]:
        """All counts in their order; afterwards they are gone."""
        if not self._files:
            return (pa.Table.from_batches([batch]) for batch in self._drained())
        return merge_counts([*map(_read_back, self._files), self._drained()])

    def totals(self) -> dict[str, dict[str, int]]:
        """Per language, by name."""
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
        say(f"{self._counter.memory_bytes >> 20} MiB of counts are set aside on the disk")
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

"""Guess a source of the configuration from a path: its kind by the file names, its fields by the first rows."""

from __future__ import annotations

import glob
import re
from collections import Counter
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError
from bloomery.base.unreadable import parquet_cause
from bloomery.checks.load_config import validate_config
from data_prep.corpus.inspect_sources import SourceSample, inspect_source
from data_prep.corpus.rows import language_of_file

KINDS = {"jsonl": "jsonl", "json": "jsonl", "ndjson": "jsonl", "parquet": "parquet", "txt": "text", "text": "text"}
KINDS |= {"warc": "warc", "wet": "warc"}
"""Ending of a file name without `.gz` and `.zst` -> kind of source."""
TEXT_NAMES = ("text", "content", "body", "raw_content", "document", "article")
LANGUAGE_NAMES = ("lang", "language", "lang_code", "language_code", "locale")
ID_NAMES = ("id", "_id", "doc_id", "docid", "document_id", "uuid", "guid", "key", "url")
_COMPRESSED = (".gz", ".zst")


def kind_of(file: str) -> str | None:
    """Return the kind of source that a file belongs to, or None if the ending of the file's name is unknown."""
    name = Path(file).name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return KINDS.get(name.rpartition(".")[2]) if "." in name else None


def patterns_of(path: str) -> list[str]:
    """Return the absolute patterns of the files that a path, pattern or folder names.

    In a folder, all files of the most frequent kind belong to the source, subfolders included.

    Raises:
        InputError: the path names no file of a known kind.
    """
    full = str(Path(path).expanduser().absolute())
    if not Path(full).is_dir():
        if not [file for file in glob.glob(full, recursive=True) if Path(file).is_file()]:  # noqa: PTH207
            raise _no_files(path, "no file matches this path")
        return [full]
    files = [file for file in sorted(Path(full).rglob("*")) if file.is_file() and kind_of(file.name)]
    if not files:
        raise _no_files(path, "the folder has no file of a known kind")
    kind = Counter(kind_of(file.name) for file in files).most_common(1)[0][0]
    own = [file for file in files if kind_of(file.name) == kind]
    folder = glob.escape(full)
    deep = "**/" if any(file.parent != Path(full) for file in own) else ""
    endings = sorted({_ending(file.name) for file in own})
    return [f"{folder}/{deep}*{ending}" for ending in endings]


def _ending(name: str) -> str:
    match = re.search(r"\.[A-Za-z]+(\.gz|\.zst)?$", name)
    return match.group(0) if match else ""


def _no_files(path: str, what: str) -> InputError:
    known = ", ".join(f".{ending}" for ending in KINDS)
    return InputError(
        what,
        where=path,
        expected=f"a file, a pattern in quotes or a folder. File names must end in {known}, or in one of these "
        "followed by .gz or .zst",
    )


def guess_source(path: str, name: str) -> tuple[dict[str, Any], SourceSample]:
    """Return the keys of a source, as in the YAML, and its first rows as these keys read them.

    Raises:
        InputError: the path names no file of a known kind, or the rows have no field with text.
    """
    patterns = patterns_of(path)
    first = next(iter(glob.glob(patterns[0], recursive=True)))  # noqa: PTH207
    kind = kind_of(first)
    if kind is None:
        raise _no_files(path, f"the kind of {first!r} is unknown, because its name has no known ending")
    keys: dict[str, Any] = {"name": name, "kind": kind, "paths": patterns}
    if kind == "parquet":
        # If the text column is missing, no row can be read. So `text_field` first names a column that exists.
        keys["text_field"] = _first_text_column(first)
    sample = read_rows(keys)
    if kind in ("jsonl", "parquet"):
        keys |= guess_fields(sample, path)
        sample = read_rows(keys)
    return keys, sample


def _first_text_column(file: str) -> str:
    """Return the name of the first column of strings of a Parquet file.

    Raises:
        InputError: there is no such column, or the file is not Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"the file cannot be read ({parquet_cause(error)})",
            where=file,
            expected="an undamaged Parquet file",
        ) from error
    for column in schema:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return str(column.name)
    expected = f"a column of strings; the columns are: {', '.join(schema.names)}"
    raise InputError("the rows have no field with text", where=file, expected=expected)


def guess_fields(sample: SourceSample, where: str) -> dict[str, str]:
    """Return `text_field`, `language_field` and `id_field` of rows, as far as the rows have such fields.

    A language field has short strings. An id field has a different string or integer in each row.

    Raises:
        InputError: no field holds text.
    """
    texts = {name: values for name, values in sample.values.items() if all(isinstance(v, str) for v in values)}
    named = [name for name in TEXT_NAMES if name in texts]
    if not texts:
        fields = ", ".join(sample.fields) or "none"
        raise InputError(
            "the rows have no field with text", where=where, expected=f"a field of strings; the fields are: {fields}"
        )
    longest = max(texts, key=lambda name: sum(map(len, texts[name])) / len(texts[name]))
    found = {"text_field": named[0] if named else longest}
    for name in LANGUAGE_NAMES:
        if name in texts and name not in found.values() and all(0 < len(value) <= 32 for value in texts[name]):
            found["language_field"] = name
            break
    for name in ID_NAMES:
        values = sample.values.get(name, [])
        good = all(isinstance(value, str | int) and not isinstance(value, bool) and value != "" for value in values)
        complete = len(values) >= sample.rows and len(set(map(str, values))) == len(values)
        if values and good and complete and name not in found.values():
            found["id_field"] = name
            break
    return found


def states_language(sample: SourceSample) -> bool:
    """Return whether rows or file names state the language of the documents."""
    return sample.bad["no language"] == 0


def named_languages(sample: SourceSample) -> dict[str, list[str]]:
    """Return the files of each language if every file's name begins with a language code, else an empty dictionary."""
    found: dict[str, list[str]] = {}
    for file in sample.files:
        code = language_of_file(file)
        if code is None:
            return {}
        found.setdefault(code, []).append(file.replace("/./", "/"))
    return found


def read_rows(keys: dict[str, Any]) -> SourceSample:
    """Return the first rows of the source with these keys.

    Raises:
        ConfigError: a key is wrong, or a path matches no file.
    """
    # Only `sources` has an effect here. The other keys only make the configuration valid.
    raw = {
        "name": "init",
        "sources": [keys],
        "model": {"layers": 1, "hidden_size": 8, "heads": 1, "sequence_length": 8},
        "training": {
            "train_samples": 1,
            "batch": {"global_batch_size": 1},
            "optimizer": {"learning_rate": 1.0},
        },
    }
    config = validate_config(raw, where="bloomery init")
    return inspect_source(config, config.text_sources[0])

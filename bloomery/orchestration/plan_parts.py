"""How a source is cut into parts: one part is one ingest job and one shard.

The workflow calls this while it builds its graph, so it imports neither pyarrow nor torch.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path

from bloomery.base.errors import ConfigError
from bloomery.config.corpus import DecontaminateConfig, IngestConfig
from bloomery.config.part_input import FilePiece, PartInput
from bloomery.config.sources import AnySource, FileSource, MegatronSource, TextSource


def plan_parts(source: AnySource, ingest: IngestConfig) -> list[PartInput]:
    """What each part of a source reads, in order: as many parts as its bytes over `ingest.shard_bytes`.

    Files are sorted by name and grouped greedily up to that size. A larger file of a kind that can be cut
    (`data_prep.corpus.sources.file_piece`) becomes several parts, each with one piece of it; any other larger file is
    one part. The plan depends on names and sizes only, so a rerun finds the same parts. A source that is read in part
    (`max_documents`) has its first part only. One that is not made of files is one part. Of Megatron's token files each
    pair is a part, its `.idx` before its `.bin`.

    Documents without an id of their own are named by their file, so files of one name in several folders must differ:
    a file below the folder that all of the source's patterns share is listed as `folder/./below/en.jsonl`. What follows
    the dot names the file (`data_prep.corpus.rows.name_of`), wherever the folder is and whichever part reads the file.

    Raises:
        ConfigError: a path or pattern that matches no file, or a file name that is not UTF-8, with its key path.
    """
    if isinstance(source, MegatronSource):
        return _pairs(source)
    if not isinstance(source, FileSource):
        return [PartInput(None)]
    files: set[str] = set()
    for number, pattern in enumerate(source.paths):
        files.update(_matches(pattern, f"sources[{source.name}].paths[{number}]"))
    folder = _common_folder(source.paths)
    parts: list[PartInput] = []
    group: list[str] = []
    group_bytes = 0
    for name in sorted(files):
        size = Path(name).stat().st_size
        if group and group_bytes + size > ingest.shard_bytes:
            parts.append(PartInput(group))
            group, group_bytes = [], 0
        pieces = -(-size // ingest.shard_bytes)
        if pieces > 1 and _can_be_cut(source):
            parts += [PartInput([_below(folder, name)], FilePiece(number=piece, of=pieces)) for piece in range(pieces)]
            continue
        group.append(_below(folder, name))
        group_bytes += size
    if group:
        parts.append(PartInput(group))
    return parts if source.max_documents is None else parts[:1]


def _pairs(source: MegatronSource) -> list[PartInput]:
    """Each `.idx` that the paths match, sorted by name, with its `.bin`."""
    found: set[str] = set()
    for number, pattern in enumerate(source.paths):
        where = f"sources[{source.name}].paths[{number}]"
        found.update(_matches(pattern if pattern.endswith(".idx") else f"{pattern}.idx", where))
    pairs = [[name, f"{name.removesuffix('.idx')}.bin"] for name in sorted(found)]
    for _, tokens in pairs:
        if not Path(tokens).is_file():
            raise ConfigError(
                f"no file {tokens!r}", where=f"sources[{source.name}].paths", expected="one beside its .idx"
            )
    return [PartInput(pair) for pair in pairs]


def _can_be_cut(source: FileSource) -> bool:
    """Whether a piece of a file can be read: not where a document is the file, or what lies between empty lines."""
    return not isinstance(source, TextSource) or source.documents == "line"


def evaluation_files(decontaminate: DecontaminateConfig) -> list[str]:
    """Files of the evaluation texts, sorted; none where the run names none.

    Raises:
        ConfigError: a path or pattern that matches no file, with its key path.
    """
    files: set[str] = set()
    for number, pattern in enumerate(decontaminate.paths):
        files.update(_matches(pattern, f"corpus.decontaminate.paths[{number}]"))
    return sorted(files)


def _common_folder(patterns: list[str]) -> str:
    """The deepest folder that holds every file that the patterns can match; relative when all of them are."""
    folders = []
    for pattern in patterns:
        fixed = Path(pattern).parent
        if not Path(pattern).is_file():
            while glob.has_magic(str(fixed)):
                fixed = fixed.parent
        folders.append(os.path.abspath(fixed))  # noqa: PTH100 (normalised, links kept)
    common = os.path.commonpath(folders)
    # A name that begins with "./" is refused by workflow managers: the working folder itself is named in full.
    relative = os.path.relpath(common)
    return common if relative == "." or any(Path(pattern).is_absolute() for pattern in patterns) else relative


def _below(folder: str, name: str) -> str:
    """`folder/./x/en.jsonl` for a file in a folder below `folder`; other names as they are."""
    inside = os.path.relpath(name, folder)
    return f"{folder.rstrip('/')}/./{inside}" if "/" in inside else name


def _matches(pattern: str, where: str) -> list[str]:
    """Files that a name or pattern matches; a name without wildcards is taken literally first."""
    if Path(pattern).is_dir():
        raise ConfigError(
            f"{pattern!r} is a folder", where=where, expected=f"its files, such as '{pattern.rstrip('/')}/*.jsonl'"
        )
    names = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)  # noqa: PTH207 (keeps "./")
    found = [name for name in names if Path(name).is_file()]
    if not found:
        raise ConfigError(
            f"no file matches {pattern!r}",
            where=where,
            expected=f"a file or pattern, absolute or relative to {Path.cwd()}",
        )
    for name in found:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError as error:
            shown = name.encode("utf-8", "backslashreplace").decode()
            raise ConfigError(f"the file name '{shown}' is not UTF-8", where=where, expected="rename it") from error
    return found

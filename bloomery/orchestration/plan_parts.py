"""Split sources into parts: one part is one ingest job and one shard.

The workflow imports this module while it builds its graph, so the module imports neither pyarrow nor torch.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path

from bloomery.base.errors import ConfigError
from bloomery.config.corpus import DecontaminateConfig, IngestConfig
from bloomery.config.part_input import FilePiece, PartInput
from bloomery.config.sources import AnySource, FileSource, MegatronSource, TextSource
from bloomery.orchestration.input_names import RENAME, replaced_part


def plan_parts(source: AnySource, ingest: IngestConfig) -> list[PartInput]:
    """Return the files, or the piece of a file, that each part of a source reads, in order.

    Files are sorted by name and grouped greedily up to `ingest.shard_bytes`. A larger file becomes several parts, each
    with one piece of the file, if files of its kind can be read in pieces (`data_prep.corpus.sources.file_piece`).
    Otherwise the file is one part. The plan depends only on names and sizes, so a rerun plans the same parts. With
    `max_documents`, only the first part is planned. A source that is not made of files is one part. For Megatron's
    token files, each pair of an `.idx` and a `.bin` file is one part, which lists the `.idx` file first.

    A document without an id is named after its file, so files of the same name in different folders need different
    names. Therefore a file in a subfolder of the source's common folder is listed as `folder/./below/en.jsonl`. The
    path after `/./` names the file (`data_prep.corpus.rows.name_of`), so the name does not depend on where the common
    folder is.

    Raises:
        ConfigError: a path or pattern matches no file, or a file name is not UTF-8 or contains a part that Snakemake
            would replace; the error names the key.
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
    """Return each `.idx` file that the paths match, sorted by name, with its `.bin` file."""
    found: set[str] = set()
    for number, pattern in enumerate(source.paths):
        where = f"sources[{source.name}].paths[{number}]"
        found.update(_matches(pattern if pattern.endswith(".idx") else f"{pattern}.idx", where))
    pairs = [[name, f"{name.removesuffix('.idx')}.bin"] for name in sorted(found)]
    for _, tokens in pairs:
        if not Path(tokens).is_file():
            raise ConfigError(
                f"no file {tokens!r}",
                where=f"sources[{source.name}].paths",
                expected="a .bin file beside each .idx file",
            )
    return [PartInput(pair) for pair in pairs]


def _can_be_cut(source: FileSource) -> bool:
    """Return whether files of the source can be read in pieces.

    They cannot if a document is a whole file or a block between empty lines.
    """
    return not isinstance(source, TextSource) or source.documents == "line"


def evaluation_files(decontaminate: DecontaminateConfig) -> list[str]:
    """Return the files of the evaluation texts, sorted. The list is empty if the run names no evaluation texts.

    Raises:
        ConfigError: a path or pattern matches no file; the error names the key.
    """
    files: set[str] = set()
    for number, pattern in enumerate(decontaminate.paths):
        files.update(_matches(pattern, f"corpus.decontaminate.paths[{number}]"))
    return sorted(files)


def _common_folder(patterns: list[str]) -> str:
    """Return the deepest folder that holds every file that the patterns can match.

    The path is relative if all patterns are relative and the folder is not the working folder.
    """
    folders = []
    for pattern in patterns:
        fixed = Path(pattern).parent
        if not Path(pattern).is_file():
            while glob.has_magic(str(fixed)):
                fixed = fixed.parent
        folders.append(os.path.abspath(fixed))  # noqa: PTH100 (normalises, but does not resolve links)
    common = os.path.commonpath(folders)
    # Snakemake warns about names that begin with "./", so the working folder itself is returned as an absolute path.
    relative = os.path.relpath(common)
    return common if relative == "." or any(Path(pattern).is_absolute() for pattern in patterns) else relative


def _below(folder: str, name: str) -> str:
    """Return `folder/./x/en.jsonl` for a file in a subfolder of `folder`; return any other name unchanged."""
    inside = os.path.relpath(name, folder)
    return f"{folder.rstrip('/')}/./{inside}" if "/" in inside else name


def _matches(pattern: str, where: str) -> list[str]:
    """Return the files that a name or pattern matches. A name of an existing file is never read as a pattern."""
    if Path(pattern).is_dir():
        raise ConfigError(
            f"{pattern!r} is a folder",
            where=where,
            expected=f"a pattern that matches files in the folder, such as '{pattern.rstrip('/')}/*.jsonl'",
        )
    names = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)  # noqa: PTH207 (keeps "./")
    found = [name for name in names if Path(name).is_file()]
    if not found:
        raise ConfigError(
            f"no file matches {pattern!r}",
            where=where,
            expected=f"the path or pattern of existing files, absolute or relative to {Path.cwd()}",
        )
    for name in found:
        if (part := replaced_part(str(Path(name).absolute()))) is not None:
            raise ConfigError(
                f"the name {name!r} contains {part!r}, which Snakemake would replace", where=where, expected=RENAME
            )
        try:
            name.encode("utf-8")
        except UnicodeEncodeError as error:
            shown = name.encode("utf-8", "backslashreplace").decode()
            raise ConfigError(
                f"the file name '{shown}' is not UTF-8", where=where, expected="a file name in UTF-8; rename the file"
            ) from error
    return found

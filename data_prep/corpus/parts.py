"""How a source is cut into parts: one part is one ingest job and one shard.

The workflow calls this while it builds its graph, so it imports neither pyarrow nor torch.
"""

from __future__ import annotations

import glob
from pathlib import Path

from bloomery.base.errors import ConfigError
from bloomery.config.corpus import IngestConfig
from bloomery.config.sources import FileSource, SourceBase


def plan_parts(source: SourceBase, ingest: IngestConfig) -> list[list[str] | None]:
    """Files of each part of a source, in order; `[None]` for a source that is not made of files.

    Files are sorted by name and grouped greedily up to `ingest.shard_bytes` of file size; a larger file is a part of
    its own. The plan depends on names and sizes only, so a rerun finds the same parts.

    Raises:
        ConfigError: a path or pattern that matches no file, with its key path.
    """
    if not isinstance(source, FileSource):
        return [None]
    files: set[str] = set()
    for number, pattern in enumerate(source.paths):
        files.update(_matches(pattern, f"sources[{source.name}].paths[{number}]"))
    parts: list[list[str] | None] = []
    group: list[str] = []
    group_bytes = 0
    for name in sorted(files):
        size = Path(name).stat().st_size
        if group and group_bytes + size > ingest.shard_bytes:
            parts.append(group)
            group, group_bytes = [], 0
        group.append(name)
        group_bytes += size
    parts.append(group)
    return parts


def _matches(pattern: str, where: str) -> list[str]:
    """Files that a name or pattern matches; a name without wildcards is taken literally first."""
    if Path(pattern).is_dir():
        raise ConfigError(
            f"{pattern!r} is a folder", where=where, expected=f"its files, such as '{pattern.rstrip('/')}/*.jsonl'"
        )
    if Path(pattern).is_file():
        return [pattern]
    found = [name for name in glob.glob(pattern, recursive=True) if Path(name).is_file()]  # noqa: PTH207 (keeps "./")
    if not found:
        raise ConfigError(
            f"no file matches {pattern!r}",
            where=where,
            expected=f"a file or pattern, absolute or relative to {Path.cwd()}",
        )
    return found

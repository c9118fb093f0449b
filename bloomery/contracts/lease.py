"""Define train/lease, the file that names the process that trains a run.

The training's launcher locks and writes the file, and `bloomery status` reads it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bloomery.base.json_text import parse_json

LEASE_NAME = "lease"


@dataclass(frozen=True)
class LeaseHolder:
    """Process that trains a run."""

    pid: int
    host: str
    job: str | None
    """SLURM job that the process belongs to; None outside SLURM."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" + (f", SLURM job {self.job}" if self.job else "")

    @property
    def how_to_end(self) -> str:
        """Command that makes the process save a checkpoint and end."""
        return f"scancel {self.job}" if self.job else f"kill -TERM {self.pid}"


def render_holder(holder: LeaseHolder) -> str:
    """Return the content of the lease's file while the lease is held."""
    return json.dumps(asdict(holder))


def parse_holder(text: str | bytes) -> LeaseHolder | None:
    """Return the process that wrote the lease's file; None if the lease was released or the file is unreadable."""
    try:
        holder = LeaseHolder(**parse_json(text))
    except (ValueError, TypeError):
        return None
    legal = type(holder.pid) is int and 0 < holder.pid < 2**31 and isinstance(holder.host, str)
    return holder if legal and isinstance(holder.job, str | None) else None


def read_holder(folder: Path) -> tuple[LeaseHolder, float] | None:
    """Return the process that holds the lease in `folder`, and when it took the lease, in seconds of the Unix epoch.

    Return None if the lease was released, or if the file is missing or unreadable. The process may have died.
    """
    path = folder / LEASE_NAME
    try:
        holder, since = parse_holder(path.read_bytes()), path.stat().st_mtime
    except OSError:
        return None
    return None if holder is None else (holder, since)

"""train/lease: who trains a run. The launcher holds it and writes it; `bloomery status` reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

LEASE_NAME = "lease"


@dataclass(frozen=True)
class LeaseHolder:
    """Who trains."""

    pid: int
    host: str
    job: str | None
    """SLURM job, if in one."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" + (f", SLURM job {self.job}" if self.job else "")

    @property
    def how_to_end(self) -> str:
        """The command that lets it save and end."""
        return f"scancel {self.job}" if self.job else f"kill -TERM {self.pid}"


def render_holder(holder: LeaseHolder) -> str:
    """What the lease's file says while it is held."""
    return json.dumps(asdict(holder))


def parse_holder(text: str) -> LeaseHolder | None:
    """Who wrote the lease's file; None when it was given back or says nothing."""
    try:
        return LeaseHolder(**json.loads(text))
    except (ValueError, TypeError):
        return None

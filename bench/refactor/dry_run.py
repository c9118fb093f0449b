"""Run `snakemake --dry-run` and write the data of each job, taken from Snakemake's log events, to JOBS.json:
`python dry_run.py JOBS.json ARGUMENTS`.

The printed text of a job contains only its message and shell command. The events also contain files, resources and
threads.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import snakemake.logging
from snakemake.cli import main

_FIELDS = ("rule_name", "input", "output", "log", "benchmark", "threads", "is_checkpoint", "shellcmd")

jobs: list[dict[str, Any]] = []


def keep(record: logging.LogRecord) -> bool:
    """Store the job if the record is the event of a job. Return true, because a logging filter that returns false drops
    the record."""
    # Exclude the job's number, because Snakemake numbers jobs in no fixed order, and the resources that Snakemake
    # generates (`tmpdir` and names that begin with an underscore).
    if hasattr(record, "rule_name") and hasattr(record, "shellcmd"):
        job = {name: getattr(record, name) for name in _FIELDS} | {"message": record.rule_msg}
        job["wildcards"] = dict(record.wildcards)
        job["resources"] = {
            name: value if isinstance(value, int | float | str) else str(value)
            for name, value in sorted(record.resources.items())
            if name != "tmpdir" and not name.startswith("_")
        }
        for name in ("input", "output", "log"):
            job[name] = [str(each) for each in job[name]]
        jobs.append(job)
    return True


if __name__ == "__main__":
    output = Path(sys.argv[1])
    sys.argv = ["snakemake", *sys.argv[2:]]
    assert "--dry-run" in sys.argv
    snakemake.logging.logger.addFilter(keep)
    try:
        main()
    finally:
        ordered = sorted(jobs, key=lambda job: json.dumps(job, sort_keys=True, default=str))
        output.write_text(json.dumps(ordered, default=str))

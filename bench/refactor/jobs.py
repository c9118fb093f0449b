"""Record the jobs of a dry-run of every shipped configuration and the sections that the dry-run writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import adapter
from command_line import normalised
from folders import VARIABLES, empty_folder, name_of, with_inputs

_TALK = re.compile(r"^(Using profile|Assuming|Building DAG|Reasons?:|Complete log|Elapsed time|\[).*\n", re.MULTILINE)


def record(folder: Path) -> dict[str, Any]:
    """Return the jobs of each case, or the error message if the workflow refuses it. `folder` must be empty."""
    found = {}
    for config in adapter.CONFIGS:
        name = name_of(config)
        found[f"{name} without data"] = dry_run(empty_folder(folder / "bare" / name), name, adapter.LOCAL)
        text = config.read_text(encoding="utf-8")
        if config.parent.name == "models" or any(variable in text for variable in VARIABLES):
            work = with_inputs(folder / "full" / name)
            found[f"{name} with data"] = dry_run(work, name, adapter.LOCAL, **VARIABLES)
    for name in (adapter.SAMPLE, "config/models/tr11-176b.yaml"):
        work = with_inputs(folder / "slurm" / name)
        (work / "site.yaml").write_bytes(adapter.SITE.read_bytes())
        found[f"{name} on a cluster"] = dry_run(work, name, adapter.SLURM)
    return found


def dry_run(work: Path, config: str, profile: list[str], *more: str, **environment: str) -> dict[str, Any]:
    """Run `snakemake --dry-run` in the folder `work`, and return its jobs and sections, or its error message."""
    jobs = work / "jobs.json"
    command = [sys.executable, str(Path(__file__).with_name("dry_run.py")), str(jobs), *more, "--dry-run"]
    command += [*adapter.SNAKEFILE, *profile, "--directory", ".", "--configfile", config]
    done = subprocess.run(
        command, cwd=work, env=adapter.environment(**environment), capture_output=True, text=True, check=False
    )
    answer: dict[str, Any] = {"exit_code": done.returncode}
    if done.returncode:
        answer["text"] = _TALK.sub("", normalised(done.stdout + done.stderr, work))
    else:
        answer["jobs"] = json.loads(normalised(jobs.read_text(), work))
        answer["parts"] = {
            path.relative_to(work).as_posix(): json.loads(normalised(path.read_text(encoding="utf-8"), work))
            for path in sorted(work.glob("runs/*/config/**/*.json"))
        }
    return answer

"""Record the flags of sbatch for the training job on 1, 2, 4 and 48 nodes, and the errors of refused workflows.

The real SLURM executor of Snakemake runs. In place of SLURM's programs, it finds programs that record their calls. The
program named sbatch then fails, so nothing is submitted.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import adapter
import yaml
from command_line import normalised
from folders import name_of, with_inputs

_GPUS: dict[str, Any] = {"training": {"gpus_per_node": 8, "cpus_per_node": 64, "memory_mb_per_node": 480000}}
_CPUS: dict[str, Any] = {"training": {"ranks_per_node": 2, "max_minutes": 6000}}
_LAYOUTS = {
    "gpus": (_GPUS, {1: (2, 4, 1), 2: (4, 4, 1), 4: (4, 4, 2), 48: (4, 12, 8)}),
    "cpus": (_CPUS, {1: (2, 1, 1), 2: (2, 2, 1), 4: (2, 2, 2), 48: (2, 12, 4)}),
}
"""For each kind of node: the site, and the layout (tensor, pipeline, data) for each number of nodes."""
_PROGRAM = f"""#!{sys.executable}
import json, pathlib, sys
name = pathlib.Path(sys.argv[0]).name
if name == "sbatch":
    with open(pathlib.Path(sys.argv[0]).with_name("calls.jsonl"), "a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\\n")
    sys.exit(1)
if name == "sacctmgr":
    print("abc@gpu\\nabc@cpu")
if name == "sinfo":
    print("cpu\\ngpu_p\\nprepost")
"""
_NAMES = ("sbatch", "squeue", "sinfo", "sacct", "sacctmgr", "scontrol", "scancel", "sshare", "srun")


def record(folder: Path) -> dict[str, Any]:
    """Return the flags of sbatch and the options of the launcher for each case, and the errors of refused workflows.

    `folder` must be empty.
    """
    sample = yaml.safe_load((adapter.ROOT / adapter.SAMPLE).read_text())
    found: dict[str, Any] = {}
    for kind, (site, layouts) in _LAYOUTS.items():
        for nodes, layout in layouts.items():
            config = copy.deepcopy(sample)
            config["training"]["parallel"] = dict(zip(("tensor", "pipeline", "data"), layout, strict=True))
            config["training"]["batch"] = {"micro_batch_size": 1, "global_batch_size": 64}
            config["model"]["layers"] = 12
            found[f"{nodes} nodes with {kind}"] = _training(folder / f"{kind}-{nodes}", config, site)
    site = yaml.safe_load(adapter.SITE.read_text())
    shipped = yaml.safe_load((adapter.ROOT / "config/models/tr11-176b.yaml").read_text())
    found["tr11-176b on the shipped site"] = _training(folder / "shipped", shipped, site)
    # Refused sites: the processes do not fill the nodes, the job is too short, and a key is unknown.
    refused = {"nodes are not filled": {"ranks_per_node": 3}, "job too short": {"max_minutes": 5}, "key": {"nodes": 2}}
    for name, training in refused.items():
        found[name] = _training(folder / name.replace(" ", "-"), sample, {"training": training})
    models = [path for path in adapter.CONFIGS if path.parent.name == "models"]
    return {"training": found, "started": {name_of(path): _started(folder / path.stem, path) for path in models}}


def _slurm(work: Path, *arguments: str) -> tuple[int, list[list[str]], str]:
    """Run snakemake with the recording programs, and return its exit code, the calls of sbatch, and its output."""
    programs = work / "programs"
    programs.mkdir()
    for name in _NAMES:
        (programs / name).write_text(_PROGRAM)
        (programs / name).chmod(0o755)
    environment = adapter.environment()
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    quick = ["--slurm-init-seconds-before-status-checks", "1", "--retries", "0", "--latency-wait", "1"]
    command = [*adapter.SNAKEMAKE, *arguments, *adapter.SNAKEFILE, *adapter.SLURM, *quick, "--directory", "."]
    command += ["--configfile", "run.yaml"]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    calls = programs / "calls.jsonl"
    lines = calls.read_text().splitlines() if calls.exists() else []
    return done.returncode, [json.loads(line) for line in lines], normalised(done.stdout + done.stderr, work)


def _training(work: Path, config: dict[str, Any], site: dict[str, Any]) -> dict[str, Any]:
    """Submit only the first segment with empty input files, then read the shell command that the job would run."""
    with_inputs(work)
    (work / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (work / "site.yaml").write_text(yaml.safe_dump(site))
    run = f"runs/{config['name']}"
    for name in ("index/index.json", "index/verified.json", "tokenizer/tokenizer.json"):
        (work / run / name).parent.mkdir(parents=True, exist_ok=True)
        (work / run / name).touch()
    target = [adapter.segment_file(run, 1), "--allowed-rules", adapter.TRAINING_RULE]
    _, calls, talk = _slurm(work, *target)
    refusal = re.findall(r"^error: .*(?:\n  .*)*", talk, flags=re.MULTILINE)
    # The job runs `snakemake --mode remote`. A dry-run of this command prints the shell command with its node options.
    command = [*adapter.SNAKEMAKE, *target, "--dry-run", "--printshellcmds", "--mode", "remote", *adapter.SNAKEFILE]
    command += ["--directory", ".", "--configfile", "run.yaml"]
    inside = subprocess.run(command, cwd=work, env=adapter.environment(), capture_output=True, text=True, check=False)
    shell = re.findall(r"^ *Shell command: (.*)", inside.stdout + inside.stderr, flags=re.MULTILINE)
    return {"sbatch": [_flags(call, work) for call in calls], "shell": shell, "text": refusal}


def _started(work: Path, config: Path) -> dict[str, Any]:
    """Start the whole workflow, and return whether it submits a job, and the error message if it refuses to start."""
    with_inputs(work)
    (work / "run.yaml").write_bytes(config.read_bytes())
    code, calls, talk = _slurm(work)
    refusal = re.findall(r"^error: .*", talk, flags=re.MULTILINE)
    return {"exit_code": code, "submits": bool(calls), "text": refusal}


def _flags(call: list[str], work: Path) -> list[str]:
    """Remove the flags that differ between runs: the name of the workflow, and the command with its absolute paths."""
    flags, skip = [], False
    for word in call:
        if not skip and not word.startswith("--wrap"):
            flags.append(normalised(word, work))
        skip = word == "--job-name"
    return flags
